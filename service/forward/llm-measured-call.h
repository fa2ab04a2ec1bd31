/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls on a sequence as the service makes them, one after the other and without a service:
 * what comes between them (chunks are packed to fewer bits) is then all done. For what
 * measures how much that costs in accuracy. The store's thread.
 */

#pragma once

#include "forward/llm-forward.h"

G_BEGIN_DECLS

/* @logits of the row in slot @slot; n_vocab floats, valid while it runs. */
typedef void (*LlmMeasuredCallFunc) (guint        slot,
                                     const float *logits,
                                     gpointer     data);

/* Begins a call of @n_new more slots at most. llm_measured_call_end() ends it, also when reading
 * failed; not when this failed. */
gboolean llm_measured_call_begin (LlmKvSeq            *seq,
                                  guint                n_new,
                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
/**
 * llm_measured_call_read:
 * @forward: between steps
 * @seq: in a call
 * @tokens: (array length=n_tokens): of all slots; those behind the length of @seq are computed
 * @kind: of the rows
 * @first_wanted: @func gets the logits from this slot on
 * @func: (nullable):
 *
 * Appends rows that see all before them.
 *
 * Returns: %FALSE with @error set when a step failed
 */
gboolean llm_measured_call_read  (LlmForward          *forward,
                                  LlmKvSeq            *seq,
                                  const gint32        *tokens,
                                  guint                n_tokens,
                                  LlkRowKind           kind,
                                  guint                first_wanted,
                                  LlmMeasuredCallFunc  func,
                                  gpointer             data,
                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;
/* Ends the call, and does what the store does between calls. @tokens: of all slots. */
void     llm_measured_call_end   (LlmKvStore          *store,
                                  LlmKvSeq            *seq,
                                  const gint32        *tokens);

/* Both of the same text's next token: the sum of p × log (p / q), in nats, at least 0.
 * @is_same_top (nullable): set to whether both think the same token likeliest. */
double   llm_measure_divergence  (const float         *p_logits,
                                  const float         *q_logits,
                                  guint                n_vocab,
                                  gboolean            *is_same_top);

G_END_DECLS
