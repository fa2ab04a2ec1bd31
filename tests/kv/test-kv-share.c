/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chunks that several sequences hold: beginnings that are alike, and forks. */

#include <string.h>

#include "kernels/llk.h"
#include "kv-rig.h"

static const char *const disks[] = { "threads", "uring" };

/* Both have the first @n_slots slots of @from. */
static void
share (Twin       *twin,
       const char *id,
       Twin       *from,
       guint       n_slots)
{
  twin_open (twin, from->rig, id);
  llm_kv_seq_share (twin->seq, from->seq, n_slots);
  memcpy (twin->tokens, from->tokens, sizeof from->tokens);
  memcpy (twin->places, from->places, sizeof from->places);
  twin->n_tokens = n_slots;
  g_assert_cmpuint (twin->seq->length, ==, n_slots);
}

/* Forks and equal beginnings have their chunks once, in memory and on storage. */
static void
test_share (gconstpointer data)
{
  Rig rig;
  Twin one, two;
  guint64 bytes, stored;

  rig_open (&rig, "vllm-sq", data, LLK_KV_F16, NULL);
  rig_close_store (&rig);
  rig.policy.writes_ahead = TRUE;
  rig_open_store (&rig);
  twin_open (&one, &rig, "a");
  twin_call (&one, 10 * RIG_SLOTS);
  for (guint i = 0; i < 10; i++)
    llm_kv_seq_add_density (one.seq, i, LLM_KV_DENSITY_ONE, RIG_SLOTS);
  rig_settle (&rig);
  bytes = rig.store->bytes;
  stored = llm_kv_storage_get_bytes (rig.storage);

  share (&two, "b", &one, 10 * RIG_SLOTS);
  /* what the other one's rows looked at is its own affair */
  for (guint i = 0; i < 10; i++)
    {
      g_assert_cmpfloat (llm_kv_seq_get_density (one.seq, i), >, 0);
      g_assert_cmpfloat (llm_kv_seq_get_density (two.seq, i), ==, 0);
    }
  g_assert_cmpuint (rig.store->bytes, ==, bytes);
  g_assert_cmpuint (llm_kv_seq_get_own_bytes (two.seq), ==, 0);
  g_assert_cmpuint (rig.store->counters.n_shared, ==, 10);
  rig_settle (&rig);
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig.storage), ==, stored);

  /* Both come back by one read, whichever asks first; each goes on alone. */
  llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
  g_assert_cmpuint (rig.store->bytes, ==, 0);
  twin_begin (&one, 3, NULL);
  twin_begin (&two, 5, NULL);
  while (twin_step (&one) | twin_step (&two))
    ;
  g_assert_cmpuint (rig.store->counters.n_restored, ==, 10);
  twin_end (&one);
  twin_end (&two);
  rig_settle (&rig);

  /* What one has stays when the other goes. */
  llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
  twin_close (&one);
  llm_kv_storage_remove (rig.storage, "a");
  twin_call (&two, 2);
  g_assert_cmpuint (rig.store->counters.n_restored, ==, 20);
  twin_close (&two);
  rig_close (&rig);
}

/* Two that share what is gone, and the one that brings it back leaves. */
static void
test_deserted (gconstpointer data)
{
  const LlmKvCounters *counters;
  Rig rig;
  Twin one, two;

  rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
  twin_open (&one, &rig, "a");
  twin_call (&one, 10 * RIG_SLOTS);
  rig_settle (&rig);
  share (&two, "b", &one, 10 * RIG_SLOTS);
  rig_settle (&rig);
  llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);

  twin_begin (&one, 3, NULL);
  twin_begin (&two, 5, NULL);
  twin_give_up (&one);
  while (twin_step (&two))
    ;
  twin_end (&two);
  /* What had come before is there, the rest is computed. */
  counters = &rig.store->counters;
  g_assert_cmpuint (counters->n_faulted, ==, counters->n_recomputed);
  g_assert_cmpuint (counters->n_restored + counters->n_recomputed, ==, 10);
  twin_close (&one);
  twin_close (&two);
  rig_close (&rig);
}

/* What was computed again, and gets its memory taken before it is packed, needs no more writing
 * when it has the form that lies on storage. */
static void
test_leave (gconstpointer data)
{
  Rig rig;
  Twin one, two;
  LlmKvPlan plan;

  rig_open (&rig, "llms-no-compression", data, LLK_KV_F16, NULL);
  rig_make_computing_cheap (&rig);
  twin_open (&one, &rig, "one");
  twin_call (&one, 4 * RIG_SLOTS);
  rig_settle (&rig);
  two = one;
  g_strlcpy (two.id, "two", sizeof two.id);
  two.seq = llm_kv_seq_fork (one.seq, "app", two.id);
  rig_settle (&rig);
  llm_kv_store_evict (rig.store, G_MAXUINT64, FALSE);
  g_assert_cmpuint (rig.store->bytes, ==, 0);

  twin_begin (&one, 0, &plan);
  g_assert_cmpuint (plan.n_recomputed, ==, 4);
  while (twin_step (&one))
    ;
  twin_end (&one);
  g_assert_cmpuint (llm_kv_store_evict (rig.store, G_MAXUINT64, FALSE), ==, 0);
  g_assert_cmpuint (rig.store->bytes, >, 0);
  rig_settle (&rig);
  g_assert_cmpuint (rig.store->bytes, ==, 0);
  g_assert_cmpuint (rig.store->counters.n_written, ==, 4);
  /* the first time together, then each its own */
  g_assert_cmpuint (rig.store->counters.n_evicted, ==, 12);

  g_clear_pointer (&two.seq, llm_kv_seq_free);
  twin_close (&one);
  rig_close (&rig);
}

/* A path through a tree of drafts moves slots of what both had. Such a chunk is not quantized to
 * what the other has made of it before. */
static void
test_moved (gconstpointer data)
{
  Rig rig;
  Twin one, two;
  guint path[3 * RIG_SLOTS - 1];

  rig_open (&rig, "llms-no-compression", data, LLK_KV_F16, NULL);
  twin_open (&one, &rig, "a");
  twin_call (&one, 4 * RIG_SLOTS);
  share (&two, "b", &one, 4 * RIG_SLOTS);
  /* the first is quantized, the second is in a call */
  twin_begin (&two, 0, NULL);
  rig_settle (&rig);
  g_assert_cmpuint (rig.store->counters.n_packed, ==, 4);
  while (twin_step (&two))
    ;
  twin_end (&two);

  for (guint i = 0; i < G_N_ELEMENTS (path); i++)
    path[i] = RIG_SLOTS + 1 + i;
  llm_kv_seq_commit (two.seq, RIG_SLOTS, path, G_N_ELEMENTS (path));
  memmove (two.tokens + RIG_SLOTS, two.tokens + RIG_SLOTS + 1, sizeof path);
  memmove (two.places + RIG_SLOTS, two.places + RIG_SLOTS + 1, sizeof path);
  two.n_tokens -= 1;
  twin_make_rough (&two);
  rig_settle (&rig);
  g_assert_cmpuint (twin_bits (&two, 1), ==, 8);
  twin_call (&two, 1);
  twin_call (&one, 1);

  twin_close (&one);
  twin_close (&two);
  rig_close (&rig);
}

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *name;
    GTestDataFunc function;
  } tests[] = {
    { "share", test_share }, { "deserted", test_deserted }, { "leave", test_leave },
    { "moved", test_moved },
  };

  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    for (guint d = 0; d < G_N_ELEMENTS (disks); d++)
      {
        g_autofree char *path = g_strdup_printf ("/kv-share/%s/%s", tests[i].name, disks[d]);

        g_test_add_data_func (path, disks[d], tests[i].function);
      }

  return g_test_run ();
}
