/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-object.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/llmctl.h"
#include "llmsvc.h"

/* Far more than any object has. */
#define MAX_XML_BYTES (1024 * 1024)
#define MAX_NODES     8192
#define MAX_MEMBERS   1024

/* --- members --- */

static gboolean
is_single_type (const char *type)
{
  /* The parser of types takes as much depth as the bus does; what it takes beside the
   * types of the bus can't be sent. */
  return g_variant_type_string_is_valid (type) && g_variant_is_signature (type) &&
         strpbrk (type, "m*?r") == NULL;
}

static gboolean
are_valid (GDBusArgInfo **arguments)
{
  for (gsize i = 0; arguments[i] != NULL; i++)
    if (!is_single_type (arguments[i]->signature))
      return FALSE;

  return TRUE;
}

/* @bad: (out): its name if it can't be left out: a call with an argument less is another call. */
static void
add_member (LlmctlNode           *self,
            LlmctlMember          member,
            GDBusAnnotationInfo **annotations,
            const char          **bad)
{
  static GDBusArgInfo *none[] = { NULL };

  member.interface = g_ptr_array_index (self->interfaces, self->interfaces->len - 1);
  member.in = member.in != NULL ? member.in : none;
  member.out = member.out != NULL ? member.out : none;
  member.is_deprecated = g_strcmp0 (g_dbus_annotation_info_lookup (annotations,
                                                                   "org.freedesktop.DBus"
                                                                   ".Deprecated"), "true") == 0;
  if (!g_dbus_is_member_name (member.name) || self->members->len >= MAX_MEMBERS ||
      (member.type != NULL && !is_single_type (member.type)) ||
      llmctl_node_lookup (self, member.interface->name, member.kind, member.name) != NULL)
    return;
  if (are_valid (member.in) && are_valid (member.out))
    g_array_append_val (self->members, member);
  else
    *bad = member.name;
}

static void
add_interface (LlmctlNode          *self,
               GDBusInterfaceInfo  *interface,
               const char         **bad)
{
  for (guint i = 0; i < self->interfaces->len; i++)
    if (strcmp (llmctl_node_get_interface (self, i)->name, interface->name) == 0)
      return;
  if (!g_dbus_is_interface_name (interface->name) || self->interfaces->len >= MAX_MEMBERS)
    return;

  g_ptr_array_add (self->interfaces, interface);
  for (GDBusMethodInfo **p = interface->methods; p != NULL && *p != NULL; p++)
    add_member (self, (LlmctlMember) { .kind = LLMCTL_MEMBER_METHOD, .name = (*p)->name,
                                       .in = (*p)->in_args, .out = (*p)->out_args },
                (*p)->annotations, bad);
  for (GDBusPropertyInfo **p = interface->properties; p != NULL && *p != NULL; p++)
    add_member (self, (LlmctlMember) { .kind = LLMCTL_MEMBER_PROPERTY, .name = (*p)->name,
                                       .type = (*p)->signature, .flags = (*p)->flags },
                (*p)->annotations, bad);
  for (GDBusSignalInfo **p = interface->signals; p != NULL && *p != NULL; p++)
    add_member (self, (LlmctlMember) { .kind = LLMCTL_MEMBER_SIGNAL, .name = (*p)->name,
                                       .out = (*p)->args },
                (*p)->annotations, bad);
}

/* Those of the bus itself are the last. */
static int
compare_interfaces (const void *a,
                    const void *b)
{
  const char *left = (*(GDBusInterfaceInfo *const *) a)->name;
  const char *right = (*(GDBusInterfaceInfo *const *) b)->name;
  gboolean is_left_bus = g_str_has_prefix (left, "org.freedesktop.DBus.");
  gboolean is_right_bus = g_str_has_prefix (right, "org.freedesktop.DBus.");

  return is_left_bus != is_right_bus ? is_left_bus - is_right_bus : strcmp (left, right);
}

LlmctlNode *
llmctl_node_parse (const char  *xml,
                   GError     **error)
{
  g_autoptr(LlmctlNode) self = g_new0 (LlmctlNode, 1);
  g_autoptr(GError) local_error = NULL;
  g_autofree char *reason = NULL;
  const char *bad = NULL;
  guint n = 0;

  self->interfaces = g_ptr_array_new ();
  self->members = g_array_new (TRUE, FALSE, sizeof (LlmctlMember));
  /* GDBus's parser sets no limits. */
  for (const char *p = strstr (xml, "<node"); p != NULL; p = strstr (p + 1, "<node"))
    n++;
  if (strlen (xml) > MAX_XML_BYTES || n > MAX_NODES)
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                           _("The description of the object is too large"));
      return NULL;
    }

  self->info = g_dbus_node_info_new_for_xml (xml, &local_error);
  for (n = 0; self->info != NULL && self->info->interfaces != NULL &&
              self->info->interfaces[n] != NULL; n++)
    ;
  if (n > 1)
    qsort (self->info->interfaces, n, sizeof *self->info->interfaces, compare_interfaces);
  for (guint i = 0; i < n; i++)
    add_interface (self, self->info->interfaces[i], &bad);
  if (bad != NULL)
    reason = g_strdup_printf (_("an argument of “%s” has no valid type"), bad);
  if (self->info == NULL || bad != NULL)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                   _("The description of the object can't be read: %s"),
                   bad != NULL ? reason : local_error->message);
      return NULL;
    }

  return g_steal_pointer (&self);
}

void
llmctl_node_free (LlmctlNode *self)
{
  g_clear_pointer (&self->info, g_dbus_node_info_unref);
  g_ptr_array_unref (self->interfaces);
  g_array_unref (self->members);
  g_free (self);
}

/* --- finding --- */

const LlmctlMember *
llmctl_node_lookup (const LlmctlNode *self,
                    const char       *interface,
                    LlmctlMemberKind  kind,
                    const char       *name)
{
  for (const LlmctlMember *member = llmctl_node_get_members (self); member->name != NULL; member++)
    if (member->kind == kind && strcmp (member->name, name) == 0 &&
        strcmp (member->interface->name, interface) == 0)
      return member;

  return NULL;
}

gboolean
llmctl_interface_is_standard (const char *name)
{
  return strcmp (name, "org.freedesktop.DBus.Peer") == 0 ||
         strcmp (name, "org.freedesktop.DBus.Introspectable") == 0 ||
         strcmp (name, "org.freedesktop.DBus.Properties") == 0;
}

static gboolean
is_called (const GDBusInterfaceInfo *interface,
           const char               *wanted)
{
  g_autofree char *suffix = g_strconcat (".", wanted, NULL);

  return strcmp (interface->name, wanted) == 0 || g_str_has_suffix (interface->name, suffix);
}

const GDBusInterfaceInfo *
llmctl_node_find_interface (const LlmctlNode *self,
                            const char       *name)
{
  const GDBusInterfaceInfo *found = NULL;

  for (guint i = 0; i < self->interfaces->len; i++)
    {
      const GDBusInterfaceInfo *interface = llmctl_node_get_interface (self, i);

      if (strcmp (interface->name, name) == 0)
        return interface;
      if (found == NULL && is_called (interface, name))
        found = interface;
    }

  return found;
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
  g_autoptr(GPtrArray) names = g_ptr_array_new_null_terminated (16, NULL, TRUE);
  const char *suggestion;

  for (const LlmctlMember *member = llmctl_node_get_members (self); member->name != NULL; member++)
    if (member->kind == kind)
      g_ptr_array_add (names, (gpointer) member->name);

  suggestion = llmctl_suggest (wanted, (const char *const *) names->pdata);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
               _(texts[kind][suggestion != NULL]), path, wanted,
               suggestion != NULL ? suggestion : path);
#pragma GCC diagnostic pop
}

const LlmctlMember *
llmctl_node_find_member (const LlmctlNode  *self,
                         const char        *path,
                         LlmctlMemberKind   kind,
                         const char        *name,
                         GError           **error)
{
  const char *dot = strrchr (name, '.');
  g_autofree char *wanted = g_strndup (name, dot != NULL ? (gsize) (dot - name) : 0);
  const char *wanted_member = dot != NULL ? dot + 1 : name;
  g_autoptr(GString) all = g_string_new (NULL);
  const LlmctlMember *found = NULL;
  guint n_found = 0;

  for (const LlmctlMember *member = llmctl_node_get_members (self); member->name != NULL; member++)
    {
      if (member->kind != kind || strcmp (member->name, wanted_member) != 0 ||
          (*wanted != '\0' && !is_called (member->interface, wanted)))
        continue;
      if (strcmp (member->interface->name, wanted) == 0)
        return member;
      n_found++;
      g_string_append_printf (all, "%s%s.%s", all->len > 0 ? ", " : "", member->interface->name,
                              wanted_member);
      found = member;
    }

  if (n_found == 1)
    return found;
  if (n_found > 1)
    return llmctl_set_invalid_null (
        error, _("“%s” is in several interfaces, name one of them: %s"), name, all->str);
  set_missing_error (self, path, kind, wanted_member, error);
  return NULL;
}
