/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "exec/llm-attention.h"

#include <math.h>
#include <string.h>

/* Up to so many generated rows, each run of a row's slots is work of its own. */
#define MAX_SPLIT_ROWS 16
/* Queries that go through the chunks together while density is collected. */
#define MAX_DENSITY_QUERIES 32
/* Items that each worker should find, so that none waits long for the last one. */
#define ITEMS_PER_WORKER 4
/* Whole cache lines, which workers must not share. */
#define ALIGNMENT 64

/* Rows of one sequence and kind, neighbours in the order. */
typedef struct
{
  guint first;          /* index into order */
  guint n_rows;
  LlkRowKind kind;
  guint first_item;
  guint n_items;        /* KV heads; of a split block, runs × KV heads */
  gint first_split;     /* index among the split rows, -1 when not split */
  guint split_block;
} Block;

/* What one worker needs for an item. */
typedef struct
{
  gpointer kernel;               /* scratch of the kernel */
  LlkAttentionQuery *queries;    /* [n_queries] */
  LlkAttentionState *states;     /* [n_queries] */
  LlkAttentionChunk *chunks;     /* [LLK_ATTENTION_RUN / LLK_ATTENTION_GROUP] */
  guint64 *masks;                /* [n_queries × the same] */
  float *mass;                   /* [n_queries × max_chunks], where density is collected */
  float *maxima;                 /* [n_queries × max_runs], likewise: of each run */
} Worker;

/* Queries of split rows, by row, head and run. */
typedef struct
{
  LlkAttentionState *states;     /* [rows × n_heads × max_runs] */
  float *acc;                    /* [rows × n_heads × max_runs × head_dim] */
  guint *n_left;                 /* [blocks × n_kv_heads] runs that are not done */
  float *mass;                   /* [rows × n_heads × max_chunks] */
  float *maxima;                 /* [rows × n_heads × max_runs] */
} Split;

typedef struct
{
  const LlmAttention *self;
  LlkAttentionShape shape;
  guint group;                   /* query heads of a KV head */
  guint max_queries;             /* of an item */
  guint max_chunks;              /* of one sequence */
  guint max_runs;                /* of one row */
  guint n_split_rows;

  guint8 *workers;
  gsize worker_bytes;
  Split split;

  Block blocks[LLM_BATCH_MAX_ROWS];
  guint n_blocks;
  guint n_items;
} Plan;

/* --- what there is to do --- */

static const LlmRow *
get_row (const LlmAttention *self,
         guint               index)
{
  return &self->rows[self->order[index]];
}

static guint
count_chunks (const LlmAttention *self,
              const LlmRow       *row)
{
  return self->first_view[row->sequence + 1] - self->first_view[row->sequence];
}

/* Chunks of a run: they begin at multiples of it. */
static guint
get_run_chunks (const LlmAttention *self)
{
  return LLK_ATTENTION_RUN / self->chunk_slots;
}

static guint
count_runs (const LlmAttention *self,
            const LlmRow       *row)
{
  guint run = get_run_chunks (self);

  return (count_chunks (self, row) + run - 1) / run;
}

static guint
get_max_queries (const LlmAttention *self,
                 LlkRowKind          kind)
{
  guint n_queries = (guint) self->kernels->attention->kinds[kind]->n_queries;

  if (self->collects_density)
    n_queries = MIN (n_queries, MAX_DENSITY_QUERIES);
  return MAX (n_queries, self->n_heads / self->n_kv_heads);
}

/* All but the blocks, which the size of scratch memory does not depend on. */
static void
measure (Plan               *plan,
         const LlmAttention *self)
{
  guint n_generated = 0;

  plan->self = self;
  plan->group = self->n_heads / self->n_kv_heads;
  plan->shape = (LlkAttentionShape) {
    .head_dim = self->head_dim,
    .chunk_slots = self->chunk_slots,
    .scale = self->scale,
    .softcap = self->softcap,
  };
  plan->max_queries = 0;
  for (LlkRowKind kind = 0; kind < LLK_N_ROW_KINDS; kind++)
    plan->max_queries = MAX (plan->max_queries, get_max_queries (self, kind));

  plan->max_chunks = 0;
  plan->max_runs = 0;
  for (guint i = 0; i < self->n_rows; i++)
    {
      const LlmRow *row = get_row (self, i);

      n_generated += row->kind == LLK_ROWS_GENERATED;
      plan->max_chunks = MAX (plan->max_chunks, count_chunks (self, row));
      plan->max_runs = MAX (plan->max_runs, count_runs (self, row));
    }
  plan->n_split_rows = n_generated <= MAX_SPLIT_ROWS ? n_generated : 0;
}

static gpointer
take (guint8 *base,
      gsize  *used,
      gsize   n_items,
      gsize   item_bytes)
{
  gpointer place = base != NULL ? base + *used : NULL;

  *used += (n_items * item_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return place;
}

static gsize
lay_out_worker (const Plan *plan,
                guint8     *base,
                Worker     *worker)
{
  const LlkAttentionOps *ops = plan->self->kernels->attention;
  const gsize n_chunks = LLK_ATTENTION_RUN / LLK_ATTENTION_GROUP;
  gsize kernel = MAX (ops->kinds[LLK_ROWS_GENERATED]->get_scratch (&plan->shape),
                      ops->kinds[LLK_ROWS_PROMPT]->get_scratch (&plan->shape));
  gsize n_queries = plan->max_queries;
  gsize n_shared = plan->self->collects_density ? n_queries : 0;
  gsize used = 0;

  worker->kernel = take (base, &used, kernel, 1);
  worker->queries = take (base, &used, n_queries, sizeof (LlkAttentionQuery));
  worker->states = take (base, &used, n_queries, sizeof (LlkAttentionState));
  worker->chunks = take (base, &used, n_chunks, sizeof (LlkAttentionChunk));
  worker->masks = take (base, &used, n_queries * n_chunks, sizeof (guint64));
  worker->mass = take (base, &used, n_shared * plan->max_chunks, sizeof (float));
  worker->maxima = take (base, &used, n_shared * plan->max_runs, sizeof (float));
  return used;
}

static gsize
lay_out (Plan   *plan,
         guint8 *base)
{
  const LlmAttention *self = plan->self;
  gsize n_threads = llm_worker_pool_get_n_threads (self->pool);
  gsize n_queries = (gsize) plan->n_split_rows * self->n_heads;
  gsize n_shared = self->collects_density ? n_queries : 0;
  Worker worker;
  gsize used = 0;

  plan->worker_bytes = lay_out_worker (plan, NULL, &worker);
  plan->workers = take (base, &used, n_threads, plan->worker_bytes);
  plan->split.states = take (base, &used, n_queries * plan->max_runs, sizeof (LlkAttentionState));
  plan->split.acc = take (base, &used, n_queries * plan->max_runs * self->head_dim, sizeof (float));
  plan->split.n_left = take (base, &used, (gsize) plan->n_split_rows * self->n_kv_heads,
                             sizeof (guint));
  plan->split.mass = take (base, &used, n_shared * plan->max_chunks, sizeof (float));
  plan->split.maxima = take (base, &used, n_shared * plan->max_runs, sizeof (float));
  return used;
}

gsize
llm_attention_get_scratch (const LlmAttention *self)
{
  Plan plan;

  measure (&plan, self);
  return lay_out (&plan, NULL);
}

/* As many rows as share K and V well, as few as leave work for all. */
static guint
get_block_rows (const LlmAttention *self,
                LlkRowKind          kind)
{
  guint group = self->n_heads / self->n_kv_heads;
  guint n_items = ITEMS_PER_WORKER * llm_worker_pool_get_n_threads (self->pool);
  guint most = MAX (get_max_queries (self, kind) / group, 1);
  guint least = self->n_rows * self->n_kv_heads / n_items;

  return CLAMP (least, 1, most);
}

static void
add_block (Plan *plan,
           guint first,
           guint n_rows,
           guint *n_split_rows,
           guint *n_split_blocks)
{
  const LlmAttention *self = plan->self;
  const LlmRow *row = get_row (self, first);
  Block *block = &plan->blocks[plan->n_blocks++];

  *block = (Block) {
    .first = first,
    .n_rows = n_rows,
    .kind = row->kind,
    .n_items = self->n_kv_heads,
    .first_split = -1,
  };
  if (block->kind == LLK_ROWS_GENERATED && plan->n_split_rows > 0)
    {
      guint n_runs = count_runs (self, row);

      block->n_items = n_runs * self->n_kv_heads;
      block->first_split = (gint) *n_split_rows;
      block->split_block = (*n_split_blocks)++;
      *n_split_rows += n_rows;
      for (guint head = 0; head < self->n_kv_heads; head++)
        plan->split.n_left[block->split_block * self->n_kv_heads + head] = n_runs;
    }
}

/* The last blocks first: of a prompt, they see the most. */
static void
find_blocks (Plan *plan)
{
  const LlmAttention *self = plan->self;
  guint block_rows[LLK_N_ROW_KINDS];
  guint n_split_rows = 0, n_split_blocks = 0;
  guint end;

  for (LlkRowKind kind = 0; kind < LLK_N_ROW_KINDS; kind++)
    block_rows[kind] = get_block_rows (self, kind);

  plan->n_blocks = 0;
  plan->n_items = 0;
  for (guint first = self->n_rows; first > 0; first = end)
    {
      const LlmRow *last = get_row (self, first - 1);
      guint most = block_rows[last->kind];

      end = first - 1;
      while (end > 0 && first - end < most && get_row (self, end - 1)->sequence == last->sequence
             && get_row (self, end - 1)->kind == last->kind)
        end--;
      add_block (plan, end, first - end, &n_split_rows, &n_split_blocks);
    }
  for (guint i = 0; i < plan->n_blocks; i++)
    {
      plan->blocks[i].first_item = plan->n_items;
      plan->n_items += plan->blocks[i].n_items;
    }
}

static const Block *
find_block (const Plan *plan,
            guint       item)
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

/* --- a run --- */

/* The block's query @query of a KV head, among all queries of the batch. */
static gsize
get_place (const Plan  *plan,
           const Block *block,
           guint        kv_head,
           guint        query)
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
find_masks (const Plan      *plan,
            const Block     *block,
            const LlmKvView *views,
            guint            n_chunks,
            guint64         *masks)
{
  guint64 seen = 0;

  for (guint r = 0; r < block->n_rows; r++)
    {
      const LlmRow *row = get_row (plan->self, block->first + r);

      for (guint c = 0; c < n_chunks; c++)
        {
          guint64 mask = get_mask (plan->self, row, &views[c]);

          masks[r * n_chunks + c] = mask;
          seen |= mask;
        }
    }

  return seen != 0;
}

/* Takes the block's queries of one KV head through one run. States are given, and
 * where density is collected the run's mass; max is set. */
static void
attend_run (const Plan  *plan,
            const Block *block,
            guint        kv_head,
            guint        run,
            Worker      *worker)
{
  const LlmAttention *self = plan->self;
  const LlkAttention *kernel = self->kernels->attention->kinds[block->kind];
  const LlmRow *row = get_row (self, block->first);
  guint run_chunks = get_run_chunks (self);
  guint first = run * run_chunks;
  guint n_chunks = MIN (run_chunks, count_chunks (self, row) - first);
  const LlmKvView *views = self->views + self->first_view[row->sequence] + first;
  guint n_queries = block->n_rows * plan->group;
  LlkAttentionShape shape = plan->shape;

  if (!find_masks (plan, block, views, n_chunks, worker->masks))
    {
      for (guint i = 0; i < n_queries; i++)
        {
          worker->queries[i].max = -INFINITY;
          if (worker->queries[i].mass != NULL)
            memset (worker->queries[i].mass, 0, n_chunks * sizeof (float));
        }
      return;
    }

  shape.is_half = views[0].format == LLM_KV_F16;
  for (guint c = 0; c < n_chunks; c++)
    {
      g_assert (views[c].chunk_slots == self->chunk_slots);
      worker->chunks[c].k = (const guint8 *) views[c].k + kv_head * views[c].head_bytes;
      worker->chunks[c].v = (const guint8 *) views[c].v + kv_head * views[c].head_bytes;
    }
  for (guint i = 0; i < n_queries; i++)
    {
      worker->queries[i].q = self->q + get_place (plan, block, kv_head, i) * self->head_dim;
      worker->queries[i].masks = worker->masks + i / plan->group * n_chunks;
    }
  kernel->attend (&shape, worker->chunks, n_chunks, worker->queries, n_queries, worker->kernel);
}

/* --- the end of a query --- */

/* Brings what each chunk got to the final maximum and sum, and adds it up. */
static void
add_mass (const Plan              *plan,
          const Block             *block,
          const LlkAttentionState *state,
          const float             *mass,
          const float             *maxima)
{
  const LlmAttention *self = plan->self;
  const LlmRow *row = get_row (self, block->first);
  guint run_chunks = get_run_chunks (self);

  for (guint c = 0; c < count_chunks (self, row); c++)
    {
      double share = mass[c] * exp ((double) maxima[c / run_chunks] - state->max) / state->sum;

      if (share > 0 && share < 2)
        __atomic_fetch_add (&self->mass[self->first_view[row->sequence] + c],
                            (guint64) (share / LLM_ATTENTION_MASS_UNIT), __ATOMIC_RELAXED);
    }
}

/* --- blocks that one item takes through all runs --- */

static void
attend_whole (const Plan  *plan,
              const Block *block,
              guint        kv_head,
              Worker      *worker)
{
  const LlmAttention *self = plan->self;
  guint n_queries = block->n_rows * plan->group;
  guint n_runs = count_runs (self, get_row (self, block->first));

  for (guint i = 0; i < n_queries; i++)
    {
      worker->states[i].acc = self->out + get_place (plan, block, kv_head, i) * self->head_dim;
      llk_attention_begin (&worker->states[i], self->head_dim);
      worker->queries[i].state = &worker->states[i];
      worker->queries[i].mass = NULL;
    }
  for (guint run = 0; run < n_runs; run++)
    {
      for (guint i = 0; i < n_queries && self->collects_density; i++)
        worker->queries[i].mass = worker->mass + (gsize) i * plan->max_chunks
                                  + run * get_run_chunks (self);
      attend_run (plan, block, kv_head, run, worker);
      for (guint i = 0; i < n_queries && self->collects_density; i++)
        worker->maxima[(gsize) i * plan->max_runs + run] = worker->queries[i].max;
    }
  for (guint i = 0; i < n_queries; i++)
    {
      llk_attention_end (&worker->states[i], worker->states[i].acc, self->head_dim);
      if (self->collects_density)
        add_mass (plan, block, &worker->states[i], worker->mass + (gsize) i * plan->max_chunks,
                  worker->maxima + (gsize) i * plan->max_runs);
    }
}

/* --- blocks whose runs are items --- */

/* Queries of split rows are counted by row, then by head. */
static gsize
get_split_query (const Plan  *plan,
                 const Block *block,
                 guint        kv_head,
                 guint        query)
{
  return ((gsize) block->first_split + query / plan->group) * plan->self->n_heads
         + kv_head * plan->group + query % plan->group;
}

/* In the order of the runs, whoever was last. */
static void
join_runs (const Plan  *plan,
           const Block *block,
           guint        kv_head,
           guint        n_runs)
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
      llk_attention_end (&state, state.acc, self->head_dim);
      if (self->collects_density)
        add_mass (plan, block, &state, plan->split.mass + query * plan->max_chunks,
                  plan->split.maxima + query * plan->max_runs);
    }
}

static void
attend_split (const Plan  *plan,
              const Block *block,
              guint        kv_head,
              guint        run,
              Worker      *worker)
{
  const LlmAttention *self = plan->self;
  guint n_runs = block->n_items / self->n_kv_heads;
  guint *n_left = &plan->split.n_left[block->split_block * self->n_kv_heads + kv_head];
  guint n_queries = block->n_rows * plan->group;

  for (guint i = 0; i < n_queries; i++)
    {
      gsize query = get_split_query (plan, block, kv_head, i);
      LlkAttentionState *state = &plan->split.states[query * plan->max_runs + run];

      state->acc = plan->split.acc + (query * plan->max_runs + run) * self->head_dim;
      llk_attention_begin (state, self->head_dim);
      worker->queries[i].state = state;
      worker->queries[i].mass = self->collects_density
                                ? plan->split.mass + query * plan->max_chunks
                                    + run * get_run_chunks (self)
                                : NULL;
    }
  attend_run (plan, block, kv_head, run, worker);
  for (guint i = 0; i < n_queries && self->collects_density; i++)
    plan->split.maxima[get_split_query (plan, block, kv_head, i) * plan->max_runs + run]
      = worker->queries[i].max;

  if (__atomic_sub_fetch (n_left, 1, __ATOMIC_ACQ_REL) == 0)
    join_runs (plan, block, kv_head, n_runs);
}

static void
attend_items (guint    first,
              guint    end,
              guint    index,
              gpointer data)
{
  const Plan *plan = data;
  Worker worker;

  lay_out_worker (plan, plan->workers + index * plan->worker_bytes, &worker);
  for (guint item = first; item < end; item++)
    {
      const Block *block = find_block (plan, item);
      guint kv_head = (item - block->first_item) % plan->self->n_kv_heads;
      guint run = (item - block->first_item) / plan->self->n_kv_heads;

      if (block->first_split < 0)
        attend_whole (plan, block, kv_head, &worker);
      else
        attend_split (plan, block, kv_head, run, &worker);
    }
}

void
llm_attention_run (const LlmAttention *self)
{
  Plan plan;

  measure (&plan, self);
  lay_out (&plan, self->scratch);
  find_blocks (&plan);
  llm_worker_pool_run (self->pool, plan.n_items, 1, attend_items, &plan);
}
