/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-head.h"

#include <string.h>

/* Of a whole message, by the specification. */
#define MAX_MESSAGE_BYTES (128u * 1024 * 1024)
#define FIELDS_LENGTH_BYTE 12

typedef struct
{
  const guint8 *bytes;
  gsize at;
  gsize end;
  gboolean is_big_endian;
} Cursor;

static guint32
get_number (const guint8 *bytes,
            gboolean      is_big_endian)
{
  guint32 number;

  memcpy (&number, bytes, sizeof number);
  return is_big_endian ? GUINT32_FROM_BE (number) : GUINT32_FROM_LE (number);
}

gboolean
llm_bus_head_measure (const guint8    *bytes,
                      LlmBusHeadBytes *head)
{
  gboolean is_big_endian = bytes[0] == 'B';
  guint32 n_body = get_number (bytes + 4, is_big_endian);
  guint32 n_fields = get_number (bytes + FIELDS_LENGTH_BYTE, is_big_endian);

  if ((bytes[0] != 'l' && bytes[0] != 'B') || n_fields > LLM_BUS_HEAD_MAX_FIELDS ||
      n_body > MAX_MESSAGE_BYTES)
    return FALSE;

  *head = (LlmBusHeadBytes) {
    .type = bytes[1],
    .flags = bytes[LLM_BUS_HEAD_FLAGS_BYTE],
    .serial = get_number (bytes + 8, is_big_endian),
    .n_head = LLM_BUS_HEAD_START + ((n_fields + 7u) & ~7u),
    .n_body = n_body,
  };
  return TRUE;
}

static gboolean
align (Cursor *cursor,
       gsize   to)
{
  cursor->at = (cursor->at + to - 1) & ~(to - 1);
  return cursor->at <= cursor->end;
}

static gboolean
take_number (Cursor  *cursor,
             guint32 *number)
{
  if (!align (cursor, 4) || cursor->end - cursor->at < 4)
    return FALSE;
  *number = get_number (cursor->bytes + cursor->at, cursor->is_big_endian);
  cursor->at += 4;
  return TRUE;
}

/* @length bytes of text and the zero behind them. */
static gboolean
take_text (Cursor      *cursor,
           gsize        length,
           const char **text)
{
  if (cursor->end - cursor->at < length + 1 || cursor->bytes[cursor->at + length] != '\0')
    return FALSE;
  *text = (const char *) cursor->bytes + cursor->at;
  cursor->at += length + 1;
  return TRUE;
}

/* A value of a fixed size that nobody asks for. */
static gboolean
skip_fixed (Cursor     *cursor,
            const char *signature)
{
  static const struct
  {
    char type;
    guint8 size;
  } sizes[] = { { 'y', 1 }, { 'n', 2 }, { 'q', 2 }, { 'b', 4 }, { 'i', 4 },
                { 'h', 4 }, { 'x', 8 }, { 't', 8 }, { 'd', 8 } };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    if (signature[0] == sizes[i].type && signature[1] == '\0')
      {
        if (!align (cursor, sizes[i].size) || cursor->end - cursor->at < sizes[i].size)
          return FALSE;
        cursor->at += sizes[i].size;
        return TRUE;
      }
  return FALSE;
}

/* One field: its number, and a variant of a string, a path, a signature or a number. */
static gboolean
take_field (Cursor      *cursor,
            guint8      *code,
            const char **text,
            guint32     *number)
{
  const char *signature;
  guint32 length;

  if (!align (cursor, 8) || cursor->end - cursor->at < 2)
    return FALSE;
  *code = cursor->bytes[cursor->at];
  length = cursor->bytes[cursor->at + 1];
  cursor->at += 2;
  *text = NULL;
  *number = 0;
  if (!take_text (cursor, length, &signature))
    return FALSE;
  if (g_str_equal (signature, "u"))
    return take_number (cursor, number);
  if (g_str_equal (signature, "s") || g_str_equal (signature, "o"))
    return take_number (cursor, &length) && take_text (cursor, length, text);
  if (!g_str_equal (signature, "g"))
    return skip_fixed (cursor, signature);
  if (cursor->at >= cursor->end)
    return FALSE;
  length = cursor->bytes[cursor->at++];
  return take_text (cursor, length, text);
}

gboolean
llm_bus_head_parse (const guint8    *bytes,
                    LlmBusHeadBytes *head)
{
  gboolean is_big_endian = bytes[0] == 'B';
  Cursor cursor = {
    .bytes = bytes,
    .at = LLM_BUS_HEAD_START,
    .end = LLM_BUS_HEAD_START + get_number (bytes + FIELDS_LENGTH_BYTE, is_big_endian),
    .is_big_endian = is_big_endian,
  };

  while (cursor.at < cursor.end)
    {
      const char *text;
      guint32 number;
      guint8 code;

      if (!take_field (&cursor, &code, &text, &number))
        return FALSE;
      if (code == G_DBUS_MESSAGE_HEADER_FIELD_SENDER)
        head->sender = text;
      else if (code == G_DBUS_MESSAGE_HEADER_FIELD_NUM_UNIX_FDS)
        head->n_fds = number;
    }
  return TRUE;
}
