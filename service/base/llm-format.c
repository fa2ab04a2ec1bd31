/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-base"

#include "base/llm-format.h"

#include <string.h>

#define MAX_PIECES (2 * LLM_FORMAT_MAX_ARGUMENTS + 1)

static void
clear_piece (gpointer data)
{
  LlmFormatPiece *piece = data;

  g_free (piece->fixed);
}

static void
add_fixed (GArray  *pieces,
           GString *fixed)
{
  LlmFormatPiece piece = { .kind = LLM_FORMAT_FIXED, .length = fixed->len };

  if (fixed->len == 0)
    return;

  piece.fixed = g_strndup (fixed->str, fixed->len);
  g_array_append_val (pieces, piece);
  g_string_truncate (fixed, 0);
}

static gboolean
find_kind (char       letter,
           LlmFormatKind *kind)
{
  switch (letter)
    {
    case 's':
      *kind = LLM_FORMAT_STRING;
      return TRUE;
    case 'c':
      *kind = LLM_FORMAT_CHARACTER;
      return TRUE;
    case 'd':
    case 'i':
      *kind = LLM_FORMAT_SIGNED;
      return TRUE;
    case 'u':
      *kind = LLM_FORMAT_UNSIGNED;
      return TRUE;
    case 'x':
    case 'X':
      *kind = LLM_FORMAT_HEX;
      return TRUE;
    case 'e':
    case 'f':
    case 'g':
      *kind = LLM_FORMAT_REAL;
      return TRUE;
    default:
      return FALSE;
    }
}

/* "2$" before a conversion: its argument. */
static const char *
read_position (const char *p,
               guint      *argument)
{
  guint number = 0;
  const char *start = p;

  while (g_ascii_isdigit (*p) && number < 100)
    number = number * 10 + (guint) (*p++ - '0');
  if (*p != '$' || number == 0)
    return start;

  *argument = number - 1;
  return p + 1;
}

/* What stands behind "%", up to the letter; widths and precisions that are arguments
 * are not ours. (nullable): behind the letter. */
static const char *
read_conversion (const char *p,
                 guint      *n_arguments,
                 LlmFormatPiece      *piece)
{
  piece->argument = G_MAXUINT;
  p = read_position (p, &piece->argument);
  if (piece->argument == G_MAXUINT)
    piece->argument = (*n_arguments)++;

  p += strspn (p, "-+ #0'");
  p += strspn (p, "0123456789.");
  p += strspn (p, "hljzt");
  if (*p == '\0' || piece->argument >= LLM_FORMAT_MAX_ARGUMENTS || !find_kind (*p, &piece->kind))
    return NULL;

  return p + 1;
}

GArray *
llm_format_parse (const char *format)
{
  g_autoptr(GArray) pieces = g_array_new (FALSE, FALSE, sizeof (LlmFormatPiece));
  g_autoptr(GString) fixed = g_string_new (NULL);
  guint n_arguments = 0;

  g_array_set_clear_func (pieces, clear_piece);
  for (const char *p = format; *p != '\0';)
    {
      LlmFormatPiece piece = { 0 };

      if (p[0] != '%' || p[1] == '%')
        {
          g_string_append_c (fixed, *p);
          p += p[0] == '%' ? 2 : 1;
          continue;
        }

      add_fixed (pieces, fixed);
      p = read_conversion (p + 1, &n_arguments, &piece);
      if (p == NULL || pieces->len >= MAX_PIECES - 1)
        return NULL;
      g_array_append_val (pieces, piece);
    }

  add_fixed (pieces, fixed);
  return g_steal_pointer (&pieces);
}

gboolean
llm_format_fits (const GArray *from,
                 const GArray *to)
{
  LlmFormatKind kinds[LLM_FORMAT_MAX_ARGUMENTS] = { LLM_FORMAT_FIXED };
  gboolean is_there[LLM_FORMAT_MAX_ARGUMENTS] = { FALSE };

  for (guint i = 0; i < from->len; i++)
    {
      const LlmFormatPiece *piece = &g_array_index (from, LlmFormatPiece, i);

      if (piece->kind == LLM_FORMAT_FIXED)
        continue;
      if (is_there[piece->argument])
        return FALSE;
      is_there[piece->argument] = TRUE;
      kinds[piece->argument] = piece->kind;
    }
  for (guint i = 0; i < to->len; i++)
    {
      const LlmFormatPiece *piece = &g_array_index (to, LlmFormatPiece, i);

      if (piece->kind != LLM_FORMAT_FIXED &&
          (!is_there[piece->argument] || kinds[piece->argument] != piece->kind))
        return FALSE;
    }

  return TRUE;
}

gsize
llm_format_count_fixed_bytes (const GArray *pieces)
{
  gsize n = 0;

  for (guint i = 0; i < pieces->len; i++)
    n += g_array_index (pieces, LlmFormatPiece, i).length;
  return n;
}
