/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl introspect: what an object can do, with the help that is installed. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/llmctl-command.h"
#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-member.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-value.h"

static gboolean shows_all;

static const GOptionEntry options[] = {
  { "all", 'a', 0, G_OPTION_ARG_NONE, &shows_all,
    N_("Also the interfaces that every object has"), NULL },
  G_OPTION_ENTRY_NULL
};

/* --- for programs --- */

static GVariant *
describe_arguments (const GPtrArray *arguments)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < arguments->len; i++)
    {
      const LlmctlArgument *argument = g_ptr_array_index (arguments, i);
      g_autofree char *type = llmctl_type_describe (argument->type);
      GVariantBuilder dict;

      g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
      llmctl_json_add_string (&dict, "name", argument->name);
      llmctl_json_add_string (&dict, "type", type);
      llmctl_json_add_string (&dict, "signature", argument->type);
      llmctl_json_add_string (&dict, "help", argument->help);
      g_variant_builder_add_value (&builder, g_variant_builder_end (&dict));
    }

  return g_variant_builder_end (&builder);
}

static GVariant *
describe_member (const LlmctlMember *member,
                 GVariant           *properties)
{
  GVariantBuilder dict;

  g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
  llmctl_json_add_string (&dict, "name", member->name);
  llmctl_json_add_string (&dict, "help", member->help);
  if (member->is_deprecated)
    llmctl_json_add_boolean (&dict, "deprecated", TRUE);
  if (member->kind == LLMCTL_MEMBER_METHOD)
    llmctl_json_add (&dict, "in", describe_arguments (member->in));
  if (member->kind != LLMCTL_MEMBER_PROPERTY)
    llmctl_json_add (&dict, "out", describe_arguments (member->out));
  else
    {
      g_autoptr(GVariant) value = properties != NULL
                                      ? g_variant_lookup_value (properties, member->name, NULL)
                                      : NULL;
      g_autofree char *type = llmctl_type_describe (member->type);

      llmctl_json_add_string (&dict, "type", type);
      llmctl_json_add_string (&dict, "signature", member->type);
      llmctl_json_add_boolean (&dict, "readable", member->is_readable);
      llmctl_json_add_boolean (&dict, "writable", member->is_writable);
      if (value != NULL)
        llmctl_json_add (&dict, "value", value);
    }

  return g_variant_builder_end (&dict);
}

static GVariant *
describe_members (const LlmctlInterface *interface,
                  LlmctlMemberKind       kind,
                  GVariant              *properties)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < interface->members->len; i++)
    {
      const LlmctlMember *member = g_ptr_array_index (interface->members, i);

      if (member->kind == kind)
        g_variant_builder_add_value (&builder, describe_member (member, properties));
    }

  return g_variant_builder_end (&builder);
}

static GVariant *
describe_interface (const LlmctlInterface *interface,
                    GVariant              *properties)
{
  GVariantBuilder dict;

  g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
  llmctl_json_add_string (&dict, "name", interface->name);
  llmctl_json_add_string (&dict, "summary", interface->summary);
  llmctl_json_add_string (&dict, "help", interface->help);
  llmctl_json_add (&dict, "methods", describe_members (interface, LLMCTL_MEMBER_METHOD, NULL));
  llmctl_json_add (&dict, "properties",
                   describe_members (interface, LLMCTL_MEMBER_PROPERTY, properties));
  llmctl_json_add (&dict, "signals", describe_members (interface, LLMCTL_MEMBER_SIGNAL, NULL));
  return g_variant_builder_end (&dict);
}

/* --- for people --- */

static void
print_members (const char            *title,
               const LlmctlInterface *interface,
               LlmctlMemberKind       kind,
               GVariant              *properties)
{
  gboolean has_title = FALSE;

  for (guint i = 0; i < interface->members->len; i++)
    {
      const LlmctlMember *member = g_ptr_array_index (interface->members, i);
      g_autoptr(GVariant) value = NULL;

      if (member->kind != kind)
        continue;
      if (!has_title)
        llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\n  %s\n", title);
      has_title = TRUE;
      if (properties != NULL)
        value = g_variant_lookup_value (properties, member->name, NULL);
      llmctl_member_show_short (member, value);
    }
}

static void
print_interface (const LlmctlInterface *interface,
                 GVariant              *properties,
                 gboolean               is_whole)
{
  g_autofree char *help = NULL;

  llmctl_output_text (LLMCTL_STYLE_BOLD, interface->name);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
  if (interface->summary != NULL)
    llmctl_output_printf (LLMCTL_STYLE_DIM, "  %s\n", interface->summary);
  if (is_whole && interface->help != NULL && *interface->help != '\0')
    {
      help = llmctl_wrap (interface->help, 2);
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\n%s", help);
    }
  print_members (_("Methods:"), interface, LLMCTL_MEMBER_METHOD, NULL);
  print_members (_("Properties:"), interface, LLMCTL_MEMBER_PROPERTY, properties);
  print_members (_("Signals:"), interface, LLMCTL_MEMBER_SIGNAL, NULL);
}

/* --- what is shown --- */

static gboolean
has_properties (const LlmctlInterface *interface)
{
  for (guint i = 0; i < interface->members->len; i++)
    if (((const LlmctlMember *) g_ptr_array_index (interface->members, i))->kind ==
        LLMCTL_MEMBER_PROPERTY)
      return TRUE;

  return FALSE;
}

/* (nullable) (transfer full): the values may be kept from this caller; the rest is shown. */
static GVariant *
get_properties (GDBusConnection       *bus,
                const char            *path,
                const LlmctlInterface *interface)
{
  return path != NULL && has_properties (interface)
             ? llmctl_object_get_properties (bus, path, interface->name, NULL)
             : NULL;
}

static LlmctlExit
show_all (GDBusConnection  *bus,
          const char       *path,
          const LlmctlNode *node)
{
  g_auto(GVariantBuilder) interfaces = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE ("aa{sv}"));
  gboolean is_first = TRUE;

  for (guint i = 0; i < node->interfaces->len; i++)
    {
      const LlmctlInterface *interface = g_ptr_array_index (node->interfaces, i);
      g_autoptr(GVariant) properties = NULL;

      if (!shows_all && llmctl_interface_is_standard (interface->name))
        continue;
      properties = get_properties (bus, path, interface);
      if (llmctl_globals.is_json)
        {
          g_variant_builder_add_value (&interfaces, describe_interface (interface, properties));
          continue;
        }
      if (!is_first)
        llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
      is_first = FALSE;
      print_interface (interface, properties, FALSE);
    }
  if (llmctl_globals.is_json)
    {
      GVariantBuilder dict;

      g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
      llmctl_json_add_string (&dict, "path", path);
      llmctl_json_add (&dict, "interfaces", g_variant_builder_end (&interfaces));
      llmctl_output_json (g_variant_builder_end (&dict));
    }

  return LLMCTL_EXIT_OK;
}

static LlmctlExit
show_interface (GDBusConnection       *bus,
                const char            *path,
                const LlmctlInterface *interface)
{
  g_autoptr(GVariant) properties = get_properties (bus, path, interface);

  if (llmctl_globals.is_json)
    llmctl_output_json (describe_interface (interface, properties));
  else
    print_interface (interface, properties, TRUE);
  return LLMCTL_EXIT_OK;
}

static LlmctlExit
show_member (GDBusConnection       *bus,
             const char            *path,
             const LlmctlInterface *interface,
             const LlmctlMember    *member)
{
  g_autoptr(GVariant) properties = NULL;
  g_autoptr(GVariant) value = NULL;

  if (member->kind == LLMCTL_MEMBER_PROPERTY)
    properties = get_properties (bus, path, interface);
  if (llmctl_globals.is_json)
    {
      llmctl_output_json (describe_member (member, properties));
      return LLMCTL_EXIT_OK;
    }
  if (properties != NULL)
    value = g_variant_lookup_value (properties, member->name, NULL);
  llmctl_member_show (interface, member, value);
  return LLMCTL_EXIT_OK;
}

/* (nullable): the interface called @name, or whose name ends so. */
static const LlmctlInterface *
find_interface (const LlmctlNode *node,
                const char       *name)
{
  g_autofree char *suffix = g_strconcat (".", name, NULL);
  const LlmctlInterface *exact = llmctl_node_find_interface (node, name);

  for (guint i = 0; exact == NULL && i < node->interfaces->len; i++)
    {
      const LlmctlInterface *interface = g_ptr_array_index (node->interfaces, i);

      if (g_str_has_suffix (interface->name, suffix))
        return interface;
    }

  return exact;
}

/* Shows what @name is in @node; FALSE with @error when it is nothing there. */
static gboolean
show_named (GDBusConnection  *bus,
            const char       *path,
            const LlmctlNode *node,
            const char       *name,
            GError          **error)
{
  const LlmctlInterface *interface = find_interface (node, name);
  const LlmctlMember *member = NULL;

  if (interface != NULL)
    {
      show_interface (bus, path, interface);
      return TRUE;
    }

  for (guint kind = LLMCTL_MEMBER_METHOD; kind <= LLMCTL_MEMBER_SIGNAL && member == NULL; kind++)
    {
      g_clear_error (error);
      member = llmctl_node_find_member (node, path != NULL ? path : "", (LlmctlMemberKind) kind,
                                        name, &interface, error);
    }
  if (member == NULL)
    return FALSE;
  g_clear_error (error);
  show_member (bus, path, interface, member);
  return TRUE;
}

static LlmctlExit
complain_missing (const LlmctlNode *node,
                  const char       *path,
                  const char       *name)
{
  const char *dot = strrchr (name, '.');
  g_autoptr(GPtrArray) names = g_ptr_array_new ();
  const char *suggestion;

  for (guint i = 0; i < node->interfaces->len; i++)
    {
      const LlmctlInterface *interface = g_ptr_array_index (node->interfaces, i);

      g_ptr_array_add (names, interface->name);
      for (guint j = 0; j < interface->members->len; j++)
        g_ptr_array_add (names, ((LlmctlMember *) g_ptr_array_index (interface->members, j))->name);
    }
  g_ptr_array_add (names, NULL);
  suggestion = llmctl_suggest (name, (const char *const *) names->pdata);
  if (suggestion == NULL && dot != NULL)
    suggestion = llmctl_suggest (dot + 1, (const char *const *) names->pdata);

  if (suggestion != NULL)
    llmctl_complain (_("%s has no interface or member “%s”; did you mean “%s”?"), path, name,
                     suggestion);
  else
    llmctl_complain (_("%s has no interface or member “%s”; see “llmctl introspect %s”"), path,
                     name, path);
  return LLMCTL_EXIT_USAGE;
}

/* --- the command --- */

static LlmctlExit
run (int    argc,
     char **argv)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(LlmctlNode) node = NULL;
  g_autoptr(GError) error = NULL;
  const char *path;

  path = llmctl_object_take_path (&argc, &argv, &error);
  if (path == NULL)
    return llmctl_fail (error);
  if (argc > 2)
    return llmctl_complain_usage (_("“introspect” takes an object path and one name at most"));
  if (argc > 1 && !g_utf8_validate (argv[1], -1, NULL))
    return llmctl_complain_usage (_("The name is not UTF-8 text"));

  bus = llmctl_connect (&error);
  if (bus != NULL)
    node = llmctl_node_fetch (bus, path, &error);
  if (node == NULL)
    return llmctl_fail (error);
  llmctl_docs_add (node);

  if (argc < 2)
    return show_all (bus, path, node);
  if (show_named (bus, path, node, argv[1], &error))
    return LLMCTL_EXIT_OK;
  /* What other objects can do is in the interface file, without values. */
  g_clear_error (&error);
  if (show_named (bus, NULL, llmctl_docs_get_node (), argv[1], &error))
    return LLMCTL_EXIT_OK;
  return complain_missing (node, path, argv[1]);
}

static void
complete (LlmctlCompletion *completion,
          int               argc,
          char            **argv)
{
  const char *path = llmctl_object_take_path (&argc, &argv, NULL);
  g_autoptr(LlmctlNode) fetched = NULL;
  const LlmctlNode *node;

  if (path == NULL || argc > 1)
    return;
  if (llmctl_completion_get_word (completion)[0] == '/')
    {
      llmctl_object_complete_path (completion);
      return;
    }

  fetched = llmctl_object_peek (path);
  node = fetched != NULL ? fetched : llmctl_docs_get_node ();
  for (guint i = 0; i < node->interfaces->len; i++)
    {
      const LlmctlInterface *interface = g_ptr_array_index (node->interfaces, i);

      if (llmctl_interface_is_standard (interface->name))
        continue;
      llmctl_completion_offer (completion, interface->name, interface->summary);
      for (guint j = 0; j < interface->members->len; j++)
        {
          const LlmctlMember *member = g_ptr_array_index (interface->members, j);
          g_autofree char *full = g_strconcat (interface->name, ".", member->name, NULL);
          g_autofree char *help = llmctl_help_shorten (member->help);

          llmctl_completion_offer (completion, member->name, help);
          if (strlen (llmctl_completion_get_word (completion)) >= strlen (interface->name))
            llmctl_completion_offer (completion, full, help);
        }
    }
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
  .options = options,
  .run = run,
  .complete = complete,
};
