/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-models.h"

#include "bus/llm-bus-model.h"
#include "common/llmsvc-names.h"

struct _LlmBusModels
{
  GObject parent_instance;

  LlmEngine *engine;
  gulong handler;
  GDBusObjectManagerServer *server;
  GHashTable *exported;  /* (element-type utf8 LlmModelInfo) (owned): path to what lies there */
};

G_DEFINE_FINAL_TYPE (LlmBusModels, llm_bus_models, G_TYPE_OBJECT)

/* An id may hold any character of a file name, a path letters, digits and '_'. */
char *
llm_bus_models_dup_path (LlmModelInfo *model)
{
  GString *path = g_string_new (LLMSVC_MODELS_PATH "/");

  for (const char *p = model->id; *p != '\0'; p++)
    {
      if (g_ascii_isalnum (*p))
        g_string_append_c (path, *p);
      else
        g_string_append_printf (path, "_%02x", (guint8) *p);
    }

  return g_string_free (path, FALSE);
}

static gboolean
is_same (LlmModelInfo *a,
         LlmModelInfo *b)
{
  return g_str_equal (a->path, b->path) && g_str_equal (a->title, b->title) &&
         a->file_bytes == b->file_bytes && a->parameters == b->parameters;
}

static void
export_model (LlmBusModels *self,
              const char   *path,
              LlmModelInfo *info)
{
  g_autoptr(GDBusObjectSkeleton) object = g_dbus_object_skeleton_new (path);
  g_autoptr(GDBusInterfaceSkeleton) skeleton = llm_bus_model_new (info);

  g_dbus_object_skeleton_add_interface (object, skeleton);
  g_dbus_object_manager_server_export (self->server, object);
  g_hash_table_insert (self->exported, g_strdup (path), llm_model_info_ref (info));
}

static void
follow_list (LlmBusModels *self)
{
  g_autoptr(GHashTable) wanted = NULL;
  GPtrArray *models = llm_engine_get_models (self->engine);
  GHashTableIter iter;
  gpointer key, value;

  wanted = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; models != NULL && i < models->len; i++)
    {
      LlmModelInfo *info = g_ptr_array_index (models, i);

      g_hash_table_insert (wanted, llm_bus_models_dup_path (info), info);
    }

  g_hash_table_iter_init (&iter, self->exported);
  while (g_hash_table_iter_next (&iter, &key, &value))
    {
      LlmModelInfo *now = g_hash_table_lookup (wanted, key);

      if (now != NULL && is_same (now, value))
        continue;
      g_dbus_object_manager_server_unexport (self->server, key);
      g_hash_table_iter_remove (&iter);
    }

  g_hash_table_iter_init (&iter, wanted);
  while (g_hash_table_iter_next (&iter, &key, &value))
    if (!g_hash_table_contains (self->exported, key))
      export_model (self, key, value);
}

static void
llm_bus_models_finalize (GObject *object)
{
  LlmBusModels *self = LLM_BUS_MODELS (object);

  llm_bus_models_unexport (self);
  g_hash_table_unref (self->exported);
  g_object_unref (self->server);
  g_object_unref (self->engine);

  G_OBJECT_CLASS (llm_bus_models_parent_class)->finalize (object);
}

static void
llm_bus_models_class_init (LlmBusModelsClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_bus_models_finalize;
}

static void
llm_bus_models_init (LlmBusModels *self)
{
  self->exported = g_hash_table_new_full (g_str_hash, g_str_equal, g_free,
                                          (GDestroyNotify) llm_model_info_unref);
  self->server = g_dbus_object_manager_server_new (LLMSVC_MODELS_PATH);
}

LlmBusModels *
llm_bus_models_new (GDBusConnection *connection,
                    LlmEngine       *engine)
{
  LlmBusModels *self;

  g_return_val_if_fail (G_IS_DBUS_CONNECTION (connection), NULL);

  self = g_object_new (LLM_TYPE_BUS_MODELS, NULL);
  self->engine = g_object_ref (engine);
  follow_list (self);
  g_dbus_object_manager_server_set_connection (self->server, connection);
  self->handler = g_signal_connect_swapped (engine, "models-changed", G_CALLBACK (follow_list),
                                            self);
  return self;
}

void
llm_bus_models_unexport (LlmBusModels *self)
{
  g_return_if_fail (LLM_IS_BUS_MODELS (self));

  g_clear_signal_handler (&self->handler, self->engine);
  g_dbus_object_manager_server_set_connection (self->server, NULL);
}
