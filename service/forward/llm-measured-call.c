/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "forward/llm-measured-call.h"

#include <math.h>

#include "base/llm-clock.h"

/* Rows of one step: enough to use each weight often, few enough for caches. */
#define STEP_ROWS 256
/* Between looks at what else there is to do: nothing. */
#define SLICE_US 100000

gboolean
llm_measured_call_begin (LlmKvSeq *seq,
                         guint     n_new,
                         GError  **error)
{
  LlmKvPlan plan;

  return llm_kv_seq_begin_call (seq, n_new, &plan, error);
}

static gboolean
run_step (LlmForward     *forward,
          const LlmBatch *batch,
          GError        **error)
{
  LlmStatus status;

  if (!llm_forward_begin (forward, batch, error))
    return FALSE;

  /* Nothing else runs beside this: what is awaited comes from other threads. */
  while ((status = llm_forward_resume (forward, error)) == LLM_PENDING)
    g_thread_yield ();

  return status == LLM_READY;
}

gboolean
llm_measured_call_read (LlmForward          *forward,
                        LlmKvSeq            *seq,
                        const gint32        *tokens,
                        guint                n_tokens,
                        LlkRowKind           kind,
                        guint                first_wanted,
                        LlmMeasuredCallFunc  func,
                        gpointer             data,
                        GError             **error)
{
  guint begin = llm_kv_seq_get_length (seq);
  LlmRow rows[STEP_ROWS] = { 0 };
  LlmBatch batch = { rows, 0, &seq, 1 };

  if (!llm_kv_seq_append (seq, n_tokens - begin, error))
    return FALSE;

  for (guint first = begin; first < n_tokens; first += batch.n_rows)
    {
      batch.n_rows = MIN (STEP_ROWS, n_tokens - first);
      for (guint i = 0; i < batch.n_rows; i++)
        rows[i] = (LlmRow) {
          .token = tokens[first + i],
          .position = first + i,
          .slot = first + i,
          .kind = kind,
          .sub_model = 100,
          .wants_logits = func != NULL && first + i >= first_wanted,
        };
      if (!run_step (forward, &batch, error))
        return FALSE;
      for (guint i = 0; i < batch.n_rows; i++)
        if (rows[i].wants_logits)
          func (first + i, llm_forward_get_logits (forward, i), data);
    }

  return TRUE;
}

void
llm_measured_call_end (LlmKvStore   *store,
                       LlmKvSeq     *seq,
                       const gint32 *tokens)
{
  llm_kv_seq_end_call (seq, tokens, llm_kv_seq_get_length (seq));
  while (!llm_kv_store_is_settled (store))
    if (!llm_kv_store_work (store, llm_clock_now_us () + SLICE_US)
        && !llm_kv_store_is_settled (store))
      llm_kv_store_wait (store, SLICE_US);
}

static guint
find_top (const float *logits,
          guint        n)
{
  guint top = 0;

  for (guint i = 1; i < n; i++)
    if (logits[i] > logits[top])
      top = i;

  return top;
}

/* What turns logits into logarithms of probabilities. */
static double
get_offset (const float *logits,
            guint        n,
            float        max)
{
  double sum = 0;

  for (guint i = 0; i < n; i++)
    sum += exp ((double) logits[i] - (double) max);

  return (double) max + log (sum);
}

double
llm_measure_divergence (const float *p_logits,
                        const float *q_logits,
                        guint        n_vocab,
                        gboolean    *is_same_top)
{
  guint p_top = find_top (p_logits, n_vocab), q_top = find_top (q_logits, n_vocab);
  double p_offset = get_offset (p_logits, n_vocab, p_logits[p_top]);
  double q_offset = get_offset (q_logits, n_vocab, q_logits[q_top]);
  double sum = 0;

  for (guint i = 0; i < n_vocab; i++)
    {
      double p = (double) p_logits[i] - p_offset, q = (double) q_logits[i] - q_offset;

      sum += exp (p) * (p - q);
    }
  if (is_same_top != NULL)
    *is_same_top = p_top == q_top;

  return MAX (sum, 0);
}
