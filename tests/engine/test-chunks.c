/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What becomes of a context's memory between calls and in the middle of one, seen from outside: the
 * text is the same. Floats, where texts are compared bit for bit: the bits of a chunk, and so a
 * word, may depend on when the service found time to compress it. */

#include "engine-rig.h"

#include <string.h>

#include "common/llmsvc-error.h"

static const char *const questions[] = {
  "I want a restaurant in San Jose, with a table outside for four people at seven.",
  "Italian food, please, and not too expensive.",
  "What is their address, and do they have live music in the evening?",
};
#define N_QUESTIONS G_N_ELEMENTS (questions)

/* Long enough for several chunks of every answer; and hot, so that numbers that are a little wrong
 * give another word soon. */
#define LONG \
  "{'temperature': <1.5>, 'top-k': <uint32 0>, 'top-p': <1.0>, 'min-p': <0.0>, " \
  "'seed': <uint64 5>, 'max-tokens': <uint32 40>}"

/* --- help --- */

/* It answers when it has done what it was told before. */
static void
await_executor (LlmContext *context)
{
  llm_context_memory_free (get_memory (context));
}

static void
close_context (LlmContext *context)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  llm_context_close_async (context, on_result, &result);
  WAIT_FOR (result != NULL);
  g_assert_true (g_task_propagate_boolean (G_TASK (result), &error));
}

/* The engine anew, on the same state folder. */
static void
restart (Fixture    *fixture,
         guint       ratio,
         const char *disk)
{
  LlmSettings *settings = new_settings (fixture->state, 2);

  if (fixture->engine != NULL)
    stop_engine (&fixture->engine);
  settings->context_ratio = ratio;
  g_free (settings->disk);
  settings->disk = g_strdup (disk);
  fixture->engine = start_engine_with (settings);
}

/* Answers of a context that nothing happens to. */
static void
ask_undisturbed (Fixture *fixture,
                 char   **expected)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");

  for (guint i = 0; i < N_QUESTIONS; i++)
    expected[i] = ask (fixture, context, questions[i], LONG);
  close_context (context);
}

static void
free_answers (char **answers)
{
  for (guint i = 0; i < N_QUESTIONS; i++)
    g_clear_pointer (&answers[i], g_free);
}

/* The folder of its chunks. */
static char *
get_folder (Fixture    *fixture,
            LlmContext *context)
{
  return g_build_filename (fixture->state, "chunks", context->id, NULL);
}

static gboolean
has_folder (Fixture    *fixture,
            LlmContext *context)
{
  g_autofree char *folder = get_folder (fixture, context);

  return g_file_test (folder, G_FILE_TEST_IS_DIR);
}

/* --- between calls --- */

/* Evicted after each turn, it comes back from storage, bit for bit. */
static void
test_restored (Fixture      *fixture,
               gconstpointer data)
{
  const char *disk = data;
  char *expected[N_QUESTIONS];
  g_autoptr(LlmContext) context = NULL;
  gboolean is_off = g_str_equal (disk, "off");

  restart (fixture, 0, disk);
  ask_undisturbed (fixture, expected);
  context = create (fixture, "{}");
  for (guint i = 0; i < N_QUESTIONS; i++)
    {
      g_autofree char *answer = ask (fixture, context, questions[i], LONG);
      g_autoptr(LlmContextMemory) memory = NULL;

      g_assert_cmpstr (answer, ==, expected[i]);
      g_assert_cmpuint (trim (fixture, "medium"), >, 0);
      g_assert_cmpstr (llm_context_get_residency (context), ==, is_off ? "text" : "storage");
      memory = get_memory (context);
      g_assert_cmpuint (memory->n_chunks, >=, 3);
      g_assert_cmpint (memory->places[0], ==, is_off ? 't' : 's');
      for (guint j = 0; j < LLM_CONTEXT_N_BITS; j++)
        g_assert_cmpuint (memory->memory_bytes[j], ==, 0);
    }
  if (is_off)
    {
      g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), ==, 0);
      g_assert_cmpuint (get_statistic (fixture->engine, "kv-recomputed-chunks"), >=, 6);
      g_assert_cmpuint (get_statistic (fixture->engine, "kv-written-chunks"), ==, 0);
    }
  else
    {
      g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), >=, 6);
      g_assert_cmpuint (get_statistic (fixture->engine, "kv-written-chunks"), >=, 6);
      g_assert_cmpuint (get_statistic (fixture->engine, "kv-read-bytes"), >, 0);
    }
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-faulted-chunks"), ==, 0);
  free_answers (expected);
}

/* What has come back is not computed again: the next call says so. */
static void
test_reused (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(Answer) answer = NULL;
  guint n_before;

  g_free (ask (fixture, context, questions[0], LONG));
  n_before = llm_context_get_tokens (context);
  trim (fixture, "medium");
  answer = begin_ask (fixture, context, questions[1], LONG);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (result_uint (answer, "cached-tokens"), >=, n_before - 17);
  g_assert_cmpuint (result_uint (answer, "cached-tokens"), <, n_before);
  g_assert_cmpuint (result_uint (answer, "cached-tokens") % 16, ==, 0);
}

static void
test_restart (Fixture      *fixture,
              gconstpointer data)
{
  char *expected[N_QUESTIONS];
  g_autofree char *id = NULL;

  ask_undisturbed (fixture, expected);
  for (guint i = 0; i < N_QUESTIONS; i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmContext) context = open_context (fixture, "notes", "{'create': <true>}", &error);
      g_autofree char *answer = NULL;

      g_assert_no_error (error);
      if (i > 0)
        {
          g_autoptr(LlmContextMemory) memory = NULL;

          g_assert_cmpstr (context->id, ==, id);
          WAIT_FOR (g_str_equal (llm_context_get_residency (context), "storage"));
          memory = get_memory (context);
          g_assert_cmpstr (memory->residency, ==, "storage");
          g_assert_cmpuint (memory->n_chunks, >=, 2 * i);
          for (guint j = 0; j < memory->n_chunks; j++)
            g_assert_cmpint (memory->places[j], ==, 's');
          g_assert_cmpuint (memory->folder_bytes, >, 0);
        }
      g_free (id);
      id = g_strdup (context->id);
      answer = ask (fixture, context, questions[i], LONG);
      g_assert_cmpstr (answer, ==, expected[i]);
      g_assert_cmpstr (llm_context_get_residency (context), ==, "memory");
      if (i > 0)
        g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), >=, 2 * i);
      g_clear_object (&context);
      restart (fixture, 0, "auto");
    }
  free_answers (expected);
}

/* Full chunks are on storage. */
static void
await_written (LlmContext *context)
{
  LlmContextMemory *memory = get_memory (context);

  while (strspn (memory->places, "sb") < memory->tokens / memory->chunk_tokens)
    {
      llm_context_memory_free (memory);
      memory = get_memory (context);
    }
  llm_context_memory_free (memory);
}

/* The model is unloaded and loaded again: as after a restart. What is not written by then may be
 * lost: a critical trim waits for the disk for a moment only. */
static void
test_unload (Fixture      *fixture,
             gconstpointer data)
{
  char *expected[N_QUESTIONS];
  g_autoptr(LlmContext) context = NULL;

  ask_undisturbed (fixture, expected);
  context = create (fixture, "{}");
  for (guint i = 0; i < N_QUESTIONS; i++)
    {
      g_autofree char *answer = ask (fixture, context, questions[i], LONG);

      g_assert_cmpstr (answer, ==, expected[i]);
      await_written (context);
      trim (fixture, "critical");
      g_assert_cmpstr (llm_context_get_residency (context), ==, "storage");
    }
  g_assert_cmpuint (get_statistic (fixture->engine, "model-unloads"), >=, 2);
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), >=, 6);
  free_answers (expected);
}

static void
damage_file (const char *path)
{
  g_autofree char *bytes = NULL;
  gsize length = 0;

  g_assert_true (g_file_get_contents (path, &bytes, &length, NULL));
  /* behind what describes it, which is at the beginning */
  for (gsize i = length / 2; i < length; i += 512)
    bytes[i] ^= 0x55;
  g_assert_true (g_file_set_contents (path, bytes, (gssize) length, NULL));
}

static guint
damage_folder (const char *folder)
{
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;
  guint n = 0;

  g_assert_nonnull (dir);
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (name, ".kv"))
      {
        g_autofree char *path = g_build_filename (folder, name, NULL);

        damage_file (path);
        n++;
      }
  return n;
}

/* Chunks that turn out to be damaged while the call already runs are computed again (L10). */
static void
test_damaged (Fixture      *fixture,
              gconstpointer data)
{
  char *expected[N_QUESTIONS];
  guint64 n_recomputed = 0;

  ask_undisturbed (fixture, expected);
  for (guint i = 0; i < N_QUESTIONS; i++)
    {
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmContext) context = open_context (fixture, "notes", "{'create': <true>}", &error);
      g_autofree char *folder = get_folder (fixture, context);
      g_autofree char *answer = ask (fixture, context, questions[i], LONG);

      g_assert_cmpstr (answer, ==, expected[i]);
      if (i > 0)
        {
          g_assert_cmpuint (get_statistic (fixture->engine, "kv-faulted-chunks"), >=, 1);
          n_recomputed += get_statistic (fixture->engine, "kv-recomputed-chunks");
        }
      g_clear_object (&context);
      stop_engine (&fixture->engine);
      g_assert_cmpuint (damage_folder (folder), >=, 1);
      restart (fixture, 0, i % 2 == 0 ? "threads" : "auto");
    }
  g_assert_cmpuint (n_recomputed, >=, 2);
  free_answers (expected);
}

/* Without room on storage, contexts are text. */
static void
test_no_room (Fixture      *fixture,
              gconstpointer data)
{
  char *expected[N_QUESTIONS];
  LlmSettings *settings = new_settings (fixture->state, 2);
  g_autoptr(LlmContext) context = NULL;

  ask_undisturbed (fixture, expected);
  stop_engine (&fixture->engine);
  settings->context_ratio = 0;
  settings->storage_limit = 4096;
  fixture->engine = start_engine_with (settings);
  context = create (fixture, "{}");
  for (guint i = 0; i < N_QUESTIONS; i++)
    {
      g_autofree char *answer = ask (fixture, context, questions[i], LONG);

      g_assert_cmpstr (answer, ==, expected[i]);
      trim (fixture, "medium");
      g_assert_cmpstr (llm_context_get_residency (context), ==, "text");
    }
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-storage-bytes"), <=, 4096);
  free_answers (expected);
}

/* Closing a context, and the end of an unnamed one's connection, leave nothing on storage. */
static void
test_closed (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(LlmContext) named = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContext) unnamed = create (fixture, "{}");
  g_autoptr(LlmContext) left = create (fixture, "{}");
  g_autofree char *folder = get_folder (fixture, left);

  g_free (ask (fixture, named, questions[0], LONG));
  g_free (ask (fixture, unnamed, questions[0], LONG));
  g_free (ask (fixture, left, questions[1], LONG));
  trim (fixture, "medium");
  g_assert_true (has_folder (fixture, named));
  g_assert_true (has_folder (fixture, unnamed));
  g_assert_true (has_folder (fixture, left));
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-storage-bytes"), >, 0);

  close_context (unnamed);
  close_context (named);
  await_executor (left);
  g_assert_false (has_folder (fixture, unnamed));
  g_assert_false (has_folder (fixture, named));
  g_assert_true (has_folder (fixture, left));
  llm_engine_caller_gone (fixture->engine, ":1.1");
  await_executor (left);
  g_assert_false (has_folder (fixture, left));
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-storage-bytes"), ==, 0);
}

/* The end of the service takes unnamed ones, and the next start what nobody knows. */
static void
test_swept (Fixture      *fixture,
            gconstpointer data)
{
  g_autoptr(LlmContext) named = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContext) unnamed = create (fixture, "{}");
  g_autofree char *kept = get_folder (fixture, named);
  g_autofree char *gone = get_folder (fixture, unnamed);
  g_autofree char *stray = g_build_filename (fixture->state, "chunks",
                                             "00112233445566778899aabbccddeeff", NULL);
  g_autoptr(LlmContext) found = NULL;
  g_autoptr(GError) error = NULL;

  g_free (ask (fixture, named, questions[0], LONG));
  g_free (ask (fixture, unnamed, questions[0], LONG));
  g_clear_object (&named);
  g_clear_object (&unnamed);
  stop_engine (&fixture->engine);
  g_assert_true (g_file_test (kept, G_FILE_TEST_IS_DIR));
  g_assert_false (g_file_test (gone, G_FILE_TEST_EXISTS));

  g_assert_cmpint (g_mkdir_with_parents (stray, 0700), ==, 0);
  restart (fixture, 0, "auto");
  found = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  WAIT_FOR (g_str_equal (llm_context_get_residency (found), "storage"));
  g_assert_false (g_file_test (stray, G_FILE_TEST_EXISTS));
  g_assert_true (g_file_test (kept, G_FILE_TEST_IS_DIR));
}

/* --- what contexts have in common --- */

#define SYSTEM \
  "{'system': <'You help people who look for restaurants, films and trains. You know all towns " \
  "of California, and you never say what you do not know. You are friendly, and your answers " \
  "are short.'>}"

static guint64
get_kv_bytes (Fixture *fixture)
{
  LlmMemoryFigures figures;

  llm_engine_get_memory (fixture->engine, &figures);
  return figures.kv_resident + figures.kv_compressed;
}

/* Equal beginnings are kept once in an application, and never across. */
static void
test_shared (Fixture      *fixture,
             gconstpointer data)
{
  LlmCaller *own = fixture->caller;
  g_autoptr(LlmCaller) other = llm_caller_new (1000, "org.example.Other", ":1.2", LLM_CALLER_HOST);
  g_autoptr(LlmContext) first = create (fixture, SYSTEM);
  g_autoptr(LlmContext) second = create (fixture, SYSTEM);
  g_autoptr(LlmContext) foreign = NULL;
  g_autofree char *expected = ask (fixture, first, questions[0], LONG);
  g_autoptr(Answer) answer = NULL;
  g_autoptr(Answer) unshared = NULL;
  g_autoptr(LlmContextMemory) memory = NULL;
  guint64 bytes = get_kv_bytes (fixture);
  guint64 n_shared;

  answer = begin_ask (fixture, second, questions[0], LONG);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpstr (answer->text, ==, expected);
  g_assert_cmpuint (result_uint (answer, "cached-tokens"), >=, 32);
  memory = get_memory (second);
  g_assert_cmpuint (memory->n_shared_chunks, >=, 2);
  g_assert_cmpuint (get_kv_bytes (fixture), <, 2 * bytes);
  n_shared = get_statistic (fixture->engine, "kv-shared-chunks");
  g_assert_cmpuint (n_shared, >=, 2);

  fixture->caller = other;
  foreign = create (fixture, SYSTEM);
  unshared = begin_ask (fixture, foreign, questions[0], LONG);
  WAIT_FOR (unshared->is_finished);
  g_assert_no_error (unshared->error);
  g_assert_cmpstr (unshared->text, ==, expected);
  g_assert_cmpuint (result_uint (unshared, "cached-tokens"), ==, 0);
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-shared-chunks"), ==, n_shared);
  fixture->caller = own;

  /* one goes, the other stays as it was */
  close_context (first);
  trim (fixture, "medium");
  g_free (ask (fixture, second, questions[1], LONG));
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-faulted-chunks"), ==, 0);
}

static void
test_fork (Fixture      *fixture,
           gconstpointer data)
{
  char *expected[N_QUESTIONS];
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(LlmContext) fork = NULL;
  g_autoptr(LlmCallOptions) options = parse_options ("{}", LLMSVC_CALL_FORK);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmContextMemory) memory = NULL;
  g_autofree char *in_fork = NULL;
  g_autofree char *in_source = NULL;
  guint64 stored;

  ask_undisturbed (fixture, expected);
  context = create (fixture, "{}");
  g_free (ask (fixture, context, questions[0], LONG));
  g_free (ask (fixture, context, questions[1], LONG));
  trim (fixture, "medium");
  stored = get_statistic (fixture->engine, "kv-storage-bytes");

  /* of a context that is not in memory */
  llm_context_fork_async (context, fixture->caller, options, on_result, &result);
  WAIT_FOR (result != NULL);
  fork = g_task_propagate_pointer (G_TASK (result), &error);
  g_assert_no_error (error);
  memory = get_memory (fork);
  g_assert_cmpuint (memory->tokens + 1, ==, llm_context_get_tokens (context));
  in_fork = ask (fixture, fork, questions[2], LONG);
  g_assert_cmpstr (in_fork, ==, expected[2]);
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), >=, 3);
  trim (fixture, "medium");
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-storage-bytes"), <, 2 * stored);

  close_context (fork);
  in_source = ask (fixture, context, questions[2], LONG);
  g_assert_cmpstr (in_source, ==, expected[2]);
  free_answers (expected);
}

/* --- in the middle of a call --- */

static gboolean
has_step (GVariant   *trimmed,
          const char *step)
{
  g_auto(GStrv) steps = NULL;

  g_assert_true (g_variant_lookup (trimmed, "steps", "^as", &steps));
  return g_strv_contains ((const char *const *) steps, step);
}

static GVariant *
trim_critical (Fixture *fixture)
{
  g_autoptr(LlmCallOptions) options = parse_options ("{}", LLMSVC_CALL_TRIM);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  GVariant *trimmed;

  llm_engine_trim_async (fixture->engine, fixture->caller, LLM_PRESSURE_CRITICAL, options,
                         on_result, &result);
  WAIT_FOR (result != NULL);
  trimmed = g_task_propagate_pointer (G_TASK (result), &error);
  g_assert_no_error (error);
  return trimmed;
}

/* FALSE when the answer was not parked before its end. */
static gboolean
try_parked (Fixture    *fixture,
            const char *expected)
{
  g_autoptr(LlmContext) context = create (fixture, "{}");
  g_autoptr(LlmCallOptions) options = parse_options (LONG, LLMSVC_CALL_ASK);
  g_autoptr(TestSink) sink = test_sink_new ();
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(LlmGeneration) generation = NULL;
  g_autoptr(GVariant) trimmed = NULL;
  guint64 n_recomputed;

  g_free (ask (fixture, context, questions[0], LONG));

  sink->is_full = TRUE;
  llm_context_generate_async (context, fixture->caller, user_message (questions[1]), options,
                              &sink->parent, on_result, &result);
  WAIT_FOR (result != NULL);
  generation = g_task_propagate_pointer (G_TASK (result), NULL);
  g_assert_nonnull (generation);
  WAIT_FOR (llm_generation_get_state (generation) >= LLM_GENERATION_STALLED);
  /* whatever the executor had begun has ended */
  g_free (complete (fixture, "Hello!", GREEDY));
  if (sink->is_finished)
    {
      g_assert_cmpstr (sink->text->str, ==, expected);
      return FALSE;
    }
  n_recomputed = get_statistic (fixture->engine, "kv-recomputed-chunks");
  trimmed = trim_critical (fixture);
  g_assert_true (has_step (trimmed, "calls"));
  /* what was just being written goes when it is */
  while (get_kv_bytes (fixture) > 0)
    await_executor (context);

  sink->is_full = FALSE;
  llm_sink_drained (&sink->parent);
  WAIT_FOR (sink->is_finished);
  g_assert_cmpstr (sink->text->str, ==, expected);
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-recomputed-chunks"), >, n_recomputed);
  return TRUE;
}

/* An answer is blocked in its middle, as its reader is; its chunks are taken (L9); it goes on
 * as if nothing had been. */
static void
test_parked (Fixture      *fixture,
             gconstpointer data)
{
  const char *disk = data;
  char *expected[N_QUESTIONS];
  gboolean was_parked = FALSE;

  restart (fixture, 0, disk);
  ask_undisturbed (fixture, expected);
  for (guint i = 0; i < MAX_ATTEMPTS && !was_parked; i++)
    was_parked = try_parked (fixture, expected[1]);
  g_assert_true (was_parked);
  free_answers (expected);
}

/* Trims while prompts are read and answers written, again and again. */
static void
test_trimmed_often (Fixture      *fixture,
                    gconstpointer data)
{
  char *expected[N_QUESTIONS];
  LlmContext *contexts[2];

  ask_undisturbed (fixture, expected);
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    contexts[i] = create (fixture, "{}");
  for (guint i = 0; i < N_QUESTIONS; i++)
    {
      Answer *answers[G_N_ELEMENTS (contexts)];

      for (guint j = 0; j < G_N_ELEMENTS (contexts); j++)
        answers[j] = begin_ask (fixture, contexts[j], questions[i], LONG);
      for (guint j = 0; j < 3; j++)
        g_variant_unref (trim_critical (fixture));
      for (guint j = 0; j < G_N_ELEMENTS (contexts); j++)
        {
          WAIT_FOR (answers[j]->is_finished);
          g_assert_no_error (answers[j]->error);
          g_assert_cmpstr (answers[j]->text, ==, expected[i]);
          answer_free (answers[j]);
        }
    }
  for (guint i = 0; i < G_N_ELEMENTS (contexts); i++)
    g_object_unref (contexts[i]);
  free_answers (expected);
}

/* --- fewer bits --- */

/* All but the last, partial chunk have been compressed and written. */
static gboolean
is_done (const LlmContextMemory *memory)
{
  for (guint i = 0; i + 1 < memory->n_chunks; i++)
    if (memory->bits[i] > 8 || memory->places[i] != 'b')
      return FALSE;
  return TRUE;
}

static void
test_compressed (Fixture      *fixture,
                 gconstpointer data)
{
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContextMemory) memory = NULL;
  g_autoptr(LlmContextMemory) stored = NULL;
  guint64 floats, packed;

  for (guint i = 0; i < N_QUESTIONS; i++)
    g_free (ask (fixture, context, questions[i], LONG));
  /* texts depend on what was packed between two calls: until the last chunk is a partial one */
  while ((memory = get_memory (context))->tokens % 16 == 0)
    {
      g_free (ask (fixture, context, questions[0], LONG));
      g_clear_pointer (&memory, llm_context_memory_free);
    }
  g_clear_pointer (&memory, llm_context_memory_free);
  WAIT_FOR (g_str_equal (llm_context_get_residency (context), "compressed"));
  memory = get_memory (context);
  while (!is_done (memory))
    {
      llm_context_memory_free (memory);
      memory = get_memory (context);
    }
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-packed-chunks"), >=, 6);
  g_assert_cmpuint (memory->chunk_tokens, ==, 16);
  g_assert_cmpuint (memory->n_chunks, ==, (memory->tokens + 15) / 16);
  g_assert_cmpuint (memory->tokens + 1, ==, llm_context_get_tokens (context));
  floats = memory->memory_bytes[0] + memory->memory_bytes[1];
  packed = memory->memory_bytes[2] + memory->memory_bytes[3] + memory->memory_bytes[4];
  g_assert_cmpuint (packed, >, 0);
  /* the last, partial one */
  g_assert_cmpuint (floats, >, 0);
  g_assert_cmpuint (floats * (memory->n_chunks - 1), >, 2 * packed);

  trim (fixture, "medium");
  stored = get_memory (context);
  g_assert_cmpstr (stored->residency, ==, "storage");
  for (guint i = 0; i + 1 < stored->n_chunks; i++)
    {
      g_assert_cmpint (stored->places[i], ==, 's');
      g_assert_cmpuint (stored->bits[i], <=, 8);
    }
  g_assert_cmpint (stored->places[stored->n_chunks - 1], ==, 't');
  g_assert_cmpuint (stored->storage_bytes[2] + stored->storage_bytes[3] + stored->storage_bytes[4],
                    ==, packed);
  g_assert_cmpuint (stored->folder_bytes, >=, packed);
  g_free (ask (fixture, context, questions[0], LONG));
  g_assert_cmpuint (get_statistic (fixture->engine, "kv-restored-chunks"), >=, 6);
}

/* --- how many bits --- */

/* Of all full chunks together, 0 while one of them is not packed. */
static guint
sum_packed_bits (LlmContext *context)
{
  g_autoptr(LlmContextMemory) memory = get_memory (context);
  guint sum = 0;

  for (guint i = 0; i + 1 < memory->n_chunks; i++)
    {
      if (memory->bits[i] > 8)
        return 0;
      sum += memory->bits[i];
    }
  return sum;
}

/* Less while it runs, with a context that is there; what no chunk can be packed to is refused, with
 * what it can. */
static void
test_ratio_changes (Fixture      *fixture,
                    gconstpointer data)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GError) low = NULL;
  g_autoptr(GError) off = NULL;
  const char *smallest;
  guint before, now;

  restart (fixture, 100, "auto");
  context = create (fixture, "{}");
  for (guint i = 0; i < N_QUESTIONS; i++)
    g_free (ask (fixture, context, questions[i], LONG));
  while ((before = sum_packed_bits (context)) == 0)
    ;
  g_assert_false (set_ratio (fixture, 12, &low));
  g_assert_error (low, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
  smallest = strstr (low->message, "at least ");
  g_assert_nonnull (smallest);
  g_assert_true (set_ratio (fixture, (guint) atoi (smallest + strlen ("at least ")), NULL));
  do
    now = sum_packed_bits (context);
  while (now == 0 || now >= before * 3 / 4);
  close_context (context);

  restart (fixture, 0, "auto");
  g_assert_false (set_ratio (fixture, 50, &off));
  g_assert_error (off, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
}


#define ADD(path, data, func) g_test_add (path, Fixture, data, set_up_floats, func, tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("/chunks/restored/uring", "auto", test_restored);
  ADD ("/chunks/restored/threads", "threads", test_restored);
  ADD ("/chunks/recomputed", "off", test_restored);
  ADD ("/chunks/reused", NULL, test_reused);
  ADD ("/chunks/restart", NULL, test_restart);
  ADD ("/chunks/unload", NULL, test_unload);
  ADD ("/chunks/damaged", NULL, test_damaged);
  ADD ("/chunks/no-room", NULL, test_no_room);
  ADD ("/chunks/closed", NULL, test_closed);
  ADD ("/chunks/ratio-changes", NULL, test_ratio_changes);
  ADD ("/chunks/swept", NULL, test_swept);
  ADD ("/chunks/shared", NULL, test_shared);
  ADD ("/chunks/fork", NULL, test_fork);
  ADD ("/chunks/parked", "auto", test_parked);
  ADD ("/chunks/parked-without-storage", "off", test_parked);
  ADD ("/chunks/trimmed-often", NULL, test_trimmed_often);
  g_test_add ("/chunks/compressed", Fixture, NULL, set_up, test_compressed, tear_down);
  return g_test_run ();
}
