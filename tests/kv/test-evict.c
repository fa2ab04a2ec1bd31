/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whose chunks go first and who comes back first (L8), in small cases. */

#include "kv-rig.h"
#include "kv/llm-kv-private.h"

#include <string.h>

#define N_CHUNKS 20
#define N_TWINS 3

typedef struct
{
  Rig rig;
  Twin twins[N_TWINS];
  guint64 chunk_bytes;
} World;

/* All alike, each with N_CHUNKS full chunks of one width on storage, the last one used last. */
static void
open_world (World *world,
            guint  n_twins)
{
  static const char *const ids[N_TWINS] = { "a", "b", "c" };

  memset (world, 0, sizeof *world);
  rig_open (&world->rig, "llms", "threads", LLK_KV_F16, NULL);
  rig_close_store (&world->rig);
  world->rig.policy.compression = LLM_KV_UNIFORM;
  world->rig.policy.uniform = LLK_KV_Q4;
  rig_open_store (&world->rig);
  world->chunk_bytes = llm_kv_store_get_chunk_bytes (world->rig.store, LLK_KV_Q4);
  for (guint i = 0; i < n_twins; i++)
    {
      twin_open (&world->twins[i], &world->rig, ids[i]);
      twin_call (&world->twins[i], N_CHUNKS * RIG_SLOTS);
    }
  rig_settle (&world->rig);
}

static void
close_world (World *world)
{
  for (guint i = 0; i < N_TWINS; i++)
    if (world->twins[i].rig != NULL)
      twin_close (&world->twins[i]);
  rig_close (&world->rig);
}

static gboolean
is_there (World *world,
          guint  twin,
          guint  chunk)
{
  LlmKvChunkInfo info;

  llm_kv_seq_get_info (world->twins[twin].seq, chunk, &info);
  return info.is_in_memory;
}

static guint
count_missing (World *world,
               guint  twin)
{
  guint n = 0;

  for (guint i = 0; i < N_CHUNKS; i++)
    n += !is_there (world, twin, i);
  return n;
}

/* Missing are the first @n, and no others. */
static void
check_first_missing (World *world,
                     guint  twin,
                     guint  n)
{
  for (guint i = 0; i < N_CHUNKS; i++)
    g_assert_cmpint (is_there (world, twin, i), ==, i >= n);
}

static void
evict (World *world,
       guint  n_chunks)
{
  g_assert_cmpuint (llm_kv_store_evict (world->rig.store, n_chunks * world->chunk_bytes, FALSE), ==,
                    n_chunks * world->chunk_bytes);
}

/* Reading takes as long as a prompt of the size of all calls for @n_chunks chunks. */
static void
set_profile (World *world,
             guint  n_chunks)
{
  LlmKvProfile *profile = &world->rig.store->profile;

  *profile = (LlmKvProfile) { .read_latency_us = 1 };
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile->prompt_us[i] = 1000;
  world->rig.store->piece_bytes = 1;
  profile->read_bytes_per_us = (double) (n_chunks * world->chunk_bytes) / 1000;
}

/* One context loses all before the next loses any, as a run from its beginning. */
static void
test_order (void)
{
  World world;

  open_world (&world, 3);
  evict (&world, 5);
  check_first_missing (&world, 0, 5);
  evict (&world, 3);
  check_first_missing (&world, 0, 8);
  evict (&world, N_CHUNKS);
  check_first_missing (&world, 0, N_CHUNKS);
  check_first_missing (&world, 1, 8);
  check_first_missing (&world, 2, 0);
  close_world (&world);
}

/* A context that is called again and again is kept, though another was used after it. */
static void
test_chance (void)
{
  World world;

  open_world (&world, 3);
  for (guint i = 0; i < 40; i++)
    twin_call (&world.twins[i % 8 == 7 ? 1 : 0], 0);
  twin_call (&world.twins[2], 0);
  rig_settle (&world.rig);
  evict (&world, 2 * N_CHUNKS);
  check_first_missing (&world, 0, 0);
  check_first_missing (&world, 1, N_CHUNKS);
  check_first_missing (&world, 2, N_CHUNKS);
  close_world (&world);
}

/* What is only kept for others to share is no application's context: no call is expected of it. */
static void
test_kept (void)
{
  World world;
  LlmKvSeq *kept;

  open_world (&world, 2);
  kept = llm_kv_seq_keep (world.twins[0].seq, 0);
  g_assert_cmpuint (world.rig.store->reuse.contexts.length, ==, 2);
  llm_kv_seq_free (kept);
  g_assert_cmpuint (world.rig.store->reuse.contexts.length, ==, 2);
  twin_call (&world.twins[0], 1);
  rig_settle (&world.rig);
  close_world (&world);
}

/* What comes back beside a prompt costs little: each context loses a part that does, none all. */
static void
test_hidden (void)
{
  World world;

  open_world (&world, 3);
  set_profile (&world, 10);
  evict (&world, 18);
  for (guint i = 0; i < 3; i++)
    {
      g_assert_cmpuint (count_missing (&world, i), <=, 12);
      check_first_missing (&world, i, count_missing (&world, i));
    }
  g_assert_cmpuint (count_missing (&world, 1), >, 0);
  close_world (&world);

  /* Unless the first layers alone take as long as all of it: then nothing is hidden. */
  open_world (&world, 3);
  set_profile (&world, 10);
  world.rig.store->piece_bytes = 10 * world.chunk_bytes;
  evict (&world, 18);
  check_first_missing (&world, 0, 18);
  close_world (&world);
}

/* What lies nowhere else goes last, also of the context that is least likely to be called. */
static void
test_unwritten (void)
{
  World world;
  guint64 bytes;

  open_world (&world, 2);
  bytes = 2 * N_CHUNKS * world.chunk_bytes;
  twin_open (&world.twins[2], &world.rig, "c");
  twin_call (&world.twins[2], N_CHUNKS * RIG_SLOTS);
  for (guint i = 0; i < 20; i++)
    twin_call (&world.twins[i % 2], 0);
  g_assert_cmpuint (llm_kv_store_evict (world.rig.store, bytes, TRUE), ==, bytes);
  g_assert_cmpuint (count_missing (&world, 0), ==, N_CHUNKS);
  g_assert_cmpuint (count_missing (&world, 1), ==, N_CHUNKS);
  g_assert_cmpuint (count_missing (&world, 2), ==, 0);
  g_assert_cmpuint (llm_kv_store_evict (world.rig.store, 1, TRUE), >, 0);
  g_assert_cmpuint (count_missing (&world, 2), ==, 1);
  rig_settle (&world.rig);
  close_world (&world);
}

/* Chunks that several have go after those of one. */
static void
test_shared (void)
{
  World world;
  Twin *twin;

  open_world (&world, 1);
  twin = &world.twins[1];
  twin_open (twin, &world.rig, "b");
  llm_kv_seq_share (twin->seq, world.twins[0].seq, 4 * RIG_SLOTS);
  memcpy (twin->tokens, world.twins[0].tokens, 4 * RIG_SLOTS * sizeof (gint32));
  memcpy (twin->places, world.twins[0].places, 4 * RIG_SLOTS * sizeof (guint));
  twin->n_tokens = 4 * RIG_SLOTS;
  twin_make_rough (twin);
  rig_settle (&world.rig);
  evict (&world, N_CHUNKS - 4);
  for (guint i = 0; i < N_CHUNKS; i++)
    g_assert_cmpint (is_there (&world, 0, i), ==, i < 4);
  evict (&world, 2);
  g_assert_false (is_there (&world, 0, 0) || is_there (&world, 1, 1));
  g_assert_true (is_there (&world, 0, 2) && is_there (&world, 1, 3));
  close_world (&world);
}

/* --- what comes back --- */

static guint64
refill (World  *world,
        guint64 max_bytes)
{
  guint64 bytes = llm_kv_store_refill (world->rig.store, max_bytes);

  rig_settle (&world->rig);
  return bytes;
}

/* First the one that is likely to be used, beside what it has; no more than is asked for. */
static void
test_refill (void)
{
  World world;

  open_world (&world, 2);
  g_assert_cmpuint (refill (&world, G_MAXUINT64), ==, 0);
  evict (&world, N_CHUNKS + 6);
  check_first_missing (&world, 1, 6);
  g_assert_cmpuint (refill (&world, 2 * world.chunk_bytes), ==, 2 * world.chunk_bytes);
  check_first_missing (&world, 1, 4);
  g_assert_cmpuint (refill (&world, G_MAXUINT64), ==, 4 * world.chunk_bytes);
  check_first_missing (&world, 1, 0);
  g_assert_cmpuint (refill (&world, G_MAXUINT64), ==, N_CHUNKS * world.chunk_bytes);
  check_first_missing (&world, 0, 0);
  g_assert_cmpuint (world.rig.store->counters.n_recomputed, ==, 0);
  for (guint i = 0; i < 2; i++)
    twin_call (&world.twins[i], 5);
  close_world (&world);
}

/* The budget is kept, and what is read meanwhile is given when memory is asked for. */
static void
test_room (void)
{
  World world;
  LlmKvStore *store;

  open_world (&world, 1);
  store = world.rig.store;
  evict (&world, N_CHUNKS);
  llm_ledger_set_budget (world.rig.ledger, 5 * world.chunk_bytes);
  while (refill (&world, G_MAXUINT64) > 0)
    g_assert_cmpuint (store->bytes, <=, 5 * world.chunk_bytes);
  g_assert_cmpuint (N_CHUNKS - count_missing (&world, 0), ==, 5);

  llm_ledger_set_budget (world.rig.ledger, 0);
  g_assert_cmpuint (llm_kv_store_refill (store, G_MAXUINT64), >, 0);
  g_assert_cmpuint (llm_kv_store_refill (store, G_MAXUINT64), ==, 0);
  llm_kv_store_evict (store, G_MAXUINT64, TRUE);
  g_assert_true (llm_kv_store_is_settled (store));
  /* what was under way comes to its end first */
  while (store->n_reads > 0)
    llm_kv_store_wait (store, G_USEC_PER_SEC);
  g_assert_cmpuint (store->bytes, ==, 0);

  /* A call of its own ends it, too, and finds all it needs. */
  g_assert_cmpuint (llm_kv_store_refill (store, G_MAXUINT64), >, 0);
  twin_call (&world.twins[0], 3);
  close_world (&world);
}

/* A chunk that a read still holds goes when the read has ended; one that will be written stays until
 * then. */
static void
test_held_by_read (void)
{
  World world;
  LlmKvStore *store;
  LlmKvSeq *seq;
  LlmKvHold *hold;
  LlmKvChunk *chunks[2];

  open_world (&world, 1);
  store = world.rig.store;
  seq = world.twins[0].seq;
  for (guint i = 0; i < 2; i++)
    {
      chunks[i] = llm_kv_seq_hold (seq, i)->chunk;
      g_assert_cmpint (chunks[i]->state, ==, LLM_KV_PRESENT);
      chunks[i]->n_pins++;
    }
  hold = llm_kv_seq_hold (seq, 1);
  llm_kv_folder_forget (seq->folder, hold->slot);
  hold->slot = (LlmKvSlot) { 0 };
  llm_kv_store_evict (store, G_MAXUINT64, FALSE);
  g_assert_cmpuint (store->bytes, ==, 2 * world.chunk_bytes);
  for (guint i = 0; i < 2; i++)
    {
      llm_kv_chunk_unpin (store, chunks[i]);
      llm_kv_work_let_leave (store, chunks[i]);
      g_assert_cmpint (chunks[i]->state, ==, i == 0 ? LLM_KV_GONE : LLM_KV_PRESENT);
    }
  rig_settle (&world.rig);
  g_assert_cmpuint (store->bytes, ==, 0);
  twin_call (&world.twins[0], 3);
  close_world (&world);
}

/* A chunk that stays for one sequence to write it goes when that one packs a copy instead. */
static void
test_left_by_copy (void)
{
  World world;
  LlmKvSeq *seq;
  LlmKvChunk *chunk;
  Twin *twin;

  open_world (&world, 1);
  seq = world.twins[0].seq;
  twin = &world.twins[1];
  twin_open (twin, &world.rig, "b");
  llm_kv_seq_share (twin->seq, seq, RIG_SLOTS);
  chunk = llm_kv_seq_hold (seq, 0)->chunk;
  g_assert_cmpuint (chunk->n_holders, ==, 2);
  chunk->leaves = TRUE;
  llm_kv_seq_pack (twin->seq, 0, LLM_KV_FORM (LLK_KV_Q4, FALSE));
  g_assert_true (llm_kv_seq_hold (twin->seq, 0)->chunk != chunk);
  g_assert_cmpint (chunk->state, ==, LLM_KV_GONE);
  rig_settle (&world.rig);
  twin_call (&world.twins[0], 3);
  close_world (&world);
}

/* What a call of another waits for is not taken from it. */
static void
test_shared_refill (void)
{
  World world;
  Twin *twin;

  open_world (&world, 1);
  twin = &world.twins[1];
  twin_open (twin, &world.rig, "b");
  llm_kv_seq_share (twin->seq, world.twins[0].seq, N_CHUNKS * RIG_SLOTS);
  memcpy (twin->tokens, world.twins[0].tokens, N_CHUNKS * RIG_SLOTS * sizeof (gint32));
  memcpy (twin->places, world.twins[0].places, N_CHUNKS * RIG_SLOTS * sizeof (guint));
  twin->n_tokens = N_CHUNKS * RIG_SLOTS;
  twin_make_rough (twin);
  rig_settle (&world.rig);
  evict (&world, N_CHUNKS);
  g_assert_cmpuint (llm_kv_store_refill (world.rig.store, G_MAXUINT64), >, 0);
  twin_begin (world.rig.store->refilled == twin->seq ? &world.twins[0] : twin, 2, NULL);
  llm_kv_store_evict (world.rig.store, G_MAXUINT64, TRUE);
  while (twin_step (world.twins[0].seq->is_locked ? &world.twins[0] : twin))
    ;
  twin_end (world.twins[0].seq->is_locked ? &world.twins[0] : twin);
  g_assert_cmpuint (world.rig.store->counters.n_faulted, ==, 0);
  rig_settle (&world.rig);
  close_world (&world);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/evict/order", test_order);
  g_test_add_func ("/evict/chance", test_chance);
  g_test_add_func ("/evict/kept", test_kept);
  g_test_add_func ("/evict/hidden", test_hidden);
  g_test_add_func ("/evict/unwritten", test_unwritten);
  g_test_add_func ("/evict/shared", test_shared);
  g_test_add_func ("/evict/refill", test_refill);
  g_test_add_func ("/evict/room", test_room);
  g_test_add_func ("/evict/held-by-read", test_held_by_read);
  g_test_add_func ("/evict/left-by-copy", test_left_by_copy);
  g_test_add_func ("/evict/shared-refill", test_shared_refill);
  return g_test_run ();
}
