/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-template.h"

#include <string.h>

#define KEY "tokenizer.chat_template"
#define ALIGNMENT 32

static void
put_length (GByteArray *bytes,
            guint64     length)
{
  guint64 little = GUINT64_TO_LE (length);

  g_byte_array_append (bytes, (const guint8 *) &little, sizeof little);
}

void
llm_test_template_write (const char *model,
                         const char *template,
                         const char *path)
{
  g_autofree char *content = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GByteArray) bytes = g_byte_array_new ();
  const guint8 *key, *text;
  guint64 before;
  gsize length, padding;

  g_file_get_contents (model, &content, &length, &error);
  g_assert_no_error (error);
  key = memmem (content, length, KEY, strlen (KEY));
  g_assert_nonnull (key);
  text = key + strlen (KEY) + sizeof (guint32) + sizeof before;
  memcpy (&before, text - sizeof before, sizeof before);
  before = GUINT64_FROM_LE (before);

  g_byte_array_append (bytes, (const guint8 *) content,
                       (guint) (text - sizeof before - (const guint8 *) content));
  /* what follows stays aligned behind a comment */
  padding = (gsize) (before - strlen (template) - 4) % ALIGNMENT;
  put_length (bytes, strlen (template) + 4 + padding);
  g_byte_array_append (bytes, (const guint8 *) "{#", 2);
  for (gsize i = 0; i < padding; i++)
    g_byte_array_append (bytes, (const guint8 *) " ", 1);
  g_byte_array_append (bytes, (const guint8 *) "#}", 2);
  g_byte_array_append (bytes, (const guint8 *) template, (guint) strlen (template));
  g_byte_array_append (bytes, text + before,
                       (guint) (length - (gsize) (text + before - (const guint8 *) content)));
  g_file_set_contents (path, (const char *) bytes->data, bytes->len, &error);
  g_assert_no_error (error);
}

void
llm_test_template_write_shipped (const char *name,
                                 const char *from,
                                 const char *to,
                                 const char *path)
{
  g_autofree char *model =
    g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autofree char *file = g_strconcat (name, ".jinja", NULL);
  g_autofree char *source = g_build_filename (g_getenv ("LLM_TEST_DATA"), "templates", file, NULL);
  g_autofree char *content = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GString) template = NULL;

  g_file_get_contents (source, &content, NULL, &error);
  g_assert_no_error (error);
  template = g_string_new (content);
  if (from != NULL)
    g_assert_cmpuint (g_string_replace (template, from, to, 0), ==, 1);
  llm_test_template_write (model, template->str, path);
}
