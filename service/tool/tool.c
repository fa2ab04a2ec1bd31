/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

char *
tool_read (const char *path,
           GError    **error)
{
  char *text = NULL;

  if (strcmp (path, "-") == 0)
    path = "/dev/stdin";
  return g_file_get_contents (path, &text, NULL, error) ? text : NULL;
}

char *
tool_read_text (const char *argument,
                GError    **error)
{
  return strcmp (argument, "-") == 0 ? tool_read (argument, error) : g_strdup (argument);
}

int
tool_fail (const GError *error)
{
  g_printerr ("llmsvc-tool: %s\n", error->message);
  return TOOL_FAILED;
}

int
tool_fail_usage (const char *fault)
{
  g_printerr ("llmsvc-tool: %s\n", fault);
  return TOOL_USAGE;
}

void
tool_print_json (GVariant *object,
                 gboolean  is_pretty)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (object);
  g_autoptr(JsonNode) root = json_gvariant_serialize (owned);
  g_autofree char *text = json_to_string (root, is_pretty);

  puts (text);
}

void
tool_progress (const char *format,
               ...)
{
  va_list args;

  if (!isatty (STDERR_FILENO))
    return;
  if (format == NULL)
    {
      fputc ('\n', stderr);
      return;
    }
  fputc ('\r', stderr);
  va_start (args, format);
  vfprintf (stderr, format, args);
  va_end (args);
}
