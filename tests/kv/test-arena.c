/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory of chunks that went: it keeps its pages for the next ones, until the system is given them;
 * what is counted is what is there. */

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "kv/llm-kv.h"

#define CHUNK_BYTES ((gsize) 20 * 1024)
#define N_CHUNKS 200

/* Bytes of [@data, @data + @length) that are in memory; whole pages within. */
static gsize
count_resident (guint8 *data,
                gsize   length)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);
  guint8 *first = data + (page - (guintptr) data % page) % page;
  gsize n = (gsize) (data + length - first) / page;
  g_autofree guint8 *there = g_malloc0 (n + 1);
  gsize bytes = 0;

  g_assert_cmpint (mincore (first, n * page, there), ==, 0);
  for (gsize i = 0; i < n; i++)
    bytes += (there[i] & 1) * page;
  return bytes;
}

static void
test_pages (void)
{
  guint8 *chunks[N_CHUNKS];
  LlmKvArena arena = { 0 };
  gsize resident;

  llm_kv_arena_init (&arena, CHUNK_BYTES);
  for (guint i = 0; i < N_CHUNKS; i++)
    {
      g_assert_false (llm_kv_arena_has_spare (&arena));
      chunks[i] = llm_kv_arena_take (&arena);
      memset (chunks[i], (int) i, CHUNK_BYTES);
    }
  resident = count_resident (chunks[1], CHUNK_BYTES);
  g_assert_cmpuint (resident, >=, CHUNK_BYTES / 2);

  /* with its pages, and the next to be taken */
  llm_kv_arena_give (&arena, chunks[1], TRUE);
  g_assert_true (llm_kv_arena_has_spare (&arena));
  g_assert_cmpuint (count_resident (chunks[1], CHUNK_BYTES), ==, resident);
  g_assert_true (llm_kv_arena_take (&arena) == chunks[1]);
  g_assert_false (llm_kv_arena_has_spare (&arena));

  /* without */
  llm_kv_arena_give (&arena, chunks[1], FALSE);
  g_assert_false (llm_kv_arena_has_spare (&arena));
  g_assert_cmpuint (count_resident (chunks[1], CHUNK_BYTES), ==, 0);
  chunks[1] = llm_kv_arena_take (&arena);

  /* all at once: neighbours that are in use keep theirs */
  for (guint i = 0; i < N_CHUNKS; i += 2)
    llm_kv_arena_give (&arena, chunks[i], TRUE);
  llm_kv_arena_trim (&arena);
  g_assert_false (llm_kv_arena_has_spare (&arena));
  for (guint i = 3; i < N_CHUNKS; i += 2)
    for (gsize at = 0; at < CHUNK_BYTES; at++)
      g_assert_cmpuint (chunks[i][at], ==, i);
  g_assert_cmpuint (count_resident (chunks[2], CHUNK_BYTES), ==, 0);

  /* neighbours with the pages that they share */
  for (guint i = 0; i < N_CHUNKS; i += 2)
    {
      chunks[i] = llm_kv_arena_take (&arena);
      memset (chunks[i], (int) i, CHUNK_BYTES);
    }
  for (guint i = 2; i < 5; i++)
    llm_kv_arena_give (&arena, chunks[i], TRUE);
  g_assert_cmpuint (count_resident (chunks[2], 3 * CHUNK_BYTES), >, 0);
  llm_kv_arena_trim (&arena);
  g_assert_cmpuint (count_resident (chunks[2], 3 * CHUNK_BYTES), ==, 0);
  for (guint i = 2; i < 5; i++)
    chunks[i] = llm_kv_arena_take (&arena);
  for (guint i = 0; i < N_CHUNKS; i += 2)
    llm_kv_arena_give (&arena, chunks[i], TRUE);
  for (guint i = 1; i < N_CHUNKS; i += 2)
    llm_kv_arena_give (&arena, chunks[i], TRUE);
  g_assert_cmpuint (arena.blocks->len, >, 0);
  llm_kv_arena_trim (&arena);
  g_assert_cmpuint (arena.blocks->len, ==, 0);
  llm_kv_arena_clear (&arena);
}

/* The ledger counts what keeps its pages, and a budget has room for what takes its place. */
static void
test_budget (void)
{
  const LlmKvLayout layout = { LLM_KV_FULL, LLK_KV_F16, 4, 2, 32, 16, NULL };
  g_autoptr(LlmLedger) ledger = llm_ledger_new ();
  g_autoptr(LlmKvStore) store = llm_kv_store_new (&layout, NULL, ledger, NULL);
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  g_autoptr(LlmKvSeq) other = llm_kv_seq_new (store, NULL, NULL);
  g_autoptr(GError) error = NULL;
  guint64 bytes = 10 * llm_kv_store_get_chunk_bytes (store, LLK_KV_F16);
  guint64 budget = bytes + bytes / 10;

  llm_ledger_set_budget (ledger, budget);
  g_assert_true (llm_kv_seq_append (seq, 160, &error));
  g_assert_cmpuint (store->bytes, ==, bytes);
  g_assert_false (llm_kv_seq_append (other, 160, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_clear_error (&error);

  llm_kv_seq_truncate (seq, 0);
  g_assert_cmpuint (store->bytes, ==, 0);
  g_assert_cmpuint (store->spare_bytes, ==, bytes);
  g_assert_cmpuint (llm_ledger_get_total (ledger), ==, bytes);
  g_assert_true (llm_kv_seq_append (other, 160, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (store->spare_bytes, ==, 0);
  g_assert_cmpuint (llm_ledger_get_total (ledger), ==, bytes);

  llm_kv_seq_truncate (other, 16);
  g_assert_cmpuint (store->spare_bytes, ==, bytes * 9 / 10);
  g_assert_cmpuint (llm_kv_store_trim (store), ==, bytes * 9 / 10);
  g_assert_cmpuint (llm_ledger_get_total (ledger), ==, bytes / 10);
  g_assert_cmpuint (llm_kv_store_trim (store), ==, 0);
}

/* What is evicted keeps its pages while it is little, and gives them back together. */
static void
test_evict (void)
{
  const LlmKvLayout layout = { LLM_KV_FULL, LLK_KV_F16, 8, 8, 64, 16, NULL };
  g_autoptr(LlmLedger) ledger = llm_ledger_new ();
  g_autoptr(LlmKvStore) store = llm_kv_store_new (&layout, NULL, ledger, NULL);
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  g_autoptr(GError) error = NULL;
  guint64 bytes = llm_kv_store_get_chunk_bytes (store, LLK_KV_F16);
  guint n = (guint) (((guint64) 32 << 20) / bytes);

  g_assert_true (llm_kv_seq_append (seq, 16 * (n + 10), &error));
  g_assert_no_error (error);
  g_assert_cmpuint (llm_kv_store_evict (store, n * bytes, TRUE), ==, n * bytes);
  g_assert_cmpuint (store->spare_bytes, ==, n * bytes);
  g_assert_cmpuint (llm_ledger_get_total (ledger), ==, (n + 10) * bytes);
  g_assert_cmpuint (llm_kv_store_evict (store, 10 * bytes, TRUE), ==, 10 * bytes);
  g_assert_cmpuint (store->spare_bytes, ==, 0);
  g_assert_cmpuint (llm_ledger_get_total (ledger), ==, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/arena/pages", test_pages);
  g_test_add_func ("/arena/budget", test_budget);
  g_test_add_func ("/arena/evict", test_evict);
  return g_test_run ();
}
