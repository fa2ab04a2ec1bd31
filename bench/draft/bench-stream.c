/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A model that memory has no room for, in this process, which is in a group with a limit: the rate
 * at which the disk gives the same file past the page cache, and that at which tokens come, in
 * turns. Prints lines "NAME NUMBER".
 */

#include "bench.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench-engine.h"
#include "base/llm-clock.h"

/* As the service has it. */
#define RING_BYTES ((guint64) 128 << 20)
#define RING_PARTS 8
/* Of the group, for what is neither weights nor counted when the rest is: page tables, and buffers
 * of the kernel's. */
#define RESERVE_PARTS 20
/* Of the disk alone. */
#define READ_BYTES ((gsize) 512 << 10)
#define READ_DEPTH 32
#define HUGE_PAGE ((gsize) 2 << 20)
#define READ_US G_USEC_PER_SEC

typedef struct
{
  LlmDisk *disk;
  int fd;
  guint64 size;
  guint64 first;         /* of what streams: other parts of the file may come from other places, as
                          * a cache of the host's */
  guint64 at;
  gint64 end_us;
  guint64 n_bytes;
  guint8 *memory;        /* READ_DEPTH × READ_BYTES */
} Reader;

typedef struct
{
  Reader *reader;
  guint8 *memory;
} Slot;

static void
on_read (gssize        n,
         const guint8 *buffer,
         gpointer      data);

static void
read_next (Slot *slot)
{
  Reader *reader = slot->reader;

  if (llm_clock_now_us () >= reader->end_us)
    return;
  llm_disk_read_into (reader->disk, LLM_DISK_WEIGHTS, reader->fd, reader->at, slot->memory,
                      READ_BYTES, on_read, slot);
  reader->at += READ_BYTES;
  if (reader->at + READ_BYTES > reader->size)
    reader->at = reader->first;
}

static void
on_read (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  Slot *slot = data;

  if (n < 0)
    g_error ("Can't read: %s", g_strerror ((int) -n));
  slot->reader->n_bytes += (guint64) n;
  read_next (slot);
}

/* Bytes per second, one run after another of the file, past the page cache. */
static double
measure_disk (Reader *reader)
{
  gint64 begin_us = llm_clock_now_us ();
  Slot slots[READ_DEPTH];

  reader->end_us = begin_us + READ_US;
  reader->n_bytes = 0;
  for (guint i = 0; i < READ_DEPTH; i++)
    {
      slots[i] = (Slot) { reader, reader->memory + i * READ_BYTES };
      read_next (&slots[i]);
    }
  while (llm_disk_get_n_pending (reader->disk, LLM_DISK_WEIGHTS) > 0)
    llm_disk_poll (reader->disk, G_USEC_PER_SEC);
  return (double) reader->n_bytes * G_USEC_PER_SEC / (double) (llm_clock_now_us () - begin_us);
}

/* Memory of this process that is no file's. */
static guint64
count_own (void)
{
  g_autofree char *text = NULL;
  guint64 all = 0, shared = 0;

  if (g_file_get_contents ("/proc/self/statm", &text, NULL, NULL))
    sscanf (text, "%*u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT, &all, &shared);
  return (all - MIN (all, shared)) * (guint64) sysconf (_SC_PAGESIZE);
}

/* (transfer full) (nullable): the prepared copy that this process maps; the folder may have those of
 * other models, too. */
static char *
find_file (const char *cache)
{
  g_autofree char *folder = realpath (cache, NULL);
  g_autofree char *weights = folder != NULL ? g_build_filename (folder, "weights", "", NULL) : NULL;
  g_autofree char *maps = NULL;
  char *path, *end;

  if (weights == NULL || !g_file_get_contents ("/proc/self/maps", &maps, NULL, NULL))
    return NULL;
  path = strstr (maps, weights);
  end = path != NULL ? strchr (path, '\n') : NULL;

  return end != NULL ? g_strndup (path, (gsize) (end - path)) : NULL;
}

/* What stays: all that the group has room for beside the rest. */
static guint64
choose_keep (BenchEngine *engine,
             guint64      limit)
{
  guint64 own = count_own () + limit / RESERVE_PARTS;

  return limit > own ? MIN (limit - own, engine->weights->bytes) : 0;
}

/* Rows until experts have all the room that they will have: of those that come first all are missing. */
static void
fill_experts (BenchEngine *engine,
              LlmKvSeq    *seq)
{
  LlmStreamFigures figures;
  guint64 before;

  llm_weights_get_stream_figures (engine->weights, &figures);
  do
    {
      before = figures.expert_bytes;
      bench_engine_decode (engine, &seq, 1, 1, FALSE, 4, NULL);
      llm_weights_get_stream_figures (engine->weights, &figures);
    }
  while (figures.expert_bytes > before);
}

static void
run (BenchEngine *engine,
     Reader      *reader,
     guint64     limit,
     guint        n_tokens,
     guint        n_rounds)
{
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (engine->store, NULL, NULL);
  LlmStreamFigures before, after;
  guint64 keep;

  llm_weights_keep (engine->weights, 0);
  bench_engine_decode (engine, &seq, 1, 1, FALSE, 1, NULL);
  keep = choose_keep (engine, limit);
  llm_weights_keep (engine->weights, keep);
  reader->first =
    (reader->size - (engine->weights->bytes - keep)) / LLM_DISK_BLOCK * LLM_DISK_BLOCK;
  reader->at = reader->first;
  for (guint64 at = 0; at < keep; at += RING_BYTES)
    llm_weights_read_ahead (engine->weights, at, MIN (RING_BYTES, keep - at));
  bench_engine_decode (engine, &seq, 1, 1, FALSE, 2, NULL);
  fill_experts (engine, seq);
  printf ("keep %" G_GUINT64_FORMAT "\nweights %" G_GUINT64_FORMAT "\n", keep,
          engine->weights->bytes);
  for (guint round = 0; round < n_rounds; round++)
    {
      double seconds, rate = measure_disk (reader);

      llm_weights_get_stream_figures (engine->weights, &before);
      seconds = bench_engine_decode (engine, &seq, 1, 1, FALSE, n_tokens, NULL);
      llm_weights_get_stream_figures (engine->weights, &after);
      rate = (rate + measure_disk (reader)) / 2;
      if (after.n_expert_uses > before.n_expert_uses)
        printf ("hits %.6f\nshare %.6f\n",
                (double) (after.n_expert_hits - before.n_expert_hits)
                  / (double) (after.n_expert_uses - before.n_expert_uses),
                (before.expert_share + after.expert_share) / 2);
      printf ("disk %.0f\nstreamed %.0f\ntokens %.6f\nmapped %" G_GUINT64_FORMAT "\n", rate,
              (double) (after.read_bytes - before.read_bytes) / n_tokens, n_tokens / seconds,
              after.n_mapped - before.n_mapped);
      fflush (stdout);
    }
}

/* MODEL CACHE CHUNKS LIMIT TOKENS ROUNDS; without the last three only the prepared copy is made. */
int
bench_stream (int    argc,
              char **argv)
{
  const LlmKvPolicy policy = { 0 };
  BenchEngineConfig config = { .policy = &policy };
  g_autoptr(BenchEngine) engine = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *file = NULL;
  LlmStreamConfig stream = { 0 };
  LlmWeightSource source;
  Reader reader = { 0 };

  if (argc != 4 && argc != 7)
    return 2;
  config.path = argv[1];
  config.cache = argv[2];
  config.chunks = argc == 7 ? argv[3] : NULL;
  engine = bench_engine_new (&config, &error);
  if (engine == NULL)
    {
      g_printerr ("%s\n", error->message);
      return 1;
    }
  if (argc == 4)
    return 0;

  reader.disk = llm_kv_storage_get_disk (engine->storage);
  source = llm_weight_source_of_disk (reader.disk);
  stream.bytes = MIN (RING_BYTES, engine->weights->bytes / RING_PARTS);
  file = find_file (argv[2]);
  reader.fd = file != NULL ? llm_disk_open (reader.disk, AT_FDCWD, file, O_RDONLY) : -1;
  if (reader.fd < 0 || !llm_weights_stream (engine->weights, &source, &stream))
    {
      g_printerr ("There is no prepared copy that could be streamed\n");
      return 1;
    }
  reader.size = (guint64) lseek (reader.fd, 0, SEEK_END);
  if (posix_memalign ((void **) &reader.memory, HUGE_PAGE, READ_DEPTH * READ_BYTES) != 0)
    return 1;
  madvise (reader.memory, READ_DEPTH * READ_BYTES, MADV_HUGEPAGE);
  memset (reader.memory, 0, READ_DEPTH * READ_BYTES);
  run (engine, &reader, g_ascii_strtoull (argv[4], NULL, 10), (guint) atoi (argv[5]),
       (guint) atoi (argv[6]));
  llm_weights_stream (engine->weights, NULL, NULL);
  close (reader.fd);
  free (reader.memory);
  return 0;
}
