/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the policy of memory does under pressure, by traces; and what giving all back takes, by the
 * real service.
 */

#include "bench.h"

#include "bench-plot.h"
#include "pressure/bench-pressure-trace.h"

static char **opt_traces;
static char *opt_plots;
static gboolean opt_json;
static gboolean opt_trim;
static char *opt_daemon;
static char *opt_model;
static int opt_contexts = 16;
static int opt_words = 400;
static int opt_runs = 5;

static const GOptionEntry entries[] = {
  { "plots", 0, 0, G_OPTION_ARG_FILENAME, &opt_plots, "Write a plot of each trace there",
    "FOLDER" },
  { "trim", 0, 0, G_OPTION_ARG_NONE, &opt_trim,
    "Time Trim(\"critical\") of the real service instead", NULL },
  { "daemon", 0, 0, G_OPTION_ARG_FILENAME, &opt_daemon, "The llmsvcd to measure, with --trim",
    "FILE" },
  { "model", 0, 0, G_OPTION_ARG_FILENAME, &opt_model, "Its GGUF file", "FILE" },
  { "contexts", 0, 0, G_OPTION_ARG_INT, &opt_contexts, "Contexts that it holds (16)", "N" },
  { "words", 0, 0, G_OPTION_ARG_INT, &opt_words,
    "Words of the prompt that it reads meanwhile (400)", "N" },
  { "runs", 0, 0, G_OPTION_ARG_INT, &opt_runs, "Trims (5)", "N" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &opt_json, "One JSON object", NULL },
  { G_OPTION_REMAINING, 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &opt_traces, NULL, "TRACE…" },
  G_OPTION_ENTRY_NULL
};

static gboolean
write_plot (BenchPressure *played,
            GError       **error)
{
  static const struct
  {
    const char *name;
    gsize offset;
  } lines[] = {
    { "others", G_STRUCT_OFFSET (BenchMoment, others) },
    { "budget", G_STRUCT_OFFSET (BenchMoment, budget) },
    { "contexts", G_STRUCT_OFFSET (BenchMoment, contexts) },
    { "weights in memory", G_STRUCT_OFFSET (BenchMoment, weights) },
  };
  guint n = played->moments->len;
  g_autofree double *x = g_new (double, n);
  g_autofree double *y = g_new (double, n);
  g_autofree char *file = g_strdup_printf ("pressure-%s.svg", played->name);
  g_autofree char *path = g_build_filename (opt_plots, file, NULL);
  g_autofree char *svg = NULL;
  g_autoptr(BenchPlot) plot = NULL;

  for (guint i = 0; i < n; i++)
    x[i] = g_array_index (played->moments, BenchMoment, i).seconds;
  plot = bench_plot_new (played->name, "seconds", "GiB", x, n);
  bench_plot_set_linear (plot, 0, played->bound);
  for (guint line = 0; line < G_N_ELEMENTS (lines); line++)
    {
      for (guint i = 0; i < n; i++)
        y[i] = G_STRUCT_MEMBER (double, &g_array_index (played->moments, BenchMoment, i),
                                lines[line].offset);
      bench_plot_add_line (plot, lines[line].name, y);
    }
  svg = bench_plot_to_svg (plot);
  return g_file_set_contents (path, svg, -1, error);
}

static void
add_json (JsonBuilder         *builder,
          const BenchPressure *played,
          const BenchPressure *deaf)
{
  json_builder_set_member_name (builder, played->name);
  json_builder_begin_object (builder);
  const struct
  {
    const char *name;
    double value;
  } figures[] = {
    { "bound-gib", played->bound },
    { "least-budget-gib", played->least },
    { "given-gib", played->given },
    { "cuts", (double) played->n_cuts },
    { "relapses", (double) played->n_relapses },
    { "calm-period-s", played->calm_period },
    { "others-stalled-s", played->stalled },
    { "others-stalled-without-s", deaf->stalled },
    { "killed", (double) played->n_killed },
    { "killed-without", (double) deaf->n_killed },
  };

  for (guint i = 0; i < G_N_ELEMENTS (figures); i++)
    {
      json_builder_set_member_name (builder, figures[i].name);
      json_builder_add_double_value (builder, figures[i].value);
    }
  json_builder_set_member_name (builder, "moments");
  json_builder_begin_array (builder);
  for (guint i = 0; i < played->moments->len; i++)
    {
      const BenchMoment *moment = &g_array_index (played->moments, BenchMoment, i);

      json_builder_begin_array (builder);
      json_builder_add_double_value (builder, moment->seconds);
      json_builder_add_double_value (builder, moment->others);
      json_builder_add_double_value (builder, moment->budget);
      json_builder_add_double_value (builder, moment->contexts);
      json_builder_add_double_value (builder, moment->weights);
      json_builder_add_int_value (builder, moment->level);
      json_builder_end_array (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

static void
print_row (const BenchPressure *played,
           const BenchPressure *deaf)
{
  g_print ("%-15s %6.2f %8.2f %8.2f %5ju %8ju %7.0f %8.2f %8.2f %7ju %7ju\n", played->name,
           played->bound, played->least, played->given, played->n_cuts, played->n_relapses,
           played->calm_period, played->stalled, deaf->stalled, played->n_killed, deaf->n_killed);
}

static int
play_all (void)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  if (!opt_json)
    g_print ("%-15s %6s %8s %8s %5s %8s %7s %8s %8s %7s %7s\n", "trace", "GiB", "least", "given",
             "cuts", "relapses", "calm s", "stall s", "without", "killed", "without");
  for (guint i = 0; opt_traces != NULL && opt_traces[i] != NULL; i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(BenchPressure) played = bench_pressure_play (opt_traces[i], FALSE, &error);
      g_autoptr(BenchPressure) deaf = NULL;

      if (played != NULL)
        deaf = bench_pressure_play (opt_traces[i], TRUE, &error);
      if (deaf == NULL || (opt_plots != NULL && !write_plot (played, &error)))
        {
          g_printerr ("%s\n", error->message);
          return 1;
        }
      if (opt_json)
        add_json (builder, played, deaf);
      else
        print_row (played, deaf);
    }
  json_builder_end_object (builder);
  if (opt_json)
    bench_print_json (builder);
  return 0;
}

int
bench_pressure (int    argc,
                char **argv)
{
  g_autoptr(GOptionContext) context = g_option_context_new ("- memory given back under pressure");
  g_autoptr(GError) error = NULL;
  BenchTrimPlan plan;

  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, &argc, &argv, &error))
    {
      g_printerr ("%s\n", error->message);
      return 2;
    }
  if (opt_trim ? opt_daemon == NULL || opt_model == NULL : opt_traces == NULL)
    {
      g_printerr ("pressure needs traces, or --trim with --daemon and --model\n");
      return 2;
    }
  if (!opt_trim)
    return play_all ();

  plan = (BenchTrimPlan) {
    .daemon = opt_daemon,
    .model = opt_model,
    .n_contexts = (guint) CLAMP (opt_contexts, 0, 1000),
    .n_words = (guint) CLAMP (opt_words, 1, 100000),
    .n_runs = (guint) CLAMP (opt_runs, 1, 1000),
    .as_json = opt_json,
  };
  return bench_pressure_trim (&plan);
}
