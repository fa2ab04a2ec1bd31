/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A file of translations and messages to look up in it: the first two bytes are
 * the length of the file, the lines after it are messages. What comes out of a
 * message in UTF-8 must be UTF-8, and not larger than it may be.
 */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/llm-translation.h"

#define MAX_RESULT_BYTES 16384

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
look_up (const LlmTranslation *translation,
         const char           *message)
{
  g_autofree char *found = llm_translation_apply (translation, message);

  if (strlen (found) > MAX (MAX_RESULT_BYTES, strlen (message)))
    g_error ("A translation is too long");
  if (g_utf8_validate (message, -1, NULL) && !g_utf8_validate (found, -1, NULL))
    g_error ("A translation is not in UTF-8");
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmTranslation) translation = NULL;
  g_autofree char *text = NULL;
  g_auto(GStrv) messages = NULL;
  gsize length;

  if (size < 2)
    return 0;

  length = MIN ((gsize) data[0] << 8 | data[1], size - 2);
  bytes = g_bytes_new (data + 2, length);
  translation = llm_translation_new (bytes);
  if (translation == NULL)
    return 0;

  text = g_strndup ((const char *) data + 2 + length, size - 2 - length);
  messages = g_strsplit (text, "\n", 64);
  for (guint i = 0; messages[i] != NULL; i++)
    look_up (translation, messages[i]);

  return 0;
}
