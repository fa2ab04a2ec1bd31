/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The stages that see other rows: K and V of the step's rows are written, then attention. */

#include "forward/llm-forward-private.h"

#include <string.h>

/* The last chunk of a sequence may have to come back before it is written on. */
LlmStatus
llm_forward_run_remember (LlmStep         *self,
                          const LlmStage  *stage,
                          GError         **error)
{
  gsize n_kv = (gsize) self->hparams->n_kv_heads * self->hparams->head_dim;

  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      LlmStatus status = llm_kv_seq_make_resident (self->batch->sequences[i], self->layer, error);

      if (status != LLM_READY)
        return status;
    }

  for (guint r = 0; r < self->batch->n_rows; r++)
    {
      const LlmRow *row = llm_step_get_row (self, r);

      llm_kv_seq_write (self->batch->sequences[row->sequence], self->layer, row->slot,
                        self->scratch.k + r * n_kv, self->scratch.v + r * n_kv);
    }
  return LLM_READY;
}

static void
find_views (LlmStep *self)
{
  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      guint first = g_array_index (self->first_view, guint, i);
      guint end = g_array_index (self->first_view, guint, i + 1);

      for (guint chunk = 0; chunk < end - first; chunk++)
        llm_kv_seq_view (self->batch->sequences[i], self->layer, chunk,
                         &g_array_index (self->views, LlmKvView, first + chunk));
    }
}

/* How many of the counted rows see the chunk; who sees a part of its slots counts for that part. So
 * attention by rows is the sum over slots of what each gets from a row that sees it (equation
 * 1). */
static double
count_rows (LlmStep         *self,
            guint            sequence,
            const LlmKvView *view)
{
  guint64 n_slots = 0;

  for (guint r = 0; r < self->batch->n_rows; r++)
    {
      const LlmRow *row = &self->batch->rows[r];

      if (row->sequence == sequence && row->is_counted)
        n_slots += (guint) __builtin_popcountll (llm_visibility_mask (&row->visibility, row->slot,
                                                                      0, view->first_slot,
                                                                      view->n_slots));
    }

  return (double) n_slots / view->chunk_slots;
}

/* What all layers gave out, once. */
static void
add_densities (LlmStep *self)
{
  const double share = LLM_ATTENTION_MASS_UNIT / self->hparams->n_layers / self->hparams->n_heads;
  const guint n_threads = llm_worker_pool_get_n_threads (self->pool);

  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      guint first = g_array_index (self->first_view, guint, i);
      guint end = g_array_index (self->first_view, guint, i + 1);

      for (guint at = first; at < end; at++)
        {
          double n_rows = count_rows (self, i, &g_array_index (self->views, LlmKvView, at));
          guint64 received = 0;

          for (guint worker = 0; worker < n_threads; worker++)
            received += self->scratch.received[(gsize) worker * self->views->len + at];
          if (n_rows > 0)
            llm_kv_seq_add_density (self->batch->sequences[i], at - first,
                                    (float) ((double) received * share), (float) n_rows);
        }
    }
}

LlmStatus
llm_forward_run_attention (LlmStep         *self,
                           const LlmStage  *stage,
                           GError         **error)
{
  LlmAttention attention;

  if (self->hold->phase > 0)
    {
      if (self->collects_density && self->layer + 1 == self->hparams->n_layers)
        add_densities (self);
      return LLM_READY;
    }
  find_views (self);
  if (self->collects_density && self->layer == 0)
    memset (self->scratch.received, 0, (gsize) llm_worker_pool_get_n_threads (self->pool)
                                   * self->views->len * sizeof (guint64));
  llm_step_describe_attention (self, &attention);
  attention.scale = self->hparams->attention_scale;
  attention.softcap = self->hparams->attention_softcap;
  attention.window = self->hparams->layers[self->layer].window;
  llm_step_add_attention (self, &attention);
  return llm_step_submit (self, error);
}
