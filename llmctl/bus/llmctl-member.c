/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-object.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/output/llmctl-json.h"

#define MAX_VALUE_CHARACTERS 60

char *
llmctl_member_get_sentence (const LlmctlMember *member)
{
  const char *help = llmctl_docs_get_help (member->interface->name, member->name, NULL);
  const char *end = help != NULL ? strpbrk (help, ".\n") : NULL;

  while (end != NULL && *end == '.' && strchr (" \n", end[1]) == NULL)
    end = strpbrk (end + 1, ".\n");
  return end != NULL ? g_strndup (help, (gsize) (end - help)) : g_strdup (help);
}

char *
llmctl_arguments_describe (GDBusArgInfo **arguments)
{
  GString *out = g_string_new (NULL);

  for (gsize i = 0; arguments[i] != NULL; i++)
    {
      g_autofree char *type = llmctl_type_describe (arguments[i]->signature);

      g_string_append_printf (out, "%s%s: %s", i > 0 ? ", " : "", arguments[i]->name, type);
    }

  return g_string_free (out, FALSE);
}

/* (transfer full): what stands behind the name. */
static char *
describe_types (const LlmctlMember *member)
{
  g_autofree char *in = llmctl_arguments_describe (member->in);
  g_autofree char *out = llmctl_arguments_describe (member->out);
  g_autofree char *type = member->type != NULL ? llmctl_type_describe (member->type) : NULL;

  if (type != NULL)
    return g_strconcat (": ", type, NULL);
  if (member->kind == LLMCTL_MEMBER_SIGNAL)
    return g_strconcat (" (", out, ")", NULL);
  return *out != '\0' ? g_strconcat (" (", in, ") → (", out, ")", NULL)
                      : g_strconcat (" (", in, ")", NULL);
}

char *
llmctl_member_describe (const LlmctlMember *member)
{
  g_autofree char *types = describe_types (member);

  return g_strconcat (member->name, types, NULL);
}

static void
show_head (guint               indent,
           const LlmctlMember *member,
           GVariant           *value,
           gboolean            is_short)
{
  g_autofree char *types = describe_types (member);
  gboolean is_readable = (member->flags & G_DBUS_PROPERTY_INFO_FLAGS_READABLE) != 0;
  gboolean is_writable = (member->flags & G_DBUS_PROPERTY_INFO_FLAGS_WRITABLE) != 0;

  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%*s", (int) indent, "");
  llmctl_output_text (LLMCTL_STYLE_BOLD, member->name);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, types);
  if (value != NULL)
    {
      g_autofree char *text = llmctl_json_write (value, FALSE);
      gboolean is_cut = is_short && g_utf8_strlen (text, -1) > MAX_VALUE_CHARACTERS;

      if (is_cut)
        *g_utf8_offset_to_pointer (text, MAX_VALUE_CHARACTERS) = '\0';
      llmctl_output_text (LLMCTL_STYLE_PLAIN, " = ");
      llmctl_output_printf (LLMCTL_STYLE_GOOD, "%s%s", text, is_cut ? "…" : "");
    }
  if (member->type != NULL && (is_writable || !is_short))
    llmctl_output_printf (LLMCTL_STYLE_DIM, " (%s)",
                          !is_writable  ? _("read only")
                          : is_readable ? _("read and write")
                                        : _("write only"));
  if (member->is_deprecated)
    llmctl_output_printf (LLMCTL_STYLE_WARNING, " (%s)", _("deprecated"));
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
}

static void
show_help (const char *help,
           guint       indent)
{
  g_autofree char *wrapped = help != NULL && *help != '\0' ? llmctl_wrap (help, indent) : NULL;

  if (wrapped != NULL)
    llmctl_output_text (LLMCTL_STYLE_DIM, wrapped);
}

void
llmctl_member_show_short (const LlmctlMember *member,
                          GVariant           *value)
{
  g_autofree char *sentence = llmctl_member_get_sentence (member);

  show_head (4, member, value, TRUE);
  show_help (sentence, 8);
}

static void
show_typed (guint       indent,
            const char *name,
            const char *type,
            const char *help)
{
  g_autofree char *described = llmctl_type_describe (type);

  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%*s", (int) indent, "");
  llmctl_output_text (LLMCTL_STYLE_BOLD, name);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, ": %s\n", described);
  show_help (help, indent + 4);
}

static void
show_arguments (const char          *title,
                const LlmctlMember  *member,
                GDBusArgInfo       **arguments)
{
  if (arguments[0] != NULL)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\n%s\n", title);
  for (gsize i = 0; arguments[i] != NULL; i++)
    {
      g_autofree char *lead = llmctl_docs_get_lead (member, arguments[i]);
      g_autoptr(GPtrArray) keys = NULL;

      show_typed (2, arguments[i]->name, arguments[i]->signature, lead);
      if (strcmp (arguments[i]->signature, "a{sv}") != 0)
        continue;
      keys = llmctl_docs_list_keys (member, arguments[i]->name);
      for (guint j = 0; j < keys->len; j++)
        {
          const LlmctlKey *key = g_ptr_array_index (keys, j);

          show_typed (4, key->key, key->type, key->help);
        }
    }
}

void
llmctl_member_show (const LlmctlMember *member,
                    GVariant           *value)
{
  const char *help = llmctl_docs_get_help (member->interface->name, member->name, NULL);
  g_autofree char *wrapped = help != NULL && *help != '\0' ? llmctl_wrap (help, 0) : NULL;

  show_head (0, member, value, FALSE);
  if (wrapped != NULL)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\n%s", wrapped);
  show_arguments (_("Arguments:"), member, member->in);
  show_arguments (member->kind == LLMCTL_MEMBER_SIGNAL ? _("Arguments:") : _("Result:"), member,
                  member->out);
}

char *
llmctl_member_make_usage (const char         *path,
                          const LlmctlMember *method)
{
  g_autoptr(GString) words = g_string_new (NULL);

  if (path == NULL)
    g_string_append (words, "PATH ");
  else if (strcmp (path, LLMCTL_SERVICE_PATH) != 0)
    g_string_append_printf (words, "%s ", path);
  g_string_append (words, method->name);
  for (gsize i = 0; method->in[i] != NULL; i++)
    {
      g_autofree char *name = g_ascii_strup (method->in[i]->name, -1);
      gboolean is_options = method->in[i + 1] == NULL &&
                            strcmp (method->in[i]->signature, "a{sv}") == 0;

      g_string_append_printf (words, " %s", is_options ? _("[KEY=VALUE…]") : name);
    }

  /* TRANSLATORS: %s are the arguments of “llmctl call” */
  return g_strdup_printf (_("Usage: llmctl call %s"), words->str);
}
