/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Bytes of a stream as a client reads them, in pieces and at once; what was read
 * is written again and must read back the same. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/llmsvc-line.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
check_again (const LlmsvcLine *line)
{
  g_autoptr(GString) out = g_string_new (NULL);
  g_autoptr(GError) error = NULL;
  LlmsvcLine again;

  if (line->kind == LLMSVC_LINE_TEXT)
    llmsvc_line_write_text (out, line->text, strlen (line->text));
  else if (line->kind == LLMSVC_LINE_ERROR)
    llmsvc_line_write_error (out, line->name, line->text);
  else if (line->kind == LLMSVC_LINE_LOGPROBS)
    llmsvc_line_write_logprobs (out, line->text);
  else
    return;

  if (!llmsvc_line_parse (out->str, out->len - 1, &again, &error) || again.kind != line->kind ||
      g_strcmp0 (again.text, line->text) != 0 || g_strcmp0 (again.name, line->name) != 0)
    g_error ("A line that was written does not read back");
  llmsvc_line_clear (&again);
}

static guint
read_lines (const char *bytes,
            gsize       size,
            gsize       step)
{
  g_autoptr(LlmsvcLineReader) reader = llmsvc_line_reader_new ();
  g_autoptr(GError) error = NULL;
  guint n_lines = 0;
  LlmsvcLine line;

  for (gsize at = 0; at < size && error == NULL; at += step)
    {
      if (!llmsvc_line_reader_push (reader, bytes + at, MIN (step, size - at), &error))
        break;
      while (llmsvc_line_reader_next (reader, &line, &error))
        {
          check_again (&line);
          llmsvc_line_clear (&line);
          n_lines++;
        }
    }

  return n_lines;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  gsize step;

  if (size < 1)
    return 0;

  step = 1 + data[0] % 64;
  if (read_lines ((const char *) data + 1, size - 1, step) !=
      read_lines ((const char *) data + 1, size - 1, MAX (size - 1, 1)))
    g_error ("Pieces of another size make other lines");

  return 0;
}
