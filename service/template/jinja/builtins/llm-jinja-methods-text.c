/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Methods of strings, as Python's. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#include "tokenizer/llm-utf8.h"

/* Python gives these no names to pass them by. */
#define TAKE(function, n_needed, ...)                                                 \
  static const char *const names[] = { __VA_ARGS__, NULL };                           \
  LlmJinjaValue arg[G_N_ELEMENTS (names)];                                            \
  llm_jinja_args_take (self, function, args, n_needed, names, arg)

static LlmJinjaValue
keep_html (LlmJinjaValue        value,
           const LlmJinjaValue *subject)
{
  value.is_html = subject->is_html;
  return value;
}

/* An argument of a method of a safe string is escaped, as that string is. */
static LlmJinjaValue
take_string (LlmJinja            *self,
             const char          *function,
             const LlmJinjaValue *subject,
             const LlmJinjaValue *value)
{
  llm_jinja_need_string (self, function, value);
  return subject->is_html ? llm_jinja_string_escape (self, value) : *value;
}

static LlmJinjaValue
strip (LlmJinja            *self,
       const LlmJinjaValue *subject,
       const LlmJinjaArgs  *args,
       gboolean             at_start,
       gboolean             at_end)
{
  TAKE ("strip", 0, "chars");
  const LlmJinjaString *set = NULL;

  if (llm_jinja_arg_given (&arg[0]) && arg[0].type != LLM_JINJA_NONE)
    set = llm_jinja_need_string (self, "strip", &arg[0]);
  return keep_html (llm_jinja_string_trim (&subject->string, set, at_start, at_end), subject);
}

static LlmJinjaValue
text_strip (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return strip (self, subject, args, TRUE, TRUE);
}

static LlmJinjaValue
text_lstrip (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  return strip (self, subject, args, TRUE, FALSE);
}

static LlmJinjaValue
text_rstrip (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  return strip (self, subject, args, FALSE, TRUE);
}

static LlmJinjaValue
change_case (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args,
             LlmJinjaCase         way)
{
  static const char *const names[] = { NULL };

  llm_jinja_args_take (self, "upper, lower, title, capitalize", args, 0, names, NULL);
  return keep_html (llm_jinja_change_case (self, &subject->string, way), subject);
}

static LlmJinjaValue
text_upper (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return change_case (self, subject, args, LLM_JINJA_CASE_UPPER);
}

static LlmJinjaValue
text_lower (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return change_case (self, subject, args, LLM_JINJA_CASE_LOWER);
}

static LlmJinjaValue
text_title (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return change_case (self, subject, args, LLM_JINJA_CASE_WORDS);
}

static LlmJinjaValue
text_capitalize (LlmJinja            *self,
                 const LlmJinjaValue *subject,
                 const LlmJinjaArgs  *args)
{
  return change_case (self, subject, args, LLM_JINJA_CASE_CAPITAL);
}

/* What lies between two arguments, as of a slice. */
static LlmJinjaValue
take_range (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaValue *start,
            const LlmJinjaValue *end)
{
  LlmJinjaValue bounds[3] = { llm_jinja_none (), llm_jinja_none (), llm_jinja_none () };

  if (llm_jinja_arg_given (start))
    bounds[0] = *start;
  if (llm_jinja_arg_given (end))
    bounds[1] = *end;
  if (bounds[0].type == LLM_JINJA_NONE && bounds[1].type == LLM_JINJA_NONE)
    return *subject;
  return llm_jinja_get_slice (self, subject, bounds);
}

static gboolean
has_end (LlmJinja             *self,
         const LlmJinjaString *string,
         const LlmJinjaValue  *part,
         gboolean              at_start)
{
  const LlmJinjaString *text = llm_jinja_need_string (self, "startswith, endswith", part);

  return text->length <= string->length
         && (text->length == 0
             || memcmp (string->bytes + (at_start ? 0 : string->length - text->length), text->bytes,
                        text->length) == 0);
}

static LlmJinjaValue
test_end (LlmJinja            *self,
          const LlmJinjaValue *subject,
          const LlmJinjaArgs  *args,
          gboolean             at_start)
{
  TAKE ("startswith, endswith", 1, "prefix", "start", "end");
  LlmJinjaValue range = take_range (self, subject, &arg[1], &arg[2]);

  if (arg[0].type != LLM_JINJA_LIST || arg[0].list->kind != LLM_JINJA_LIST_TUPLE)
    return llm_jinja_bool (has_end (self, &range.string, &arg[0], at_start));
  for (guint i = 0; i < arg[0].list->n_items; i++)
    if (has_end (self, &range.string, &arg[0].list->items[i], at_start))
      return llm_jinja_bool (TRUE);
  return llm_jinja_bool (FALSE);
}

static LlmJinjaValue
text_startswith (LlmJinja            *self,
                 const LlmJinjaValue *subject,
                 const LlmJinjaArgs  *args)
{
  return test_end (self, subject, args, TRUE);
}

static LlmJinjaValue
text_endswith (LlmJinja            *self,
               const LlmJinjaValue *subject,
               const LlmJinjaArgs  *args)
{
  return test_end (self, subject, args, FALSE);
}

static LlmJinjaValue
text_removeprefix (LlmJinja            *self,
                   const LlmJinjaValue *subject,
                   const LlmJinjaArgs  *args)
{
  TAKE ("removeprefix", 1, "prefix");

  if (!has_end (self, &subject->string, &arg[0], TRUE))
    return *subject;
  return keep_html (llm_jinja_string_cut (&subject->string, arg[0].string.length,
                                          subject->string.length), subject);
}

static LlmJinjaValue
text_removesuffix (LlmJinja            *self,
                   const LlmJinjaValue *subject,
                   const LlmJinjaArgs  *args)
{
  TAKE ("removesuffix", 1, "suffix");

  if (!has_end (self, &subject->string, &arg[0], FALSE))
    return *subject;
  return keep_html (llm_jinja_string_cut (&subject->string, 0,
                                          subject->string.length - arg[0].string.length), subject);
}

static LlmJinjaValue
text_replace (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  TAKE ("replace", 2, "old", "new", "count");
  LlmJinjaValue old = take_string (self, "replace", subject, &arg[0]);
  LlmJinjaValue with = take_string (self, "replace", subject, &arg[1]);
  gint64 max = llm_jinja_arg_given (&arg[2]) ? llm_jinja_need_int (self, "replace", &arg[2]) : -1;

  return keep_html (llm_jinja_string_replace (self, &subject->string, &old.string, &with.string,
                                              max),
                    subject);
}

static LlmJinjaValue
find (LlmJinja            *self,
      const LlmJinjaValue *subject,
      const LlmJinjaArgs  *args,
      gboolean             is_last)
{
  TAKE ("find", 1, "part", "start");
  const LlmJinjaString *part = llm_jinja_need_string (self, "find", &arg[0]);
  gint64 start = llm_jinja_arg_given (&arg[1]) ? llm_jinja_need_int (self, "find", &arg[1]) : 0;
  gsize from, found;
  LlmJinjaValue before;

  if (start < 0 || (start > 0 && is_last))
    llm_jinja_fail (self, "this start of “find” is not supported");
  from = llm_jinja_string_offset (&subject->string, (gsize) start);
  found = is_last ? llm_jinja_string_find_last (self, &subject->string, part,
                                                subject->string.length)
                  : llm_jinja_string_find (self, &subject->string, part, from);
  if (found == G_MAXSIZE)
    return llm_jinja_int (-1, 0);
  before = llm_jinja_string_cut (&subject->string, 0, found);
  return llm_jinja_int ((gint64) llm_jinja_string_count (&before.string), 0);
}

static LlmJinjaValue
text_find (LlmJinja            *self,
           const LlmJinjaValue *subject,
           const LlmJinjaArgs  *args)
{
  return find (self, subject, args, FALSE);
}

static LlmJinjaValue
text_rfind (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return find (self, subject, args, TRUE);
}

static LlmJinjaValue
text_count (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  TAKE ("count", 1, "part");
  const LlmJinjaString *part = llm_jinja_need_string (self, "count", &arg[0]);
  gint64 n = 0;
  gsize at = 0;

  if (part->length == 0)
    return llm_jinja_int ((gint64) llm_jinja_string_count (&subject->string) + 1, 0);
  while ((at = llm_jinja_string_find (self, &subject->string, part, at)) != G_MAXSIZE)
    {
      n++;
      at += part->length;
    }
  return llm_jinja_int (n, 0);
}

static LlmJinjaValue
text_join (LlmJinja            *self,
           const LlmJinjaValue *subject,
           const LlmJinjaArgs  *args)
{
  TAKE ("join", 1, "items");
  const LlmJinjaList *over = llm_jinja_iterate (self, &arg[0]);
  LlmJinjaText *text = llm_jinja_text_new (self);

  for (guint i = 0; i < over->n_items; i++)
    {
      LlmJinjaValue item = take_string (self, "join", subject, &over->items[i]);

      if (i > 0)
        llm_jinja_text_add (self, text, &subject->string);
      llm_jinja_text_add (self, text, &item.string);
    }
  return keep_html (llm_jinja_text_end (text), subject);
}

static LlmJinjaValue
pad (LlmJinja            *self,
     const LlmJinjaValue *subject,
     const LlmJinjaArgs  *args,
     int                  side)
{
  TAKE ("ljust, rjust, center, zfill", 1, "width", "fill");
  LlmJinjaText *text = llm_jinja_text_new (self);
  gint64 n = (gint64) llm_jinja_string_count (&subject->string);
  gint64 width = CLAMP (llm_jinja_need_int (self, "ljust, rjust, center", &arg[0]), n,
                        MAX (n, 10000));
  LlmJinjaValue fill = llm_jinja_arg_given (&arg[1]) ? arg[1]
                                                     : llm_jinja_string_new (self, " ", 1, 0);
  gint64 left = side < 0 ? width - n : side > 0 ? 0
                                                : (width - n) / 2 + ((width - n) & width & 1);

  if (llm_jinja_string_count (llm_jinja_need_string (self, "ljust, rjust, center", &fill)) != 1)
    llm_jinja_fail (self, "what fills must be one character");
  for (gint64 i = 0; i < left; i++)
    llm_jinja_text_add (self, text, &fill.string);
  llm_jinja_text_add (self, text, &subject->string);
  for (gint64 i = left; i < width - n; i++)
    llm_jinja_text_add (self, text, &fill.string);
  return keep_html (llm_jinja_text_end (text), subject);
}

static LlmJinjaValue
text_ljust (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return pad (self, subject, args, 1);
}

static LlmJinjaValue
text_rjust (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return pad (self, subject, args, -1);
}

static LlmJinjaValue
text_center (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  return pad (self, subject, args, 0);
}

static LlmJinjaValue
text_zfill (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  LlmJinjaValue values[2];
  LlmJinjaArgs both = { .values = values, .n_values = 2 };

  if (args->n_values != 1
      || (subject->string.length > 0 && strchr ("+-", subject->string.bytes[0]) != NULL))
    llm_jinja_fail (self, "this use of “zfill” is not supported");
  values[0] = args->values[0];
  values[1] = llm_jinja_string_new (self, "0", 1, 0);
  return pad (self, subject, &both, -1);
}

/* --- what characters a string has --- */

static LlmJinjaValue
test_all (LlmJinja            *self,
          const LlmJinjaValue *subject,
          const LlmJinjaArgs  *args,
          gboolean             (*is_so) (gunichar c))
{
  static const char *const names[] = { NULL };
  gboolean all = subject->string.length > 0;

  llm_jinja_args_take (self, "isdigit, isalpha, isalnum, isspace", args, 0, names, NULL);
  for (gsize at = 0; all && at < subject->string.length;)
    {
      gunichar c;

      at += llm_utf8_get (subject->string.bytes + at,
                          subject->string.bytes + subject->string.length, &c);
      all = is_so (c);
    }
  return llm_jinja_bool (all);
}

static gboolean
is_alnum (gunichar c)
{
  return llm_utf8_is_of (c, LLM_UTF8_LETTERS | LLM_UTF8_NUMBERS);
}

static LlmJinjaValue
text_isdigit (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return test_all (self, subject, args, g_unichar_isdigit);
}

static LlmJinjaValue
text_isalpha (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return test_all (self, subject, args, g_unichar_isalpha);
}

static LlmJinjaValue
text_isalnum (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return test_all (self, subject, args, is_alnum);
}

static LlmJinjaValue
text_isspace (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return test_all (self, subject, args, llm_jinja_is_space);
}

static LlmJinjaValue
text_isupper (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return llm_jinja_bool (llm_jinja_run_test (self, "upper", subject, args));
}

static LlmJinjaValue
text_islower (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  return llm_jinja_bool (llm_jinja_run_test (self, "lower", subject, args));
}

const LlmJinjaBuiltinEntry llm_jinja_methods_of_text[] = {
  { "capitalize", text_capitalize },
  { "center", text_center },
  { "count", text_count },
  { "endswith", text_endswith },
  { "find", text_find },
  { "format", llm_jinja_format },
  { "isalnum", text_isalnum },
  { "isalpha", text_isalpha },
  { "isdigit", text_isdigit },
  { "islower", text_islower },
  { "isspace", text_isspace },
  { "isupper", text_isupper },
  { "join", text_join },
  { "ljust", text_ljust },
  { "lower", text_lower },
  { "lstrip", text_lstrip },
  { "removeprefix", text_removeprefix },
  { "removesuffix", text_removesuffix },
  { "replace", text_replace },
  { "rfind", text_rfind },
  { "rjust", text_rjust },
  { "rstrip", text_rstrip },
  { "startswith", text_startswith },
  { "strip", text_strip },
  { "title", text_title },
  { "upper", text_upper },
  { "zfill", text_zfill },
  { NULL, NULL },
};
