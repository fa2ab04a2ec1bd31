/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which chunk goes first (L8), against sorting all of them each time. */

#include "kv/llm-kv-queue.h"

#define N_CHUNKS 40
#define N_ROUNDS 20000

typedef struct
{
  guint number;
  LlkKvFormat format;
  guint64 used;          /* by the test's own clock */
  gboolean is_queued;
  LlmKvQueueEntry entry;
} Chunk;

static guint
get_rank (LlkKvFormat format)
{
  return llk_kv_is_packed (format) ? (guint) (format - LLK_KV_Q8) : LLM_KV_QUEUE_LISTS - 1;
}

static gint
compare (gconstpointer a,
         gconstpointer b,
         gpointer      data)
{
  const Chunk *first = *(Chunk *const *) a;
  const Chunk *second = *(Chunk *const *) b;
  gboolean by_bits = GPOINTER_TO_INT (data);

  if (by_bits && get_rank (first->format) != get_rank (second->format))
    return get_rank (first->format) < get_rank (second->format) ? -1 : 1;
  return first->used < second->used ? -1 : 1;
}

static void
compare_with_sorted (LlmKvQueue *queue,
                     Chunk      *chunks,
                     gboolean    by_bits)
{
  g_autoptr (GPtrArray) sorted = g_ptr_array_new ();
  LlmKvQueueEntry *entry = llm_kv_queue_peek (queue, NULL);

  for (guint i = 0; i < N_CHUNKS; i++)
    {
      g_assert_true ((chunks[i].entry.list != NULL) == chunks[i].is_queued);
      if (chunks[i].is_queued)
        g_ptr_array_add (sorted, &chunks[i]);
    }
  g_ptr_array_sort_with_data (sorted, compare, GINT_TO_POINTER (by_bits));
  for (guint i = 0; i < sorted->len; i++)
    {
      Chunk *chunk = g_ptr_array_index (sorted, i);

      g_assert_nonnull (entry);
      g_assert_true (LLM_KV_QUEUE_OWNER (entry, Chunk, entry) == chunk);
      entry = llm_kv_queue_peek (queue, entry);
    }
  g_assert_null (entry);
}

static void
test_random (gconstpointer data)
{
  gboolean by_bits = GPOINTER_TO_INT (data);
  Chunk chunks[N_CHUNKS] = { 0 };
  LlmKvQueue queue = { .by_bits = by_bits };
  guint64 now = 0;

  g_assert_null (llm_kv_queue_peek (&queue, NULL));
  for (guint i = 0; i < N_CHUNKS; i++)
    chunks[i].number = i;

  for (guint round = 0; round < N_ROUNDS; round++)
    {
      Chunk *chunk = &chunks[g_test_rand_int_range (0, N_CHUNKS)];
      LlkKvFormat format = (LlkKvFormat) g_test_rand_int_range (0, LLK_N_KV_FORMATS);

      switch (g_test_rand_int_range (0, 5))
        {
        case 0:
        case 1:
          chunk->used = ++now;
          chunk->format = format;
          chunk->is_queued = TRUE;
          llm_kv_queue_touch (&queue, &chunk->entry, format);
          break;
        case 2:
          /* Another width does not make it younger, nor does a while out of the queue. */
          if (chunk->used == 0)
            break;
          chunk->format = format;
          chunk->is_queued = TRUE;
          llm_kv_queue_set_format (&queue, &chunk->entry, format);
          break;
        case 3:
          chunk->is_queued = FALSE;
          llm_kv_queue_remove (&chunk->entry);
          break;
        default:
          {
            LlmKvQueueEntry *entry = llm_kv_queue_peek (&queue, NULL);

            if (entry == NULL)
              break;
            LLM_KV_QUEUE_OWNER (entry, Chunk, entry)->is_queued = FALSE;
            llm_kv_queue_remove (entry);
            break;
          }
        }
      compare_with_sorted (&queue, chunks, by_bits);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/kv/queue/by-bits", GINT_TO_POINTER (TRUE), test_random);
  g_test_add_data_func ("/kv/queue/by-age", GINT_TO_POINTER (FALSE), test_random);
  return g_test_run ();
}
