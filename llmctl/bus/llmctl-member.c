/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-member.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/llmctl-arguments.h"
#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-value.h"

#define MAX_VALUE_CHARACTERS 60

char *
llmctl_help_shorten (const char *help)
{
  const char *end = help != NULL ? strpbrk (help, ".\n") : NULL;

  while (end != NULL && *end == '.' && strchr (" \n", end[1]) == NULL)
    end = strpbrk (end + 1, ".\n");
  return end != NULL ? g_strndup (help, (gsize) (end - help)) : g_strdup (help);
}

char *
llmctl_member_describe (const LlmctlMember *member)
{
  g_autofree char *in = llmctl_arguments_describe (member->in);
  g_autofree char *out = llmctl_arguments_describe (member->out);
  g_autofree char *type = NULL;

  switch (member->kind)
    {
    case LLMCTL_MEMBER_PROPERTY:
      type = llmctl_type_describe (member->type);
      return g_strconcat (member->name, ": ", type, NULL);
    case LLMCTL_MEMBER_SIGNAL:
      return g_strconcat (member->name, " (", out, ")", NULL);
    case LLMCTL_MEMBER_METHOD:
    default:
      return *out != '\0' ? g_strconcat (member->name, " (", in, ") → (", out, ")", NULL)
                          : g_strconcat (member->name, " (", in, ")", NULL);
    }
}

static const char *
get_access (const LlmctlMember *member)
{
  if (member->is_writable)
    return member->is_readable ? _("read and write") : _("write only");

  return _("read only");
}

/* (transfer full): on one line, and not a long one when @is_short. */
static char *
format_value (GVariant *value,
              gboolean  is_short)
{
  g_autofree char *json = llmctl_json_write (value, FALSE);

  if (is_short && g_utf8_strlen (json, -1) > MAX_VALUE_CHARACTERS)
    {
      g_autofree char *cut = g_utf8_substring (json, 0, MAX_VALUE_CHARACTERS);

      return g_strconcat (cut, "…", NULL);
    }

  return g_steal_pointer (&json);
}

static void
show_head (guint               indent,
           const LlmctlMember *member,
           GVariant           *value,
           gboolean            is_short)
{
  g_autofree char *described = llmctl_member_describe (member);
  gsize name_length = strlen (member->name);

  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%*s", (int) indent, "");
  llmctl_output_text (LLMCTL_STYLE_BOLD, member->name);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, described + name_length);
  if (value != NULL)
    {
      g_autofree char *text = format_value (value, is_short);

      llmctl_output_text (LLMCTL_STYLE_PLAIN, " = ");
      llmctl_output_text (LLMCTL_STYLE_GOOD, text);
    }
  if (member->kind == LLMCTL_MEMBER_PROPERTY && (member->is_writable || !is_short))
    llmctl_output_printf (LLMCTL_STYLE_DIM, " (%s)", get_access (member));
  if (member->is_deprecated)
    llmctl_output_printf (LLMCTL_STYLE_WARNING, " (%s)", _("deprecated"));
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
}

gboolean
llmctl_member_show_short (const LlmctlMember *member,
                          GVariant           *value)
{
  g_autofree char *sentence = llmctl_help_shorten (member->help);
  g_autofree char *wrapped = NULL;

  show_head (4, member, value, TRUE);
  if (sentence == NULL || *sentence == '\0')
    return llmctl_output_text (LLMCTL_STYLE_PLAIN, "");

  wrapped = llmctl_wrap (sentence, 8);
  return llmctl_output_text (LLMCTL_STYLE_DIM, wrapped);
}

static void
show_keys (const GPtrArray *keys)
{
  for (guint i = 0; i < keys->len; i++)
    {
      const LlmctlKey *key = g_ptr_array_index (keys, i);
      g_autofree char *type = llmctl_type_describe (key->type);
      g_autofree char *help = llmctl_wrap (key->help, 8);

      llmctl_output_text (LLMCTL_STYLE_PLAIN, "    ");
      llmctl_output_text (LLMCTL_STYLE_BOLD, key->key);
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, ": %s\n", type);
      if (*key->help != '\0')
        llmctl_output_text (LLMCTL_STYLE_DIM, help);
    }
}

static void
show_arguments (const char            *title,
                const LlmctlInterface *interface,
                const GPtrArray       *arguments)
{
  if (arguments->len == 0)
    return;

  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\n%s\n", title);
  for (guint i = 0; i < arguments->len; i++)
    {
      const LlmctlArgument *argument = g_ptr_array_index (arguments, i);
      g_autofree char *type = llmctl_type_describe (argument->type);
      g_autofree char *lead = llmctl_docs_get_lead (argument);
      g_autofree char *help = llmctl_wrap (lead, 6);

      llmctl_output_text (LLMCTL_STYLE_PLAIN, "  ");
      llmctl_output_text (LLMCTL_STYLE_BOLD, argument->name);
      llmctl_output_printf (LLMCTL_STYLE_PLAIN, ": %s\n", type);
      if (*lead != '\0')
        llmctl_output_text (LLMCTL_STYLE_DIM, help);
      if (strcmp (argument->type, "a{sv}") == 0)
        {
          g_autoptr(GPtrArray) keys = llmctl_docs_list_keys (interface, argument);

          show_keys (keys);
        }
    }
}

gboolean
llmctl_member_show (const LlmctlInterface *interface,
                    const LlmctlMember    *member,
                    GVariant              *value)
{
  show_head (0, member, value, FALSE);
  if (member->help != NULL && *member->help != '\0')
    {
      g_autofree char *help = llmctl_wrap (member->help, 0);

      llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\n%s", help);
    }
  show_arguments (_("Arguments:"), interface, member->in);
  show_arguments (member->kind == LLMCTL_MEMBER_SIGNAL ? _("Arguments:") : _("Result:"), interface,
                  member->out);
  return llmctl_output_flush ();
}

char *
llmctl_member_make_usage (const char         *path,
                          const LlmctlMember *method)
{
  g_autoptr(GString) words = g_string_new (NULL);

  if (path == NULL)
    g_string_append (words, "PATH ");
  else if (strcmp (path, LLMCTL_ROOT_PATH) != 0)
    g_string_append_printf (words, "%s ", path);
  g_string_append (words, method->name);
  for (guint i = 0; i < method->in->len; i++)
    {
      const LlmctlArgument *argument = g_ptr_array_index (method->in, i);

      if (i + 1 == method->in->len && strcmp (argument->type, "a{sv}") == 0)
        g_string_append_printf (words, " %s", _("[KEY=VALUE…]"));
      else
        {
          g_autofree char *name = g_ascii_strup (*argument->name != '\0' ? argument->name : "arg",
                                                 -1);

          g_string_append_printf (words, " %s", name);
        }
    }

  /* TRANSLATORS: %s are the arguments of “llmctl call” */
  return g_strdup_printf (_("Usage: llmctl call %s"), words->str);
}
