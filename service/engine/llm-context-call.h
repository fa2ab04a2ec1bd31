/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a call of a context keeps while it waits, as the data of its GTask, whose
 * source is the context. For the files with the calls. Main thread.
 */

#pragma once

#include "engine/llm-context-private.h"

G_BEGIN_DECLS

typedef struct
{
  LlmCaller *caller;        /* (nullable) */
  GVariant *messages;       /* (nullable) */
  LlmCallOptions *options;   /* (nullable) */
  LlmSink *sink;            /* (nullable) */
  LlmModel *model;          /* (nullable) */
  guint first;
  guint count;
  guint n_added;            /* tokens */
  guint n_tokens;           /* with what the context holds */
  LlmPass *pass;            /* (nullable): in the quota */
} LlmContextCall;

GTask *llm_context_call_new          (LlmContext         *self,
                                      LlmCaller          *caller,
                                      GVariant           *messages,
                                      LlmCallOptions     *options,
                                      GAsyncReadyCallback callback,
                                      gpointer            data);
/* Ends a call that has claimed the context. Takes @error. */
void   llm_context_call_fail         (GTask              *task,
                                      GError             *error);
/* For llm_context_commit(): releases the context and returns TRUE or the error.
 * @data: the task, a reference. */
void   llm_context_call_on_committed (GObject            *source,
                                      GAsyncResult       *result,
                                      gpointer            data);

G_END_DECLS
