/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl tree: the objects of the service that this caller may see. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/output/llmctl-output.h"

static gboolean shows_all;

static const GOptionEntry options[] = {
  { "all", 'a', 0, G_OPTION_ARG_NONE, &shows_all,
    N_("Also the interfaces that every object has"), NULL },
  G_OPTION_ENTRY_NULL
};

/* (transfer container): what is to be shown. */
static GPtrArray *
select_interfaces (const LlmctlObject *object)
{
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; i < object->interfaces->len; i++)
    if (shows_all || !llmctl_interface_is_standard (g_ptr_array_index (object->interfaces, i)))
      g_ptr_array_add (names, g_ptr_array_index (object->interfaces, i));
  g_ptr_array_add (names, NULL);
  return names;
}

/* Whether @path is below @parent. */
static gboolean
is_below (const char *path,
          const char *parent)
{
  gsize length = strlen (parent);

  return strncmp (path, parent, length) == 0 && (path[length] == '/' || length == 1);
}

/* Prints the objects from @first to @end, all below @parent. */
static gboolean
print_below (GPtrArray  *objects,
             guint       first,
             guint       end,
             const char *parent,
             const char *lines)
{
  guint next;

  for (guint i = first; i < end; i = next)
    {
      const LlmctlObject *object = g_ptr_array_index (objects, i);
      g_autoptr(GPtrArray) names = select_interfaces (object);
      g_autofree char *joined = g_strjoinv (", ", (char **) names->pdata);
      g_autofree char *inner = NULL;
      gboolean is_last;

      for (next = i + 1; next < end; next++)
        if (!is_below (((LlmctlObject *) g_ptr_array_index (objects, next))->path, object->path))
          break;
      is_last = next == end;
      inner = g_strconcat (lines, is_last ? "   " : "│  ", NULL);

      llmctl_output_printf (LLMCTL_STYLE_DIM, "%s%s", lines, is_last ? "└─ " : "├─ ");
      llmctl_output_text (LLMCTL_STYLE_BOLD,
                          object->path + strlen (parent) + (strlen (parent) == 1 ? 0 : 1));
      if (*joined != '\0')
        llmctl_output_printf (LLMCTL_STYLE_PLAIN, "  %s", joined);
      if (!llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n") ||
          !print_below (objects, i + 1, next, object->path, inner))
        return FALSE;
    }

  return TRUE;
}

static void
print_tree (GPtrArray *objects)
{
  const LlmctlObject *root = g_ptr_array_index (objects, 0);
  g_autoptr(GPtrArray) names = select_interfaces (root);
  g_autofree char *joined = g_strjoinv (", ", (char **) names->pdata);

  llmctl_output_text (LLMCTL_STYLE_BOLD, root->path);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s%s\n", *joined != '\0' ? "  " : "", joined);
  print_below (objects, 1, objects->len, root->path, "");
}

static void
print_json (GPtrArray *objects)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < objects->len; i++)
    {
      const LlmctlObject *object = g_ptr_array_index (objects, i);
      g_autoptr(GPtrArray) names = select_interfaces (object);
      GVariantBuilder dict;

      g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
      llmctl_json_add_string (&dict, "path", object->path);
      llmctl_json_add (&dict, "interfaces",
                       g_variant_new_strv ((const char *const *) names->pdata, -1));
      g_variant_builder_add_value (&builder, g_variant_builder_end (&dict));
    }
  llmctl_output_json_member ("objects", g_variant_builder_end (&builder));
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GPtrArray) objects = NULL;
  g_autoptr(GError) error = NULL;
  gboolean is_complete = TRUE;
  const char *root;

  root = llmctl_object_take_path (&argc, &argv, &error);
  if (root == NULL)
    return llmctl_fail (error);
  if (argc > 1)
    return llmctl_complain_usage (_("“tree” takes one object path at most"));

  bus = llmctl_connect (&error);
  if (bus != NULL)
    objects = llmctl_object_list (bus, root, &is_complete, &error);
  if (objects == NULL)
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    print_json (objects);
  else
    print_tree (objects);
  if (!is_complete)
    llmctl_complain (_("There are more objects than are shown"));
  return LLMCTL_EXIT_OK;
}

static void
complete (LlmctlCompletion *completion,
          int               argc,
          char            **argv)
{
  if (argc == 1)
    llmctl_object_complete_path (completion);
}

const LlmctlCommand llmctl_tree_command = {
  .name = "tree",
  .parameters = N_("[PATH]"),
  .summary = N_("Show the objects of the service on the bus"),
  .description = N_("Every object that you may see, with its interfaces. With --json an "
                    "object with “objects”, an array of objects with “path” and “interfaces”."),
  .options = options,
  .run = run,
  .complete = complete,
};
