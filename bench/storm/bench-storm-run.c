/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-run.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define STEP_US 50000
/* Before the first storm, and as long at the end. */
#define WARM_S 10.0
/* Speed is that of so long, and back at so much of what it was; so is memory. */
#define WINDOW_S 2.0
#define SHARE_BACK 0.8
/* How long is waited for both after the last storm. */
#define SETTLE_S 90.0
/* The eater alone needs no time to recover. */
#define ALONE_PAUSE_S 1.0
#define START_S 900.0
/* A server that does not finish the last answers in this time is ended. */
#define FINISH_S 300.0
/* How long a crash may take. */
#define END_US (2 * G_USEC_PER_SEC)
#define COMPARE_S 7200.0

typedef struct
{
  BenchStormKind kind;
  const BenchStormPlan *plan;
  BenchStormResult *result;
  BenchStormGroup *group;
  BenchStormEater *eater;
  BenchStormServer *server;   /* (nullable) */
  BenchStormApps *apps;       /* (nullable) */
  BenchStormSeries *series;
} Run;

static volatile sig_atomic_t is_interrupted;

void
bench_storm_interrupt (void)
{
  is_interrupted = 1;
}

gboolean
bench_storm_is_interrupted (void)
{
  return is_interrupted != 0;
}

void
bench_storm_result_free (BenchStormResult *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    g_clear_pointer (&self->answers[i], g_ptr_array_unref);
  g_clear_pointer (&self->storms, g_array_unref);
  g_clear_pointer (&self->samples, g_array_unref);
  g_free (self->name);
  g_free (self->failure);
  g_free (self);
}

/* FALSE when the server or the eater is gone, an app had to give up, or somebody is tired of it. */
static gboolean
is_well (Run *run)
{
  return !bench_storm_is_interrupted () && bench_storm_eater_is_alive (run->eater) &&
         (run->server == NULL || (bench_storm_server_is_alive (run->server) &&
                                  bench_storm_apps_get_n_ended (run->apps) == 0));
}

static double
get_now (Run *run)
{
  return bench_storm_series_get_now (run->series);
}

/* --- parts of a run --- */

static gboolean
wait_until (Run    *run,
            double  at_s)
{
  while (get_now (run) < at_s && is_well (run))
    g_usleep (STEP_US);
  return is_well (run);
}

static gboolean
is_speed_back (Run *run)
{
  double now = get_now (run);

  return bench_storm_series_get_speed (run->series, now - WINDOW_S, now) >=
         SHARE_BACK * run->result->speed_before;
}

static gboolean
is_memory_back (Run *run)
{
  double now = get_now (run);

  return bench_storm_series_get_resident (run->series, now - WINDOW_S, now) >=
         SHARE_BACK * run->result->resident_before;
}

static void
note_recovery (Run             *run,
               BenchStormStorm *storm)
{
  BenchStormResult *result = run->result;
  double behind_s = get_now (run) - storm->end_s;

  if (storm->back_s < 0 && is_speed_back (run))
    storm->back_s = behind_s;
  /* what was there before the storm has gone out of the window by then */
  if (result->resident_back_s < 0 && behind_s > WINDOW_S && is_memory_back (run))
    result->resident_back_s = behind_s;
}

/* Waits until @until_s, and notes when speed and memory were back. */
static gboolean
watch_recovery (Run             *run,
                BenchStormStorm *storm,
                double           until_s)
{
  while (get_now (run) < until_s && is_well (run))
    {
      if (run->server != NULL)
        note_recovery (run, storm);
      g_usleep (STEP_US);
    }
  return is_well (run);
}

static void
end_storm (Run                     *run,
           BenchStormStorm         *storm,
           const BenchStormReading *before)
{
  BenchStormReading after;

  storm->rounds = bench_storm_eater_get_rounds (run->eater);
  storm->longest_ms = bench_storm_eater_get_longest_ms (run->eater);
  bench_storm_group_read (run->group, &after);
  for (guint i = 0; i < BENCH_STORM_N_SIDES; i++)
    storm->stalls[i] = (BenchStormStall) {
      .some_us = after.stalls[i].some_us - before->stalls[i].some_us,
      .full_us = after.stalls[i].full_us - before->stalls[i].full_us,
    };
  storm->end_s = get_now (run);
  run->result->resident_back_s = -1;
  bench_storm_eater_set_level (run->eater, 0);
  storm->speed = bench_storm_series_get_speed (run->series, storm->begin_s, storm->end_s);
}

/* The storm and the pause behind it. */
static gboolean
go_storm (Run  *run,
          guint number)
{
  const BenchStormPlan *plan = run->plan;
  double pause_s = run->server != NULL ? plan->pause_ms / 1000.0 : ALONE_PAUSE_S;
  BenchStormStorm storm = { .level = bench_storm_plan_get_level (plan, number), .back_s = -1 };
  BenchStormReading before;
  gboolean is_over;

  bench_storm_group_read (run->group, &before);
  storm.begin_s = get_now (run);
  bench_storm_eater_set_level (run->eater, storm.level);
  is_over = wait_until (run, storm.begin_s + (plan->grow_ms + plan->hold_ms) / 1000.0);
  end_storm (run, &storm, &before);
  is_over = is_over && watch_recovery (run, &storm, storm.end_s + pause_s);
  g_array_append_val (run->result->storms, storm);
  return is_over;
}

/* Until the speed and the memory of before are there again. */
static void
settle (Run *run)
{
  BenchStormResult *result = run->result;
  BenchStormStorm *last = &g_array_index (result->storms, BenchStormStorm, result->storms->len - 1);

  while (get_now (run) < last->end_s + SETTLE_S && is_well (run) &&
         (last->back_s < 0 || result->resident_back_s < 0))
    {
      note_recovery (run, last);
      g_usleep (STEP_US);
    }
}

static gboolean
warm_up (Run *run)
{
  BenchStormResult *result = run->result;
  double begin;

  while (bench_storm_apps_get_n_begun (run->apps) < BENCH_STORM_APPS && is_well (run) &&
         get_now (run) < START_S)
    g_usleep (STEP_US);
  result->start_s = begin = get_now (run);
  if (!wait_until (run, begin + WARM_S))
    return FALSE;
  result->speed_before = bench_storm_series_get_speed (run->series, begin, begin + WARM_S);
  result->resident_before = bench_storm_series_get_resident (run->series, begin, begin + WARM_S);
  return TRUE;
}

static void
cool_down (Run *run)
{
  BenchStormResult *result = run->result;
  double begin;

  settle (run);
  begin = get_now (run);
  if (!wait_until (run, begin + WARM_S))
    return;
  result->speed_after = bench_storm_series_get_speed (run->series, begin, begin + WARM_S);
  result->resident_after = bench_storm_series_get_resident (run->series, begin, begin + WARM_S);
}

/* Apps see the end of a server before it can be waited for. */
static gboolean
stays_alive (BenchStormServer *server,
             gboolean          was_well)
{
  gint64 end_us = g_get_monotonic_time () + END_US;

  while (!was_well && bench_storm_server_is_alive (server) && g_get_monotonic_time () < end_us)
    g_usleep (STEP_US);
  return bench_storm_server_is_alive (server);
}

static void
go_storms (Run *run)
{
  gboolean is_well_so_far = run->server == NULL || warm_up (run);
  guint i;

  for (i = 0; i < run->plan->n_storms && is_well_so_far; i++)
    is_well_so_far = go_storm (run, i);
  if (is_well_so_far && run->server != NULL)
    {
      i++;
      cool_down (run);
    }
  if (run->server != NULL && !stays_alive (run->server, is_well_so_far))
    run->result->killed_in = MAX (i, 1);
}

/* --- a run --- */

/* After @limit_s the server is ended, with turns under way. */
static void
finish_apps (BenchStormApps   *apps,
             BenchStormServer *server,
             double            limit_s)
{
  gint64 end_us = g_get_monotonic_time () + (gint64) (limit_s * G_USEC_PER_SEC);

  while (bench_storm_apps_get_n_ended (apps) < BENCH_STORM_APPS &&
         g_get_monotonic_time () < end_us && !bench_storm_is_interrupted ())
    g_usleep (STEP_US);
  if (bench_storm_apps_get_n_ended (apps) < BENCH_STORM_APPS)
    bench_storm_server_end (server);
  bench_storm_apps_finish (apps);
}

static void
take_answers (Run *run)
{
  BenchStormResult *result = run->result;

  bench_storm_apps_stop (run->apps);
  finish_apps (run->apps, run->server, FINISH_S);
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    {
      const char *failure = bench_storm_apps_get_failure (run->apps, i);

      result->answers[i] = g_ptr_array_ref (bench_storm_apps_get_answers (run->apps, i));
      result->n_answers += result->answers[i]->len;
      if (failure != NULL && result->failure == NULL)
        result->failure = g_strdup_printf ("app %u, %s", i + 1, failure);
    }
}

static BenchStormServer *
start_server (BenchStormKind                kind,
              const BenchStormServerConfig *config,
              const BenchStormPlan         *plan,
              BenchStormGroup              *group,
              GError                      **error)
{
  return kind == BENCH_STORM_OURS
           ? bench_storm_server_new_service (config, plan, group, error)
           : bench_storm_server_new_peer (config, plan, group, error);
}

BenchStormResult *
bench_storm_run (BenchStormKind                kind,
                 const BenchStormServerConfig *config,
                 const BenchStormPlan         *plan,
                 GError                      **error)
{
  g_autoptr(BenchStormResult) result = g_new0 (BenchStormResult, 1);
  g_autoptr(BenchStormGroup) group = bench_storm_group_new (plan->limit, error);
  g_autoptr(BenchStormEater) eater = NULL;
  g_autoptr(BenchStormServer) server = NULL;
  g_autoptr(BenchStormApps) apps = NULL;
  g_autoptr(BenchStormSeries) series = NULL;
  g_autofree char *file = g_build_filename (config->folder, "eaten", NULL);
  BenchStormReading end;
  Run run;

  result->storms = g_array_new (FALSE, FALSE, sizeof (BenchStormStorm));
  result->n_different = -1;
  result->resident_back_s = -1;
  if (group == NULL)
    return NULL;
  result->group_version = bench_storm_group_get_version (group);
  eater = bench_storm_eater_new (group, plan->levels[BENCH_STORM_LEVELS - 1], file,
                                 plan->file_bytes, plan->grow_ms, error);
  if (eater == NULL)
    return NULL;
  if (kind != BENCH_STORM_NOBODY)
    {
      server = start_server (kind, config, plan, group, error);
      if (server == NULL)
        return NULL;
      apps = bench_storm_apps_new (server, NULL);
    }
  series = bench_storm_series_new (group, eater, server, apps);
  run = (Run) { kind, plan, result, group, eater, server, apps, series };
  go_storms (&run);
  if (apps != NULL)
    take_answers (&run);
  result->samples = bench_storm_series_stop (series);
  bench_storm_group_read (group, &end);
  result->oom_kills = end.oom_kills;
  result->has_eater = bench_storm_eater_is_alive (eater);
  if (result->killed_in > 0)
    {
      g_autofree char *how = bench_storm_server_describe_end (server, config->folder);

      g_printerr ("llmsvc-bench: in storm %u the server %s\n", result->killed_in, how);
    }
  return g_steal_pointer (&result);
}

/* --- comparing --- */

gboolean
bench_storm_compare (BenchStormResult             *result,
                     const BenchStormServerConfig *config,
                     const BenchStormPlan         *plan,
                     GError                      **error)
{
  g_autoptr(BenchStormServer) server = start_server (BENCH_STORM_OURS, config, plan, NULL, error);
  g_autoptr(BenchStormApps) apps = NULL;
  guint n_turns[BENCH_STORM_APPS];

  if (server == NULL)
    return FALSE;
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    n_turns[i] = result->answers[i]->len;
  apps = bench_storm_apps_new (server, n_turns);
  finish_apps (apps, server, COMPARE_S);

  result->n_different = 0;
  for (guint i = 0; i < BENCH_STORM_APPS; i++)
    {
      GPtrArray *answers = bench_storm_apps_get_answers (apps, i);
      const char *failure = bench_storm_apps_get_failure (apps, i);

      if (failure != NULL)
        {
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "undisturbed, app %u, %s", i + 1,
                       failure);
          return FALSE;
        }
      for (guint k = 0; k < n_turns[i]; k++)
        if (strcmp (g_ptr_array_index (answers, k),
                    g_ptr_array_index (result->answers[i], k)) != 0)
          result->n_different++;
    }
  return TRUE;
}
