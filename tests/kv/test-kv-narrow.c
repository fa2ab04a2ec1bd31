/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fewer bits while memory is short (S4): who goes first, who never, and how bits come back. */

#include <string.h>

#include "kernels/llk.h"
#include "kv-rig.h"

#define CHUNKS 8

/* Chunks with 8 bits; storage that reads a byte a microsecond. */
static void
open_rig (Rig        *rig,
          const char *disk)
{
  rig_open (rig, "llms", disk, LLK_KV_F16, NULL);
  rig_close_store (rig);
  rig->policy.ratio = 4;
  rig_open_store (rig);
  rig->store->narrows = TRUE;
  rig->store->profile.read_bytes_per_us = 1;
}

static guint64
chunk_bytes (Rig        *rig,
             LlkKvFormat format)
{
  return llm_kv_store_get_chunk_bytes (rig->store, format);
}

/* A context of CHUNKS chunks that was called, packed and written. */
static void
open_twin (Twin       *twin,
           Rig        *rig,
           const char *id)
{
  twin_open (twin, rig, id);
  twin_call (twin, CHUNKS * RIG_SLOTS);
  rig_settle (rig);
  for (guint i = 0; i < CHUNKS; i++)
    g_assert_cmpuint (twin_bits (twin, i), ==, 8);
}

static guint
count (Twin *twin,
       guint bits)
{
  guint n = 0;

  for (guint i = 0; i < twin->seq->holds->len; i++)
    {
      LlmKvChunkInfo info;

      llm_kv_seq_get_info (twin->seq, i, &info);
      n += info.is_in_memory && info.bits == bits;
    }
  return n;
}

static guint
count_gone (Twin *twin)
{
  return twin->seq->holds->len - count (twin, 16) - count (twin, 8) - count (twin, 4)
         - count (twin, 3) - count (twin, 2);
}

/* Of all chunks in memory. */
static GBytes *
copy_chunks (Twin *twin)
{
  GByteArray *bytes = g_byte_array_new ();

  for (guint i = 0; i < CHUNKS; i++)
    for (guint layer = 0; layer < RIG_LAYERS; layer++)
      {
        LlmKvView view;

        llm_kv_seq_view (twin->seq, layer, i, &view);
        g_byte_array_append (bytes, view.k, (guint) view.head_bytes * RIG_HEADS);
      }
  return g_byte_array_free_to_bytes (bytes);
}

/* First what is written and back in time, then fewer bits for what is not, then all. */
static void
test_order (gconstpointer data)
{
  Rig rig;
  Twin any, late, exact;
  guint64 wide, middle, least;
  const LlmKvCounters *counters;

  open_rig (&rig, data);
  counters = &rig.store->counters;
  wide = chunk_bytes (&rig, LLK_KV_Q8);
  middle = chunk_bytes (&rig, LLK_KV_Q4);
  least = chunk_bytes (&rig, LLK_KV_Q2);
  open_twin (&late, &rig, "late");
  open_twin (&any, &rig, "any");
  open_twin (&exact, &rig, "exact");
  any.seq->restore_us = 1e9;
  late.seq->restore_us = exact.seq->restore_us = 0.5;
  exact.seq->is_exact = TRUE;

  g_assert_cmpuint (llm_kv_store_evict (rig.store, 1, TRUE), ==, wide);
  g_assert_cmpuint (count_gone (&any), ==, 1);
  g_assert_cmpuint (llm_kv_store_evict (rig.store, (CHUNKS - 1) * wide, FALSE), ==,
                    (CHUNKS - 1) * wide);
  g_assert_cmpuint (count_gone (&any), ==, CHUNKS);
  g_assert_cmpuint (count (&late, 8) + count (&exact, 8), ==, 2 * CHUNKS);
  g_assert_cmpuint (counters->n_narrowed, ==, 0);

  /* one step of all before the second step of one */
  llm_kv_store_evict (rig.store, (CHUNKS - 1) * (wide - middle), TRUE);
  g_assert_cmpuint (count (&late, 4), ==, CHUNKS - 1);
  g_assert_cmpuint (count (&late, 8), ==, 1);
  llm_kv_store_evict (rig.store, wide - middle, TRUE);
  g_assert_cmpuint (count (&late, 4), ==, CHUNKS);
  while (count (&late, 2) < CHUNKS)
    {
      g_assert_cmpuint (llm_kv_store_evict (rig.store, 1, TRUE), >, 0);
      g_assert_cmpuint (count (&exact, 8), ==, CHUNKS);
      g_assert_cmpuint (count_gone (&late), ==, 0);
    }
  g_assert_cmpuint (rig.store->bytes, ==, CHUNKS * (wide + least));
  g_assert_cmpuint (rig.store->n_narrow, ==, CHUNKS);
  g_assert_cmpuint (counters->n_dropped, ==, 0);
  g_assert_cmpuint (counters->n_evicted, ==, CHUNKS);

  /* nothing else is left */
  llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
  g_assert_cmpuint (rig.store->bytes, ==, 0);
  g_assert_cmpuint (rig.store->n_narrow, ==, 0);
  g_assert_cmpuint (count_gone (&exact), ==, CHUNKS);
  g_assert_cmpuint (counters->n_dropped, ==, 0);
  twin_close (&any);
  twin_close (&late);
  twin_close (&exact);
  rig_close (&rig);
}

/* Of those in one format the context that is called again and again loses bits last, though another
 * was used after it. */
static void
test_chance (gconstpointer data)
{
  Rig rig;
  Twin often, seldom;
  guint64 step;

  open_rig (&rig, data);
  step = chunk_bytes (&rig, LLK_KV_Q8) - chunk_bytes (&rig, LLK_KV_Q4);
  open_twin (&often, &rig, "often");
  open_twin (&seldom, &rig, "seldom");
  for (guint i = 0; i < 40; i++)
    twin_call (i % 8 == 7 ? &seldom : &often, 0);
  rig_settle (&rig);
  often.seq->restore_us = seldom.seq->restore_us = 0.5;
  llm_kv_store_evict (rig.store, CHUNKS * step, TRUE);
  g_assert_cmpuint (count (&seldom, 4), ==, CHUNKS);
  g_assert_cmpuint (count (&often, 8), ==, CHUNKS);
  llm_kv_store_evict (rig.store, CHUNKS * step, TRUE);
  g_assert_cmpuint (count (&seldom, 4), ==, CHUNKS);
  g_assert_cmpuint (count (&often, 4), ==, CHUNKS);

  /* no bits are taken of what goes anyway */
  llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
  g_assert_cmpuint (rig.store->bytes, ==, 0);
  g_assert_cmpuint (rig.store->counters.n_narrowed, ==, 2 * CHUNKS);
  twin_close (&often);
  twin_close (&seldom);
  rig_close (&rig);
}

/* Only as much goes as can be read in the time that a call has; then bits. */
static void
test_part (gconstpointer data)
{
  Rig rig;
  Twin twin;
  guint64 wide;

  open_rig (&rig, data);
  wide = chunk_bytes (&rig, LLK_KV_Q8);
  open_twin (&twin, &rig, "a");
  twin.seq->restore_us = 3.5 * (double) wide;
  llm_kv_store_evict (rig.store, 3 * wide + 1, TRUE);
  g_assert_cmpuint (count_gone (&twin), ==, 3);
  g_assert_cmpuint (count (&twin, 4), ==, 1);
  g_assert_cmpuint (count (&twin, 8), ==, CHUNKS - 4);
  twin_close (&twin);
  rig_close (&rig);
}

/* What lies nowhere else is quantized before it is dropped; one that must not lose bits is dropped. */
static void
test_unwritten (void)
{
  Rig rig;
  Twin twin, exact;

  open_rig (&rig, NULL);
  open_twin (&twin, &rig, "a");
  open_twin (&exact, &rig, "b");
  exact.seq->is_exact = TRUE;
  while (count (&twin, 2) < CHUNKS)
    llm_kv_store_evict (rig.store, 1, FALSE);
  g_assert_cmpuint (count (&exact, 8), ==, CHUNKS);
  g_assert_cmpuint (rig.store->counters.n_evicted, ==, 0);
  while (count_gone (&exact) + count_gone (&twin) < CHUNKS)
    llm_kv_store_evict (rig.store, 1, FALSE);
  g_assert_cmpuint (rig.store->counters.n_dropped, ==, CHUNKS);

  /* there is nothing to bring back */
  llm_kv_store_widen (rig.store);
  rig_settle (&rig);
  g_assert_cmpuint (rig.store->counters.n_widened, ==, 0);
  twin_close (&twin);
  twin_close (&exact);
  rig_close (&rig);
}

/* Where chunks stay floats, nothing is quantized. */
static void
test_off (void)
{
  Rig rig;
  Twin twin;

  rig_open (&rig, NULL, NULL, LLK_KV_F16, NULL);
  twin_open (&twin, &rig, "a");
  twin_call (&twin, CHUNKS * RIG_SLOTS);
  rig_settle (&rig);
  llm_kv_store_evict (rig.store, 1, TRUE);
  g_assert_cmpuint (count (&twin, 16), ==, CHUNKS - 1);
  g_assert_cmpuint (rig.store->counters.n_narrowed, ==, 0);
  twin_close (&twin);
  rig_close (&rig);
}

static void
narrow_all (Rig  *rig,
            Twin *twin)
{
  twin->seq->restore_us = 0.5;
  while (count (twin, 2) < CHUNKS)
    llm_kv_store_evict (rig->store, 1, TRUE);
  rig_settle (rig);
  twin_make_rough (twin);
}

/* What was written is as it was, bit for bit; and no narrow copy was ever written. */
static void
test_wide_returns (gconstpointer data)
{
  Rig rig;
  Twin twin;
  g_autoptr(GBytes) before = NULL;
  g_autoptr(GBytes) after = NULL;
  g_autoptr(GBytes) again = NULL;
  guint64 n_written;

  open_rig (&rig, data);
  open_twin (&twin, &rig, "a");
  before = copy_chunks (&twin);
  n_written = rig.store->counters.n_written;
  narrow_all (&rig, &twin);

  /* in time between calls */
  llm_kv_store_widen (rig.store);
  rig_settle (&rig);
  g_assert_cmpuint (count (&twin, 8), ==, CHUNKS);
  g_assert_cmpuint (rig.store->counters.n_widened, ==, CHUNKS);
  g_assert_cmpuint (rig.store->n_narrow, ==, 0);
  after = copy_chunks (&twin);
  g_assert_true (g_bytes_equal (before, after));

  /* not while a call runs, nor while memory is short: that call has few bits */
  narrow_all (&rig, &twin);
  rig.store->is_short = TRUE;
  twin_begin (&twin, 1, NULL);
  llm_kv_store_widen (rig.store);
  llm_kv_store_work (rig.store, 0);
  g_assert_cmpfloat_with_epsilon (llm_kv_seq_get_bits (twin.seq), 2.1, 0.05);
  while (twin_step (&twin))
    ;
  twin_end (&twin);
  rig_settle (&rig);
  g_assert_cmpuint (count (&twin, 2), ==, CHUNKS);

  /* with the next call, if it has the time */
  rig.store->is_short = FALSE;
  twin_call (&twin, 1);
  rig_settle (&rig);
  g_assert_cmpuint (count (&twin, 2), ==, CHUNKS);
  twin.seq->restore_us = 1e9;
  twin_call (&twin, 1);
  rig_settle (&rig);
  g_assert_cmpuint (count (&twin, 8), ==, CHUNKS);
  g_assert_cmpuint (rig.store->counters.n_widened, ==, 2 * CHUNKS);
  again = copy_chunks (&twin);
  g_assert_true (g_bytes_equal (before, again));
  g_assert_cmpuint (rig.store->counters.n_written, ==, n_written);

  /* for one that became exact in any case */
  narrow_all (&rig, &twin);
  rig.store->is_short = TRUE;
  twin.seq->is_exact = TRUE;
  twin_call (&twin, 1);
  rig_settle (&rig);
  g_assert_cmpuint (count (&twin, 8), ==, CHUNKS);
  twin_close (&twin);
  rig_close (&rig);
}

/* Bits come back before chunks that went, each is read once, and nothing while memory is short. */
static void
test_wide_first (gconstpointer data)
{
  Rig rig;
  Twin twin;
  guint64 wide, n_read;

  open_rig (&rig, data);
  wide = chunk_bytes (&rig, LLK_KV_Q8);
  open_twin (&twin, &rig, "a");
  twin.seq->restore_us = 3.5 * (double) wide;
  rig.store->is_short = TRUE;
  llm_kv_store_evict (rig.store, 3 * wide + 1, TRUE);
  g_assert_cmpuint (count_gone (&twin), ==, 3);
  g_assert_cmpuint (count (&twin, 4), ==, 1);
  n_read = rig.store->counters.read_bytes;
  g_assert_cmpuint (llm_kv_store_refill (rig.store, G_MAXUINT64), ==, 0);

  llm_kv_store_widen (rig.store);
  g_assert_cmpuint (llm_kv_store_refill (rig.store, G_MAXUINT64), ==, 0);
  rig_settle (&rig);
  g_assert_cmpuint (count_gone (&twin), ==, 3);
  g_assert_cmpuint (count (&twin, 8), ==, CHUNKS - 3);
  g_assert_cmpuint (llm_kv_store_refill (rig.store, G_MAXUINT64), ==, 3 * wide);
  llm_kv_store_widen (rig.store);
  rig_settle (&rig);
  g_assert_cmpuint (count (&twin, 8), ==, CHUNKS);
  n_read = rig.store->counters.read_bytes - n_read;
  g_assert_cmpuint (n_read, >=, 4 * wide);
  g_assert_cmpuint (n_read, <=, 4 * wide + 2 * 4096);    /* two reads, in whole pages */
  twin_make_rough (&twin);
  twin_call (&twin, 1);
  twin_close (&twin);
  rig_close (&rig);
}

/* Storage has lost it meanwhile: what is in memory is used. */
static void
test_wide_damaged (gconstpointer data)
{
  Rig rig;
  Twin twin;

  open_rig (&rig, data);
  open_twin (&twin, &rig, "a");
  narrow_all (&rig, &twin);
  g_assert_cmpuint (rig_damage (&rig, "a", 0.9), >, 0);
  llm_kv_store_widen (rig.store);
  rig_settle (&rig);
  g_assert_cmpuint (count (&twin, 2), >, 0);
  g_assert_cmpuint (count_gone (&twin), ==, 0);
  twin_call (&twin, 1);
  twin_close (&twin);
  rig_close (&rig);
}

/* It is taken, called and closed while it is read. */
static void
test_wide_interrupted (gconstpointer data)
{
  Rig rig;
  Twin twin;

  open_rig (&rig, data);
  open_twin (&twin, &rig, "a");
  for (guint way = 0; way < 3; way++)
    {
      narrow_all (&rig, &twin);
      llm_kv_store_widen (rig.store);
      llm_kv_store_work (rig.store, 0);
      if (way == 0)
        llm_kv_store_evict (rig.store, G_MAXUINT64, TRUE);
      if (way < 2)
        {
          twin.seq->restore_us = 1e9;
          twin_call (&twin, 1);
          rig_settle (&rig);
        }
    }
  twin_close (&twin);
  rig_settle (&rig);
  g_assert_cmpuint (rig.store->bytes, ==, 0);
  g_assert_cmpuint (rig.store->n_narrow, ==, 0);
  rig_close (&rig);
}

/* A fork that is exact keeps the chunks that both have as they are. */
static void
test_shared (gconstpointer data)
{
  Rig rig;
  Twin twin;
  LlmKvSeq *fork;

  open_rig (&rig, data);
  open_twin (&twin, &rig, "a");
  fork = llm_kv_seq_fork (twin.seq, NULL, NULL);
  fork->is_exact = TRUE;
  twin.seq->restore_us = 0.5;
  llm_kv_store_evict (rig.store, 1, TRUE);
  g_assert_cmpuint (rig.store->counters.n_narrowed, ==, 0);
  llm_kv_seq_free (fork);
  twin_call (&twin, 1);
  rig_settle (&rig);
  llm_kv_store_evict (rig.store, 1, TRUE);
  g_assert_cmpuint (rig.store->counters.n_narrowed, ==, 1);
  twin_close (&twin);
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
    { "order", test_order },
    { "chance", test_chance },
    { "part", test_part },
    { "wide-first", test_wide_first },
    { "wide-returns", test_wide_returns },
    { "wide-damaged", test_wide_damaged },
    { "wide-interrupted", test_wide_interrupted },
    { "shared", test_shared },
  };
  static const char *const disks[] = { "threads", "uring" };

  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kv-narrow/unwritten", test_unwritten);
  g_test_add_func ("/kv-narrow/off", test_off);
  for (gsize d = 0; d < G_N_ELEMENTS (disks); d++)
    for (gsize i = 0; i < G_N_ELEMENTS (tests); i++)
      {
        g_autofree char *path = g_strdup_printf ("/kv-narrow/%s/%s", tests[i].name, disks[d]);

        g_test_add_data_func (path, disks[d], tests[i].function);
      }
  return g_test_run ();
}
