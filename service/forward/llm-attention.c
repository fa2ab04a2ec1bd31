/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-attention-plan.h"

#include <math.h>
#include <string.h>

/* --- a run --- */

/* The block's query @query of a KV head, among all queries of the batch. */
static gsize
get_place (const LlmAttentionPlan  *plan,
           const LlmAttentionBlock *block,
           guint                    kv_head,
           guint                    query)
{
  return (gsize) (block->first + query / plan->group) * plan->self->n_heads
         + kv_head * plan->group + query % plan->group;
}

/* Most chunks lie before all that is new. */
static inline guint64
get_mask (const LlmAttention *self,
          const LlmRow       *row,
          const LlmKvView    *view)
{
  if (row->visibility.kind == LLM_VISIBLE_CAUSAL && self->window == 0
      && row->slot >= view->first_slot + view->n_slots - 1 && view->n_slots > 0)
    return G_MAXUINT64 >> (64 - view->n_slots);

  return llm_visibility_mask (&row->visibility, row->slot, self->window, view->first_slot,
                              view->n_slots);
}

/* FALSE when no row of the block sees anything of the run. */
static gboolean
find_masks (const LlmAttentionPlan  *plan,
            const LlmAttentionBlock *block,
            const LlmKvView         *views,
            guint                    n_chunks,
            guint64                 *masks)
{
  guint64 seen = 0;

  for (guint r = 0; r < block->n_rows; r++)
    {
      const LlmRow *row = llm_attention_get_row (plan->self, block->first + r);

      for (guint c = 0; c < n_chunks; c++)
        {
          guint64 mask = get_mask (plan->self, row, &views[c]);

          g_assert (mask == 0 || views[c].k != NULL);
          masks[r * n_chunks + c] = mask;
          seen |= mask;
        }
    }

  return seen != 0;
}

/* Takes the block's queries of one KV head through one run. States are given, and
 * where density is collected the run's attention; max is set. */
static void
attend_run (const LlmAttentionPlan  *plan,
            const LlmAttentionBlock *block,
            guint                    kv_head,
            guint                    run,
            LlmAttentionWorker      *worker)
{
  const LlmAttention *self = plan->self;
  const LlmRow *row = llm_attention_get_row (self, block->first);
  guint run_chunks = llm_attention_get_run_chunks (self);
  guint first = run * run_chunks;
  guint n_chunks = MIN (run_chunks, llm_attention_count_chunks (self, row) - first);
  const LlmKvView *views = self->views + self->first_view[row->sequence] + first;
  guint n_queries = block->n_rows * plan->group;

  if (!find_masks (plan, block, views, n_chunks, worker->masks))
    {
      for (guint i = 0; i < n_queries; i++)
        {
          worker->queries[i].max = -INFINITY;
          if (worker->queries[i].received != NULL)
            memset (worker->queries[i].received, 0, n_chunks * sizeof (float));
        }
      return;
    }

  for (guint c = 0; c < n_chunks; c++)
    {
      g_assert (views[c].chunk_slots == self->chunk_slots);
      worker->chunks[c] = (LlkAttentionChunk) { .format = views[c].format };
      if (views[c].k == NULL)
        continue;

      worker->chunks[c].k = (const guint8 *) views[c].k + kv_head * views[c].head_bytes;
      worker->chunks[c].v = (const guint8 *) views[c].v + kv_head * views[c].head_bytes;
    }
  for (guint i = 0; i < n_queries; i++)
    {
      worker->queries[i].q = self->q + get_place (plan, block, kv_head, i) * self->head_dim;
      worker->queries[i].masks = worker->masks + i / plan->group * n_chunks;
    }
  if (block->is_tree && (first + n_chunks) * self->chunk_slots > row->visibility.base)
    llm_attention_attend_paths (plan, block, kv_head, first, n_chunks, worker);
  else
    plan->kernel->attend (&plan->shape, worker->chunks, n_chunks, worker->queries, n_queries,
                          worker->kernel);
}

/* --- the end of a query --- */

/* What the query's head gives to nothing. */
static void
fold_sink (const LlmAttentionPlan *plan,
           guint                   kv_head,
           guint                   query,
           LlkAttentionState      *state)
{
  static const float nothing[LLK_MAX_HEAD_DIM];
  const LlmAttention *self = plan->self;

  if (self->sinks != NULL)
    llk_attention_fold (state,
                        &(LlkAttentionState) {
                          .max = self->sinks[kv_head * plan->group + query % plan->group],
                          .sum = 1,
                          .acc = (float *) nothing,
                        },
                        self->head_dim);
}

/* Whether the block's query @query is counted for density. */
static inline gboolean
is_counted (const LlmAttentionPlan  *plan,
            const LlmAttentionBlock *block,
            guint                    query)
{
  return plan->self->collects_density
         && llm_attention_get_row (plan->self, block->first + query / plan->group)->is_counted;
}

/* Brings what each chunk got of the block's query @query to the final maximum and sum, and adds it
 * up for @worker. Where a row has fewer heads, each of them counts for more. */
static void
add_received (const LlmAttentionPlan  *plan,
              const LlmAttentionBlock *block,
              guint                    query,
              const LlkAttentionState *state,
              const float             *received,
              const float             *maxima,
              guint                    worker)
{
  const LlmAttention *self = plan->self;
  const LlmRow *row = llm_attention_get_row (self, block->first);
  guint run_chunks = llm_attention_get_run_chunks (self);
  guint n_chunks = llm_attention_count_chunks (self, row);
  guint64 *sums = self->received + (gsize) worker * self->n_masses
                  + self->first_mass[block->first + query / plan->group];
  float one = self->density_share * ((float) self->n_kv_heads / (float) block->n_groups)
              * (float) LLM_KV_DENSITY_ONE;

  for (guint first = 0; first < n_chunks; first += run_chunks)
    {
      float factor = expf (maxima[first / run_chunks] - state->max) / state->sum;

      for (guint c = first; c < MIN (first + run_chunks, n_chunks); c++)
        {
          float share = received[c] * factor;

          /* NaN, of a model that computes nonsense, is nothing. Signed numbers are what processors
           * turn floats into at once. */
          sums[c] += (guint64) (gint64) ((share > 0 && share < 2 ? share : 0) * one);
        }
    }
}

/* --- blocks that one item takes through all runs --- */

static void
attend_whole (const LlmAttentionPlan  *plan,
              const LlmAttentionBlock *block,
              guint                    kv_head,
              guint                    index,
              LlmAttentionWorker      *worker)
{
  const LlmAttention *self = plan->self;
  guint n_queries = block->n_rows * plan->group;
  guint n_runs = llm_attention_count_runs (self, llm_attention_get_row (self, block->first));

  for (guint i = 0; i < n_queries; i++)
    {
      worker->states[i].acc = self->out + get_place (plan, block, kv_head, i) * self->head_dim;
      llk_attention_begin (&worker->states[i], self->head_dim);
      worker->queries[i].state = &worker->states[i];
      worker->queries[i].received = NULL;
    }
  for (guint run = 0; run < n_runs; run++)
    {
      for (guint i = 0; i < n_queries; i++)
        if (is_counted (plan, block, i))
          worker->queries[i].received = worker->received + (gsize) i * plan->max_chunks
                                        + run * llm_attention_get_run_chunks (self);
      attend_run (plan, block, kv_head, run, worker);
      for (guint i = 0; i < n_queries; i++)
        if (is_counted (plan, block, i))
          worker->maxima[(gsize) i * plan->max_runs + run] = worker->queries[i].max;
    }
  for (guint i = 0; i < n_queries; i++)
    {
      fold_sink (plan, kv_head, i, &worker->states[i]);
      llk_attention_end (&worker->states[i], worker->states[i].acc, self->head_dim);
      if (is_counted (plan, block, i))
        add_received (plan, block, i, &worker->states[i],
                      worker->received + (gsize) i * plan->max_chunks,
                      worker->maxima + (gsize) i * plan->max_runs, index);
    }
}

/* --- blocks whose runs are items --- */

/* Queries of split rows are counted by row, then by head. */
static gsize
get_split_query (const LlmAttentionPlan  *plan,
                 const LlmAttentionBlock *block,
                 guint                    kv_head,
                 guint                    query)
{
  return ((gsize) block->first_split + query / plan->group) * plan->self->n_heads
         + kv_head * plan->group + query % plan->group;
}

/* Combines the partial results in the order of the runs, on the worker that finished last. */
static void
join_runs (const LlmAttentionPlan  *plan,
           const LlmAttentionBlock *block,
           guint                    kv_head,
           guint                    n_runs,
           guint                    index)
{
  const LlmAttention *self = plan->self;

  for (guint i = 0; i < block->n_rows * plan->group; i++)
    {
      gsize query = get_split_query (plan, block, kv_head, i);
      const LlkAttentionState *states = plan->split.states + query * plan->max_runs;
      LlkAttentionState state = {
        .acc = self->out + get_place (plan, block, kv_head, i) * self->head_dim,
      };

      llk_attention_begin (&state, self->head_dim);
      for (guint run = 0; run < n_runs; run++)
        llk_attention_fold (&state, &states[run], self->head_dim);
      fold_sink (plan, kv_head, i, &state);
      llk_attention_end (&state, state.acc, self->head_dim);
      if (is_counted (plan, block, i))
        add_received (plan, block, i, &state, plan->split.received + query * plan->max_chunks,
                      plan->split.maxima + query * plan->max_runs, index);
    }
}

static void
attend_split (const LlmAttentionPlan  *plan,
              const LlmAttentionBlock *block,
              guint                    kv_head,
              guint                    run,
              guint                    index,
              LlmAttentionWorker      *worker)
{
  const LlmAttention *self = plan->self;
  guint n_runs = block->n_items / block->n_groups;
  guint *n_left = &plan->split.n_left[block->split_block * self->n_kv_heads + kv_head];
  guint n_queries = block->n_rows * plan->group;

  for (guint i = 0; i < n_queries; i++)
    {
      gsize query = get_split_query (plan, block, kv_head, i);
      LlkAttentionState *state = &plan->split.states[query * plan->max_runs + run];

      state->acc = plan->split.acc + (query * plan->max_runs + run) * self->head_dim;
      llk_attention_begin (state, self->head_dim);
      worker->queries[i].state = state;
      worker->queries[i].received = is_counted (plan, block, i)
                                    ? plan->split.received + query * plan->max_chunks
                                        + run * llm_attention_get_run_chunks (self)
                                    : NULL;
    }
  attend_run (plan, block, kv_head, run, worker);
  for (guint i = 0; i < n_queries; i++)
    if (is_counted (plan, block, i))
      plan->split.maxima[get_split_query (plan, block, kv_head, i) * plan->max_runs + run]
        = worker->queries[i].max;

  if (__atomic_sub_fetch (n_left, 1, __ATOMIC_ACQ_REL) == 0)
    join_runs (plan, block, kv_head, n_runs, index);
}

static void
attend_items (guint    first,
              guint    end,
              guint    index,
              gpointer data)
{
  const LlmAttentionPlan *plan = data;
  LlmAttentionWorker worker;

  llm_attention_plan_get_worker (plan, index, &worker);
  for (guint item = first; item < end; item++)
    {
      const LlmAttentionBlock *block = llm_attention_plan_find_block (plan, item);
      guint kv_head = (item - block->first_item) % block->n_groups;
      guint run = (item - block->first_item) / block->n_groups;

      if (block->first_split < 0)
        attend_whole (plan, block, kv_head, index, &worker);
      else
        attend_split (plan, block, kv_head, run, index, &worker);
    }
}

void
llm_attention_run (const LlmAttention *self)
{
  LlmAttentionPlan plan;

  llm_attention_plan_init (&plan, self);
  llm_worker_pool_run (self->pool, plan.n_items, 1, attend_items, &plan);
}
