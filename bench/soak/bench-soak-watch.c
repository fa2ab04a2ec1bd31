/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-watch.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench-bus.h"
#include "bench-random.h"
#include "soak/bench-soak-talk.h"
#include "common/llmsvc-names.h"

#define MIB (1024.0 * 1024.0)
#define PROBE_INTERVAL_US 20000
#define MAX_STREAMS 6

static const struct
{
  const char *name;
  const char *unit;
} held[BENCH_N_HELD] = {
  [BENCH_HELD_RSS] = { "resident", "MiB" },
  [BENCH_HELD_PSS] = { "proportional", "MiB" },
  [BENCH_HELD_ANON] = { "not backed by files", "MiB" },
  [BENCH_HELD_HEAP] = { "heap in use", "MiB" },
  [BENCH_HELD_FDS] = { "descriptors", "" },
  [BENCH_HELD_THREADS] = { "threads", "" },
  [BENCH_HELD_CONTEXTS] = { "contexts", "" },
  [BENCH_HELD_CALLS] = { "calls", "" },
  [BENCH_HELD_APPS] = { "applications", "" },
  [BENCH_HELD_STATE] = { "state folder", "MiB" },
};

const char *
bench_held_get_name (BenchHeld which)
{
  return held[which].name;
}

const char *
bench_held_get_unit (BenchHeld which)
{
  return held[which].unit;
}

/* --- samples --- */

static guint
count_entries (guint       pid,
               const char *folder)
{
  g_autofree char *path = g_strdup_printf ("/proc/%u/%s", pid, folder);
  g_autoptr(GDir) entries = g_dir_open (path, 0, NULL);
  guint n = 0;

  while (entries != NULL && g_dir_read_name (entries) != NULL)
    n++;
  return n;
}

/* Bytes on the disk: files may have holes. */
static double
sum_folder (const char *path)
{
  g_autoptr(GDir) folder = g_dir_open (path, 0, NULL);
  const char *name;
  double bytes = 0;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *inner = g_build_filename (path, name, NULL);
      struct stat status;

      if (lstat (inner, &status) != 0)
        continue;
      bytes += S_ISDIR (status.st_mode) ? sum_folder (inner) : (double) status.st_blocks * 512;
    }
  return bytes;
}

static double
look_up (GVariant   *statistics,
         const char *key)
{
  guint64 value = 0;

  g_variant_lookup (statistics, key, "t", &value);
  return (double) value;
}

gboolean
bench_sample_take (BenchSample     *self,
                   GDBusConnection *connection,
                   guint            pid,
                   const char      *state_folder,
                   gint64           begin_us,
                   GError         **error)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) statistics = NULL;

  reply = bench_talk_call (connection, LLMSVC_PATH, LLMSVC_INTERFACE, "GetStatistics",
                           g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(a{sv})", error);
  if (reply == NULL)
    return FALSE;
  statistics = g_variant_get_child_value (reply, 0);
  self->seconds = (double) (g_get_monotonic_time () - begin_us) / G_USEC_PER_SEC;
  self->held[BENCH_HELD_RSS] = bench_read_proc_mib (pid, "status", "VmRSS:");
  self->held[BENCH_HELD_PSS] = bench_read_proc_mib (pid, "smaps_rollup", "\nPss:");
  self->held[BENCH_HELD_ANON] = bench_read_proc_mib (pid, "status", "RssAnon:");
  self->held[BENCH_HELD_HEAP] = look_up (statistics, "heap-bytes") / MIB;
  self->held[BENCH_HELD_FDS] = count_entries (pid, "fd");
  self->held[BENCH_HELD_THREADS] = count_entries (pid, "task");
  self->held[BENCH_HELD_CONTEXTS] = look_up (statistics, "contexts");
  self->held[BENCH_HELD_CALLS] = look_up (statistics, "calls");
  self->held[BENCH_HELD_APPS] = look_up (statistics, "apps");
  self->held[BENCH_HELD_STATE] = sum_folder (state_folder) / MIB;
  return TRUE;
}

/* --- probes --- */

static gboolean
time_call (GDBusConnection *connection,
           gboolean         of_bus,
           guint32         *us)
{
  gint64 begin = g_get_monotonic_time ();
  g_autoptr(GVariant) reply = NULL;

  if (of_bus)
    reply =
      g_dbus_connection_call_sync (connection, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                   "org.freedesktop.DBus", "GetId", NULL, NULL,
                                   G_DBUS_CALL_FLAGS_NONE, BENCH_TALK_TIMEOUT_MS, NULL, NULL);
  else
    reply = bench_talk_get (connection, LLMSVC_PATH, LLMSVC_MEMORY_INTERFACE, "Resident", NULL);
  *us = (guint32) (g_get_monotonic_time () - begin);
  return reply != NULL;
}

int
bench_probe_run (const char *address)
{
  g_autoptr(GDBusConnection) connection = bench_talk_connect (address, NULL, NULL);

  while (connection != NULL)
    {
      BenchProbe probe = { .at_us = g_get_monotonic_time () };
      gint64 left_us;

      if (!time_call (connection, FALSE, &probe.service_us) ||
          !time_call (connection, TRUE, &probe.bus_us) ||
          write (STDOUT_FILENO, &probe, sizeof probe) != sizeof probe)
        break;
      left_us = probe.at_us + PROBE_INTERVAL_US - g_get_monotonic_time ();
      if (left_us > 0)
        g_usleep ((gulong) left_us);
    }
  return 0;
}

static gboolean
is_in_pause (GArray *pauses,
             gint64  at_us)
{
  for (guint i = 0; i + 1 < pauses->len; i += 2)
    if (at_us >= g_array_index (pauses, gint64, i) && at_us < g_array_index (pauses, gint64, i + 1))
      return TRUE;
  return FALSE;
}

static int
compare_us (gconstpointer a,
            gconstpointer b)
{
  guint32 left = *(const guint32 *) a;
  guint32 right = *(const guint32 *) b;

  return (left > right) - (left < right);
}

static double
get_share (GArray *sorted,
           double  share)
{
  return sorted->len > 0
           ? g_array_index (sorted, guint32, (guint) (share * (sorted->len - 1))) / 1000.0 : 0;
}

void
bench_probe_sum_up (const BenchProbe *probes,
                    guint             n_probes,
                    gint64            from_us,
                    gint64            to_us,
                    GArray           *pauses,
                    gboolean          of_bus,
                    BenchProbed      *result)
{
  g_autoptr(GArray) times = g_array_new (FALSE, FALSE, sizeof (guint32));

  for (guint i = 0; i < n_probes; i++)
    if (probes[i].at_us >= from_us && probes[i].at_us < to_us &&
        !is_in_pause (pauses, probes[i].at_us))
      g_array_append_vals (times, of_bus ? &probes[i].bus_us : &probes[i].service_us, 1);
  g_array_sort (times, compare_us);
  result->n = times->len;
  result->p50 = get_share (times, 0.5);
  result->p99 = get_share (times, 0.99);
  result->p999 = get_share (times, 0.999);
  result->greatest = get_share (times, 1);
}

/* --- callers that are killed --- */

/* One more answer that nobody reads. FALSE when the connection is gone. */
static gboolean
begin_answer (GDBusConnection *connection,
              BenchRandom     *random,
              GQueue          *streams)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;
  GVariantDict options;
  const char *path;
  BenchStream *stream;

  reply = bench_talk_call (connection, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext",
                           g_variant_new ("(@a{sv})", bench_talk_no_options ()), "(o)", &error);
  if (reply == NULL)
    return !g_dbus_connection_is_closed (connection);
  g_variant_get (reply, "(&o)", &path);
  g_variant_dict_init (&options, NULL);
  g_variant_dict_insert (&options, "max-tokens", "u", bench_random_range (random, 1, 100));
  stream = bench_stream_new (connection, path, "I want a restaurant in San Jose.",
                             g_variant_dict_end (&options), FALSE, NULL);
  if (stream != NULL)
    g_queue_push_tail (streams, stream);
  while (g_queue_get_length (streams) > MAX_STREAMS)
    bench_stream_free (g_queue_pop_head (streams));
  return TRUE;
}

int
bench_caller_run (const char *address,
                  guint64     seed)
{
  BenchRandom random = bench_random_derive (seed, 0xca11);
  g_autofree char *id =
    g_strdup_printf ("org.example.Killed%u", bench_random_range (&random, 0, 3));
  g_autoptr(GDBusConnection) connection = bench_talk_connect (address, id, NULL);
  GQueue streams = G_QUEUE_INIT;

  while (connection != NULL && begin_answer (connection, &random, &streams))
    g_usleep (bench_random_range (&random, 10, 200) * 1000);
  return 0;
}
