/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-call.h"
#include "engine/contexts/llm-engine-contexts.h"
#include "engine/memory/llm-engine-memory.h"
#include "engine/models/llm-crash-mark.h"

#include "common/llmsvc-error.h"
#include "engine/calls/llm-generation-private.h"
#include "engine/models/llm-engine-models.h"

G_DEFINE_FINAL_TYPE (LlmEngine, llm_engine, G_TYPE_OBJECT)

/* --- start --- */

void
llm_engine_start (LlmEngine *self)
{
  self->loading.crash_mark = llm_crash_mark_new (self->settings->state_folder);
  llm_engine_store_start (self);
  llm_governor_start (self->memory.governor);
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

  g_hash_table_iter_init (&iter, self->store.contexts);
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
  return llm_executor_probe (self->executor);
}

/* --- stop --- */

void
llm_engine_stop (LlmEngine *self)
{
  g_autoptr(GPtrArray) generations = g_ptr_array_new_with_free_func (g_object_unref);
  GHashTableIter iter;
  LlmGeneration *generation;

  if (self->store.db == NULL)
    return;
  llm_governor_stop (self->memory.governor);
  g_clear_handle_id (&self->loading.load_timer, g_source_remove);
  g_clear_handle_id (&self->power.timer, g_source_remove);
  llm_engine_script_stop (self);
  g_hash_table_iter_init (&iter, self->calls.generations);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &generation))
    g_ptr_array_add (generations, g_object_ref (generation));
  for (guint i = 0; i < generations->len; i++)
    llm_generation_leave (g_ptr_array_index (generations, i));
  llm_engine_models_stop (self);
  llm_engine_fail_waiting (self);

  /* Requests end at the next step; commits under way are completed. */
  while (self->calls.n_requests_running > 0 || self->store.is_counting)
    {
      g_queue_clear_full (&self->store.uncounted, g_object_unref);
      g_main_context_iteration (NULL, TRUE);
    }
  while (g_main_context_iteration (NULL, FALSE))
    ;
  for (guint i = 0; i < generations->len; i++)
    llm_generation_abandon (g_ptr_array_index (generations, i));
  llm_engine_store_stop (self);
  llm_executor_stop (self->executor);
  /* a load that is still under way checks it once more */
  llm_crash_mark_ended (self->loading.crash_mark);
  while (g_main_context_iteration (NULL, FALSE))
    ;
}

/* --- the object --- */

static void
llm_engine_finalize (GObject *object)
{
  LlmEngine *self = LLM_ENGINE (object);

  llm_governor_stop (self->memory.governor);
  g_clear_handle_id (&self->power.timer, g_source_remove);
  g_queue_clear_full (&self->calls.ended, g_object_unref);
  g_queue_clear_full (&self->store.uncounted, g_object_unref);
  g_hash_table_unref (self->calls.generations);
  g_hash_table_unref (self->store.contexts);
  g_ptr_array_unref (self->store.making);
  g_hash_table_unref (self->accounts.apps);
  g_hash_table_unref (self->memory.holds);
  llm_engine_store_stop (self);
  g_clear_pointer (&self->loading.crash_mark, llm_crash_mark_free);
  g_clear_pointer (&self->memory.governor, llm_governor_free);
  llm_executor_free (self->executor);
  llm_mailbox_free (self->main_box);
  g_clear_pointer (&self->use.model, llm_model_unref);
  llm_engine_drop_draft (self);
  llm_engine_forget_prefill (self);
  llm_engine_forget_channels (self);
  g_hash_table_unref (self->drafts.draft_records);
  g_clear_error (&self->drafts.draft_error);
  llm_engine_take_levels (self, NULL, NULL);
  llm_constraint_cache_unref (self->use.constraints);
  g_clear_pointer (&self->use.active, llm_model_info_unref);
  llm_engine_script_stop (self);
  g_clear_pointer (&self->script.mock, llm_model_info_unref);
  llm_engine_models_stop (self);
  g_ptr_array_unref (self->catalogue.models);
  g_ptr_array_unref (self->catalogue.found);
  g_clear_error (&self->loading.load_error);
  g_clear_error (&self->store.db_error);
  llm_ledger_unref (self->ledger);
  llm_journal_free (self->journal);
  llm_settings_free (self->settings);
  g_free (self->use.chosen);
  g_free (self->store.identity);
  g_clear_error (&self->use.reason);
  G_OBJECT_CLASS (llm_engine_parent_class)->finalize (object);
}

static void
llm_engine_class_init (LlmEngineClass *klass)
{
  static const char *const names[] = {
    "availability-changed", "models-changed", "memory-changed", "script-exit", "load-progress",
  };

  G_OBJECT_CLASS (klass)->finalize = llm_engine_finalize;
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    g_signal_new (names[i], LLM_TYPE_ENGINE, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL, G_TYPE_NONE, 0);
}

static void
llm_engine_init (LlmEngine *self)
{
  self->ledger = llm_ledger_new ();
  self->use.constraints = llm_constraint_cache_new (self->ledger);
  self->journal = llm_journal_new (NULL);
  self->main_box = llm_mailbox_new ();
  self->catalogue.models = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_model_info_unref);
  self->catalogue.found = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_model_info_unref);
  self->store.contexts = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  self->store.making = g_ptr_array_new ();
  self->calls.generations = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  self->drafts.draft_records = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                                      (GDestroyNotify) llm_draft_record_unref);
  self->accounts.apps = g_hash_table_new_full (NULL, NULL, NULL,
                                               (GDestroyNotify) llm_app_account_free);
  self->memory.holds = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->use.availability = "loading";
  g_queue_init (&self->calls.ended);
  g_queue_init (&self->store.uncounted);
  g_queue_init (&self->start.waiting_start);
  g_queue_init (&self->catalogue.waiting_scan);
  g_queue_init (&self->catalogue.waiting_next_scan);
  g_queue_init (&self->loading.waiting_model);
  g_queue_init (&self->prefill.waiting);
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
  self->memory.context_ratio = settings->is_exact ? 0 : settings->context_ratio;
  llm_engine_reset_default_quota (self);
  chunks = llm_settings_get_chunks_folder (settings);
  executor.chunks_folder = chunks;
  /* "off" applies to contexts: weights that don't fit into memory are still read with a queue */
  if (g_strcmp0 (settings->disk, "auto") != 0 && g_strcmp0 (settings->disk, "off") != 0)
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
  /* Optional features that the option `require` may name; each system adds its own. */
#define FEATURES_OF_ALL \
  "continue", "grammar", "json-schema", "named-contexts", "pipe-streams", "prompt-levels", "regex", \
    "request-id", "sliding-window", "slo-shares", "sub-models", "thinking", "tools", NULL
  static const char *const features[] = { "infill", "logprobs", "prefill", FEATURES_OF_ALL };
  /* a script has no probabilities, and its tokens are bytes */
  static const char *const mock_features[] = { "mock", FEATURES_OF_ALL };
#undef FEATURES_OF_ALL

  return self->settings->script != NULL ? mock_features : features;
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

/* Whether the prompt is raw; with a suffix it is the text before a gap. */
static gboolean
is_untemplated (LlmCallOptions *options)
{
  return llm_call_options_get_boolean (options, LLMSVC_OPTION_RAW, FALSE)
         || llm_call_options_has (options, LLMSVC_OPTION_SUFFIX);
}

/* Takes a place in the quota for a call without a context. */
static gboolean
admit (LlmCall *call,
       GError **error)
{
  static const LlmsvcOption of_chats[] = {
    LLMSVC_OPTION_SYSTEM, LLMSVC_OPTION_MESSAGES, LLMSVC_OPTION_TOOLS,
  };
  gboolean fills = llm_call_options_has (call->options, LLMSVC_OPTION_SUFFIX);

  for (guint i = 0; fills && i < G_N_ELEMENTS (of_chats); i++)
    if (llm_call_options_has (call->options, of_chats[i]))
      return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                       "suffix: a text with a gap is not rendered by the model's template, so it "
                       "can't have the option “%s”", llmsvc_option_get_info (of_chats[i])->key);
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
  gboolean is_raw = is_untemplated (options);
  GVariant *earlier = llm_call_options_get_variant (options, LLMSVC_OPTION_MESSAGES);
  g_autoptr(GTask) task = llm_call_new (self, caller,
                                        collect_messages (options, earlier, is_raw ? NULL : prompt),
                                        options, callback, data);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  call->answer.sink = llm_sink_ref (sink);
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
  llm_call_return_count (task, call);
}

/* Counts the tokens of the prompt, without the markup that opens an answer. */
void
llm_engine_count_tokens_async (LlmEngine          *self,
                               LlmCaller          *caller,
                               GVariant           *messages,
                               LlmCallOptions     *options,
                               GAsyncReadyCallback callback,
                               gpointer            data)
{
  g_autoptr(GVariant) given = g_variant_ref_sink (messages);
  g_autoptr(GTask) task = llm_call_new (self, caller, collect_messages (options, given, NULL),
                                        options, callback, data);
  LlmCall *call = g_task_get_task_data (task);
  GError *error = NULL;

  if (!admit (call, &error))
    {
      g_task_return_error (task, error);
      return;
    }
  if (is_untemplated (options))
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
    llm_call_return_count (task, call);
}
