/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-gate.h"

#include <string.h>

/* Limit of a message, by the specification. */
#define MAX_MESSAGE_BYTES (128u * 1024 * 1024)
/* Limit of all fields: names have 255 bytes at most, but a path may be long. */
#define MAX_FIELDS_BYTES (64u * 1024 * 1024)
/* Beyond this size a head is counted with the body. */
#define USUAL_HEAD_BYTES (64 * 1024)

/* Values of one-letter types: their bytes, or those of their length, and their alignment. */
static const struct
{
  char type;
  guint8 size;
  gboolean is_text;    /* so many bytes follow, and a zero */
} types[] = { { 's', 4, TRUE },  { 'o', 4, TRUE },  { 'g', 1, TRUE },  { 'u', 4, FALSE },
              { 'y', 1, FALSE }, { 'n', 2, FALSE }, { 'q', 2, FALSE }, { 'b', 4, FALSE },
              { 'i', 4, FALSE }, { 'h', 4, FALSE }, { 'x', 8, FALSE }, { 't', 8, FALSE },
              { 'd', 8, FALSE } };

static guint32
get_number (const guint8 *bytes,
            gboolean      is_big_endian)
{
  guint32 number;

  memcpy (&number, bytes, sizeof number);
  return is_big_endian ? GUINT32_FROM_BE (number) : GUINT32_FROM_LE (number);
}

static gsize
align (gsize at,
       gsize to)
{
  return (at + to - 1) & ~(to - 1);
}

gboolean
llm_bus_head_measure (const guint8 *bytes,
                      LlmBusHead   *head)
{
  gboolean is_big_endian = bytes[0] == 'B';
  guint32 n_body = get_number (bytes + 4, is_big_endian);
  guint32 n_fields = get_number (bytes + LLM_BUS_HEAD_START - 4, is_big_endian);

  if ((bytes[0] != 'l' && bytes[0] != 'B') || n_fields > MAX_FIELDS_BYTES ||
      n_body > MAX_MESSAGE_BYTES)
    return FALSE;

  *head = (LlmBusHead) {
    .type = bytes[1],
    .flags = bytes[LLM_BUS_HEAD_FLAGS_BYTE],
    .serial = get_number (bytes + 8, is_big_endian),
    .n_head = LLM_BUS_HEAD_START + align (n_fields, 8),
    .n_body = n_body,
  };
  head->n_counted = n_body + (head->n_head > USUAL_HEAD_BYTES ? head->n_head : 0);
  return TRUE;
}

/* A field is its number, the type of its value, and the value. */
gboolean
llm_bus_head_parse (const guint8 *bytes,
                    LlmBusHead   *head)
{
  gboolean is_big_endian = bytes[0] == 'B';
  gsize at = LLM_BUS_HEAD_START;
  gsize end = at + get_number (bytes + LLM_BUS_HEAD_START - 4, is_big_endian);

  while (at < end)
    {
      const char *text = NULL;
      guint8 code;
      guint32 number;
      guint i = 0;

      at = align (at, 8);
      if (at > end || end - at < 4 || bytes[at + 1] != 1 || bytes[at + 3] != '\0')
        return FALSE;
      code = bytes[at];
      while (i < G_N_ELEMENTS (types) && types[i].type != (char) bytes[at + 2])
        i++;
      if (i == G_N_ELEMENTS (types))
        return FALSE;

      at = align (at + 4, types[i].size);
      if (at > end || end - at < types[i].size)
        return FALSE;
      number = types[i].size == 4 ? get_number (bytes + at, is_big_endian) : bytes[at];
      at += types[i].size;
      if (types[i].is_text)
        {
          if (end - at <= number || bytes[at + number] != '\0')
            return FALSE;
          text = (const char *) bytes + at;
          at += (gsize) number + 1;
        }

      if (code == G_DBUS_MESSAGE_HEADER_FIELD_SENDER)
        head->sender = text;
      else if (code == G_DBUS_MESSAGE_HEADER_FIELD_NUM_UNIX_FDS)
        head->n_fds = types[i].type == 'u' ? number : 0;
    }
  return TRUE;
}
