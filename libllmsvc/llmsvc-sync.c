/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-sync.h"

#include "llmsvc-client-private.h"

/* A call that is waited for. Its main context is private and the thread's default while it
 * runs, so its replies are dispatched here and nothing of the caller's is. */
typedef struct
{
  GMainContext *context;  /* (owned) */
  GAsyncResult *result;   /* (owned) (nullable): until it is there */
} Wait;

static void
wait_begin (Wait *wait)
{
  wait->context = g_main_context_new ();
  g_main_context_push_thread_default (wait->context);
}

static void
on_ready (GObject      *source,
          GAsyncResult *result,
          gpointer      user_data)
{
  Wait *wait = user_data;

  wait->result = g_object_ref (result);
}

static GAsyncResult *
wait_for_result (Wait *wait)
{
  while (wait->result == NULL)
    g_main_context_iteration (wait->context, TRUE);
  return wait->result;
}

static void
wait_end (Wait *wait)
{
  if (wait->context == NULL)
    return;

  g_clear_object (&wait->result);

  /* What is queued still holds references, to the context as well. */
  while (g_main_context_iteration (wait->context, FALSE))
    ;
  g_main_context_pop_thread_default (wait->context);
  g_main_context_unref (wait->context);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Wait, wait_end)

static GDBusConnection *
find_bus (GBusType       bus_type,
          GCancellable  *cancellable,
          GBusType      *found_type,
          gboolean      *is_running,
          GError       **error)
{
  g_auto(Wait) wait = { NULL };

  wait_begin (&wait);
  llmsvc_bus_find_async (bus_type, cancellable, on_ready, &wait);
  return llmsvc_bus_find_finish (wait_for_result (&wait), found_type, is_running, error);
}

/* The shared connections that a search of @bus_type will use. A connection tells that it is
 * closed in the main context that was the default when it was made: that has to be the caller's,
 * so they are made before a search in a private one. What fails here fails there again. */
typedef struct
{
  GDBusConnection *system;   /* (owned) (nullable) */
  GDBusConnection *session;  /* (owned) (nullable) */
} Buses;

static void
buses_connect (Buses        *buses,
               GBusType      bus_type,
               GCancellable *cancellable)
{
  g_autoptr(GDBusConnection) found = NULL;

  if (bus_type != G_BUS_TYPE_SESSION)
    buses->system = g_bus_get_sync (G_BUS_TYPE_SYSTEM, cancellable, NULL);
  if (buses->system != NULL)
    found = find_bus (G_BUS_TYPE_SYSTEM, cancellable, NULL, NULL, NULL);

  /* who has no session should not be given one without need */
  if (bus_type != G_BUS_TYPE_SYSTEM && found == NULL)
    buses->session = g_bus_get_sync (G_BUS_TYPE_SESSION, cancellable, NULL);
}

static void
buses_clear (Buses *buses)
{
  g_clear_object (&buses->system);
  g_clear_object (&buses->session);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Buses, buses_clear)

/* The client lives longer than the private context, so its home is the caller's. */
static LlmsvcClient *
new_client (GBusType          bus_type,
            GDBusConnection  *connection,
            const char       *app_id,
            GCancellable     *cancellable,
            GError          **error)
{
  g_autoptr(GMainContext) home = g_main_context_ref_thread_default ();
  g_auto(Buses) buses = { NULL, NULL };
  g_auto(Wait) wait = { NULL };

  if (connection == NULL)
    buses_connect (&buses, bus_type, cancellable);
  wait_begin (&wait);
  llmsvc_client_new_in_home_async (home, bus_type, connection, app_id, cancellable, on_ready,
                                   &wait);
  return llmsvc_client_new_in_home_finish (wait_for_result (&wait), error);
}

/**
 * llmsvc_bus_find_sync:
 * @bus_type: %G_BUS_TYPE_SYSTEM, %G_BUS_TYPE_SESSION, or %G_BUS_TYPE_NONE for the
 *   system bus when the service is there, else the session bus
 * @cancellable: (nullable): to stop looking
 * @found_type: (out) (optional): %G_BUS_TYPE_SYSTEM or %G_BUS_TYPE_SESSION
 * @is_running: (out) (optional): whether the service runs; it can be started if not
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_AVAILABLE
 *   when it is on no bus
 *
 * Looks for a bus on which the service runs or can be started. Does not start it. Blocks;
 * see llmsvc_bus_find_async().
 *
 * Returns: (transfer full): the connection, shared as g_bus_get() shares it
 *
 * Since: 0.1
 */
GDBusConnection *
llmsvc_bus_find_sync (GBusType       bus_type,
                      GCancellable  *cancellable,
                      GBusType      *found_type,
                      gboolean      *is_running,
                      GError       **error)
{
  g_auto(Buses) buses = { NULL, NULL };

  g_return_val_if_fail (bus_type == G_BUS_TYPE_NONE || bus_type == G_BUS_TYPE_SYSTEM ||
                        bus_type == G_BUS_TYPE_SESSION, NULL);

  buses_connect (&buses, bus_type, cancellable);
  return find_bus (bus_type, cancellable, found_type, is_running, error);
}

/**
 * llmsvc_client_new_sync:
 * @bus_type: %G_BUS_TYPE_NONE for the system bus when the service is there, else the
 *   session bus; or one of the two
 * @app_id: (nullable): the name of the app's desktop file without `.desktop`; %NULL for
 *   that of g_application_get_default(), "" for none
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_AVAILABLE
 *   when no bus can be reached
 *
 * Makes a client. Does not start the service: the first call does. Blocks; see
 * llmsvc_client_new_async().
 *
 * Returns: (transfer full): a client, whose signals come in the thread-default main
 *   context of the caller
 *
 * Since: 0.1
 */
LlmsvcClient *
llmsvc_client_new_sync (GBusType       bus_type,
                        const char    *app_id,
                        GCancellable  *cancellable,
                        GError       **error)
{
  g_return_val_if_fail (bus_type == G_BUS_TYPE_NONE || bus_type == G_BUS_TYPE_SYSTEM ||
                        bus_type == G_BUS_TYPE_SESSION, NULL);

  return new_client (bus_type, NULL, app_id, cancellable, error);
}

/**
 * llmsvc_client_new_for_connection_sync:
 * @connection: a connection to a message bus
 * @app_id: (nullable): the name of the app's desktop file without `.desktop`; %NULL for
 *   that of g_application_get_default(), "" for none
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Makes a client on a connection of the app's own, such as one to a private bus. Blocks;
 * see llmsvc_client_new_for_connection_async().
 *
 * Returns: (transfer full): a client, whose signals come in the thread-default main
 *   context of the caller
 *
 * Since: 0.1
 */
LlmsvcClient *
llmsvc_client_new_for_connection_sync (GDBusConnection  *connection,
                                       const char       *app_id,
                                       GCancellable     *cancellable,
                                       GError          **error)
{
  g_return_val_if_fail (G_IS_DBUS_CONNECTION (connection), NULL);

  return new_client (G_BUS_TYPE_NONE, connection, app_id, cancellable, error);
}

/**
 * llmsvc_client_refresh_sync:
 * @self: a client
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Starts the service if it is not running and reads its properties and models. Blocks; see
 * [method@Client.refresh_async].
 *
 * Returns: %TRUE when they are read, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_refresh_sync (LlmsvcClient  *self,
                            GCancellable  *cancellable,
                            GError       **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_client_get_connection (self) != NULL, FALSE);

  wait_begin (&wait);
  llmsvc_client_refresh_async (self, cancellable, on_ready, &wait);
  return llmsvc_client_refresh_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_client_prewarm_sync:
 * @self: a client
 * @options: (nullable): options of the call
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Loads the model now, because a question is about to come. Blocks; see
 * [method@Client.prewarm_async].
 *
 * Returns: %TRUE when it is loaded, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_prewarm_sync (LlmsvcClient   *self,
                            LlmsvcOptions  *options,
                            GCancellable   *cancellable,
                            GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_client_get_connection (self) != NULL, FALSE);

  wait_begin (&wait);
  llmsvc_client_prewarm_async (self, options, cancellable, on_ready, &wait);
  return llmsvc_client_prewarm_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_client_count_tokens_sync:
 * @self: a client
 * @messages: (array length=n_messages): the messages
 * @n_messages: how many they are
 * @options: (nullable): options of the call
 * @cancellable: (nullable): to stop waiting
 * @tokens: (out): what the messages cost
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Counts the tokens that messages cost with the template of the model. Blocks; see
 * [method@Client.count_tokens_async].
 *
 * Returns: (skip): %TRUE when they are counted, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_count_tokens_sync (LlmsvcClient   *self,
                                 LlmsvcMessage **messages,
                                 gsize           n_messages,
                                 LlmsvcOptions  *options,
                                 GCancellable   *cancellable,
                                 guint          *tokens,
                                 GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_client_get_connection (self) != NULL, FALSE);
  g_return_val_if_fail (messages != NULL || n_messages == 0, FALSE);

  wait_begin (&wait);
  llmsvc_client_count_tokens_async (self, messages, n_messages, options, cancellable, on_ready,
                                    &wait);
  return llmsvc_client_count_tokens_finish (self, wait_for_result (&wait), tokens, error);
}

/**
 * llmsvc_client_complete_sync:
 * @self: a client
 * @prompt: what the user says
 * @options: (nullable): options of the call
 * @cancellable: (nullable): to stop; the work stops at the service, too
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Asks one question without a context. Blocks; see [method@Client.complete_async].
 *
 * Returns: (transfer full): the answer
 *
 * Since: 0.1
 */
LlmsvcAnswer *
llmsvc_client_complete_sync (LlmsvcClient   *self,
                             const char     *prompt,
                             LlmsvcOptions  *options,
                             GCancellable   *cancellable,
                             GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_client_get_connection (self) != NULL, NULL);
  g_return_val_if_fail (prompt != NULL, NULL);

  wait_begin (&wait);
  llmsvc_client_complete_async (self, prompt, options, cancellable, on_ready, &wait);
  return llmsvc_client_complete_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_client_create_context_sync:
 * @self: a client
 * @options: (nullable): options that contexts are made with
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Makes a new context; with the option `name` it is kept until it is closed. Blocks; see
 * [method@Client.create_context_async].
 *
 * Returns: (transfer full): the context
 *
 * Since: 0.1
 */
LlmsvcContext *
llmsvc_client_create_context_sync (LlmsvcClient   *self,
                                   LlmsvcOptions  *options,
                                   GCancellable   *cancellable,
                                   GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_client_get_connection (self) != NULL, NULL);

  wait_begin (&wait);
  llmsvc_client_create_context_async (self, options, cancellable, on_ready, &wait);
  return llmsvc_client_create_context_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_client_open_context_sync:
 * @self: a client
 * @name: the name of a context
 * @options: (nullable): with `create` the context is made if there is none, with the other
 *   options that contexts are made with
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR: %LLMSVC_ERROR_NOT_FOUND when
 *   there is none of that name
 *
 * Opens a context that is kept under a name. Blocks; see [method@Client.open_context_async].
 *
 * Returns: (transfer full): the context
 *
 * Since: 0.1
 */
LlmsvcContext *
llmsvc_client_open_context_sync (LlmsvcClient   *self,
                                 const char     *name,
                                 LlmsvcOptions  *options,
                                 GCancellable   *cancellable,
                                 GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_client_get_connection (self) != NULL, NULL);
  g_return_val_if_fail (name != NULL, NULL);

  wait_begin (&wait);
  llmsvc_client_open_context_async (self, name, options, cancellable, on_ready, &wait);
  return llmsvc_client_open_context_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_client_list_contexts_sync:
 * @self: a client
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Lists the contexts of the app, named or not. Blocks; see
 * [method@Client.list_contexts_async].
 *
 * Returns: (element-type LlmsvcContext) (transfer container): the contexts
 *
 * Since: 0.1
 */
GPtrArray *
llmsvc_client_list_contexts_sync (LlmsvcClient  *self,
                                  GCancellable  *cancellable,
                                  GError       **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_client_get_connection (self) != NULL, NULL);

  wait_begin (&wait);
  llmsvc_client_list_contexts_async (self, cancellable, on_ready, &wait);
  return llmsvc_client_list_contexts_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_client_select_model_sync:
 * @self: a client
 * @model_id: the `id` of an installed model
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Changes the model for everyone; may ask the user for permission. Blocks; see
 * [method@Client.select_model_async].
 *
 * Returns: %TRUE when it is changed, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_select_model_sync (LlmsvcClient  *self,
                                 const char    *model_id,
                                 GCancellable  *cancellable,
                                 GError       **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_client_get_connection (self) != NULL, FALSE);
  g_return_val_if_fail (model_id != NULL, FALSE);

  wait_begin (&wait);
  llmsvc_client_select_model_async (self, model_id, cancellable, on_ready, &wait);
  return llmsvc_client_select_model_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_refresh_sync:
 * @self: a context
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Reads [property@Context:tokens], [property@Context:revision] and
 * [property@Context:residency] anew. Blocks; see [method@Context.refresh_async].
 *
 * Returns: %TRUE when they are read, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_refresh_sync (LlmsvcContext  *self,
                             GCancellable   *cancellable,
                             GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, FALSE);

  wait_begin (&wait);
  llmsvc_context_refresh_async (self, cancellable, on_ready, &wait);
  return llmsvc_context_refresh_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_get_memory_sync:
 * @self: a context
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Asks where the service keeps what it remembers of the context. Blocks; see
 * [method@Context.get_memory_async].
 *
 * Returns: (transfer full): its memory, as it was in that moment
 *
 * Since: 0.1
 */
LlmsvcContextMemory *
llmsvc_context_get_memory_sync (LlmsvcContext  *self,
                                GCancellable   *cancellable,
                                GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, NULL);

  wait_begin (&wait);
  llmsvc_context_get_memory_async (self, cancellable, on_ready, &wait);
  return llmsvc_context_get_memory_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_generate_sync:
 * @self: a context
 * @messages: (array length=n_messages): what to add before answering
 * @n_messages: how many they are
 * @options: (nullable): options of the call
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Begins an answer to messages. Blocks until the service has taken the call; see
 * [method@Context.generate_async].
 *
 * Returns: (transfer full): the answer under way
 *
 * Since: 0.1
 */
LlmsvcGeneration *
llmsvc_context_generate_sync (LlmsvcContext  *self,
                              LlmsvcMessage **messages,
                              gsize           n_messages,
                              LlmsvcOptions  *options,
                              GCancellable   *cancellable,
                              GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, NULL);
  g_return_val_if_fail (messages != NULL || n_messages == 0, NULL);

  wait_begin (&wait);
  llmsvc_context_generate_async (self, messages, n_messages, options, cancellable, on_ready,
                                 &wait);
  return llmsvc_context_generate_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_prompt_sync:
 * @self: a context
 * @prompt: what the user says
 * @options: (nullable): options of the call
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Begins an answer to one message of the user. Blocks until the service has taken the call;
 * see [method@Context.prompt_async].
 *
 * Returns: (transfer full): the answer under way
 *
 * Since: 0.1
 */
LlmsvcGeneration *
llmsvc_context_prompt_sync (LlmsvcContext  *self,
                            const char     *prompt,
                            LlmsvcOptions  *options,
                            GCancellable   *cancellable,
                            GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, NULL);
  g_return_val_if_fail (prompt != NULL, NULL);

  wait_begin (&wait);
  llmsvc_context_prompt_async (self, prompt, options, cancellable, on_ready, &wait);
  return llmsvc_context_prompt_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_ask_sync:
 * @self: a context
 * @prompt: what the user says
 * @options: (nullable): options of the call
 * @cancellable: (nullable): to stop; the answer stops at the service, too
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Asks with one message of the user and waits for the whole answer. Blocks; see
 * [method@Context.ask_async].
 *
 * Returns: (transfer full): the answer
 *
 * Since: 0.1
 */
LlmsvcAnswer *
llmsvc_context_ask_sync (LlmsvcContext  *self,
                         const char     *prompt,
                         LlmsvcOptions  *options,
                         GCancellable   *cancellable,
                         GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, NULL);
  g_return_val_if_fail (prompt != NULL, NULL);

  wait_begin (&wait);
  llmsvc_context_ask_async (self, prompt, options, cancellable, on_ready, &wait);
  return llmsvc_context_ask_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_append_sync:
 * @self: a context
 * @messages: (array length=n_messages): what to add
 * @n_messages: how many they are
 * @options: (nullable): options of the call
 * @cancellable: (nullable): to stop waiting
 * @tokens: (out) (optional): tokens added
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Adds messages without an answer. Blocks; see [method@Context.append_async].
 *
 * Returns: (skip): %TRUE when they are added, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_append_sync (LlmsvcContext  *self,
                            LlmsvcMessage **messages,
                            gsize           n_messages,
                            LlmsvcOptions  *options,
                            GCancellable   *cancellable,
                            guint          *tokens,
                            GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, FALSE);
  g_return_val_if_fail (messages != NULL || n_messages == 0, FALSE);

  wait_begin (&wait);
  llmsvc_context_append_async (self, messages, n_messages, options, cancellable, on_ready, &wait);
  return llmsvc_context_append_finish (self, wait_for_result (&wait), tokens, error);
}

/**
 * llmsvc_context_fork_sync:
 * @self: a context
 * @options: (nullable): options that contexts are made with
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Makes a context with the same content. Blocks; see [method@Context.fork_async].
 *
 * Returns: (transfer full): the new context
 *
 * Since: 0.1
 */
LlmsvcContext *
llmsvc_context_fork_sync (LlmsvcContext  *self,
                          LlmsvcOptions  *options,
                          GCancellable   *cancellable,
                          GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, NULL);

  wait_begin (&wait);
  llmsvc_context_fork_async (self, options, cancellable, on_ready, &wait);
  return llmsvc_context_fork_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_rollback_sync:
 * @self: a context
 * @n_turns: how many turns to forget
 * @options: (nullable): options of the call
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Forgets the last turns. Blocks; see [method@Context.rollback_async].
 *
 * Returns: %TRUE when they are forgotten, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_rollback_sync (LlmsvcContext  *self,
                              guint           n_turns,
                              LlmsvcOptions  *options,
                              GCancellable   *cancellable,
                              GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, FALSE);

  wait_begin (&wait);
  llmsvc_context_rollback_async (self, n_turns, options, cancellable, on_ready, &wait);
  return llmsvc_context_rollback_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_list_messages_sync:
 * @self: a context
 * @cancellable: (nullable): to stop
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Reads all messages of a context. Blocks; see [method@Context.list_messages_async].
 *
 * Returns: (element-type LlmsvcMessage) (transfer container): the messages, oldest first
 *
 * Since: 0.1
 */
GPtrArray *
llmsvc_context_list_messages_sync (LlmsvcContext  *self,
                                   GCancellable   *cancellable,
                                   GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, NULL);

  wait_begin (&wait);
  llmsvc_context_list_messages_async (self, cancellable, on_ready, &wait);
  return llmsvc_context_list_messages_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_context_close_sync:
 * @self: a context
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Ends the context and forgets its content, stored or not. Blocks; see
 * [method@Context.close_async].
 *
 * Returns: %TRUE when it is closed, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_close_sync (LlmsvcContext  *self,
                           GCancellable   *cancellable,
                           GError        **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_context_get_client (self) != NULL, FALSE);

  wait_begin (&wait);
  llmsvc_context_close_async (self, cancellable, on_ready, &wait);
  return llmsvc_context_close_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_generation_next_sync:
 * @self: an answer under way
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Waits for the next piece of the answer. Blocks; see [method@Generation.next_async].
 *
 * Returns: (transfer full) (nullable): the text, at least one character and never part of
 *   one; %NULL without @error at the end
 *
 * Since: 0.1
 */
char *
llmsvc_generation_next_sync (LlmsvcGeneration  *self,
                             GCancellable      *cancellable,
                             GError           **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_generation_get_request_id (self) != NULL, NULL);

  wait_begin (&wait);
  llmsvc_generation_next_async (self, cancellable, on_ready, &wait);
  return llmsvc_generation_next_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_generation_finish_sync:
 * @self: an answer under way
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Reads to the end. Blocks; see [method@Generation.finish_async].
 *
 * Returns: (transfer full): the whole answer
 *
 * Since: 0.1
 */
LlmsvcAnswer *
llmsvc_generation_finish_sync (LlmsvcGeneration  *self,
                               GCancellable      *cancellable,
                               GError           **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_generation_get_request_id (self) != NULL, NULL);

  wait_begin (&wait);
  llmsvc_generation_finish_async (self, cancellable, on_ready, &wait);
  return llmsvc_generation_finish_finish (self, wait_for_result (&wait), error);
}

/**
 * llmsvc_generation_cancel_sync:
 * @self: an answer under way
 * @cancellable: (nullable): to stop waiting
 * @error: return location for an error of %LLMSVC_ERROR
 *
 * Stops the answer. Blocks until the turn is settled; see [method@Generation.cancel_async].
 *
 * Returns: %TRUE when it is settled, %FALSE with @error set
 *
 * Since: 0.1
 */
gboolean
llmsvc_generation_cancel_sync (LlmsvcGeneration  *self,
                               GCancellable      *cancellable,
                               GError           **error)
{
  g_auto(Wait) wait = { NULL };

  g_return_val_if_fail (llmsvc_generation_get_request_id (self) != NULL, FALSE);

  wait_begin (&wait);
  llmsvc_generation_cancel_async (self, cancellable, on_ready, &wait);
  return llmsvc_generation_cancel_finish (self, wait_for_result (&wait), error);
}
