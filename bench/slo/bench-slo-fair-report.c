/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "slo/bench-slo-fair.h"

#include <stdio.h>

#include "bench-json.h"
#include "bench-latency.h"
#include "bench.h"

/* Of a user on both sides. */
typedef struct
{
  guint n_calls[2];
  double ttft_ms[2];
  double rate[2];
  double kept_ttft;   /* of what it has beside an ordinary user; 0: no call counted */
  double kept_rate;
} Kept;

static double
find_median (GArray *values)
{
  g_autoptr(GArray) sorted = g_array_copy (values);

  return bench_latency_new ((double *) sorted->data, sorted->len).p50;
}

static Kept
compare (const BenchFairCase *result,
         guint                user)
{
  Kept kept = { 0 };

  for (guint i = 0; i < 2; i++)
    {
      const BenchFairUser *figures = &result->sides[i].users[user];

      kept.n_calls[i] = figures->ttft_ms->len;
      kept.ttft_ms[i] = find_median (figures->ttft_ms);
      kept.rate[i] = find_median (figures->rate);
    }
  if (kept.n_calls[0] == 0 || kept.n_calls[1] == 0)
    return kept;
  kept.kept_ttft = kept.ttft_ms[0] / kept.ttft_ms[1];
  kept.kept_rate = kept.rate[1] / kept.rate[0];
  return kept;
}

static double
get_rate (const BenchFairSide *side,
          double               n)
{
  return n / MAX (side->seconds, 1e-9);
}

void
bench_fair_print_head (void)
{
  printf ("\n| users | user | calls, ordinary / flooded | TTFT p50, ms | kept | tokens/s p50 "
          "| kept |\n|---|---|---|---|---|---|---|\n");
}

void
bench_fair_print_case (const BenchFairCase *result)
{
  for (guint user = 0; user < result->n_users; user++)
    {
      Kept kept = compare (result, user);

      printf ("| %u | %s%u | %u / %u | %.0f / %.0f | ", result->n_users,
              user + 1 == result->n_users ? "floods, " : "", user + 1, kept.n_calls[0],
              kept.n_calls[1], kept.ttft_ms[0], kept.ttft_ms[1]);
      if (user + 1 < result->n_users && kept.kept_rate > 0)
        printf ("%.2f | %.1f / %.1f | %.2f |\n", kept.kept_ttft, kept.rate[0], kept.rate[1],
                kept.kept_rate);
      else
        printf ("| %.1f / %.1f | |\n", kept.rate[0], kept.rate[1]);
    }
  fflush (stdout);
}

static Kept
find_least (const BenchFairCase *result)
{
  Kept least = compare (result, 0);

  for (guint user = 1; user + 1 < result->n_users; user++)
    {
      Kept kept = compare (result, user);

      least.kept_ttft = MIN (least.kept_ttft, kept.kept_ttft);
      least.kept_rate = MIN (least.kept_rate, kept.kept_rate);
    }
  return least;
}

static void
print_notes (const BenchFair *self,
             GPtrArray       *results)
{
  printf ("\n");
  for (guint i = 0; i < results->len; i++)
    {
      const BenchFairCase *result = g_ptr_array_index (results, i);
      const BenchFairSide *sides = result->sides;
      Kept least = find_least (result);

      printf ("- %u users: ", result->n_users);
      if (least.kept_rate > 0)
        printf ("each of the others keeps at least %.2f of its TTFT and %.2f of its tokens/s (%.1f "
                "is wanted); ", least.kept_ttft, least.kept_rate, BENCH_FAIR_GOAL);
      else
        printf ("not every user had a call that counts, more --seconds are needed; ");
      printf ("the model read and wrote %.0f / %.0f tokens/s, of these %.0f / %.0f of prompts\n",
              get_rate (&sides[0], sides[0].n_rows), get_rate (&sides[1], sides[1].n_rows),
              get_rate (&sides[0], sides[0].n_read), get_rate (&sides[1], sides[1].n_read));
    }
  printf ("\nclass %s, seed %" G_GUINT64_FORMAT ", %u × %g s of each, %u threads\n",
          llm_slo_class_to_string (self->slo_class), self->seed, self->n_rounds, self->seconds,
          self->n_threads);
}

/* --- as JSON --- */

static void
add_user (const BenchFairCase *result,
          guint                user,
          JsonBuilder         *builder)
{
  static const char *const sides[] = { "ordinary", "flooded" };
  Kept kept = compare (result, user);

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "floods");
  json_builder_add_boolean_value (builder, user + 1 == result->n_users);
  for (guint i = 0; i < 2; i++)
    {
      json_builder_set_member_name (builder, sides[i]);
      json_builder_begin_object (builder);
      bench_json_add_integer (builder, "calls", kept.n_calls[i]);
      bench_json_add_number (builder, "prompt-tokens",
                             find_median (result->sides[i].users[user].n_prompt));
      bench_json_add_number (builder, "ttft-ms", kept.ttft_ms[i]);
      bench_json_add_number (builder, "tokens-per-second", kept.rate[i]);
      json_builder_end_object (builder);
    }
  if (user + 1 < result->n_users)
    {
      bench_json_add_number (builder, "kept-ttft", kept.kept_ttft);
      bench_json_add_number (builder, "kept-rate", kept.kept_rate);
    }
  json_builder_end_object (builder);
}

static void
add_case (const BenchFairCase *result,
          JsonBuilder         *builder)
{
  const BenchFairSide *sides = result->sides;
  Kept least = find_least (result);

  json_builder_begin_object (builder);
  bench_json_add_integer (builder, "n", result->n_users);
  json_builder_set_member_name (builder, "users");
  json_builder_begin_array (builder);
  for (guint user = 0; user < result->n_users; user++)
    add_user (result, user, builder);
  json_builder_end_array (builder);
  bench_json_add_number (builder, "least-kept-ttft", least.kept_ttft);
  bench_json_add_number (builder, "least-kept-rate", least.kept_rate);
  bench_json_add_number (builder, "ordinary-tokens-per-second",
                         get_rate (&sides[0], sides[0].n_rows));
  bench_json_add_number (builder, "flooded-tokens-per-second",
                         get_rate (&sides[1], sides[1].n_rows));
  json_builder_end_object (builder);
}

gboolean
bench_fair_report (const BenchFair *self,
                   GPtrArray       *results,
                   const char      *json_file,
                   GError         **error)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonGenerator) generator = json_generator_new ();
  g_autoptr(JsonNode) root = NULL;

  if (!self->is_silent)
    print_notes (self, results);
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "class");
  json_builder_add_string_value (builder, llm_slo_class_to_string (self->slo_class));
  bench_json_add_integer (builder, "seed", (gint64) self->seed);
  bench_json_add_number (builder, "seconds", self->seconds);
  bench_json_add_integer (builder, "rounds", self->n_rounds);
  bench_json_add_integer (builder, "threads", self->n_threads);
  bench_json_add_integer (builder, "divisor", self->divisor);
  bench_json_add_number (builder, "goal", BENCH_FAIR_GOAL);
  json_builder_set_member_name (builder, "cases");
  json_builder_begin_array (builder);
  for (guint i = 0; i < results->len; i++)
    add_case (g_ptr_array_index (results, i), builder);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  if (self->is_silent)
    {
      bench_print_json (builder);
      return TRUE;
    }
  if (json_file == NULL)
    return TRUE;
  root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  return json_generator_to_file (generator, json_file, error);
}
