/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows of a tree, behind its base: K and V of a path in the slots that decoding would use. */

#include "forward/llm-attention-plan.h"

#include <string.h>

/* Whether all the slots from the base to the end are on the path. */
static gboolean
is_straight (guint64 path)
{
  return (path & (path + 1)) == 0;
}

static gboolean
starts_with (guint64 path,
             guint64 start)
{
  guint n_behind = (guint) __builtin_clzll (start);

  return path << n_behind == start << n_behind;
}

/* How many of their first nodes are the same. */
static guint
count_common (guint64 path,
              guint64 other)
{
  guint64 difference = path ^ other;
  guint64 before = (difference & -difference) - 1;

  return (guint) __builtin_popcountll (path & (difference != 0 ? before : G_MAXUINT64));
}

/* Copies to scratch one KV head of the leaf's path, from the base's chunk on, over that of the path
 * @before, or where it is 0 over anything. */
static void
gather (const LlmAttentionPlan *plan,
        const LlmRow           *leaf,
        guint64                 before,
        guint                   kv_head,
        LlmAttentionWorker     *worker)
{
  const LlmAttention *self = plan->self;
  const LlmKvView *views = self->views + self->first_view[leaf->sequence];
  guint base = leaf->visibility.base, slots = self->chunk_slots;
  guint64 path = leaf->visibility.ancestors;
  guint n_common = count_common (path, before);

  if (before == 0 && base % slots != 0)
    memcpy (worker->path,
            (const guint8 *) views[base / slots].k + kv_head * plan->head_bytes,
            plan->head_bytes);

  for (guint i = 0; path != 0; i++, path &= path - 1)
    {
      guint from = base + (guint) __builtin_ctzll (path), to = base % slots + i;
      const LlmKvView *view = &views[from / slots];

      if (i < n_common)
        continue;
      /* Drafted tokens are of a call that runs: nothing of it is quantized. */
      g_assert (view->format == self->format);
      llm_kv_copy_slot (&plan->layout, self->head_dim,
                        (const guint8 *) view->k + kv_head * plan->head_bytes, from % slots,
                        worker->path + to / slots * plan->head_bytes, to % slots);
    }
}

/* The run's chunks with those of the path in their places. */
static void
list_chunks (const LlmAttentionPlan *plan,
             guint                   base_chunk,
             guint                   first,
             guint                   n_chunks,
             LlmAttentionWorker     *worker)
{
  for (guint c = 0; c < n_chunks; c++)
    {
      guint at = first + c - base_chunk;

      worker->path_chunks[c] = worker->chunks[c];
      if (first + c < base_chunk || at >= plan->n_path_chunks)
        continue;
      worker->path_chunks[c] = (LlkAttentionChunk) {
        worker->path + at * plan->head_bytes,
        worker->path + at * plan->head_bytes + plan->k_bytes,
        plan->self->format,
      };
    }
}

/* Takes the rows whose path begins the leaf's, together: the queries of them that are not done.
 * Returns how many rows there are, in @members. */
static guint
take_path (const LlmAttentionPlan  *plan,
           const LlmAttentionBlock *block,
           guint                    leaf,
           gboolean                *is_done,
           guint                   *members,
           LlmAttentionWorker      *worker)
{
  const LlmRow *row = llm_attention_get_row (plan->self, block->first + leaf);
  guint n = 0;

  for (guint r = 0; r <= leaf; r++)
    {
      const LlmRow *other = llm_attention_get_row (plan->self, block->first + r);

      if (is_done[r] || !starts_with (row->visibility.ancestors, other->visibility.ancestors))
        continue;
      is_done[r] = TRUE;
      memcpy (worker->some + n * plan->group, worker->queries + r * plan->group,
              plan->group * sizeof (LlkAttentionQuery));
      members[n++] = r;
    }

  return n;
}

void
llm_attention_attend_paths (const LlmAttentionPlan  *plan,
                            const LlmAttentionBlock *block,
                            guint                    kv_head,
                            guint                    first,
                            guint                    n_chunks,
                            LlmAttentionWorker      *worker)
{
  gboolean is_done[LLM_BATCH_MAX_ROWS];
  guint members[LLM_BATCH_MAX_ROWS];
  guint64 gathered = 0;

  memset (is_done, 0, block->n_rows * sizeof *is_done);
  for (guint l = block->n_rows; l-- > 0;)
    {
      const LlmRow *leaf = llm_attention_get_row (plan->self, block->first + l);
      const LlkAttentionChunk *chunks = worker->chunks;
      guint n;

      if (is_done[l])
        continue;
      if (!is_straight (leaf->visibility.ancestors))
        {
          gather (plan, leaf, gathered, kv_head, worker);
          gathered = leaf->visibility.ancestors;
          list_chunks (plan, leaf->visibility.base / plan->self->chunk_slots, first, n_chunks,
                       worker);
          chunks = worker->path_chunks;
        }
      n = take_path (plan, block, l, is_done, members, worker);
      plan->kernel->attend (&plan->shape, chunks, n_chunks, worker->some, n * plan->group,
                            worker->kernel);
      for (guint i = 0; i < n; i++)
        memcpy (worker->queries + members[i] * plan->group, worker->some + i * plan->group,
                plan->group * sizeof (LlkAttentionQuery));
    }
}
