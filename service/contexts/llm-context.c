/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "contexts/llm-context.h"

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-names.h"

enum
{
  CLOSED,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (LlmContext, llm_context, G_TYPE_OBJECT)

/* --- the object --- */

static void
llm_context_finalize (GObject *object)
{
  LlmContext *self = LLM_CONTEXT (object);

  g_clear_pointer (&self->conversation, llm_conversation_free);
  llm_context_count (self);
  llm_ledger_unref (self->ledger);
  g_free (self->id);
  g_free (self->name);
  g_clear_pointer (&self->app, llm_app_unref);
  g_free (self->connection);
  g_free (self->slo);
  g_free (self->counted_by);
  g_free (self->damage);
  G_OBJECT_CLASS (llm_context_parent_class)->finalize (object);
}

static void
llm_context_class_init (LlmContextClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_context_finalize;
  signals[CLOSED] = g_signal_new ("closed", LLM_TYPE_CONTEXT, G_SIGNAL_RUN_LAST, 0, NULL, NULL,
                                  NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void
llm_context_init (LlmContext *self)
{
}

LlmContext *
llm_context_new (LlmApp      *app,
                 const char  *id,
                 guint64      session,
                 LlmLedger   *ledger,
                 char *const *identity)
{
  LlmContext *self = g_object_new (LLM_TYPE_CONTEXT, NULL);

  self->ledger = llm_ledger_ref (ledger);
  self->identity = identity;
  self->app = llm_app_ref (app);
  self->id = g_strdup (id);
  self->name = g_strdup ("");
  self->slo = g_strdup ("responsive");
  self->session = session;
  self->created = self->used = llm_clock_wall_s ();
  return self;
}

gboolean
llm_context_is_named (LlmContext *self)
{
  return *self->name != '\0';
}

guint
llm_context_get_tokens (LlmContext *self)
{
  return self->conversation != NULL
           ? llm_conversation_count_tokens (self->conversation, *self->identity)
           : self->n_counted;
}

gboolean
llm_context_is_counted (LlmContext *self)
{
  const char *identity = *self->identity;

  return self->conversation != NULL
           ? llm_conversation_is_counted (self->conversation, identity)
           : identity != NULL && g_strcmp0 (self->counted_by, identity) == 0;
}

guint64
llm_context_get_bytes (LlmContext *self)
{
  return self->conversation != NULL ? llm_conversation_get_bytes (self->conversation)
                                    : self->stored_bytes;
}

void
llm_context_count (LlmContext *self)
{
  guint64 bytes = self->conversation != NULL ? llm_conversation_get_bytes (self->conversation) : 0;

  llm_ledger_add (self->ledger, LLM_HOLDER_TEXT, bytes);
  llm_ledger_remove (self->ledger, LLM_HOLDER_TEXT, self->counted_bytes);
  self->counted_bytes = bytes;
}

guint64
llm_context_get_forgettable (LlmContext *self)
{
  return llm_context_is_named (self) && !self->is_busy && self->n_loading == 0
           ? self->counted_bytes
           : 0;
}

void
llm_context_forget (LlmContext *self)
{
  g_assert (llm_context_is_named (self) && !self->is_busy && self->n_loading == 0);
  self->n_counted = llm_context_get_tokens (self);
  g_free (self->counted_by);
  self->counted_by = llm_context_is_counted (self) ? g_strdup (*self->identity) : NULL;
  self->stored_bytes = llm_context_get_bytes (self);
  g_clear_pointer (&self->conversation, llm_conversation_free);
  llm_context_count (self);
}

const char *
llm_context_get_residency (LlmContext *self)
{
  return self->damage != NULL ? "damaged" : llm_residency_to_string (self->residency);
}

guint
llm_context_get_limit (LlmContext *self,
                       LlmModel   *model)
{
  guint n_ctx = llm_model_get_hparams (model)->n_ctx;

  return self->max_tokens > 0 ? MIN (self->max_tokens, n_ctx) : n_ctx;
}

gboolean
llm_context_may_see (LlmContext *self,
                     LlmCaller  *caller)
{
  return caller->app == self->app;
}

/* --- one call at a time --- */

gboolean
llm_context_claim (LlmContext    *self,
                   LlmCallOptions *options,
                   GError       **error)
{
  if (self->is_closed)
    return llm_fail (error, LLMSVC_ERROR_NOT_FOUND, "The context was closed");
  if (self->is_busy)
    return llm_fail (error, LLMSVC_ERROR_CONTEXT_BUSY,
                     "Another call of this context runs; wait for its end or cancel it");
  if (options != NULL && llm_call_options_has (options, LLMSVC_OPTION_IF_REVISION))
    {
      guint64 wanted = llm_call_options_get_uint (options, LLMSVC_OPTION_IF_REVISION, 0);

      if (wanted != self->revision)
        return llm_fail (error, LLMSVC_ERROR_CONFLICT,
                         "The context is at revision %ju, not %ju; read its messages again",
                         self->revision, wanted);
    }
  self->is_busy = TRUE;
  return TRUE;
}

void
llm_context_release (LlmContext *self)
{
  GTask *task;

  self->is_busy = FALSE;
  while (!self->is_busy && (task = g_queue_pop_head (&self->waiting_idle)) != NULL)
    {
      g_task_return_boolean (task, TRUE);
      g_object_unref (task);
    }
}

/* --- what is stored --- */

gboolean
llm_context_check (LlmContext *self,
                   GError    **error)
{
  if (self->damage == NULL)
    return TRUE;
  if (*self->damage == '\0')
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The stored data of the context “%s” is damaged, so it can't be used. Close "
                     "the context to delete what is left of it and to use its name again: %s/%s",
                     self->name, LLMSVC_CONTEXTS_PATH, self->id);
  return llm_fail (error, LLMSVC_ERROR_STORAGE,
                   "The text of the context “%s” was lost when the context database was damaged; "
                   "the damaged database was kept as %s. Close the context to use its name again: "
                   "%s/%s", self->name, self->damage, LLMSVC_CONTEXTS_PATH, self->id);
}
