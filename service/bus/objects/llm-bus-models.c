/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-models.h"

#include "bus/objects/llm-bus-model.h"
#include "common/llmsvc-names.h"

#define OBJECT_MANAGER_INTERFACE "org.freedesktop.DBus.ObjectManager"

struct _LlmBusModels
{
  GObject parent_instance;

  LlmEngine *engine;
  gulong handler;
  GDBusConnection *connection;
  guint filter;
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

/* --- the list, once it is known --- */

/* GetManagedObjects that waits for the answer. */
typedef struct
{
  LlmBusModels *models;   /* (owned) */
  GDBusMessage *message;  /* (owned) */
} Question;

static void
question_free (Question *question)
{
  g_object_unref (question->models);
  g_object_unref (question->message);
  g_free (question);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Question, question_free)

static GVariant *
list_objects (LlmBusModels *self)
{
  g_autolist(GDBusObject) objects =
    g_dbus_object_manager_get_objects (G_DBUS_OBJECT_MANAGER (self->server));
  GVariantBuilder list;

  g_variant_builder_init (&list, G_VARIANT_TYPE ("a{oa{sa{sv}}}"));
  for (GList *i = objects; i != NULL; i = i->next)
    {
      g_autolist(GDBusInterface) interfaces = g_dbus_object_get_interfaces (i->data);

      g_variant_builder_open (&list, G_VARIANT_TYPE ("{oa{sa{sv}}}"));
      g_variant_builder_add (&list, "o", g_dbus_object_get_object_path (i->data));
      g_variant_builder_open (&list, G_VARIANT_TYPE ("a{sa{sv}}"));
      for (GList *j = interfaces; j != NULL; j = j->next)
        {
          g_autoptr(GVariant) properties = g_dbus_interface_skeleton_get_properties (j->data);

          g_variant_builder_add (&list, "{s@a{sv}}", g_dbus_interface_get_info (j->data)->name,
                                 properties);
        }
      g_variant_builder_close (&list);
      g_variant_builder_close (&list);
    }

  return g_variant_builder_end (&list);
}

static void
on_started (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  g_autoptr(Question) question = data;
  LlmBusModels *self = question->models;
  g_autoptr(GDBusMessage) reply = NULL;
  g_autoptr(GVariant) list = g_variant_ref_sink (list_objects (self));
  g_autoptr(GError) error = NULL;

  /* what is stored may not be readable while the models are known */
  if (llm_engine_await_start_finish (result, &error) || g_variant_n_children (list) > 0)
    {
      reply = g_dbus_message_new_method_reply (question->message);
      g_dbus_message_set_body (reply, g_variant_new ("(@a{oa{sa{sv}}})", list));
    }
  else
    {
      g_autofree char *name = g_dbus_error_encode_gerror (error);

      reply = g_dbus_message_new_method_error_literal (question->message, name, error->message);
    }
  g_dbus_connection_send_message (self->connection, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                  NULL);
}

static gboolean
answer_question (gpointer data)
{
  Question *question = data;

  llm_engine_await_start (question->models->engine, on_started, question);
  return G_SOURCE_REMOVE;
}

/* In GDBus's thread. GDBus answers with what is exported, which is nothing before the folders
 * were read: who has made the bus start the service would hear that there is no model. */
static GDBusMessage *
filter_message (GDBusConnection *connection,
                GDBusMessage    *message,
                gboolean         incoming,
                gpointer         data)
{
  Question *question;

  if (!incoming || g_dbus_message_get_message_type (message) != G_DBUS_MESSAGE_TYPE_METHOD_CALL ||
      g_strcmp0 (g_dbus_message_get_member (message), "GetManagedObjects") != 0 ||
      g_strcmp0 (g_dbus_message_get_interface (message), OBJECT_MANAGER_INTERFACE) != 0 ||
      g_strcmp0 (g_dbus_message_get_path (message), LLMSVC_MODELS_PATH) != 0 ||
      g_dbus_message_get_signature (message)[0] != '\0' ||
      g_dbus_message_get_sender (message) == NULL)
    return message;

  question = g_new0 (Question, 1);
  question->models = g_object_ref (data);
  question->message = message;
  g_main_context_invoke (NULL, answer_question, question);
  return NULL;
}

static void
llm_bus_models_finalize (GObject *object)
{
  LlmBusModels *self = LLM_BUS_MODELS (object);

  llm_bus_models_unexport (self);
  g_hash_table_unref (self->exported);
  g_object_unref (self->server);
  g_object_unref (self->connection);
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
  self->connection = g_object_ref (connection);
  follow_list (self);
  g_dbus_object_manager_server_set_connection (self->server, connection);
  self->handler = g_signal_connect_swapped (engine, "models-changed", G_CALLBACK (follow_list),
                                            self);
  self->filter = g_dbus_connection_add_filter (connection, filter_message, g_object_ref (self),
                                               g_object_unref);
  return self;
}

void
llm_bus_models_unexport (LlmBusModels *self)
{
  g_return_if_fail (LLM_IS_BUS_MODELS (self));

  g_clear_signal_handler (&self->handler, self->engine);
  if (self->filter != 0)
    g_dbus_connection_remove_filter (self->connection, self->filter);
  self->filter = 0;
  g_dbus_object_manager_server_set_connection (self->server, NULL);
}
