/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reading a context: its properties and messages. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-context-private.h"

#include <glib/gi18n-lib.h>

#include "llmsvc-error.h"
#include "values/llmsvc-message-private.h"
#include "values/llmsvc-options-private.h"

/* What a context can hold is far below; a service that sends more is out of order. */
#define MAX_MESSAGES 1000000
#define MAX_MESSAGES_BYTES (256 * 1024 * 1024)

/**
 * llmsvc_context_refresh_async:
 * @self: a context
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when they are read
 * @user_data: for @callback
 *
 * Reads [property@Llmsvc.Context:tokens], [property@Llmsvc.Context:revision] and
 * [property@Llmsvc.Context:residency] anew.
 *
 * Since: 0.1
 */
void
llmsvc_context_refresh_async (LlmsvcContext       *self,
                              GCancellable        *cancellable,
                              GAsyncReadyCallback  callback,
                              gpointer             user_data)
{
  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);

  llmsvc_context_read_async (self, LLMSVC_CALL_REPEAT, cancellable, callback, user_data);
}

/**
 * llmsvc_context_refresh_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_FOUND when the
 *   context has ended
 *
 * Ends llmsvc_context_refresh_async().
 *
 * Returns: %TRUE, or %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_refresh_finish (LlmsvcContext  *self,
                               GAsyncResult   *result,
                               GError        **error)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), FALSE);
  g_return_val_if_fail (g_task_is_valid (result, self), FALSE);

  return g_task_propagate_boolean (G_TASK (result), error);
}

typedef struct
{
  GPtrArray *messages;  /* (element-type LlmsvcMessage) (owned) */
  gsize bytes;
} Listing;

static void
listing_free (gpointer data)
{
  Listing *listing = data;

  g_clear_pointer (&listing->messages, g_ptr_array_unref);
  g_free (listing);
}

static void list_further (GTask *task);

static void
on_messages (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  g_autoptr(GTask) task = data;
  Listing *listing = g_task_get_task_data (task);
  GError *error = NULL;
  g_autoptr(LlmsvcReply) reply = llmsvc_task_finish (source, result, &error);
  g_autoptr(GVariant) messages = NULL;

  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  messages = g_variant_get_child_value (reply->body, 0);
  listing->bytes += g_variant_get_size (messages);
  if (g_variant_n_children (messages) == 0)
    {
      g_task_return_pointer (task, g_steal_pointer (&listing->messages),
                             (GDestroyNotify) g_ptr_array_unref);
    }
  else if (listing->bytes > MAX_MESSAGES_BYTES ||
           listing->messages->len + g_variant_n_children (messages) > MAX_MESSAGES)
    {
      g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                               _("The service has more messages than a context can hold"));
    }
  else
    {
      llmsvc_messages_add_variant (listing->messages, messages);
      list_further (task);
    }
}

static void
list_further (GTask *task)
{
  Listing *listing = g_task_get_task_data (task);

  llmsvc_context_call_async (g_task_get_source_object (task), "GetMessages", "(a(ssa{sv}))",
                             LLMSVC_CALL_REPEAT,
                             g_variant_new ("(uu@a{sv})", listing->messages->len, 0,
                                            llmsvc_options_take (NULL, NULL)),
                             g_task_get_cancellable (task), on_messages, g_object_ref (task));
}

/**
 * llmsvc_context_list_messages_async:
 * @self: a context
 * @cancellable: (nullable): to stop
 * @callback: (scope async): called when they are read
 * @user_data: for @callback
 *
 * Reads all messages, in as many calls as it takes.
 *
 * Since: 0.1
 */
void
llmsvc_context_list_messages_async (LlmsvcContext       *self,
                                    GCancellable        *cancellable,
                                    GAsyncReadyCallback  callback,
                                    gpointer             user_data)
{
  g_autoptr(GTask) task = NULL;
  Listing *listing;

  g_return_if_fail (LLMSVC_IS_CONTEXT (self));
  g_return_if_fail (llmsvc_context_get_client (self) != NULL);

  task =
    llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_list_messages_async);
  listing = g_new0 (Listing, 1);
  listing->messages = g_ptr_array_new_with_free_func (g_object_unref);
  g_task_set_task_data (task, listing, listing_free);
  list_further (task);
}

/**
 * llmsvc_context_list_messages_finish:
 * @self: a context
 * @result: given to the callback
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Ends llmsvc_context_list_messages_async().
 *
 * Returns: (element-type LlmsvcMessage) (transfer container): the messages, the oldest first
 *
 * Since: 0.1
 */
GPtrArray *
llmsvc_context_list_messages_finish (LlmsvcContext  *self,
                                     GAsyncResult   *result,
                                     GError        **error)
{
  return llmsvc_task_finish (self, result, error);
}
