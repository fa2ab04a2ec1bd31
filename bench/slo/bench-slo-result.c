/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "slo/bench-slo-result.h"

#include <stdio.h>
#include <string.h>

#include "bench-json.h"
#include "bench-plot.h"

#define MS 1000.0

/* --- summing up --- */

static double
get_ttft_ms (const BenchSloCall *call)
{
  return (double) (call->first_us - call->begin_us) / MS;
}

/* Of the tokens behind the first. */
static double
get_tpot_ms (const BenchSloCall *call)
{
  return call->n_output > 1
           ? (double) (call->last_us - call->first_us) / MS / (call->n_output - 1) : 0;
}

static void
add_call (BenchSloResult      *self,
          BenchSloClassResult *result,
          const BenchSloCall  *call,
          GArray              *ttft,
          GArray              *tpot)
{
  const LlmSlo slo = llm_slo_for_class (call->arrival.slo_class);
  double ttft_ms, tpot_ms;

  result->n_calls++;
  if (call->end != BENCH_SLO_DONE || call->first_us == 0)
    {
      result->n_missed++;
      if (call->end == BENCH_SLO_REFUSED)
        result->n_refused++;
      else
        result->n_failed++;
      if (call->end != BENCH_SLO_REFUSED && self->message == NULL)
        self->message = g_strdup (call->message != NULL ? call->message
                                                        : "A call did not end in time");
      return;
    }

  ttft_ms = get_ttft_ms (call);
  tpot_ms = get_tpot_ms (call);
  g_array_append_val (ttft, ttft_ms);
  if (call->n_output > 1)
    g_array_append_val (tpot, tpot_ms);
  if (llm_slo_is_met (&slo, ttft_ms, tpot_ms))
    result->n_met++;
  else
    result->n_missed++;
  result->kept = MIN (result->kept, call->kept);
  result->sub_model = MIN (result->sub_model, call->sub_model);
  self->n_tokens += call->n_prompt + call->n_output;
  self->n_output += call->n_output;
  self->n_short += call->n_output < call->arrival.n_output;
}

static void
sum_up_class (BenchSloResult *self,
              GPtrArray      *records,
              LlmSloClass     slo_class)
{
  BenchSloClassResult *result = &self->classes[slo_class];
  g_autoptr(GArray) ttft = g_array_new (FALSE, FALSE, sizeof (double));
  g_autoptr(GArray) tpot = g_array_new (FALSE, FALSE, sizeof (double));

  result->kept = 100;
  result->sub_model = 100;
  for (guint i = 0; i < records->len; i++)
    {
      const BenchSloRecord *record = g_ptr_array_index (records, i);

      for (guint k = 0; k < record->calls->len; k++)
        {
          const BenchSloCall *call = g_ptr_array_index (record->calls, k);

          if (call->arrival.slo_class == slo_class)
            add_call (self, result, call, ttft, tpot);
        }
    }
  result->ttft = bench_latency_new ((double *) ttft->data, ttft->len);
  result->tpot = bench_latency_new ((double *) tpot->data, tpot->len);
}

BenchSloResult *
bench_slo_result_new (const char *policy,
                      double      load,
                      GPtrArray  *records)
{
  BenchSloResult *self = g_new0 (BenchSloResult, 1);

  self->policy = g_strdup (policy);
  self->load = load;
  for (guint i = 0; i < records->len; i++)
    {
      const BenchSloRecord *record = g_ptr_array_index (records, i);

      self->seconds += record->seconds;
      self->cpu_share += 100 * record->cpu_seconds;
    }
  self->cpu_share = self->seconds > 0 ? self->cpu_share / self->seconds : 0;
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    sum_up_class (self, records, i);
  return self;
}

void
bench_slo_result_free (BenchSloResult *self)
{
  if (self == NULL)
    return;
  g_free (self->policy);
  g_free (self->message);
  g_free (self);
}

/* --- saying it --- */

static double
get_share (const BenchSloClassResult *result)
{
  return result->n_calls > 0 ? 100.0 * result->n_met / result->n_calls : 0;
}

static double
get_rate (const BenchSloResult *self,
          guint64               n)
{
  return self->seconds > 0 ? (double) n / self->seconds : 0;
}

double
bench_slo_result_get_speed (const BenchSloResult *self)
{
  return get_rate (self, self->n_tokens);
}

double
bench_slo_result_get_share (const BenchSloResult *self,
                            LlmSloClass           slo_class)
{
  g_assert (slo_class < LLM_N_SLO_CLASSES);
  return get_share (&self->classes[slo_class]);
}

void
bench_slo_result_print_head (void)
{
  printf ("\n| load | policy | class | calls | met | missed | of these refused | met, %% | "
          "TTFT p50 / p95 / p99, ms | TPOT p50 / p95 / p99, ms | kept tokens | sub-model | "
          "tokens/s |\n"
          "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
}

void
bench_slo_result_print (const BenchSloResult *self)
{
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    {
      const BenchSloClassResult *result = &self->classes[i];

      if (self->load > 0)
        printf ("| %.2f |", self->load);
      else
        printf ("| all at once |");
      printf (" %s | %s | %u | %u | %u | %u | %.1f | %.0f / %.0f / %.0f | %.0f / %.0f / %.0f | "
              "%.0f %% | %.0f %% | ",
              self->policy, bench_slo_class_get_name (i), result->n_calls, result->n_met,
              result->n_missed, result->n_refused, get_share (result), result->ttft.p50,
              result->ttft.p95, result->ttft.p99, result->tpot.p50, result->tpot.p95,
              result->tpot.p99, result->kept, result->sub_model);
      if (i == 0)
        printf ("%.0f (%.1f written) |\n", get_rate (self, self->n_tokens),
                get_rate (self, self->n_output));
      else
        printf ("|\n");
    }
  fflush (stdout);
}

void
bench_slo_result_print_notes (const BenchSloResult *self)
{
  if (self->message != NULL)
    printf ("\n%s, load %.2f: a call failed: %s\n", self->policy, self->load, self->message);
  if (self->n_short > 0)
    printf ("\n%s, load %.2f: %u answers were shorter than asked for\n", self->policy, self->load,
            self->n_short);
}

static void
add_latency (JsonBuilder        *builder,
             const char         *name,
             const BenchLatency *latency)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  bench_json_add_integer (builder, "n", latency->n);
  bench_json_add_number (builder, "mean", latency->mean);
  bench_json_add_number (builder, "p50", latency->p50);
  bench_json_add_number (builder, "p95", latency->p95);
  bench_json_add_number (builder, "p99", latency->p99);
  bench_json_add_number (builder, "most", latency->most);
  json_builder_end_object (builder);
}

static void
add_class_json (const BenchSloClassResult *result,
                const char                *name,
                JsonBuilder               *builder)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_object (builder);
  bench_json_add_integer (builder, "calls", result->n_calls);
  bench_json_add_integer (builder, "met", result->n_met);
  bench_json_add_integer (builder, "missed", result->n_missed);
  bench_json_add_integer (builder, "refused", result->n_refused);
  bench_json_add_integer (builder, "failed", result->n_failed);
  bench_json_add_number (builder, "met-percent", get_share (result));
  bench_json_add_number (builder, "kept-tokens-percent", result->kept);
  bench_json_add_number (builder, "sub-model-percent", result->sub_model);
  add_latency (builder, "ttft-ms", &result->ttft);
  add_latency (builder, "tpot-ms", &result->tpot);
  json_builder_end_object (builder);
}

void
bench_slo_result_add_json (const BenchSloResult *self,
                           JsonBuilder          *builder)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "policy");
  json_builder_add_string_value (builder, self->policy);
  bench_json_add_number (builder, "load", self->load);
  bench_json_add_number (builder, "seconds", self->seconds);
  bench_json_add_number (builder, "tokens-per-second", get_rate (self, self->n_tokens));
  bench_json_add_number (builder, "written-tokens-per-second", get_rate (self, self->n_output));
  bench_json_add_integer (builder, "short-answers", self->n_short);
  bench_json_add_number (builder, "calling-percent-of-processor", self->cpu_share);
  json_builder_set_member_name (builder, "classes");
  json_builder_begin_object (builder);
  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    add_class_json (&self->classes[i], bench_slo_class_get_name (i), builder);
  json_builder_end_object (builder);
  if (self->message != NULL)
    {
      json_builder_set_member_name (builder, "first-failure");
      json_builder_add_string_value (builder, self->message);
    }
  json_builder_end_object (builder);
}

/* --- the plot --- */

static gboolean
is_first (GPtrArray *results,
          guint      index)
{
  const BenchSloResult *result = g_ptr_array_index (results, index);

  for (guint i = 0; i < index; i++)
    if (strcmp (((BenchSloResult *) g_ptr_array_index (results, i))->policy, result->policy) == 0)
      return FALSE;
  return TRUE;
}

/* (element-type double): of one policy, its loads or its shares, in the order of the results. */
static GArray *
collect (GPtrArray  *results,
         const char *policy,
         gboolean    wants_loads,
         LlmSloClass slo_class)
{
  GArray *values = g_array_new (FALSE, FALSE, sizeof (double));

  for (guint i = 0; i < results->len; i++)
    {
      const BenchSloResult *result = g_ptr_array_index (results, i);
      double value = wants_loads ? result->load : get_share (&result->classes[slo_class]);

      if (strcmp (result->policy, policy) == 0)
        g_array_append_val (values, value);
    }
  return values;
}

char *
bench_slo_result_plot (GPtrArray  *results,
                       LlmSloClass slo_class)
{
  const BenchSloResult *first = g_ptr_array_index (results, 0);
  g_autoptr(GArray) loads = collect (results, first->policy, TRUE, slo_class);
  const LlmSlo slo = llm_slo_for_class (slo_class);
  g_autofree char *title = NULL;
  g_autoptr(BenchPlot) plot = NULL;

  if (slo.ttft_ms > 0)
    title = g_strdup_printf ("%s: first token in %.0f s, further ones in %.0f ms each",
                             bench_slo_class_get_name (slo_class), slo.ttft_ms / MS, slo.tpot_ms);
  else
    title = g_strdup_printf ("%s: answered", bench_slo_class_get_name (slo_class));
  title[0] = g_ascii_toupper (title[0]);
  plot = bench_plot_new (title, "load, share of the capacity", "calls, %",
                         (const double *) loads->data, loads->len);
  bench_plot_set_linear (plot, 0, 100);
  for (guint i = 0; i < results->len; i++)
    {
      const BenchSloResult *result = g_ptr_array_index (results, i);
      g_autoptr(GArray) shares = NULL;

      if (!is_first (results, i))
        continue;
      shares = collect (results, result->policy, FALSE, slo_class);
      g_assert (shares->len == loads->len);
      bench_plot_add_line (plot, result->policy, (const double *) shares->data);
    }
  return bench_plot_to_svg (plot);
}
