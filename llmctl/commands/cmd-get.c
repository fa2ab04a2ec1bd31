/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl get and set: properties of an object. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-value.h"

#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"

/* --- get --- */

/* (nullable) (transfer full): the value inside of the variant. */
static GVariant *
get_value (GDBusConnection  *bus,
           const char       *path,
           const char       *interface,
           const char       *name,
           GError          **error)
{
  g_autoptr(GVariant) reply = NULL;
  GVariant *value = NULL;

  reply = llmctl_call (bus, path, PROPERTIES_INTERFACE, "Get",
                       g_variant_new ("(ss)", interface, name), "(v)", error);
  if (reply != NULL)
    g_variant_get (reply, "(v)", &value);
  return value;
}

static LlmctlExit
get_one (GDBusConnection *bus,
         const char      *path,
         const char      *name)
{
  const char *dot = strrchr (name, '.');
  g_autofree char *wanted = g_strndup (name, dot != NULL ? (gsize) (dot - name) : 0);
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GVariant) value = NULL;
  g_autoptr(GError) error = NULL;
  const LlmctlMember *member;

  /* Whose name is whole needs no question first; when it fails, the question tells why. */
  if (dot != NULL && g_dbus_is_interface_name (wanted) && g_dbus_is_member_name (dot + 1))
    value = get_value (bus, path, wanted, dot + 1, &error);
  if (value == NULL && (error == NULL || error->code == LLMSVC_ERROR_UNSUPPORTED ||
                        error->code == LLMSVC_ERROR_INVALID_ARGUMENT))
    {
      g_clear_error (&error);
      node = llmctl_object_introspect (bus, path, &error);
      member = node != NULL ? llmctl_node_find_member (node, path, LLMCTL_MEMBER_PROPERTY, name,
                                                       &error)
                            : NULL;
      if (member != NULL)
        value = get_value (bus, path, member->interface->name, member->name, &error);
    }
  if (value == NULL)
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    llmctl_output_json_member ("value", value);
  else
    llmctl_output_value (value);
  return LLMCTL_EXIT_OK;
}

static LlmctlExit
get_all (GDBusConnection *bus,
         const char      *path)
{
  g_auto(GVariantBuilder) all = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmctlNode) node = llmctl_object_introspect (bus, path, &error);
  const GDBusInterfaceInfo *last = NULL;

  if (node == NULL)
    return llmctl_fail (error);

  for (guint i = 0; i < node->members->len; i++)
    {
      const LlmctlMember *member = llmctl_node_get_member (node, i);
      g_autoptr(GVariant) properties = NULL;

      /* Once for each interface that has some. */
      if (member->kind != LLMCTL_MEMBER_PROPERTY || member->interface == last)
        continue;
      properties = llmctl_service_get_properties (bus, path, member->interface->name, &error);
      if (properties == NULL)
        return llmctl_fail (error);

      if (llmctl_globals.is_json)
        {
          g_variant_builder_add (&all, "{sv}", member->interface->name,
                                 llmctl_json_rename_keys (properties));
        }
      else
        {
          llmctl_output_printf (LLMCTL_STYLE_DIM, "%s[%s]\n", last == NULL ? "" : "\n",
                                member->interface->name);
          llmctl_output_value (properties);
        }
      last = member->interface;
    }
  if (llmctl_globals.is_json)
    llmctl_output_json (g_variant_builder_end (&all));

  return LLMCTL_EXIT_OK;
}

static LlmctlExit
run_get (int    argc,
         char **argv)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GError) error = NULL;
  const char *path;

  path = llmctl_object_take_path (&argc, &argv, &error);
  if (argc > 2)
    return llmctl_complain_usage (_("“get” takes an object path and one property at most"));
  if (path != NULL)
    bus = llmctl_connect (&error);
  if (bus == NULL)
    return llmctl_fail (error);

  return argc > 1 ? get_one (bus, path, argv[1]) : get_all (bus, path);
}

static void
complete_get (LlmctlCompletion *completion,
              int               argc,
              char            **argv)
{
  llmctl_object_complete_member (completion, argc, argv, LLMCTL_MEMBER_PROPERTY,
                                 G_DBUS_PROPERTY_INFO_FLAGS_READABLE);
}

const LlmctlCommand llmctl_get_command = {
  .name = "get",
  .parameters = N_("[PATH] [[INTERFACE.]PROPERTY]"),
  .summary = N_("Print a property of an object, or all of them"),
  .description = N_("With --json an object with “value”, that of the property, or one of "
                    "interfaces with their properties."),
  .run = run_get,
  .complete = complete_get,
};

/* --- set --- */

static LlmctlExit
run_set (int    argc,
         char **argv)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GVariant) value = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;
  const LlmctlMember *member;
  const char *path;

  path = llmctl_object_take_path (&argc, &argv, &error);
  if (path == NULL)
    return llmctl_fail (error);
  if (argc != 3)
    return llmctl_complain_usage (_("“set” takes a property and its value"));

  bus = llmctl_connect (&error);
  if (bus != NULL)
    node = llmctl_object_introspect (bus, path, &error);
  if (node == NULL)
    return llmctl_fail (error);
  member = llmctl_node_find_member (node, path, LLMCTL_MEMBER_PROPERTY, argv[1], &error);
  if (member == NULL)
    return llmctl_fail (error);
  if ((member->flags & G_DBUS_PROPERTY_INFO_FLAGS_WRITABLE) == 0)
    {
      llmctl_complain (_("“%s” can be read, but not changed; “llmctl introspect %s” shows what an "
                         "object can do"), member->name, member->interface->name);
      return LLMCTL_EXIT_FAILED;
    }

  value = llmctl_value_parse (member->name, member->type, argv[2], &error);
  if (value == NULL)
    return llmctl_fail (error);
  reply = llmctl_call (bus, path, PROPERTIES_INTERFACE, "Set",
                       g_variant_new ("(ssv)", member->interface->name, member->name, value), "()",
                       &error);
  return reply != NULL ? LLMCTL_EXIT_OK : llmctl_fail (error);
}

static void
complete_set (LlmctlCompletion *completion,
              int               argc,
              char            **argv)
{
  llmctl_object_complete_member (completion, argc, argv, LLMCTL_MEMBER_PROPERTY,
                                 G_DBUS_PROPERTY_INFO_FLAGS_WRITABLE);
}

const LlmctlCommand llmctl_set_command = {
  .name = "set",
  .parameters = N_("[PATH] [INTERFACE.]PROPERTY VALUE"),
  .summary = N_("Change a property of an object"),
  .description = N_("The value is a plain word for what is simple and JSON for the rest. Prints "
                    "nothing."),
  .run = run_set,
  .complete = complete_set,
};
