/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The stages that see other rows: K and V of the step's rows are written, then attention. */

#include "forward/llm-forward-private.h"

#include <string.h>

/* Items are the rows of a head, then those of the next: neighbours in memory. */
static void
write_heads (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  LlmStep *self = data;
  const LlmLayer *layer = llm_step_get_layer (self);

  for (guint item = first; item < end; item++)
    {
      guint head = item / self->batch->n_rows, r = item % self->batch->n_rows;
      const LlmRow *row = llm_step_get_row (self, r);
      gsize at = ((gsize) r * layer->n_kv_heads + head) * layer->head_dim;

      llm_kv_seq_write_head (self->batch->sequences[row->sequence], self->layer, head, row->slot,
                             self->scratch.k + at, self->scratch.v + at);
    }
}

/* The last chunk of a sequence may have to come back before it is written on. */
LlmStatus
llm_forward_run_remember (LlmStep         *self,
                          const LlmStage  *stage,
                          GError         **error)
{
  const LlmLayer *layer = llm_step_get_layer (self);
  const LlmBatch *batch = self->batch;

  for (guint i = 0; i < batch->n_sequences; i++)
    {
      LlmStatus status = llm_kv_seq_make_resident (batch->sequences[i], self->layer, error);

      if (status != LLM_READY)
        return status;
    }

  for (guint r = 0; r < batch->n_rows; r++)
    llm_kv_seq_begin_write (batch->sequences[batch->rows[r].sequence], batch->rows[r].slot);
  /* Keys are written across memory: about four times what a value costs elsewhere. */
  llm_worker_pool_run (self->pool, batch->n_rows * layer->n_kv_heads,
                       llm_step_get_grain (8 * layer->head_dim), write_heads, self);
  for (guint r = 0; r < batch->n_rows; r++)
    llm_kv_seq_end_write (batch->sequences[batch->rows[r].sequence], self->layer,
                          batch->rows[r].slot);
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
        llm_kv_seq_view (self->batch->sequences[i], llm_step_get_layer (self)->kv_layer, chunk,
                         &g_array_index (self->views, LlmKvView, first + chunk));
    }
}

/* --- density --- */

static gboolean
is_drafted (const LlmRow *row)
{
  return row->is_counted && row->is_drafted;
}

/* Rows of a sequence add to the same masses; those that are drafted have some of their own. */
void
llm_step_place_masses (LlmStep *self)
{
  g_array_set_size (self->drafted, 0);
  self->rows.n_masses = self->views->len;
  for (guint r = 0; r < self->batch->n_rows; r++)
    {
      const LlmRow *row = llm_step_get_row (self, r);
      const guint *first_view = &g_array_index (self->first_view, guint, row->sequence);

      self->rows.first_mass[r] = first_view[0];
      if (self->collects_density && is_drafted (row))
        {
          LlmDrafted drafted = { self->rows.order[r], self->rows.n_masses,
                                 first_view[1] - first_view[0],
                                 row->slot, row->visibility };

          self->rows.first_mass[r] = self->rows.n_masses;
          self->rows.n_masses += drafted.n_chunks;
          g_array_append_val (self->drafted, drafted);
        }
    }
}

/* How many slots of a chunk the row sees. */
static guint
count_slots (const LlmVisibility *visibility,
             guint                slot,
             guint                first,
             guint                n_slots)
{
  return (guint) __builtin_popcountll (llm_visibility_mask (visibility, slot, 0, first, n_slots));
}

/* How many slots of the chunk the counted rows see. So attention by rows is the sum over slots of
 * what each gets from a row that sees it (equation 1). */
static guint64
count_seen (LlmStep         *self,
            guint            sequence,
            const LlmKvView *view)
{
  guint64 n_slots = 0;

  for (guint r = 0; r < self->batch->n_rows; r++)
    {
      const LlmRow *row = &self->batch->rows[r];

      if (row->sequence == sequence && row->is_counted && !row->is_drafted)
        n_slots += count_slots (&row->visibility, row->slot, view->first_slot, view->n_slots);
    }

  return n_slots;
}

/* What all workers have, to the first one's. */
static void
join_masses (LlmStep *self)
{
  const guint n_threads = llm_worker_pool_get_n_threads (self->pool);

  for (guint worker = 1; worker < n_threads; worker++)
    for (guint i = 0; i < self->rows.n_masses; i++)
      self->scratch.received[i] += self->scratch.received[(gsize) worker * self->rows.n_masses + i];
}

/* Adds the attention scores of all layers, once: a step that is abandoned adds none. */
void
llm_step_add_densities (LlmStep *self)
{
  join_masses (self);
  for (guint i = 0; i < self->batch->n_sequences; i++)
    {
      guint first = g_array_index (self->first_view, guint, i);
      guint end = g_array_index (self->first_view, guint, i + 1);

      for (guint at = first; at < end; at++)
        {
          guint64 n_slots = count_seen (self, i, &g_array_index (self->views, LlmKvView, at));

          if (n_slots > 0)
            llm_kv_seq_add_density (self->batch->sequences[i], at - first,
                                    self->scratch.received[at], n_slots);
        }
    }
}

void
llm_step_accept (LlmStep  *self,
                 LlmKvSeq *seq,
                 guint     row)
{
  guint slots = seq->store->layout.chunk_slots;

  g_return_if_fail (self->batch == NULL && row < self->rows.n_done_rows);

  for (guint i = 0; self->block != NULL && i < self->drafted->len; i++)
    {
      const LlmDrafted *drafted = &g_array_index (self->drafted, LlmDrafted, i);

      if (drafted->row != row)
        continue;
      for (guint chunk = 0; chunk < drafted->n_chunks; chunk++)
        {
          guint n = count_slots (&drafted->visibility, drafted->slot, chunk * slots, slots);

          if (n > 0)
            llm_kv_seq_add_density (seq, chunk,
                                    self->scratch.received[drafted->first_mass + chunk], n);
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
      llm_forward_zero_inactive (self, stage->input);
      return LLM_READY;
    }
  find_views (self);
  if (self->collects_density && self->layer == 0)
    memset (self->scratch.received, 0, (gsize) llm_worker_pool_get_n_threads (self->pool)
                                   * self->rows.n_masses * sizeof (guint64));
  llm_step_describe_attention (self, self->layer, &attention);
  attention.scale = self->hparams->scales.attention;
  attention.softcap = self->hparams->scales.attention_softcap;
  attention.sinks = self->hold->views[0].data;
  attention.window = llm_step_get_layer (self)->window;
  attention.density_share = 1 / ((float) self->hparams->n_layers
                                 * (float) llm_step_get_layer (self)->n_heads);
  llm_step_add_attention (self, &attention);
  return llm_step_submit (self, error);
}
