/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-contexts.h"

#include <sys/mman.h>
#include <time.h>

#include "io/llm-disk.h"
#include "support/llm-test-folder.h"

#define N_STEPS 5
/* A context of Q4 chunks of the multi-head shape. */
#define TAKEN_CHUNKS 64
#define TAKEN_LAYERS 24
#define TAKEN_LAYER_BYTES ((gsize) 35584)
#define TAKEN_CHUNK_BYTES (TAKEN_LAYERS * TAKEN_LAYER_BYTES)
#define TAKEN_BYTES (TAKEN_CHUNKS * TAKEN_CHUNK_BYTES)

typedef struct
{
  guint n_left;         /* chunks that have not arrived altogether */
  gboolean failed;
} Taking;

static void
on_written (const LlmKvSlot *slots,
            const GError    *error,
            gpointer         data)
{
  Taking *taking = data;

  taking->failed = taking->failed || slots == NULL;
  taking->n_left = 0;
}

static void
on_arrived (guint         target,
            guint         first_layer,
            guint         end_layer,
            const GError *error,
            gpointer      data)
{
  Taking *taking = data;

  taking->failed = taking->failed || error != NULL;
  if (end_layer == TAKEN_LAYERS)
    taking->n_left--;
}

static double
get_cpu_us (void)
{
  struct timespec time;

  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

/* CPU time that a restore of all chunks takes, into memory that is new. */
static gboolean
time_taking (LlmKvFolder *folder,
             LlmDisk     *disk,
             double      *us)
{
  LlmKvTarget targets[TAKEN_CHUNKS];
  Taking taking = { TAKEN_CHUNKS, FALSE };
  guint8 *memory = mmap (NULL, TAKEN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                         -1, 0);
  double begin = get_cpu_us ();

  if (memory == MAP_FAILED)
    return FALSE;
  for (guint i = 0; i < TAKEN_CHUNKS; i++)
    {
      targets[i].data = memory + i * TAKEN_CHUNK_BYTES;
      taking.failed = taking.failed || !llm_kv_folder_find (folder, i, i, &targets[i].slot, NULL);
    }
  if (!taking.failed)
    {
      LlmKvRead *read = llm_kv_folder_read (folder, targets, TAKEN_CHUNKS, on_arrived, &taking);

      while (taking.n_left > 0)
        llm_disk_poll (disk, G_USEC_PER_SEC);
      llm_kv_read_free (read);
    }
  *us = get_cpu_us () - begin;
  munmap (memory, TAKEN_BYTES);
  return !taking.failed;
}

static gboolean
write_chunks (LlmKvFolder *folder,
              LlmDisk     *disk)
{
  g_autofree guint8 *bytes = g_malloc0 (TAKEN_BYTES);
  LlmKvRecord records[TAKEN_CHUNKS];
  const guint8 *data[TAKEN_CHUNKS];
  Taking taking = { 1, FALSE };

  for (guint i = 0; i < TAKEN_CHUNKS; i++)
    {
      records[i] = (LlmKvRecord) { .number = i, .hash = i, .form = LLM_KV_FORM (LLK_KV_Q4, FALSE) };
      data[i] = bytes + i * TAKEN_CHUNK_BYTES;
    }
  llm_kv_folder_write (folder, records, data, TAKEN_CHUNKS, on_written, &taking);
  while (taking.n_left > 0)
    llm_disk_poll (disk, G_USEC_PER_SEC);
  return !taking.failed;
}

gboolean
bench_measure_taking (const char *parent,
                      double     *us_per_byte,
                      GError    **error)
{
  g_autofree char *root = bench_make_folder (parent, error);
  LlmKvShape shape = { .identity = 1, .n_layers = TAKEN_LAYERS, .chunk_slots = LLM_KV_CHUNK_SLOTS };
  LlmDisk *disk = root != NULL ? llm_disk_new (NULL, error) : NULL;
  LlmKvStorage *storage = disk != NULL ? llm_kv_storage_new (root, disk, 0, 0, error) : NULL;
  gsize offsets[TAKEN_LAYERS + 1];
  LlmKvFolder *folder;
  double us[N_STEPS];
  gboolean is_done;

  if (storage == NULL)
    return FALSE;
  for (guint i = 0; i <= TAKEN_LAYERS; i++)
    offsets[i] = i * TAKEN_LAYER_BYTES;
  shape.offsets[LLM_KV_FORM (LLK_KV_Q4, FALSE)] = offsets;
  folder = llm_kv_folder_open (storage, "bench", "rates", &shape);
  is_done = write_chunks (folder, disk);
  for (guint i = 0; i < N_STEPS && is_done; i++)
    is_done = time_taking (folder, disk, &us[i]);
  llm_kv_folder_close (folder);
  llm_kv_storage_remove (storage, "rates");
  llm_kv_storage_free (storage);
  llm_test_folder_remove (root);
  if (is_done)
    *us_per_byte = bench_latency_new (us, N_STEPS).p50 / TAKEN_BYTES;
  else
    g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "Chunks in %s can't be written and read",
                 parent);
  return is_done;
}
