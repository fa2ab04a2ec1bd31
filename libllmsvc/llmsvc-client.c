/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-client-private.h"

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

enum
{
  PROP_AVAILABILITY = 1,
  PROP_AVAILABILITY_REASON,
  PROP_VERSION,
  PROP_API_VERSION,
  PROP_FEATURES,
  PROP_ACTIVE_MODEL,
  PROP_MODELS,
  PROP_BUS_TYPE,
  PROP_CONNECTION,
  PROP_APP_ID,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

G_DEFINE_FINAL_TYPE (LlmsvcClient, llmsvc_client, G_TYPE_OBJECT)

static void
llmsvc_client_get_property (GObject    *object,
                            guint       id,
                            GValue     *value,
                            GParamSpec *pspec)
{
  LlmsvcClient *self = LLMSVC_CLIENT (object);

  switch (id)
    {
    case PROP_AVAILABILITY:
      g_value_set_enum (value, (int) self->availability);
      break;
    case PROP_AVAILABILITY_REASON:
      g_value_set_string (value, self->reason);
      break;
    case PROP_VERSION:
      g_value_set_string (value, self->version);
      break;
    case PROP_API_VERSION:
      g_value_set_uint (value, self->api_version);
      break;
    case PROP_FEATURES:
      g_value_set_boxed (value, self->features);
      break;
    case PROP_ACTIVE_MODEL:
      g_value_set_object (value, self->active_model);
      break;
    case PROP_MODELS:
      g_value_set_object (value, self->models);
      break;
    case PROP_BUS_TYPE:
      g_value_set_enum (value, (int) self->bus_type);
      break;
    case PROP_CONNECTION:
      g_value_set_object (value, self->peer != NULL ? self->peer->connection : NULL);
      break;
    case PROP_APP_ID:
      g_value_set_string (value, self->peer != NULL ? self->peer->app_id : "");
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
llmsvc_client_dispose (GObject *object)
{
  LlmsvcClient *self = LLMSVC_CLIENT (object);

  if (self->peer != NULL)
    llmsvc_client_unfollow (self);

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
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  llmsvc_i18n_init ();
  object_class->get_property = llmsvc_client_get_property;
  object_class->dispose = llmsvc_client_dispose;
  object_class->finalize = llmsvc_client_finalize;

  /**
   * LlmsvcClient:availability: (getter get_availability)
   *
   * Whether questions can be asked.
   *
   * Since: 0.1
   */
  properties[PROP_AVAILABILITY] =
    g_param_spec_enum ("availability", NULL, NULL, LLMSVC_TYPE_AVAILABILITY,
                       LLMSVC_AVAILABILITY_UNKNOWN, flags);
  /**
   * LlmsvcClient:availability-reason: (getter get_availability_reason)
   *
   * Why they can't, in one sentence for people; "" when they can or nothing is known.
   *
   * Since: 0.1
   */
  properties[PROP_AVAILABILITY_REASON] =
    g_param_spec_string ("availability-reason", NULL, NULL, "", flags);
  /**
   * LlmsvcClient:version: (getter get_version)
   *
   * The version of the service, for people; "" until it was asked.
   *
   * Since: 0.1
   */
  properties[PROP_VERSION] = g_param_spec_string ("version", NULL, NULL, "", flags);
  /**
   * LlmsvcClient:api-version: (getter get_api_version)
   *
   * The version of the service's interface, which grows by one when something is added; 0
   * until it was asked.
   *
   * Since: 0.1
   */
  properties[PROP_API_VERSION] =
    g_param_spec_uint ("api-version", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcClient:features: (getter get_features)
   *
   * What the service can do beyond the necessary, such as `json-schema`.
   *
   * Since: 0.1
   */
  properties[PROP_FEATURES] = g_param_spec_boxed ("features", NULL, NULL, G_TYPE_STRV, flags);
  /**
   * LlmsvcClient:active-model: (getter get_active_model)
   *
   * The model that answers; %NULL when there is none, or the service was not asked.
   *
   * Since: 0.1
   */
  properties[PROP_ACTIVE_MODEL] =
    g_param_spec_object ("active-model", NULL, NULL, LLMSVC_TYPE_MODEL, flags);
  /**
   * LlmsvcClient:models: (getter get_models)
   *
   * The installed models, a [iface@Gio.ListModel] of [class@Llmsvc.Model].
   *
   * Since: 0.1
   */
  properties[PROP_MODELS] =
    g_param_spec_object ("models", NULL, NULL, G_TYPE_LIST_MODEL, flags);
  /**
   * LlmsvcClient:bus-type: (getter get_bus_type)
   *
   * %G_BUS_TYPE_SYSTEM, %G_BUS_TYPE_SESSION, or %G_BUS_TYPE_NONE on a connection of the
   * app's own.
   *
   * Since: 0.1
   */
  properties[PROP_BUS_TYPE] = g_param_spec_enum ("bus-type", NULL, NULL, G_TYPE_BUS_TYPE,
                                                 G_BUS_TYPE_NONE, flags);
  /**
   * LlmsvcClient:connection: (getter get_connection)
   *
   * The connection to the bus.
   *
   * Since: 0.1
   */
  properties[PROP_CONNECTION] =
    g_param_spec_object ("connection", NULL, NULL, G_TYPE_DBUS_CONNECTION, flags);
  /**
   * LlmsvcClient:app-id:
   *
   * The name under which the app is registered, "" for none.
   *
   * Since: 0.1
   */
  properties[PROP_APP_ID] = g_param_spec_string ("app-id", NULL, NULL, "", flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
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
 * llmsvc_client_get_availability:
 * @self: a client
 *
 * Gets whether questions can be asked, as far as is known. Calls may be made in any state:
 * one to an idle service starts it, one to a loading service waits.
 *
 * Returns: the state
 *
 * Since: 0.1
 */
LlmsvcAvailability
llmsvc_client_get_availability (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), LLMSVC_AVAILABILITY_UNKNOWN);

  return self->availability;
}

/**
 * llmsvc_client_get_availability_reason:
 * @self: a client
 *
 * Gets why questions can't be asked.
 *
 * Returns: (transfer none): one sentence for people, "" when they can or nothing is known
 *
 * Since: 0.1
 */
const char *
llmsvc_client_get_availability_reason (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), NULL);

  return self->reason;
}

/**
 * llmsvc_client_get_version:
 * @self: a client
 *
 * Gets the version of the service, for people.
 *
 * Returns: (transfer none): the version, "" until the service was asked
 *
 * Since: 0.1
 */
const char *
llmsvc_client_get_version (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), NULL);

  return self->version;
}

/**
 * llmsvc_client_get_api_version:
 * @self: a client
 *
 * Gets the version of the service's interface, for programs.
 *
 * Returns: the version, 0 until the service was asked
 *
 * Since: 0.1
 */
guint
llmsvc_client_get_api_version (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), 0);

  return self->api_version;
}

/**
 * llmsvc_client_get_features:
 * @self: a client
 *
 * Gets what the service can do beyond the necessary.
 *
 * Returns: (array zero-terminated=1) (transfer none): names, such as `json-schema`
 *
 * Since: 0.1
 */
const char *const *
llmsvc_client_get_features (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), NULL);

  return (const char *const *) self->features;
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

/**
 * llmsvc_client_get_active_model:
 * @self: a client
 *
 * Gets the model that answers.
 *
 * Returns: (transfer none) (nullable): the model, %NULL when there is none or the service was
 *   not asked
 *
 * Since: 0.1
 */
LlmsvcModel *
llmsvc_client_get_active_model (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), NULL);

  return self->active_model;
}

/**
 * llmsvc_client_get_models:
 * @self: a client
 *
 * Gets the installed models. The list is the same object for the client's life, and follows
 * what is installed: a model that stays keeps its object. It is filled when the service runs,
 * and keeps what was known last when the service has ended.
 *
 * Returns: (transfer none): a list of [class@Llmsvc.Model], ordered by their objects on the bus
 *
 * Since: 0.1
 */
GListModel *
llmsvc_client_get_models (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), NULL);

  return G_LIST_MODEL (self->models);
}

/**
 * llmsvc_client_get_connection:
 * @self: a client
 *
 * Gets the connection to the bus, for calls that the library has no function for.
 *
 * Returns: (transfer none): the connection
 *
 * Since: 0.1
 */
GDBusConnection *
llmsvc_client_get_connection (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), NULL);

  return self->peer != NULL ? self->peer->connection : NULL;
}

/**
 * llmsvc_client_get_bus_type:
 * @self: a client
 *
 * Gets the bus on which the service is.
 *
 * Returns: %G_BUS_TYPE_SYSTEM, %G_BUS_TYPE_SESSION, or %G_BUS_TYPE_NONE on a connection of the
 *   app's own
 *
 * Since: 0.1
 */
GBusType
llmsvc_client_get_bus_type (LlmsvcClient *self)
{
  g_return_val_if_fail (LLMSVC_IS_CLIENT (self), G_BUS_TYPE_NONE);

  return self->bus_type;
}
