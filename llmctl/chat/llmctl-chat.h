/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A chat: one conversation at a time with what is needed to go on with it when the
 * service is restarted or a turn is stopped. Main thread.
 */

#pragma once

#include <gio/gio.h>

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

typedef struct
{
  LlmsvcClient *client;      /* (owned) */
  LlmsvcOptions *options;    /* (owned): of each turn */
  LlmsvcOptions *made;       /* (owned): of each context that is made */
  LlmsvcContext *context;    /* (nullable) (owned) */
  char *name;                /* (nullable) (owned): of a context that is kept */
  char *system;              /* (nullable) (owned): system text of a new context */

  /* What was said in a context that is not kept: it is begun anew with it when the
   * service has gone away meanwhile. */
  GPtrArray *said;           /* (element-type GVariant) (owned): (ssa{sv}) */

  char *last_prompt;         /* (nullable) (owned) */
  LlmsvcOptions *last_options; /* (nullable) (owned): it was asked with; again with the same */
  gboolean may_be_kept;      /* the last turn: asking it again, with its request-id, tells */
  gboolean is_last_kept;     /* the last turn is in the context */

  GDataInputStream *input;   /* (nullable) (owned): the standard input when it is no terminal */
  gboolean is_interactive;   /* on a terminal: prompts, notes, editing */
  gboolean wants_block;      /* the next entry is a block */
  gboolean has_told_full;    /* what to do about a context that is full */
  gboolean is_over;
  LlmctlExit status;         /* of the last failure */
} LlmctlChat;

/* --- llmctl-chat-session.c --- */

void     llmctl_chat_clear       (LlmctlChat    *self);
/* One line for people on a terminal; nothing elsewhere. */
void     llmctl_chat_note        (LlmctlChat    *self,
                                  const char    *format,
                                  ...) G_GNUC_PRINTF (2, 3);

/* Goes over to the context @name, made if there is none, or to a new one that is not
 * kept for NULL; on failure everything stays as it was. */
gboolean llmctl_chat_open        (LlmctlChat    *self,
                                  const char    *name,
                                  GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* Makes sure that there is a context, after a restart of the service too. */
gboolean llmctl_chat_ensure      (LlmctlChat    *self,
                                  GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full): what was said. (element-type LlmsvcMessage) */
GPtrArray *llmctl_chat_read      (LlmctlChat    *self,
                                  GError       **error);
/* Forgets the last turns; of a single one the question stays for /retry. */
gboolean llmctl_chat_undo        (LlmctlChat    *self,
                                  guint          n_turns,
                                  GError       **error) G_GNUC_WARN_UNUSED_RESULT;

/* One turn, its answer written as it comes. Says itself what goes wrong. */
void     llmctl_chat_ask         (LlmctlChat    *self,
                                  const char    *prompt);
/* The last one again: in its place when it was kept. */
void     llmctl_chat_retry       (LlmctlChat    *self);

/* --- llmctl-chat-commands.c --- */

/* @line: begins with “/”. */
void     llmctl_chat_run_command (LlmctlChat    *self,
                                  const char    *line);
/* A LlmctlChatLineComplete; @chat is the LlmctlChat. */
void     llmctl_chat_complete    (const char    *before,
                                  GPtrArray     *candidates,
                                  gpointer       chat);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlChat, llmctl_chat_clear)

G_END_DECLS
