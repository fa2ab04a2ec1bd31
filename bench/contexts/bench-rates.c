/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-measure.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define MIN_ROUNDS 9
#define MAX_ROUNDS 199
#define MAX_US (180 * G_TIME_SPAN_SECOND)

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
make_model (const char            *path,
            const BenchModelShape *shape,
            GError               **error)
{
  g_autofree char *layers = g_strdup_printf ("--layers=%u", shape->n_layers);
  const char *const words[] = { "/proc/self/exe", "make-gguf", "--shape", shape->random_shape,
                                "--type", "Q4_0", layers, path, NULL };
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
  if (!make_model (path, shape, error))
    return NULL;
  g_ptr_array_add (self->made, g_strdup (path));
  return g_steal_pointer (&path);
}

/* --- computing --- */

static void
set_rate (BenchRateFile *self,
          const char    *group,
          const char    *key,
          double         value)
{
  g_key_file_set_double (self->keys, group, key, value);
}

static gboolean
set_disk (BenchRateFile     *self,
          const BenchDevice *disk,
          GError           **error)
{
  if (!g_key_file_has_group (self->keys, "disk"))
    {
      set_rate (self, "disk", "latency-us", disk->latency_us);
      set_rate (self, "disk", "read-bytes-per-us", disk->read_bytes_per_us);
      set_rate (self, "disk", "write-bytes-per-us", disk->write_bytes_per_us);
    }
  return save (self, error);
}

/* Rounds until medians are certain; not for ever. */
static gboolean
is_enough (guint     n,
           gint64    begin_us)
{
  return n >= MAX_ROUNDS || g_get_monotonic_time () - begin_us > MAX_US;
}

static gboolean
run_steps (BenchSteps *steps,
           GError    **error)
{
  gint64 begin_us = g_get_monotonic_time ();

  for (guint n = 1;; n++)
    {
      bench_steps_run_round (steps);
      if (n >= MIN_ROUNDS && (bench_steps_check (steps, NULL) || is_enough (n, begin_us)))
        return bench_steps_check (steps, error);
    }
}

static gboolean
run_taking (BenchTaking *taking,
            GError     **error)
{
  gint64 begin_us = g_get_monotonic_time ();

  for (guint n = 1;; n++)
    {
      if (!bench_taking_run_round (taking, error))
        return FALSE;
      if (n >= MIN_ROUNDS && (bench_taking_check (taking, NULL) || is_enough (n, begin_us)))
        return bench_taking_check (taking, error);
    }
}

/* Keys of what a byte costs, and where they are; ended by one without a name. */
typedef struct
{
  const char *name;
  gsize offset;
} RateKey;

static const RateKey rate_keys[] = {
  { "resident-us", G_STRUCT_OFFSET (BenchRates, resident_us) },
  { "open-us", G_STRUCT_OFFSET (BenchRates, open_us) },
  { "take-us-per-byte", G_STRUCT_OFFSET (BenchRates, packed.take_us_per_byte) },
  { "take-us-per-chunk", G_STRUCT_OFFSET (BenchRates, packed.take_us_per_chunk) },
  { "stall-us-per-chunk", G_STRUCT_OFFSET (BenchRates, packed.stall_us_per_chunk) },
  { "evict-us-per-byte", G_STRUCT_OFFSET (BenchRates, packed.evict_us_per_byte) },
  { "evict-us-per-chunk", G_STRUCT_OFFSET (BenchRates, packed.evict_us_per_chunk) },
  { "float-take-us-per-chunk", G_STRUCT_OFFSET (BenchRates, floats.take_us_per_chunk) },
  { "float-stall-us-per-chunk", G_STRUCT_OFFSET (BenchRates, floats.stall_us_per_chunk) },
  { "float-evict-us-per-chunk", G_STRUCT_OFFSET (BenchRates, floats.evict_us_per_chunk) },
  { "create-us", G_STRUCT_OFFSET (BenchRates, create_us) },
  { "write-us-per-byte", G_STRUCT_OFFSET (BenchRates, write_us_per_byte) },
  { "pack-us-per-byte", G_STRUCT_OFFSET (BenchRates, pack_us_per_byte) },
  { NULL, 0 },
};

static gboolean
measure_steps (BenchRateFile         *self,
               const BenchModelShape *shape,
               GError               **error)
{
  g_autofree char *path = bench_rate_file_get_model (self, shape, error);
  const BenchEngineConfig config = { .path = path };
  g_autoptr(BenchEngine) engine = path != NULL ? bench_engine_new (&config, error) : NULL;
  g_autoptr(BenchSteps) steps = engine != NULL ? bench_steps_new (engine, shape, NULL, error) : NULL;
  BenchRates rates;

  if (steps == NULL || !run_steps (steps, error))
    return FALSE;
  bench_steps_get_rates (steps, 0, &rates);
  g_key_file_set_double_list (self->keys, shape->name, "prompt-us", rates.profile.prompt_us,
                              LLM_KV_PROFILE_POINTS);
  set_rate (self, shape->name, "depth-us", rates.profile.depth_us);
  set_rate (self, shape->name, "resident-us", rates.resident_us);
  return save (self, error);
}

/* And the disk, where the file lacks it. */
static gboolean
measure_taking (BenchRateFile         *self,
                const BenchModelShape *shape,
                GError               **error)
{
  g_autoptr(BenchTaking) taking = bench_taking_new (self->folder, shape, error);
  BenchRates rates = { .resident_us = get_rate (self, shape->name, "resident-us") };
  BenchDevice disk;

  if (taking == NULL || !run_taking (taking, error))
    return FALSE;
  bench_taking_get_rates (taking, 0, &rates, &disk);
  for (const RateKey *key = rate_keys; key->name != NULL; key++)
    set_rate (self, shape->name, key->name, G_STRUCT_MEMBER (double, &rates, key->offset));
  return set_disk (self, &disk, error);
}

/* Files of the version before have one of these rates for all models, and nothing of the others. */
static gboolean
lacks_taking (BenchRateFile         *self,
              const BenchModelShape *shape)
{
  return !g_key_file_has_key (self->keys, shape->name, "float-evict-us-per-chunk", NULL) &&
         !g_key_file_has_group (self->keys, "restore");
}

gboolean
bench_rate_file_get_rates (BenchRateFile         *self,
                           const BenchModelShape *shape,
                           BenchRates            *rates,
                           GError               **error)
{
  g_autofree double *us = NULL;
  gsize n = 0;

  if ((!g_key_file_has_group (self->keys, shape->name) && !measure_steps (self, shape, error)) ||
      (lacks_taking (self, shape) && !measure_taking (self, shape, error)))
    return FALSE;
  us = g_key_file_get_double_list (self->keys, shape->name, "prompt-us", &n, NULL);
  *rates = (BenchRates) { 0 };
  if (n == LLM_KV_PROFILE_POINTS)
    memcpy (rates->profile.prompt_us, us, sizeof rates->profile.prompt_us);
  rates->profile.depth_us = get_rate (self, shape->name, "depth-us");
  for (const RateKey *key = rate_keys; key->name != NULL; key++)
    G_STRUCT_MEMBER (double, rates, key->offset) = get_rate (self, shape->name, key->name);
  if (!g_key_file_has_key (self->keys, shape->name, "take-us-per-byte", NULL))
    rates->packed.take_us_per_byte = rates->floats.take_us_per_byte =
        get_rate (self, "restore", "take-us-per-byte");
  rates->profile.read_bytes_per_us = rates->profile.write_bytes_per_us = 1;
  return (llm_kv_profile_is_measured (&rates->profile) && rates->resident_us > 0) ||
         fail_incomplete (self, shape->name, error);
}

/* --- the disk --- */

/* Beside chunks of any model. */
static gboolean
measure_disk (BenchRateFile *self,
              GError       **error)
{
  g_autoptr(BenchTaking) taking = bench_taking_new (self->folder, &bench_model_shapes[0], error);
  BenchRates rates = { 0 };
  BenchDevice disk;

  if (taking == NULL || !run_taking (taking, error))
    return FALSE;
  bench_taking_get_rates (taking, 0, &rates, &disk);
  return set_disk (self, &disk, error);
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
    .depth = BENCH_DISK_DEPTH,
  };
  g_free (self->disk_what);
  self->disk_what = g_strdup_printf ("this machine's disk: %.0f MB/s read, %.0f MB/s written, "
                                     "%.0f µs (measured)", device->read_bytes_per_us,
                                     device->write_bytes_per_us, device->latency_us);
  device->what = self->disk_what;
  return (device->latency_us > 0 && device->read_bytes_per_us > 0 &&
          device->write_bytes_per_us > 0) || fail_incomplete (self, "disk", error);
}
