/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "exec/llm-attention.h"

#include <math.h>

/* Rows of one head that a worker takes at a time: they share the head's K and V. */
#define ROWS_PER_RUN 8

/* Bits for the slots of [@low, @high) in a chunk that starts at @first. */
static guint64
get_range_bits (guint64 low,
                guint64 high,
                guint   first,
                guint   n_slots)
{
  guint64 from = MAX (low, first) - first;
  guint64 to = MIN (MAX (high, first) - first, n_slots);

  if (from >= to)
    return 0;

  return (to - from == 64 ? G_MAXUINT64 : (G_GUINT64_CONSTANT (1) << (to - from)) - 1) << from;
}

/* The tree's bits, moved from where the tree starts to where the chunk does. */
static guint64
get_tree_bits (guint64 ancestors,
               guint   base,
               guint   first)
{
  if (base >= first)
    return base - first < 64 ? ancestors << (base - first) : 0;

  return first - base < 64 ? ancestors >> (first - base) : 0;
}

guint64
llm_visibility_mask (const LlmVisibility *visibility,
                     guint                slot,
                     guint                first,
                     guint                n_slots)
{
  guint64 end = (guint64) slot + 1;
  guint64 written = get_range_bits (first, (guint64) first + n_slots, first, n_slots);

  switch (visibility->kind)
    {
    case LLM_VISIBLE_CAUSAL:
      return get_range_bits (0, end, first, n_slots);
    case LLM_VISIBLE_WINDOW:
      return get_range_bits (0, MIN (visibility->sinks, end), first, n_slots)
             | get_range_bits (end - MIN (visibility->window, end), end, first, n_slots);
    case LLM_VISIBLE_TREE:
      return get_range_bits (0, visibility->base, first, n_slots)
             | (get_tree_bits (visibility->ancestors, visibility->base, first) & written);
    case LLM_VISIBLE_SEGMENT:
      return written;
    }
  g_assert_not_reached ();
}

static void
attend_chunk (const LlmAttention *self,
              const LlmKvView    *view,
              guint               kv_head,
              guint64             mask,
              const float        *q,
              LlkAttentionState  *state,
              float              *probabilities)
{
  gsize at = (gsize) kv_head * view->chunk_slots * self->head_dim;
  float scale = 1 / sqrtf ((float) self->head_dim);

  if (view->format == LLM_KV_F32)
    self->kernels->attend_f32 (q, (const float *) view->k + at, (const float *) view->v + at,
                               self->head_dim, view->n_slots, mask, scale, state, probabilities);
  else
    self->kernels->attend_f16 (q, (const guint16 *) view->k + at, (const guint16 *) view->v + at,
                               self->head_dim, view->n_slots, mask, scale, state, probabilities);
}

/* Brings what each chunk got to the final maximum and sum, and adds it up. */
static void
add_mass (const LlmAttention      *self,
          const LlkAttentionState *state,
          const LlmAttentionShare *shares,
          guint                    first_view,
          guint                    n_chunks)
{
  for (guint i = 0; i < n_chunks; i++)
    {
      double mass = shares[i].mass * exp ((double) shares[i].max - state->max) / state->sum;

      if (mass > 0 && mass < 2)
        __atomic_fetch_add (&self->mass[first_view + i],
                            (guint64) (mass / LLM_ATTENTION_MASS_UNIT), __ATOMIC_RELAXED);
    }
}

/* One row, @n_heads query heads from @head on, all of one KV head. */
static void
attend_row (const LlmAttention *self,
            guint               index,
            guint               head,
            guint               n_heads,
            guint               worker)
{
  const LlmRow *row = &self->rows[self->order[index]];
  guint kv_head = head / (self->n_heads / self->n_kv_heads);
  guint first_view = self->first_view[row->sequence];
  guint n_chunks = self->first_view[row->sequence + 1] - first_view;
  gsize at = ((gsize) index * self->n_heads + head) * self->head_dim;
  LlkAttentionState states[LLM_ATTENTION_HEADS];
  LlmAttentionShare *shares = NULL;
  float probabilities[LLK_ATTENTION_MAX_SLOTS];

  if (self->mass != NULL)
    shares = self->shares + (gsize) worker * LLM_ATTENTION_HEADS * self->max_chunks;

  for (guint h = 0; h < n_heads; h++)
    llk_attention_begin (&states[h], self->head_dim);

  for (guint i = 0; i < n_chunks; i++)
    {
      const LlmKvView *view = &self->views[first_view + i];
      guint64 mask = llm_visibility_mask (&row->visibility, row->slot, view->first_slot,
                                          view->n_slots);

      for (guint h = 0; h < n_heads; h++)
        {
          if (mask != 0)
            attend_chunk (self, view, kv_head, mask, self->q + at + (gsize) h * self->head_dim,
                          &states[h], shares != NULL ? probabilities : NULL);
          if (shares != NULL)
            {
              LlmAttentionShare *share = &shares[h * self->max_chunks + i];

              share->max = states[h].max;
              share->mass = 0;
              for (guint s = 0; mask != 0 && s < view->n_slots; s++)
                share->mass += probabilities[s];
            }
        }
    }

  for (guint h = 0; h < n_heads; h++)
    {
      llk_attention_end (&states[h], self->out + at + (gsize) h * self->head_dim, self->head_dim);
      if (shares != NULL)
        add_mass (self, &states[h], shares + h * self->max_chunks, first_view, n_chunks);
    }
}

/* Items are rows within KV heads, so that neighbours share K and V. */
static void
attend_items (guint    first,
              guint    end,
              guint    worker,
              gpointer data)
{
  const LlmAttention *self = data;
  guint group = self->n_heads / self->n_kv_heads;

  for (guint item = first; item < end; item++)
    {
      guint head = item / self->n_rows * group;

      for (guint h = 0; h < group; h += LLM_ATTENTION_HEADS)
        attend_row (self, item % self->n_rows, head + h, MIN (LLM_ATTENTION_HEADS, group - h),
                    worker);
    }
}

void
llm_attention_run (const LlmAttention *self)
{
  guint grain = self->n_rows >= ROWS_PER_RUN ? ROWS_PER_RUN : 1;

  llm_worker_pool_run (self->pool, self->n_rows * self->n_kv_heads, grain, attend_items,
                       (gpointer) self);
}
