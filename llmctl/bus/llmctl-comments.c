/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-comments.h"

#include <glib/gi18n.h>
#include <string.h>

#define MAX_XML_DEPTH 16

typedef struct
{
  GHashTable *help;   /* (element-type utf8 GString) */
  char *interface;    /* (nullable) (owned): the one that is open */
  guint depth;
} Scan;

static GString *
begin_text (Scan       *scan,
            const char *member,
            const char *argument)
{
  GString *text = g_string_new (NULL);
  const char *interface = scan->interface != NULL ? scan->interface : "";
  gboolean is_interface = strchr (member, '.') != NULL;

  g_hash_table_insert (scan->help,
                       is_interface ? llmctl_comments_make_key (member, NULL, argument)
                                    : llmctl_comments_make_key (interface, member, argument),
                       text);
  return text;
}

/* Appends a line to a paragraph, without the marks before names that only a
 * generator of pages has a use for. */
static void
append_line (GString    *out,
             const char *line)
{
  gboolean is_code = FALSE;
  char before = ' ';

  if (out->len > 0 && out->str[out->len - 1] != '\n')
    g_string_append_c (out, ' ');
  for (const char *p = line; *p != '\0'; before = *p++)
    {
      if (*p == '`')
        is_code = !is_code;
      if ((*p != '#' && *p != '@') || is_code || g_ascii_isalnum (before) ||
          !g_ascii_isalpha (p[1]))
        g_string_append_c (out, *p);
    }
}

/* (nullable) (transfer full): the name at the begin of "name: text"; moves @line behind it. */
static char *
take_name (const char **line)
{
  const char *start = *line;
  gsize n = strspn (start, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "_.");

  if (start[n] != ':')
    return NULL;
  *line = start + n + 1 + strspn (start + n + 1, " ");
  return g_strndup (start, n);
}

/* "name: text", "@argument: text" in lines and, after an empty line, paragraphs. What begins
 * otherwise is no documentation. */
static void
read_comment (Scan *scan,
              char *text)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  g_autofree char *name = NULL;
  GString *body = NULL;
  GString *out = NULL;

  for (gsize i = 0; lines[i] != NULL; i++)
    {
      const char *line = g_strstrip (lines[i]);
      g_autofree char *argument = NULL;

      if (name == NULL && *line != '\0')
        {
          name = take_name (&line);
          if (name == NULL || *name == '\0')
            return;
          out = body = begin_text (scan, name, NULL);
        }
      else if (name != NULL && *line == '@' && body->len == 0)
        {
          line++;
          argument = take_name (&line);
          if (argument != NULL)
            out = begin_text (scan, name, argument);
          else
            line--;
        }

      if (*line != '\0')
        {
          append_line (out, line);
        }
      else if (argument == NULL)
        {
          out = body;
          if (body != NULL && body->len > 0 && !g_str_has_suffix (body->str, "\n\n"))
            g_string_append (body, "\n\n");
        }
    }
  if (body != NULL)
    g_strchomp (body->str);
}

static void
on_start (GMarkupParseContext *context,
          const char          *element,
          const char         **names,
          const char         **values,
          gpointer             user_data,
          GError             **error)
{
  Scan *scan = user_data;

  if (++scan->depth > MAX_XML_DEPTH)
    g_set_error_literal (error, G_MARKUP_ERROR, G_MARKUP_ERROR_INVALID_CONTENT,
                         _("it is nested too deeply"));
  else if (scan->depth == 1 && strcmp (element, "node") != 0)
    g_set_error_literal (error, G_MARKUP_ERROR, G_MARKUP_ERROR_UNKNOWN_ELEMENT,
                         _("it does not begin with a node"));
  for (gsize i = 0; scan->depth == 2 && names[i] != NULL; i++)
    if (strcmp (names[i], "name") == 0)
      {
        g_free (scan->interface);
        scan->interface = g_strdup (values[i]);
      }
}

static void
on_end (GMarkupParseContext *context,
        const char          *element,
        gpointer             user_data,
        GError             **error)
{
  ((Scan *) user_data)->depth--;
}

static void
on_passthrough (GMarkupParseContext *context,
                const char          *text,
                gsize                length,
                gpointer             user_data,
                GError             **error)
{
  g_autofree char *inside = NULL;

  if (length < 7 || !g_str_has_prefix (text, "<!--"))
    return;
  inside = g_strndup (text + 4, length - 7);
  read_comment (user_data, inside);
}

char *
llmctl_comments_make_key (const char *interface,
                          const char *member,
                          const char *argument)
{
  return g_strconcat (interface, "\n", member != NULL ? member : "", "\n", argument, NULL);
}

gboolean
llmctl_comments_read (GHashTable  *help,
                      const char  *xml,
                      gsize        length,
                      GError     **error)
{
  static const GMarkupParser callbacks = {
    .start_element = on_start,
    .end_element = on_end,
    .passthrough = on_passthrough,
  };
  Scan scan = { .help = help };
  g_autoptr(GMarkupParseContext) context = g_markup_parse_context_new (&callbacks,
                                                                       G_MARKUP_DEFAULT_FLAGS,
                                                                       &scan, NULL);
  gboolean is_read = g_markup_parse_context_parse (context, xml, (gssize) length, error) &&
                     g_markup_parse_context_end_parse (context, error);

  g_free (scan.interface);
  return is_read;
}
