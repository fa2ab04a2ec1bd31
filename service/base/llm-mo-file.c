/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-base"

#include "base/llm-mo-file.h"

#include <string.h>

#define MAGIC         0x950412deu
#define MAGIC_SWAPPED 0xde120495u
#define HEADER_BYTES  20
#define ENTRY_BYTES   8
#define MAX_ENTRIES   65536

struct _LlmMoFile
{
  GBytes *bytes;    /* (owned) */
  GArray *entries;  /* (element-type LlmMoEntry), into bytes */
};

/* No byte at or after size is read. */
typedef struct
{
  const guint8 *data;
  gsize size;
  gboolean is_swapped;
} Reader;

static gboolean
read_uint32 (const Reader *reader,
             gsize         at,
             guint32      *value)
{
  if (at > reader->size || reader->size - at < sizeof *value)
    return FALSE;

  memcpy (value, reader->data + at, sizeof *value);
  if (reader->is_swapped)
    *value = GUINT32_SWAP_LE_BE (*value);
  return TRUE;
}

/* The string that the table at @table describes as its entry @index; its length
 * and place come from the file, and a NUL must follow it. */
static const char *
read_string (const Reader *reader,
             guint32       table,
             guint         index,
             gsize        *length)
{
  gsize at = (gsize) table + (gsize) index * ENTRY_BYTES;
  guint32 n, offset;

  if (!read_uint32 (reader, at, &n) || !read_uint32 (reader, at + 4, &offset) ||
      offset >= reader->size || n >= reader->size - offset || reader->data[offset + n] != '\0' ||
      !g_utf8_validate_len ((const char *) reader->data + offset, n, NULL))
    return NULL;

  *length = n;
  return (const char *) reader->data + offset;
}

/* The message without a text of its own describes the file. */
static gboolean
is_utf8_header (const char *text)
{
  return strstr (text, "charset=UTF-8") != NULL || strstr (text, "charset=utf-8") != NULL;
}

/* FALSE when the file is not in UTF-8. */
static gboolean
read_entries (LlmMoFile    *self,
              const Reader *reader,
              guint32       n_entries,
              guint32       ids,
              guint32       texts)
{
  gboolean is_utf8 = FALSE;

  for (guint i = 0; i < n_entries; i++)
    {
      gsize id_length, text_length;
      const char *id = read_string (reader, ids, i, &id_length);
      const char *text = read_string (reader, texts, i, &text_length);
      LlmMoEntry entry = { id, text };

      if (id == NULL || text == NULL || text_length == 0)
        continue;
      if (id_length == 0)
        is_utf8 = is_utf8_header (text);
      else if (strchr (id, '\004') == NULL)
        g_array_append_val (self->entries, entry);
    }

  return is_utf8;
}

LlmMoFile *
llm_mo_file_new (GBytes *bytes)
{
  g_autoptr(LlmMoFile) self = NULL;
  Reader reader = { 0 };
  guint32 magic, revision, n_entries, ids, texts;

  g_return_val_if_fail (bytes != NULL, NULL);

  reader.data = g_bytes_get_data (bytes, &reader.size);
  if (!read_uint32 (&reader, 0, &magic) || (magic != MAGIC && magic != MAGIC_SWAPPED))
    return NULL;

  reader.is_swapped = magic == MAGIC_SWAPPED;
  /* the minor number tells of messages that differ by platform, in tables of their own */
  if (!read_uint32 (&reader, 4, &revision) || revision >> 16 > 1 ||
      !read_uint32 (&reader, 8, &n_entries) || n_entries > MAX_ENTRIES ||
      !read_uint32 (&reader, 12, &ids) || !read_uint32 (&reader, 16, &texts) ||
      reader.size < HEADER_BYTES + (gsize) n_entries * 2 * ENTRY_BYTES)
    return NULL;

  self = g_new0 (LlmMoFile, 1);
  self->bytes = g_bytes_ref (bytes);
  self->entries = g_array_new (FALSE, FALSE, sizeof (LlmMoEntry));
  if (!read_entries (self, &reader, n_entries, ids, texts))
    return NULL;

  return g_steal_pointer (&self);
}

void
llm_mo_file_free (LlmMoFile *self)
{
  g_array_unref (self->entries);
  g_bytes_unref (self->bytes);
  g_free (self);
}

guint
llm_mo_file_get_n (const LlmMoFile *self)
{
  return self->entries->len;
}

const LlmMoEntry *
llm_mo_file_get (const LlmMoFile *self,
                 guint            index)
{
  g_return_val_if_fail (index < self->entries->len, NULL);

  return &g_array_index (self->entries, LlmMoEntry, index);
}
