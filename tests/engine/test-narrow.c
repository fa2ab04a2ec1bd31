/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fewer bits while memory is short (S4), as callers and administrators see it. */

#include <string.h>

#include "engine-rig.h"
#include "engine/llm-engine-private.h"
#include "kernels/llk.h"
#include "runtime/llm-profile.h"
#include "support/llm-test-folder.h"

#define LONG_TEXT                                                                                 \
  "I want a restaurant in San Jose for four people next Monday at seven, with Italian food, not "  \
  "too expensive, near the river, and please tell me whether there is room for a child and a dog " \
  "as well, and how to get there by train or by bus from the airport in the afternoon."

static void
start (Fixture    *fixture,
       const char *disk)
{
  LlmSettings *settings = new_settings (fixture->state, 2);

  settings->context_ratio = 100;
  settings->overload_factor = 0;
  settings->cache_folder = g_build_filename (fixture->state, "cache", NULL);
  g_free (settings->disk);
  settings->disk = g_strdup (disk);
  fixture->engine = start_engine_with (settings);
}

static void
begin (Fixture    *fixture,
       const char *disk)
{
  fixture->state = llm_test_folder_new ();
  fixture->caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
  start (fixture, disk);
}

/* The bits that the answer's cache had. */
static double
ask_bits (Fixture    *fixture,
          LlmContext *context,
          const char *prompt)
{
  g_autoptr(Answer) answer =
      begin_ask (fixture, context, prompt,
                 "{'temperature': <0.0>, 'max-tokens': <uint32 4>, 'ttft-ms': <uint32 1>}");
  double bits = 0;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_true (g_variant_lookup (answer->results, "kv-bits", "d", &bits));
  return bits;
}

/* Of full chunks in memory. */
static guint
sum_bits (LlmContext *context)
{
  g_autoptr(LlmContextMemory) memory = get_memory (context);
  guint sum = 0;

  for (guint i = 0; i + 1 < memory->n_chunks; i++)
    if (memory->places[i] != 's' && memory->places[i] != 't')
      sum += memory->bits[i];
  return sum;
}

/* All chunks but the last are packed; and written, where there is storage. */
static void
wait_settled (LlmContext *context,
              char        place)
{
  for (gboolean is_settled = FALSE; !is_settled;)
    {
      g_autoptr(LlmContextMemory) memory = get_memory (context);

      is_settled = memory->n_chunks > 3;
      for (guint i = 0; i + 1 < memory->n_chunks; i++)
        is_settled = is_settled && memory->places[i] == place && memory->bits[i] <= 8;
    }
}

static void
trim_some (Fixture *fixture)
{
  g_autoptr(LlmCallOptions) options =
      parse_options ("{'target-bytes': <uint64 1>}", LLMSVC_CALL_TRIM);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GVariant) trimmed = NULL;

  llm_engine_trim_async (fixture->engine, fixture->caller, LLM_PRESSURE_MEDIUM, options, on_result,
                         &result);
  WAIT_FOR (result != NULL);
  trimmed = g_task_propagate_pointer (G_TASK (result), NULL);
  g_assert_nonnull (trimmed);
}

/* Nothing is written: chunks lose bits, but those of the context that was opened so. */
static void
test_exact (void)
{
  Fixture fixture = { 0 };
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(LlmContext) exact = NULL;
  g_autoptr(GError) error = NULL;
  guint before, exact_before;
  double bits, exact_bits;

  begin (&fixture, "off");
  context = create (&fixture, "{}");
  g_object_unref (create (&fixture, "{'name': <'exact'>}"));
  exact = open_context (&fixture, "exact", "{'exact': <true>}", &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ask_bits (&fixture, context, LONG_TEXT), ==, 16);
  g_assert_cmpfloat (ask_bits (&fixture, exact, "And now: " LONG_TEXT), ==, 16);
  wait_settled (context, 'm');
  wait_settled (exact, 'm');
  bits = ask_bits (&fixture, context, "Yes.");
  exact_bits = ask_bits (&fixture, exact, "Yes.");
  g_assert_cmpfloat (bits, <, 16);
  wait_settled (context, 'm');
  wait_settled (exact, 'm');
  before = sum_bits (context);
  exact_before = sum_bits (exact);
  while (sum_bits (context) > before / 2)
    trim_some (&fixture);
  g_assert_cmpuint (sum_bits (exact), ==, exact_before);
  g_assert_cmpuint (get_statistic (fixture.engine, "kv-narrowed-chunks"), >, 0);
  g_assert_cmpuint (get_statistic (fixture.engine, "kv-narrow-chunks"), >, 0);
  g_assert_cmpuint (get_statistic (fixture.engine, "kv-evicted-chunks"), ==, 0);
  g_assert_cmpfloat (ask_bits (&fixture, context, "No."), <, bits - 1);
  g_assert_cmpfloat (ask_bits (&fixture, exact, "No."), >, exact_bits - 1);

  /* nothing else is left */
  trim (&fixture, "medium");
  g_assert_cmpuint (get_statistic (fixture.engine, "kv-dropped-chunks"), >, 0);
  g_assert_cmpuint (get_statistic (fixture.engine, "kv-narrow-chunks"), ==, 0);
  g_clear_object (&context);
  g_clear_object (&exact);
  tear_down (&fixture, NULL);
}

/* Storage that reads 1 byte a millisecond. */
static void
save_profile (Fixture *fixture)
{
  LlmProfileKey key = {
    .identity = llm_model_get_identity (fixture->engine->use.model),
    .kernels = llk_ops_best ()->name,
    .n_threads = 2,
  };
  LlmKvProfile profile = {
    .read_bytes_per_us = 1e-3,
    .write_bytes_per_us = 1,
    .depth_us = 1,
  };
  g_autofree char *cache = g_build_filename (fixture->state, "cache", NULL);
  g_autoptr(GError) error = NULL;

  for (guint i = 0; i < LLM_KV_PROFILE_POINTS; i++)
    profile.prompt_us[i] = 1000 * (i + 1);
  g_assert_true (llm_profile_save (cache, FALSE, &key, &profile, &error));
  g_assert_no_error (error);
}

/* What would come back too late for the context's calls loses bits, and has them again when memory
 * is not short any more. */
static void
test_wide_returns (void)
{
  Fixture fixture = { 0 };
  g_autoptr(LlmContext) context = NULL;
  guint before;
  guint64 n_written;

  begin (&fixture, "threads");
  g_free (complete (&fixture, "Hello", "{'max-tokens': <uint32 1>}"));
  save_profile (&fixture);
  stop_engine (&fixture.engine);
  start (&fixture, "threads");

  context = create (&fixture, "{'name': <'a'>}");
  ask_bits (&fixture, context, LONG_TEXT);
  wait_settled (context, 'b');
  before = sum_bits (context);
  n_written = get_statistic (fixture.engine, "kv-written-chunks");
  while (get_statistic (fixture.engine, "kv-narrowed-chunks") == 0)
    trim_some (&fixture);
  g_assert_cmpuint (get_statistic (fixture.engine, "kv-evicted-chunks"), ==, 0);
  WAIT_FOR (get_statistic (fixture.engine, "kv-narrow-chunks") == 0);
  g_assert_cmpuint (get_statistic (fixture.engine, "kv-widened-chunks"), >, 0);
  g_assert_cmpuint (sum_bits (context), ==, before);
  g_assert_cmpuint (get_statistic (fixture.engine, "kv-written-chunks"), ==, n_written);
  g_clear_object (&context);
  tear_down (&fixture, NULL);
}

/* Without any call since the start, and after all was given back, files say what there is. */
static void
test_stored (void)
{
  Fixture fixture = { 0 };
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(LlmContextMemory) before = NULL;
  g_autoptr(LlmContextMemory) after = NULL;
  g_autoptr(LlmContextMemory) trimmed = NULL;
  g_autoptr(GError) error = NULL;

  begin (&fixture, "threads");
  context = create (&fixture, "{'name': <'a'>}");
  ask_bits (&fixture, context, LONG_TEXT);
  wait_settled (context, 'b');
  before = get_memory (context);

  trim (&fixture, "critical");
  WAIT_FOR (fixture.engine->use.model == NULL);
  trimmed = get_memory (context);
  g_clear_object (&context);
  stop_engine (&fixture.engine);
  start (&fixture, "threads");
  WAIT_FOR ((context = open_context (&fixture, "a", "{}", NULL)) != NULL);
  WAIT_FOR (g_str_equal (llm_context_get_residency (context), "storage"));
  after = get_memory (context);
  for (guint way = 0; way < 2; way++)
    {
      const LlmContextMemory *memory = way == 0 ? trimmed : after;

      g_assert_cmpstr (memory->residency, ==, "storage");
      g_assert_cmpuint (memory->n_chunks, ==, before->n_chunks - 1);
      g_assert_cmpuint (memory->chunk_tokens, ==, before->chunk_tokens);
      g_assert_cmpuint (memory->tokens, ==, before->chunk_tokens * (before->n_chunks - 1));
      g_assert_cmpmem (memory->bits, memory->n_chunks, before->bits, before->n_chunks - 1);
      g_assert_cmpmem (memory->storage_bytes, sizeof memory->storage_bytes, before->storage_bytes,
                       sizeof before->storage_bytes);
      for (guint i = 0; i < memory->n_chunks; i++)
        g_assert_cmpint (memory->places[i], ==, 's');
    }
  g_clear_object (&context);
  tear_down (&fixture, NULL);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/narrow/exact", test_exact);
  g_test_add_func ("/narrow/wide-returns", test_wide_returns);
  g_test_add_func ("/narrow/stored", test_stored);
  return g_test_run ();
}
