/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Any operations in any order, on sequences that share, move and lose their chunks, beside the
 * naive model: calls that run at the same time and end, fail or are parked, evictions, packing cut
 * short, chunks read for no call, storage that is damaged, full, or a new one after a restart.
 */

#include <string.h>

#include "kernels/llk.h"
#include "kv-rig.h"

#define N_TWINS 5

typedef struct
{
  Twin twin;
  gboolean is_open;
  gboolean runs;
  /* bits by chunk number, when last seen; 0: not seen, or computed again since */
  guint8 bits[RIG_MAX_TOKENS / RIG_SLOTS + 1];
} One;

typedef struct
{
  Rig rig;
  One ones[N_TWINS];
  gboolean with_storage;
  gboolean with_windows;
  /* of the stores before this one */
  guint64 n_evicted, n_recomputed, n_narrowed, n_widened;
  gboolean narrows;
  LlmKvProfile profile;
} World;

static guint
pick (guint n)
{
  return (guint) g_test_rand_int_range (0, (gint32) n);
}

static guint
get_number (const Twin *twin,
            guint       chunk)
{
  return chunk < twin->n_sinks / RIG_SLOTS ? chunk : chunk + twin->n_slid / RIG_SLOTS;
}

/* From @slot on, what was seen counts no more. */
static void
forget_bits (One  *one,
             guint slot)
{
  for (guint i = slot / RIG_SLOTS; i < one->twin.seq->holds->len + 1; i++)
    {
      guint number = get_number (&one->twin, i);

      if (number < G_N_ELEMENTS (one->bits))
        one->bits[number] = 0;
    }
}

static void
forget_computed (One *one)
{
  for (guint r = 0; r < one->twin.rows->len; r++)
    one->bits[get_number (&one->twin, g_array_index (one->twin.rows, guint, r) / RIG_SLOTS)] = 0;
}

/* Of full chunks, bits never rise in memory but by computing; storage, and sequences that share it,
 * may have had a better copy. A chunk may have gone and come back from there since it was seen. */
static void
check_bits (One *one)
{
  for (guint i = 0; i < one->twin.seq->length / RIG_SLOTS; i++)
    {
      guint8 *seen = &one->bits[get_number (&one->twin, i)];
      LlmKvChunkInfo info;

      llm_kv_seq_get_info (one->twin.seq, i, &info);
      /* wide copies come back */
      if (info.is_shared || !info.is_in_memory || one->twin.rig->store->narrows)
        info.bits = 0;
      else if (*seen != 0)
        g_assert_cmpuint (info.bits, <=, MAX (*seen, info.storage_bits));
      *seen = info.bits;
    }
}

static void
check_world (World *world)
{
  LlmKvStore *store = world->rig.store;
  guint64 own = 0;

  for (guint i = 0; i < N_TWINS; i++)
    if (world->ones[i].is_open)
      {
        Twin *twin = &world->ones[i].twin;

        own += llm_kv_seq_get_own_bytes (twin->seq);
        g_assert_cmpint (twin->seq->is_locked, ==, world->ones[i].runs);
        if (!world->ones[i].runs)
          {
            g_assert_cmpuint (twin->seq->length, ==, twin_length (twin));
            check_bits (&world->ones[i]);
          }
      }
  g_assert_cmpuint (own, <=, store->bytes);
  g_assert_cmpuint (llm_ledger_get (world->rig.ledger, LLM_HOLDER_KV_COMPRESSED), ==,
                    store->packed_bytes);
  g_assert_cmpuint (llm_ledger_get_total (world->rig.ledger), ==, store->bytes + store->spare_bytes);
}

static void
open_one (World *world,
          guint  i)
{
  g_autofree char *id = g_strdup_printf ("c%u", i);
  One *one = &world->ones[i];

  memset (one->bits, 0, sizeof one->bits);
  twin_open (&one->twin, &world->rig, id);
  one->is_open = TRUE;
  one->runs = FALSE;
}

static void
close_one (World *world,
           guint  i,
           gboolean is_deleted)
{
  One *one = &world->ones[i];

  if (one->runs)
    twin_give_up (&one->twin);
  twin_close (&one->twin);
  one->is_open = one->runs = FALSE;
  if (is_deleted && world->with_storage)
    llm_kv_storage_remove (world->rig.storage, one->twin.id);
}

static void
run_some (One *one)
{
  for (guint n = pick (RIG_LAYERS + 2); n > 0 && one->runs; n--)
    {
      gboolean goes_on;

      forget_computed (one);
      goes_on = twin_step (&one->twin);
      forget_computed (one);
      if (goes_on)
        continue;

      twin_end (&one->twin);
      one->runs = FALSE;
    }
}

static void
commit_random_path (One *one)
{
  Twin *twin = &one->twin;
  guint length = twin_length (twin);
  guint n_tail = pick (3 * RIG_SLOTS);
  guint first = length - MIN (length - twin->n_sinks, n_tail);
  guint path[RIG_MAX_TOKENS];
  guint n = 0;

  for (guint i = first; i < length; i++)
    if (pick (4) > 0)
      path[n++] = i;
  forget_bits (one, first);
  llm_kv_seq_commit (twin->seq, first, path, n);
  for (guint i = 0; i < n; i++)
    {
      twin->tokens[twin->n_slid + first + i] = twin->tokens[twin->n_slid + path[i]];
      twin->places[twin->n_slid + first + i] = twin->places[twin->n_slid + path[i]];
      twin->is_rough[twin->n_slid + first + i] = twin->is_rough[twin->n_slid + path[i]];
    }
  twin->n_tokens = twin->n_slid + first + n;
  /* What was moved into full chunks is packed with them, if work is under way. */
  twin_make_rough (twin);
}

static void
change_one (World *world,
            guint  i)
{
  One *one = &world->ones[i];
  Twin *twin = &one->twin;
  guint length = twin_length (twin);
  guint n_sinks, n;

  switch (pick (10))
    {
    case 0:
    case 1:
    case 2:
    case 3:
      n = pick (5 * RIG_SLOTS);
      if (twin->n_tokens + n > RIG_MAX_TOKENS)
        break;
      forget_bits (one, length);
      twin_begin (twin, n, NULL);
      one->runs = TRUE;
      run_some (one);
      break;
    case 4:
      /* A window that slid is not cut in its sinks. */
      n = pick (3 * RIG_SLOTS);
      n = MIN (n, length - MIN (length, twin->n_sinks));
      llm_kv_seq_truncate (twin->seq, length - n);
      twin->n_tokens -= n;
      forget_bits (one, length - n);
      if (length == n)
        twin->n_sinks = twin->n_slid = twin->n_tokens = 0;
      break;
    case 5:
      n_sinks = twin->n_slid > 0 ? twin->n_sinks / RIG_SLOTS : 1 + pick (3);
      if (length < (n_sinks + 2) * RIG_SLOTS || world->with_windows)
        break;
      n = 1 + pick (length / RIG_SLOTS - n_sinks - 1);
      llm_kv_seq_slide (twin->seq, n_sinks * RIG_SLOTS, n * RIG_SLOTS);
      twin->n_sinks = n_sinks * RIG_SLOTS;
      twin->n_slid += n * RIG_SLOTS;
      memset (one->bits, 0, n_sinks * sizeof one->bits[0]);
      break;
    case 6:
      commit_random_path (one);
      break;
    default:
      break;
    }
}

/* A fork, or one that begins with the same chunks. */
static void
copy_one (World *world,
          guint  from,
          guint  to)
{
  One *source = &world->ones[from];
  One *target = &world->ones[to];
  g_autofree char *id = g_strdup_printf ("c%u", to);

  close_one (world, to, TRUE);
  memset (target->bits, 0, sizeof target->bits);
  if (pick (2) == 0 && !source->runs)
    {
      open_one (world, to);
      g_clear_pointer (&target->twin.seq, llm_kv_seq_free);
      target->twin.seq = llm_kv_seq_fork (source->twin.seq, world->with_storage ? "app" : NULL, id);
      memcpy (target->twin.tokens, source->twin.tokens, sizeof target->twin.tokens);
      memcpy (target->twin.places, source->twin.places, sizeof target->twin.places);
      target->twin.n_tokens = source->twin.n_tokens;
      target->twin.n_sinks = source->twin.n_sinks;
      target->twin.n_slid = source->twin.n_slid;
      memcpy (target->twin.is_rough, source->twin.is_rough, sizeof target->twin.is_rough);
      twin_make_rough (&target->twin);
      return;
    }

  open_one (world, to);
  if (source->twin.n_slid == 0)
    {
      guint length = source->runs ? source->twin.length : twin_length (&source->twin);
      guint n = pick (length / RIG_SLOTS + 1) * RIG_SLOTS;

      llm_kv_seq_share (target->twin.seq, source->twin.seq, n);
      memcpy (target->twin.tokens, source->twin.tokens, n * sizeof (gint32));
      memcpy (target->twin.places, source->twin.places, n * sizeof (guint));
      target->twin.n_tokens = n;
      twin_make_rough (&target->twin);
    }
}

static void
count (World *world)
{
  const LlmKvCounters *counters = &world->rig.store->counters;

  world->n_evicted += counters->n_evicted;
  world->n_narrowed += counters->n_narrowed;
  world->n_widened += counters->n_widened;
  world->n_recomputed += counters->n_recomputed;
}

/* What was not written is gone, and so are tokens behind what was found: the naive model has them
 * no more. */
static void
restart (World *world)
{
  gboolean was_open[N_TWINS];

  for (guint i = 0; i < N_TWINS; i++)
    {
      One *one = &world->ones[i];

      was_open[i] = one->is_open;
      if (one->runs)
        twin_give_up (&one->twin);
      one->runs = FALSE;
      g_clear_pointer (&one->twin.seq, llm_kv_seq_free);
    }
  count (world);
  rig_close_store (&world->rig);
  rig_open_store (&world->rig);
  for (guint i = 0; i < N_TWINS; i++)
    if (was_open[i])
      {
        Twin *twin = &world->ones[i].twin;
        guint length;

        twin->seq = llm_kv_seq_new (world->rig.store, world->with_storage ? "app" : NULL, twin->id);
        memset (world->ones[i].bits, 0, sizeof world->ones[i].bits);
        if (twin->n_slid > 0)
          llm_kv_seq_slide (twin->seq, twin->n_sinks, twin->n_slid);
        length = twin_attach (twin);
        g_assert_cmpuint (length, <=, twin_length (twin));
        if (length == 0)
          {
            llm_kv_seq_truncate (twin->seq, 0);
            g_clear_pointer (&twin->seq, llm_kv_seq_free);
            twin->seq = llm_kv_seq_new (world->rig.store, world->with_storage ? "app" : NULL,
                                        twin->id);
            twin->n_sinks = twin->n_slid = twin->n_tokens = 0;
          }
        else
          {
            twin->n_tokens = twin->n_slid + length;
          }
      }
}

/* Memory is short, or not any more; and who may lose bits. */
static void
press (World *world,
       One   *one)
{
  LlmKvStore *store = world->rig.store;

  store->narrows = world->narrows;
  store->profile = world->profile;
  store->is_short = pick (2) == 0;
  one->twin.seq->is_exact = pick (4) == 0;
  one->twin.seq->restore_us = pick (3) == 0 ? 0 : pick (400);
  if (pick (4) == 0)
    llm_kv_store_stop_reading (store);
  if (pick (2) == 0)
    return;

  /* what is written loses bits where nothing comes in time, and gets them back while no call runs */
  for (guint i = 0; i < N_TWINS; i++)
    while (world->ones[i].runs)
      run_some (&world->ones[i]);
  rig_settle (&world->rig);
  for (guint i = 0; i < N_TWINS; i++)
    world->ones[i].twin.seq->restore_us = 1;
  llm_kv_store_evict (store, pick (10000), pick (2) == 0);
  for (guint i = 0; i < N_TWINS; i++)
    world->ones[i].twin.seq->restore_us = pick (3) == 0 ? 0 : pick (400);
  llm_kv_store_widen (store);
  for (guint n = pick (20); n > 0; n--)
    llm_kv_store_work (store, 0);
  if (pick (2) == 0)
    rig_settle (&world->rig);
}

static void
run_world (World *world,
           guint  n_rounds)
{
  for (guint i = 0; i < N_TWINS; i++)
    open_one (world, i);

  for (guint round = 0; round < n_rounds; round++)
    {
      guint i = pick (N_TWINS);
      One *one = &world->ones[i];

      switch (pick (13))
        {
        case 0:
        case 1:
        case 2:
        case 3:
          if (!one->runs)
            change_one (world, i);
          else
            run_some (one);
          break;
        case 4:
          if (one->runs && pick (4) == 0)
            {
              forget_bits (one, 0);
              twin_give_up (&one->twin);
              one->runs = FALSE;
            }
          break;
        case 5:
          if (pick (4) == 0)
            copy_one (world, i, (i + 1 + pick (N_TWINS - 1)) % N_TWINS);
          break;
        case 6:
          llm_kv_store_evict (world->rig.store, pick (2) == 0 ? G_MAXUINT64 : pick (40000),
                              pick (2) == 0);
          break;
        case 7:
          rig_settle (&world->rig);
          g_assert_true (llm_kv_store_is_settled (world->rig.store));
          break;
        case 8:
        case 9:
          if (pick (3) == 0)
            llm_kv_store_refill (world->rig.store, pick (2) == 0 ? G_MAXUINT64 : pick (40000));
          for (guint n = pick (20); n > 0; n--)
            llm_kv_store_work (world->rig.store, 0);
          break;
        case 10:
          if (world->with_storage && pick (5) == 0)
            rig_damage (&world->rig, one->twin.id, g_test_rand_double ());
          break;
        case 11:
          if (world->with_storage && pick (20) == 0)
            restart (world);
          break;
        case 12:
          press (world, one);
          break;
        default:
          g_assert_not_reached ();
        }
      check_world (world);
    }

  /* In the end all is as it should be, once more from nothing. */
  for (guint i = 0; i < N_TWINS; i++)
    while (world->ones[i].runs)
      run_some (&world->ones[i]);
  rig_settle (&world->rig);
  llm_kv_store_evict (world->rig.store, G_MAXUINT64, FALSE);
  rig_settle (&world->rig);
  /* reads that nothing waits for any more hold chunks until they end */
  while (world->rig.store->n_reads > 0)
    llm_kv_store_wait (world->rig.store, G_USEC_PER_SEC);
  g_assert_cmpuint (llm_ledger_get_total (world->rig.ledger), ==,
                    world->rig.store->spare_bytes);
  for (guint i = 0; i < N_TWINS; i++)
    twin_call (&world->ones[i].twin, world->ones[i].twin.n_tokens < RIG_MAX_TOKENS ? 1 : 0);
  for (guint i = 0; i < N_TWINS; i++)
    close_one (world, i, TRUE);
  if (world->with_storage)
    g_assert_cmpuint (llm_kv_storage_get_bytes (world->rig.storage), ==, 0);
}

typedef struct
{
  const char *policy;   /* (nullable) */
  const char *disk;     /* (nullable) */
  LlkKvFormat format;
  gboolean has_windows;
  gboolean narrows;     /* while memory is short */
} Case;

static void
test_random (gconstpointer data)
{
  static const guint windows[RIG_LAYERS] = { 0, 20, 0, 50 };
  const Case *it = data;
  World world = {
    .with_storage = it->disk != NULL,
    .with_windows = it->has_windows,
    .narrows = it->narrows,
  };
  LlmKvProfile profile;

  rig_open (&world.rig, it->policy, it->disk, it->format, it->has_windows ? windows : NULL);
  /* Such that some chunks are computed while others are read. */
  profile = (LlmKvProfile) { 0 };
  profile.read_latency_us = 100;
  profile.read_bytes_per_us = 50;
  profile.write_bytes_per_us = 50;
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 20 + 10.0 * llm_kv_profile_rows[i];
  profile.depth_us = 0.1;
  g_assert_true (llm_kv_profile_is_measured (&profile));
  world.rig.store->profile = world.profile = profile;

  run_world (&world, 2500);
  count (&world);
  g_assert_cmpuint (world.n_evicted, >, 0);
  g_assert_cmpuint (world.n_recomputed, >, 0);
  g_assert_cmpint (world.n_narrowed > 0, ==, it->narrows);
  g_assert_cmpint (world.n_widened > 0, ==, it->narrows && it->disk != NULL);
  rig_close (&world.rig);
}

int
main (int   argc,
      char *argv[])
{
  static const Case cases[] = {
    { NULL, NULL, LLK_KV_F32, FALSE },
    { "llms", NULL, LLK_KV_F16, FALSE },
    { NULL, "threads", LLK_KV_F32, FALSE },
    { "llms", "threads", LLK_KV_F16, FALSE },
    { "llms", "uring", LLK_KV_F32, FALSE },
    { "llms-no-ahead", "uring", LLK_KV_F16, FALSE },
    { "llms-no-pipeline", "uring", LLK_KV_F16, FALSE },
    { "swapping", "threads", LLK_KV_F16, FALSE },
    { "lmk", NULL, LLK_KV_F16, FALSE },
    { "vllm-sq", "uring", LLK_KV_F16, FALSE },
    { "llms", "uring", LLK_KV_F16, TRUE },
    { NULL, "threads", LLK_KV_F16, TRUE },
    { "llms", NULL, LLK_KV_F16, TRUE },
    { "llms", NULL, LLK_KV_F16, FALSE, TRUE },
    { "llms", "threads", LLK_KV_F16, FALSE, TRUE },
    { "llms", "uring", LLK_KV_F16, TRUE, TRUE },
  };

  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strdup_printf ("/kv-random/%s/%s/%s%s%s",
                                               cases[i].policy != NULL ? cases[i].policy : "keep",
                                               cases[i].disk != NULL ? cases[i].disk : "no-storage",
                                               cases[i].format == LLK_KV_F32 ? "f32" : "f16",
                                               cases[i].has_windows ? "-windows" : "",
                                               cases[i].narrows ? "-narrow" : "");

      g_test_add_data_func (path, &cases[i], test_random);
    }

  return g_test_run ();
}
