/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl introspect: what an object can do, with the help that is installed. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-object.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/llmctl.h"
#include "llmctl/output/llmctl-json.h"

static const char *const kinds[] = {
  [LLMCTL_MEMBER_METHOD] = N_("Methods:"),
  [LLMCTL_MEMBER_PROPERTY] = N_("Properties:"),
  [LLMCTL_MEMBER_SIGNAL] = N_("Signals:"),
};

/* What is shown: a node, and the values of its object, which may be kept from this caller. */
typedef struct
{
  const char *path;         /* (nullable): NULL for the interface file, which has no values */
  const LlmctlNode *node;
} View;

/* (nullable) (transfer full): of @interface, a{sv}. */
static GVariant *
get_properties (const View               *view,
                const GDBusInterfaceInfo *interface)
{
  return view->path != NULL && interface->properties != NULL
             ? llmctl_service_get_properties (view->path, interface->name, NULL)
             : NULL;
}

/* (nullable) (transfer full): of @properties (nullable). */
static GVariant *
get_value (GVariant           *properties,
           const LlmctlMember *member)
{
  return properties != NULL && member->kind == LLMCTL_MEMBER_PROPERTY
             ? g_variant_lookup_value (properties, member->name, NULL)
             : NULL;
}

/* --- for programs --- */

static GVariant *
describe_arguments (const LlmctlMember  *member,
                    GDBusArgInfo       **arguments)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (gsize i = 0; arguments[i] != NULL; i++)
    {
      g_autofree char *type = llmctl_type_describe (arguments[i]->signature);

      g_variant_builder_add_value (&builder, llmctl_json_object (
          "name:s", arguments[i]->name, "type:s", type, "signature:s", arguments[i]->signature,
          "help:s", llmctl_docs_get_help (member->interface->name, member->name,
                                          arguments[i]->name), NULL));
    }

  return g_variant_builder_end (&builder);
}

static GVariant *
describe_member (const LlmctlMember *member,
                 GVariant           *properties)
{
  const char *help = llmctl_docs_get_help (member->interface->name, member->name, NULL);
  GVariant *deprecated = member->is_deprecated ? g_variant_new_boolean (TRUE) : NULL;
  g_autoptr(GVariant) value = get_value (properties, member);
  g_autofree char *type = NULL;

  if (member->kind != LLMCTL_MEMBER_PROPERTY)
    return llmctl_json_object ("name:s", member->name, "help:s", help, "deprecated:*", deprecated,
                               "in:*", member->kind == LLMCTL_MEMBER_METHOD
                                           ? describe_arguments (member, member->in)
                                           : NULL,
                               "out:*", describe_arguments (member, member->out), NULL);

  type = llmctl_type_describe (member->type);
  return llmctl_json_object (
      "name:s", member->name, "help:s", help, "deprecated:*", deprecated, "type:s", type,
      "signature:s", member->type,
      "readable:b", (member->flags & G_DBUS_PROPERTY_INFO_FLAGS_READABLE) != 0,
      "writable:b", (member->flags & G_DBUS_PROPERTY_INFO_FLAGS_WRITABLE) != 0, "value:*", value,
      NULL);
}

static GVariant *
describe_interface (const View               *view,
                    const GDBusInterfaceInfo *interface)
{
  g_autoptr(GVariant) properties = get_properties (view, interface);
  GVariantBuilder members[G_N_ELEMENTS (kinds)];

  for (gsize kind = 0; kind < G_N_ELEMENTS (kinds); kind++)
    g_variant_builder_init (&members[kind], G_VARIANT_TYPE ("aa{sv}"));
  for (const LlmctlMember *member = llmctl_node_get_members (view->node); member->name != NULL;
       member++)
    if (member->interface == interface)
      g_variant_builder_add_value (&members[member->kind], describe_member (member, properties));

  return llmctl_json_object (
      "name:s", interface->name,
      "summary:s", llmctl_docs_get_help (interface->name, NULL, "short_description"),
      "help:s", llmctl_docs_get_help (interface->name, NULL, NULL),
      "methods:*", g_variant_builder_end (&members[LLMCTL_MEMBER_METHOD]),
      "properties:*", g_variant_builder_end (&members[LLMCTL_MEMBER_PROPERTY]),
      "signals:*", g_variant_builder_end (&members[LLMCTL_MEMBER_SIGNAL]), NULL);
}

/* --- for people --- */

static void
print_interface (const View               *view,
                 const GDBusInterfaceInfo *interface,
                 gboolean                  is_whole)
{
  const char *summary = llmctl_docs_get_help (interface->name, NULL, "short_description");
  const char *help = is_whole ? llmctl_docs_get_help (interface->name, NULL, NULL) : NULL;
  g_autofree char *wrapped = help != NULL && *help != '\0' ? llmctl_wrap (help, 2) : NULL;
  g_autoptr(GVariant) properties = get_properties (view, interface);
  int last_kind = -1;

  llmctl_output_text (LLMCTL_STYLE_BOLD, interface->name);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  if (summary != NULL)
    llmctl_output_printf (LLMCTL_STYLE_DIM, "  %s\n", summary);
  if (wrapped != NULL)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\n%s", wrapped);
  for (const LlmctlMember *member = llmctl_node_get_members (view->node); member->name != NULL;
       member++)
    {
      g_autoptr(GVariant) value = get_value (properties, member);

      if (member->interface != interface)
        continue;
      if ((int) member->kind != last_kind)
        llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\n  %s\n", _(kinds[member->kind]));
      last_kind = (int) member->kind;
      llmctl_member_show_short (member, value);
    }
}

/* --- what is shown --- */

static void
show_all (const View *view)
{
  g_auto(GVariantBuilder) interfaces = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("aa{sv}"));
  gboolean is_first = TRUE;

  for (guint i = 0; i < view->node->interfaces->len; i++)
    {
      const GDBusInterfaceInfo *interface = llmctl_node_get_interface (view->node, i);

      if (!llmctl_object_shows (interface->name))
        continue;
      if (llmctl_globals.is_json)
        {
          g_variant_builder_add_value (&interfaces, describe_interface (view, interface));
          continue;
        }
      if (!is_first)
        llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
      is_first = FALSE;
      print_interface (view, interface, FALSE);
    }
  if (llmctl_globals.is_json)
    llmctl_output_json (g_variant_new_parsed ("{'path': <%s>, 'interfaces': <%*>}", view->path,
                                              g_variant_builder_end (&interfaces)));
}

/* Shows what @name is in the node; FALSE when it is nothing there. */
static gboolean
show_named (const View *view,
            const char *name)
{
  const GDBusInterfaceInfo *interface = llmctl_node_find_interface (view->node, name);
  const LlmctlMember *member = NULL;
  g_autoptr(GVariant) properties = NULL;
  g_autoptr(GVariant) value = NULL;

  if (interface != NULL)
    {
      if (llmctl_globals.is_json)
        llmctl_output_json (describe_interface (view, interface));
      else
        print_interface (view, interface, TRUE);
      return TRUE;
    }

  for (gsize kind = 0; kind < G_N_ELEMENTS (kinds) && member == NULL; kind++)
    member = llmctl_node_find_member (view->node, "", (LlmctlMemberKind) kind, name, NULL);
  if (member == NULL)
    return FALSE;

  if (member->kind == LLMCTL_MEMBER_PROPERTY)
    properties = get_properties (view, member->interface);
  value = get_value (properties, member);
  if (llmctl_globals.is_json)
    llmctl_output_json (describe_member (member, properties));
  else
    llmctl_member_show (member, value);
  return TRUE;
}

static LlmctlExit
complain_missing (const View *view,
                  const char *name)
{
  const char *dot = strrchr (name, '.');
  g_autoptr(GPtrArray) names = g_ptr_array_new_null_terminated (16, NULL, TRUE);
  const char *suggestion;

  for (guint i = 0; i < view->node->interfaces->len; i++)
    g_ptr_array_add (names, (gpointer) llmctl_node_get_interface (view->node, i)->name);
  for (const LlmctlMember *member = llmctl_node_get_members (view->node); member->name != NULL;
       member++)
    g_ptr_array_add (names, (gpointer) member->name);
  suggestion = llmctl_suggest (name, (const char *const *) names->pdata);
  if (suggestion == NULL && dot != NULL)
    suggestion = llmctl_suggest (dot + 1, (const char *const *) names->pdata);

  if (suggestion != NULL)
    llmctl_complain (_("%s has no interface or member “%s”; did you mean “%s”?"), view->path, name,
                     suggestion);
  else
    llmctl_complain (_("%s has no interface or member “%s”; see “llmctl introspect %s”"),
                     view->path, name, view->path);
  return LLMCTL_EXIT_USAGE;
}

/* --- the command --- */

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  g_autoptr(LlmctlNode) node = NULL;
  const char *path = llmctl_object_take_path (&argc, &argv, error);
  const View docs = { .node = llmctl_docs_get_node () };
  View view = { .path = path };

  if (path != NULL && argc > 2)
    return llmctl_complain_usage (_("“introspect” takes an object path and one name at most"));
  if (path != NULL)
    node = llmctl_object_introspect (path, error);
  if (node == NULL)
    return LLMCTL_EXIT_FAILED;

  view.node = node;
  if (argc < 2)
    show_all (&view);
  /* What other objects can do is in the interface file. */
  else if (!show_named (&view, argv[1]) && !show_named (&docs, argv[1]))
    return complain_missing (&view, argv[1]);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_introspect_command = {
  .name = "introspect",
  .parameters = N_("[PATH] [INTERFACE[.MEMBER]]"),
  .summary = N_("Show what an object of the service can do"),
  .description = N_("Interfaces with their methods, properties and signals, in the types of "
                    "JSON, with values and with the help of the interface file where it is "
                    "installed. With the name of an interface, a member or both, all that is "
                    "known of it. With --json an object with “path” and “interfaces”, or what "
                    "was named."),
  .options = llmctl_object_options,
  .is_long = TRUE,
  .run = run,
  .names = LLMCTL_NAMES_MEMBERS,
};
