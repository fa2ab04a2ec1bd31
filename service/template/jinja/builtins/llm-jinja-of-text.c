/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters and methods of text; most are both. */

#include "template/jinja/builtins/llm-jinja-builtins.h"

#include <string.h>

#include "tokenizer/llm-utf8.h"

/* Of functions that share what they do at the start or the end of a text. */
#define AT_START 1
#define AT_END 2

/* --- case --- */

static void
add_character (LlmJinja             *self,
               LlmJinjaText         *text,
               const LlmJinjaString *string,
               gsize                 at,
               gsize                 length,
               gboolean              is_upper)
{
  const char *character = string->bytes + at;
  char copy[32] = { is_upper ? g_ascii_toupper (*character) : g_ascii_tolower (*character) };

  if (length > 1)
    {
      char *changed = is_upper ? g_utf8_strup (character, (gssize) length)
                               : g_utf8_strdown (character, (gssize) length);

      /* one may become several, as ß does; alone, Σ would be taken for the end of a word */
      length = MIN (strlen (changed), sizeof copy);
      memcpy (copy, g_str_equal (changed, "ς") && *character == "Σ"[0] ? "σ" : changed, length);
      /* what follows may fail, and then frees nothing */
      g_free (changed);
    }
  llm_jinja_text_add_bytes (self, text, copy, length, llm_jinja_string_get_origin (string, at));
}

/* Behind these, the filter “title” begins a word. */
static gboolean
ends_word (gunichar c)
{
  return llm_jinja_is_space (c) || (c < 0x80 && strchr ("-({[<", (char) c) != NULL && c != 0);
}

LlmJinjaValue
llm_jinja_change_case (LlmJinja *self, const LlmJinjaString *string, LlmJinjaCase way)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  gboolean is_start = TRUE;
  gsize n;

  for (gsize at = 0; at < string->length; at += n)
    {
      gunichar c;
      gboolean is_upper = way == LLM_JINJA_CASE_UPPER || (way != LLM_JINJA_CASE_LOWER && is_start);

      n = llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);
      add_character (self, text, string, at, n, is_upper);
      if (way == LLM_JINJA_CASE_WORDS)
        is_start = g_unichar_tolower (c) == c && g_unichar_toupper (c) == c;
      else
        is_start = way == LLM_JINJA_CASE_TITLE && ends_word (c);
    }
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
run_case (LlmJinja *self, LlmJinjaCall *call)
{
  return llm_jinja_change_case (self, &call->subject.string, call->builtin->way);
}

/* --- the ends of a text --- */

static LlmJinjaValue
run_strip (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaValue *set = &call->arg[0];

  return llm_jinja_string_trim (&call->subject.string,
                                set->type == LLM_JINJA_NONE ? NULL : &set->string,
                                call->builtin->way & AT_START, call->builtin->way & AT_END);
}

static gboolean
has_end (LlmJinja *self, const LlmJinjaString *string, const LlmJinjaValue *part, guint way)
{
  const LlmJinjaString *text = llm_jinja_need_string (self, "startswith, endswith", part);
  gsize rest = string->length - text->length;

  return text->length <= string->length
         && (text->length == 0
             || memcmp (string->bytes + (way == AT_START ? 0 : rest), text->bytes, text->length) == 0);
}

/* What is asked for may be a tuple: one of its items. */
static LlmJinjaValue
run_has_end (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaValue *asked = &call->arg[0];
  gboolean is_so = FALSE;

  if (asked->type != LLM_JINJA_LIST || asked->list->kind != LLM_JINJA_LIST_TUPLE)
    return llm_jinja_bool (has_end (self, &call->subject.string, asked, call->builtin->way));
  for (guint i = 0; !is_so && i < asked->list->n_items; i++)
    is_so = has_end (self, &call->subject.string, &asked->list->items[i], call->builtin->way);
  return llm_jinja_bool (is_so);
}

static LlmJinjaValue
run_remove_end (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaString *string = &call->subject.string;
  gsize n = call->arg[0].string.length;

  if (!has_end (self, string, &call->arg[0], call->builtin->way))
    return call->subject;
  return call->builtin->way == AT_START ? llm_jinja_string_cut (string, n, string->length)
                                        : llm_jinja_string_cut (string, 0, string->length - n);
}

/* --- parts of a text --- */

/* What a method of a safe text is given is escaped, as that text is. */
static LlmJinjaValue
take_part (LlmJinja *self, const LlmJinjaCall *call, const LlmJinjaValue *part)
{
  return call->subject.is_html ? llm_jinja_string_escape (self, part) : *part;
}

static LlmJinjaValue
run_replace (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue old = take_part (self, call, &call->arg[0]);
  LlmJinjaValue with = take_part (self, call, &call->arg[1]);

  return llm_jinja_string_replace (self, &call->subject.string, &old.string, &with.string,
                                   call->arg[2].integer);
}

/* The filter takes other values too, and knows nothing of safe texts. */
static LlmJinjaValue
run_replace_any (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue old = llm_jinja_to_string (self, &call->arg[0]);
  LlmJinjaValue with = llm_jinja_to_string (self, &call->arg[1]);

  return llm_jinja_string_replace (self, &call->subject.string, &old.string, &with.string,
                                   call->arg[2].integer);
}

static LlmJinjaValue
run_find (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaString *string = &call->subject.string;
  const LlmJinjaString *part = &call->arg[0].string;
  gsize found = call->builtin->way == AT_START
                  ? llm_jinja_string_find (self, string, part, 0)
                  : llm_jinja_string_find_last (self, string, part, string->length);
  LlmJinjaValue before = llm_jinja_string_cut (string, 0, MIN (found, string->length));

  return llm_jinja_int (found == G_MAXSIZE ? -1 : (gint64) llm_jinja_string_count (&before.string), 0);
}

static LlmJinjaValue
run_count (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaString *string = &call->subject.string;
  const LlmJinjaString *part = &call->arg[0].string;
  gint64 n = 0;

  if (part->length == 0)
    return llm_jinja_int ((gint64) llm_jinja_string_count (string) + 1, 0);
  for (gsize at = 0; (at = llm_jinja_string_find (self, string, part, at)) != G_MAXSIZE;
       at += part->length)
    n++;
  return llm_jinja_int (n, 0);
}

static LlmJinjaValue
run_is_of (LlmJinja *self, LlmJinjaCall *call)
{
  return llm_jinja_bool (llm_jinja_string_is_of (&call->subject.string, call->builtin->way));
}

static LlmJinjaValue
run_join (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaList *over = llm_jinja_iterate (self, &call->arg[0]);
  LlmJinjaText *text = llm_jinja_text_new (self);

  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item;

      llm_jinja_need_string (self, "join", &over->items[i]);
      item = take_part (self, call, &over->items[i]);
      if (i > 0)
        llm_jinja_text_add (self, text, &call->subject.string);
      llm_jinja_text_add (self, text, &item.string);
    }
  return llm_jinja_text_end (text);
}

/* --- pieces of a text --- */

/* Goes on from @at to the next space, or to what is none. */
static gsize
skip (const LlmJinjaString *string, gsize at, gboolean skips_spaces)
{
  while (at < string->length)
    {
      gunichar c;
      gsize n = llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);

      if (llm_jinja_is_space (c) != skips_spaces)
        break;
      at += n;
    }
  return at;
}

/* “split” without a separator: words, with any spaces between them. */
static LlmJinjaValue
split_words (LlmJinja *self, const LlmJinjaString *string, gint64 max)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);

  for (gsize at = skip (string, 0, TRUE); at < string->length; max--)
    {
      gsize end = max == 0 ? string->length : skip (string, at, FALSE);

      llm_jinja_list_add (self, result.list, llm_jinja_string_cut (string, at, end));
      at = skip (string, end, TRUE);
    }
  return result;
}

static LlmJinjaValue
split (LlmJinja *self, const LlmJinjaString *string, const LlmJinjaString *separator, gint64 max)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  gsize at = 0;

  for (gsize found; max != 0; max--)
    {
      found = llm_jinja_string_find (self, string, separator, at);
      if (found == G_MAXSIZE)
        break;
      llm_jinja_list_add (self, result.list, llm_jinja_string_cut (string, at, found));
      at = found + separator->length;
    }
  llm_jinja_list_add (self, result.list, llm_jinja_string_cut (string, at, string->length));
  return result;
}

static LlmJinjaValue
split_from_end (LlmJinja             *self,
                const LlmJinjaString *string,
                const LlmJinjaString *separator,
                gint64                max)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  gsize end = string->length;

  for (gsize found; max != 0; max--)
    {
      found = llm_jinja_string_find_last (self, string, separator, end);
      if (found == G_MAXSIZE)
        break;
      llm_jinja_list_add (self, result.list,
                          llm_jinja_string_cut (string, found + separator->length, end));
      end = found;
    }
  llm_jinja_list_add (self, result.list, llm_jinja_string_cut (string, 0, end));
  llm_jinja_list_reverse (result.list);
  return result;
}

static LlmJinjaValue
run_split (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaString *string = &call->subject.string;
  const LlmJinjaValue *separator = &call->arg[0];
  gboolean from_end = call->builtin->way == AT_END;
  gint64 max = call->arg[1].integer;

  if (separator->type == LLM_JINJA_NONE && from_end && max >= 0)
    llm_jinja_fail (self, "“rsplit” with “maxsplit” needs a separator here");
  if (separator->type == LLM_JINJA_NONE)
    return split_words (self, string, max);
  if (separator->string.length == 0)
    llm_jinja_fail (self, "“%s” needs a separator that is not empty", call->builtin->name);
  return from_end ? split_from_end (self, string, &separator->string, max)
                  : split (self, string, &separator->string, max);
}

static gboolean
is_line_end (gunichar c)
{
  return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028
         || c == 0x2029;
}

/* Lines without their ends. */
static LlmJinjaValue
run_splitlines (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue lines = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  const LlmJinjaString *string = &call->subject.string;
  gsize start = 0;
  gsize n;

  for (gsize at = 0; at < string->length; at += n)
    {
      gunichar c;

      n = llm_utf8_get (string->bytes + at, string->bytes + string->length, &c);
      if (!is_line_end (c))
        continue;
      llm_jinja_list_add (self, lines.list, llm_jinja_string_cut (string, start, at));
      if (c == '\r' && at + 1 < string->length && string->bytes[at + 1] == '\n')
        n = 2;
      start = at + n;
    }
  if (start < string->length)
    llm_jinja_list_add (self, lines.list, llm_jinja_string_cut (string, start, string->length));
  return lines;
}

/* Jinja's words: of letters, digits and “_”. */
static LlmJinjaValue
run_wordcount (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaString *string = &call->subject.string;
  gboolean is_word = FALSE;
  gint64 n = 0;

  for (gsize at = 0, next; at < string->length; at = next)
    {
      LlmJinjaString c;
      gboolean was_word = is_word;

      next = llm_jinja_next_character (string, at);
      c = llm_jinja_string_cut (string, at, next).string;
      is_word = *c.bytes == '_' || llm_jinja_string_is_of (&c, LLM_JINJA_CLASS_ALNUM);
      n += is_word && !was_word;
    }
  return llm_jinja_int (n, 0);
}

static LlmJinjaValue
run_truncate (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue end = llm_jinja_arg_given (&call->arg[2]) ? call->arg[2]
                                                          : llm_jinja_string_new (self, "...", 3, 0);
  gint64 n_end = (gint64) llm_jinja_string_count (llm_jinja_need_string (self, "truncate", &end));
  gint64 length = call->arg[0].integer, leeway = call->arg[3].integer;
  const LlmJinjaString *string = &call->subject.string;
  LlmJinjaValue kept, space = llm_jinja_string_new (self, " ", 1, 0);
  gsize at;

  if (length < n_end || leeway < 0)
    llm_jinja_fail (self, "“truncate” needs a length of at least %" G_GINT64_FORMAT, n_end);
  if ((gint64) llm_jinja_string_count (string) - leeway <= length)
    return call->subject;
  kept = llm_jinja_string_cut (string, 0, llm_jinja_string_offset (string, (gsize) (length - n_end)));
  at = llm_jinja_string_find_last (self, &kept.string, &space.string, kept.string.length);
  if (at != G_MAXSIZE && !llm_jinja_is_true (&call->arg[1]))
    kept.string.length = at;
  return llm_jinja_string_join (self, &kept.string, &end.string);
}

/* --- indent, pad, encode, format --- */

/* As Jinja does it, the first line only where that is asked for, and a newline at the end stays. */
static LlmJinjaValue
run_indent (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaValue newline = llm_jinja_string_new (self, "\n", 1, 0);
  LlmJinjaValue indention = call->arg[0];
  const LlmJinjaList *lines;

  if (!llm_jinja_arg_given (&indention))
    indention = llm_jinja_spaces (self, 4);
  else if (indention.type != LLM_JINJA_STRING)
    indention = llm_jinja_spaces (self, llm_jinja_need_int (self, "indent", &indention));
  call->subject = llm_jinja_string_join (self, &call->subject.string, &newline.string);
  lines = run_splitlines (self, call).list;
  for (guint i = 0; i < lines->n_items; i++)
    {
      const LlmJinjaString *line = &lines->items[i].string;

      if (i > 0)
        llm_jinja_text_add (self, text, &newline.string);
      if (i == 0 ? llm_jinja_is_true (&call->arg[1])
                 : line->length > 0 || llm_jinja_is_true (&call->arg[2]))
        llm_jinja_text_add (self, text, &indention.string);
      llm_jinja_text_add (self, text, line);
    }
  return llm_jinja_text_end (text);
}

#define WITH_ZEROS 1

/* str.center(), and str.zfill(), which leaves a sign where it is. */
static LlmJinjaValue
run_pad (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaString *string = &call->subject.string;
  gboolean has_zeros = call->builtin->way == WITH_ZEROS;
  gsize n_sign = has_zeros && string->length > 0 && (*string->bytes == '-' || *string->bytes == '+');
  gint64 n = (gint64) llm_jinja_string_count (string);
  gint64 width = MAX (n, call->arg[0].integer);
  LlmJinjaValue fill = llm_jinja_string_new (self, has_zeros ? "0" : " ", 1, 0);
  LlmJinjaValue left = llm_jinja_int (has_zeros ? width - n
                                                : (width - n) / 2 + ((width - n) & width & 1), 0);
  LlmJinjaValue right = llm_jinja_int (width - n - left.integer, 0);
  const LlmJinjaValue parts[] = {
    llm_jinja_string_cut (string, 0, n_sign),
    llm_jinja_calculate (self, LLM_JINJA_OP_MUL, &fill, &left),
    llm_jinja_string_cut (string, n_sign, string->length),
    llm_jinja_calculate (self, LLM_JINJA_OP_MUL, &fill, &right),
  };

  return llm_jinja_concat (self, parts, G_N_ELEMENTS (parts));
}

static LlmJinjaValue
run_urlencode (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaString string;

  if (call->subject.type == LLM_JINJA_DICT || call->subject.type == LLM_JINJA_LIST)
    llm_jinja_fail (self, "“urlencode” of a value of type %s is not supported",
                    llm_jinja_type_name (&call->subject));
  string = llm_jinja_to_string (self, &call->subject).string;
  for (gsize i = 0; i < string.length; i++)
    {
      char c = string.bytes[i], escaped[4];
      gboolean is_plain = g_ascii_isalnum (c) || (c != '\0' && strchr ("_.-~/", c) != NULL);

      g_snprintf (escaped, sizeof escaped, is_plain ? "%c" : "%%%02X", (guint8) c);
      llm_jinja_text_add_bytes (self, text, escaped, strlen (escaped),
                                llm_jinja_string_get_origin (&string, i));
    }
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
run_format_percent (LlmJinja *self, LlmJinjaCall *call)
{
  return llm_jinja_format_percent (self, &call->subject.string, call->args);
}

#define FILTER (LLM_JINJA_IS_FILTER | LLM_JINJA_AS_TEXT)
#define METHOD (LLM_JINJA_OF_STRING | LLM_JINJA_KEEPS_HTML)
#define BOTH (FILTER | METHOD)
#define NONE { { NULL, 0, 0 } }
#define TEXT(name) { { name, LLM_JINJA_TAKE_TEXT, 0 } }
#define CHARS { { "chars", LLM_JINJA_TAKE_TEXT_OR_NONE, 0 } }
#define SPLIT { { "sep", LLM_JINJA_TAKE_TEXT_OR_NONE, 0 }, { "maxsplit", LLM_JINJA_TAKE_INT, -1 } }
#define REPLACE(take) { { "old", take, 0 }, { "new", take, 0 }, { "count", LLM_JINJA_TAKE_INT, -1 } }

const LlmJinjaBuiltin llm_jinja_builtins_of_text[] = {
  { "capitalize", BOTH, run_case, LLM_JINJA_CASE_CAPITAL, NONE },
  { "center", FILTER | LLM_JINJA_KEEPS_HTML, run_pad, 0, { { "width", LLM_JINJA_TAKE_INT, 80 } } },
  { "count", LLM_JINJA_OF_STRING, run_count, 0, TEXT ("part") },
  { "endswith", LLM_JINJA_OF_STRING, run_has_end, AT_END, { { "prefix", LLM_JINJA_TAKE_VALUE, 0 } } },
  { "find", LLM_JINJA_OF_STRING, run_find, AT_START, TEXT ("part") },
  { "format", LLM_JINJA_OF_STRING | LLM_JINJA_TAKES_ALL, llm_jinja_format, 0, NONE },
  { "format", FILTER | LLM_JINJA_TAKES_ALL, run_format_percent, 0, NONE },
  { "indent", FILTER, run_indent, 0,
    { { .name = "width" }, { .name = "first" }, { .name = "blank" } } },
  { "isalnum", LLM_JINJA_OF_STRING, run_is_of, LLM_JINJA_CLASS_ALNUM, NONE },
  { "isalpha", LLM_JINJA_OF_STRING, run_is_of, LLM_JINJA_CLASS_ALPHA, NONE },
  { "isdigit", LLM_JINJA_OF_STRING, run_is_of, LLM_JINJA_CLASS_DIGIT, NONE },
  { "islower", LLM_JINJA_OF_STRING, run_is_of, LLM_JINJA_CLASS_LOWER, NONE },
  { "isspace", LLM_JINJA_OF_STRING, run_is_of, LLM_JINJA_CLASS_SPACE, NONE },
  { "isupper", LLM_JINJA_OF_STRING, run_is_of, LLM_JINJA_CLASS_UPPER, NONE },
  { "join", METHOD, run_join, 0, { { "items", LLM_JINJA_TAKE_VALUE, 0 } } },
  { "lower", BOTH, run_case, LLM_JINJA_CASE_LOWER, NONE },
  { "lstrip", METHOD, run_strip, AT_START, CHARS },
  { "removeprefix", METHOD, run_remove_end, AT_START, TEXT ("prefix") },
  { "removesuffix", METHOD, run_remove_end, AT_END, TEXT ("suffix") },
  { "replace", METHOD, run_replace, 0, REPLACE (LLM_JINJA_TAKE_TEXT) },
  { "replace", FILTER, run_replace_any, 0, REPLACE (LLM_JINJA_TAKE_VALUE) },
  { "rfind", LLM_JINJA_OF_STRING, run_find, AT_END, TEXT ("part") },
  { "rsplit", LLM_JINJA_OF_STRING, run_split, AT_END, SPLIT },
  { "rstrip", METHOD, run_strip, AT_END, CHARS },
  { "split", LLM_JINJA_OF_STRING, run_split, AT_START, SPLIT },
  { "splitlines", LLM_JINJA_OF_STRING, run_splitlines, 0, NONE },
  { "startswith", LLM_JINJA_OF_STRING, run_has_end, AT_START, { { "prefix", LLM_JINJA_TAKE_VALUE, 0 } } },
  { "strip", METHOD, run_strip, AT_START | AT_END, CHARS },
  { "title", FILTER | LLM_JINJA_KEEPS_HTML, run_case, LLM_JINJA_CASE_TITLE, NONE },
  { "title", METHOD, run_case, LLM_JINJA_CASE_WORDS, NONE },
  { "trim", FILTER | LLM_JINJA_KEEPS_HTML, run_strip, AT_START | AT_END, CHARS },
  { "truncate", FILTER, run_truncate, 0,
    { { "length", LLM_JINJA_TAKE_INT, 255 }, { .name = "killwords" }, { .name = "end" },
      { "leeway", LLM_JINJA_TAKE_INT, 5 } } },
  { "upper", BOTH, run_case, LLM_JINJA_CASE_UPPER, NONE },
  { "urlencode", LLM_JINJA_IS_FILTER, run_urlencode, 0, NONE },
  { "wordcount", FILTER, run_wordcount, 0, NONE },
  { "zfill", METHOD, run_pad, WITH_ZEROS, { { "width", LLM_JINJA_TAKE_NEEDED_INT, 0 } } },
  { NULL, 0, NULL, 0, NONE },
};
