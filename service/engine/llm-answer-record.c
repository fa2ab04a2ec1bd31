/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/llm-answer-record.h"

#include <string.h>

#include "common/llmsvc-error.h"

/* Of all such records, for those who look for them: journalctl MESSAGE_ID=… */
#define MESSAGE_ID "5d2f6a0e9b3c4c1f8a7e1b64c0d93f25"

void
llm_answer_record_take (LlmAnswerRecord        *self,
                        const LlmRequestResult *result)
{
  self->finish = result->finish;
  self->n_prompt = result->n_prompt;
  self->n_reused = result->n_reused;
  self->n_output = result->tokens != NULL ? result->tokens->len : 0;
  self->has_slo = TRUE;
  self->slo = result->slo;
  self->queue_ms = result->queue_ms;
  self->ttft_ms = result->ttft_ms;
  self->tpot_ms = result->tpot_ms;
}

/* "Overloaded": the name of an error, whose message may be about anything. */
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

/* In the decimals of no language. */
static char *
format_ms (double ms)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  return g_strdup (g_ascii_formatd (buffer, sizeof buffer, "%.1f", ms));
}

static const char *
get_met (const LlmAnswerRecord *self,
         const GError          *error)
{
  if (!self->has_slo)
    return NULL;

  return error == NULL && llm_slo_is_met (&self->slo, self->ttft_ms, self->tpot_ms) ? "yes" : "no";
}

/* How it ended, in the words of “finish-reason”, and more words for when there was none. */
static const char *
get_end (const LlmAnswerRecord *self,
         const GError          *error)
{
  if (error == NULL || (self->finish != LLM_FINISH_RUNNING && self->finish != LLM_FINISH_FAILED))
    return llm_finish_to_string (self->finish);
  if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED))
    return llm_finish_to_string (LLM_FINISH_CANCELLED);

  /* of one that was refused nothing was computed */
  return self->finish == LLM_FINISH_FAILED && self->queue_ms > 0 ? "failed" : "refused";
}

/* @message takes all that one wants to see at a glance. */
static void
send (const LlmAnswerRecord *self,
      const GError          *error,
      const char            *message,
      LlmJournal            *journal)
{
  gboolean has_run = self->finish != LLM_FINISH_RUNNING;
  gboolean has_first = self->ttft_ms > 0;
  LlmJournalField fields[] = {
    { "MESSAGE_ID", g_strdup (MESSAGE_ID) },
    { "LLM_APP", g_strdup (self->caller->app->id) },
    { "LLM_APP_KIND", g_strdup (llm_caller_kind_to_string (self->caller->kind)) },
    { "LLM_UID", format_count (self->caller->app->uid) },
    { "LLM_CONTEXT", g_strdup (self->context) },
    { "LLM_MODEL", g_strdup (self->model) },
    { "LLM_PROMPT_TOKENS", has_run ? format_count (self->n_prompt) : NULL },
    { "LLM_REUSED_TOKENS", has_run ? format_count (self->n_reused) : NULL },
    { "LLM_OUTPUT_TOKENS", has_run ? format_count (self->n_output) : NULL },
    { "LLM_QUEUE_MS", self->queue_ms > 0 ? format_ms (self->queue_ms) : NULL },
    { "LLM_TTFT_MS", has_first ? format_ms (self->ttft_ms) : NULL },
    { "LLM_TPOT_MS", has_first ? format_ms (self->tpot_ms) : NULL },
    { "LLM_TOTAL_MS", format_ms (self->total_ms) },
    { "LLM_SLO", g_strdup (self->has_slo ? llm_slo_class_to_string (self->slo.class) : NULL) },
    { "LLM_SLO_TTFT_MS", self->has_slo ? format_ms (self->slo.ttft_ms) : NULL },
    { "LLM_SLO_TPOT_MS", self->has_slo ? format_ms (self->slo.tpot_ms) : NULL },
    { "LLM_SLO_MET", g_strdup (get_met (self, error)) },
    { "LLM_END", g_strdup (get_end (self, error)) },
    { "LLM_ERROR", error != NULL ? get_error_name (error) : NULL },
    { NULL, NULL },
  };

  llm_journal_send (journal, message, fields);
  for (gsize i = 0; fields[i].name != NULL; i++)
    g_free (fields[i].value);
}

void
llm_answer_record_send (const LlmAnswerRecord *self,
                        const GError          *error,
                        LlmJournal            *journal)
{
  const char *app = self->caller->app->id;
  guint n_read = self->n_prompt - MIN (self->n_reused, self->n_prompt);
  g_autofree char *message = NULL;

  message = g_strdup_printf ("Answer for %s: %s, %u tokens read, %u reused, %u written, the first "
                             "after %.0f ms, %.0f ms in all",
                             *app != '\0' ? app : "a program", get_end (self, error), n_read,
                             self->n_reused, self->n_output, self->ttft_ms, self->total_ms);
  if (llm_journal_is_connected (journal))
    send (self, error, message, journal);
  else
    g_debug ("%s", message);
}
