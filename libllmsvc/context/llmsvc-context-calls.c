/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Calls that change a context without an answer, copy or end it. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-context-private.h"

#include "calls/llmsvc-make.h"
#include "common/llmsvc-names.h"
#include "context/llmsvc-turn.h"
#include "values/llmsvc-message-private.h"
#include "values/llmsvc-options-private.h"

/* --- changing it --- */

/* Of append and rollback: what the call has brought, until the context is read. */
static void
on_changed_read (GObject      *source,
                 GAsyncResult *result,
                 gpointer      data)
{
  g_autoptr(GTask) task = data;

  llmsvc_context_read_done (result, "after its change");
  g_task_return_int (task, GPOINTER_TO_SIZE (g_task_get_task_data (task)));
}

static void
on_changed (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(LlmsvcReply) reply = NULL;
  GError *error = NULL;
  guint32 tokens = 0;

  reply = llmsvc_turn_call_finish (result, NULL, &error);
  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  if (g_variant_is_of_type (reply->body, G_VARIANT_TYPE ("(u)")))
    g_variant_get (reply->body, "(u)", &tokens);
  g_task_set_task_data (task, GSIZE_TO_POINTER (MIN (tokens, G_MAXINT32)), NULL);
  llmsvc_context_read_async (g_task_get_source_object (task), LLMSVC_CALL_NO_START,
                             g_task_get_cancellable (task), on_changed_read,
                             g_object_ref (task));
}

/**
 * llmsvc_context_append_async:
 * @self: a context
 * @messages: (array length=n_messages): what to add
 * @n_messages: how many there are
 * @options: (nullable): options
 * @cancellable: (nullable): to stop waiting; the messages may be added all the same
 * @callback: (scope async): called when they are added or not
 * @user_data: for @callback
 *
 * Adds messages without an answer. The service reads them in ahead of the next question, when
 * there is time; with the option `wait` the call waits for that. Messages that are sent again
 * with the option `request-id` of the first time are not added twice.
 *
 * Since: 0.1
 */
void
llmsvc_context_append_async (LlmsvcContext        *self,
                             LlmsvcMessage       **messages,
                             gsize                 n_messages,
                             LlmsvcOptions        *options,
                             GCancellable         *cancellable,
                             GAsyncReadyCallback   callback,
                             gpointer              user_data)
{
  g_autoptr(GTask) task = NULL;
  GVariant *arguments;
  GError *error = NULL;

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);
  g_return_if_fail (messages != NULL || n_messages == 0);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_append_async);
  arguments = llmsvc_messages_to_arguments (messages, n_messages, options, &error);
  if (arguments == NULL)
    g_task_return_error (task, error);
  else
    llmsvc_turn_call_async (self, "Append", "(u)", arguments, cancellable, on_changed,
                            g_object_ref (task));
}

/**
 * llmsvc_context_append_finish:
 * @self: a context
 * @result: given to the callback
 * @tokens: (out) (optional): how many tokens were added
 * @error: return location for an error of %LLMSVC_ERROR, such as %LLMSVC_ERROR_CONTEXT_BUSY,
 *   %LLMSVC_ERROR_CONTEXT_FULL, %LLMSVC_ERROR_CONFLICT (the `request-id` is that of another
 *   request), %LLMSVC_ERROR_LOST or %LLMSVC_ERROR_LOST_KEPT
 *
 * Ends llmsvc_context_append_async().
 *
 * Returns: (skip): whether they are added; %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_append_finish (LlmsvcContext  *self,
                              GAsyncResult   *result,
                              guint          *tokens,
                              GError        **error)
{
  gssize added;

  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  added = g_task_propagate_int (G_TASK (result), error);
  if (added >= 0 && tokens != NULL)
    *tokens = (guint) added;
  return added >= 0;
}

/**
 * llmsvc_context_rollback_async:
 * @self: a context
 * @n_turns: how many turns
 * @options: (nullable): options
 * @cancellable: (nullable): to stop waiting; the turns may be forgotten all the same
 * @callback: (scope async): called when they are forgotten or not
 * @user_data: for @callback
 *
 * Forgets the last @n_turns turns: questions and their answers, and what was appended.
 *
 * Since: 0.1
 */
void
llmsvc_context_rollback_async (LlmsvcContext       *self,
                               guint                n_turns,
                               LlmsvcOptions       *options,
                               GCancellable        *cancellable,
                               GAsyncReadyCallback  callback,
                               gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;
  GVariant *taken;
  GError *error = NULL;

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_rollback_async);
  taken = llmsvc_options_take (options, &error);
  if (taken == NULL)
    g_task_return_error (task, error);
  else
    llmsvc_turn_call_async (self, "Rollback", "()", g_variant_new ("(u@a{sv})", n_turns, taken),
                            cancellable, on_changed, g_object_ref (task));
}

/**
 * llmsvc_context_rollback_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, such as %LLMSVC_ERROR_CONTEXT_BUSY,
 *   %LLMSVC_ERROR_CONFLICT, %LLMSVC_ERROR_LOST or %LLMSVC_ERROR_LOST_KEPT
 *
 * Ends llmsvc_context_rollback_async().
 *
 * Returns: whether they are forgotten; %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_rollback_finish (LlmsvcContext  *self,
                                GAsyncResult   *result,
                                GError        **error)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_int (G_TASK (result), error) >= 0;
}

/* --- a copy --- */

static void
on_forked (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcContext *self = g_task_get_source_object (task);
  g_autoptr(LlmsvcReply) made = NULL;
  GError *error = NULL;
  gboolean is_gone;

  made = llmsvc_make_finish (result, &is_gone, &error);
  if (made != NULL)
    {
      llmsvc_context_return (task, llmsvc_context_get_client (self), made,
                             g_task_get_task_data (task));
      return;
    }

  if (is_gone)
    {
      g_clear_error (&error);
      error = llmsvc_context_take_gone (self);
    }
  g_task_return_error (task, error);
}

/**
 * llmsvc_context_fork_async:
 * @self: a context
 * @options: (nullable): options, as for llmsvc_client_create_context_async()
 * @cancellable: (nullable): to stop; a context without a name that comes too late is closed
 * @callback: (scope async): called when it is made or not
 * @user_data: for @callback
 *
 * Makes a context with the same content, which goes on independently. What they have in
 * common takes memory once. The options `system` and `messages` add messages behind those of
 * @self.
 *
 * Since: 0.1
 */
void
llmsvc_context_fork_async (LlmsvcContext       *self,
                           LlmsvcOptions       *options,
                           GCancellable        *cancellable,
                           GAsyncReadyCallback  callback,
                           gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;
  GVariant *taken;
  GError *error = NULL;
  const char *name;
  LlmsvcCallInfo info = {
    .interface = LLMSVC_CONTEXT_INTERFACE,
    .method = "Fork",
    .reply_type = "(o)",
  };

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_fork_async);
  taken = llmsvc_context_check_open (self, &error) ? llmsvc_options_take (options, &error) : NULL;
  if (taken == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  name = llmsvc_options_get_string (options, LLMSVC_OPTION_NAME);
  g_task_set_task_data (task, g_strdup (name), g_free);
  info.path = llmsvc_context_get_path (self);
  llmsvc_make_async (llmsvc_context_get_peer (self), &info, g_variant_new ("(@a{sv})", taken),
                     name != NULL, cancellable, on_forked, g_steal_pointer (&task));
}

/**
 * llmsvc_context_fork_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR, such as
 *   %LLMSVC_ERROR_QUOTA_EXCEEDED, %LLMSVC_ERROR_ALREADY_EXISTS or %LLMSVC_ERROR_CONTEXT_BUSY
 *
 * Ends llmsvc_context_fork_async().
 *
 * Returns: (transfer full): the new context
 *
 * Since: 0.1
 */
LlmsvcContext *
llmsvc_context_fork_finish (LlmsvcContext  *self,
                            GAsyncResult   *result,
                            GError        **error)
{
  return llmsvc_task_finish (self, result, error);
}

/* --- its end --- */

static void
on_closed (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcContext *self = LLMSVC_CONTEXT (source);
  g_autoptr(LlmsvcReply) reply = NULL;
  GError *error = NULL;

  reply = llmsvc_task_finish (self, result, &error);
  /* one that is gone is closed */
  if (reply == NULL && !llmsvc_context_get_is_closed (self))
    {
      g_task_return_error (task, error);
      return;
    }

  g_clear_error (&error);
  llmsvc_context_mark_closed (self, "closed");
  g_task_return_boolean (task, TRUE);
}

/**
 * llmsvc_context_close_async:
 * @self: a context
 * @cancellable: (nullable): to stop waiting; the context may be closed all the same
 * @callback: (scope async): called when it is closed or not
 * @user_data: for @callback
 *
 * Ends the context and forgets its content, stored or not. Closing one that has ended is no
 * error. To keep a named context, just drop the object.
 *
 * Since: 0.1
 */
void
llmsvc_context_close_async (LlmsvcContext       *self,
                            GCancellable        *cancellable,
                            GAsyncReadyCallback  callback,
                            gpointer             user_data)
{
  GTask *task;

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);

  task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_close_async);
  llmsvc_context_call_async (self, "Close", "()", LLMSVC_CALL_REPEAT,
                             g_variant_new ("(@a{sv})", llmsvc_options_take (NULL, NULL)),
                             cancellable, on_closed, task);
}

/**
 * llmsvc_context_close_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Ends llmsvc_context_close_async().
 *
 * Returns: whether it has ended; %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_close_finish (LlmsvcContext  *self,
                             GAsyncResult   *result,
                             GError        **error)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}
