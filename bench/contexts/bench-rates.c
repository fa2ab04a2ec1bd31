/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-contexts.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "bench-engine.h"
#include "io/llm-disk.h"

#define DISK_BYTES ((gsize) 128 << 20)
#define LATENCY_BYTES 4096
#define N_LATENCIES 65
#define N_STEPS 5
/* How the reader asks: requests under way. */
#define DEPTH 8
/* Where the cost of depth is measured. */
#define DEPTH_SLOTS 2048
#define DEPTH_ROWS 128

const BenchModelShape bench_model_shapes[] = {
  { "8m", "shipped model, 8 M", NULL, 8, 8, 32, 1024 },
  { "1.1b", "1.1 B, 4 KV heads", "1.1b", 22, 4, 64, 4096 },
  { "1.3b-mha", "1.3 B, multi-head", "1.3b-mha", 24, 32, 64, 4096 },
  { NULL, NULL, NULL, 0, 0, 0, 0 },
};

LlmKvLayout
bench_model_shape_get_layout (const BenchModelShape *self,
                              guint                  chunk_slots,
                              gboolean               is_thin)
{
  return (LlmKvLayout) {
    .kind = LLM_KV_FULL,
    .format = LLK_KV_F16,
    .n_layers = is_thin ? 1 : self->n_layers,
    .n_kv_heads = is_thin ? 1 : self->n_kv_heads,
    .head_dim = self->head_dim,
    .chunk_slots = chunk_slots,
  };
}

gboolean
bench_rate_file_open (BenchRateFile  *self,
                      GError        **error)
{
  g_autoptr(GError) load_error = NULL;

  self->keys = g_key_file_new ();
  self->made = g_ptr_array_new_with_free_func (g_free);
  if (self->path == NULL ||
      g_key_file_load_from_file (self->keys, self->path, G_KEY_FILE_NONE, &load_error) ||
      g_error_matches (load_error, G_FILE_ERROR, G_FILE_ERROR_NOENT))
    return TRUE;
  g_propagate_prefixed_error (error, g_steal_pointer (&load_error), "%s: ", self->path);
  return FALSE;
}

void
bench_rate_file_clear (BenchRateFile *self)
{
  for (guint i = 0; i < self->made->len; i++)
    g_unlink (g_ptr_array_index (self->made, i));
  g_ptr_array_unref (self->made);
  g_key_file_unref (self->keys);
  g_free (self->disk_what);
}

static gboolean
save (BenchRateFile *self,
      GError       **error)
{
  return self->path == NULL || g_key_file_save_to_file (self->keys, self->path, error);
}

static gboolean
fail_incomplete (BenchRateFile *self,
                 const char    *group,
                 GError       **error)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA,
               "The rates of “%s” in %s are not complete: remove that group, and they are measured "
               "again", group, self->path);
  return FALSE;
}

static double
get_rate (BenchRateFile *self,
          const char    *group,
          const char    *key)
{
  return g_key_file_get_double (self->keys, group, key, NULL);
}

static gboolean
make_model (const char  *path,
            const char  *shape,
            GError     **error)
{
  const char *const words[] = { "/proc/self/exe", "make-gguf", "--shape", shape, "--type", "Q4_0",
                                path, NULL };
  int status;

  return g_spawn_sync (NULL, (char **) words, NULL, G_SPAWN_STDOUT_TO_DEV_NULL, NULL, NULL, NULL,
                       NULL, &status, error) &&
         g_spawn_check_wait_status (status, error);
}

char *
bench_rate_file_get_model (BenchRateFile         *self,
                           const BenchModelShape *shape,
                           GError               **error)
{
  g_autofree char *name = g_strdup_printf ("llmsvc-bench-%s-%d.gguf", shape->name, (int) getpid ());
  g_autofree char *path = g_build_filename (self->folder, name, NULL);

  if (shape->random_shape == NULL && self->model != NULL)
    return g_strdup (self->model);
  if (shape->random_shape == NULL)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_ARGUMENT,
                   "The shape “%s” is measured with the shipped model: give it with --model FILE",
                   shape->name);
      return NULL;
    }
  if (g_ptr_array_find_with_equal_func (self->made, path, g_str_equal, NULL))
    return g_steal_pointer (&path);
  if (!make_model (path, shape->random_shape, error))
    return NULL;
  g_ptr_array_add (self->made, g_strdup (path));
  return g_steal_pointer (&path);
}

/* --- computing --- */

static double
get_median (double *samples,
            guint   n)
{
  return bench_latency_new (samples, n).p50;
}

static gboolean
time_steps (BenchEngine *engine,
            guint        depth,
            guint        n_rows,
            double      *us,
            GError     **error)
{
  g_autoptr(LlmKvSeq) filled = llm_kv_seq_new (engine->store, NULL, NULL);
  double samples[N_STEPS];

  if (depth > 0 && !bench_sequence_fill (filled, depth, error))
    return FALSE;
  for (guint i = 0; i < N_STEPS; i++)
    {
      g_autoptr(LlmKvSeq) sequence = llm_kv_seq_fork (filled, NULL, NULL);

      samples[i] = 1e6 * bench_engine_prefill (engine, sequence, NULL, n_rows, NULL);
    }
  *us = get_median (samples, N_STEPS);
  return TRUE;
}

/* The beginning of a call in a context that is altogether there. */
static gboolean
time_resident (const BenchModelShape *shape,
               double                *us,
               GError               **error)
{
  const LlmKvLayout layout = bench_model_shape_get_layout (shape, LLM_KV_CHUNK_SLOTS, TRUE);
  g_autoptr(LlmKvStore) store = llm_kv_store_new (&layout, llm_kv_policy_find ("llms"), NULL,
                                                  error);
  g_autoptr(LlmKvSeq) sequence = NULL;
  double samples[N_LATENCIES];
  guint n = shape->max_slots - 2 * LLM_KV_CHUNK_SLOTS;

  if (store == NULL)
    return FALSE;
  sequence = llm_kv_seq_new (store, NULL, NULL);
  for (guint i = 0; i < N_LATENCIES; i++)
    {
      gint64 begin = g_get_monotonic_time ();
      LlmKvPlan plan;

      if (!llm_kv_seq_begin_call (sequence, LLM_KV_CHUNK_SLOTS, &plan, error) ||
          llm_kv_seq_make_resident (sequence, 0, error) != LLM_READY)
        return FALSE;
      samples[i] = (double) (g_get_monotonic_time () - begin);
      if (i == 0 && !bench_sequence_fill (sequence, n, error))
        return FALSE;
      bench_store_end_call (store, sequence);
    }
  *us = get_median (samples + 1, N_LATENCIES - 1);
  return TRUE;
}

static gboolean
measure_rates (BenchRateFile         *self,
               const BenchModelShape *shape,
               GError               **error)
{
  g_autofree char *path = bench_rate_file_get_model (self, shape, error);
  const BenchEngineConfig config = { .path = path };
  g_autoptr(BenchEngine) engine = path != NULL ? bench_engine_new (&config, error) : NULL;
  double us[LLM_KV_PROFILE_POINTS], shallow, deep, resident;

  if (engine == NULL)
    return FALSE;
  /* The first one allocates. */
  if (!time_steps (engine, 0, llm_kv_profile_rows[LLM_KV_PROFILE_POINTS - 1], &us[0], error))
    return FALSE;
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    if (!time_steps (engine, 0, llm_kv_profile_rows[i], &us[i], error))
      return FALSE;
  if (!time_steps (engine, 0, DEPTH_ROWS, &shallow, error) ||
      !time_steps (engine, MIN (DEPTH_SLOTS, shape->max_slots / 2), DEPTH_ROWS, &deep, error) ||
      !time_resident (shape, &resident, error))
    return FALSE;

  g_key_file_set_double_list (self->keys, shape->name, "prompt-us", us, LLM_KV_PROFILE_POINTS);
  g_key_file_set_double (self->keys, shape->name, "depth-us",
                         MAX (deep - shallow, 0) / DEPTH_ROWS * 1000 /
                           MIN (DEPTH_SLOTS, shape->max_slots / 2));
  g_key_file_set_double (self->keys, shape->name, "resident-us", resident);
  return save (self, error);
}

gboolean
bench_rate_file_get_rates (BenchRateFile         *self,
                           const BenchModelShape *shape,
                           BenchRates            *rates,
                           GError               **error)
{
  g_autofree double *us = NULL;
  gsize n = 0;

  if (!g_key_file_has_group (self->keys, shape->name) && !measure_rates (self, shape, error))
    return FALSE;
  if (!g_key_file_has_group (self->keys, "restore"))
    {
      double take;

      if (!bench_measure_taking (self->folder, &take, error))
        return FALSE;
      g_key_file_set_double (self->keys, "restore", "take-us-per-byte", take);
      if (!save (self, error))
        return FALSE;
    }
  us = g_key_file_get_double_list (self->keys, shape->name, "prompt-us", &n, NULL);
  llm_kv_profile_init (&rates->profile);
  if (n == LLM_KV_PROFILE_POINTS)
    memcpy (rates->profile.prompt_us, us, sizeof rates->profile.prompt_us);
  rates->profile.depth_us = get_rate (self, shape->name, "depth-us");
  rates->resident_us = get_rate (self, shape->name, "resident-us");
  rates->take_us_per_byte = get_rate (self, "restore", "take-us-per-byte");
  rates->profile.read_bytes_per_us = rates->profile.write_bytes_per_us = 1;
  return (llm_kv_profile_is_measured (&rates->profile) && rates->resident_us > 0) ||
         fail_incomplete (self, shape->name, error);
}

/* --- the disk --- */

typedef struct
{
  LlmDisk *disk;
  int fd;
  int result;           /* errno of the first request that failed */
} DiskRun;

static void
on_done (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  DiskRun *run = data;

  if (n <= 0 && run->result == 0)
    run->result = n < 0 ? (int) -n : EIO;
}

static void
fill_buffer (guint8  *buffer,
             gsize    length,
             gpointer data)
{
  memset (buffer, 0x5a, length);
}

/* Microseconds for all of it. */
static double
run_requests (DiskRun *run,
              gsize    bytes,
              gsize    request,
              gboolean writes)
{
  gint64 begin = g_get_monotonic_time ();

  for (gsize at = 0; at < bytes; at += request)
    if (writes)
      llm_disk_write (run->disk, LLM_DISK_AHEAD, run->fd, at, request, fill_buffer, on_done, run);
    else
      llm_disk_read (run->disk, LLM_DISK_RESTORE, run->fd, at, request, on_done, run);
  while (llm_disk_get_n_pending (run->disk, writes ? LLM_DISK_AHEAD : LLM_DISK_RESTORE) > 0)
    llm_disk_poll (run->disk, G_USEC_PER_SEC);
  return (double) (g_get_monotonic_time () - begin);
}

static gboolean
measure_disk (BenchRateFile *self,
              GError       **error)
{
  g_autoptr(LlmDisk) disk = llm_disk_new (NULL, error);
  g_autofree char *name = g_strdup_printf ("llmsvc-bench-%d.disk", (int) getpid ());
  g_autofree char *path = g_build_filename (self->folder, name, NULL);
  DiskRun run = { disk, -1, 0 };
  double latencies[N_LATENCIES], write_us, reads[N_STEPS];

  if (disk == NULL)
    return FALSE;
  run.fd = llm_disk_open (disk, AT_FDCWD, path, O_RDWR | O_CREAT | O_TRUNC);
  if (run.fd < 0)
    {
      errno = -run.fd;
      return bench_fail_errno (error, "%s", path);
    }
  write_us = run_requests (&run, DISK_BYTES, LLM_DISK_MAX_BYTES, TRUE);
  for (guint i = 0; i < N_STEPS; i++)
    reads[i] = run_requests (&run, DISK_BYTES, LLM_DISK_MAX_BYTES, FALSE);
  for (guint i = 0; i < N_LATENCIES; i++)
    latencies[i] = run_requests (&run, LATENCY_BYTES, LATENCY_BYTES, FALSE);
  close (run.fd);
  g_unlink (path);
  if (run.result != 0)
    {
      errno = run.result;
      return bench_fail_errno (error, "%s", path);
    }

  g_key_file_set_double (self->keys, "disk", "latency-us", get_median (latencies, N_LATENCIES));
  g_key_file_set_double (self->keys, "disk", "read-bytes-per-us",
                         DISK_BYTES / get_median (reads, N_STEPS));
  g_key_file_set_double (self->keys, "disk", "write-bytes-per-us", DISK_BYTES / write_us);
  return save (self, error);
}

gboolean
bench_rate_file_get_disk (BenchRateFile *self,
                          BenchDevice   *device,
                          GError       **error)
{
  if (!g_key_file_has_group (self->keys, "disk") && !measure_disk (self, error))
    return FALSE;
  *device = (BenchDevice) {
    .name = "disk",
    .latency_us = get_rate (self, "disk", "latency-us"),
    .read_bytes_per_us = get_rate (self, "disk", "read-bytes-per-us"),
    .write_bytes_per_us = get_rate (self, "disk", "write-bytes-per-us"),
    .depth = DEPTH,
  };
  g_free (self->disk_what);
  self->disk_what = g_strdup_printf ("this machine's disk: %.0f MB/s read, %.0f MB/s written, "
                                     "%.0f µs (measured)", device->read_bytes_per_us,
                                     device->write_bytes_per_us, device->latency_us);
  device->what = self->disk_what;
  return (device->latency_us > 0 && device->read_bytes_per_us > 0 &&
          device->write_bytes_per_us > 0) || fail_incomplete (self, "disk", error);
}
