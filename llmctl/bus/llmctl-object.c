/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-object.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/bus/llmctl-member.h"

#define MAX_OBJECTS 4096
/* Steps below the root: the service has two. */
#define MAX_DEPTH   16
#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"
#define MANAGER_INTERFACE    "org.freedesktop.DBus.ObjectManager"

/* --- the objects --- */

typedef struct
{
  GDBusConnection *bus;
  const char *root;
  GHashTable *objects;   /* (element-type utf8 LlmctlObject) (not owned): by their paths */
  GPtrArray *list;       /* (element-type LlmctlObject) (owned): those not visited last */
} Walk;

static void
object_free (gpointer data)
{
  LlmctlObject *self = data;

  g_free (self->path);
  g_ptr_array_unref (self->interfaces);
  g_free (self);
}

static void
add_interface (LlmctlObject *object,
               const char   *name)
{
  if (!g_ptr_array_find_with_equal_func (object->interfaces, name, g_str_equal, NULL))
    g_ptr_array_add (object->interfaces, g_strdup (name));
}

/* (nullable) (transfer none): NULL for what can't be an object below the root. */
static LlmctlObject *
add_object (Walk       *walk,
            const char *path)
{
  LlmctlObject *object = g_hash_table_lookup (walk->objects, path);
  guint depth = 0;

  if (object != NULL)
    return object;

  for (const char *p = path + strlen (walk->root); *p != '\0'; p++)
    depth += *p == '/';
  if (depth > MAX_DEPTH || walk->list->len > MAX_OBJECTS || !g_variant_is_object_path (path))
    return NULL;

  object = g_new0 (LlmctlObject, 1);
  object->path = g_strdup (path);
  object->interfaces = g_ptr_array_new_with_free_func (g_free);
  g_hash_table_insert (walk->objects, object->path, object);
  g_ptr_array_add (walk->list, object);
  return object;
}

static void
add_managed (Walk       *walk,
             const char *path)
{
  g_autofree char *below = g_strconcat (strcmp (path, "/") == 0 ? "" : path, "/", NULL);
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) objects = NULL;
  GVariantIter iter;
  const char *managed;
  GVariant *interfaces;

  /* The tree can be shown without it. */
  reply = llmctl_call (walk->bus, path, MANAGER_INTERFACE, "GetManagedObjects", NULL,
                       "(a{oa{sa{sv}}})", NULL);
  if (reply == NULL)
    return;

  objects = g_variant_get_child_value (reply, 0);
  g_variant_iter_init (&iter, objects);
  while (g_variant_iter_next (&iter, "{&o@a{sa{sv}}}", &managed, &interfaces))
    {
      g_autoptr(GVariant) owned = interfaces;
      LlmctlObject *object = g_str_has_prefix (managed, below) ? add_object (walk, managed) : NULL;
      gsize n = object != NULL ? g_variant_n_children (owned) : 0;

      for (gsize i = 0; i < n; i++)
        {
          g_autoptr(GVariant) entry = g_variant_get_child_value (owned, i);
          const char *name;

          g_variant_get_child (entry, 0, "&s", &name);
          add_interface (object, name);
        }
    }
}

static gboolean
visit (Walk         *walk,
       LlmctlObject *object,
       GError      **error)
{
  g_autoptr(LlmctlNode) node = llmctl_node_fetch (walk->bus, object->path, error);

  if (node == NULL)
    return FALSE;

  for (guint i = 0; i < node->interfaces->len; i++)
    add_interface (object,
                   ((const LlmctlInterface *) g_ptr_array_index (node->interfaces, i))->name);
  for (guint i = 0; i < node->children->len; i++)
    {
      const char *name = g_ptr_array_index (node->children, i);
      g_autofree char *path = g_strconcat (strcmp (object->path, "/") == 0 ? "" : object->path, "/",
                                           name, NULL);

      add_object (walk, path);
    }
  if (llmctl_node_find_interface (node, MANAGER_INTERFACE) != NULL)
    add_managed (walk, object->path);

  return TRUE;
}

/* As people count: /9 before /10, and what is below an object right after it. */
static int
compare_objects (gconstpointer a,
                 gconstpointer b)
{
  const char *left = (*(LlmctlObject *const *) a)->path;
  const char *right = (*(LlmctlObject *const *) b)->path;
  g_auto(GStrv) left_names = g_strsplit (left, "/", -1);
  g_auto(GStrv) right_names = g_strsplit (right, "/", -1);
  gsize i = 0;

  while (left_names[i] != NULL && right_names[i] != NULL &&
         strcmp (left_names[i], right_names[i]) == 0)
    i++;
  if (left_names[i] == NULL || right_names[i] == NULL)
    return (left_names[i] != NULL) - (right_names[i] != NULL);

  {
    gsize left_digits = strspn (left_names[i], "0123456789");
    gsize right_digits = strspn (right_names[i], "0123456789");

    if (left_names[i][left_digits] == '\0' && right_names[i][right_digits] == '\0' &&
        left_digits != right_digits)
      return left_digits < right_digits ? -1 : 1;
  }
  return strcmp (left_names[i], right_names[i]);
}

static int
compare_names (gconstpointer a,
               gconstpointer b)
{
  return llmctl_interface_compare (*(const char *const *) a, *(const char *const *) b);
}

GPtrArray *
llmctl_object_list (GDBusConnection  *bus,
                    const char       *root,
                    gboolean         *is_complete,
                    GError          **error)
{
  g_autoptr(GHashTable) objects = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr(GPtrArray) list = g_ptr_array_new_with_free_func (object_free);
  Walk walk = { .bus = bus, .root = root, .objects = objects, .list = list };

  add_object (&walk, root);
  for (guint i = 0; i < list->len; i++)
    {
      g_autoptr(GError) local_error = NULL;

      /* What has gone meanwhile is no reason to show nothing. */
      if (!visit (&walk, g_ptr_array_index (list, i), &local_error) &&
          (i == 0 || g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED) ||
           g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED)))
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return NULL;
        }
    }

  *is_complete = list->len <= MAX_OBJECTS;
  g_ptr_array_sort (list, compare_objects);
  for (guint i = 0; i < list->len; i++)
    g_ptr_array_sort (((LlmctlObject *) g_ptr_array_index (list, i))->interfaces, compare_names);
  return g_steal_pointer (&list);
}

/* --- one object --- */

const char *
llmctl_object_take_path (int      *argc,
                         char   ***argv,
                         GError  **error)
{
  const char *path;

  if (*argc < 2 || (*argv)[1][0] != '/')
    return LLMCTL_ROOT_PATH;

  path = (*argv)[1];
  if (!g_variant_is_object_path (path))
    {
      g_autofree char *name = g_utf8_make_valid (path, -1);

      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   _("“%s” is no object path; “llmctl tree” lists them"), name);
      return NULL;
    }
  (*argc)--;
  (*argv)++;
  return path;
}

GVariant *
llmctl_object_get_properties (GDBusConnection  *bus,
                              const char       *path,
                              const char       *interface,
                              GError          **error)
{
  g_autoptr(GVariant) reply = NULL;

  reply = llmctl_call (bus, path, PROPERTIES_INTERFACE, "GetAll", g_variant_new ("(s)", interface),
                       "(a{sv})", error);
  return reply != NULL ? g_variant_get_child_value (reply, 0) : NULL;
}

/* --- completion --- */

/* (nullable) (transfer full): a bus with a service that runs. */
static GDBusConnection *
connect_running (void)
{
  g_autoptr(GDBusConnection) bus = llmctl_connect (NULL);

  return bus != NULL && llmctl_is_running () ? g_steal_pointer (&bus) : NULL;
}

void
llmctl_object_complete_path (LlmctlCompletion *completion)
{
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GPtrArray) objects = NULL;
  gboolean is_complete;

  llmctl_completion_offer (completion, LLMCTL_ROOT_PATH, NULL);
  bus = connect_running ();
  if (bus != NULL)
    objects = llmctl_object_list (bus, LLMCTL_ROOT_PATH, &is_complete, NULL);
  for (guint i = 0; objects != NULL && i < objects->len; i++)
    {
      const LlmctlObject *object = g_ptr_array_index (objects, i);
      const LlmctlInterface *docs = NULL;

      for (guint j = 0; j < object->interfaces->len && docs == NULL; j++)
        docs = llmctl_docs_find_interface (g_ptr_array_index (object->interfaces, j));
      llmctl_completion_offer (completion, object->path, docs != NULL ? docs->summary : NULL);
    }
}

LlmctlNode *
llmctl_object_peek (const char *path)
{
  g_autoptr(GDBusConnection) bus = connect_running ();
  LlmctlNode *node = bus != NULL ? llmctl_node_fetch (bus, path, NULL) : NULL;

  if (node != NULL)
    llmctl_docs_add (node);
  return node;
}

void
llmctl_object_complete_member (LlmctlCompletion *completion,
                               const char       *path,
                               LlmctlMemberKind  kind,
                               LlmctlAccepts     accepts)
{
  const char *word = llmctl_completion_get_word (completion);
  gboolean has_dot = strchr (word, '.') != NULL;
  g_autoptr(LlmctlNode) fetched = llmctl_object_peek (path);
  const LlmctlNode *node = fetched != NULL ? fetched : llmctl_docs_get_node ();

  for (guint i = 0; i < node->interfaces->len; i++)
    {
      const LlmctlInterface *interface = g_ptr_array_index (node->interfaces, i);

      /* What every object has is there for who begins to write it. */
      if (llmctl_interface_is_standard (interface->name) && !has_dot)
        continue;
      for (guint j = 0; j < interface->members->len; j++)
        {
          const LlmctlMember *member = g_ptr_array_index (interface->members, j);
          g_autofree char *full = NULL;
          g_autofree char *help = NULL;

          if (member->kind != kind || (accepts != NULL && !accepts (member)))
            continue;
          full = g_strconcat (interface->name, ".", member->name, NULL);
          help = llmctl_help_shorten (member->help);
          if (!has_dot)
            llmctl_completion_offer (completion, member->name, help);
          if (*word != '\0')
            llmctl_completion_offer (completion, full, help);
        }
    }
}
