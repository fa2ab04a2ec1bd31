/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/objects/llm-bus-interface.h"

#include "bus/identity/llm-bus-bouncer.h"
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
  for (const LlmBusMethod *m = self->methods; m->name != NULL; m++)
    if (g_str_equal (m->name, name))
      return m;

  return NULL;
}

const LlmBusProperty *
llm_bus_interface_find_property (const LlmBusInterface *self,
                                 const char            *name)
{
  for (const LlmBusProperty *p = self->properties; p->name != NULL; p++)
    if (g_str_equal (p->name, name))
      return p;

  return NULL;
}

GVariant *
llm_bus_interface_list_properties (const LlmBusInterface *self,
                                   LlmBus                *bus,
                                   gpointer               object)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  for (const LlmBusProperty *p = self->properties; p->name != NULL; p++)
    if (llm_bus_bouncer_check_property (self->name, p->name, NULL))
      g_variant_builder_add (&builder, "{sv}", p->name, p->get (bus, object));

  return g_variant_builder_end (&builder);
}

static gboolean
check_entry (gconstpointer  found,
             const char    *kind,
             const char    *interface,
             const char    *member,
             const char    *place,
             GError       **error)
{
  if (found != NULL)
    return TRUE;

  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, "%s %s.%s is missing in the %s", kind,
               interface, member, place);
  return FALSE;
}

gboolean
llm_bus_interface_check (const LlmBusInterface *self,
                         GError               **error)
{
  GDBusInterfaceInfo *info = llm_bus_interface_lookup_info (self->name);

  for (guint i = 0; info->methods != NULL && info->methods[i] != NULL; i++)
    if (!check_entry (llm_bus_interface_find_method (self, info->methods[i]->name), "Method",
                      self->name, info->methods[i]->name, "table", error))
      return FALSE;
  for (guint i = 0; info->properties != NULL && info->properties[i] != NULL; i++)
    if (!check_entry (llm_bus_interface_find_property (self, info->properties[i]->name),
                      "Property", self->name, info->properties[i]->name, "table", error))
      return FALSE;

  for (const LlmBusMethod *m = self->methods; m->name != NULL; m++)
    if (!check_entry (g_dbus_interface_info_lookup_method (info, m->name), "Method", self->name,
                      m->name, "XML", error))
      return FALSE;
  for (const LlmBusProperty *p = self->properties; p->name != NULL; p++)
    if (!check_entry (g_dbus_interface_info_lookup_property (info, p->name), "Property",
                      self->name, p->name, "XML", error))
      return FALSE;

  return TRUE;
}
