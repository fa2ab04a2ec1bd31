/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the client knows of the service: its properties and models. */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "client/llmsvc-client-private.h"

#include <string.h>

#include "common/llmsvc-names.h"
#include "values/llmsvc-model-private.h"

static const struct
{
  const char *word;
  LlmsvcAvailability availability;
} availabilities[] = {
  { "ready", LLMSVC_AVAILABILITY_READY },       { "loading", LLMSVC_AVAILABILITY_LOADING },
  { "no-model", LLMSVC_AVAILABILITY_NO_MODEL }, { "disabled", LLMSVC_AVAILABILITY_DISABLED },
  { "failed", LLMSVC_AVAILABILITY_FAILED },
};

/* --- properties --- */

static void
set_availability (LlmsvcClient       *self,
                  LlmsvcAvailability  availability)
{
  if (self->availability == availability)
    return;

  self->availability = availability;
  g_object_notify (G_OBJECT (self), "availability");
}

static void
set_string (LlmsvcClient *self,
            char        **field,
            const char   *value,
            const char   *property)
{
  if (g_str_equal (*field, value))
    return;

  g_free (*field);
  *field = g_strdup (value);
  g_object_notify (G_OBJECT (self), property);
}

/* (transfer none) (nullable): the list keeps it. @position: (out) (optional) */
static LlmsvcModel *
find_model (LlmsvcClient *self,
            const char   *path,
            guint        *position)
{
  guint n = g_list_model_get_n_items (G_LIST_MODEL (self->models));

  for (guint i = 0; i < n; i++)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (G_LIST_MODEL (self->models), i);

      if (position != NULL)
        *position = i;
      if (g_str_equal (llmsvc_model_get_path (model), path))
        return model;
    }

  return NULL;
}

static void
update_active_model (LlmsvcClient *self)
{
  if (g_set_object (&self->active_model, find_model (self, self->active_path, NULL)))
    g_object_notify (G_OBJECT (self), "active-model");
}

static void
apply_availability (LlmsvcClient *self,
                    GVariant     *values)
{
  LlmsvcAvailability availability = LLMSVC_AVAILABILITY_UNKNOWN;
  const char *word;

  if (!g_variant_lookup (values, "Availability", "&s", &word))
    return;

  for (guint i = 0; i < G_N_ELEMENTS (availabilities); i++)
    if (g_str_equal (word, availabilities[i].word))
      availability = availabilities[i].availability;
  set_availability (self, availability);
}

static void
apply_features (LlmsvcClient *self,
                GVariant     *values)
{
  g_auto(GStrv) features = NULL;

  if (!g_variant_lookup (values, "Features", "^as", &features) ||
      g_strv_equal ((const char *const *) features, (const char *const *) self->features))
    return;

  g_strfreev (self->features);
  self->features = g_steal_pointer (&features);
  g_object_notify (G_OBJECT (self), "features");
}

/* Values of a wrong type change nothing. */
void
llmsvc_client_apply_properties (LlmsvcClient *self,
                                GVariant     *values)
{
  const char *string;
  guint32 number;
  guint64 done, total;

  g_object_freeze_notify (G_OBJECT (self));
  if (g_variant_lookup (values, "AvailabilityReason", "&s", &string))
    set_string (self, &self->reason, string, "availability-reason");
  apply_availability (self, values);
  if (g_variant_lookup (values, "Version", "&s", &string))
    set_string (self, &self->version, string, "version");
  if (g_variant_lookup (values, "ApiVersion", "u", &number) && number != self->api_version)
    {
      self->api_version = number;
      g_object_notify (G_OBJECT (self), "api-version");
    }
  apply_features (self, values);
  if (g_variant_lookup (values, "ActiveModel", "&o", &string))
    {
      g_free (self->active_path);
      self->active_path = g_strdup (string);
      update_active_model (self);
    }
  g_object_thaw_notify (G_OBJECT (self));
  if (g_variant_lookup (values, "LoadProgress", "(tt)", &done, &total)
      && (total > 0 || self->has_load_progress))
    {
      self->has_load_progress = total > 0;
      g_signal_emit_by_name (self, "load-progress", done, total);
    }
}

void
llmsvc_client_set_not_running (LlmsvcClient *self,
                               gboolean      is_activatable)
{
  self->is_activatable = is_activatable;
  set_string (self, &self->reason, "", "availability-reason");
  set_availability (self, is_activatable ? LLMSVC_AVAILABILITY_IDLE : LLMSVC_AVAILABILITY_ABSENT);
}

/* --- models --- */

static int
compare_models (gconstpointer a,
                gconstpointer b,
                gpointer      data)
{
  return strcmp (llmsvc_model_get_path ((LlmsvcModel *) a),
                 llmsvc_model_get_path ((LlmsvcModel *) b));
}

/* @interfaces: a{sa{sv}} of the object at @path */
void
llmsvc_client_add_model (LlmsvcClient *self,
                         const char   *path,
                         GVariant     *interfaces)
{
  g_autoptr(GVariant) values = NULL;
  g_autoptr(LlmsvcModel) model = NULL;

  values = g_variant_lookup_value (interfaces, LLMSVC_MODEL_INTERFACE, G_VARIANT_TYPE_VARDICT);
  if (values == NULL)
    return;
  if (find_model (self, path, NULL) != NULL)
    {
      llmsvc_client_update_model (self, path, values);
      return;
    }

  model = llmsvc_model_new (path, values);
  g_list_store_insert_sorted (self->models, model, compare_models, NULL);
  update_active_model (self);
}

void
llmsvc_client_remove_model (LlmsvcClient *self,
                            const char   *path)
{
  guint position;

  if (find_model (self, path, &position) == NULL)
    return;

  g_list_store_remove (self->models, position);
  update_active_model (self);
}

/* @objects: a{oa{sa{sv}}}, all there are; models that stay keep their object. */
static void
apply_models (LlmsvcClient *self,
              GVariant     *objects)
{
  g_autoptr(GHashTable) paths = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  GVariantIter iter;
  const char *path;
  GVariant *interfaces;

  g_variant_iter_init (&iter, objects);
  while (g_variant_iter_next (&iter, "{&o@a{sa{sv}}}", &path, &interfaces))
    {
      g_hash_table_add (paths, g_strdup (path));
      llmsvc_client_add_model (self, path, interfaces);
      g_variant_unref (interfaces);
    }

  for (guint i = g_list_model_get_n_items (G_LIST_MODEL (self->models)); i > 0; i--)
    {
      g_autoptr(LlmsvcModel) model = g_list_model_get_item (G_LIST_MODEL (self->models), i - 1);

      if (!g_hash_table_contains (paths, llmsvc_model_get_path (model)))
        g_list_store_remove (self->models, i - 1);
    }
  update_active_model (self);
}

void
llmsvc_client_update_model (LlmsvcClient *self,
                            const char   *path,
                            GVariant     *values)
{
  LlmsvcModel *model = find_model (self, path, NULL);

  if (model != NULL)
    llmsvc_model_update (model, values);
}

/* --- reading all --- */

/* (transfer full) (nullable): the value in the reply; NULL when @task has failed with it. */
static GVariant *
finish_reading (GTask        *task,
                GAsyncResult *result)
{
  GError *error = NULL;
  g_autoptr(LlmsvcReply) reply = llmsvc_call_finish (result, NULL, &error);

  if (reply == NULL)
    g_task_return_error (task, error);
  return reply != NULL ? g_variant_get_child_value (reply->body, 0) : NULL;
}

static void
on_properties_read (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(GVariant) values = finish_reading (task, result);

  if (values == NULL)
    return;

  llmsvc_client_apply_properties (g_task_get_source_object (task), values);
  g_task_return_boolean (task, TRUE);
}

static void
on_models_read (GObject      *source,
                GAsyncResult *result,
                gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcClient *self = g_task_get_source_object (task);
  g_autoptr(GVariant) objects = finish_reading (task, result);
  const LlmsvcCallInfo info = {
    LLMSVC_PATH, DBUS_PROPERTIES_INTERFACE, "GetAll", "(a{sv})",
    (LlmsvcCallFlags) GPOINTER_TO_UINT (g_task_get_task_data (task)),
  };

  if (objects == NULL)
    return;

  apply_models (self, objects);
  llmsvc_call_async (self->peer, NULL, &info, g_variant_new ("(s)", LLMSVC_INTERFACE),
                     g_task_get_cancellable (task), on_properties_read, g_object_ref (task));
}

/* The models first: a service that was just started answers when it has read their folders, and
 * only then knows which one is in use. */
void
llmsvc_client_read_async (LlmsvcClient        *self,
                          LlmsvcCallFlags      flags,
                          GCancellable        *cancellable,
                          GAsyncReadyCallback  callback,
                          gpointer             user_data)
{
  GTask *task = llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_client_read_async);
  const LlmsvcCallInfo info = {
    LLMSVC_MODELS_PATH, DBUS_OBJECT_MANAGER_INTERFACE, "GetManagedObjects", "(a{oa{sa{sv}}})",
    flags,
  };

  g_task_set_task_data (task, GUINT_TO_POINTER (flags), NULL);
  llmsvc_call_async (self->peer, NULL, &info, NULL, cancellable, on_models_read, task);
}

gboolean
llmsvc_client_read_finish (GAsyncResult  *result,
                           GError       **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}
