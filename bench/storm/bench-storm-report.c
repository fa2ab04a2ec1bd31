/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-report.h"

#include <math.h>
#include <stdio.h>

#include "bench-json.h"

#define MIB 1048576.0
#define MS 1000.0

typedef double (*GetFigure) (const BenchStormStorm *storm);

static double
get_some_ms (const BenchStormStorm *storm)
{
  return (double) storm->stalls[BENCH_STORM_EATER].some_us / MS;
}

static double
get_full_ms (const BenchStormStorm *storm)
{
  return (double) storm->stalls[BENCH_STORM_EATER].full_us / MS;
}

static double
get_server_ms (const BenchStormStorm *storm)
{
  return (double) storm->stalls[BENCH_STORM_SERVER].some_us / MS;
}

static double
get_rounds (const BenchStormStorm *storm)
{
  return (double) storm->rounds;
}

static double
get_longest_ms (const BenchStormStorm *storm)
{
  return storm->longest_ms;
}

static double
get_speed (const BenchStormStorm *storm)
{
  return storm->speed;
}

static double
get_back_s (const BenchStormStorm *storm)
{
  return storm->back_s;
}

/* (transfer full): of all storms; with @wants_known those only where it is at least 0. */
static BenchFigure *
collect (const BenchStormResult *result,
         GetFigure               get,
         gboolean                wants_known)
{
  BenchFigure *figure = bench_figure_new ("", "");

  for (guint i = 0; i < result->storms->len; i++)
    {
      double value = get (&g_array_index (result->storms, BenchStormStorm, i));

      if (!wants_known || value >= 0)
        bench_figure_add (figure, value);
    }
  return figure;
}

static double
sum_stalls_ms (const BenchStormResult *result)
{
  double sum = 0;

  for (guint i = 0; i < result->storms->len; i++)
    sum += get_some_ms (&g_array_index (result->storms, BenchStormStorm, i));
  return sum;
}

/* --- a table --- */

/* Times as short as a look are none. */
static double
round_figure (double value)
{
  return round (100 * value) / 100;
}

static void
print_figure (const BenchStormResult *result,
              GetFigure               get,
              gboolean                wants_known)
{
  BenchFigure *figure = collect (result, get, wants_known);

  if (figure->samples->len == 0)
    printf (" – |");
  else
    printf (" %.4g (%.4g – %.4g) |", round_figure (bench_figure_median (figure)),
            round_figure (bench_figure_least (figure)),
            round_figure (bench_figure_greatest (figure)));
  bench_figure_free (figure);
}

static void
print_stalls (GPtrArray            *results,
              const BenchStormPlan *plan)
{
  printf ("| beside | storms | killed | eater waited, ms a storm | at a full stop, ms | "
          "in all, ms | rounds of %u | longest for a MiB, ms |\n"
          "|---|---|---|---|---|---|---|---|\n",
          plan->hold_ms / BENCH_STORM_ROUND_MS);
  for (guint i = 0; i < results->len; i++)
    {
      const BenchStormResult *result = g_ptr_array_index (results, i);

      printf ("| %s | %u |", result->name, result->storms->len);
      if (result->killed_in > 0)
        printf (" **in storm %u** |", result->killed_in);
      else
        printf (" no |");
      print_figure (result, get_some_ms, FALSE);
      print_figure (result, get_full_ms, FALSE);
      printf (" %.4g |", sum_stalls_ms (result));
      print_figure (result, get_rounds, FALSE);
      print_figure (result, get_longest_ms, FALSE);
      printf ("\n");
    }
}

static void
print_servers (GPtrArray *results)
{
  printf ("\n| server | tokens/s before | in a storm | afterwards | speed back, s | MiB before | "
          "afterwards | back, s | waited itself, ms a storm | answers | lost | not the same |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (guint i = 1; i < results->len; i++)
    {
      const BenchStormResult *result = g_ptr_array_index (results, i);

      printf ("| %s | %.2f |", result->name, result->speed_before);
      print_figure (result, get_speed, FALSE);
      printf (" %.2f |", result->speed_after);
      print_figure (result, get_back_s, TRUE);
      printf (" %.0f | %.0f |", result->resident_before / MIB, result->resident_after / MIB);
      if (result->resident_back_s >= 0)
        printf (" %.1f |", result->resident_back_s);
      else
        printf (" – |");
      print_figure (result, get_server_ms, FALSE);
      printf (" %u | %s |", result->n_answers, result->failure != NULL ? "yes" : "none");
      if (result->n_different >= 0)
        printf (" %d |\n", result->n_different);
      else
        printf (" – |\n");
    }
}

/* What the first server's eater waited, as a part of what the others' did: by storm, of those that
 * both had. */
static double
compare_stalls (const BenchStormResult *own,
                const BenchStormResult *other)
{
  double sums[2] = { 0 };

  for (guint i = 0; i < own->storms->len && i < other->storms->len; i++)
    {
      sums[0] += get_some_ms (&g_array_index (own->storms, BenchStormStorm, i));
      sums[1] += get_some_ms (&g_array_index (other->storms, BenchStormStorm, i));
    }
  return sums[1] > 0 ? sums[0] / sums[1] : 0;
}

void
bench_storm_print (GPtrArray            *results,
                   const BenchStormPlan *plan)
{
  printf ("model %.0f MiB, limit %.0f MiB, budget of the service %.0f MiB; the eater takes %.0f, "
          "%.0f or %.0f MiB and reads %.0f\n\n",
          plan->model_bytes / MIB, plan->limit / MIB, plan->budget / MIB, plan->levels[0] / MIB,
          plan->levels[1] / MIB, plan->levels[2] / MIB, plan->file_bytes / MIB);
  print_stalls (results, plan);
  print_servers (results);
  for (guint i = 2; i < results->len; i++)
    {
      const BenchStormResult *own = g_ptr_array_index (results, 1);
      const BenchStormResult *other = g_ptr_array_index (results, i);

      printf ("\nbeside %s the eater waits %.2f times as long as beside %s", own->name,
              compare_stalls (own, other), other->name);
    }
  printf ("\n");
  for (guint i = 0; i < results->len; i++)
    {
      const BenchStormResult *result = g_ptr_array_index (results, i);

      if (result->failure != NULL)
        printf ("\n%s: %s\n", result->name, result->failure);
      if (!result->has_eater)
        printf ("\n%s: the eater did not live to the end\n", result->name);
    }
}

/* --- JSON --- */

static void
add_stall (JsonBuilder           *builder,
           const char            *name,
           const BenchStormStall *stall)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  bench_json_add_integer (builder, "some-us", (gint64) stall->some_us);
  bench_json_add_integer (builder, "full-us", (gint64) stall->full_us);
  json_builder_end_object (builder);
}

static void
add_storms (JsonBuilder            *builder,
            const BenchStormResult *result)
{
  json_builder_set_member_name (builder, "storms");
  json_builder_begin_array (builder);
  for (guint i = 0; i < result->storms->len; i++)
    {
      const BenchStormStorm *storm = &g_array_index (result->storms, BenchStormStorm, i);

      json_builder_begin_object (builder);
      bench_json_add_integer (builder, "level-bytes", (gint64) storm->level);
      bench_json_add_number (builder, "begin-s", storm->begin_s);
      bench_json_add_number (builder, "end-s", storm->end_s);
      add_stall (builder, "eater-stall", &storm->stalls[BENCH_STORM_EATER]);
      add_stall (builder, "server-stall", &storm->stalls[BENCH_STORM_SERVER]);
      bench_json_add_integer (builder, "rounds", (gint64) storm->rounds);
      bench_json_add_number (builder, "longest-ms", storm->longest_ms);
      bench_json_add_number (builder, "tokens-per-second", storm->speed);
      bench_json_add_number (builder, "back-s", storm->back_s);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

static void
add_result (JsonBuilder            *builder,
            const BenchStormResult *result)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "beside");
  json_builder_add_string_value (builder, result->name);
  bench_json_add_integer (builder, "group-version", result->group_version);
  bench_json_add_integer (builder, "killed-in-storm", result->killed_in);
  bench_json_add_integer (builder, "oom-kills", (gint64) result->oom_kills);
  json_builder_set_member_name (builder, "eater-lived");
  json_builder_add_boolean_value (builder, result->has_eater);
  bench_json_add_number (builder, "start-s", result->start_s);
  bench_json_add_number (builder, "tokens-per-second-before", result->speed_before);
  bench_json_add_number (builder, "tokens-per-second-after", result->speed_after);
  bench_json_add_number (builder, "resident-bytes-before", result->resident_before);
  bench_json_add_number (builder, "resident-bytes-after", result->resident_after);
  bench_json_add_number (builder, "resident-back-s", result->resident_back_s);
  bench_json_add_integer (builder, "answers", result->n_answers);
  bench_json_add_integer (builder, "different", result->n_different);
  if (result->failure != NULL)
    {
      json_builder_set_member_name (builder, "failure");
      json_builder_add_string_value (builder, result->failure);
    }
  add_storms (builder, result);
  json_builder_end_object (builder);
}

void
bench_storm_add_json (GPtrArray            *results,
                      const BenchStormPlan *plan,
                      JsonBuilder          *builder)
{
  json_builder_begin_object (builder);
  bench_json_add_integer (builder, "model-bytes", (gint64) plan->model_bytes);
  bench_json_add_integer (builder, "limit-bytes", (gint64) plan->limit);
  bench_json_add_integer (builder, "budget-bytes", (gint64) plan->budget);
  bench_json_add_integer (builder, "eater-file-bytes", (gint64) plan->file_bytes);
  bench_json_add_integer (builder, "apps", BENCH_STORM_APPS);
  bench_json_add_integer (builder, "context-tokens", plan->n_begin);
  json_builder_set_member_name (builder, "runs");
  json_builder_begin_array (builder);
  for (guint i = 0; i < results->len; i++)
    add_result (builder, g_ptr_array_index (results, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

/* --- readings --- */

char *
bench_storm_trace (const BenchStormResult *result,
                   const BenchStormPlan   *plan)
{
  GString *text = g_string_new ("# Readings in storms (llmsvc-bench storm --trace)\n");
  guint64 anonymous = 0, before_ms = 0;

  for (guint i = 0; i < result->samples->len; i++)
    anonymous = MAX (anonymous, g_array_index (result->samples, BenchStormSample, i).anonymous);
  g_string_append_printf (text, "group-mib %.0f\nbudget-mib %.0f\nmodel-mib %.0f\n"
                          "contexts-mib %.0f\nbusy 1\nrecorded 1\n",
                          plan->limit / MIB, plan->budget / MIB, plan->model_bytes / MIB,
                          anonymous / MIB);
  g_string_append (text, "# time_ms system-some-us system-full-us own-some-us own-full-us "
                   "available total limit usage cache\n");
  for (guint i = 0; i < result->samples->len; i++)
    {
      const BenchStormSample *sample = &g_array_index (result->samples, BenchStormSample, i);
      const BenchStormStall *own = &sample->group.stalls[BENCH_STORM_SERVER];
      const guint64 figures[] = {
        (guint64) (sample->at_s * MS), sample->system.some_us, sample->system.full_us,
        own->some_us, own->full_us, sample->available, sample->total, plan->limit,
        sample->group.usage, sample->group.cache,
      };

      /* readings that were late come close behind one another */
      if (i > 0 && figures[0] <= before_ms)
        continue;
      before_ms = figures[0];
      for (guint k = 0; k < G_N_ELEMENTS (figures); k++)
        g_string_append_printf (text, "%" G_GUINT64_FORMAT "%c", figures[k],
                                k + 1 < G_N_ELEMENTS (figures) ? ' ' : '\n');
    }
  return g_string_free (text, FALSE);
}
