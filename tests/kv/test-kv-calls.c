/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls and what comes between them: packing, writing, eviction, restoring. */

#include <math.h>
#include <string.h>

#include "base/llm-clock.h"
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
                        llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_F16));

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
            kv->pack (format, LLK_KV_KEYS, RIG_HEAD_DIM, RIG_SLOTS, keys, packed);
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

  /* The call after: what was dense is so still, though it weighs half. */
  g_assert_cmpfloat (llm_kv_seq_get_density (twin.seq, 3), ==, 1);
  before = g_new (guint8, 41);
  for (guint i = 0; i < 40; i++)
    before[i] = (guint8) twin_bits (&twin, i);
  twin_begin (&twin, 20 * RIG_SLOTS, NULL);
  while (twin_step (&twin))
    ;
  for (guint i = 0; i < 40; i++)
    llm_kv_seq_add_density (twin.seq, i, LLM_KV_DENSITY_ONE / (i % 7 == 4 ? 1 : 100), RIG_SLOTS);
  g_assert_cmpfloat_with_epsilon (llm_kv_seq_get_density (twin.seq, 3), 0.51 / 1.5, 1e-3);
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
  g_assert_cmpuint (count_bits (&twin, 4) + count_bits (&twin, 8), >, 10);
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
      g_assert_cmpuint (llm_ledger_get_total (rig.ledger), ==, 0);
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
      g_assert_cmpuint (counters->read_bytes, ==, plan.read_bytes);
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
  rig_settle (&rig);
  bytes = rig.store->bytes;
  stored = llm_kv_storage_get_bytes (rig.storage);

  twin_open (&two, &rig, "b");
  llm_kv_seq_share (two.seq, one.seq, 10 * RIG_SLOTS);
  memcpy (two.tokens, one.tokens, sizeof one.tokens);
  memcpy (two.places, one.places, sizeof one.places);
  two.n_tokens = 10 * RIG_SLOTS;
  g_assert_cmpuint (two.seq->length, ==, 10 * RIG_SLOTS);
  g_assert_cmpuint (rig.store->bytes, ==, bytes);
  g_assert_cmpuint (llm_kv_seq_get_own_bytes (two.seq), ==, 0);
  g_assert_cmpuint (rig.store->counters.n_shared, ==, 10);
  rig_settle (&rig);
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig.storage), ==, stored);

  /* Both come back by one read, whoever asks first; each goes on alone. */
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
  twin_open (&two, &rig, "b");
  llm_kv_seq_share (two.seq, one.seq, 10 * RIG_SLOTS);
  memcpy (two.tokens, one.tokens, sizeof one.tokens);
  memcpy (two.places, one.places, sizeof one.places);
  two.n_tokens = 10 * RIG_SLOTS;
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

/* Where to compute costs nothing, all is computed that may be. */
static void
make_computing_cheap (Rig *rig)
{
  LlmKvProfile profile;

  profile = (LlmKvProfile) { 0 };
  profile.read_latency_us = 1000;
  profile.read_bytes_per_us = 0.001;
  profile.write_bytes_per_us = 1;
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 0.01 * llm_kv_profile_rows[i];
  g_assert_true (llm_kv_profile_is_measured (&profile));
  rig->store->profile = profile;
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
  make_computing_cheap (&rig);
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
  g_assert_cmpuint (rig.store->counters.n_evicted, ==, 8);

  g_clear_pointer (&two.seq, llm_kv_seq_free);
  twin_close (&one);
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
      make_computing_cheap (&rig);
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
                      + 8 * llm_kv_store_get_chunk_bytes (rig.store, LLK_KV_Q8) / 2);
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
    { "cut", test_cut },         { "lock", test_lock },         { "share", test_share },
    { "deserted", test_deserted }, { "slide", test_slide },     { "windows", test_windows },
    { "full", test_full },       { "work", test_work },
    { "forget", test_forget },     { "leave", test_leave },
  };

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/kv-calls/pack", test_pack);
  g_test_add_func ("/kv-calls/bits", test_bits);
  g_test_add_func ("/kv-calls/recompute", test_recompute);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    for (guint d = 0; d < G_N_ELEMENTS (disks); d++)
      {
        g_autofree char *path = g_strdup_printf ("/kv-calls/%s/%s", tests[i].name, disks[d]);

        g_test_add_data_func (path, disks[d], tests[i].function);
      }

  return g_test_run ();
}
