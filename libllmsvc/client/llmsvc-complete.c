/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Single questions. The bus's Complete can't be stopped without leaving the bus, so that a
 * question is asked in a hidden context: made empty, which never waits for the
 * model, asked everything at once, and closed. Only a prompt without a template goes through
 * Complete, which no context takes.
 */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "client/llmsvc-client-private.h"

#include <glib/gi18n-lib.h>

#include "calls/llmsvc-make.h"
#include "common/llmsvc-names.h"
#include "context/llmsvc-context-private.h"
#include "llmsvc-error.h"
#include "values/llmsvc-answer-private.h"
#include "values/llmsvc-message-private.h"
#include "values/llmsvc-options-private.h"

typedef struct
{
  GVariant *messages;     /* (owned): a(ssa{sv}) */
  GVariantDict *options;  /* (owned): of Generate */
  GStrv ignored;          /* what Complete does not take, and Generate would */
  LlmsvcContext *context; /* (nullable) (owned) */
} Question;

static void
question_free (gpointer data)
{
  Question *question = data;

  g_clear_pointer (&question->messages, g_variant_unref);
  g_clear_pointer (&question->options, g_variant_dict_unref);
  g_strfreev (question->ignored);
  g_clear_object (&question->context);
  g_free (question);
}

/* --- what is asked --- */

static void
add_message (GVariantBuilder *builder,
             const char      *role,
             const char      *text)
{
  g_variant_builder_add (builder, "(ssa{sv})", role, text, NULL);
}

/* (transfer floating): the options `system` and `messages`, and the prompt after them. */
static GVariant *
make_messages (GVariantDict *options,
               const char   *prompt)
{
  g_autoptr(GVariant) earlier = NULL;
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("a(ssa{sv})"));
  const char *system;

  if (g_variant_dict_lookup (options, "system", "&s", &system))
    add_message (&builder, LLMSVC_ROLE_SYSTEM, system);
  earlier = g_variant_dict_lookup_value (options, "messages", G_VARIANT_TYPE ("a(ssa{sv})"));
  for (gsize i = 0; earlier != NULL && i < g_variant_n_children (earlier); i++)
    {
      g_autoptr(GVariant) message = g_variant_get_child_value (earlier, i);

      g_variant_builder_add_value (&builder, message);
    }
  add_message (&builder, LLMSVC_ROLE_USER, prompt);
  return g_variant_builder_end (&builder);
}

/* What speaks of a context's turns has no meaning here, and the service says so of Complete.
 * (transfer full) (nullable): their keys; NULL with @error set when one is required. */
static GStrv
take_out_foreign (GVariantDict  *options,
                  GError       **error)
{
  g_autoptr(GStrvBuilder) keys = g_strv_builder_new ();
  g_autoptr(GVariant) required = NULL;

  required = g_variant_dict_lookup_value (options, "require", G_VARIANT_TYPE_STRING_ARRAY);
  for (guint i = 0; i < LLMSVC_N_OPTIONS; i++)
    {
      const LlmsvcOptionInfo *info = llmsvc_option_get_info ((LlmsvcOption) i);
      g_autofree const char **names = required != NULL ? g_variant_get_strv (required, NULL) : NULL;

      if ((info->calls & LLMSVC_CALL_GENERATE) == 0 || (info->calls & LLMSVC_CALL_COMPLETE) != 0 ||
          !g_variant_dict_remove (options, info->key))
        continue;
      if (names != NULL && g_strv_contains (names, info->key))
        {
          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                       _("A single question does not take the option “%s”"), info->key);
          return NULL;
        }
      g_strv_builder_add (keys, info->key);
    }

  g_variant_dict_remove (options, "system");
  g_variant_dict_remove (options, "messages");
  g_variant_dict_remove (options, "raw");
  return g_strv_builder_end (keys);
}

/* --- asking it --- */

static void
on_answered (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(GTask) task = data;
  Question *question = g_task_get_task_data (task);
  g_autoptr(LlmsvcAnswer) answer = NULL;
  GError *error = NULL;

  answer = g_task_propagate_pointer (G_TASK (result), &error);
  g_clear_object (&question->context);
  if (answer == NULL)
    g_task_return_error (task, error);
  else
    g_task_return_pointer (task,
                           llmsvc_answer_new_standalone (
                             answer, (const char *const *) question->ignored),
                           g_object_unref);
}

static void
on_begun (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(LlmsvcReader) reader = NULL;
  g_autoptr(GTask) reading = NULL;
  GError *error = NULL;

  reader = llmsvc_context_begin_finish (result, &error);
  if (reader == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  reading = llmsvc_task_new (NULL, g_task_get_cancellable (task), on_answered,
                             g_object_ref (task), on_begun);
  llmsvc_reader_drain (reader, reading);
}

static void
on_made (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(GTask) task = data;
  Question *question = g_task_get_task_data (task);
  g_autoptr(LlmsvcReply) made = NULL;
  GError *error = NULL;

  made = llmsvc_make_finish (result, NULL, &error);
  if (made == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  question->context = llmsvc_context_new_made (g_task_get_source_object (task), made, NULL);
  llmsvc_context_begin_async (question->context, question->messages, question->options, TRUE,
                              g_task_get_cancellable (task), on_begun, g_object_ref (task));
}

static void
ask_in_context (GTask        *task,
                const char   *prompt,
                GVariantDict *options)
{
  LlmsvcClient *self = g_task_get_source_object (task);
  Question *question = g_new0 (Question, 1);
  GError *error = NULL;
  const LlmsvcCallInfo info = {
    LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext", "(o)", LLMSVC_CALL_REPEAT,
  };

  g_task_set_task_data (task, question, question_free);
  question->messages = g_variant_ref_sink (make_messages (options, prompt));
  question->ignored = take_out_foreign (options, &error);
  if (question->ignored == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  question->options = g_variant_dict_ref (options);
  llmsvc_make_async (self->peer, &info,
                     g_variant_new ("(@a{sv})", llmsvc_options_take (NULL, NULL)), FALSE,
                     g_task_get_cancellable (task), on_made, g_object_ref (task));
}

static void
on_completed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GVariant) results = NULL;
  GError *error = NULL;
  const char *text;

  reply = llmsvc_call_finish (result, NULL, &error);
  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  g_variant_get (reply->body, "(&s@a{sv})", &text, &results);
  g_task_return_pointer (task, llmsvc_answer_new (text, results), g_object_unref);
}

static void
complete_raw (GTask        *task,
              const char   *prompt,
              GVariantDict *options)
{
  LlmsvcClient *self = g_task_get_source_object (task);
  const LlmsvcCallInfo info = {
    LLMSVC_PATH, LLMSVC_INTERFACE, "Complete", "(sa{sv})", LLMSVC_CALL_NONE,
  };

  llmsvc_call_async (self->peer, NULL, &info,
                     g_variant_new ("(s@a{sv})", prompt, g_variant_dict_end (options)),
                     g_task_get_cancellable (task), on_completed, g_object_ref (task));
}

/**
 * llmsvc_client_complete_async:
 * @self: a client
 * @prompt: what the user says
 * @options: (nullable): options; `system` and `messages` come before @prompt
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when the answer is whole or has failed
 * @user_data: for @callback
 *
 * Asks one question and waits for the answer, however long it takes; nothing of it is kept.
 * Cancelling stops it at the service, except with the options `raw` and `suffix`, where it stops
 * waiting alone.
 *
 * Since: 0.1
 */
void
llmsvc_client_complete_async (LlmsvcClient        *self,
                              const char          *prompt,
                              LlmsvcOptions       *options,
                              GCancellable        *cancellable,
                              GAsyncReadyCallback  callback,
                              gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;
  g_autoptr(GVariantDict) dict = NULL;
  GError *error = NULL;

  g_return_if_fail (LLMSVC_IS_CLIENT (self));
  g_return_if_fail (self->peer != NULL);
  g_return_if_fail (prompt != NULL);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_client_complete_async);
  dict = llmsvc_options_begin (options, &error);
  if (dict == NULL || !llmsvc_text_check (prompt, "prompt", &error))
    g_task_return_error (task, error);
  else if (llmsvc_options_is_true (options, LLMSVC_OPTION_RAW)
           || (options != NULL && llmsvc_options_get_value (options, "suffix") != NULL))
    complete_raw (task, prompt, dict);
  else
    ask_in_context (task, prompt, dict);
}

/**
 * llmsvc_client_complete_finish:
 * @self: a client
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, such as %LLMSVC_ERROR_NO_MODEL,
 *   %LLMSVC_ERROR_OVERLOADED, %LLMSVC_ERROR_CANCELLED or %LLMSVC_ERROR_LOST
 *
 * Ends llmsvc_client_complete_async().
 *
 * Returns: (transfer full): the answer
 *
 * Since: 0.1
 */
LlmsvcAnswer *
llmsvc_client_complete_finish (LlmsvcClient  *self,
                               GAsyncResult  *result,
                               GError       **error)
{
  return llmsvc_task_finish (self, result, error);
}
