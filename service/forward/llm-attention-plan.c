/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-attention-plan.h"

/* Up to so many rows, each run of slots is work of its own. */
#define MAX_SPLIT_ROWS 16
/* Items that each worker should find, so that none waits long for the last one. */
#define ITEMS_PER_WORKER 4

static void
measure_trees (LlmAttentionPlan *plan)
{
  const LlmAttention *self = plan->self;
  guint slots = self->chunk_slots;

  plan->n_path_chunks = 0;
  for (guint i = 0; i < self->n_rows; i++)
    if (llm_attention_get_row (self, i)->visibility.kind == LLM_VISIBLE_TREE)
      plan->n_path_chunks = (slots - 1 + LLM_TREE_MAX_NODES - 1) / slots + 1;
  plan->layout = (LlmKvLayout) {
    .format = self->format, .chunk_slots = slots,
  };
  plan->k_bytes = llk_kv_part_bytes (self->format, LLK_KV_KEYS, self->head_dim, slots);
  plan->head_bytes =
    plan->k_bytes + llk_kv_part_bytes (self->format, LLK_KV_VALUES, self->head_dim, slots);
}

/* All but the blocks, which the size of scratch memory does not depend on. */
static void
measure (LlmAttentionPlan   *plan,
         const LlmAttention *self)
{
  plan->self = self;
  plan->kernel = self->kernels->attention;
  plan->group = self->n_heads / self->n_kv_heads;
  plan->shape = (LlkAttentionShape) {
    .is_half = self->format == LLK_KV_F16,
    .head_dim = self->head_dim,
    .chunk_slots = self->chunk_slots,
    .scale = self->scale,
    .softcap = self->softcap,
  };
  plan->max_queries = MAX ((guint) plan->kernel->n_queries, plan->group);
  plan->n_split_rows = self->n_rows <= MAX_SPLIT_ROWS ? self->n_rows : 0;
  measure_trees (plan);

  plan->max_chunks = 0;
  plan->max_runs = 0;
  for (guint i = 0; i < self->n_rows; i++)
    {
      const LlmRow *row = llm_attention_get_row (self, i);

      plan->max_chunks = MAX (plan->max_chunks, llm_attention_count_chunks (self, row));
      plan->max_runs = MAX (plan->max_runs, llm_attention_count_runs (self, row));
    }
}

static gsize
lay_out_worker (const LlmAttentionPlan *plan,
                guint8                 *base,
                LlmAttentionWorker     *worker)
{
  const gsize n_chunks = LLK_ATTENTION_RUN / LLK_ATTENTION_GROUP;
  gsize n_queries = plan->max_queries;
  gsize n_path_queries = plan->n_path_chunks > 0 ? n_queries : 0;
  gsize n_shared = plan->self->collects_density ? n_queries : 0;
  gsize used = 0;

  worker->kernel = llm_take (base, &used, plan->kernel->get_scratch (&plan->shape), 1);
  worker->queries = llm_take (base, &used, n_queries, sizeof (LlkAttentionQuery));
  worker->states = llm_take (base, &used, n_queries, sizeof (LlkAttentionState));
  worker->chunks = llm_take (base, &used, n_chunks, sizeof (LlkAttentionChunk));
  worker->some = llm_take (base, &used, n_path_queries, sizeof (LlkAttentionQuery));
  worker->path_chunks =
    llm_take (base, &used, plan->n_path_chunks > 0 ? n_chunks : 0, sizeof (LlkAttentionChunk));
  worker->path = llm_take (base, &used, plan->n_path_chunks, plan->head_bytes);
  worker->masks = llm_take (base, &used, n_queries * n_chunks, sizeof (guint64));
  worker->received = llm_take (base, &used, n_shared * plan->max_chunks, sizeof (float));
  worker->maxima = llm_take (base, &used, n_shared * plan->max_runs, sizeof (float));
  return used;
}

static gsize
lay_out (LlmAttentionPlan *plan,
         guint8           *base)
{
  const LlmAttention *self = plan->self;
  gsize n_threads = llm_worker_pool_get_n_threads (self->pool);
  gsize n_queries = (gsize) plan->n_split_rows * self->n_heads;
  gsize n_shared = self->collects_density ? n_queries : 0;
  LlmAttentionWorker worker;
  gsize used = 0;

  plan->worker_bytes = lay_out_worker (plan, NULL, &worker);
  plan->workers = llm_take (base, &used, n_threads, plan->worker_bytes);
  plan->split.states = llm_take (base, &used, n_queries * plan->max_runs,
                                 sizeof (LlkAttentionState));
  plan->split.acc = llm_take (base, &used, n_queries * plan->max_runs * self->head_dim,
                              sizeof (float));
  plan->split.n_left = llm_take (base, &used, (gsize) plan->n_split_rows * self->n_kv_heads,
                                 sizeof (guint));
  plan->split.received = llm_take (base, &used, n_shared * plan->max_chunks, sizeof (float));
  plan->split.maxima = llm_take (base, &used, n_shared * plan->max_runs, sizeof (float));
  return used;
}

gsize
llm_attention_get_scratch (const LlmAttention *self)
{
  LlmAttentionPlan plan;

  measure (&plan, self);
  return lay_out (&plan, NULL);
}

/* As many rows as share K and V well, as few as leave work for all. */
static guint
get_block_rows (const LlmAttentionPlan *plan)
{
  const LlmAttention *self = plan->self;
  guint n_items = ITEMS_PER_WORKER * llm_worker_pool_get_n_threads (self->pool);
  guint n_runs = plan->n_split_rows > 0 ? MAX (plan->max_runs, 1) : 1;

  return CLAMP (self->n_rows * self->n_kv_heads * n_runs / n_items, 1,
                plan->max_queries / plan->group);
}

/* Of two rows that follow each other. */
static gboolean
is_one_block (const LlmAttention *self,
              guint               index)
{
  const LlmRow *a = llm_attention_get_row (self, index);
  const LlmRow *b = llm_attention_get_row (self, index + 1);
  gboolean is_tree = a->visibility.kind == LLM_VISIBLE_TREE;

  return a->sequence == b->sequence
         && llm_attention_count_groups (self, index) == llm_attention_count_groups (self, index + 1)
         && is_tree == (b->visibility.kind == LLM_VISIBLE_TREE)
         && (!is_tree || a->visibility.base == b->visibility.base);
}

static void
add_block (LlmAttentionPlan *plan,
           guint             first,
           guint             n_rows,
           guint            *n_split_rows,
           guint            *n_split_blocks)
{
  const LlmAttention *self = plan->self;
  const LlmRow *row = llm_attention_get_row (self, first);
  LlmAttentionBlock *block = &plan->blocks[plan->n_blocks++];

  *block = (LlmAttentionBlock) {
    .first = first,
    .n_rows = n_rows,
    .n_groups = llm_attention_count_groups (self, first),
    .is_tree = row->visibility.kind == LLM_VISIBLE_TREE,
    .n_items = llm_attention_count_groups (self, first),
    .first_split = -1,
  };
  if (plan->n_split_rows > 0)
    {
      guint n_runs = llm_attention_count_runs (self, row);

      block->n_items = n_runs * block->n_groups;
      block->first_split = (gint) *n_split_rows;
      block->split_block = (*n_split_blocks)++;
      *n_split_rows += n_rows;
      for (guint head = 0; head < self->n_kv_heads; head++)
        plan->split.n_left[block->split_block * self->n_kv_heads + head] = n_runs;
    }
}

/* The last blocks first: of a prompt, they see the most. */
static void
find_blocks (LlmAttentionPlan *plan)
{
  const LlmAttention *self = plan->self;
  guint block_rows = get_block_rows (plan);
  guint n_split_rows = 0, n_split_blocks = 0;
  guint end;

  plan->n_blocks = 0;
  plan->n_items = 0;
  for (guint first = self->n_rows; first > 0; first = end)
    {
      for (end = first - 1; end > 0 && first - end < block_rows; end--)
        if (!is_one_block (self, end - 1))
          break;
      add_block (plan, end, first - end, &n_split_rows, &n_split_blocks);
    }
  for (guint i = 0; i < plan->n_blocks; i++)
    {
      plan->blocks[i].first_item = plan->n_items;
      plan->n_items += plan->blocks[i].n_items;
    }
}

void
llm_attention_plan_init (LlmAttentionPlan   *plan,
                         const LlmAttention *self)
{
  measure (plan, self);
  lay_out (plan, self->scratch);
  find_blocks (plan);
}

void
llm_attention_plan_get_worker (const LlmAttentionPlan *plan,
                               guint                   index,
                               LlmAttentionWorker     *worker)
{
  lay_out_worker (plan, plan->workers + index * plan->worker_bytes, worker);
}

const LlmAttentionBlock *
llm_attention_plan_find_block (const LlmAttentionPlan *plan,
                               guint                   item)
{
  guint low = 0, high = plan->n_blocks;

  while (high - low > 1)
    {
      guint middle = (low + high) / 2;

      if (plan->blocks[middle].first_item <= item)
        low = middle;
      else
        high = middle;
    }

  return &plan->blocks[low];
}
