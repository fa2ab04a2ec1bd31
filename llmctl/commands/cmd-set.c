/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl set: one property of an object. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-object.h"
#include "llmctl/bus/llmctl-value.h"

static LlmctlExit
run (int    argc,
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
  reply = llmctl_call (bus, path, "org.freedesktop.DBus.Properties", "Set",
                       g_variant_new ("(ssv)", member->interface->name, member->name, value), "()",
                       &error);
  return reply != NULL ? LLMCTL_EXIT_OK : llmctl_fail (error);
}

static void
complete (LlmctlCompletion *completion,
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
  .run = run,
  .complete = complete,
};
