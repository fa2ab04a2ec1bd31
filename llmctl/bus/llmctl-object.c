/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-object.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-service.h"

#define MAX_OBJECTS 4096

/* --- the objects --- */

static void
object_free (gpointer data)
{
  LlmctlObject *self = data;

  g_free (self->path);
  g_clear_pointer (&self->node, llmctl_node_free);
  g_free (self);
}

LlmctlNode *
llmctl_object_introspect (const char  *path,
                          GError     **error)
{
  g_autoptr(GVariant) xml = llmctl_call (path, "org.freedesktop.DBus.Introspectable", "Introspect",
                                         NULL, "s", error);

  return xml != NULL ? llmctl_node_parse (g_variant_get_string (xml, NULL), error) : NULL;
}

const LlmctlMember *
llmctl_object_find_member (const char        *path,
                           LlmctlMemberKind   kind,
                           const char        *name,
                           LlmctlNode       **node,
                           GError           **error)
{
  *node = llmctl_object_introspect (path, error);
  return *node != NULL ? llmctl_node_find_member (*node, path, kind, name, error) : NULL;
}

/* As people count: 9 before 10. */
static int
compare_names (gconstpointer a,
               gconstpointer b)
{
  const char *left = *(const char *const *) a;
  const char *right = *(const char *const *) b;
  gsize n_left = strlen (left);
  gsize n_right = strlen (right);

  if (n_left != n_right && strspn (left, "0123456789") == n_left &&
      strspn (right, "0123456789") == n_right)
    return n_left < n_right ? -1 : 1;
  return strcmp (left, right);
}

/* Adds the object called @name below @parent, or as the root without one, and what is below it;
 * FALSE when nothing may be shown. */
static gboolean
walk (const LlmctlObject  *parent,
      const char          *name,
      GPtrArray           *objects,
      GError             **error)
{
  LlmctlObject *self = g_new0 (LlmctlObject, 1);
  g_autoptr(GError) local_error = NULL;
  g_autoptr(GPtrArray) names = g_ptr_array_new ();

  self->path = parent == NULL ? g_strdup (name)
                              : g_strconcat (strcmp (parent->path, "/") == 0 ? "" : parent->path,
                                             "/", name, NULL);
  self->name = self->path + strlen (self->path) - strlen (name);
  self->depth = parent != NULL ? parent->depth + 1 : 0;
  if (!g_variant_is_object_path (self->path))
    {
      object_free (self);
      return TRUE;
    }
  g_ptr_array_add (objects, self);
  self->node = llmctl_object_introspect (self->path, &local_error);
  if (self->node == NULL)
    {
      /* What has gone meanwhile is no reason to show nothing. */
      if (parent != NULL && !g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED) &&
          !g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_DEADLINE_EXCEEDED))
        return TRUE;
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }

  for (GDBusNodeInfo **p = self->node->info->nodes; p != NULL && *p != NULL; p++)
    if ((*p)->path != NULL)
      g_ptr_array_add (names, (*p)->path);
  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len && self->depth < LLMCTL_OBJECT_MAX_DEPTH &&
                    objects->len <= MAX_OBJECTS; i++)
    if (i == 0 || strcmp (names->pdata[i], names->pdata[i - 1]) != 0)
      if (!walk (self, names->pdata[i], objects, error))
        return FALSE;

  return TRUE;
}

GPtrArray *
llmctl_object_list (const char  *root,
                    gboolean    *is_complete,
                    GError     **error)
{
  g_autoptr(GPtrArray) objects = g_ptr_array_new_with_free_func (object_free);

  if (!walk (NULL, root, objects, error))
    return NULL;

  *is_complete = objects->len <= MAX_OBJECTS;
  return g_steal_pointer (&objects);
}

/* --- one object --- */

static gboolean shows_all;

const GOptionEntry llmctl_object_options[] = {
  { "all", 'a', 0, G_OPTION_ARG_NONE, &shows_all,
    N_("Also the interfaces that every object has"), NULL },
  G_OPTION_ENTRY_NULL
};

gboolean
llmctl_object_shows (const char *interface)
{
  return shows_all || !llmctl_interface_is_standard (interface);
}

const char *
llmctl_object_take_path (int      *argc,
                         char   ***argv,
                         GError  **error)
{
  const char *path = LLMCTL_SERVICE_PATH;

  if (*argc > 1 && (*argv)[1][0] == '/')
    {
      path = (*argv)[1];
      (*argc)--;
      (*argv)++;
    }
  if (!g_variant_is_object_path (path))
    {
      g_autofree char *name = g_utf8_make_valid (path, -1);

      return llmctl_set_invalid_null (error, _("“%s” is no object path; “llmctl tree” lists them"),
                                      name);
    }
  if (*argc > 1 && !g_utf8_validate ((*argv)[1], -1, NULL))
    return llmctl_set_invalid_null (error, _("The name is not UTF-8 text"));

  return path;
}

/* --- completion --- */

static void
complete_path (LlmctlCompletion *completion)
{
  g_autoptr(GPtrArray) objects = NULL;
  gboolean is_complete;

  llmctl_completion_offer (completion, LLMCTL_SERVICE_PATH, NULL);
  objects = llmctl_object_list (LLMCTL_SERVICE_PATH, &is_complete, NULL);
  for (guint i = 0; objects != NULL && i < objects->len; i++)
    {
      const LlmctlObject *object = g_ptr_array_index (objects, i);
      const char *summary = NULL;

      for (guint j = 0; object->node != NULL && j < object->node->interfaces->len &&
                        summary == NULL; j++)
        summary = llmctl_docs_get_help (llmctl_node_get_interface (object->node, j)->name, NULL,
                                        "short_description");
      llmctl_completion_offer (completion, object->path, summary);
    }
}

/* Of @node, what @names says. */
static void
complete_member (LlmctlCompletion *completion,
                 LlmctlNames       names,
                 const LlmctlNode *node)
{
  const char *word = completion->word;
  gboolean is_any = names == LLMCTL_NAMES_MEMBERS;
  LlmctlMemberKind kind = names == LLMCTL_NAMES_METHODS ? LLMCTL_MEMBER_METHOD
                                                        : LLMCTL_MEMBER_PROPERTY;
  guint flags = names == LLMCTL_NAMES_READABLE_PROPERTIES   ? G_DBUS_PROPERTY_INFO_FLAGS_READABLE
                : names == LLMCTL_NAMES_WRITABLE_PROPERTIES ? G_DBUS_PROPERTY_INFO_FLAGS_WRITABLE
                                                            : 0;

  for (const LlmctlMember *member = llmctl_node_get_members (node); member->name != NULL; member++)
    {
      const char *interface = member->interface->name;
      g_autofree char *full = g_strconcat (interface, ".", member->name, NULL);
      g_autofree char *help = llmctl_member_get_sentence (member);

      /* What every object has is there for who begins to write it. */
      if ((!is_any && member->kind != kind) || (member->flags & flags) != flags ||
          ((is_any || strchr (word, '.') == NULL) && llmctl_interface_is_standard (interface)))
        continue;
      if (is_any)
        llmctl_completion_offer (completion, interface,
                                 llmctl_docs_get_help (interface, NULL, "short_description"));
      llmctl_completion_offer (completion, member->name, help);
      if (strlen (word) >= (is_any ? strlen (interface) : 1))
        llmctl_completion_offer (completion, full, help);
    }
}

/* The argument after @n_given others of @method. */
static void
complete_argument (LlmctlCompletion   *completion,
                   const LlmctlMember *method,
                   guint               n_given)
{
  static const char *const roles[] = { "system:", "user:", "assistant:", NULL };
  static const char *const answers[] = { "true", "false", NULL };
  g_autoptr(GPtrArray) keys = NULL;
  const char *type;
  guint i = 0;

  /* All that is left belongs to options at the end. */
  while (i < n_given && method->in[i + 1] != NULL)
    i++;
  type = method->in[i]->signature;
  if (strcmp (type, "a{sv}") == 0)
    keys = llmctl_docs_list_keys (method, method->in[i]->name);
  else if (i == n_given && strcmp (type, "o") == 0)
    complete_path (completion);
  else if (i == n_given && strcmp (type, LLMCTL_MESSAGES_TYPE) == 0)
    llmctl_completion_offer_all (completion, "", roles);
  else if (i == n_given && strcmp (type, "b") == 0)
    llmctl_completion_offer_all (completion, "", answers);

  for (guint j = 0; keys != NULL && j < keys->len; j++)
    {
      const LlmctlKey *key = g_ptr_array_index (keys, j);
      g_autofree char *candidate = g_strconcat (key->key, "=", NULL);

      if (strchr (completion->word, '=') == NULL)
        {
          llmctl_completion_offer (completion, candidate, key->help);
          continue;
        }
      llmctl_completion_offer_all (completion, candidate, (const char *const *) key->choices);
      if (strcmp (key->type, "b") == 0)
        llmctl_completion_offer_all (completion, candidate, answers);
    }
}

void
llmctl_object_complete (LlmctlCompletion  *completion,
                        LlmctlNames        names,
                        int                argc,
                        char             **argv)
{
  gboolean is_path = argc == 1 && (names == LLMCTL_NAMES_OBJECTS || *completion->word == '/');
  const char *path = llmctl_object_take_path (&argc, &argv, NULL);
  gboolean is_argument = argc > 1 && names == LLMCTL_NAMES_METHODS;
  const LlmctlMember *method = NULL;
  g_autoptr(LlmctlNode) fetched = NULL;
  const LlmctlNode *node;

  if (is_path)
    complete_path (completion);
  if (path == NULL || is_path || names == LLMCTL_NAMES_OBJECTS || (argc > 1 && !is_argument))
    return;

  /* What the bus or else the interface file says. */
  fetched = llmctl_object_introspect (path, NULL);
  node = fetched != NULL ? fetched : llmctl_docs_get_node ();
  if (!is_argument)
    {
      complete_member (completion, names, node);
      return;
    }
  method = llmctl_node_find_member (node, path, LLMCTL_MEMBER_METHOD, argv[1], NULL);
  if (method == NULL)
    method = llmctl_node_find_member (llmctl_docs_get_node (), path, LLMCTL_MEMBER_METHOD, argv[1],
                                      NULL);
  if (method != NULL && method->in[0] != NULL)
    complete_argument (completion, method, (guint) argc - 2);
}
