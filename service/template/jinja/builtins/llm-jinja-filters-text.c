/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Filters of text. Other values are made text first, as Jinja does. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#include "tokenizer/llm-utf8.h"

#define TAKE(function, n_needed, ...)                                                 \
  static const char *const names[] = { __VA_ARGS__, NULL };                           \
  LlmJinjaValue arg[G_N_ELEMENTS (names)];                                            \
  llm_jinja_args_take (self, function, args, n_needed, names, arg)

static LlmJinjaValue
change_case (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args,
             LlmJinjaCase         way,
             const char          *function)
{
  static const char *const names[] = { NULL };
  LlmJinjaValue string = llm_jinja_to_string (self, subject);
  LlmJinjaValue result;

  llm_jinja_args_take (self, function, args, 0, names, NULL);
  result = llm_jinja_change_case (self, &string.string, way);
  result.is_html = string.is_html;
  return result;
}

static LlmJinjaValue
filter_upper (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return change_case (self, subject, args, LLM_JINJA_CASE_UPPER, "upper");
}

static LlmJinjaValue
filter_lower (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return change_case (self, subject, args, LLM_JINJA_CASE_LOWER, "lower");
}

static LlmJinjaValue
filter_capitalize (LlmJinja            *self,
                   const LlmJinjaValue *subject,
                   const LlmJinjaArgs  *args)
{
  return change_case (self, subject, args, LLM_JINJA_CASE_CAPITAL, "capitalize");
}

static LlmJinjaValue
filter_title (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return change_case (self, subject, args, LLM_JINJA_CASE_TITLE, "title");
}

static LlmJinjaValue
filter_trim (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  TAKE ("trim", 0, "chars");
  LlmJinjaValue string = llm_jinja_to_string (self, subject);
  const LlmJinjaString *set = NULL;
  LlmJinjaValue result;

  if (llm_jinja_arg_given (&arg[0]) && arg[0].type != LLM_JINJA_NONE)
    set = llm_jinja_need_string (self, "trim", &arg[0]);
  result = llm_jinja_string_trim (&string.string, set, TRUE, TRUE);
  result.is_html = string.is_html;
  return result;
}

static LlmJinjaValue
filter_replace (LlmJinja            *self,
                const LlmJinjaValue *subject,
                const LlmJinjaArgs  *args)
{
  TAKE ("replace", 2, "old", "new", "count");
  LlmJinjaValue string = llm_jinja_to_string (self, subject);
  LlmJinjaValue old = llm_jinja_to_string (self, &arg[0]);
  LlmJinjaValue with = llm_jinja_to_string (self, &arg[1]);
  gint64 max = -1;

  if (llm_jinja_arg_given (&arg[2]) && arg[2].type != LLM_JINJA_NONE)
    max = llm_jinja_need_int (self, "replace", &arg[2]);
  return llm_jinja_string_replace (self, &string.string, &old.string, &with.string, max);
}

/* The indentation goes before each line that is not empty, as Jinja does it: the first only where
 * it is asked for, and the newline at the end is kept. */
static LlmJinjaValue
filter_indent (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  TAKE ("indent", 0, "width", "first", "blank");
  LlmJinjaValue string = llm_jinja_to_string (self, subject);
  LlmJinjaText *text = llm_jinja_text_new (self);
  LlmJinjaValue newline = llm_jinja_string_new (self, "\n", 1, 0);
  LlmJinjaValue whole = llm_jinja_string_join (self, &string.string, &newline.string);
  const LlmJinjaList *lines = llm_jinja_split_lines (self, &whole.string);
  LlmJinjaValue indention = arg[0];

  if (indention.type != LLM_JINJA_STRING)
    {
      LlmJinjaValue space = llm_jinja_string_new (self, " ", 1, 0);
      gint64 n = llm_jinja_arg_given (&arg[0]) ? llm_jinja_need_int (self, "indent", &arg[0]) : 4;
      LlmJinjaValue width = llm_jinja_int (CLAMP (n, 0, 10000), 0);

      indention = llm_jinja_calculate (self, LLM_JINJA_OP_MUL, &space, &width);
    }
  for (guint i = 0; i < lines->n_items; i++)
    {
      const LlmJinjaString *line = &lines->items[i].string;
      gboolean has_indention = i == 0 ? llm_jinja_is_true (&arg[1])
                                      : line->length > 0 || llm_jinja_is_true (&arg[2]);

      if (i > 0)
        llm_jinja_text_add (self, text, &newline.string);
      if (has_indention)
        llm_jinja_text_add (self, text, &indention.string);
      llm_jinja_text_add (self, text, line);
    }
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
filter_center (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  TAKE ("center", 0, "width");
  LlmJinjaValue string = llm_jinja_to_string (self, subject);
  LlmJinjaText *text = llm_jinja_text_new (self);
  gint64 width = llm_jinja_arg_given (&arg[0]) ? llm_jinja_need_int (self, "center", &arg[0]) : 80;
  gint64 n = (gint64) llm_jinja_string_count (&string.string);
  gint64 left;

  width = CLAMP (width, n, MAX (n, 10000));
  /* str.center() of Python */
  left = (width - n) / 2 + ((width - n) & width & 1);
  for (gint64 i = 0; i < left; i++)
    llm_jinja_text_add_bytes (self, text, " ", 1, 0);
  llm_jinja_text_add (self, text, &string.string);
  for (gint64 i = left; i < width - n; i++)
    llm_jinja_text_add_bytes (self, text, " ", 1, 0);
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
filter_truncate (LlmJinja            *self,
                 const LlmJinjaValue *subject,
                 const LlmJinjaArgs  *args)
{
  TAKE ("truncate", 0, "length", "killwords", "end", "leeway");
  LlmJinjaValue string = llm_jinja_to_string (self, subject);
  gint64 length = llm_jinja_arg_given (&arg[0]) ? llm_jinja_need_int (self, "truncate", &arg[0])
                                                : 255;
  LlmJinjaValue end = llm_jinja_arg_given (&arg[2]) ? arg[2]
                                                    : llm_jinja_string_new (self, "...", 3, 0);
  gint64 leeway = llm_jinja_arg_given (&arg[3]) && arg[3].type != LLM_JINJA_NONE
                    ? llm_jinja_need_int (self, "truncate", &arg[3]) : 5;
  gint64 n_end = (gint64) llm_jinja_string_count (llm_jinja_need_string (self, "truncate", &end));
  LlmJinjaValue kept;

  if (length < n_end || leeway < 0)
    llm_jinja_fail (self, "“truncate” needs a length of at least %" G_GINT64_FORMAT, n_end);
  if ((gint64) llm_jinja_string_count (&string.string) <= length + leeway)
    return string;
  kept = llm_jinja_string_cut (&string.string, 0,
                               llm_jinja_string_offset (&string.string,
                                                        (gsize) (length - n_end)));
  if (!llm_jinja_is_true (&arg[1]))
    {
      LlmJinjaValue space = llm_jinja_string_new (self, " ", 1, 0);
      gsize at = llm_jinja_string_find_last (self, &kept.string, &space.string, kept.string.length);

      if (at != G_MAXSIZE)
        kept.string.length = at;
    }
  return llm_jinja_string_join (self, &kept.string, &end.string);
}

static LlmJinjaValue
filter_wordcount (LlmJinja            *self,
                  const LlmJinjaValue *subject,
                  const LlmJinjaArgs  *args)
{
  static const char *const names[] = { NULL };
  LlmJinjaValue string = llm_jinja_to_string (self, subject);
  gboolean is_word = FALSE;
  gint64 n = 0;

  llm_jinja_args_take (self, "wordcount", args, 0, names, NULL);
  for (gsize at = 0; at < string.string.length;)
    {
      gunichar c;

      at += llm_utf8_get (string.string.bytes + at, string.string.bytes + string.string.length, &c);
      n += !is_word && (g_unichar_isalnum (c) || c == '_');
      is_word = g_unichar_isalnum (c) || c == '_';
    }
  return llm_jinja_int (n, 0);
}

static LlmJinjaValue
filter_urlencode (LlmJinja            *self,
                  const LlmJinjaValue *subject,
                  const LlmJinjaArgs  *args)
{
  static const char *const names[] = { NULL };
  LlmJinjaValue string = llm_jinja_to_string (self, subject);
  LlmJinjaText *text = llm_jinja_text_new (self);

  llm_jinja_args_take (self, "urlencode", args, 0, names, NULL);
  if (subject->type == LLM_JINJA_DICT || subject->type == LLM_JINJA_LIST)
    llm_jinja_fail (self, "“urlencode” of a %s is not supported", llm_jinja_type_name (subject));
  for (gsize i = 0; i < string.string.length; i++)
    {
      char c = string.string.bytes[i];
      char escaped[4];

      if (g_ascii_isalnum (c) || (c != '\0' && strchr ("_.-~/", c) != NULL))
        g_snprintf (escaped, sizeof escaped, "%c", c);
      else
        g_snprintf (escaped, sizeof escaped, "%%%02X", (guint8) c);
      llm_jinja_text_add_bytes (self, text, escaped, strlen (escaped), string.string.origins[i]);
    }
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
filter_format (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  LlmJinjaValue string = llm_jinja_to_string (self, subject);

  return llm_jinja_format_percent (self, &string.string, args);
}

const LlmJinjaBuiltinEntry llm_jinja_filters_of_text[] = {
  { "capitalize", filter_capitalize },
  { "center", filter_center },
  { "format", filter_format },
  { "indent", filter_indent },
  { "lower", filter_lower },
  { "replace", filter_replace },
  { "title", filter_title },
  { "trim", filter_trim },
  { "truncate", filter_truncate },
  { "upper", filter_upper },
  { "urlencode", filter_urlencode },
  { "wordcount", filter_wordcount },
  { NULL, NULL },
};
