/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls of the client that are about no context. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "client/llmsvc-client-private.h"

#include "common/llmsvc-names.h"
#include "llmsvc-error.h"
#include "values/llmsvc-message-private.h"
#include "values/llmsvc-options-private.h"

/* --- refresh --- */

static void
on_refreshed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GTask) task = data;
  GError *error = NULL;

  if (llmsvc_client_read_finish (result, &error))
    g_task_return_boolean (task, TRUE);
  else
    g_task_return_error (task, error);
}

/* A sandboxed app has its name from the sandbox, and one that it did not choose itself may
 * clash with what else is on its connection. */
static void
on_registered (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcClient *self = g_task_get_source_object (task);
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GError) error = NULL;

  reply = llmsvc_call_finish (result, NULL, &error);
  if (error != NULL && error->code != LLMSVC_ERROR_NOT_AUTHORIZED &&
      (self->has_own_app_id || error->code != LLMSVC_ERROR_CONFLICT))
    {
      g_task_return_error (task, g_steal_pointer (&error));
      return;
    }
  if (error != NULL)
    g_debug ("The app is not registered: %s", error->message);

  llmsvc_client_read_async (self, LLMSVC_CALL_REPEAT, g_task_get_cancellable (task), on_refreshed,
                            g_object_ref (task));
}

/**
 * llmsvc_client_refresh_async:
 * @self: a client
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when all is read
 * @user_data: for @callback
 *
 * Starts the service if it is not running, registers the app with it, and reads its
 * properties and models. There is no need for it: every other call does the first two, and
 * the properties follow the service; but this is what tells why an app can't have the name
 * that it was given.
 *
 * Since: 0.1
 */
void
llmsvc_client_refresh_async (LlmsvcClient        *self,
                             GCancellable        *cancellable,
                             GAsyncReadyCallback  callback,
                             gpointer             user_data)
{
  GTask *task;
  const LlmsvcCallInfo info = {
    LLMSVC_PATH, LLMSVC_INTERFACE, "Register", "()", LLMSVC_CALL_REPEAT,
  };

  g_return_if_fail (LLMSVC_IS_CLIENT (self));
  g_return_if_fail (self->peer != NULL);

  if (self->peer->app_id[0] == '\0')
    {
      llmsvc_client_read_async (self, LLMSVC_CALL_REPEAT, cancellable, callback, user_data);
      return;
    }

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_client_refresh_async);
  llmsvc_call_async (self->peer, NULL, &info,
                     g_variant_new ("(s@a{sv})", self->peer->app_id,
                                    llmsvc_options_take (NULL, NULL)),
                     cancellable, on_registered, task);
}

/**
 * llmsvc_client_refresh_finish:
 * @self: a client
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_AVAILABLE when there
 *   is no service, %LLMSVC_ERROR_CONFLICT when the connection has another app's name already
 *
 * Ends llmsvc_client_refresh_async().
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_refresh_finish (LlmsvcClient  *self,
                              GAsyncResult  *result,
                              GError       **error)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- simple methods --- */

/* @arguments: (transfer floating) (nullable); without, the call fails with @error (transfer
 * full). The result of its task is the reply. */
static void
call_service (LlmsvcClient        *self,
              const char          *method,
              const char          *reply_type,
              LlmsvcCallFlags      flags,
              GVariant            *arguments,
              GError              *error,
              GCancellable        *cancellable,
              GAsyncReadyCallback  callback,
              gpointer             user_data)
{
  const LlmsvcCallInfo info = { LLMSVC_PATH, LLMSVC_INTERFACE, method, reply_type, flags };

  if (arguments == NULL)
    g_task_report_error (self, callback, user_data, call_service, error);
  else
    llmsvc_call_async (self->peer, self, &info, arguments, cancellable, callback, user_data);
}

/**
 * llmsvc_client_prewarm_async:
 * @self: a client
 * @options: (nullable): options
 * @cancellable: (nullable): to stop waiting; the model is loaded all the same
 * @callback: (scope async): called when the model is loaded or can't be
 * @user_data: for @callback
 *
 * Loads the model now, because a question is about to come.
 *
 * Since: 0.1
 */
void
llmsvc_client_prewarm_async (LlmsvcClient        *self,
                             LlmsvcOptions       *options,
                             GCancellable        *cancellable,
                             GAsyncReadyCallback  callback,
                             gpointer             user_data)
{
  GVariant *taken;
  GError *error = NULL;

  g_return_if_fail (LLMSVC_IS_CLIENT (self));
  g_return_if_fail (self->peer != NULL);

  taken = llmsvc_options_take (options, &error);
  call_service (self, "Prewarm", "()", LLMSVC_CALL_REPEAT,
                taken != NULL ? g_variant_new ("(@a{sv})", taken) : NULL, error, cancellable,
                callback, user_data);
}

/**
 * llmsvc_client_prewarm_finish:
 * @self: a client
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, such as %LLMSVC_ERROR_NO_MODEL or
 *   %LLMSVC_ERROR_NO_MEMORY
 *
 * Ends llmsvc_client_prewarm_async().
 *
 * Returns: whether it is loaded; %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_prewarm_finish (LlmsvcClient  *self,
                              GAsyncResult  *result,
                              GError       **error)
{
  return llmsvc_call_succeeded (self, result, error);
}

/**
 * llmsvc_client_count_tokens_async:
 * @self: a client
 * @messages: (array length=n_messages): messages
 * @n_messages: how many there are
 * @options: (nullable): options; `system` is counted, too, and `raw` counts the texts alone
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when they are counted or can't be
 * @user_data: for @callback
 *
 * Counts what messages cost with the model's template, as the beginning of a conversation. A
 * prompt has a few tokens more, which open the answer.
 *
 * Since: 0.1
 */
void
llmsvc_client_count_tokens_async (LlmsvcClient         *self,
                                  LlmsvcMessage       **messages,
                                  gsize                 n_messages,
                                  LlmsvcOptions        *options,
                                  GCancellable         *cancellable,
                                  GAsyncReadyCallback   callback,
                                  gpointer              user_data)
{
  GVariant *arguments;
  GError *error = NULL;

  g_return_if_fail (LLMSVC_IS_CLIENT (self));
  g_return_if_fail (self->peer != NULL);
  g_return_if_fail (messages != NULL || n_messages == 0);

  arguments = llmsvc_messages_to_arguments (messages, n_messages, options, &error);
  call_service (self, "CountTokens", "(u)", LLMSVC_CALL_REPEAT, arguments, error, cancellable,
                callback, user_data);
}

/**
 * llmsvc_client_count_tokens_finish:
 * @self: a client
 * @result: given to the callback
 * @tokens: (out): how many tokens
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Ends llmsvc_client_count_tokens_async().
 *
 * Returns: (skip): whether they are counted; %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_count_tokens_finish (LlmsvcClient  *self,
                                   GAsyncResult  *result,
                                   guint         *tokens,
                                   GError       **error)
{
  g_autoptr(LlmsvcReply) reply = llmsvc_task_finish (self, result, error);

  if (reply != NULL)
    g_variant_get (reply->body, "(u)", tokens);
  return reply != NULL;
}

/**
 * llmsvc_client_select_model_async:
 * @self: a client
 * @model_id: the [property@Llmsvc.Model:id] of an installed model
 * @cancellable: (nullable): to stop waiting; the model may be changed all the same
 * @callback: (scope async): called when it is changed or not
 * @user_data: for @callback
 *
 * Changes the model for everyone. The system may ask the user for permission, and the call
 * waits for that.
 *
 * Since: 0.1
 */
void
llmsvc_client_select_model_async (LlmsvcClient        *self,
                                  const char          *model_id,
                                  GCancellable        *cancellable,
                                  GAsyncReadyCallback  callback,
                                  gpointer             user_data)
{
  GVariant *arguments = NULL;
  GError *error = NULL;

  g_return_if_fail (LLMSVC_IS_CLIENT (self));
  g_return_if_fail (self->peer != NULL);
  g_return_if_fail (model_id != NULL);

  if (llmsvc_text_check (model_id, "model", &error))
    arguments = g_variant_new ("(s@a{sv})", model_id, llmsvc_options_take (NULL, NULL));
  call_service (self, "SelectModel", "()", LLMSVC_CALL_REPEAT | LLMSVC_CALL_INTERACTIVE, arguments,
                error, cancellable, callback, user_data);
}

/**
 * llmsvc_client_select_model_finish:
 * @self: a client
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, such as %LLMSVC_ERROR_NOT_FOUND,
 *   %LLMSVC_ERROR_NOT_AUTHORIZED or %LLMSVC_ERROR_INVALID_MODEL
 *
 * Ends llmsvc_client_select_model_async().
 *
 * Returns: whether it is changed; %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_select_model_finish (LlmsvcClient  *self,
                                   GAsyncResult  *result,
                                   GError       **error)
{
  return llmsvc_call_succeeded (self, result, error);
}
