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

/* The key that tells the kind, in the order of LlmsvcLineKind. */
#define N_KINDS LLMSVC_LINE_OTHER
static const char *const kinds[N_KINDS] = { "t", "done", "error", "reasoning", "logprobs",
                                            "call", "progress" };

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

static void
write_piece (GString       *out,
             LlmsvcLineKind kind,
             const char    *text,
             gsize          length)
{
  g_return_if_fail (out != NULL);
  g_return_if_fail (text != NULL || length == 0);

  g_string_append_printf (out, "{\"%s\":\"", kinds[kind]);
  llmsvc_json_append_escaped (out, text, length);
  g_string_append (out, "\"}\n");
}

void
llmsvc_line_write_text (GString    *out,
                        const char *text,
                        gsize       length)
{
  write_piece (out, LLMSVC_LINE_TEXT, text, length);
}

void
llmsvc_line_write_reasoning (GString    *out,
                             const char *text,
                             gsize       length)
{
  write_piece (out, LLMSVC_LINE_REASONING, text, length);
}

void
llmsvc_line_write_logprobs (GString    *out,
                            const char *items)
{
  g_return_if_fail (out != NULL);
  g_return_if_fail (items != NULL);

  g_string_append_printf (out, "{\"logprobs\":[%s]}\n", items);
}

void
llmsvc_line_write_call (GString    *out,
                        const char *call)
{
  g_return_if_fail (out != NULL);
  g_return_if_fail (call != NULL);

  g_string_append_printf (out, "{\"call\":%s}\n", call);
}

static void
write_values (GString       *out,
              LlmsvcLineKind kind,
              GVariant      *values)
{
  g_return_if_fail (out != NULL);
  g_return_if_fail (g_variant_is_of_type (values, G_VARIANT_TYPE_VARDICT));

  g_string_append_printf (out, "{\"%s\":", kinds[kind]);
  llmsvc_json_append_value (out, values);
  g_string_append (out, "}\n");
}

void
llmsvc_line_write_progress (GString  *out,
                            GVariant *progress)
{
  write_values (out, LLMSVC_LINE_PROGRESS, progress);
}

void
llmsvc_line_write_done (GString  *out,
                        GVariant *results)
{
  write_values (out, LLMSVC_LINE_DONE, results);
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

/* (nullable) (transfer full): of another value there is no string. @node: (nullable) */
static char *
dup_string (JsonNode *node)
{
  return node != NULL && json_node_get_value_type (node) == G_TYPE_STRING
           ? json_node_dup_string (node)
           : NULL;
}

static gboolean
read_error (JsonNode   *node,
            LlmsvcLine *line)
{
  JsonObject *object = JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;

  if (object == NULL)
    return FALSE;

  line->name = dup_string (json_object_get_member (object, "name"));
  line->text = dup_string (json_object_get_member (object, "message"));
  return line->name != NULL && line->text != NULL;
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
  g_autoptr(JsonNode) root = NULL;
  g_autoptr(GError) local = NULL;
  JsonObject *object;
  JsonNode *of_kind[N_KINDS];
  guint n_kinds = 0;

  g_return_val_if_fail (bytes != NULL || length == 0, FALSE);
  g_return_val_if_fail (line != NULL, FALSE);

  *line = (LlmsvcLine){ .kind = LLMSVC_LINE_OTHER };
  if (length > LLMSVC_LINE_MAX_BYTES)
    return fail (error, _("it is too long"));
  root = llmsvc_json_parse (bytes, length, &local);
  if (root == NULL)
    return fail (error, local->message);
  if (!JSON_NODE_HOLDS_OBJECT (root))
    return fail (error, _("it is not an object"));

  object = json_node_get_object (root);
  for (guint i = 0; i < N_KINDS; i++)
    {
      of_kind[i] = json_object_get_member (object, kinds[i]);
      if (of_kind[i] != NULL && JSON_NODE_HOLDS_NULL (of_kind[i]))
        of_kind[i] = NULL;
      n_kinds += of_kind[i] != NULL;
    }
  if (n_kinds > 1)
    return fail (error, _("it is of two kinds"));
  if (of_kind[LLMSVC_LINE_TEXT] != NULL)
    {
      line->text = dup_string (of_kind[LLMSVC_LINE_TEXT]);
      if (line->text == NULL)
        return fail (error, _("“t” is not a string"));
      line->kind = LLMSVC_LINE_TEXT;
    }
  if (of_kind[LLMSVC_LINE_REASONING] != NULL)
    {
      line->text = dup_string (of_kind[LLMSVC_LINE_REASONING]);
      if (line->text == NULL)
        return fail (error, _("“reasoning” is not a string"));
      line->kind = LLMSVC_LINE_REASONING;
    }
  if (of_kind[LLMSVC_LINE_DONE] != NULL)
    {
      if (!JSON_NODE_HOLDS_OBJECT (of_kind[LLMSVC_LINE_DONE]))
        return fail (error, _("“done” is not an object"));
      line->kind = LLMSVC_LINE_DONE;
      line->results = g_variant_ref_sink (llmsvc_json_to_variant (of_kind[LLMSVC_LINE_DONE]));
    }
  if (of_kind[LLMSVC_LINE_PROGRESS] != NULL)
    {
      if (!JSON_NODE_HOLDS_OBJECT (of_kind[LLMSVC_LINE_PROGRESS]))
        return fail (error, _("“progress” is not an object"));
      line->kind = LLMSVC_LINE_PROGRESS;
      line->results =
        g_variant_ref_sink (llmsvc_json_to_variant (of_kind[LLMSVC_LINE_PROGRESS]));
    }
  if (of_kind[LLMSVC_LINE_ERROR] != NULL)
    {
      if (!read_error (of_kind[LLMSVC_LINE_ERROR], line))
        {
          llmsvc_line_clear (line);
          return fail (error, _("“error” has no name and message"));
        }
      line->kind = LLMSVC_LINE_ERROR;
    }
  if (of_kind[LLMSVC_LINE_LOGPROBS] != NULL)
    {
      g_autofree char *array = NULL;
      g_autoptr(JsonNode) again = NULL;

      if (!JSON_NODE_HOLDS_ARRAY (of_kind[LLMSVC_LINE_LOGPROBS]))
        return fail (error, _("“logprobs” is not an array"));
      /* a number that is too large is none when it is written */
      array = json_to_string (of_kind[LLMSVC_LINE_LOGPROBS], FALSE);
      again = llmsvc_json_parse (array, strlen (array), &local);
      if (again == NULL)
        return fail (error, local->message);
      line->text = g_strndup (array + 1, strlen (array) - 2);
      line->kind = LLMSVC_LINE_LOGPROBS;
    }
  if (of_kind[LLMSVC_LINE_CALL] != NULL)
    {
      if (!JSON_NODE_HOLDS_OBJECT (of_kind[LLMSVC_LINE_CALL]))
        return fail (error, _("“call” is not an object"));
      line->kind = LLMSVC_LINE_CALL;
      line->text = json_to_string (of_kind[LLMSVC_LINE_CALL], FALSE);
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
