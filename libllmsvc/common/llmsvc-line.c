/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "common/llmsvc-line.h"

#include <glib/gi18n-lib.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-json.h"

struct _LlmsvcLineReader
{
  GByteArray *bytes;  /* (owned) */
  gsize start;        /* where the first line not yet given out begins */
  gsize scanned;      /* no newline from start up to here */
};

static gboolean
fail (GError     **error,
      const char  *what)
{
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
               _("The stream has a line that can't be read: %s"), what);
  return FALSE;
}

void
llmsvc_line_clear (LlmsvcLine *line)
{
  g_return_if_fail (line != NULL);

  g_clear_pointer (&line->text, g_free);
  g_clear_pointer (&line->name, g_free);
  g_clear_pointer (&line->results, g_variant_unref);
  line->kind = LLMSVC_LINE_OTHER;
}

void
llmsvc_line_write_text (GString    *out,
                        const char *text,
                        gsize       length)
{
  g_return_if_fail (out != NULL);
  g_return_if_fail (text != NULL || length == 0);

  g_string_append (out, "{\"t\":\"");
  llmsvc_json_append_escaped (out, text, length);
  g_string_append (out, "\"}\n");
}

void
llmsvc_line_write_done (GString  *out,
                        GVariant *results)
{
  g_return_if_fail (out != NULL);
  g_return_if_fail (g_variant_is_of_type (results, G_VARIANT_TYPE_VARDICT));

  g_string_append (out, "{\"done\":");
  llmsvc_json_append_value (out, results);
  g_string_append (out, "}\n");
}

void
llmsvc_line_write_error (GString    *out,
                         const char *name,
                         const char *message)
{
  g_return_if_fail (out != NULL);
  g_return_if_fail (name != NULL);
  g_return_if_fail (message != NULL);

  g_string_append (out, "{\"error\":{\"name\":\"");
  llmsvc_json_append_escaped (out, name, strlen (name));
  g_string_append (out, "\",\"message\":\"");
  llmsvc_json_append_escaped (out, message, strlen (message));
  g_string_append (out, "\"}}\n");
}

/**
 * llmsvc_line_parse:
 * @bytes: one line without its newline
 * @length: its bytes
 * @line: (out caller-allocates): to be cleared with llmsvc_line_clear()
 * @error: return location for an error
 *
 * Whole numbers of the results come back as t (below zero as x), others as d. A
 * result that is null or nested is left out: it is from a later version.
 *
 * Returns: whether the line could be read
 */
gboolean
llmsvc_line_parse (const char  *bytes,
                   gsize        length,
                   LlmsvcLine  *line,
                   GError     **error)
{
  g_autoptr(GVariant) object = NULL;
  g_autoptr(GVariant) text = NULL;
  g_autoptr(GVariant) done = NULL;
  g_autoptr(GVariant) failure = NULL;
  g_autoptr(GError) local = NULL;

  g_return_val_if_fail (bytes != NULL || length == 0, FALSE);
  g_return_val_if_fail (line != NULL, FALSE);

  *line = (LlmsvcLine){ .kind = LLMSVC_LINE_OTHER };
  if (length > LLMSVC_LINE_MAX_BYTES)
    return fail (error, _("it is too long"));
  if (!llmsvc_json_read_object (bytes, length, &object, &local))
    return fail (error, local->message);

  text = g_variant_lookup_value (object, "t", NULL);
  done = g_variant_lookup_value (object, "done", NULL);
  failure = g_variant_lookup_value (object, "error", NULL);
  if ((text != NULL) + (done != NULL) + (failure != NULL) > 1)
    return fail (error, _("it is of two kinds"));
  if (text != NULL)
    {
      if (!g_variant_is_of_type (text, G_VARIANT_TYPE_STRING))
        return fail (error, _("“t” is not a string"));
      line->kind = LLMSVC_LINE_TEXT;
      line->text = g_variant_dup_string (text, NULL);
    }
  if (done != NULL)
    {
      if (!g_variant_is_of_type (done, G_VARIANT_TYPE_VARDICT))
        return fail (error, _("“done” is not an object"));
      line->kind = LLMSVC_LINE_DONE;
      line->results = g_steal_pointer (&done);
    }
  if (failure != NULL)
    {
      if (!g_variant_is_of_type (failure, G_VARIANT_TYPE_VARDICT) ||
          !g_variant_lookup (failure, "name", "s", &line->name) ||
          !g_variant_lookup (failure, "message", "s", &line->text))
        {
          llmsvc_line_clear (line);
          return fail (error, _("“error” has no name and message"));
        }
      line->kind = LLMSVC_LINE_ERROR;
    }

  return TRUE;
}

LlmsvcLineReader *
llmsvc_line_reader_new (void)
{
  LlmsvcLineReader *self = g_new0 (LlmsvcLineReader, 1);

  self->bytes = g_byte_array_new ();
  return self;
}

void
llmsvc_line_reader_free (LlmsvcLineReader *self)
{
  if (self == NULL)
    return;

  g_byte_array_unref (self->bytes);
  g_free (self);
}

gboolean
llmsvc_line_reader_push (LlmsvcLineReader  *self,
                         const char        *bytes,
                         gsize              length,
                         GError           **error)
{
  gsize held;

  g_return_val_if_fail (self != NULL, FALSE);
  g_return_val_if_fail (bytes != NULL || length == 0, FALSE);

  if (self->start > 0)
    {
      g_byte_array_remove_range (self->bytes, 0, (guint) self->start);
      self->scanned -= self->start;
      self->start = 0;
    }

  /* The caller takes the lines out between two pushes, so more than one line at
   * its longest can only be waiting when there is no newline in it. */
  held = self->bytes->len;
  if (length > LLMSVC_LINE_MAX_BYTES + 1 || held + length > 2 * (LLMSVC_LINE_MAX_BYTES + 1))
    return fail (error, _("it is too long"));

  g_byte_array_append (self->bytes, (const guint8 *) bytes, (guint) length);
  return TRUE;
}

gboolean
llmsvc_line_reader_next (LlmsvcLineReader  *self,
                         LlmsvcLine        *line,
                         GError           **error)
{
  const guint8 *newline;
  gsize first;

  g_return_val_if_fail (self != NULL, FALSE);
  g_return_val_if_fail (line != NULL, FALSE);

  *line = (LlmsvcLine){ .kind = LLMSVC_LINE_OTHER };
  newline = self->bytes->len > self->scanned
                ? memchr (self->bytes->data + self->scanned, '\n',
                          self->bytes->len - self->scanned)
                : NULL;
  if (newline == NULL)
    {
      self->scanned = self->bytes->len;
      if (self->scanned - self->start > LLMSVC_LINE_MAX_BYTES)
        fail (error, _("it is too long"));
      return FALSE;
    }

  first = self->start;
  self->start = self->scanned = (gsize) (newline - self->bytes->data) + 1;
  return llmsvc_line_parse ((const char *) self->bytes->data + first, self->start - 1 - first,
                            line, error);
}
