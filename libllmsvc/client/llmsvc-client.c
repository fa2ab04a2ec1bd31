/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "client/llmsvc-client-private.h"

#include "common/llmsvc-i18n.h"
#include "llmsvc-enum-types.h"

/**
 * LlmsvcClient:
 *
 * An app's connection to the language model service: whether it answers, its models, its
 * contexts, and single questions.
 *
 * Making a client does not start the service; the first call does, and waits for it. A client
 * follows the service over restarts: properties, models and contexts with a name go on as they
 * were, and a call that the service did not survive fails with an error that says whether
 * anything of it is kept. Calls without effect ([method@Llmsvc.Client.refresh_async],
 * [method@Llmsvc.Client.prewarm_async], [method@Llmsvc.Client.count_tokens_async], the lists)
 * are repeated once by themselves. No call has a time limit; a
 * [class@Gio.Cancellable] ends one.
 *
 * A client and everything that it makes is used in one thread: that whose thread-default main
 * context was current when it was made, and where its signals are emitted. A thread that is
 * not the main one pushes a main context of its own first. Calls may be made while another
 * main context is the default; their callbacks come there.
 *
 * Every error is of [error@Llmsvc.Error], a cancelled call's %LLMSVC_ERROR_CANCELLED.
 *
 * Since: 0.1
 */

G_DEFINE_FINAL_TYPE (LlmsvcClient, llmsvc_client, G_TYPE_OBJECT)

#include "llmsvc-client-properties.h"

static void
llmsvc_client_dispose (GObject *object)
{
  LlmsvcClient *self = LLMSVC_CLIENT (object);

  for (guint i = 0; i < self->subscriptions->len; i++)
    g_dbus_connection_signal_unsubscribe (self->peer->connection,
                                          g_array_index (self->subscriptions, guint, i));
  g_array_set_size (self->subscriptions, 0);
  if (self->peer != NULL)
    g_clear_signal_handler (&self->closed_handler, self->peer->connection);

  G_OBJECT_CLASS (llmsvc_client_parent_class)->dispose (object);
}

static void
llmsvc_client_finalize (GObject *object)
{
  LlmsvcClient *self = LLMSVC_CLIENT (object);

  g_clear_pointer (&self->home, g_main_context_unref);
  g_clear_pointer (&self->peer, llmsvc_peer_unref);
  g_array_unref (self->subscriptions);
  g_free (self->reason);
  g_free (self->version);
  g_strfreev (self->features);
  g_free (self->active_path);
  g_clear_object (&self->active_model);
  g_object_unref (self->models);
  g_ptr_array_unref (self->contexts);

  G_OBJECT_CLASS (llmsvc_client_parent_class)->finalize (object);
}

static void
llmsvc_client_class_init (LlmsvcClientClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  llmsvc_i18n_init ();
  object_class->dispose = llmsvc_client_dispose;
  object_class->finalize = llmsvc_client_finalize;
  install_properties (object_class);

  /**
   * LlmsvcClient::load-progress:
   * @self: a client
   * @done: bytes of the model's weights that are ready
   * @total: all of them
   *
   * A model is being loaded for the first time, and its weights are made ready, which takes a while:
   * emitted some times a second, and with twice 0 when it has ended.
   *
   * Since: 0.1
   */
  g_signal_new ("load-progress", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                G_TYPE_NONE, 2, G_TYPE_UINT64, G_TYPE_UINT64);
}

static void
llmsvc_client_init (LlmsvcClient *self)
{
  self->subscriptions = g_array_new (FALSE, FALSE, sizeof (guint));
  self->reason = g_strdup ("");
  self->version = g_strdup ("");
  self->features = g_new0 (char *, 1);
  self->active_path = g_strdup ("/");
  self->models = g_list_store_new (LLMSVC_TYPE_MODEL);
  self->contexts = g_ptr_array_new ();
}

/**
 * llmsvc_client_has_feature:
 * @self: a client
 * @feature: the name of a feature
 *
 * Gets whether the service has a feature.
 *
 * Returns: whether [property@Llmsvc.Client:features] has @feature
 *
 * Since: 0.1
 */
gboolean
llmsvc_client_has_feature (LlmsvcClient *self,
                           const char   *feature)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), FALSE);
  g_return_val_if_fail (feature != NULL, FALSE);

  return g_strv_contains ((const char *const *) self->features, feature);
}

