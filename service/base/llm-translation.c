/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-base"

#include "base/llm-translation.h"

#include <string.h>

#include "common/llmsvc-error-private.h"

#define MAGIC         0x950412deu
#define MAGIC_SWAPPED 0xde120495u
#define ENTRY_BYTES   8

struct _LlmTranslation
{
  GBytes *bytes;       /* (owned): the file */
  GHashTable *texts;   /* (element-type utf8 utf8) (unowned): in the file, by message */
};

/* --- the file --- */

typedef struct
{
  const guint8 *data;
  gsize size;
  gboolean is_swapped;
} Reader;

/* Behind the end of the file, a number that is too large for all. */
static guint32
read_number (const Reader *reader,
             gsize         at)
{
  guint32 value;

  if (at > reader->size || reader->size - at < sizeof value)
    return G_MAXUINT32;

  memcpy (&value, reader->data + at, sizeof value);
  return reader->is_swapped ? GUINT32_SWAP_LE_BE (value) : value;
}

/* The string of the entry at @at, which has its length and place; a NUL must follow it.
 * (nullable) */
static const char *
read_string (const Reader *reader,
             gsize         at)
{
  gsize length = read_number (reader, at), offset = read_number (reader, at + 4);

  if (offset >= reader->size || length >= reader->size - offset ||
      reader->data[offset + length] != '\0' ||
      !g_utf8_validate_len ((const char *) reader->data + offset, length, NULL))
    return NULL;

  return (const char *) reader->data + offset;
}

LlmTranslation *
llm_translation_new (GBytes *bytes)
{
  Reader reader = { 0 };
  LlmTranslation *self;
  gsize n_entries, ids, texts;

  reader.data = g_bytes_get_data (bytes, &reader.size);
  reader.is_swapped = read_number (&reader, 0) == MAGIC_SWAPPED;
  n_entries = read_number (&reader, 8);
  ids = read_number (&reader, 12);
  texts = read_number (&reader, 16);
  /* a minor revision has further tables, which msgfmt does not make for our messages */
  if (read_number (&reader, 0) != MAGIC || read_number (&reader, 4) >> 16 > 1 ||
      n_entries > reader.size / (2 * ENTRY_BYTES))
    return NULL;

  self = g_new0 (LlmTranslation, 1);
  self->bytes = g_bytes_ref (bytes);
  self->texts = g_hash_table_new (g_str_hash, g_str_equal);
  for (gsize i = 0; i < n_entries; i++)
    {
      const char *id = read_string (&reader, ids + i * ENTRY_BYTES);
      const char *text = read_string (&reader, texts + i * ENTRY_BYTES);

      /* that of the empty message is a header */
      if (id != NULL && *id != '\0' && text != NULL && *text != '\0')
        g_hash_table_insert (self->texts, (gpointer) id, (gpointer) text);
    }
  return self;
}

void
llm_translation_free (LlmTranslation *self)
{
  g_hash_table_unref (self->texts);
  g_bytes_unref (self->bytes);
  g_free (self);
}

/* --- messages --- */

static void
append_argument (const LlmTranslation     *self,
                 const LlmsvcErrorDetails *details,
                 gsize                     index,
                 GString                  *out)
{
  const char *value = details->arguments[index];
  const char *text = NULL;
  g_autofree char *said = NULL;

  if (details->cause != NULL && g_str_equal (value, details->cause->message))
    text = said = llm_translation_apply (self, details->cause);
  else if ((details->unquoted >> index & 1) != 0 && strchr (value, ' ') != NULL)
    text = g_hash_table_lookup (self->texts, value);
  g_string_append (out, text != NULL ? text : value);
}

/* FALSE when @text is no format for these arguments. */
static gboolean
fill_in (const LlmTranslation     *self,
         const LlmsvcErrorDetails *details,
         const char               *text,
         GString                  *out)
{
  guint64 next = 1, n_arguments = g_strv_length (details->arguments);

  for (const char *p = text; *p != '\0'; p++)
    {
      guint64 position;
      char *end;

      if (*p != '%' || *++p == '%')
        {
          g_string_append_c (out, *p);
          continue;
        }
      position = g_ascii_strtoull (p, &end, 10);
      if (*end == '$')
        p = end + 1;
      else
        position = next++;
      p += strspn (p, "-+ #0'123456789.hljzt");
      if (!g_ascii_isalpha (*p) || position == 0 || position > n_arguments)
        return FALSE;
      append_argument (self, details, (gsize) position - 1, out);
    }
  return TRUE;
}

char *
llm_translation_apply (const LlmTranslation *self,
                       const GError         *error)
{
  const LlmsvcErrorDetails *details = llmsvc_error_get_details (error);
  g_autoptr(GString) out = g_string_new (NULL);
  const char *text;

  text = g_hash_table_lookup (self->texts, details != NULL ? details->format : error->message);
  if (text != NULL && details == NULL)
    g_string_append (out, text);
  else if (text == NULL || !fill_in (self, details, text, out))
    g_string_assign (out, error->message);
  return g_string_free (g_steal_pointer (&out), FALSE);
}
