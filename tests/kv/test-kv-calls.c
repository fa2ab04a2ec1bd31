/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls and what comes between them: packing, writing, eviction, restoring. */

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "kernels/llk.h"
#include "kv-rig.h"

static const char *const disks[] = { "threads", "uring" };

static guint
count_bits (Twin *twin,
            guint bits)
{
  guint n = 0;

  for (guint i = 0; i < twin->seq->holds->len; i++)
    n += twin_bits (twin, i) == bits;
  return n;
}

/* A chunk's packed bytes are those of its floats; and 4 bits come from 8, not from floats. */
static void
test_pack (void)
{
  const LlkKvOps *kv = llk_ops_best ()->kv;
  Rig rig;
  Twin twin;

  for (LlkKvFormat format = LLK_KV_Q8; format <= LLK_KV_Q2; format++)
    {
      rig_open (&rig, "vllm-sq", NULL, LLK_KV_F16, NULL);
      rig_close_store (&rig);
      rig.policy.uniform = format;
      rig_open_store (&rig);
      twin_open (&twin, &rig, "a");
      twin_call (&twin, 2 * RIG_SLOTS + 3);
      g_assert_cmpuint (twin_bits (&twin, 0), ==, 16);
      rig_settle (&rig);
      g_assert_cmpuint (twin_bits (&twin, 0), ==, llk_kv_bits (format));
      g_assert_cmpuint (twin_bits (&twin, 1), ==, llk_kv_bits (format));
      g_assert_cmpuint (twin_bits (&twin, 2), ==, 16);
      g_assert_cmpuint (rig.store->counters.n_packed, ==, 2);
      g_assert_cmpuint (llm_ledger_get (rig.ledger, LLM_HOLDER_KV_COMPRESSED), ==,
                        2 * llm_kv_store_get_chunk_bytes (rig.store, format));
      g_assert_cmpuint (llm_ledger_get (rig.ledger, LLM_HOLDER_KV), ==,
                        llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_F16) + rig.store->spare_bytes);

      for (guint layer = 0; layer < RIG_LAYERS; layer++)
        for (guint head = 0; head < RIG_HEADS; head++)
          {
            float keys[RIG_HEAD_DIM * RIG_SLOTS], values[RIG_VALUES];
            guint8 packed[RIG_HEAD_DIM * RIG_SLOTS * 4];
            LlmKvView view;

            for (guint slot = 0; slot < RIG_SLOTS; slot++)
              {
                twin_expect (&twin, layer, RIG_SLOTS + slot, FALSE, values);
                for (guint d = 0; d < RIG_HEAD_DIM; d++)
                  keys[d * RIG_SLOTS + slot] = values[head * RIG_HEAD_DIM + d];
              }
            kv->pack (format, LLK_KV_KEYS, RIG_HEAD_DIM, RIG_SLOTS, keys, NULL, packed);
            llm_kv_seq_view (twin.seq, layer, 1, &view);
            g_assert_cmpint (view.format, ==, format);
            g_assert_cmpmem (packed,
                             llk_kv_part_bytes (format, LLK_KV_KEYS, RIG_HEAD_DIM, RIG_SLOTS),
                             (const guint8 *) view.k + head * view.head_bytes,
                             llk_kv_part_bytes (format, LLK_KV_KEYS, RIG_HEAD_DIM, RIG_SLOTS));
          }
      twin_close (&twin);
      rig_close (&rig);
    }
}

/* What a context of 60 chunks takes, of its bytes with 8 bits, in percent. */
static double
measure_ratio (Rig   *rig,
               double ratio)
{
  Twin twin;
  double bytes;

  rig_close_store (rig);
  rig->policy.ratio = ratio / 100;
  rig_open_store (rig);
  twin_open (&twin, rig, "a");
  twin_begin (&twin, 60 * RIG_SLOTS, NULL);
  while (twin_step (&twin))
    ;
  for (guint i = 0; i < 60; i++)
    llm_kv_seq_add_density (twin.seq, i, LLM_KV_DENSITY_ONE / (1 + i * i % 89), RIG_SLOTS);
  twin_end (&twin);
  rig_settle (rig);
  bytes = (double) rig->store->bytes;
  twin_close (&twin);
  return 100 * bytes / (60 * (double) llm_kv_store_get_chunk_bytes (rig->store, LLK_KV_Q8));
}

/* What was asked for, within two points, and never less for more. */
static void
test_ratio (void)
{
  /* chunks as small as these are rounded up */
  const LlmKvLayout layout = { .n_layers = RIG_LAYERS, .n_kv_heads = RIG_HEADS,
                               .head_dim = RIG_HEAD_DIM, .chunk_slots = RIG_SLOTS };
  guint least = llm_kv_layout_get_least_ratio (&layout) + 1;
  double before = 0;
  Rig rig;

  rig_open (&rig, "llms", NULL, LLK_KV_F16, NULL);
  for (guint ratio = least; ratio <= 100; ratio += 3)
    {
      double measured = measure_ratio (&rig, ratio);

      g_assert_cmpfloat (measured, <=, ratio);
      g_assert_cmpfloat (measured, >=, ratio - 2.0);
      g_assert_cmpfloat (measured, >=, before);
      before = measured;
    }
  g_assert_cmpfloat (measure_ratio (&rig, 100), >=, 98);
  rig_close (&rig);
}

/* Less while it runs: what is packed is packed again; more then gives nothing back, but counts for
 * what comes. */
static void
test_ratio_changes (void)
{
  Rig rig;
  Twin twin;
  guint64 wide, narrow;

  rig_open (&rig, "llms", NULL, LLK_KV_F16, NULL);
  rig_close_store (&rig);
  rig.policy.ratio = 0.8;
  rig_open_store (&rig);
  twin_open (&twin, &rig, "a");
  twin_call (&twin, 40 * RIG_SLOTS);
  rig_settle (&rig);
  wide = rig.store->bytes;
  llm_kv_store_set_ratio (rig.store, 0.45);
  rig_settle (&rig);
  narrow = rig.store->bytes;
  g_assert_cmpuint (narrow, <, wide * 6 / 10);
  llm_kv_store_set_ratio (rig.store, 0.8);
  rig_settle (&rig);
  g_assert_cmpuint (rig.store->bytes, ==, narrow);
  twin_call (&twin, 20 * RIG_SLOTS);
  rig_settle (&rig);
  g_assert_cmpuint (count_bits (&twin, 8), >=, 19);
  twin_close (&twin);
  rig_close (&rig);
}

/* The ratio is kept, the densest have the most bits; what had fewer bits never gets more. */
static void
test_bits (void)
{
  Rig rig;
  Twin twin;
  guint64 budget, bytes = 0;
  g_autofree guint8 *before = NULL;

  rig_open (&rig, "llms", NULL, LLK_KV_F16, NULL);
  rig_close_store (&rig);
  rig.policy.ratio = 0.5;
  rig_open_store (&rig);
  twin_open (&twin, &rig, "a");
  twin_begin (&twin, 40 * RIG_SLOTS + 3, NULL);
  while (twin_step (&twin))
    ;
  for (guint i = 0; i < 40; i++)
    llm_kv_seq_add_density (twin.seq, i, LLM_KV_DENSITY_ONE / (i % 7 == 3 ? 1 : 100), RIG_SLOTS);
  g_assert_cmpfloat (llm_kv_seq_get_density (twin.seq, 3), ==, 1);
  twin_end (&twin);
  rig_settle (&rig);

  budget = (guint64) (0.5 * 41 * (double) llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q8));
  g_assert_cmpuint (rig.store->bytes, <=, budget);
  g_assert_cmpuint (rig.store->bytes, >, budget * 9 / 10);
  g_assert_cmpuint (twin_bits (&twin, 40), ==, 16);
  for (guint i = 0; i < 40; i++)
    if (i % 7 == 3)
      g_assert_cmpuint (twin_bits (&twin, i), >=, 4);
  g_assert_cmpuint (count_bits (&twin, 2), >, 5);

  /* The call after: what was dense is so still, though it weighs less. */
  g_assert_cmpfloat (llm_kv_seq_get_density (twin.seq, 3), ==, 1);
  before = g_new (guint8, 41);
  for (guint i = 0; i < 40; i++)
    before[i] = (guint8) twin_bits (&twin, i);
  twin_begin (&twin, 20 * RIG_SLOTS, NULL);
  while (twin_step (&twin))
    ;
  for (guint i = 0; i < 40; i++)
    llm_kv_seq_add_density (twin.seq, i, LLM_KV_DENSITY_ONE / (i % 7 == 4 ? 1 : 100), RIG_SLOTS);
  g_assert_cmpfloat_with_epsilon (llm_kv_seq_get_density (twin.seq, 3), 0.81 / 1.8, 1e-3);
  twin_end (&twin);
  rig_settle (&rig);
  for (guint i = 0; i < 40; i++)
    g_assert_cmpuint (twin_bits (&twin, i), <=, before[i]);
  for (guint i = 0; i < twin.seq->holds->len; i++)
    bytes += twin_bits (&twin, i);
  g_assert_cmpuint (bytes, >, 0);
  budget = (guint64) (0.5 * 61 * (double) llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q8));
  g_assert_cmpuint (rig.store->bytes, <=, budget);
  twin_close (&twin);
  rig_close (&rig);

  /* A short one is not harmed for the sake of its tail. */
  rig_open (&rig, "llms", NULL, LLK_KV_F16, NULL);
  twin_open (&twin, &rig, "a");
  for (guint i = 0; i < 3; i++)
    twin_call (&twin, 2 * RIG_SLOTS + 1);
  rig_settle (&rig);
  g_assert_cmpuint (count_bits (&twin, 2), ==, 0);
  g_assert_cmpuint (count_bits (&twin, 16), ==, 1);
  twin_close (&twin);
  rig_close (&rig);

  /* The broken variant spends as much, on the others. */
  rig_open (&rig, "llms-inverted", NULL, LLK_KV_F16, NULL);
  twin_open (&twin, &rig, "a");
  twin_begin (&twin, 40 * RIG_SLOTS, NULL);
  while (twin_step (&twin))
    ;
  for (guint i = 0; i < 40; i++)
    llm_kv_seq_add_density (twin.seq, i, LLM_KV_DENSITY_ONE / (i % 7 == 3 ? 1 : 100), RIG_SLOTS);
  twin_end (&twin);
  rig_settle (&rig);
  for (guint i = 3; i < 40; i += 7)
    g_assert_cmpuint (twin_bits (&twin, i), <=, twin_bits (&twin, i - 1));
  g_assert_cmpuint (count_bits (&twin, 2), >, 0);
  g_assert_cmpuint (count_bits (&twin, 2), <, 30);
  twin_close (&twin);
  rig_close (&rig);
}

/* Without storage what was taken is computed again, and only that. */
static void
test_recompute (void)
{
  static const char *const policies[] = { NULL, "lmk", "vllm-sq", "llms" };
  Rig rig;
  Twin twin;

  for (guint p = 0; p < G_N_ELEMENTS (policies); p++)
    {
      LlmKvPlan plan;
      guint n_missing;

      rig_open (&rig, policies[p], NULL, LLK_KV_F16, NULL);
      twin_open (&twin, &rig, "a");
      twin_call (&twin, 10 * RIG_SLOTS + 5);
      rig_settle (&rig);
      g_assert_cmpuint (llm_kv_store_evict (rig.store, 1, TRUE), >=,
                        llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q2));
      n_missing = count_bits (&twin, 0);
      g_assert_cmpuint (n_missing, ==, rig.policy.whole ? 11 : 1);
      g_assert_cmpuint (rig.store->counters.n_evicted, ==, n_missing);

      twin_begin (&twin, 4, &plan);
      g_assert_cmpuint (plan.n_recomputed, ==, n_missing);
      g_assert_cmpuint (plan.n_read, ==, 0);
      while (twin_step (&twin))
        ;
      g_assert_cmpuint (llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE), ==, 0);
      twin_end (&twin);
      g_assert_cmpuint (rig.store->counters.n_recomputed, ==, n_missing);
      g_assert_cmpuint (count_bits (&twin, 0), ==, 0);

      llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
      g_assert_cmpuint (llm_ledger_get_total (rig.ledger) - rig.store->spare_bytes, ==, 0);
      g_assert_cmpuint (llm_kv_seq_get_own_bytes (twin.seq), ==, 0);
      twin_call (&twin, 0);
      twin_call (&twin, 3);
      twin_close (&twin);
      rig_close (&rig);
    }
}

/* What is written ahead comes back from storage; the tail is computed. */
static void
test_restore (gconstpointer data)
{
  static const char *const policies[] = { NULL, "llms", "vllm-sq", "swapping" };
  Rig rig;
  Twin twin;

  for (guint p = 0; p < G_N_ELEMENTS (policies); p++)
    {
      const LlmKvCounters *counters;
      g_autofree char *before = NULL, *after = NULL;
      LlmKvPlan plan;

      rig_open (&rig, policies[p], data, LLK_KV_F16, NULL);
      counters = &rig.store->counters;
      twin_open (&twin, &rig, "a");
      twin_call (&twin, 40 * RIG_SLOTS + 5);
      rig_settle (&rig);
      if (policies[p] == NULL || rig.policy.writes_ahead)
        g_assert_cmpuint (counters->n_written, ==, 40);
      else
        g_assert_cmpuint (counters->n_written, ==, 0);

      g_assert_cmpuint (llm_kv_store_evict (rig.store, G_MAXUINT64, FALSE), >, 0);
      rig_settle (&rig);
      g_assert_cmpuint (rig.store->bytes, ==, 0);
      g_assert_cmpuint (counters->n_written, ==, 40);
      g_assert_cmpuint (counters->n_evicted, ==, 41);
      before = twin_map (&twin);

      twin_begin (&twin, 4, &plan);
      g_assert_cmpuint (plan.n_read, ==, 40);
      g_assert_cmpuint (plan.n_recomputed, ==, 1);
      g_assert_cmpuint (twin.rows->len, ==, 5 + 4);
      while (twin_step (&twin))
        ;
      g_assert_cmpuint (counters->n_restored, ==, 40);
      g_assert_cmpuint (counters->n_recomputed, ==, 1);
      /* whole blocks are read, of each area of an extent */
      g_assert_cmpuint (counters->read_bytes, >=, plan.read_bytes);
      g_assert_cmpuint (counters->read_bytes, <=, plan.read_bytes + 16 * LLM_DISK_BLOCK);
      twin_end (&twin);
      after = twin_map (&twin);
      g_assert_cmpstr (before, !=, after);

      /* Nothing changed, nothing is written again. */
      rig_settle (&rig);
      if (policies[p] == NULL || g_str_equal (policies[p], "swapping"))
        g_assert_cmpuint (counters->n_written, ==, 40);
      twin_close (&twin);
      rig_close (&rig);
    }
}

/* A new store over the same folder finds what belongs to the tokens, and nothing else. */
static void
test_attach (gconstpointer data)
{
  Rig rig;
  Twin twin, other;
  gint32 changed;

  rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
  twin_open (&twin, &rig, "a");
  twin_begin (&twin, 12 * RIG_SLOTS + 5, NULL);
  while (twin_step (&twin))
    ;
  for (guint i = 0; i < 12; i++)
    llm_kv_seq_add_density (twin.seq, i, i * LLM_KV_DENSITY_ONE, 2 * RIG_SLOTS);
  twin_end (&twin);
  rig_settle (&rig);
  g_clear_pointer (&twin.seq, llm_kv_seq_free);
  rig_close_store (&rig);
  rig_open_store (&rig);

  twin.seq = llm_kv_seq_new (rig.store, "app", "a");
  g_assert_cmpuint (twin_attach (&twin), ==, 12 * RIG_SLOTS);
  g_assert_cmpfloat (llm_kv_seq_get_density (twin.seq, 5), ==, 2.5f);
  g_assert_cmpuint (rig.store->bytes, ==, 0);
  twin.n_tokens = 12 * RIG_SLOTS;
  twin_call (&twin, 7);
  g_assert_cmpuint (rig.store->counters.n_restored, ==, 12);
  g_assert_cmpuint (rig.store->counters.n_recomputed, ==, 0);
  rig_settle (&rig);

  /* Another text from the middle on. */
  g_clear_pointer (&twin.seq, llm_kv_seq_free);
  twin.seq = llm_kv_seq_new (rig.store, "app", "a");
  changed = twin.tokens[6 * RIG_SLOTS + 1];
  twin.tokens[6 * RIG_SLOTS + 1] ^= 1;
  g_assert_cmpuint (twin_attach (&twin), ==, 6 * RIG_SLOTS);
  twin.tokens[6 * RIG_SLOTS + 1] = changed;
  g_clear_pointer (&twin.seq, llm_kv_seq_free);

  /* Another context. */
  twin_open (&other, &rig, "b");
  g_assert_true (llm_kv_seq_is_open (other.seq));
  g_assert_cmpuint (llm_kv_seq_attach (other.seq, twin.tokens, twin.n_tokens), ==, 0);
  twin_close (&other);

  twin_close (&twin);
  rig_close (&rig);
}

/* Damage is found where it is, and only what is damaged is computed. */
static void
test_damage (gconstpointer data)
{
  guint n_faulted = 0;

  for (guint round = 0; round < 20; round++)
    {
      Rig rig;
      Twin twin;

      rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
      twin_open (&twin, &rig, "a");
      twin_call (&twin, 20 * RIG_SLOTS);
      rig_settle (&rig);
      llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
      g_assert_cmpuint (rig.store->bytes, ==, 0);
      g_assert_cmpuint (rig_damage (&rig, "a", round / 20.0), ==, 1);
      twin_call (&twin, 7);
      n_faulted += (guint) rig.store->counters.n_faulted;
      g_assert_cmpuint (rig.store->counters.n_faulted, <, 20);
      g_assert_cmpuint (rig.store->counters.n_restored
                          + rig.store->counters.n_recomputed, ==, 20);
      rig_settle (&rig);
      llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
      twin_call (&twin, 1);
      twin_close (&twin);
      rig_close (&rig);
    }
  g_assert_cmpuint (n_faulted, >, 5);
}

/* A cut goes through what is packed, in memory and on storage. */
static void
test_cut (gconstpointer data)
{
  for (guint is_evicted = 0; is_evicted < 2; is_evicted++)
    for (guint length = 5 * RIG_SLOTS - 3; length <= 5 * RIG_SLOTS; length++)
      {
        Rig rig;
        Twin twin;

        rig_open (&rig, "vllm-sq", data, LLK_KV_F16, NULL);
        twin_open (&twin, &rig, "a");
        twin_call (&twin, 8 * RIG_SLOTS);
        rig_settle (&rig);
        if (is_evicted)
          {
            llm_kv_store_evict (rig.store, G_MAXUINT64, FALSE);
            rig_settle (&rig);
          }
        llm_kv_seq_truncate (twin.seq, length);
        twin.n_tokens = length;
        twin_call (&twin, 2 * RIG_SLOTS);
        g_assert_cmpuint (rig.store->counters.n_restored, ==,
                          is_evicted ? 5 : 0);
        g_assert_cmpuint (rig.store->counters.n_recomputed, ==, 0);
        rig_settle (&rig);
        llm_kv_store_evict (rig.store, G_MAXUINT64, FALSE);
        rig_settle (&rig);
        twin_call (&twin, 1);
        twin_close (&twin);
        rig_close (&rig);
      }
}

/* Who is locked keeps what it has; a call that is parked does not. */
static void
test_lock (gconstpointer data)
{
  Rig rig;
  Twin one, two;
  g_autoptr (GError) error = NULL;
  LlmKvPlan plan;
  guint64 bytes;

  rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
  twin_open (&one, &rig, "a");
  twin_open (&two, &rig, "b");
  twin_call (&one, 10 * RIG_SLOTS);
  twin_call (&two, 10 * RIG_SLOTS);
  rig_settle (&rig);
  bytes = rig.store->bytes;

  twin_begin (&one, 3, NULL);
  twin_step (&one);
  g_assert_cmpuint (llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE), ==, bytes / 2);
  g_assert_cmpuint (count_bits (&two, 0), ==, 0);
  g_assert_cmpuint (llm_kv_seq_get_own_bytes (two.seq), ==, 0);
  while (twin_step (&one))
    ;
  llm_kv_seq_preempt (one.seq);
  g_assert_cmpuint (llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE), >, 0);
  g_assert_cmpuint (rig.store->bytes, ==, 0);
  twin_call (&one, 4);

  /* No room: what is there stays until the sequence gives up. */
  rig_settle (&rig);
  llm_kv_store_evict (rig.store, rig.store->bytes / 2, TRUE);
  bytes = rig.store->bytes;
  g_assert_cmpuint (bytes, >, 0);
  llm_ledger_set_budget (rig.ledger, bytes + 1);
  g_assert_false (llm_kv_seq_begin_call (one.seq, 1, &plan, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_clear_error (&error);
  g_assert_cmpuint (rig.store->bytes, ==, bytes);
  g_assert_cmpuint (llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE), ==, 0);
  llm_kv_seq_preempt (one.seq);
  g_assert_cmpuint (llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE), ==, bytes);
  llm_ledger_set_budget (rig.ledger, 0);
  twin_call (&two, 1);
  twin_call (&one, 1);

  twin_close (&one);
  twin_close (&two);
  rig_close (&rig);
}

/* A window slides: sinks move and are computed, the others keep their place in the text. */
static void
test_slide (gconstpointer data)
{
  for (guint is_evicted = 0; is_evicted < 2; is_evicted++)
    {
      Rig rig;
      Twin twin;
      const LlmKvCounters *counters;

      rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
      counters = &rig.store->counters;
      rig_make_computing_cheap (&rig);
      twin_open (&twin, &rig, "a");
      twin_call (&twin, 12 * RIG_SLOTS + 5);
      rig_settle (&rig);
      if (is_evicted)
        llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
      llm_kv_seq_slide (twin.seq, RIG_SLOTS, 4 * RIG_SLOTS);
      twin.n_sinks = RIG_SLOTS;
      twin.n_slid = 4 * RIG_SLOTS;
      g_assert_cmpuint (twin.seq->n_slid, ==, 4 * RIG_SLOTS);
      g_assert_cmpuint (twin.seq->length, ==, 8 * RIG_SLOTS + 5);
      twin_call (&twin, RIG_SLOTS);
      g_assert_cmpuint (counters->n_recomputed, ==, is_evicted ? 2 : 1);
      g_assert_cmpuint (counters->n_restored, ==, is_evicted ? 7 : 0);
      rig_settle (&rig);

      /* And again after a restart: sinks are nowhere, the others are read. */
      g_clear_pointer (&twin.seq, llm_kv_seq_free);
      rig_close_store (&rig);
      rig_open_store (&rig);
      counters = &rig.store->counters;
      twin.seq = llm_kv_seq_new (rig.store, "app", "a");
      llm_kv_seq_slide (twin.seq, RIG_SLOTS, 4 * RIG_SLOTS);
      g_assert_cmpuint (twin.seq->length, ==, RIG_SLOTS);
      g_assert_cmpuint (twin_attach (&twin), ==, 9 * RIG_SLOTS);
      twin.n_tokens = 13 * RIG_SLOTS;
      twin_call (&twin, 3);
      g_assert_cmpuint (counters->n_restored, ==, 8);
      g_assert_cmpuint (counters->n_recomputed, ==, 1);

      /* Past all there is. */
      llm_kv_seq_slide (twin.seq, RIG_SLOTS, 20 * RIG_SLOTS);
      g_assert_cmpuint (twin.seq->length, ==, RIG_SLOTS);
      g_assert_cmpuint (twin.seq->n_slid, ==, 24 * RIG_SLOTS);
      twin_close (&twin);
      rig_close (&rig);
    }
}

/* Layers with windows keep what they can see, and no more. */
static void
test_windows (gconstpointer data)
{
  static const guint windows[RIG_LAYERS] = { 0, 20, 0, 33 };
  static const guint all[RIG_LAYERS] = { 20, 20, 7, 33 };
  Rig rig;
  Twin twin;
  LlmKvView view;
  LlmKvPlan plan;

  rig_open (&rig, "vllm-sq", data, LLK_KV_F16, windows);
  twin_open (&twin, &rig, "a");
  twin_call (&twin, 10 * RIG_SLOTS);
  rig_settle (&rig);
  for (guint chunk = 0; chunk < 10; chunk++)
    for (guint layer = 0; layer < RIG_LAYERS; layer++)
      {
        /* The next row sees the slots from 160 - 32 on. */
        gboolean is_left_out = windows[layer] > 0 && chunk < 8;

        llm_kv_seq_view (twin.seq, layer, chunk, &view);
        g_assert_cmpint (view.k == NULL, ==, is_left_out);
        g_assert_cmpint (view.v == NULL, ==, is_left_out);
      }
  g_assert_cmpuint (rig.store->bytes, ==,
                    2 * llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q8)
                      + 8 * rig.store->arenas[LLM_KV_FORM (LLK_KV_Q8, TRUE)].bytes);
  g_assert_cmpuint (rig.store->arenas[LLM_KV_FORM (LLK_KV_Q8, TRUE)].bytes, <,
                    llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q8) * 2 / 3);
  twin_call (&twin, 2 * RIG_SLOTS);
  rig_settle (&rig);

  /* Back to where layers are needed that are gone: all before is computed that sees a chunk that
   * lacks them. */
  llm_kv_seq_truncate (twin.seq, 8 * RIG_SLOTS + 2);
  twin.n_tokens = 8 * RIG_SLOTS + 2;
  twin_begin (&twin, 1, &plan);
  g_assert_cmpuint (plan.n_recomputed, ==, 9);
  while (twin_step (&twin))
    ;
  twin_end (&twin);
  rig_settle (&rig);
  llm_kv_store_evict (rig.store, G_MAXUINT64, FALSE);
  rig_settle (&rig);
  twin_begin (&twin, 1, &plan);
  g_assert_cmpuint (plan.n_read, ==, 8);
  while (twin_step (&twin))
    ;
  twin_end (&twin);
  twin_close (&twin);
  rig_close (&rig);

  /* Where all layers have windows, nothing is left of what lies behind. */
  rig_open (&rig, "vllm-sq", data, LLK_KV_F16, all);
  twin_open (&twin, &rig, "a");
  twin_call (&twin, 10 * RIG_SLOTS);
  rig_settle (&rig);
  g_assert_cmpuint (rig.store->bytes, ==,
                    2 * llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q8));
  llm_kv_store_evict (rig.store, G_MAXUINT64, FALSE);
  rig_settle (&rig);
  twin_begin (&twin, 1, &plan);
  g_assert_cmpuint (plan.n_read, ==, 2);
  g_assert_cmpuint (plan.n_recomputed, ==, 0);
  while (twin_step (&twin))
    ;
  twin_end (&twin);
  twin_close (&twin);
  rig_close (&rig);
}

/* A storage that takes nothing more: nothing is lost but time. */
static void
test_full (gconstpointer data)
{
  Rig rig;
  Twin twin;
  g_autoptr (GError) error = NULL;

  rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
  rig_close_store (&rig);
  g_clear_pointer (&rig.storage, llm_kv_storage_free);
  rig.storage = llm_kv_storage_new (rig.folder, llm_disk_new (data, NULL), 4096, 0, &error);
  g_assert_no_error (error);
  rig_open_store (&rig);
  twin_open (&twin, &rig, "a");
  twin_call (&twin, 10 * RIG_SLOTS);
  rig_settle (&rig);
  g_assert_cmpuint (rig.store->counters.n_written, ==, 0);
  llm_kv_store_evict (rig.store, G_MAXUINT64, FALSE);
  rig_settle (&rig);
  g_assert_cmpuint (rig.store->bytes, ==, 0);
  twin_call (&twin, 3);
  g_assert_cmpuint (rig.store->counters.n_recomputed, ==, 10);
  twin_close (&twin);
  rig_close (&rig);
}

/* Storage keeps nothing of what was cut, whether it was written before or while it was cut. */
static void
test_forget (gconstpointer data)
{
  for (guint is_under_way = 0; is_under_way < 2; is_under_way++)
    {
      Rig rig;
      Twin twin;

      rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
      twin_open (&twin, &rig, "a");
      twin_call (&twin, 10 * RIG_SLOTS);
      if (is_under_way)
        while (llm_kv_store_work (rig.store, 0))
          ;
      else
        rig_settle (&rig);
      llm_kv_seq_truncate (twin.seq, 0);
      twin.n_tokens = 0;
      rig_settle (&rig);
      g_assert_cmpuint (rig.store->counters.n_written, ==, 10);
      g_assert_cmpuint (llm_kv_storage_get_bytes (rig.storage), ==, 0);
      twin_call (&twin, 2 * RIG_SLOTS);
      twin_close (&twin);
      rig_close (&rig);
    }
}

/* Whether the file system can read single sectors to where they are wanted. */
static gboolean
has_sectors (Rig *rig)
{
  LlmDisk *disk = llm_kv_storage_get_disk (rig->storage);
  int folder = open (rig->folder, O_RDONLY | O_DIRECTORY);
  int fd = llm_disk_open (disk, folder, "sectors", O_RDWR | O_CREAT | O_EXCL);
  guint8 *memory = g_aligned_alloc0 (1, LLM_DISK_BLOCK, LLM_DISK_BLOCK);
  gboolean is_able;

  g_assert_cmpint (pwrite (fd, memory, LLM_DISK_BLOCK, 0), ==, LLM_DISK_BLOCK);
  is_able = pread (fd, memory + LLM_DISK_SECTOR, LLM_DISK_SECTOR, LLM_DISK_SECTOR)
            == LLM_DISK_SECTOR;
  unlinkat (folder, "sectors", 0);
  close (fd);
  close (folder);
  g_aligned_free (memory);
  return is_able;
}

/* Nothing that no chunk wrote is in the context's files: a debug build fills such memory with ones. */
static void
check_files (Rig        *rig,
             const char *id)
{
  g_autofree char *path = g_build_filename (rig->folder, id, NULL);
  g_autoptr(GDir) dir = g_dir_open (path, 0, NULL);
  guint8 filled[48];
  const char *name;

  g_assert_nonnull (dir);
  memset (filled, 0xff, sizeof filled);
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *file = g_build_filename (path, name, NULL);
      g_autofree char *bytes = NULL;
      gsize length;

      g_assert_true (g_file_get_contents (file, &bytes, &length, NULL));
      g_assert_null (memmem (bytes, length, filled, sizeof filled));
    }
}

/* Chunks as large as those of real models. */
#define LARGE_LAYERS 7
#define LARGE_HEADS 4
#define LARGE_HEAD_DIM 64
#define LARGE_CHUNKS 40

static void
fill_large (LlmKvSeq *seq)
{
  const guint n = LARGE_CHUNKS * RIG_SLOTS;
  gint32 tokens[LARGE_CHUNKS * RIG_SLOTS];
  float values[LARGE_HEADS * LARGE_HEAD_DIM];
  g_autoptr (GError) error = NULL;
  LlmKvPlan plan;

  g_assert_true (llm_kv_seq_begin_call (seq, n, &plan, &error));
  g_assert_true (llm_kv_seq_append (seq, n, &error));
  for (guint slot = 0; slot < n; slot++)
    {
      tokens[slot] = (gint32) slot;
      for (guint i = 0; i < G_N_ELEMENTS (values); i++)
        values[i] = (float) ((i * 37 + slot * 11) % 101) / 50 - 1;
      for (guint layer = 0; layer < LARGE_LAYERS; layer++)
        llm_kv_seq_write (seq, layer, slot, values, values);
    }
  for (guint i = 0; i < LARGE_CHUNKS; i++)
    llm_kv_seq_add_density (seq, i, LLM_KV_DENSITY_ONE / (1 + i), RIG_SLOTS);
  llm_kv_seq_end_call (seq, tokens, n);
}

static void
restore_large (Rig      *rig,
               LlmKvSeq *seq)
{
  g_autoptr (GError) error = NULL;
  LlmKvPlan plan;

  g_assert_true (llm_kv_seq_begin_call (seq, 1, &plan, &error));
  g_assert_cmpuint (plan.n_recomputed, ==, 0);
  for (guint layer = 0; layer < LARGE_LAYERS; layer++)
    while (llm_kv_seq_make_resident (seq, layer, &error) == LLM_PENDING)
      llm_kv_store_wait (rig->store, G_USEC_PER_SEC);
  g_assert_no_error (error);
  llm_kv_seq_preempt (seq);
}

/* What is read is read to where it belongs, whatever bits and layers it has, all of a context or some
 * of its chunks. */
static void
test_no_copy (gconstpointer data)
{
  static const guint windows[LARGE_LAYERS] = { 0, 2 * RIG_SLOTS, 0, 2 * RIG_SLOTS };

  for (guint i = 0; i < 2; i++)
    {
      const LlmKvLayout layout = {
        .kind = LLM_KV_FULL, .format = LLK_KV_F16, .n_layers = LARGE_LAYERS,
        .n_kv_heads = LARGE_HEADS, .head_dim = LARGE_HEAD_DIM, .chunk_slots = RIG_SLOTS,
        .windows = i == 0 ? NULL : windows,
      };
      g_autoptr (GError) error = NULL;
      LlmKvSeq *seq;
      Rig rig;

      rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
      llm_kv_store_free (rig.store);
      rig.store = llm_kv_store_new (&layout, &rig.policy, rig.ledger, &error);
      g_assert_no_error (error);
      rig.store->policy.recomputes = FALSE;
      llm_kv_store_set_storage (rig.store, rig.storage, RIG_IDENTITY);
      seq = llm_kv_seq_new (rig.store, "app", "a");
      while (!llm_kv_seq_is_open (seq))
        llm_kv_store_wait (rig.store, G_USEC_PER_SEC);
      fill_large (seq);
      rig_settle (&rig);
      check_files (&rig, "a");
      llm_kv_store_evict (rig.store, 7 * llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q4), TRUE);
      restore_large (&rig, seq);
      llm_kv_seq_evict (seq, G_MAXUINT64, FALSE);
      restore_large (&rig, seq);
      g_assert_cmpuint (rig.store->counters.n_restored, >, LARGE_CHUNKS);
      g_assert_cmpuint (rig.store->counters.read_bytes, >,
                        LARGE_CHUNKS * llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q2) / 2);
      if (has_sectors (&rig))
        g_assert_cmpuint (llm_disk_get_copied_bytes (llm_kv_storage_get_disk (rig.storage)), ==, 0);
      llm_kv_seq_free (seq);
      rig_close (&rig);
    }
}

/* Work stops when time is up, and with a sequence that goes. */
static void
test_work (gconstpointer data)
{
  Rig rig;
  Twin twin;

  rig_open (&rig, "llms", data, LLK_KV_F16, NULL);
  twin_open (&twin, &rig, "a");
  twin_call (&twin, 10 * RIG_SLOTS);
  g_assert_false (llm_kv_store_is_settled (rig.store));
  for (guint n = 1; n <= 10; n++)
    {
      g_assert_true (llm_kv_store_work (rig.store, 0));
      g_assert_cmpuint (rig.store->counters.n_packed, ==, n);
    }
  /* A call comes: what is packed stays. */
  twin_call (&twin, 10 * RIG_SLOTS);
  g_assert_cmpuint (rig.store->counters.n_packed, ==, 10);
  while (llm_kv_store_work (rig.store, 0))
    ;
  twin_close (&twin);
  g_assert_true (llm_kv_store_is_settled (rig.store));
  g_assert_false (llm_kv_store_work (rig.store, G_MAXINT64));
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
    { "restore", test_restore }, { "attach", test_attach },     { "damage", test_damage },
    { "cut", test_cut },         { "lock", test_lock },         { "slide", test_slide },
    { "windows", test_windows }, { "full", test_full },         { "work", test_work },
    { "forget", test_forget },   { "no-copy", test_no_copy },
  };

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/kv-calls/pack", test_pack);
  g_test_add_func ("/kv-calls/bits", test_bits);
  g_test_add_func ("/kv-calls/ratio", test_ratio);
  g_test_add_func ("/kv-calls/ratio-changes", test_ratio_changes);
  g_test_add_func ("/kv-calls/recompute", test_recompute);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    for (guint d = 0; d < G_N_ELEMENTS (disks); d++)
      {
        g_autofree char *path = g_strdup_printf ("/kv-calls/%s/%s", tests[i].name, disks[d]);

        g_test_add_data_func (path, disks[d], tests[i].function);
      }

  return g_test_run ();
}
