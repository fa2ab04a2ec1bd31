/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Context memory against a model of it that copies everything always. */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "kernels/llk.h"
#include "kv/llm-kv.h"

#define N_LAYERS 2
#define N_HEADS 3
#define HEAD_DIM 5
#define SLOTS 16
#define N_VALUES (N_HEADS * HEAD_DIM)

static const LlmKvLayout layout = {
  .kind = LLM_KV_FULL,
  .format = LLK_KV_F32,
  .n_layers = N_LAYERS,
  .n_kv_heads = N_HEADS,
  .head_dim = HEAD_DIM,
  .chunk_slots = SLOTS,
};

static LlmKvStore *
new_store (LlmLedger *ledger)
{
  g_autoptr (GError) error = NULL;
  LlmKvStore *store = llm_kv_store_new (&layout, NULL, ledger, &error);

  g_assert_no_error (error);
  return store;
}

static void
append (LlmKvSeq *seq,
        guint     n)
{
  g_autoptr (GError) error = NULL;
  gboolean is_done = llm_kv_seq_append (seq, n, &error);

  g_assert_no_error (error);
  g_assert_true (is_done);
}

/* Every number in it names layer, part, stamp and place. */
static void
write_stamp (LlmKvSeq *seq,
             guint     slot,
             guint     stamp)
{
  for (guint layer = 0; layer < N_LAYERS; layer++)
    {
      float k[N_VALUES], v[N_VALUES];

      for (guint i = 0; i < N_VALUES; i++)
        {
          k[i] = (float) (stamp * 100 + layer * 50 + i);
          v[i] = -k[i];
        }
      llm_kv_seq_write (seq, layer, slot, k, v);
    }
}

/* Keys lie by dimension, values by slot. */
static float
read_value (const LlmKvView *view,
            gboolean         is_value,
            guint            head,
            guint            slot,
            guint            i)
{
  gsize at = is_value ? (gsize) slot * HEAD_DIM + i : (gsize) i * view->chunk_slots + slot;
  gconstpointer part = (const guint8 *) (is_value ? view->v : view->k) + head * view->head_bytes;
  float value;

  if (view->format == LLK_KV_F32)
    return ((const float *) part)[at];

  llk_ops_portable ()->vector->f16_to_f32 ((const guint16 *) part + at, &value, 1);
  return value;
}

static void
assert_stamps (LlmKvSeq    *seq,
               const guint *stamps,
               guint        length)
{
  guint n_chunks = seq->holds->len;

  g_assert_cmpuint (seq->length, ==, length);
  g_assert_cmpuint (n_chunks, ==, (length + SLOTS - 1) / SLOTS);

  for (guint layer = 0; layer < N_LAYERS; layer++)
    for (guint chunk = 0; chunk < n_chunks; chunk++)
      {
        LlmKvView view;

        llm_kv_seq_view (seq, layer, chunk, &view);
        g_assert_cmpuint (view.first_slot, ==, chunk * SLOTS);
        g_assert_cmpuint (view.n_slots, ==, MIN (SLOTS, length - chunk * SLOTS));
        g_assert_cmpuint (view.chunk_slots, ==, SLOTS);
        for (guint slot = 0; slot < view.n_slots; slot++)
          for (guint i = 0; i < N_VALUES; i++)
            {
              guint stamp = stamps[view.first_slot + slot];
              float expected = (float) (stamp * 100 + layer * 50 + i);

              g_assert_cmpfloat (read_value (&view, FALSE, i / HEAD_DIM, slot, i % HEAD_DIM), ==,
                                 expected);
              g_assert_cmpfloat (read_value (&view, TRUE, i / HEAD_DIM, slot, i % HEAD_DIM), ==,
                                 -expected);
            }
      }
}

static void
test_layouts (void)
{
  LlmKvLayout other = layout;
  g_autoptr (GError) error = NULL;

  other.kind = LLM_KV_WINDOW;
  llm_kv_store_free (llm_kv_store_new (&other, NULL, NULL, &error));
  g_assert_no_error (error);

  for (LlmKvKind kind = LLM_KV_RECURRENT; kind <= LLM_KV_HYBRID_WINDOW + 1; kind++)
    {
      other.kind = kind;
      g_assert_null (llm_kv_store_new (&other, NULL, NULL, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      g_clear_error (&error);
    }

  for (guint i = 0; i < 10; i++)
    {
      static const LlmKvLayout wrong[] = {
        { LLM_KV_FULL, 2, 1, 1, 1, 16 },          { LLM_KV_FULL, LLK_KV_F32, 0, 1, 1, 16 },
        { LLM_KV_FULL, LLK_KV_F32, 1, 0, 1, 16 }, { LLM_KV_FULL, LLK_KV_F32, 1, 1, 0, 16 },
        { LLM_KV_FULL, LLK_KV_F32, 1, 1, 1, 0 },  { LLM_KV_FULL, LLK_KV_F32, 1, 1, 1, 80 },
        { LLM_KV_FULL, LLK_KV_F32, 1, 1, 577, 16 },
        { LLM_KV_FULL, LLK_KV_F32, 1 << 30, 1, 1, 16 },
        { LLM_KV_FULL, LLK_KV_F32, 1, 1, 1, 8 },  { LLM_KV_FULL, LLK_KV_F32, 1, 1, 1, 40 },
      };

      g_assert_null (llm_kv_store_new (&wrong[i], NULL, NULL, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      if (i >= 8)
        g_assert_true (g_pattern_match_simple ("*multiples of 16*", error->message));
      g_clear_error (&error);
    }

  other = layout;
  for (other.chunk_slots = 16; other.chunk_slots <= 64; other.chunk_slots += 16)
    {
      llm_kv_store_free (llm_kv_store_new (&other, NULL, NULL, &error));
      g_assert_no_error (error);
    }
}

static void
test_half (void)
{
  LlmKvLayout half = layout;
  g_autoptr (LlmKvStore) store = NULL;
  g_autoptr (LlmKvSeq) seq = NULL;
  float k[N_VALUES], v[N_VALUES];
  LlmKvView view;

  half.format = LLK_KV_F16;
  store = llm_kv_store_new (&half, NULL, NULL, NULL);
  seq = llm_kv_seq_new (store, NULL, NULL);
  append (seq, SLOTS + 2);
  for (guint i = 0; i < N_VALUES; i++)
    {
      k[i] = 1 + (float) i / 1024;   /* halves hold it */
      v[i] = 1e6f;                   /* and not this */
    }
  llm_kv_seq_write (seq, 1, SLOTS + 1, k, v);
  llm_kv_seq_view (seq, 1, 1, &view);
  g_assert_cmpint (view.format, ==, LLK_KV_F16);
  for (guint i = 0; i < N_VALUES; i++)
    {
      g_assert_cmpfloat (read_value (&view, FALSE, i / HEAD_DIM, 1, i % HEAD_DIM), ==, k[i]);
      g_assert_cmpfloat (read_value (&view, TRUE, i / HEAD_DIM, 1, i % HEAD_DIM), ==, INFINITY);
    }
}

static void
test_fork (void)
{
  g_autoptr (LlmLedger) ledger = llm_ledger_new ();
  g_autoptr (LlmKvStore) store = new_store (ledger);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  guint stamps[2 * SLOTS], fork_stamps[2 * SLOTS];
  guint64 chunk_bytes;

  append (seq, SLOTS + 2);
  for (guint i = 0; i < SLOTS + 2; i++)
    write_stamp (seq, i, stamps[i] = fork_stamps[i] = i + 1);
  chunk_bytes = store->bytes / 2;
  g_assert_cmpuint (chunk_bytes, >=, 2 * N_LAYERS * SLOTS * N_VALUES * sizeof (float));
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_KV), ==, 2 * chunk_bytes + store->spare_bytes);
  g_assert_cmpuint (llm_kv_seq_get_own_bytes (seq), ==, 2 * chunk_bytes);
  llm_kv_seq_add_density (seq, 1, LLM_KV_DENSITY_ONE / 2, SLOTS);

  {
    g_autoptr (LlmKvSeq) fork = llm_kv_seq_fork (seq, NULL, NULL);

    /* Shared until written. */
    g_assert_cmpuint (store->bytes, ==, 2 * chunk_bytes);
    g_assert_cmpuint (llm_kv_seq_get_own_bytes (seq), ==, 0);
    g_assert_cmpuint (llm_kv_seq_get_own_bytes (fork), ==, 0);
    g_assert_cmpfloat (llm_kv_seq_get_density (fork, 1), ==, 0.5f);
    assert_stamps (fork, stamps, SLOTS + 2);

    /* Appending copies the last chunk, and nothing else. */
    append (fork, 1);
    g_assert_cmpuint (store->bytes, ==, 3 * chunk_bytes);
    g_assert_cmpuint (llm_kv_seq_get_own_bytes (fork), ==, chunk_bytes);
    write_stamp (fork, SLOTS + 2, fork_stamps[SLOTS + 2] = 70);
    append (seq, 1);
    g_assert_cmpuint (store->bytes, ==, 3 * chunk_bytes);
    write_stamp (seq, SLOTS + 2, stamps[SLOTS + 2] = 7);

    /* A write to a shared chunk copies it. */
    write_stamp (fork, 0, fork_stamps[0] = 80);
    g_assert_cmpuint (store->bytes, ==, 4 * chunk_bytes);
    llm_kv_seq_add_density (fork, 0, 2 * LLM_KV_DENSITY_ONE, SLOTS);
    g_assert_cmpfloat (llm_kv_seq_get_density (seq, 0), ==, 0);
    assert_stamps (seq, stamps, SLOTS + 3);
    assert_stamps (fork, fork_stamps, SLOTS + 3);
  }

  g_assert_cmpuint (store->bytes, ==, 2 * chunk_bytes);
  assert_stamps (seq, stamps, SLOTS + 3);
  llm_kv_seq_truncate (seq, 0);
  g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_KV), ==, store->spare_bytes);
}

static void
test_budget (void)
{
  g_autoptr (LlmLedger) ledger = llm_ledger_new ();
  g_autoptr (LlmKvStore) store = new_store (ledger);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  g_autoptr (LlmKvSeq) fork = NULL;
  g_autoptr (GError) error = NULL;
  guint stamps[2 * SLOTS];
  guint64 chunk_bytes;

  append (seq, SLOTS + 2);
  for (guint i = 0; i < SLOTS + 2; i++)
    write_stamp (seq, i, stamps[i] = i + 1);
  chunk_bytes = store->bytes / 2;
  llm_ledger_set_budget (ledger, 3 * chunk_bytes);

  /* Within the last chunk nothing is needed; past the next one it is too much. */
  g_assert_false (llm_kv_seq_append (seq, 2 * SLOTS - 1, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_clear_error (&error);
  assert_stamps (seq, stamps, SLOTS + 2);
  g_assert_false (llm_kv_seq_append (seq, G_MAXUINT, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_clear_error (&error);
  g_assert_cmpuint (store->bytes, ==, 2 * chunk_bytes);

  /* The copy of a shared chunk counts as well. */
  fork = llm_kv_seq_fork (seq, NULL, NULL);
  g_assert_false (llm_kv_seq_append (fork, SLOTS - 1, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY);
  g_clear_error (&error);
  assert_stamps (fork, stamps, SLOTS + 2);
  append (fork, SLOTS - 2);
  g_assert_cmpuint (store->bytes, ==, 3 * chunk_bytes);

  llm_ledger_set_budget (ledger, 0);
  append (seq, 25 * SLOTS);
  g_assert_cmpuint (store->bytes, ==, 28 * chunk_bytes);
}

/* What the price says is never less than what an append takes. */
static void
test_price (void)
{
  g_autoptr (LlmKvStore) store = new_store (NULL);

  g_assert_cmpuint (llm_kv_store_price (store, 0), ==, 0);
  for (guint start = 0; start < 2 * SLOTS + 1; start++)
    for (guint n = 1; n < 5 * SLOTS; n++)
      {
        g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
        g_autoptr (LlmKvSeq) fork = NULL;
        guint64 before;

        append (seq, start);
        fork = llm_kv_seq_fork (seq, NULL, NULL);
        before = store->bytes;
        append (fork, n);
        g_assert_cmpuint (store->bytes - before, <=,
                          llm_kv_store_price (store, n));
        if (start % SLOTS == SLOTS - 1)
          g_assert_cmpuint (store->bytes - before, ==,
                            llm_kv_store_price (store, n));
      }
}

static void
test_commit (void)
{
  g_autoptr (LlmKvStore) store = new_store (NULL);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  g_autoptr (LlmKvSeq) fork = NULL;
  static const guint path[] = { SLOTS + 1, SLOTS + 3, 2 * SLOTS, 3 * SLOTS + 2 };
  guint before[4 * SLOTS], after[SLOTS + 5];

  for (guint i = 0; i < 4 * SLOTS; i++)
    before[i] = i;
  memcpy (after, before, (SLOTS + 1) * sizeof *after);
  memcpy (after + SLOTS + 1, path, sizeof path);
  append (seq, 4 * SLOTS);
  for (guint i = 0; i < 4 * SLOTS; i++)
    write_stamp (seq, i, i);
  fork = llm_kv_seq_fork (seq, NULL, NULL);

  llm_kv_seq_commit (seq, SLOTS + 1, path, 4);
  assert_stamps (seq, after, SLOTS + 5);
  assert_stamps (fork, before, 4 * SLOTS);
  llm_kv_seq_commit (fork, SLOTS + 1, NULL, 0);
  assert_stamps (fork, before, SLOTS + 1);
}

/* Rows that are tried behind a part of a call's slots take a copy of the last chunk and their own; nothing
 * of them is seen by the call, or left, and no call is counted for them. */
static void
test_branch (void)
{
  g_autoptr (LlmKvStore) store = new_store (NULL);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  g_autoptr (GError) error = NULL;
  guint stamps[3 * SLOTS], tried[SLOTS + 9];
  guint64 chunk_bytes, before;
  guint n_sequences;
  LlmKvPlan plan;

  append (seq, 2 * SLOTS + 2);
  for (guint i = 0; i < 2 * SLOTS + 2; i++)
    write_stamp (seq, i, stamps[i] = i + 1);
  chunk_bytes = store->bytes / 3;
  g_assert_true (llm_kv_seq_begin_call (seq, 4, &plan, &error));
  g_assert_no_error (error);
  before = store->bytes;
  n_sequences = store->sequences.length;
  for (guint round = 0; round < 3; round++)
    {
      LlmKvSeq *branch = llm_kv_seq_branch (seq, SLOTS + 3);

      assert_stamps (branch, stamps, SLOTS + 3);
      append (branch, 6);
      g_assert_cmpuint (store->bytes, ==, before + chunk_bytes);
      memcpy (tried, stamps, sizeof tried);
      for (guint i = SLOTS + 3; i < SLOTS + 9; i++)
        write_stamp (branch, i, tried[i] = 1000 + i);
      write_stamp (seq, 2 * SLOTS + 1, stamps[2 * SLOTS + 1] = 500 + round);
      assert_stamps (branch, tried, SLOTS + 9);
      assert_stamps (seq, stamps, 2 * SLOTS + 2);
      llm_kv_store_evict (store, G_MAXUINT64, TRUE);
      g_assert_false (llm_kv_store_work (store, 0));
      assert_stamps (branch, tried, SLOTS + 9);
      llm_kv_seq_truncate (branch, SLOTS + 3);
      append (branch, 1);
      llm_kv_seq_free (branch);
      g_assert_cmpuint (store->bytes, ==, before);
      g_assert_cmpuint (store->sequences.length, ==, n_sequences);
    }
  append (seq, 4);
  for (guint i = 2 * SLOTS + 2; i < 2 * SLOTS + 6; i++)
    write_stamp (seq, i, stamps[i] = i + 1);
  assert_stamps (seq, stamps, 2 * SLOTS + 6);
  g_assert_cmpuint (store->bytes, ==, before);
  llm_kv_seq_end_call (seq, NULL, 0);
}

/* More chunks than a block has, freed in any order: each keeps its own content,
 * and a fresh one is not what it was before. */
static void
test_blocks (void)
{
  g_autoptr (LlmLedger) ledger = llm_ledger_new ();
  g_autoptr (LlmKvStore) store = new_store (ledger);
  LlmKvSeq *sequences[150];

  for (guint round = 0; round < 3; round++)
    {
      for (guint i = 0; i < G_N_ELEMENTS (sequences); i++)
        {
          sequences[i] = llm_kv_seq_new (store, NULL, NULL);
          append (sequences[i], SLOTS);
          for (guint slot = 0; slot < SLOTS; slot++)
            write_stamp (sequences[i], slot, 1000 * round + i);
        }
      for (guint i = 0; i < G_N_ELEMENTS (sequences); i++)
        {
          guint at = (i * 37 + round) % G_N_ELEMENTS (sequences);
          guint stamps[SLOTS];

          for (guint slot = 0; slot < SLOTS; slot++)
            stamps[slot] = 1000 * round + at;
          assert_stamps (sequences[at], stamps, SLOTS);
          g_clear_pointer (&sequences[at], llm_kv_seq_free);
        }
      g_assert_cmpuint (llm_ledger_get_total (ledger) - store->spare_bytes, ==, 0);
    }
}

#ifdef LLM_POISON
/* What was never written, or forgotten, shows up in a debug build. */
static void
test_poison (void)
{
  g_autoptr (LlmKvStore) store = new_store (NULL);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (store, NULL, NULL);
  LlmKvView view;

  append (seq, 4);
  llm_kv_seq_view (seq, 1, 0, &view);
  g_assert_true (isnan (read_value (&view, FALSE, 2, 3, 4)));
  for (guint i = 0; i < 4; i++)
    write_stamp (seq, i, i);
  llm_kv_seq_truncate (seq, 2);
  for (guint layer = 0; layer < N_LAYERS; layer++)
    for (guint head = 0; head < N_HEADS; head++)
      {
        llm_kv_seq_view (seq, layer, 0, &view);
        g_assert_false (isnan (read_value (&view, FALSE, head, 1, 4)));
        g_assert_true (isnan (read_value (&view, FALSE, head, 2, 0)));
        g_assert_true (isnan (read_value (&view, TRUE, head, 3, 4)));
      }
}
#endif

/* --- any operations in any order --- */

typedef struct
{
  LlmKvSeq *seq;
  guint stamps[200];
  guint length;
} Twin;

static void
commit_random_path (Twin *twin)
{
  guint first = (guint) g_test_rand_int_range (0, (gint) twin->length + 1);
  guint path[200];
  guint n = 0;

  for (guint i = first; i < twin->length; i++)
    if (g_test_rand_bit ())
      path[n++] = i;
  llm_kv_seq_commit (twin->seq, first, path, n);
  for (guint i = 0; i < n; i++)
    twin->stamps[first + i] = twin->stamps[path[i]];
  twin->length = first + n;
}

static void
change_twin (Twin  *twin,
             guint *stamp)
{
  guint n = (guint) g_test_rand_int_range (0, 2 * SLOTS);

  switch (g_test_rand_int_range (0, 5))
    {
    case 0:
    case 1:
      if (twin->length + n > G_N_ELEMENTS (twin->stamps))
        break;
      append (twin->seq, n);
      for (guint i = twin->length; i < twin->length + n; i++)
        write_stamp (twin->seq, i, twin->stamps[i] = ++*stamp);
      twin->length += n;
      break;
    case 2:
      twin->length -= MIN (n, twin->length);
      llm_kv_seq_truncate (twin->seq, twin->length);
      break;
    case 3:
      if (twin->length > 0)
        {
          guint slot = (guint) g_test_rand_int_range (0, (gint) twin->length);

          write_stamp (twin->seq, slot, twin->stamps[slot] = ++*stamp);
        }
      break;
    case 4:
      commit_random_path (twin);
      break;
    default:
      g_assert_not_reached ();
    }
}

static void
test_random (void)
{
  g_autoptr (LlmLedger) ledger = llm_ledger_new ();
  g_autoptr (LlmKvStore) store = new_store (ledger);
  Twin twins[5] = { 0 };
  guint stamp = 0;

  for (guint i = 0; i < G_N_ELEMENTS (twins); i++)
    twins[i].seq = llm_kv_seq_new (store, NULL, NULL);

  for (guint round = 0; round < 3000; round++)
    {
      Twin *twin = &twins[g_test_rand_int_range (0, G_N_ELEMENTS (twins))];
      Twin *other = &twins[g_test_rand_int_range (0, G_N_ELEMENTS (twins))];

      /* Floats hold stamps below 2^24 / 100. */
      stamp = stamp > 100000 ? 0 : stamp;
      if (other != twin && g_test_rand_int_range (0, 8) == 0)
        {
          llm_kv_seq_free (twin->seq);
          *twin = *other;
          twin->seq = llm_kv_seq_fork (other->seq, NULL, NULL);
        }
      else
        change_twin (twin, &stamp);

      for (guint i = 0; i < G_N_ELEMENTS (twins); i++)
        assert_stamps (twins[i].seq, twins[i].stamps, twins[i].length);
      g_assert_cmpuint (llm_ledger_get (ledger, LLM_HOLDER_KV), ==, store->bytes + store->spare_bytes);
    }

  for (guint i = 0; i < G_N_ELEMENTS (twins); i++)
    llm_kv_seq_free (twins[i].seq);
  g_assert_cmpuint (llm_ledger_get_total (ledger) - store->spare_bytes, ==, 0);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/kv/layouts", test_layouts);
  g_test_add_func ("/kv/half", test_half);
  g_test_add_func ("/kv/fork", test_fork);
  g_test_add_func ("/kv/budget", test_budget);
  g_test_add_func ("/kv/price", test_price);
  g_test_add_func ("/kv/commit", test_commit);
  g_test_add_func ("/kv/branch", test_branch);
  g_test_add_func ("/kv/blocks", test_blocks);
#ifdef LLM_POISON
  g_test_add_func ("/kv/poison", test_poison);
#endif
  g_test_add_func ("/kv/random", test_random);

  return g_test_run ();
}
