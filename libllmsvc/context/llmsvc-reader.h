/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads one answer from its pipe, a piece at a time and only when asked to, so that the
 * service waits for an app that does not read. Shared by the generation and its stream; the pipe is
 * closed with the last of them, which cancels at the service. Reads may be in any thread, one
 * at a time; the observer is told in the thread that made it.
 */

#pragma once

#include "common/llmsvc-line.h"
#include "context/llmsvc-turn.h"
#include "llmsvc-answer.h"
#include "llmsvc-context.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_READER (llmsvc_reader_get_type ())
G_DECLARE_FINAL_TYPE (LlmsvcReader, llmsvc_reader, LLMSVC, READER, GObject)

typedef struct
{
  const char *path;        /* of the generation on the bus */
  const char *request_id;
  LlmsvcTurn before;       /* the context before the turn */
  gboolean is_standalone;  /* the context is a hidden one */
} LlmsvcReaderSetup;

struct _LlmsvcReader
{
  GObject parent_instance;

  LlmsvcContext *context;   /* (owned) */
  GThread *thread;          /* (unowned): where it was made */
  char *path;
  char *request_id;
  LlmsvcTurn before;
  gboolean is_standalone;
  GWeakRef observer;        /* notifies its "is-done" and "answer" when it is known how it ended, and
                             * emits "tool-call" */

  int fd;                   /* -1 when it is closed, which it is not during a read */
  LlmsvcLineReader *lines;  /* (owned) */
  GCancellable *closing;    /* (owned): cancelled when the answer is given up */

  GMutex lock;              /* guards what follows */
  gboolean is_reading;
  gboolean is_settled;
  GString *text;            /* all pieces that were given out */
  GString *logprobs;        /* members of a JSON array, that came beside them */
  LlmsvcAnswer *answer;     /* (nullable) (owned) */
  GError *failure;          /* (nullable) (owned) */
};

/* @fd: (transfer full): the reading end. */
LlmsvcReader  *llmsvc_reader_new            (LlmsvcContext           *context,
                                             int                      fd,
                                             const LlmsvcReaderSetup *setup);

/* The next piece, never empty, as the pointer of a task of @source; NULL without @error at the
 * end of the answer. Cancelling stops the reading and loses nothing. */
void           llmsvc_reader_next_async     (LlmsvcReader        *self,
                                             gpointer             source,
                                             GCancellable        *cancellable,
                                             GAsyncReadyCallback  callback,
                                             gpointer             user_data);
/* Reads to the end; the whole answer is the pointer of @task. Cancelling that closes the pipe. */
void           llmsvc_reader_drain          (LlmsvcReader        *self,
                                             GTask               *task);
/* Gives the answer up, which cancels it at the service. Nothing when it has ended. */
void           llmsvc_reader_close          (LlmsvcReader        *self);

gboolean       llmsvc_reader_get_is_settled (LlmsvcReader        *self);
/* (nullable): NULL until it has come to its end, or when it failed. */
LlmsvcAnswer  *llmsvc_reader_get_answer     (LlmsvcReader        *self);

G_END_DECLS
