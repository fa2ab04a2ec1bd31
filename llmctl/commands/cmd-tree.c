/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl tree: the objects of the service that this caller may see. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-object.h"
#include "llmctl/output/llmctl-output.h"

static gboolean shows_all;

static const GOptionEntry options[] = {
  { "all", 'a', 0, G_OPTION_ARG_NONE, &shows_all,
    N_("Also the interfaces that every object has"), NULL },
  G_OPTION_ENTRY_NULL
};

/* (transfer container): the interfaces that are to be shown; ends with NULL. */
static char **
select_interfaces (const LlmctlObject *object)
{
  GPtrArray *names = g_ptr_array_new ();

  for (guint i = 0; object->node != NULL && i < object->node->interfaces->len; i++)
    {
      const char *name = llmctl_node_get_interface (object->node, i)->name;

      if (shows_all || !llmctl_interface_is_standard (name))
        g_ptr_array_add (names, (gpointer) name);
    }
  g_ptr_array_add (names, NULL);
  return (char **) g_ptr_array_free (names, FALSE);
}

static gboolean
is_below (GPtrArray  *objects,
          guint       i,
          const char *parent)
{
  const char *path = ((const LlmctlObject *) g_ptr_array_index (objects, i))->path;
  gsize length = strlen (parent);

  return strncmp (path, parent, length) == 0 && (path[length] == '/' || length == 1);
}

/* Prints the object @i as @name and what is below it; the first line begins with @before, the
 * others with @lines. Returns the next one. */
static guint
print_below (GPtrArray  *objects,
             guint       i,
             const char *name,
             const char *before,
             const char *lines)
{
  const LlmctlObject *object = g_ptr_array_index (objects, i);
  const char *path = object->path;
  g_autofree char **names = select_interfaces (object);
  g_autofree char *joined = g_strjoinv (", ", names);

  llmctl_output_text (LLMCTL_STYLE_DIM, before);
  llmctl_output_text (LLMCTL_STYLE_BOLD, name);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s%s\n", *joined != '\0' ? "  " : "", joined);
  for (i++; i < objects->len && is_below (objects, i, path);)
    {
      const char *child = ((const LlmctlObject *) g_ptr_array_index (objects, i))->path;
      guint next = i + 1;
      g_autofree char *head = NULL;
      g_autofree char *inner = NULL;
      gboolean is_last;

      while (next < objects->len && is_below (objects, next, child))
        next++;
      is_last = next == objects->len || !is_below (objects, next, path);
      head = g_strconcat (lines, is_last ? "└─ " : "├─ ", NULL);
      inner = g_strconcat (lines, is_last ? "   " : "│  ", NULL);
      i = print_below (objects, i, child + strlen (path) + (strlen (path) > 1), head, inner);
    }

  return i;
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
run (int    argc,
     char **argv)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GPtrArray) objects = NULL;
  g_autoptr(GError) error = NULL;
  gboolean is_complete = TRUE;
  const char *root = llmctl_object_take_path (&argc, &argv, &error);

  if (argc > 1)
    return llmctl_complain_usage (_("“tree” takes one object path at most"));
  if (root != NULL)
    bus = llmctl_connect (&error);
  if (bus != NULL)
    objects = llmctl_object_list (bus, root, &is_complete, &error);
  if (objects == NULL)
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    print_json (objects);
  else
    print_below (objects, 0, root, "", "");
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
