/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "slo/bench-slo-report.h"

#include <stdio.h>
#include <string.h>

static const BenchSloResult *
find_result (BenchSlo   *self,
             const char *policy,
             double      load)
{
  for (guint i = 0; i < self->results->len; i++)
    {
      const BenchSloResult *result = g_ptr_array_index (self->results, i);

      if (strcmp (result->policy, policy) == 0 && result->load == load)
        return result;
    }
  return NULL;
}

/* What this is about: the two policies of the service beside each other. */
void
bench_slo_report_print (BenchSlo *self)
{
  double cpu_share = 0;

  for (guint i = 0; i < self->saturated->len; i++)
    bench_slo_result_print_notes (g_ptr_array_index (self->saturated, i));
  for (guint i = 0; i < self->results->len; i++)
    {
      const BenchSloResult *result = g_ptr_array_index (self->results, i);

      bench_slo_result_print_notes (result);
      cpu_share = MAX (cpu_share, result->cpu_share);
    }
  printf ("\n");
  for (guint i = 0; i < self->n_loads; i++)
    {
      const BenchSloResult *fifo = find_result (self, "fifo", self->loads[i]);
      const BenchSloResult *deadline = find_result (self, "deadline", self->loads[i]);

      if (fifo != NULL && deadline != NULL)
        printf ("- load %.2f: fifo met %.1f %% of the interactive calls, deadline %.1f %%, "
                "at %.0f %% of its tokens/s\n", self->loads[i],
                bench_slo_result_get_share (fifo, LLM_SLO_INTERACTIVE),
                bench_slo_result_get_share (deadline, LLM_SLO_INTERACTIVE),
                100 * bench_slo_result_get_speed (deadline)
                  / MAX (bench_slo_result_get_speed (fifo), 1e-9));
    }
  printf ("\ncapacity %.3f calls/s (fifo, %u calls at once), seed %" G_GUINT64_FORMAT
          ", %u × %g s of calls at each load; calling took at most %.1f %% of one processor\n",
          self->capacity, self->n_calls, self->seed, self->n_rounds, self->seconds, cpu_share);
}

/* --- what comes of it --- */

static void
add_results (JsonBuilder *builder,
             const char  *name,
             GPtrArray   *results)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; i < results->len; i++)
    bench_slo_result_add_json (g_ptr_array_index (results, i), builder);
  json_builder_end_array (builder);
}

static void
add_targets (JsonBuilder *builder)
{
  json_builder_set_member_name (builder, "classes");
  json_builder_begin_object (builder);
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    {
      const LlmSlo slo = llm_slo_for_class (i);
      const BenchSloLaw *law = bench_slo_law_get (i);
      const struct { const char *name; double value; } numbers[] = {
        { "percent-of-calls", law->share }, { "ttft-ms", slo.ttft_ms }, { "tpot-ms", slo.tpot_ms },
        { "least-words", law->least_words }, { "most-words", law->most_words },
        { "least-output-tokens", law->least_output }, { "most-output-tokens", law->most_output },
      };

      json_builder_set_member_name (builder, bench_slo_class_get_name (i));
      json_builder_begin_object (builder);
      for (guint k = 0; k < G_N_ELEMENTS (numbers); k++)
        {
          json_builder_set_member_name (builder, numbers[k].name);
          json_builder_add_double_value (builder, numbers[k].value);
        }
      json_builder_end_object (builder);
    }
  json_builder_end_object (builder);
}

gboolean
bench_slo_report_json (BenchSlo    *self,
                       const char  *path,
                       GError     **error)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonGenerator) generator = json_generator_new ();
  g_autoptr(JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "seed");
  json_builder_add_int_value (builder, (gint64) self->seed);
  json_builder_set_member_name (builder, "seconds");
  json_builder_add_double_value (builder, self->seconds);
  json_builder_set_member_name (builder, "rounds");
  json_builder_add_int_value (builder, self->n_rounds);
  json_builder_set_member_name (builder, "words-divisor");
  json_builder_add_int_value (builder, self->divisor);
  json_builder_set_member_name (builder, "capacity-calls-per-second");
  json_builder_add_double_value (builder, self->capacity);
  add_targets (builder);
  add_results (builder, "saturated", self->saturated);
  add_results (builder, "results", self->results);
  json_builder_end_object (builder);
  if (path == NULL)
    {
      bench_print_json (builder);
      return TRUE;
    }
  root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  return json_generator_to_file (generator, path, error);
}

gboolean
bench_slo_report_plots (BenchSlo    *self,
                        const char  *folder,
                        GError     **error)
{
  if (g_mkdir_with_parents (folder, 0777) != 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s can't be made", folder);
      return FALSE;
    }
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    {
      g_autofree char *svg = bench_slo_result_plot (self->results, i);
      g_autofree char *name = g_strdup_printf ("slo-%s.svg", bench_slo_class_get_name (i));
      g_autofree char *path = g_build_filename (folder, name, NULL);

      if (!g_file_set_contents_full (path, svg, -1, G_FILE_SET_CONTENTS_NONE, 0666, error))
        return FALSE;
    }
  return TRUE;
}

