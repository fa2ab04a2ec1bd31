/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/llm-call.h"

#include <malloc.h>

#include "base/llm-clock.h"
#include "base/llm-sysinfo.h"
#include "common/llmsvc-error.h"
#include "engine/llm-generation-private.h"

/* For so long, figures of the process are taken as they were. */
#define PROCESS_INTERVAL_US (100 * 1000)

G_DEFINE_FINAL_TYPE (LlmEngine, llm_engine, G_TYPE_OBJECT)

/* --- start --- */

void
llm_engine_start (LlmEngine *self)
{
  llm_engine_store_start (self);
  llm_governor_start (self->governor);
  llm_engine_script_start (self);
  llm_engine_models_start (self);
}

static void
on_session_moved (guint64      session,
                  LlmResidency residency,
                  guint64      bytes,
                  gpointer     data)
{
  LlmEngine *self = data;
  GHashTableIter iter;
  LlmContext *context;

  g_hash_table_iter_init (&iter, self->contexts);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &context))
    if (session == 0 || context->session == session)
      {
        context->residency = residency;
        context->session_bytes = bytes;
      }
}

guint
llm_engine_probe (LlmEngine *self)
{
  g_return_val_if_fail (LLM_IS_ENGINE (self), 0);

  return llm_executor_probe (self->executor);
}

/* --- stop --- */

void
llm_engine_stop (LlmEngine *self)
{
  g_autoptr(GPtrArray) generations = g_ptr_array_new_with_free_func (g_object_unref);
  GHashTableIter iter;
  LlmGeneration *generation;

  if (self->db == NULL)
    return;
  llm_governor_stop (self->governor);
  g_clear_handle_id (&self->power.timer, g_source_remove);
  llm_engine_script_stop (self);
  g_hash_table_iter_init (&iter, self->generations);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &generation))
    g_ptr_array_add (generations, g_object_ref (generation));
  for (guint i = 0; i < generations->len; i++)
    llm_generation_leave (g_ptr_array_index (generations, i));
  llm_engine_fail_waiting (self);

  /* Requests end at the next step; commits under way go on to their end. */
  while (self->n_requests_running > 0 || self->is_counting)
    {
      g_queue_clear_full (&self->uncounted, g_object_unref);
      g_main_context_iteration (NULL, TRUE);
    }
  while (g_main_context_iteration (NULL, FALSE))
    ;
  for (guint i = 0; i < generations->len; i++)
    llm_generation_abandon (g_ptr_array_index (generations, i));
  llm_engine_store_stop (self);
  llm_executor_stop (self->executor);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

/* --- the object --- */

static void
llm_engine_finalize (GObject *object)
{
  LlmEngine *self = LLM_ENGINE (object);

  llm_governor_stop (self->governor);
  g_clear_handle_id (&self->power.timer, g_source_remove);
  g_queue_clear_full (&self->ended, g_object_unref);
  g_queue_clear_full (&self->uncounted, g_object_unref);
  g_hash_table_unref (self->generations);
  g_hash_table_unref (self->contexts);
  g_ptr_array_unref (self->making);
  g_hash_table_unref (self->apps);
  g_hash_table_unref (self->holds);
  llm_engine_store_stop (self);
  g_clear_pointer (&self->governor, llm_governor_free);
  llm_executor_free (self->executor);
  llm_mailbox_free (self->main_box);
  g_clear_pointer (&self->model, llm_model_unref);
  g_clear_pointer (&self->active, llm_model_info_unref);
  llm_engine_script_stop (self);
  g_clear_pointer (&self->mock, llm_model_info_unref);
  g_clear_pointer (&self->models, g_ptr_array_unref);
  g_ptr_array_unref (self->broken);
  g_clear_error (&self->load_error);
  g_clear_error (&self->db_error);
  llm_ledger_unref (self->ledger);
  llm_journal_free (self->journal);
  llm_settings_free (self->settings);
  g_free (self->chosen);
  g_free (self->identity);
  g_clear_error (&self->reason);
  G_OBJECT_CLASS (llm_engine_parent_class)->finalize (object);
}

static void
llm_engine_class_init (LlmEngineClass *klass)
{
  static const char *const names[] = {
    "availability-changed", "models-changed", "memory-changed", "script-exit",
  };

  G_OBJECT_CLASS (klass)->finalize = llm_engine_finalize;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_signal_new (names[i], LLM_TYPE_ENGINE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
}

static void
llm_engine_init (LlmEngine *self)
{
  self->ledger = llm_ledger_new ();
  self->journal = llm_journal_new (NULL);
  self->main_box = llm_mailbox_new ();
  self->models = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_model_info_unref);
  self->broken = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_model_info_unref);
  self->contexts = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  self->making = g_ptr_array_new ();
  self->generations = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  self->apps = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) llm_app_account_free);
  self->holds = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->availability = "loading";
  g_queue_init (&self->ended);
  g_queue_init (&self->uncounted);
  g_queue_init (&self->waiting_start);
  g_queue_init (&self->waiting_model);
}

/**
 * llm_engine_new:
 * @settings: (transfer full): the configuration
 */
LlmEngine *
llm_engine_new (LlmSettings *settings)
{
  LlmEngine *self = g_object_new (LLM_TYPE_ENGINE, NULL);
  LlmExecutorConfig executor = {
    .kernels = settings->kernels != NULL ? llk_ops_find (settings->kernels) : llk_ops_best (),
    .n_threads = settings->n_threads,
    .n_background_threads = settings->n_background_threads,
    .background_niceness = (int) settings->background_niceness,
    .is_exact = settings->is_exact,
    .chunk_slots = settings->chunk_tokens,
    .kv_ratio = settings->is_exact ? 0 : settings->context_ratio / 100.0,
    .cache_folder = settings->cache_folder,
    .system_cache_folder = settings->system_cache_folder,
    .shares_cache = settings->shares_cache,
    .storage_limit = settings->storage_limit,
    .app_storage_limit = settings->app_storage_limit,
    .short_wait_s = settings->short_wait_s,
    .is_fifo = g_str_equal (settings->scheduler, "fifo"),
    .overload_factor = settings->overload_factor,
  };
  g_autofree char *chunks = NULL;

  self->settings = settings;
  llm_engine_reset_default_quota (self);
  if (settings->state_folder != NULL && settings->script == NULL
      && g_strcmp0 (settings->disk, "off") != 0)
    chunks = g_build_filename (settings->state_folder, "chunks", NULL);
  executor.chunks_folder = chunks;
  if (g_strcmp0 (settings->disk, "auto") != 0)
    executor.disk = settings->disk;
  self->executor = llm_executor_new (self->main_box, self->ledger, &executor);
  llm_executor_set_moved (self->executor, on_session_moved, self);
  llm_engine_memory_make (self);
  llm_mailbox_attach (self->main_box);
  return self;
}

const char *const *
llm_engine_get_features (LlmEngine *self)
{
  /* Optional abilities that the option `require` may name; each system adds its own. */
  static const char *const features[] = {
    "named-contexts", "pipe-streams", "request-id", "sliding-window", "slo-shares", NULL,
  };
  static const char *const with_script[] = {
    "mock", "named-contexts", "pipe-streams", "request-id", "sliding-window", "slo-shares", NULL,
  };

  return self->settings->script != NULL ? with_script : features;
}

/* --- answers without a context --- */

/* System text, @earlier messages (nullable) and the prompt (nullable), as `a(ssa{sv})`. */
static GVariant *
collect_messages (LlmCallOptions *options,
                  GVariant       *earlier,
                  const char     *prompt)
{
  const char *system = llm_call_options_get_string (options, LLMSVC_OPTION_SYSTEM, NULL);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  if (system != NULL)
    g_variant_builder_add (&builder, "(ssa{sv})", "system", system, NULL);
  for (gsize i = 0; earlier != NULL && i < g_variant_n_children (earlier); i++)
    {
      g_autoptr(GVariant) message = g_variant_get_child_value (earlier, i);

      g_variant_builder_add_value (&builder, message);
    }
  if (prompt != NULL)
    g_variant_builder_add (&builder, "(ssa{sv})", "user", prompt, NULL);
  return g_variant_builder_end (&builder);
}

/* Takes a place in the quota for a call without a context. */
static gboolean
admit (LlmCall *call,
       GError **error)
{
  if (llm_call_options_get_boolean (call->options, LLMSVC_OPTION_RAW, FALSE)
      && (llm_call_options_has (call->options, LLMSVC_OPTION_SYSTEM)
          || llm_call_options_has (call->options, LLMSVC_OPTION_MESSAGES)))
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "raw: a raw prompt has no system text and no messages; put all into the "
                     "prompt");
  call->pass = llm_engine_take_call (call->engine, call->caller, error);
  return call->pass != NULL;
}

void
llm_engine_complete_async (LlmEngine          *self,
                           LlmCaller          *caller,
                           const char         *prompt,
                           LlmCallOptions     *options,
                           LlmSink            *sink,
                           GAsyncReadyCallback callback,
                           gpointer            data)
{
  gboolean is_raw = llm_call_options_get_boolean (options, LLMSVC_OPTION_RAW, FALSE);
  GVariant *messages = collect_messages (
    options, llm_call_options_get_variant (options, LLMSVC_OPTION_MESSAGES), is_raw ? NULL : prompt);
  g_autoptr(GTask) task = llm_call_new (self, caller, messages, options, callback, data);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  call->sink = g_object_ref (sink);
  call->raw = g_strdup (is_raw ? prompt : NULL);
  if (admit (call, &error))
    llm_generation_start (task);
  else
    g_task_return_error (task, error);
}

static void
return_count (GTask   *task,
              LlmCall *call)
{
  call->n_added = call->tokens->len;
  llm_call_end (task, call);
}

/* Counts what would be asked, but for what opens an answer. */
void
llm_engine_count_tokens_async (LlmEngine          *self,
                               LlmCaller          *caller,
                               GVariant           *messages,
                               LlmCallOptions     *options,
                               GAsyncReadyCallback callback,
                               gpointer            data)
{
  g_autoptr(GTask) task = llm_call_new (self, caller, collect_messages (options, messages, NULL),
                                        options, callback, data);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  if (!admit (call, &error))
    {
      g_task_return_error (task, error);
      return;
    }
  if (llm_call_options_get_boolean (options, LLMSVC_OPTION_RAW, FALSE))
    {
      g_autoptr(GString) raw = g_string_new (NULL);
      GVariantIter iter;
      const char *text;

      g_variant_iter_init (&iter, call->messages);
      while (g_variant_iter_next (&iter, "(&s&s@a{sv})", NULL, &text, NULL))
        g_string_append (raw, text);
      call->raw = g_strdup (raw->str);
    }
  if (g_variant_n_children (call->messages) > 0)
    llm_call_tokenize (task, return_count);
  else
    llm_call_end (task, call);
}

gboolean
llm_engine_count_tokens_finish (LlmEngine    *self,
                                GAsyncResult *result,
                                guint        *tokens,
                                GError      **error)
{
  *tokens = ((LlmCall *) g_task_get_task_data (G_TASK (result)))->n_added;
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- statistics --- */

/* Of each class; returns the sum of all. */
static LlmSloCounters
add_slo_statistics (LlmEngine       *self,
                    GVariantBuilder *builder)
{
  LlmSloCounters sum = { 0 };

  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    {
      const LlmSloCounters *of_class = &self->counters.slo[i];
      const LlmFigure figures[] = {
        { "calls", of_class->calls },
        { "met", of_class->met },
        { "missed", of_class->missed },
        { "refused", of_class->refused },
      };

      for (guint j = 0; j < G_N_ELEMENTS (figures); j++)
        {
          g_autofree char *key = g_strdup_printf ("slo-%s-%s", llm_slo_class_to_string (i),
                                                  figures[j].key);

          llm_engine_add_figures (builder, &(LlmFigure) { key, figures[j].value }, 1);
        }
      sum.met += of_class->met;
      sum.missed += of_class->missed;
      sum.refused += of_class->refused;
    }
  return sum;
}

/* Answers by their state. */
typedef struct
{
  guint n[LLM_GENERATION_DONE + 1];
} CallCounts;

static CallCounts
count_calls (LlmEngine *self)
{
  GHashTableIter iter;
  LlmGeneration *generation;
  CallCounts counts = { 0 };

  g_hash_table_iter_init (&iter, self->generations);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &generation))
    counts.n[llm_generation_get_state (generation)]++;
  return counts;
}

/* What malloc() has given out, the C library's own word; 0 where it says none. Context memory and
 * weights are not part of it. */
static guint64
read_heap (void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2 ();

  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

/* What the system and the C library have to look up: the heap is walked for it, with its locks
 * held, and a caller may ask thousands of times a second. */
static const LlmProcessFigures *
look_up_process (LlmEngine *self)
{
  LlmProcessFigures *process = &self->process;
  gint64 now_us = g_get_monotonic_time ();

  if (process->read_us == 0 || now_us - process->read_us >= PROCESS_INTERVAL_US)
    {
      process->heap_bytes = read_heap ();
      process->resident_bytes = llm_sysinfo_read_resident (NULL);
      process->read_us = now_us;
    }
  return process;
}

void
llm_engine_add_statistics (LlmEngine       *self,
                           GVariantBuilder *builder)
{
  const LlmSloCounters sum = add_slo_statistics (self, builder);
  const LlmEngineCounters *counters = &self->counters;
  const LlmExecutorFigures figures = llm_engine_get_figures (self);
  const LlmKvCounters kv = figures.kv;
  const CallCounts calls = count_calls (self);
  const LlmProcessFigures *process = look_up_process (self);
  const LlmFigure entries[] = {
    { "requests", counters->requests },
    { "failed", counters->failed },
    { "cancelled", counters->cancelled },
    { "prompt-tokens", counters->prompt_tokens },
    { "reused-tokens", counters->reused_tokens },
    { "output-tokens", counters->output_tokens },
    { "slo-met", sum.met },
    { "slo-missed", sum.missed },
    { "refused", sum.refused },
    { "queued-calls", calls.n[LLM_GENERATION_QUEUED] },
    { "reading-calls", calls.n[LLM_GENERATION_READING] },
    { "writing-calls", calls.n[LLM_GENERATION_WRITING] },
    { "parked-calls", calls.n[LLM_GENERATION_PARKED] },
    { "ttft-forecasts", counters->forecasts },
    { "ttft-forecast-error-ms",
      counters->forecasts > 0 ? (guint64) (counters->forecast_error_ms / counters->forecasts) : 0 },
    { "model-loads", counters->model_loads },
    { "model-unloads", counters->model_unloads },
    { "trims", counters->trims },
    { "trimmed-bytes", counters->trimmed_bytes },
    { "steps", figures.n_steps },
    { "rows", figures.n_rows },
    { "read-tokens", figures.n_prompt },
    { "written-tokens", figures.n_generated },
    { "kv-packed-chunks", kv.n_packed },
    { "kv-written-chunks", kv.n_written },
    { "kv-evicted-chunks", kv.n_evicted },
    { "kv-restored-chunks", kv.n_restored },
    { "kv-recomputed-chunks", kv.n_recomputed },
    { "kv-faulted-chunks", kv.n_faulted },
    { "kv-shared-chunks", kv.n_shared },
    { "kv-read-bytes", kv.read_bytes },
    { "kv-written-bytes", kv.written_bytes },
    { "kv-storage-bytes", figures.storage_bytes },
    { "contexts", g_hash_table_size (self->contexts) },
    { "calls", g_hash_table_size (self->generations) },
    { "apps", g_hash_table_size (self->apps) },
    { "heap-bytes", process->heap_bytes },
    { "process-resident-bytes", process->resident_bytes },
  };

  llm_engine_add_figures (builder, entries, G_N_ELEMENTS (entries));
  llm_engine_add_memory_statistics (self, builder);
  llm_engine_add_power_statistics (self, builder);
}

GVariant *
llm_engine_get_statistics (LlmEngine *self)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  llm_engine_add_statistics (self, &builder);
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}
