/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-series.h"

#include <string.h>

#include "bench-bus.h"

#define MIB 1048576.0
#define KIB 1024

struct _BenchStormSeries
{
  BenchStormGroup *group;
  BenchStormEater *eater;
  BenchStormApps *apps;       /* (nullable) */
  guint pid;                  /* 0: no server */
  gint64 begin_us;

  GThread *thread;
  gint is_stopping;
  GMutex lock;
  GArray *samples;            /* guarded by lock */
};

double
bench_storm_series_get_now (BenchStormSeries *self)
{
  return (double) (g_get_monotonic_time () - self->begin_us) / G_USEC_PER_SEC;
}

static guint64
read_total (const char *text,
            const char *kind)
{
  const char *at = strstr (text, kind);

  at = at != NULL ? strstr (at, "total=") : NULL;
  return at != NULL ? g_ascii_strtoull (at + strlen ("total="), NULL, 10) : 0;
}

/* A line of /proc/meminfo, in bytes. */
static guint64
read_bytes (const char *text,
            const char *key)
{
  const char *at = strstr (text, key);

  return at != NULL ? KIB * g_ascii_strtoull (at + strlen (key), NULL, 10) : 0;
}

static void
read_system (BenchStormSample *sample)
{
  g_autofree char *stalls = NULL;
  g_autofree char *memory = NULL;

  if (g_file_get_contents ("/proc/pressure/memory", &stalls, NULL, NULL))
    sample->system =
      (BenchStormStall) { read_total (stalls, "some "), read_total (stalls, "full ") };
  if (g_file_get_contents ("/proc/meminfo", &memory, NULL, NULL))
    {
      sample->total = read_bytes (memory, "MemTotal:");
      sample->available = read_bytes (memory, "MemAvailable:");
    }
}

static void
take_sample (BenchStormSeries *self)
{
  BenchStormSample sample = { .at_s = bench_storm_series_get_now (self) };

  if (self->pid > 0)
    {
      sample.anonymous = (guint64) (MIB * bench_read_proc_mib (self->pid, "status", "RssAnon:"));
      sample.mapped = (guint64) (MIB * bench_read_proc_mib (self->pid, "status", "RssFile:"));
    }
  if (self->apps != NULL)
    sample.tokens = bench_storm_apps_get_tokens (self->apps);
  sample.eater = bench_storm_eater_get_held (self->eater);
  read_system (&sample);
  bench_storm_group_read (self->group, &sample.group);

  g_mutex_lock (&self->lock);
  g_array_append_val (self->samples, sample);
  g_mutex_unlock (&self->lock);
}

static gpointer
run (gpointer data)
{
  BenchStormSeries *self = data;

  for (guint i = 1; !g_atomic_int_get (&self->is_stopping); i++)
    {
      gint64 next_us = self->begin_us + (gint64) i * BENCH_STORM_SAMPLE_MS * 1000;

      g_usleep ((gulong) MAX (next_us - g_get_monotonic_time (), 1000));
      take_sample (self);
    }
  return NULL;
}

BenchStormSeries *
bench_storm_series_new (BenchStormGroup  *group,
                        BenchStormEater  *eater,
                        BenchStormServer *server,
                        BenchStormApps   *apps)
{
  BenchStormSeries *self = g_new0 (BenchStormSeries, 1);

  self->group = group;
  self->eater = eater;
  self->apps = apps;
  self->pid = server != NULL ? (guint) server->pid : 0;
  self->begin_us = g_get_monotonic_time ();
  self->samples = g_array_new (FALSE, FALSE, sizeof (BenchStormSample));
  g_mutex_init (&self->lock);
  take_sample (self);
  self->thread = g_thread_new ("series", run, self);
  return self;
}

static void
end_thread (BenchStormSeries *self)
{
  g_atomic_int_set (&self->is_stopping, TRUE);
  g_clear_pointer (&self->thread, g_thread_join);
}

void
bench_storm_series_free (BenchStormSeries *self)
{
  if (self == NULL)
    return;
  end_thread (self);
  g_clear_pointer (&self->samples, g_array_unref);
  g_mutex_clear (&self->lock);
  g_free (self);
}

GArray *
bench_storm_series_stop (BenchStormSeries *self)
{
  end_thread (self);
  return g_steal_pointer (&self->samples);
}

/* The last sample not behind @at_s, or the first. */
static guint
find_sample (BenchStormSeries *self,
             double            at_s)
{
  guint least = 0, most = self->samples->len - 1;

  while (least < most)
    {
      guint middle = (least + most + 1) / 2;

      if (g_array_index (self->samples, BenchStormSample, middle).at_s <= at_s)
        least = middle;
      else
        most = middle - 1;
    }
  return least;
}

double
bench_storm_series_get_speed (BenchStormSeries *self,
                              double            begin_s,
                              double            end_s)
{
  const BenchStormSample *begin, *end;
  double speed;

  g_mutex_lock (&self->lock);
  begin = &g_array_index (self->samples, BenchStormSample, find_sample (self, begin_s));
  end = &g_array_index (self->samples, BenchStormSample, find_sample (self, end_s));
  speed = end > begin ? (double) (end->tokens - begin->tokens) / (end->at_s - begin->at_s) : 0;
  g_mutex_unlock (&self->lock);
  return speed;
}

double
bench_storm_series_get_resident (BenchStormSeries *self,
                                 double            begin_s,
                                 double            end_s)
{
  double sum = 0;
  guint first, last;

  g_mutex_lock (&self->lock);
  first = find_sample (self, begin_s);
  last = find_sample (self, end_s);
  for (guint i = first; i <= last; i++)
    {
      const BenchStormSample *sample = &g_array_index (self->samples, BenchStormSample, i);

      sum += (double) (sample->anonymous + sample->mapped);
    }
  g_mutex_unlock (&self->lock);
  return sum / (last - first + 1);
}
