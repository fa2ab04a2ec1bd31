/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/calls/llm-generation-private.h"

#include <string.h>

#include "base/llm-clock.h"
#include "base/llm-journal.h"
#include "common/llmsvc-error.h"

/* The id of all such records: journalctl MESSAGE_ID=… */
#define MESSAGE_ID "5d2f6a0e9b3c4c1f8a7e1b64c0d93f25"

/* "Overloaded": the name of an error. Its message is left out, because it may hold anything. */
static char *
get_error_name (const GError *error)
{
  g_autofree char *name = NULL;
  const char *dot;

  if (error->domain != LLMSVC_ERROR)
    return g_strdup ("Failed");
  name = g_dbus_error_encode_gerror (error);
  dot = strrchr (name, '.');

  return g_strdup (dot != NULL ? dot + 1 : name);
}

static char *
format_count (guint64 n)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT, n);
}

/* Formats a number independently of the locale. */
static char *
format_decimal (double value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  return g_strdup (g_ascii_formatd (buffer, sizeof buffer, "%.1f", value));
}

/* How it ended: a “finish-reason”, or a word of its own without an answer. */
static const char *
get_end (const LlmRequestResult *result,
         const GError           *error)
{
  if (error == NULL
      || (result->finish != LLM_FINISH_RUNNING && result->finish != LLM_FINISH_FAILED))
    return llm_finish_to_string (result->finish);
  if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED))
    return llm_finish_to_string (LLM_FINISH_CANCELLED);

  /* a refused request computed nothing */
  return result->finish == LLM_FINISH_FAILED && result->queue_ms > 0 ? "failed" : "refused";
}

void
llm_generation_send_record (LlmGeneration *self,
                            const GError  *error)
{
  static const LlmRequestResult nothing = { LLM_FINISH_RUNNING };
  const LlmRequestResult *result = self->result != NULL ? self->result : &nothing;
  const LlmContext *context = self->call->context;
  const LlmModelInfo *model = self->engine->use.active;
  const LlmApp *app = self->caller->app;
  const LlmSlo *slo = &result->slo;
  /* FALSE: it was refused before it had a request */
  gboolean has_run = result->finish != LLM_FINISH_RUNNING;
  gboolean has_first = result->ttft_ms > 0;
  gboolean is_met = error == NULL && llm_slo_is_met (slo, result->ttft_ms, result->tpot_ms);
  guint n_output = result->tokens != NULL ? result->tokens->len : 0;
  guint n_read = result->n_prompt - MIN (result->n_reused, result->n_prompt);
  double total_ms = (llm_clock_now_us () - self->arrived_us) / 1000.0;
  g_autofree char *message = g_strdup_printf (
    "Answer for %s: %s, %u tokens read, %u reused, %u written, the first after %.0f ms, %.0f ms in "
    "all", *app->id != '\0' ? app->id : "a program", get_end (result, error), n_read,
    result->n_reused, n_output, result->ttft_ms, total_ms);
  LlmJournalField fields[] = {
    { "MESSAGE_ID", g_strdup (MESSAGE_ID) },
    { "LLM_APP", g_strdup (app->id) },
    { "LLM_APP_KIND", g_strdup (llm_caller_kind_to_string (self->caller->kind)) },
    { "LLM_UID", format_count (app->uid) },
    { "LLM_CONTEXT", g_strdup (context != NULL ? context->id : NULL) },
    { "LLM_MODEL", g_strdup (model != NULL ? model->id : NULL) },
    { "LLM_PROMPT_TOKENS", has_run ? format_count (result->n_prompt) : NULL },
    { "LLM_REUSED_TOKENS", has_run ? format_count (result->n_reused) : NULL },
    { "LLM_OUTPUT_TOKENS", has_run ? format_count (n_output) : NULL },
    { "LLM_SUB_MODEL", has_run && result->sub_model > 0 ? format_count (result->sub_model) : NULL },
    { "LLM_KV_BITS", result->kv_bits > 0 ? format_decimal (result->kv_bits) : NULL },
    { "LLM_QUEUE_MS", result->queue_ms > 0 ? format_decimal (result->queue_ms) : NULL },
    { "LLM_TTFT_MS", has_first ? format_decimal (result->ttft_ms) : NULL },
    { "LLM_TPOT_MS", has_first ? format_decimal (result->tpot_ms) : NULL },
    { "LLM_TOTAL_MS", format_decimal (total_ms) },
    { "LLM_SLO", g_strdup (has_run ? llm_slo_class_to_string (slo->class) : NULL) },
    { "LLM_SLO_TTFT_MS", has_run ? format_decimal (slo->ttft_ms) : NULL },
    { "LLM_SLO_TPOT_MS", has_run ? format_decimal (slo->tpot_ms) : NULL },
    { "LLM_SLO_MET", g_strdup (!has_run ? NULL : is_met ? "yes" : "no") },
    { "LLM_END", g_strdup (get_end (result, error)) },
    { "LLM_ERROR", error != NULL ? get_error_name (error) : NULL },
    { NULL, NULL },
  };

  /* the line that journalctl shows */
  if (llm_journal_is_connected (self->engine->journal))
    llm_journal_send (self->engine->journal, message, fields);
  else
    g_debug ("%s", message);
  for (gsize i = 0; fields[i].name != NULL; i++)
    g_free (fields[i].value);
}
