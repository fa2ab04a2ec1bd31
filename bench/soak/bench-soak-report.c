/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a soak says at its end: tables, JSON, plots, and whether all was as it should be. */

#include "soak/bench-soak.h"

#include <math.h>
#include <stdio.h>

#include <glib/gstdio.h>

#include "bench-json.h"
#include "bench-plot.h"

/* What is held at rest may differ so much between the second and the last quarter. */
#define MAX_CHANGE 0.02
/* Of things that are counted so many may come and go: GLib keeps up to two threads of its pool for
 * a while, and has a descriptor open now and then. */
#define MAX_COUNT_CHANGE 2
/* The slowest of a thousand property reads, in ms. */
#define MAX_READ_MS 50.0
#define MAX_POINTS 30

/* Which of what is held must not grow. Calls at rest are none; the state folder follows the texts,
 * and files that SQLite and the file system make larger or smaller by steps. */
static const gboolean must_be_flat[BENCH_N_HELD] = {
  [BENCH_HELD_RSS] = TRUE, [BENCH_HELD_PSS] = TRUE, [BENCH_HELD_ANON] = TRUE,
  [BENCH_HELD_HEAP] = TRUE, [BENCH_HELD_FDS] = TRUE, [BENCH_HELD_THREADS] = TRUE,
  [BENCH_HELD_CONTEXTS] = TRUE, [BENCH_HELD_APPS] = TRUE,
};

typedef struct
{
  double early;    /* median of the second quarter */
  double late;     /* of the last */
  guint n_early, n_late;
} Change;

/* Of the samples of a part of the time; 0 without any. */
static double
get_median (GArray    *samples,
            BenchHeld  held,
            double     from_s,
            double     to_s,
            guint     *n)
{
  g_autoptr(GArray) values = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < samples->len; i++)
    {
      const BenchSample *sample = &g_array_index (samples, BenchSample, i);

      if (sample->seconds >= from_s && sample->seconds < to_s)
        g_array_append_val (values, sample->held[held]);
    }
  *n = values->len;
  return bench_median (values);
}

static Change
get_change (BenchSoak *self,
            GArray    *samples,
            BenchHeld  held)
{
  double all_s = (double) (self->end_us - self->begin_us) / G_USEC_PER_SEC;
  Change change;

  change.early = get_median (samples, held, all_s / 4, all_s / 2, &change.n_early);
  change.late = get_median (samples, held, all_s * 3 / 4, all_s + 1, &change.n_late);
  return change;
}

/* 0.01 for one percent more. */
static double
get_growth (const Change *change)
{
  return change->early > 0 ? change->late / change->early - 1 : 0;
}

static gboolean
is_flat (const Change *change,
         BenchHeld     held)
{
  gboolean is_count = *bench_held_get_unit (held) == '\0';

  return change->n_early > 0 && change->n_late > 0 &&
         (fabs (get_growth (change)) <= MAX_CHANGE ||
          (is_count && fabs (change->late - change->early) <= MAX_COUNT_CHANGE));
}

static void
get_probed (BenchSoak   *self,
            gboolean     of_bus,
            BenchProbed *result)
{
  bench_probe_sum_up ((const BenchProbe *) self->probes->data,
                      self->probes->len / sizeof (BenchProbe),
                      self->begin_us + (self->end_us - self->begin_us) / 4, self->end_us,
                      self->pauses, of_bus, result);
}

/* --- tables --- */

static void
print_changes (BenchSoak  *self,
               GArray     *samples,
               const char *title,
               gboolean    is_judged)
{
  printf ("\n| %s | second quarter | last quarter | change |%s\n|---|---|---|---|%s\n", title,
          is_judged ? " flat |" : "", is_judged ? "---|" : "");
  for (BenchHeld held = 0; held < BENCH_N_HELD; held++)
    {
      const Change change = get_change (self, samples, held);
      const char *unit = bench_held_get_unit (held);

      printf ("| %s | %.6g%s%s | %.6g%s%s | %+.2f %% |", bench_held_get_name (held), change.early,
              *unit != '\0' ? " " : "", unit, change.late, *unit != '\0' ? " " : "", unit,
              100 * get_growth (&change));
      if (is_judged)
        printf (" %s |", !must_be_flat[held] ? "" : is_flat (&change, held) ? "yes" : "NO");
      printf ("\n");
    }
}

static void
print_tables (BenchSoak *self)
{
  g_autoptr(GPtrArray) complaints = NULL;
  guint n_complaints;
  guint64 n_calls = 0;

  printf ("| calls | |\n|---|---|\n");
  for (BenchOp op = 0; op < BENCH_N_OPS; op++)
    {
      printf ("| %s | %" G_GUINT64_FORMAT " |\n", bench_load_get_op_name (op),
              bench_load_count (self->load, op));
      n_calls += bench_load_count (self->load, op);
    }
  printf ("| all | %" G_GUINT64_FORMAT " |\n| refused | %u |\n| callers killed | %u |\n", n_calls,
          bench_load_count_refused (self->load), self->n_killed);

  print_changes (self, self->at_rest, "at rest", TRUE);
  print_changes (self, self->under_load, "under load", FALSE);

  printf ("\n| reads by another process, ms | p50 | p99 | p99.9 | most | n |\n"
          "|---|---|---|---|---|---|\n");
  for (guint of_bus = 0; of_bus < 2; of_bus++)
    {
      BenchProbed probed;

      get_probed (self, of_bus, &probed);
      printf ("| %s | %.2f | %.2f | %.2f | %.2f | %u |\n",
              of_bus ? "a question to the bus itself" : "a property of the service", probed.p50,
              probed.p99, probed.p999, probed.greatest, probed.n);
    }

  complaints = bench_load_get_complaints (self->load, &n_complaints);
  printf ("\n| turns | |\n|---|---|\n| acknowledged | %" G_GUINT64_FORMAT " |\n"
          "| contexts compared at the end | %u |\n"
          "| after SIGKILL in the middle of the load | %u |\n"
          "| after SIGTERM | %u |\n| lost, changed, or otherwise wrong | %u |\n",
          bench_load_count_turns (self->load), self->n_compared_at_end, self->n_compared_after_kill,
          self->n_compared_after_end, n_complaints);
  for (guint i = 0; i < complaints->len; i++)
    printf ("- %s\n", (const char *) g_ptr_array_index (complaints, i));
}

/* --- JSON --- */

static void
add_samples (BenchSoak   *self,
             JsonBuilder *builder,
             const char  *name,
             GArray      *samples)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "seconds");
  json_builder_begin_array (builder);
  for (guint i = 0; i < samples->len; i++)
    json_builder_add_double_value (builder, g_array_index (samples, BenchSample, i).seconds);
  json_builder_end_array (builder);
  for (BenchHeld held = 0; held < BENCH_N_HELD; held++)
    {
      const Change change = get_change (self, samples, held);

      json_builder_set_member_name (builder, bench_held_get_name (held));
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "unit");
      json_builder_add_string_value (builder, bench_held_get_unit (held));
      bench_json_add_number (builder, "second-quarter", change.early);
      bench_json_add_number (builder, "last-quarter", change.late);
      json_builder_set_member_name (builder, "samples");
      json_builder_begin_array (builder);
      for (guint i = 0; i < samples->len; i++)
        json_builder_add_double_value (builder, g_array_index (samples, BenchSample, i).held[held]);
      json_builder_end_array (builder);
      json_builder_end_object (builder);
    }
  json_builder_end_object (builder);
}

static void
add_probed (BenchSoak   *self,
            JsonBuilder *builder,
            const char  *name,
            gboolean     of_bus)
{
  BenchProbed probed;

  get_probed (self, of_bus, &probed);
  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  bench_json_add_number (builder, "p50-ms", probed.p50);
  bench_json_add_number (builder, "p99-ms", probed.p99);
  bench_json_add_number (builder, "p99.9-ms", probed.p999);
  bench_json_add_number (builder, "most-ms", probed.greatest);
  bench_json_add_number (builder, "n", probed.n);
  json_builder_end_object (builder);
}

static void
add_settings (BenchSoak   *self,
              JsonBuilder *builder)
{
  json_builder_set_member_name (builder, "settings");
  json_builder_begin_object (builder);
  bench_json_add_number (builder, "minutes",
                         (double) (self->end_us - self->begin_us) / G_USEC_PER_SEC / 60);
  bench_json_add_number (builder, "apps", self->setup.n_apps);
  bench_json_add_number (builder, "contexts", self->setup.n_apps * self->setup.n_contexts);
  bench_json_add_number (builder, "think-ms", self->setup.think_ms);
  bench_json_add_number (builder, "tokens", self->setup.target_tokens);
  bench_json_add_number (builder, "seed", (double) self->setup.seed);
  json_builder_end_object (builder);
}

static JsonBuilder *
make_json (BenchSoak *self)
{
  JsonBuilder *builder = json_builder_new ();
  g_autoptr(GPtrArray) complaints = NULL;
  guint n_complaints;

  json_builder_begin_object (builder);
  add_settings (self, builder);
  json_builder_set_member_name (builder, "calls");
  json_builder_begin_object (builder);
  for (BenchOp op = 0; op < BENCH_N_OPS; op++)
    bench_json_add_number (builder, bench_load_get_op_name (op),
                           (double) bench_load_count (self->load, op));
  json_builder_end_object (builder);
  bench_json_add_number (builder, "refused", bench_load_count_refused (self->load));
  bench_json_add_number (builder, "callers-killed", self->n_killed);
  add_samples (self, builder, "at-rest", self->at_rest);
  add_samples (self, builder, "under-load", self->under_load);
  add_probed (self, builder, "property-reads", FALSE);
  add_probed (self, builder, "bus-reads", TRUE);
  complaints = bench_load_get_complaints (self->load, &n_complaints);
  bench_json_add_number (builder, "turns", (double) bench_load_count_turns (self->load));
  bench_json_add_number (builder, "compared-at-end", self->n_compared_at_end);
  bench_json_add_number (builder, "compared-after-kill", self->n_compared_after_kill);
  bench_json_add_number (builder, "compared-after-end", self->n_compared_after_end);
  bench_json_add_number (builder, "wrong", n_complaints);
  json_builder_set_member_name (builder, "complaints");
  json_builder_begin_array (builder);
  for (guint i = 0; i < complaints->len; i++)
    json_builder_add_string_value (builder, g_ptr_array_index (complaints, i));
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  return builder;
}

/* --- plots --- */

/* @samples at rest, at most MAX_POINTS of them: MiB, or numbers of things. */
static void
write_plot (BenchSoak       *self,
            const char      *folder,
            const char      *file,
            const char      *title,
            const char      *y_title,
            const BenchHeld *which,
            guint            n_which)
{
  guint step = MAX (1, (self->at_rest->len + MAX_POINTS - 1) / MAX_POINTS);
  guint n = self->at_rest->len / step;
  g_autofree double *x = g_new0 (double, n + 1);
  g_autofree double *y = g_new0 (double, n + 1);
  g_autofree char *path = g_build_filename (folder, file, NULL);
  g_autofree char *text = NULL;
  g_autoptr(BenchPlot) plot = NULL;
  g_autoptr(GError) error = NULL;

  if (n == 0)
    return;
  for (guint i = 0; i < n; i++)
    x[i] = round (g_array_index (self->at_rest, BenchSample, i * step).seconds / 6) / 10;
  plot = bench_plot_new (title, "minutes", y_title, x, n);
  for (guint k = 0; k < n_which; k++)
    {
      for (guint i = 0; i < n; i++)
        y[i] = g_array_index (self->at_rest, BenchSample, i * step).held[which[k]];
      bench_plot_add_line (plot, bench_held_get_name (which[k]), y);
    }
  text = bench_plot_to_svg (plot);
  if (!g_file_set_contents (path, text, -1, &error))
    g_printerr ("llmsvc-bench: %s\n", error->message);
}

static void
write_plots (BenchSoak  *self,
             const char *folder)
{
  static const BenchHeld bytes[] = { BENCH_HELD_RSS, BENCH_HELD_ANON, BENCH_HELD_HEAP,
                                     BENCH_HELD_STATE };
  static const BenchHeld things[] = { BENCH_HELD_FDS, BENCH_HELD_THREADS, BENCH_HELD_CONTEXTS,
                                      BENCH_HELD_APPS };

  g_mkdir_with_parents (folder, 0755);
  write_plot (self, folder, "soak-memory.svg", "What the service holds, at rest", "MiB", bytes,
              G_N_ELEMENTS (bytes));
  write_plot (self, folder, "soak-objects.svg", "What the service holds, at rest", "number", things,
              G_N_ELEMENTS (things));
}

/* --- --- */

static gboolean
is_good (BenchSoak *self)
{
  g_autoptr(GPtrArray) complaints = NULL;
  BenchProbed probed;
  guint n_complaints;

  complaints = bench_load_get_complaints (self->load, &n_complaints);
  for (BenchHeld held = 0; held < BENCH_N_HELD; held++)
    {
      const Change change = get_change (self, self->at_rest, held);

      /* of what is not known nothing can be said */
      if (must_be_flat[held] && change.early > 0 && !is_flat (&change, held))
        return FALSE;
    }
  get_probed (self, FALSE, &probed);
  return n_complaints == 0 && probed.n > 0 && probed.p999 <= MAX_READ_MS;
}

static gboolean
write_json_file (JsonBuilder *builder,
                 const char  *path)
{
  g_autoptr(JsonGenerator) generator = json_generator_new ();
  g_autoptr(JsonNode) root = json_builder_get_root (builder);
  g_autoptr(GError) error = NULL;

  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  if (json_generator_to_file (generator, path, &error))
    return TRUE;
  g_printerr ("llmsvc-bench: %s\n", error->message);
  return FALSE;
}

gboolean
bench_soak_write_figures (GPtrArray  *figures,
                          const char *path)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  for (guint i = 0; i < figures->len; i++)
    bench_figure_add_json (g_ptr_array_index (figures, i), builder);
  json_builder_end_object (builder);
  return write_json_file (builder, path);
}

gboolean
bench_soak_report (BenchSoak  *self,
                   gboolean    as_json,
                   const char *json_file,
                   const char *plots)
{
  g_autoptr(JsonBuilder) builder = make_json (self);
  gboolean is_written = json_file == NULL || write_json_file (builder, json_file);

  if (as_json)
    {
      g_autoptr(JsonBuilder) again = make_json (self);

      bench_print_json (again);
    }
  else
    {
      print_tables (self);
      printf ("\n%s\n", is_good (self) ? "All is as it should be." : "NOT as it should be.");
    }
  if (plots != NULL)
    write_plots (self, plots);
  return is_written && is_good (self);
}
