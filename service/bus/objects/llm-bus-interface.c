/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-interface.h"

#include "llm-bus-resource.h"
#include "common/llmsvc-error.h"

#define XML_PATH "/org/llm/Service/org.llm.Service.xml"

/* The XML is a part of the program: that it can't be read is a fault of the build. */
static GDBusNodeInfo *
load_node_info (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GBytes) bytes = NULL;
  GDBusNodeInfo *info;

  bytes = g_resource_lookup_data (llm_bus_resource_get_resource (), XML_PATH,
                                  G_RESOURCE_LOOKUP_FLAGS_NONE, &error);
  if (bytes == NULL)
    g_error ("The interface description is missing: %s", error->message);

  info = g_dbus_node_info_new_for_xml (g_bytes_get_data (bytes, NULL), &error);
  if (info == NULL)
    g_error ("The interface description is wrong: %s", error->message);

  return info;
}

GDBusInterfaceInfo *
llm_bus_interface_lookup_info (const char *name)
{
  static gsize node_info = 0;
  GDBusInterfaceInfo *info;

  if (g_once_init_enter (&node_info))
    g_once_init_leave (&node_info, (gsize) load_node_info ());

  info = g_dbus_node_info_lookup_interface ((GDBusNodeInfo *) node_info, name);
  if (info == NULL)
    g_error ("The interface description lacks %s", name);

  return info;
}

const LlmBusMethod *
llm_bus_interface_find_method (const LlmBusInterface *self,
                               const char            *name)
{
  for (const LlmBusMethod *m = self->methods; m != NULL && m->name != NULL; m++)
    if (g_str_equal (m->name, name))
      return m;

  return NULL;
}

GVariant *
llm_bus_interface_get_property (const LlmBusInterface *self,
                                LlmBus                *bus,
                                gpointer               object,
                                const char            *name,
                                GError               **error)
{
  g_autoptr(GVariant) all =
    self->list_properties != NULL ? g_variant_ref_sink (self->list_properties (bus, object)) : NULL;
  GVariant *value = all != NULL ? g_variant_lookup_value (all, name, NULL) : NULL;

  if (value == NULL)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AUTHORIZED, "Nobody may read %s.%s",
                 self->name, name);
  return value;
}

gboolean
llm_bus_interface_check (const LlmBusInterface *self,
                         GError               **error)
{
  GDBusInterfaceInfo *info = llm_bus_interface_lookup_info (self->name);
  const char *missing = NULL, *place = "table";

  for (guint i = 0; missing == NULL && info->methods != NULL && info->methods[i] != NULL; i++)
    if (llm_bus_interface_find_method (self, info->methods[i]->name) == NULL)
      missing = info->methods[i]->name;
  for (const LlmBusMethod *m = self->methods;
       missing == NULL && m != NULL && m->name != NULL; m++)
    if (g_dbus_interface_info_lookup_method (info, m->name) == NULL)
      {
        missing = m->name;
        place = "XML";
      }

  if (missing != NULL)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, "%s %s.%s is missing in the %s", "Method",
                 self->name, missing, place);
  return missing == NULL;
}
