/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl tree, get and set: the objects of the service that this caller may see, and their
 * properties. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/bus/llmctl-service.h"

#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"

/* --- tree --- */

/* (transfer container): the interfaces that are to be shown; ends with NULL. */
static char **
select_interfaces (const LlmctlObject *object)
{
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; object->node != NULL && i < object->node->interfaces->len; i++)
    {
      const char *name = llmctl_node_get_interface (object->node, i)->name;

      if (llmctl_object_shows (name))
        g_ptr_array_add (names, (gpointer) name);
    }
  g_ptr_array_add (names, NULL);
  return (char **) g_ptr_array_free (names, FALSE);
}

/* Whether no other object below the same one comes after @i. */
static gboolean
is_last (GPtrArray *objects,
         guint      i)
{
  const LlmctlObject *self = g_ptr_array_index (objects, i);
  const LlmctlObject *next;

  for (i++; i < objects->len; i++)
    {
      next = g_ptr_array_index (objects, i);
      if (next->depth <= self->depth)
        return next->depth < self->depth;
    }
  return TRUE;
}

static void
print_tree (GPtrArray *objects)
{
  gboolean has_ended[LLMCTL_OBJECT_MAX_DEPTH + 1] = { FALSE };

  for (guint i = 0; i < objects->len; i++)
    {
      const LlmctlObject *object = g_ptr_array_index (objects, i);
      g_autoptr(GString) lines = g_string_new (NULL);
      g_autofree char **names = select_interfaces (object);
      g_autofree char *joined = g_strjoinv (", ", names);

      has_ended[object->depth] = is_last (objects, i);
      for (guint j = 1; j < object->depth; j++)
        g_string_append (lines, has_ended[j] ? "   " : "│  ");
      if (object->depth > 0)
        g_string_append (lines, has_ended[object->depth] ? "└─ " : "├─ ");
      llmctl_output_text (LLMCTL_STYLE_DIM, lines->str);
      llmctl_output_text (LLMCTL_STYLE_BOLD, object->name);
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s%s\n", *joined != '\0' ? "  " : "", joined);
    }
}

static void
print_json (GPtrArray *objects)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < objects->len; i++)
    {
      const LlmctlObject *object = g_ptr_array_index (objects, i);
      g_autofree char **names = select_interfaces (object);

      g_variant_builder_add_value (&builder,
                                   g_variant_new_parsed ("{'path': <%s>, 'interfaces': <%^as>}",
                                                         object->path, names));
    }
  llmctl_output_json_member ("objects", g_variant_builder_end (&builder));
}

static LlmctlExit
run_tree (int       argc,
          char    **argv,
          GError  **error)
{
  g_autoptr(GPtrArray) objects = NULL;
  gboolean is_complete = TRUE;
  const char *root = llmctl_object_take_path (&argc, &argv, error);

  if (root != NULL && argc > 1)
    return llmctl_complain_usage (_("“tree” takes one object path at most"));
  if (root != NULL)
    objects = llmctl_object_list (root, &is_complete, error);
  if (objects == NULL)
    return LLMCTL_EXIT_FAILED;

  if (llmctl_globals.is_json)
    print_json (objects);
  else
    print_tree (objects);
  if (!is_complete)
    llmctl_complain (_("There are more objects than are shown"));
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_tree_command = {
  .name = "tree",
  .parameters = N_("[PATH]"),
  .summary = N_("Show the objects of the service on the bus"),
  .description = N_("Every object that you may see, with its interfaces. With --json an "
                    "object with “objects”, an array of objects with “path” and “interfaces”."),
  .options = llmctl_object_options,
  .is_long = TRUE,
  .run = run_tree,
  .names = LLMCTL_NAMES_OBJECTS,
};

/* --- get --- */

/* (nullable) (transfer full): the value inside of the variant. */
static GVariant *
get_value (const char  *path,
           const char  *interface,
           const char  *name,
           GError     **error)
{
  g_autoptr(GVariant) variant = llmctl_call (path, PROPERTIES_INTERFACE, "Get",
                                             g_variant_new ("(ss)", interface, name), "v", error);

  return variant != NULL ? g_variant_get_variant (variant) : NULL;
}

static void
get_one (const char  *path,
         const char  *name,
         GError     **error)
{
  const char *dot = strrchr (name, '.');
  g_autofree char *wanted = g_strndup (name, dot != NULL ? (gsize) (dot - name) : 0);
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GVariant) value = NULL;
  g_autoptr(GError) local_error = NULL;
  const LlmctlMember *member = NULL;

  /* Whose name is whole needs no question first; when it fails, the question tells why. */
  if (dot != NULL && g_dbus_is_interface_name (wanted) && g_dbus_is_member_name (dot + 1))
    value = get_value (path, wanted, dot + 1, &local_error);
  if (value == NULL && (local_error == NULL || local_error->code == LLMSVC_ERROR_UNSUPPORTED ||
                        local_error->code == LLMSVC_ERROR_INVALID_ARGUMENT))
    {
      g_clear_error (&local_error);
      member = llmctl_object_find_member (path, LLMCTL_MEMBER_PROPERTY, name, &node, &local_error);
      if (member != NULL)
        value = get_value (path, member->interface->name, member->name, &local_error);
    }

  if (value == NULL)
    g_propagate_error (error, g_steal_pointer (&local_error));
  else if (llmctl_globals.is_json)
    llmctl_output_json_member ("value", value);
  else
    llmctl_output_value (value);
}

static void
get_all (const char  *path,
         GError     **error)
{
  g_auto(GVariantBuilder) all = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  g_autoptr(LlmctlNode) node = llmctl_object_introspect (path, error);
  gboolean is_first = TRUE;

  for (guint i = 0; node != NULL && i < node->interfaces->len; i++)
    {
      const GDBusInterfaceInfo *interface = llmctl_node_get_interface (node, i);
      g_autoptr(GVariant) properties = NULL;

      if (interface->properties == NULL || interface->properties[0] == NULL)
        continue;
      properties = llmctl_service_get_properties (path, interface->name, error);
      if (properties == NULL)
        return;

      if (llmctl_globals.is_json)
        {
          g_variant_builder_add (&all, "{sv}", interface->name,
                                 llmctl_json_rename_keys (properties));
          continue;
        }
      llmctl_output_printf (LLMCTL_STYLE_DIM, "%s[%s]\n", is_first ? "" : "\n", interface->name);
      llmctl_output_value (properties);
      is_first = FALSE;
    }
  if (node != NULL && llmctl_globals.is_json)
    llmctl_output_json (g_variant_builder_end (&all));
}

static LlmctlExit
run_get (int       argc,
         char    **argv,
         GError  **error)
{
  const char *path = llmctl_object_take_path (&argc, &argv, error);

  if (path != NULL && argc > 2)
    return llmctl_complain_usage (_("“get” takes an object path and one property at most"));
  if (path != NULL && argc > 1)
    get_one (path, argv[1], error);
  else if (path != NULL)
    get_all (path, error);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_get_command = {
  .name = "get",
  .parameters = N_("[PATH] [[INTERFACE.]PROPERTY]"),
  .summary = N_("Print a property of an object, or all of them"),
  .description = N_("With --json an object with “value”, that of the property, or one of "
                    "interfaces with their properties."),
  .run = run_get,
  .names = LLMCTL_NAMES_READABLE_PROPERTIES,
};

/* --- set --- */

static LlmctlExit
run_set (int       argc,
         char    **argv,
         GError  **error)
{
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GVariant) value = NULL;
  g_autoptr(GVariant) reply = NULL;
  const LlmctlMember *member;
  const char *path = llmctl_object_take_path (&argc, &argv, error);

  if (path == NULL)
    return LLMCTL_EXIT_FAILED;
  if (argc != 3)
    return llmctl_complain_usage (_("“set” takes a property and its value"));

  member = llmctl_object_find_member (path, LLMCTL_MEMBER_PROPERTY, argv[1], &node, error);
  if (member == NULL)
    return LLMCTL_EXIT_FAILED;
  if ((member->flags & G_DBUS_PROPERTY_INFO_FLAGS_WRITABLE) == 0)
    {
      llmctl_complain (_("“%s” can be read, but not changed; “llmctl introspect %s” shows what an "
                         "object can do"), member->name, member->interface->name);
      return LLMCTL_EXIT_FAILED;
    }

  value = llmctl_value_parse (member->name, member->type, argv[2], error);
  if (value != NULL)
    reply = llmctl_call (path, PROPERTIES_INTERFACE, "Set",
                         g_variant_new ("(ssv)", member->interface->name, member->name, value), "",
                         error);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_set_command = {
  .name = "set",
  .parameters = N_("[PATH] [INTERFACE.]PROPERTY VALUE"),
  .summary = N_("Change a property of an object"),
  .description = N_("The value is a plain word for what is simple and JSON for the rest. Prints "
                    "nothing."),
  .run = run_set,
  .names = LLMCTL_NAMES_WRITABLE_PROPERTIES,
};
