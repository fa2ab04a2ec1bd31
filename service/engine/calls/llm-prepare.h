/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * From messages to the tokens of a prompt: template and tokenizer in one call. Long texts may take
 * a while, so it runs in a thread of GLib's pool; it works on its own copies and shares only the
 * immutable model. Constraints are compiled in two threads of low priority beside that, so that one
 * caller's grammars do not delay other callers' texts.
 */

#pragma once

#include <gio/gio.h>

#include "constraints/llm-constraint-cache.h"
#include "model/llm-model.h"

G_BEGIN_DECLS

typedef struct
{
  GArray *settled;       /* (element-type gint32): tokens before the messages */
  LlmPoint point;        /* where those end in the conversation */
  GArray *messages;      /* (element-type LlmMessage) (owned): all of the conversation, in order */
  guint n_settled;       /* how many of these are settled already: templates look at them */
  LlmTemplate *template; /* (nullable) (unowned): of the model; NULL: its default */
  char *tools;           /* (nullable) (owned): JSON, as in LlmTemplateCall */
  char *variables;       /* (nullable) (owned): likewise */
  LlmThinking thinking;
  char *raw;             /* (nullable): a raw prompt, instead of messages */
  char *suffix;          /* (nullable) (owned): with @raw: the text after the gap that the model
                          * fills */
  gboolean continues;    /* the last message is an answer, which stays open */
  gboolean opens_answer; /* end with the markup that opens an answer */
  gboolean counts_system; /* count the tokens of the system messages at the beginning: */
  guint n_system;        /* the first ones of messages */
  LlmConstraintCache *constraints; /* (nullable) (owned): compiles the constraint: */
  LlmConstraintKind kind;
  char *constraint;
  char *app;             /* (owned): the application: one of its constraints is compiled at a
                          * time */
  GCancellable *cancellable; /* (nullable) (owned): cancels compiling */
  guint level;           /* percent of the tokens behind the settled ones that are to stay: words
                          * are left out of messages; 0: all */

  /*< private >: in the other thread */
  LlmModel *model;       /* (nullable) (owned) */
  guint n_counted;       /* tokens of the system messages */
  LlmThought thought;    /* whether the prompt ends in reasoning */
  guint n_left_out;      /* tokens that level has taken */
  LlmMaskTable *masks;   /* (nullable) (owned) */
  GArray *tokens;        /* (nullable) (owned): while the constraint is compiled */
} LlmPrepareInput;

LlmPrepareInput *llm_prepare_input_new         (void);
void             llm_prepare_input_free        (LlmPrepareInput *input);
/* @extras: (nullable): JSON, as in LlmMessage. */
void             llm_prepare_input_add_message (LlmPrepareInput *input,
                                                const char      *role,
                                                const char      *text,
                                                const char      *extras);

/* (transfer full) (element-type gint32): the settled tokens and those of the messages. @n_system:
 * (out) (optional): how many of them are of the system messages and the template's markup around
 * these, up to the text of the first other message; 0 when they are not counted. */
GArray *llm_prepare        (LlmModel              *model,
                            LlmPrepareInput       *input,
                            guint                 *n_system,
                            GError               **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same in another thread, with the constraint: @masks: (out) (optional) (nullable) (transfer
 * full). Takes @input. */
void    llm_prepare_async  (LlmModel              *model,
                            LlmPrepareInput       *input,
                            GAsyncReadyCallback    callback,
                            gpointer               data);
GArray *llm_prepare_finish (GAsyncResult          *result,
                            guint                 *n_system,
                            LlmMaskTable         **masks,
                            GError               **error);

/* Whether the prompt ends in reasoning. */
LlmThought llm_prepare_get_thought (GAsyncResult      *result);
/* How many tokens the level has taken from the prompt. */
guint   llm_prepare_get_left_out (GAsyncResult        *result);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPrepareInput, llm_prepare_input_free)

G_END_DECLS
