/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/tools/llm-call-read.h"

#include <string.h>

#include "common/llmsvc-json.h"
#include "constraints/schema/llm-schema.h"

struct _LlmCallReader
{
  const LlmCallFormat *format; /* (unowned) */
  const LlmGrammar *grammar;   /* (nullable) (unowned) */
  GString *answer;             /* so far */
  GPtrArray *calls;            /* (element-type utf8) */
  GString *id;                 /* of the call that is read */
  GString *next_id;            /* what the text behind it has */
  gsize at;                    /* behind what is read: the name of the next call, or the end of the
                                * arguments of the last */
  const char *middle;          /* (unowned): behind that name */
  char *tool;                  /* (nullable): that is called */
  char *call;                  /* (nullable): what comes of its name and arguments */
  gboolean has_begun;          /* the first name comes at @at */
  gboolean is_whole;           /* the end was behind the last call */
  gboolean is_started;         /* the marker is there */
};

LlmCallReader *
llm_call_reader_new (const LlmCallFormat *format,
                     const LlmGrammar    *grammar)
{
  LlmCallReader *self = g_new0 (LlmCallReader, 1);

  self->format = format;
  self->grammar = grammar;
  self->answer = g_string_new (NULL);
  self->calls = g_ptr_array_new_with_free_func (g_free);
  self->id = g_string_new (NULL);
  self->next_id = g_string_new (NULL);
  self->middle = format->middle;
  return self;
}

void
llm_call_reader_free (LlmCallReader *self)
{
  g_string_free (self->answer, TRUE);
  g_ptr_array_unref (self->calls);
  g_free (self->tool);
  g_string_free (self->id, TRUE);
  g_string_free (self->next_id, TRUE);
  g_free (self->call);
  g_free (self);
}

static void
make_id (GString *id)
{
  static const char characters[] = "abcdefghijklmnopqrstuvwxyz0123456789";

  while (id->len < LLM_CALL_ID_LENGTH)
    g_string_append_c (id, characters[g_random_int_range (0, sizeof characters - 1)]);
}

static guint8
find_kinds (const char *key,
            gpointer    data)
{
  LlmCallReader *self = data;
  g_autofree char *name = g_strconcat (self->tool, " ", key, NULL);
  gpointer kinds;

  if (self->grammar != NULL && self->grammar->kinds != NULL
      && g_hash_table_lookup_extended (self->grammar->kinds, name, NULL, &kinds))
    return (guint8) GPOINTER_TO_UINT (kinds);
  return LLM_ARGUMENT_STRINGS | LLM_ARGUMENT_OTHERS;
}

/* Name and arguments at @at: the place behind them, or NULL while they are not whole. */
static const char *
read_call (LlmCallReader *self,
           const char    *at,
           const char    *end)
{
  const char *name = at;
  g_autoptr(GString) arguments = g_string_new (NULL);
  GString *call;
  const char *behind;
  int length;

  while (at < end && (g_ascii_isalnum (*at) || strchr ("_-.", *at) != NULL) && *at != '\0')
    at++;
  length = (int) (at - name);
  at = length > 0 ? llm_call_match (self->middle, at, end, self->id) : NULL;
  if (at == NULL)
    return NULL;
  g_free (self->tool);
  self->tool = g_strndup (name, (gsize) length);
  if (self->format->arguments != NULL)
    {
      behind = llm_arguments_read (self->format->arguments, at, end, find_kinds, self, arguments);
    }
  else
    {
      behind = at < end && *at == '{' ? llm_call_skip_json (at, end) : NULL;
      if (behind != NULL)
        g_string_append_len (arguments, at, behind - at);
    }
  if (behind == NULL || !g_utf8_validate (arguments->str, (gssize) arguments->len, NULL))
    return NULL;
  call = g_string_new (NULL);
  g_string_append_printf (call, "\"type\":\"function\",\"function\":{\"name\":\"%.*s\","
                          "\"arguments\":\"", length, name);
  llmsvc_json_append_escaped (call, arguments->str, arguments->len);
  g_string_append (call, "\"}}");
  self->call = g_string_free (call, FALSE);
  return behind;
}

/* The call that was read is complete, with its id. */
static void
settle (LlmCallReader *self)
{
  gboolean has_own = self->id->len > 0;

  if (!has_own)
    g_string_assign (self->id, self->next_id->str);
  make_id (self->id);
  g_ptr_array_add (self->calls,
                   g_strdup_printf ("{\"id\":\"%s\",%s", self->id->str, self->call));
  g_clear_pointer (&self->call, g_free);
  /* what is behind a call that has an id is that of the next one */
  g_string_assign (self->id, has_own ? self->next_id->str : "");
}

/* Where the calls begin. */
static const char *
find_start (LlmCallReader *self,
            const char    *end)
{
  const LlmCallFormat *format = self->format;
  const char *answer = self->answer->str;
  const char *start = answer + self->at;

  if (format->is_at_start)
    {
      while (start < end && g_ascii_isspace (*start))
        start++;
      return start < end && *start == *format->marker ? start : NULL;
    }
  return start < end ? memmem (start, (gsize) (end - start), format->marker, strlen (format->marker))
                     : NULL;
}

/* The next step from @at on; FALSE: more is needed. */
static gboolean
go_on (LlmCallReader *self)
{
  const LlmCallFormat *format = self->format;
  const char *end = self->answer->str + self->answer->len;
  const char *at = self->answer->str + self->at;
  gsize marker = strlen (format->marker);

  if (!self->has_begun)
    {
      const char *start = find_start (self, end);

      if (start == NULL)
        {
          if (!format->is_at_start && self->answer->len > marker)
            self->at = MAX (self->at, self->answer->len - marker);
          return FALSE;
        }
      self->is_started = TRUE;
      self->at = (gsize) (start - self->answer->str);
      at = llm_call_match (format->begin, start, end, self->id);
      self->has_begun = at != NULL;
    }
  else if (self->call == NULL && !self->is_whole)
    {
      at = read_call (self, at, end);
    }
  else
    {
      const char *next = format->next != NULL
                           ? llm_call_match (format->next, at, end, self->next_id) : NULL;

      if (next != NULL)
        {
          if (self->call != NULL)
            settle (self);
          self->middle = format->next_middle;
          self->is_whole = FALSE;
        }
      else if (self->call != NULL
               && llm_call_match (format->end, at, end, self->next_id) != NULL)
        {
          settle (self);
          self->is_whole = TRUE;
        }
      at = next;
    }
  if (at == NULL)
    return FALSE;
  self->at = (gsize) (at - self->answer->str);
  return TRUE;
}

guint
llm_call_reader_push (LlmCallReader *self,
                      const char    *bytes,
                      gsize          length)
{
  g_string_append_len (self->answer, bytes, (gssize) length);
  while (go_on (self))
    ;
  return self->calls->len;
}

const char *
llm_call_reader_get (LlmCallReader *self,
                     guint          i)
{
  return g_ptr_array_index (self->calls, i);
}

char *
llm_call_reader_end (LlmCallReader *self,
                     gboolean      *is_cut)
{
  GString *calls;

  *is_cut = self->is_started && !self->is_whole;
  if (self->call != NULL)
    settle (self);
  if (self->calls->len == 0)
    return NULL;
  calls = g_string_new ("[");
  for (guint i = 0; i < self->calls->len; i++)
    g_string_append_printf (calls, "%s%s", i > 0 ? "," : "",
                            (const char *) g_ptr_array_index (self->calls, i));
  g_string_append_c (calls, ']');
  return g_string_free (calls, FALSE);
}

char *
llm_call_format_read (const LlmCallFormat *format,
                      const LlmGrammar    *grammar,
                      const char          *answer,
                      gsize                length,
                      gboolean            *is_cut)
{
  g_autoptr(LlmCallReader) reader = llm_call_reader_new (format, grammar);

  llm_call_reader_push (reader, answer, length);
  return llm_call_reader_end (reader, is_cut);
}
