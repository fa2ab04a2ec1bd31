/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Reads one answer from its pipe, a piece at a time and only when asked to, so that the
 * service waits for who does not read. Shared by the generation and its stream; the pipe is
 * closed with the last of them, which cancels at the service. Reads may be in any thread, one
 * at a time; "settled" is emitted in the thread that made it.
 */

#pragma once

#include "llmsvc-answer.h"
#include "llmsvc-context.h"
#include "llmsvc-turn.h"

G_BEGIN_DECLS

#define LLMSVC_TYPE_READER (llmsvc_reader_get_type ())
G_DECLARE_FINAL_TYPE (LlmsvcReader, llmsvc_reader, LLMSVC, READER, GObject)

/* Signal: "settled", once: how the answer ended is known. */

typedef struct
{
  const char *path;        /* of the generation on the bus */
  const char *request_id;
  LlmsvcTurn before;       /* the context before the turn */
  gboolean is_standalone;  /* nobody sees the context */
} LlmsvcReaderSetup;

/* @fd: (transfer full): the reading end. */
LlmsvcReader  *llmsvc_reader_new            (LlmsvcContext           *context,
                                             int                      fd,
                                             const LlmsvcReaderSetup *setup);

/* The next piece, never empty; NULL without @error at the end of the answer. Cancelling stops
 * the reading and loses nothing. */
void           llmsvc_reader_next_async     (LlmsvcReader        *self,
                                             GCancellable        *cancellable,
                                             GAsyncReadyCallback  callback,
                                             gpointer             user_data);
char          *llmsvc_reader_next_finish    (LlmsvcReader        *self,
                                             GAsyncResult        *result,
                                             GError             **error);
/* The whole answer. Cancelling closes the pipe. */
void           llmsvc_reader_drain_async    (LlmsvcReader        *self,
                                             GCancellable        *cancellable,
                                             GAsyncReadyCallback  callback,
                                             gpointer             user_data);
LlmsvcAnswer  *llmsvc_reader_drain_finish   (LlmsvcReader        *self,
                                             GAsyncResult        *result,
                                             GError             **error);
/* Gives the answer up, which cancels it at the service. Nothing when it has ended. */
void           llmsvc_reader_close          (LlmsvcReader        *self);

LlmsvcContext *llmsvc_reader_get_context    (LlmsvcReader        *self);
const char    *llmsvc_reader_get_path       (LlmsvcReader        *self);
const char    *llmsvc_reader_get_request_id (LlmsvcReader        *self);
gboolean       llmsvc_reader_get_is_settled (LlmsvcReader        *self);
/* (nullable): NULL until it has come to its end, or when it failed. */
LlmsvcAnswer  *llmsvc_reader_get_answer     (LlmsvcReader        *self);

G_END_DECLS
