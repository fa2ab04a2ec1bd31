/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "common/llmsvc-json.h"

#include <glib/gi18n-lib.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

/* That a whole number has digits, so that it fits into 64 bits with a sign. */
static const LlmsvcJsonLimits limits = { .depth = 16, .values = 100000, .whole_digits = 18 };

/* --- writing --- */

void
llmsvc_json_append_escaped (GString    *out,
                            const char *text,
                            gsize       length)
{
  for (gsize i = 0; i < length; i++)
    {
      guchar c = (guchar) text[i];

      if (c == '\n')
        g_string_append (out, "\\n");
      else if (c == '\0')
        g_string_append (out, "\xef\xbf\xbd");
      else if (c < 0x20 || c == 0x7f)
        g_string_append_printf (out, "\\u%04x", c);
      else
        {
          if (c == '"' || c == '\\')
            g_string_append_c (out, '\\');
          g_string_append_c (out, (char) c);
        }
    }
}

static void
append_string (GString    *out,
               const char *text)
{
  g_string_append_c (out, '"');
  llmsvc_json_append_escaped (out, text, strlen (text));
  g_string_append_c (out, '"');
}

/* The shortest form that reads back as the same number, and always as a real. */
static void
append_double (GString *out,
               double   value)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  if (!isfinite (value))
    {
      g_string_append (out, "null");
      return;
    }

  g_ascii_formatd (buffer, sizeof buffer, "%.15g", value);
  if (g_ascii_strtod (buffer, NULL) != value)
    g_ascii_formatd (buffer, sizeof buffer, "%.17g", value);
  g_string_append (out, buffer);
  if (strpbrk (buffer, ".e") == NULL)
    g_string_append (out, ".0");
}

/* @value: as or a{sv} */
static void
append_container (GString  *out,
                  GVariant *value)
{
  gboolean is_list = g_variant_is_of_type (value, G_VARIANT_TYPE_STRING_ARRAY);

  g_string_append_c (out, is_list ? '[' : '{');
  for (gsize i = 0; i < g_variant_n_children (value); i++)
    {
      g_autoptr(GVariant) child = g_variant_get_child_value (value, i);
      g_autoptr(GVariant) item = NULL;
      const char *text;

      g_variant_get (child, is_list ? "&s" : "{&sv}", &text, &item);
      if (i > 0)
        g_string_append_c (out, ',');
      append_string (out, text);
      if (!is_list)
        {
          g_string_append_c (out, ':');
          llmsvc_json_append_value (out, item);
        }
    }
  g_string_append_c (out, is_list ? ']' : '}');
}

void
llmsvc_json_append_value (GString  *out,
                          GVariant *value)
{
  switch (g_variant_classify (value))
    {
    case G_VARIANT_CLASS_BOOLEAN:
      g_string_append (out, g_variant_get_boolean (value) ? "true" : "false");
      break;
    case G_VARIANT_CLASS_UINT32:
      g_string_append_printf (out, "%u", g_variant_get_uint32 (value));
      break;
    case G_VARIANT_CLASS_UINT64:
      g_string_append_printf (out, "%" G_GUINT64_FORMAT, g_variant_get_uint64 (value));
      break;
    case G_VARIANT_CLASS_DOUBLE:
      append_double (out, g_variant_get_double (value));
      break;
    case G_VARIANT_CLASS_STRING:
      append_string (out, g_variant_get_string (value, NULL));
      break;
    default:
      if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING_ARRAY) ||
          g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT))
        {
          append_container (out, value);
          break;
        }
      g_critical ("A value of type %s has no form in JSON here", g_variant_get_type_string (value));
      g_string_append (out, "null");
      break;
    }
}

/* --- checking: json-glib 1.6 recurses once per bracket, ends strings at \u0000, takes more than
 * JSON, cuts whole numbers to 63 bits, and leaks what it has read of a damaged text. So it gets
 * to see none. --- */

/* The rest of the text. No byte at or after end is read. */
typedef struct
{
  const char *next;
  const char *end;
} Cursor;

static gboolean
skip_hex4 (Cursor   *cursor,
           gunichar *value)
{
  *value = 0;
  for (guint i = 0; i < 4; i++)
    {
      int digit = cursor->next < cursor->end ? g_ascii_xdigit_value (*cursor->next++) : -1;

      if (digit < 0)
        return FALSE;
      *value = *value * 16 + (gunichar) digit;
    }

  return TRUE;
}

/* What follows a backslash; of \u one character, or a pair of surrogates. */
static gboolean
skip_escape (Cursor *cursor)
{
  char kind = cursor->next < cursor->end ? *cursor->next++ : '\0';
  gunichar c, low;

  if (kind != 'u')
    return kind != '\0' && strchr ("\"\\/bfnrt", kind) != NULL;
  if (!skip_hex4 (cursor, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000))
    return FALSE;
  if (c < 0xd800 || c >= 0xdc00)
    return TRUE;
  if (cursor->end - cursor->next < 2 || memcmp (cursor->next, "\\u", 2) != 0)
    return FALSE;

  cursor->next += 2;
  return skip_hex4 (cursor, &low) && low >= 0xdc00 && low < 0xe000;
}

/* (nullable): what is wrong with the string behind its opening quote */
static const char *
skip_string (Cursor *cursor)
{
  while (cursor->next < cursor->end && (guchar) *cursor->next >= 0x20)
    {
      char c = *cursor->next++;

      if (c == '"')
        return NULL;
      if (c == '\\' && !skip_escape (cursor))
        return _("a string has a wrong escape");
    }

  return _("a string does not end");
}

/* (nullable): what is wrong with the number or the word whose first character was read */
static const char *
skip_word (Cursor *cursor,
           guint   max_digits)
{
  static gsize regex = 0;
  const char *word = cursor->next - 1;
  const char *digits = word + (*word == '-' ? 1 : 0);
  gsize n_digits = 0;

  if (g_once_init_enter (&regex))
    g_once_init_leave (&regex, (gsize) g_regex_new (
      "^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)$",
      G_REGEX_OPTIMIZE | G_REGEX_DOLLAR_ENDONLY | G_REGEX_RAW, 0, NULL));
  while (cursor->next < cursor->end &&
         (g_ascii_isalnum (*cursor->next) || *cursor->next == '+' || *cursor->next == '-' ||
          *cursor->next == '.'))
    cursor->next++;
  if (!g_regex_match_full ((GRegex *) regex, word, cursor->next - word, 0, 0, NULL, NULL))
    return _("a value is neither number, string, list nor object");

  while (digits + n_digits < cursor->next && g_ascii_isdigit (digits[n_digits]))
    n_digits++;
  return n_digits > max_digits ? _("a number is too large") : NULL;
}

static void
skip_space (Cursor *cursor)
{
  while (cursor->next < cursor->end && *cursor->next != '\0' &&
         strchr (" \t\r\n", *cursor->next) != NULL)
    cursor->next++;
}

const char *
llmsvc_json_find_fault (const char             *text,
                        gsize                   length,
                        const LlmsvcJsonLimits *allowed,
                        const char            **at)
{
  enum { VALUE, FIRST, KEY, COLON, COMMA, END } expected = VALUE;
  gboolean is_object[LLMSVC_JSON_MAX_DEPTH + 1] = { FALSE };
  Cursor cursor = { text, text + length };
  guint depth = 0;
  guint n_values = 0;
  const char *fault = NULL;

  for (skip_space (&cursor); cursor.next < cursor.end && fault == NULL; skip_space (&cursor))
    {
      char c = *cursor.next++;

      if (expected == END)
        {
          fault = _("something follows the object");
        }
      else if ((expected == FIRST || expected == COMMA) && c == (is_object[depth] ? '}' : ']'))
        {
          depth--;
          expected = depth > 0 ? COMMA : END;
        }
      else if (expected == COMMA)
        {
          expected = is_object[depth] ? KEY : VALUE;
          if (c != ',')
            fault = is_object[depth] ? _("an object does not end") : _("a list does not end");
        }
      else if (expected == KEY || (expected == FIRST && is_object[depth]))
        {
          expected = COLON;
          fault = c == '"' ? skip_string (&cursor) : _("a string is missing");
        }
      else if (expected == COLON)
        {
          expected = VALUE;
          if (c != ':')
            fault = _("a key has no value");
        }
      else if (++n_values > allowed->values)
        {
          fault = _("a list has too many entries");
        }
      else if (c == '{' || c == '[')
        {
          if (depth == MIN (allowed->depth, LLMSVC_JSON_MAX_DEPTH))
            {
              fault = _("it is nested too deeply");
              break;
            }
          is_object[++depth] = c == '{';
          expected = FIRST;
        }
      else
        {
          expected = depth > 0 ? COMMA : END;
          fault = c == '"' ? skip_string (&cursor) : skip_word (&cursor, allowed->whole_digits);
        }
    }

  *at = cursor.next;
  return fault == NULL && expected != END ? _("it ends too early") : fault;
}

/* --- reading --- */

typedef struct
{
  GHashTable *seen;  /* (element-type utf8) (owned): object and key */
  char *twice;       /* (nullable) (owned): a key that came again */
} Members;

static void
on_member (JsonParser *parser,
           JsonObject *object,
           const char *name,
           gpointer    data)
{
  Members *members = data;

  if (!g_hash_table_add (members->seen, g_strdup_printf ("%p %s", (void *) object, name)) &&
      members->twice == NULL)
    members->twice = g_strdup (name);
}

JsonNode *
llmsvc_json_parse (const char  *text,
                   gsize        length,
                   GError     **error)
{
  g_autoptr(JsonParser) parser = NULL;
  g_autoptr(GHashTable) seen = NULL;
  Members members = { NULL, NULL };
  g_autofree char *twice = NULL;
  const char *fault;
  const char *at;

  if (!g_utf8_validate_len (text, length, NULL))
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, _("it is not valid UTF-8"));
      return NULL;
    }
  fault = llmsvc_json_find_fault (text, length, &limits, &at);
  if (fault != NULL)
    {
      guint line = 1;
      const char *start = text;

      for (const char *p = text; p < at; p++)
        if (*p == '\n')
          {
            line++;
            start = p + 1;
          }
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED, "%u:%ld: %s", line,
                   g_utf8_strlen (start, at - start), fault);
      return NULL;
    }

  parser = json_parser_new_immutable ();
  seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  members.seen = seen;
  g_signal_connect (parser, "object-member", G_CALLBACK (on_member), &members);
  if (!json_parser_load_from_data (parser, text, (gssize) length, error))
    return NULL;
  twice = members.twice;
  if (twice != NULL)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                   _("the key “%s” is there twice in one object"), twice);
      return NULL;
    }
  return json_parser_steal_root (parser);
}

static GVariant *
list_to_variant (JsonArray *list)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_STRING_ARRAY);

  for (guint i = 0; i < json_array_get_length (list); i++)
    {
      JsonNode *item = json_array_get_element (list, i);

      if (json_node_get_value_type (item) != G_TYPE_STRING)
        return NULL;
      g_variant_builder_add (&builder, "s", json_node_get_string (item));
    }

  return g_variant_builder_end (&builder);
}

static GVariant *
object_to_variant (JsonObject *object)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_VARDICT);
  JsonObjectIter iter;
  const char *key;
  JsonNode *item;

  json_object_iter_init (&iter, object);
  while (json_object_iter_next (&iter, &key, &item))
    {
      GVariant *value = llmsvc_json_to_variant (item);

      if (value != NULL)
        g_variant_builder_add (&builder, "{sv}", key, value);
    }

  return g_variant_builder_end (&builder);
}

GVariant *
llmsvc_json_to_variant (JsonNode *node)
{
  GType type = json_node_get_value_type (node);

  if (JSON_NODE_HOLDS_OBJECT (node))
    return object_to_variant (json_node_get_object (node));
  if (JSON_NODE_HOLDS_ARRAY (node))
    return list_to_variant (json_node_get_array (node));
  if (type == G_TYPE_STRING)
    return g_variant_new_string (json_node_get_string (node));
  if (type == G_TYPE_BOOLEAN)
    return g_variant_new_boolean (json_node_get_boolean (node));
  if (type == G_TYPE_INT64)
    return json_node_get_int (node) >= 0 ? g_variant_new_uint64 ((guint64) json_node_get_int (node))
                                         : g_variant_new_int64 (json_node_get_int (node));
  if (type == G_TYPE_DOUBLE && isfinite (json_node_get_double (node)))
    return g_variant_new_double (json_node_get_double (node));

  return NULL;
}
