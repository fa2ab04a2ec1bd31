/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-introspection.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/llmctl-command.h"

const LlmctlInterface *
llmctl_node_find_interface (const LlmctlNode *self,
                            const char       *name)
{
  for (guint i = 0; i < self->interfaces->len; i++)
    {
      const LlmctlInterface *interface = g_ptr_array_index (self->interfaces, i);

      if (strcmp (interface->name, name) == 0)
        return interface;
    }

  return NULL;
}

const LlmctlMember *
llmctl_interface_find (const LlmctlInterface *self,
                       LlmctlMemberKind       kind,
                       const char            *name)
{
  for (guint i = 0; i < self->members->len; i++)
    {
      const LlmctlMember *member = g_ptr_array_index (self->members, i);

      if (member->kind == kind && strcmp (member->name, name) == 0)
        return member;
    }

  return NULL;
}

gboolean
llmctl_interface_is_standard (const char *name)
{
  return strcmp (name, "org.freedesktop.DBus.Peer") == 0 ||
         strcmp (name, "org.freedesktop.DBus.Introspectable") == 0 ||
         strcmp (name, "org.freedesktop.DBus.Properties") == 0;
}

int
llmctl_interface_compare (const char *left,
                          const char *right)
{
  gboolean is_left_bus = g_str_has_prefix (left, "org.freedesktop.DBus.");
  gboolean is_right_bus = g_str_has_prefix (right, "org.freedesktop.DBus.");

  return is_left_bus != is_right_bus ? is_left_bus - is_right_bus : strcmp (left, right);
}

static gboolean
is_called (const LlmctlInterface *interface,
           const char            *wanted)
{
  gsize length = strlen (interface->name);
  gsize wanted_length = strlen (wanted);

  if (wanted_length == 0 || strcmp (interface->name, wanted) == 0)
    return TRUE;

  return length > wanted_length && interface->name[length - wanted_length - 1] == '.' &&
         strcmp (interface->name + length - wanted_length, wanted) == 0;
}

static void
set_missing_error (const LlmctlNode  *self,
                   const char        *path,
                   LlmctlMemberKind   kind,
                   const char        *wanted,
                   GError           **error)
{
  static const char *const texts[][2] = {
    [LLMCTL_MEMBER_METHOD] = { N_("%s has no method “%s”; see “llmctl introspect %s”"),
                               N_("%s has no method “%s”; did you mean “%s”?") },
    [LLMCTL_MEMBER_PROPERTY] = { N_("%s has no property “%s”; see “llmctl introspect %s”"),
                                 N_("%s has no property “%s”; did you mean “%s”?") },
    [LLMCTL_MEMBER_SIGNAL] = { N_("%s has no signal “%s”; see “llmctl introspect %s”"),
                               N_("%s has no signal “%s”; did you mean “%s”?") },
  };
  g_autoptr(GPtrArray) names = g_ptr_array_new ();
  const char *suggestion;

  for (guint i = 0; i < self->interfaces->len; i++)
    {
      const LlmctlInterface *interface = g_ptr_array_index (self->interfaces, i);

      for (guint j = 0; j < interface->members->len; j++)
        {
          const LlmctlMember *member = g_ptr_array_index (interface->members, j);

          if (member->kind == kind)
            g_ptr_array_add (names, member->name);
        }
    }
  g_ptr_array_add (names, NULL);

  suggestion = llmctl_suggest (wanted, (const char *const *) names->pdata);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
               _(texts[kind][suggestion != NULL]), path, wanted,
               suggestion != NULL ? suggestion : path);
#pragma GCC diagnostic pop
}

const LlmctlMember *
llmctl_node_find_member (const LlmctlNode       *self,
                         const char             *path,
                         LlmctlMemberKind        kind,
                         const char             *name,
                         const LlmctlInterface **interface,
                         GError                **error)
{
  const char *dot = strrchr (name, '.');
  g_autofree char *wanted = g_strndup (name, dot != NULL ? (gsize) (dot - name) : 0);
  const char *wanted_member = dot != NULL ? dot + 1 : name;
  g_autoptr(GString) all = g_string_new (NULL);
  const LlmctlMember *found = NULL;
  guint n_found = 0;

  for (guint i = 0; i < self->interfaces->len; i++)
    {
      const LlmctlInterface *candidate = g_ptr_array_index (self->interfaces, i);
      const LlmctlMember *member = is_called (candidate, wanted)
                                       ? llmctl_interface_find (candidate, kind, wanted_member)
                                       : NULL;

      if (member == NULL)
        continue;
      n_found++;
      g_string_append_printf (all, "%s%s.%s", all->len > 0 ? ", " : "", candidate->name,
                              wanted_member);
      found = member;
      *interface = candidate;
      if (strcmp (candidate->name, wanted) == 0)
        return member;
    }

  if (n_found == 1)
    return found;
  if (n_found > 1)
    g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                 _("“%s” is in several interfaces, name one of them: %s"), name, all->str);
  else
    set_missing_error (self, path, kind, wanted_member, error);
  return NULL;
}
