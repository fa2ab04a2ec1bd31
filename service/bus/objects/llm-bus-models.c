/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-translate.h"
#include "bus/objects/llm-bus-objects.h"

#include "common/llmsvc-names.h"

struct _LlmBusModels
{
  LlmBus *bus;           /* (owned) */
  gulong handler;
  GHashTable *exported;  /* (element-type utf8 Exported) (owned): by path */
};

typedef struct
{
  LlmBus *bus;           /* (unowned) */
  LlmModelInfo *info;    /* (owned) */
  guint registration;
} Exported;

static GStrv
list_warnings (const LlmModelInfo *info)
{
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < info->warnings->len; i++)
    {
      g_autofree char *text = llm_bus_translate (NULL, g_ptr_array_index (info->warnings, i));

      g_strv_builder_add (builder, text);
    }
  return g_strv_builder_end (builder);
}

static GVariant *
list_properties (LlmBus  *bus,
                 gpointer object)
{
  const LlmModelInfo *info = object;
  const char *draft = llm_engine_find_draft (bus->engine, info->id);
  g_autofree char *draft_reason = llm_engine_explain_draft (bus->engine, info);
  const LlmDraftSums sums = llm_engine_sum_drafts (bus->engine, info->id);
  g_auto(GStrv) sub_models = llm_engine_list_sub_models (bus->engine, info);
  guint held = llm_engine_get_held_sub_model (bus->engine, info);
  const LlmPrefillState prefill = llm_engine_explain_prefill (bus->engine, info);
  /* in English, because all callers get the same signal */
  g_autofree char *reason = info->error != NULL ? llm_bus_translate (NULL, info->error) : NULL;
  g_auto(GStrv) warnings = list_warnings (info);

  return g_variant_new_parsed ("{'Id': <%s>, 'Title': <%s>, 'Info': <@a{sv} {"
                               "'architecture': <%s>, 'parameters': <%t>, 'file-bytes': <%t>, "
                               "'least-budget': <%t>, "
                               "'context-length': <%u>, 'quantization': <%s>, 'license': <%s>, "
                               "'usable': <%b>, 'reason': <%s>, 'warnings': <%^as>, "
                               "'sub-models': <%^as>, 'levels': <%@aa{sv}>, "
                               "'sparsities': <%@aa{sv}>, 'held-sub-model': <%u>, 'draft': <%s>, 'draft-reason': <%s>, "
                               "'drafted-tokens': <%t>, 'accepted-tokens': <%t>, "
                               "'prefill': <%s>, 'prefill-reason': <%s>, 'prefill-growth': <%d>, "
                               "'prefill-divergence': <%d>, 'prefill-speedup': <%d>}>}",
                               info->id, info->title, info->architecture,
                               (guint64) info->parameters, (guint64) info->file_bytes,
                               info->footprint.least,
                               (guint32) info->context_length, info->quantization, info->license,
                               info->error == NULL, reason != NULL ? reason : "", warnings, sub_models,
                               llm_engine_describe_levels (bus->engine, info),
                               llm_engine_describe_sparsities (bus->engine, info), held,
                               draft != NULL ? draft : "", draft_reason, sums.n_drafted, sums.n_accepted,
                               prefill.way, prefill.reason, prefill.growth, prefill.divergence,
                               prefill.speedup);
}

const LlmBusInterface llm_bus_model_interface = { LLMSVC_MODEL_INTERFACE, NULL, list_properties };

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

/* --- the models --- */

static void
exported_free (gpointer data)
{
  Exported *exported = data;

  llm_model_info_unref (exported->info);
  g_free (exported);
}

static gboolean
is_same (LlmModelInfo *a,
         LlmModelInfo *b)
{
  return g_str_equal (a->path, b->path) && g_str_equal (a->title, b->title) &&
         a->file_bytes == b->file_bytes && a->parameters == b->parameters &&
         a->warnings->len == b->warnings->len &&
         g_strcmp0 (a->error != NULL ? a->error->message : NULL,
                    b->error != NULL ? b->error->message : NULL) == 0;
}

static void
take_info (Exported     *self,
           LlmModelInfo *info)
{
  llm_model_info_ref (info);
  llm_model_info_unref (self->info);
  self->info = info;
}

static GVariant *
get_property (GDBusConnection *connection,
              const char      *sender,
              const char      *path,
              const char      *interface,
              const char      *name,
              GError         **error,
              gpointer         data)
{
  const Exported *exported = data;
  g_autoptr(GVariant) all = g_variant_ref_sink (list_properties (exported->bus, exported->info));

  return g_variant_lookup_value (all, name, NULL);
}

static void
export_model (LlmBusModels *self,
              const char   *path,
              LlmModelInfo *info)
{
  static const GDBusInterfaceVTable vtable = { NULL, get_property, NULL, { NULL } };
  GDBusConnection *connection = self->bus->connection;
  Exported *exported = g_new0 (Exported, 1);

  exported->bus = self->bus;
  exported->info = llm_model_info_ref (info);
  exported->registration = g_dbus_connection_register_object (
    connection, path, llm_bus_interface_lookup_info (LLMSVC_MODEL_INTERFACE), &vtable, exported,
    NULL, NULL);
  g_hash_table_insert (self->exported, g_strdup (path), exported);
  g_dbus_connection_emit_signal (
    connection, NULL, LLMSVC_MODELS_PATH, LLM_BUS_OBJECT_MANAGER, "InterfacesAdded",
    g_variant_new_parsed ("(%o, {%s: %@a{sv}})", path, LLMSVC_MODEL_INTERFACE,
                          list_properties (self->bus, info)),
    NULL);
}

static void
unexport_model (LlmBusModels *self,
                const char   *path,
                Exported     *exported)
{
  g_dbus_connection_unregister_object (self->bus->connection, exported->registration);
  g_dbus_connection_emit_signal (
    self->bus->connection, NULL, LLMSVC_MODELS_PATH, LLM_BUS_OBJECT_MANAGER, "InterfacesRemoved",
    g_variant_new_parsed ("(%o, [%s])", path, LLMSVC_MODEL_INTERFACE), NULL);
}

static void
follow_list (LlmBusModels *self)
{
  g_autoptr(GHashTable) wanted = NULL;
  GPtrArray *models = llm_engine_get_models (self->bus->engine);
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

      if (now != NULL && is_same (now, ((Exported *) value)->info))
        {
          take_info (value, now);
          continue;
        }
      unexport_model (self, key, value);
      g_hash_table_iter_remove (&iter);
    }

  g_hash_table_iter_init (&iter, wanted);
  while (g_hash_table_iter_next (&iter, &key, &value))
    if (!g_hash_table_contains (self->exported, key))
      export_model (self, key, value);
}

LlmBusModels *
llm_bus_models_export (LlmBus *bus)
{
  LlmBusModels *self = g_new0 (LlmBusModels, 1);

  self->bus = llm_bus_ref (bus);
  self->exported = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, exported_free);
  follow_list (self);
  self->handler =
    g_signal_connect_swapped (bus->engine, "models-changed", G_CALLBACK (follow_list), self);
  return self;
}

void
llm_bus_models_unexport (LlmBusModels *self)
{
  GHashTableIter iter;
  Exported *exported;

  g_signal_handler_disconnect (self->bus->engine, self->handler);
  g_hash_table_iter_init (&iter, self->exported);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &exported))
    g_dbus_connection_unregister_object (self->bus->connection, exported->registration);
  g_hash_table_unref (self->exported);
  llm_bus_unref (self->bus);
  g_free (self);
}

/* --- the list, once it is known --- */

static void
on_started (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  LlmBusCall *call = data;
  GPtrArray *models = llm_engine_get_models (call->bus->engine);
  GError *error = NULL;
  GVariantBuilder list;

  /* the database may be unreadable while the models are known */
  if (!g_task_propagate_boolean (G_TASK (result), &error) && (models == NULL || models->len == 0))
    {
      llm_bus_call_finish (call, NULL, error);
      return;
    }

  g_clear_error (&error);
  g_variant_builder_init (&list, G_VARIANT_TYPE ("a{oa{sa{sv}}}"));
  for (guint i = 0; models != NULL && i < models->len; i++)
    {
      LlmModelInfo *info = g_ptr_array_index (models, i);
      g_autofree char *path = llm_bus_models_dup_path (info);

      g_variant_builder_add_parsed (&list, "{%o, {%s: %@a{sv}}}", path, LLMSVC_MODEL_INTERFACE,
                                    list_properties (call->bus, info));
    }
  llm_bus_call_finish (call, g_variant_new ("(a{oa{sa{sv}}})", &list), NULL);
}

/* GDBusObjectManagerServer answers with the exported objects, which are none before the folders
 * were scanned: the caller that activated the service would get an empty list. The folders are
 * scanned for each call, because not every file system reports changes. */
static gboolean
handle_get_managed_objects (LlmBusCall *call,
                            GError    **error)
{
  llm_engine_await_scan (call->bus->engine, on_started, llm_bus_call_ref (call));
  return TRUE;
}

static const LlmBusMethod manager_methods[] = {
  { "GetManagedObjects", 0, handle_get_managed_objects, LLM_BUS_EVERYONE },
  { NULL },
};

const LlmBusInterface llm_bus_model_manager_interface = { LLM_BUS_OBJECT_MANAGER, manager_methods,
                                                          NULL };
