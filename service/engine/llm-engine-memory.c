/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory as the engine sees it: figures, budget, trims. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-engine-private.h"

#include <malloc.h>
#include <string.h>

#include "base/llm-clock.h"
#include "base/llm-sysinfo.h"
#include "common/llmsvc-error.h"

void
llm_engine_get_memory (LlmEngine        *self,
                       LlmMemoryFigures *figures)
{
  *figures = (LlmMemoryFigures) {
    .pressure = llm_pressure_to_string (self->pressure),
    .budget = self->budget,
    .resident = llm_ledger_get_total (self->ledger),
    .weights = llm_ledger_get (self->ledger, LLM_HOLDER_WEIGHTS),
    .kv_resident = llm_ledger_get (self->ledger, LLM_HOLDER_KV),
    .kv_compressed = llm_ledger_get (self->ledger, LLM_HOLDER_KV_COMPRESSED),
    .kv_swapped = llm_executor_get_storage (self->executor),
    .sub_model = 100,
  };
  for (guint i = 0; i < LLM_N_RECLAIM_COSTS; i++)
    figures->reclaimable[i] = llm_governor_get_reclaimable (self->governor, i);
}

/* --- trims --- */

/* Counts what a trim freed, and lets the kernel have it: the heap keeps freed pages
 * until it is told. */
static void
settle_trim (LlmEngine           *self,
             const LlmTrimResult *trimmed)
{
  self->counters.trimmed_bytes += trimmed->freed;
  if (trimmed->freed > 0)
    malloc_trim (0);
}

static void
on_trimmed_again (GObject      *source,
                  GAsyncResult *result,
                  gpointer      data)
{
  g_autoptr(LlmEngine) self = data;
  g_autoptr(LlmTrimResult) trimmed = llm_governor_trim_finish (LLM_GOVERNOR (source), result, NULL);

  self->is_trimming_again = FALSE;
  settle_trim (self, trimmed);
}

static void
trim_again (LlmEngine  *self,
            LlmPressure level,
            guint64     target)
{
  if (self->is_trimming_again)
    return;
  self->is_trimming_again = TRUE;
  llm_governor_trim_async (self->governor, level, target, 0, on_trimmed_again, g_object_ref (self));
}

/* While somebody holds a trim, what grew during a call goes again behind it. */
void
llm_engine_memory_job_ended (LlmEngine *self)
{
  LlmPressure level = LLM_PRESSURE_NONE;
  GHashTableIter iter;
  gpointer held;

  g_hash_table_iter_init (&iter, self->holds);
  while (g_hash_table_iter_next (&iter, NULL, &held))
    level = MAX (level, (LlmPressure) GPOINTER_TO_UINT (held));
  if (level != LLM_PRESSURE_NONE && self->n_jobs == 0)
    trim_again (self, level, 0);
}

void
llm_engine_memory_caller_gone (LlmEngine  *self,
                               const char *connection)
{
  g_hash_table_remove (self->holds, connection);
}

static void
on_trimmed (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmEngine *self = g_task_get_source_object (task);
  g_autoptr(LlmTrimResult) trimmed = llm_governor_trim_finish (LLM_GOVERNOR (source), result, NULL);
  GVariantDict dict;

  self->counters.trims++;
  settle_trim (self, trimmed);
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "freed", "t", trimmed->freed);
  g_variant_dict_insert (&dict, "duration-ms", "d", trimmed->duration_ms);
  g_variant_dict_insert (&dict, "steps", "^as", trimmed->steps);
  g_task_return_pointer (task, g_variant_ref_sink (g_variant_dict_end (&dict)),
                         (GDestroyNotify) g_variant_unref);
}

void
llm_engine_trim_async (LlmEngine          *self,
                       LlmCaller          *caller,
                       const char         *level_name,
                       LlmCallOptions     *options,
                       GAsyncReadyCallback callback,
                       gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);
  guint64 deadline_ms = llm_call_options_get_uint (options, LLMSVC_OPTION_DEADLINE_MS, 0);
  LlmPressure level;

  if (!llm_pressure_parse_level (level_name, &level))
    {
      g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                               "There is no level “%s”; the levels are low, medium and critical",
                               level_name);
      g_object_unref (task);
      return;
    }
  if (llm_call_options_get_boolean (options, LLMSVC_OPTION_HOLD, FALSE))
    g_hash_table_insert (self->holds, g_strdup (caller->connection), GUINT_TO_POINTER (level));
  llm_governor_trim_async (self->governor, level,
                           llm_call_options_get_uint (options, LLMSVC_OPTION_TARGET_BYTES, 0),
                           deadline_ms > 0 ? llm_clock_now_us () + (gint64) deadline_ms * 1000 : 0,
                           on_trimmed, task);
}

GVariant *
llm_engine_trim_finish (LlmEngine    *self,
                        GAsyncResult *result,
                        GError      **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

/* --- the budget --- */

/* With no budget set, the service leaves a quarter of the machine to others. */
static void
apply_budget (LlmEngine *self,
              guint64    bytes)
{
  guint64 total, available;

  self->budget = bytes;
  if (bytes == 0 && llm_sysinfo_read_meminfo (NULL, &total, &available, NULL))
    bytes = total / 4 * 3;
  llm_ledger_set_budget (self->ledger, bytes);
}

static void
on_trimmed_to_budget (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmEngine *self = g_task_get_source_object (task);
  g_autoptr(LlmTrimResult) trimmed = llm_governor_trim_finish (LLM_GOVERNOR (source), result, NULL);

  settle_trim (self, trimmed);
  g_task_return_boolean (task, TRUE);
}

void
llm_engine_set_budget_async (LlmEngine          *self,
                             LlmCaller          *caller,
                             LlmCallOptions     *options,
                             GAsyncReadyCallback callback,
                             gpointer            data)
{
  GTask *task = g_task_new (self, NULL, callback, data);
  const char *app_id = llm_call_options_get_string (options, LLMSVC_OPTION_APP_ID, NULL);
  guint64 bytes = llm_call_options_get_uint (options, LLMSVC_OPTION_BYTES, 0);
  guint64 held = llm_ledger_get_total (self->ledger);

  if (!llm_call_options_has (options, LLMSVC_OPTION_BYTES) || app_id != NULL)
    {
      if (app_id != NULL)
        g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                                 "app-id: this service shares its memory evenly; set the budget of all");
      else
        g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
                                 "bytes: the option is missing; 0 lets the service decide");
      g_object_unref (task);
      return;
    }
  apply_budget (self, bytes);
  bytes = llm_ledger_get_budget (self->ledger);
  if (bytes == 0 || held <= bytes)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
      return;
    }
  llm_governor_trim_async (self->governor, LLM_PRESSURE_CRITICAL, held - bytes, 0,
                           on_trimmed_to_budget, task);
}

gboolean
llm_engine_set_budget_finish (LlmEngine    *self,
                              GAsyncResult *result,
                              GError      **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- once a second --- */

/* Whether the difference is worth telling: figures in bytes move with every call. */
static gboolean
has_changed (const LlmMemoryFigures *a,
             const LlmMemoryFigures *b)
{
  return a->pressure != b->pressure || a->budget != b->budget || a->resident != b->resident ||
         a->weights != b->weights || a->kv_resident != b->kv_resident ||
         memcmp (a->reclaimable, b->reclaimable, sizeof a->reclaimable) != 0;
}

static void
unload_when_idle (LlmEngine *self)
{
  gint64 idle_us = llm_clock_now_us () - self->idle_since_us;

  if (self->settings->idle_unload_s > 0 && self->model != NULL && self->n_jobs == 0 &&
      idle_us >= (gint64) self->settings->idle_unload_s * G_USEC_PER_SEC)
    trim_again (self, LLM_PRESSURE_CRITICAL, 0);
}

static void
trim_to_budget (LlmEngine *self)
{
  guint64 budget = llm_ledger_get_budget (self->ledger);
  guint64 held = llm_ledger_get_total (self->ledger);

  if (budget > 0 && held > budget)
    trim_again (self, LLM_PRESSURE_MEDIUM, held - budget);
}

static gboolean
on_tick (gpointer data)
{
  LlmEngine *self = data;
  LlmMemoryFigures figures;

  self->pressure = llm_pressure_read (NULL);
  unload_when_idle (self);
  trim_to_budget (self);
  llm_engine_get_memory (self, &figures);
  if (has_changed (&figures, &self->told))
    {
      self->told = figures;
      g_signal_emit_by_name (self, "memory-changed");
    }
  return G_SOURCE_CONTINUE;
}

void
llm_engine_memory_start (LlmEngine *self)
{
  llm_engine_add_reclaimers (self);
  apply_budget (self, self->settings->budget);
  self->pressure = llm_pressure_read (NULL);
  llm_engine_get_memory (self, &self->told);
  self->tick = g_timeout_add_seconds (1, on_tick, self);
}

void
llm_engine_memory_stop (LlmEngine *self)
{
  g_clear_handle_id (&self->tick, g_source_remove);
}
