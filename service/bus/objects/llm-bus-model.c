/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-model.h"

#include "bus/identity/llm-bus-bouncer.h"

#include "common/llmsvc-names.h"

struct _LlmBusModel
{
  GDBusInterfaceSkeleton parent_instance;

  LlmModelInfo *info;  /* (owned) */
};

G_DEFINE_FINAL_TYPE (LlmBusModel, llm_bus_model, G_TYPE_DBUS_INTERFACE_SKELETON)

static GVariant *
get_id (LlmBus  *bus,
        gpointer object)
{
  return g_variant_new_string (LLM_BUS_MODEL (object)->info->id);
}

static GVariant *
get_title (LlmBus  *bus,
           gpointer object)
{
  return g_variant_new_string (LLM_BUS_MODEL (object)->info->title);
}

static GVariant *
get_info (LlmBus  *bus,
          gpointer object)
{
  LlmModelInfo *info = LLM_BUS_MODEL (object)->info;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "architecture",
                         g_variant_new_string (info->architecture));
  g_variant_builder_add (&builder, "{sv}", "parameters", g_variant_new_uint64 (info->parameters));
  g_variant_builder_add (&builder, "{sv}", "file-bytes", g_variant_new_uint64 (info->file_bytes));
  g_variant_builder_add (&builder, "{sv}", "context-length",
                         g_variant_new_uint32 (info->context_length));
  g_variant_builder_add (&builder, "{sv}", "quantization",
                         g_variant_new_string (info->quantization));
  g_variant_builder_add (&builder, "{sv}", "license", g_variant_new_string (info->license));
  g_variant_builder_add (&builder, "{sv}", "sub-models", g_variant_new_strv (NULL, 0));
  return g_variant_builder_end (&builder);
}

static const LlmBusMethod methods[] = {
  { NULL },
};

static const LlmBusProperty properties[] = {
  { "Id", get_id },
  { "Title", get_title },
  { "Info", get_info },
  { NULL },
};

const LlmBusInterface llm_bus_model_interface = { LLMSVC_MODEL_INTERFACE, methods, properties };

static GVariant *
get_property (GDBusConnection *connection,
              const char      *sender,
              const char      *path,
              const char      *interface,
              const char      *name,
              GError         **error,
              gpointer         data)
{
  const LlmBusProperty *property = llm_bus_interface_find_property (&llm_bus_model_interface, name);

  g_assert (property != NULL);
  if (!llm_bus_bouncer_check_property (interface, name, error))
    return NULL;
  return property->get (NULL, data);
}

static GDBusInterfaceInfo *
llm_bus_model_get_dbus_info (GDBusInterfaceSkeleton *skeleton)
{
  return llm_bus_interface_lookup_info (LLMSVC_MODEL_INTERFACE);
}

static GDBusInterfaceVTable *
llm_bus_model_get_vtable (GDBusInterfaceSkeleton *skeleton)
{
  static GDBusInterfaceVTable vtable = { NULL, get_property, NULL, { NULL } };

  return &vtable;
}

static GVariant *
llm_bus_model_get_properties (GDBusInterfaceSkeleton *skeleton)
{
  return g_variant_ref_sink (
    llm_bus_interface_list_properties (&llm_bus_model_interface, NULL, skeleton));
}

/* Nothing ever changes. */
static void
llm_bus_model_flush (GDBusInterfaceSkeleton *skeleton)
{
}

static void
llm_bus_model_finalize (GObject *object)
{
  llm_model_info_unref (LLM_BUS_MODEL (object)->info);

  G_OBJECT_CLASS (llm_bus_model_parent_class)->finalize (object);
}

static void
llm_bus_model_class_init (LlmBusModelClass *klass)
{
  GDBusInterfaceSkeletonClass *skeleton_class = G_DBUS_INTERFACE_SKELETON_CLASS (klass);

  G_OBJECT_CLASS (klass)->finalize = llm_bus_model_finalize;
  skeleton_class->get_info = llm_bus_model_get_dbus_info;
  skeleton_class->get_vtable = llm_bus_model_get_vtable;
  skeleton_class->get_properties = llm_bus_model_get_properties;
  skeleton_class->flush = llm_bus_model_flush;
}

static void
llm_bus_model_init (LlmBusModel *self)
{
}

GDBusInterfaceSkeleton *
llm_bus_model_new (LlmModelInfo *info)
{
  LlmBusModel *self = g_object_new (LLM_TYPE_BUS_MODEL, NULL);

  self->info = llm_model_info_ref (info);
  return G_DBUS_INTERFACE_SKELETON (self);
}

LlmModelInfo *
llm_bus_model_get_info (LlmBusModel *self)
{
  g_return_val_if_fail (LLM_IS_BUS_MODEL (self), NULL);

  return self->info;
}
