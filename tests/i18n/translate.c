/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Looks up messages in a file of translations, the first argument, as the service
 * does: messages from the standard input, each ended by a NUL; answers likewise. */

#include <gio/gio.h>
#include <stdio.h>

#include "base/llm-translation.h"

int
main (int    argc,
      char **argv)
{
  g_autofree char *content = NULL;
  g_autofree char *messages = NULL;
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmTranslation) translation = NULL;
  g_autoptr(GError) error = NULL;
  gsize size, length;

  if (argc != 2 || !g_file_get_contents (argv[1], &content, &size, &error) ||
      !g_file_get_contents ("/dev/stdin", &messages, &length, &error))
    {
      g_printerr ("%s\n", error != NULL ? error->message : "Usage: translate FILE");
      return 1;
    }

  bytes = g_bytes_new_take (g_steal_pointer (&content), size);
  translation = llm_translation_new (bytes);
  if (translation == NULL)
    {
      g_printerr ("%s is no file of translations\n", argv[1]);
      return 1;
    }

  for (const char *p = messages; p < messages + length; p += strlen (p) + 1)
    {
      g_autofree char *found = llm_translation_apply (translation, p);

      fwrite (found, 1, strlen (found) + 1, stdout);
    }

  return 0;
}
