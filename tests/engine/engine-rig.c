/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "engine-rig.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "engine/llm-engine-private.h"
#include "io/llm-file-map.h"
#include "runtime/llm-executor-private.h"
#include "support/llm-test-folder.h"

static gboolean
on_moment (gpointer data)
{
  return G_SOURCE_CONTINUE;
}

void
iterate (void)
{
  guint moment = g_timeout_add (50, on_moment, NULL);

  g_main_context_iteration (NULL, TRUE);
  g_source_remove (moment);
}

void
put_available (const char *root,
               guint64     bytes)
{
  g_autofree char *folder = g_build_filename (root, "proc", NULL);
  g_autofree char *path = g_build_filename (folder, "meminfo", NULL);
  g_autofree char *text = g_strdup_printf ("MemTotal: %ju kB\nMemAvailable: %ju kB\n", SYSTEM_BYTES / 1024,
                                           bytes / 1024);

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

LlmSettings *
new_settings (const char *state,
              guint       n_threads)
{
  LlmSettings *settings = llm_settings_new ();

  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { (char *) g_getenv ("LLM_MODEL_DIR"), NULL });
  settings->state_folder = g_strdup (state);
  settings->n_threads = n_threads;
  /* what this machine is short of is no part of a test */
  settings->reacts_to_pressure = FALSE;
  return settings;
}

LlmEngine *
start_engine_with (LlmSettings *settings)
{
  LlmEngine *engine = llm_engine_new (settings);

  llm_engine_start (engine);
  return engine;
}

LlmEngine *
start_engine (const char *state,
              guint       n_threads)
{
  return start_engine_with (new_settings (state, n_threads));
}

gboolean
run_db (LlmDb     *db,
        LlmDbFunc  func,
        gpointer   data,
        GError   **error)
{
  g_autoptr(GAsyncResult) result = NULL;

  llm_db_run_async (db, func, data, NULL, on_result, &result);
  while (result == NULL)
    g_main_context_iteration (NULL, TRUE);
  return llm_db_run_finish (result, NULL, error);
}

void
stop_engine (LlmEngine **engine)
{
  llm_engine_stop (*engine);
  g_clear_object (engine);
}

void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->state = llm_test_folder_new ();
  fixture->engine = start_engine (fixture->state, 2);
  fixture->caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

void
set_up_floats (Fixture      *fixture,
               gconstpointer data)
{
  LlmSettings *settings;

  fixture->state = llm_test_folder_new ();
  settings = new_settings (fixture->state, 2);
  settings->context_ratio = 0;
  fixture->engine = start_engine_with (settings);
  fixture->caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  if (fixture->engine != NULL)
    stop_engine (&fixture->engine);
  llm_caller_unref (fixture->caller);
  llm_test_folder_remove (fixture->state);
  g_free (fixture->state);
}

void
on_result (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  *(GAsyncResult **) data = g_object_ref (result);
}

/* Options in GVariant's text format. */
LlmCallOptions *
parse_options (const char *text,
               LlmsvcCall  call)
{
  static const char *const features[] = { "continue", "grammar", "infill", "json-schema",
                                          "logprobs", "prefill", "prompt-levels", "regex",
                                          "sliding-window", "slo-shares",
                                          "sub-models", "thinking", "tools", NULL };
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) dict = g_variant_parse (G_VARIANT_TYPE_VARDICT, text, NULL, NULL, &error);
  LlmCallOptions *options;

  g_assert_no_error (error);
  options = llm_call_options_parse (dict, call, features, &error);
  g_assert_no_error (error);
  return options;
}

GVariant *
user_message (const char *text)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&builder, "(ssa{sv})", "user", text, NULL);
  return g_variant_builder_end (&builder);
}

static void
on_finished (const char   *text,
             GVariant     *results,
             const GError *error,
             gpointer      data)
{
  Answer *answer = data;

  answer->text = g_strdup (text);
  answer->results = results != NULL ? g_variant_ref (results) : NULL;
  answer->error = error != NULL ? g_error_copy (error) : NULL;
  answer->is_finished = TRUE;
}

Answer *
answer_new (void)
{
  Answer *answer = g_new0 (Answer, 1);

  answer->sink = llm_buffer_sink_new (NULL, on_finished, answer, NULL);
  return answer;
}

void
answer_free (Answer *answer)
{
  WAIT_FOR (answer->is_finished);
  llm_sink_unref (answer->sink);
  g_clear_object (&answer->generation);
  g_clear_pointer (&answer->results, g_variant_unref);
  g_clear_error (&answer->error);
  g_free (answer->text);
  g_free (answer);
}

static void
on_completing (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  Answer *answer = data;

  answer->generation = g_task_propagate_pointer (G_TASK (result), &answer->error);
  if (answer->generation == NULL)
    answer->is_finished = TRUE;
}

static void
on_generating (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  Answer *answer = data;

  answer->generation = g_task_propagate_pointer (G_TASK (result), &answer->error);
  if (answer->generation == NULL)
    answer->is_finished = TRUE;
}

Answer *
begin_complete (Fixture    *fixture,
                const char *prompt,
                const char *options)
{
  Answer *answer = answer_new ();
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_COMPLETE);

  llm_engine_complete_async (fixture->engine, fixture->caller, prompt, parsed, answer->sink,
                             on_completing, answer);
  return answer;
}

Answer *
begin_ask (Fixture    *fixture,
           LlmContext *context,
           const char *prompt,
           const char *options)
{
  Answer *answer = answer_new ();
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_ASK);

  llm_context_generate_async (context, fixture->caller, user_message (prompt), parsed, answer->sink,
                              on_generating, answer);
  return answer;
}

Answer *
go_on (Fixture    *fixture,
       LlmContext *context,
       const char *options)
{
  Answer *answer = answer_new ();
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_GENERATE);
  g_autoptr(GAsyncResult) result = NULL;
  GError *error = NULL;

  llm_context_generate_async (context, fixture->caller, g_variant_new ("a(ssa{sv})", NULL), parsed,
                              answer->sink, on_result, &result);
  WAIT_FOR (result != NULL);
  answer->generation = g_task_propagate_pointer (G_TASK (result), &error);
  if (error != NULL)
    {
      answer->error = error;
      answer->is_finished = TRUE;
    }
  WAIT_FOR (answer->is_finished);
  return answer;
}

char *
complete (Fixture    *fixture,
          const char *prompt,
          const char *options)
{
  g_autoptr(Answer) answer = begin_complete (fixture, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  return g_strdup (answer->text);
}

char *
ask (Fixture    *fixture,
     LlmContext *context,
     const char *prompt,
     const char *options)
{
  g_autoptr(Answer) answer = begin_ask (fixture, context, prompt, options);

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  return g_strdup (answer->text);
}

LlmContext *
create (Fixture    *fixture,
        const char *options)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_CREATE_CONTEXT);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  LlmContext *context;

  llm_engine_create_context_async (fixture->engine, fixture->caller, parsed, on_result, &result);
  WAIT_FOR (result != NULL);
  context = g_task_propagate_pointer (G_TASK (result), &error);
  g_assert_no_error (error);
  return context;
}

LlmContext *
open_context (Fixture    *fixture,
              const char *name,
              const char *options,
              GError    **error)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_OPEN_CONTEXT);
  g_autoptr(GAsyncResult) result = NULL;

  llm_engine_open_context_async (fixture->engine, fixture->caller, name, parsed, on_result,
                                 &result);
  WAIT_FOR (result != NULL);
  return g_task_propagate_pointer (G_TASK (result), error);
}

GVariant *
get_messages (LlmContext *context)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  GVariant *messages;

  llm_context_get_messages_async (context, 0, 0, on_result, &result);
  WAIT_FOR (result != NULL);
  messages = g_task_propagate_pointer (G_TASK (result), &error);
  g_assert_no_error (error);
  return messages;
}

gsize
count_messages (LlmContext *context)
{
  g_autoptr(GVariant) messages = get_messages (context);

  return g_variant_n_children (messages);
}

gboolean
rollback (LlmContext *context,
          guint       turns,
          GError    **error)
{
  g_autoptr(LlmCallOptions) options = parse_options ("{}", LLMSVC_CALL_ROLLBACK);
  g_autoptr(GAsyncResult) result = NULL;

  llm_context_rollback_async (context, turns, options, on_result, &result);
  WAIT_FOR (result != NULL);
  return g_task_propagate_boolean (G_TASK (result), error);
}

guint64
trim (Fixture    *fixture,
      const char *level)
{
  g_autoptr(LlmCallOptions) options = parse_options ("{}", LLMSVC_CALL_TRIM);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) trimmed = NULL;
  guint64 freed = 0;
  LlmPressure pressure;

  g_assert_true (llm_pressure_parse_level (level, &pressure));
  llm_engine_trim_async (fixture->engine, fixture->caller, pressure, options, on_result, &result);
  WAIT_FOR (result != NULL);
  trimmed = g_task_propagate_pointer (G_TASK (result), &error);
  g_assert_no_error (error);
  g_assert_true (g_variant_lookup (trimmed, "freed", "t", &freed));
  return freed;
}

static void
set_costs (LlmCommand *base)
{
  LlmRunner *runner = g_ptr_array_index (base->executor->runners, 0);
  LlmCostCurve *curve = &runner->scheduler->costs.curves[LLM_COST_DECODE];

  for (guint i = 0; i < LLM_COST_POINTS; i++)
    {
      curve->us[i] = 1000;
      curve->n_seen[i] = 100;
    }
  curve->n_steps = 1000;
}

void
make_rows_free (Fixture *fixture)
{
  llm_executor_send (fixture->engine->executor, set_costs);
}

static gboolean
set_memory (Fixture    *fixture,
            const char *text,
            GError    **error)
{
  g_autoptr(LlmCallOptions) options = parse_options (text, LLMSVC_CALL_SET_BUDGET);
  g_autoptr(GAsyncResult) result = NULL;

  llm_engine_set_budget_async (fixture->engine, options, on_result, &result);
  WAIT_FOR (result != NULL);
  return g_task_propagate_boolean (G_TASK (result), error);
}

gboolean
set_budget (Fixture    *fixture,
            guint64     bytes,
            GError    **error)
{
  g_autofree char *text = g_strdup_printf ("{'bytes': <uint64 %" G_GUINT64_FORMAT ">}", bytes);

  return set_memory (fixture, text, error);
}

gboolean
set_ratio (Fixture    *fixture,
           guint       percent,
           GError    **error)
{
  g_autofree char *text = g_strdup_printf ("{'context-ratio': <uint32 %u>}", percent);

  return set_memory (fixture, text, error);
}

gboolean
take_count (GAsyncResult *result,
            guint        *n,
            GError      **error)
{
  gssize count = g_task_propagate_int (G_TASK (result), error);

  *n = count >= 0 ? (guint) count : 0;
  return count >= 0;
}

GVariant *
read_statistics (LlmEngine *engine)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llm_engine_add_statistics (engine, &builder);
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

guint64
get_statistic (LlmEngine  *engine,
               const char *key)
{
  g_autoptr(GVariant) statistics = read_statistics (engine);
  guint64 value = G_MAXUINT64;

  g_assert_true (g_variant_lookup (statistics, key, "t", &value));
  return value;
}

LlmContextMemory *
get_memory (LlmContext *context)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  LlmContextMemory *memory;

  llm_context_get_memory_async (context, on_result, &result);
  WAIT_FOR (result != NULL);
  memory = g_task_propagate_pointer (G_TASK (result), &error);
  g_assert_no_error (error);
  return memory;
}

guint
result_uint (const Answer *answer,
             const char   *key)
{
  guint value = 0;

  g_assert_true (g_variant_lookup (answer->results, key, "u", &value));
  return value;
}

const char *
result_string (const Answer *answer,
               const char   *key)
{
  const char *value = NULL;

  g_assert_true (g_variant_lookup (answer->results, key, "&s", &value));
  return value;
}

/* --- a sink that fills up --- */

static gboolean
accept_text (LlmSink    *sink,
             const char *text,
             gsize       length)
{
  TestSink *self = (TestSink *) sink;

  g_string_append_len (self->text, text, (gssize) length);
  return !self->is_full;
}

static void
finish (LlmSink      *sink,
        GVariant     *results,
        const GError *error)
{
  ((TestSink *) sink)->is_finished = TRUE;
  if (!g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED))
    g_assert_no_error (error);
}

static void
clear (LlmSink *sink)
{
  g_string_free (((TestSink *) sink)->text, TRUE);
  g_free (((TestSink *) sink)->waits_for);
}

static void
take_progress (LlmSink  *sink,
               GVariant *progress)
{
  TestSink *self = (TestSink *) sink;

  g_clear_pointer (&self->waits_for, g_free);
  (void) g_variant_lookup (progress, "waits-for", "s", &self->waits_for);
}

TestSink *
test_sink_new (void)
{
  static const LlmSinkClass class = { accept_text, finish, clear, .progress = take_progress };
  TestSink *self = llm_sink_new (&class, sizeof *self);

  self->text = g_string_new (NULL);
  return self;
}

/* --- what the kernel has --- */

guint8 *
find_prepared_copy (gsize *size,
                    char **path)
{
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  g_assert_true (g_file_get_contents ("/proc/self/maps", &text, NULL, NULL));
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    if (g_str_has_suffix (lines[i], ".prepared"))
      {
        char *end;
        guint64 first = g_ascii_strtoull (lines[i], &end, 16);

        /* without its head, which is not needed */
        first += LLM_FILE_MAP_HUGE;
        *size = (gsize) (g_ascii_strtoull (end + 1, NULL, 16) - first);
        *path = g_strdup (strchr (lines[i], '/'));
        return GSIZE_TO_POINTER ((gsize) first);
      }
  return NULL;
}

guint64
count_in_memory (guint8 *data,
                 gsize   size)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);
  g_autofree guint8 *pages = g_malloc0 (size / page + 1);
  guint64 n = 0;

  g_assert_cmpint (mincore (data, size, pages), ==, 0);
  for (gsize i = 0; i < size / page; i++)
    n += pages[i] & 1;
  return n * page;
}
