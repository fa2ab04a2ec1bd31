/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Methods that cut strings into pieces. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

#include "tokenizer/llm-utf8.h"

/* “split” without a separator: words, with any spaces between them. */
static LlmJinjaValue
split_words (LlmJinja             *self,
             const LlmJinjaString *string,
             gint64                max)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  LlmJinjaValue rest = llm_jinja_string_trim (string, NULL, TRUE, FALSE);

  while (rest.string.length > 0)
    {
      gsize at = 0;

      while (at < rest.string.length && max != 0)
        {
          gunichar c;
          gsize n = llm_utf8_get (rest.string.bytes + at,
                                  rest.string.bytes + rest.string.length, &c);

          if (llm_jinja_is_space (c))
            break;
          at += n;
        }
      if (max == 0)
        {
          llm_jinja_list_add (self, result.list, rest);
          break;
        }
      max -= max > 0;
      llm_jinja_list_add (self, result.list, llm_jinja_string_cut (&rest.string, 0, at));
      rest = llm_jinja_string_cut (&rest.string, at, rest.string.length);
      rest = llm_jinja_string_trim (&rest.string, NULL, TRUE, FALSE);
    }
  return result;
}

/* The last @max words, and what is before them. */
static LlmJinjaValue
split_words_from_end (LlmJinja             *self,
                      const LlmJinjaString *string,
                      gint64                max)
{
  LlmJinjaValue words = split_words (self, string, -1);
  LlmJinjaValue result;
  const LlmJinjaString *last;
  guint n = words.list->n_items;

  if (max < 0 || max >= n)
    return words;
  result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  last = &words.list->items[n - 1 - (guint) max].string;
  /* words are views of the string */
  llm_jinja_list_add (self, result.list,
                      llm_jinja_string_cut (string, 0, (gsize) (last->bytes + last->length
                                                                - string->bytes)));
  for (guint i = n - (guint) max; i < n; i++)
    llm_jinja_list_add (self, result.list, words.list->items[i]);
  return result;
}

static LlmJinjaValue
split (LlmJinja             *self,
       const LlmJinjaString *string,
       const LlmJinjaString *separator,
       gint64                max)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  gsize at = 0;

  for (; max != 0; max -= max > 0)
    {
      gsize found = llm_jinja_string_find (self, string, separator, at);

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
  LlmJinjaList *pieces = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST).list;
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);
  gsize end = string->length;

  for (; max != 0; max -= max > 0)
    {
      gsize found = llm_jinja_string_find_last (self, string, separator, end);

      if (found == G_MAXSIZE)
        break;
      llm_jinja_list_add (self, pieces,
                          llm_jinja_string_cut (string, found + separator->length, end));
      end = found;
    }
  llm_jinja_list_add (self, pieces, llm_jinja_string_cut (string, 0, end));
  for (guint i = pieces->n_items; i-- > 0;)
    llm_jinja_list_add (self, result.list, pieces->items[i]);
  return result;
}

static LlmJinjaValue
run_split (LlmJinja            *self,
           const LlmJinjaValue *subject,
           const LlmJinjaArgs  *args,
           gboolean             from_end)
{
  static const char *const names[] = { "sep", "maxsplit", NULL };
  LlmJinjaValue arg[G_N_ELEMENTS (names)];
  const LlmJinjaString *separator;
  gint64 max;

  llm_jinja_args_take (self, "split", args, 0, names, arg);
  max = llm_jinja_arg_given (&arg[1]) ? llm_jinja_need_int (self, "split", &arg[1]) : -1;
  if (!llm_jinja_arg_given (&arg[0]) || arg[0].type == LLM_JINJA_NONE)
    {
      return from_end ? split_words_from_end (self, &subject->string, max)
                      : split_words (self, &subject->string, max);
    }
  separator = llm_jinja_need_string (self, "split", &arg[0]);
  if (separator->length == 0)
    llm_jinja_fail (self, "“split” needs a separator that is not empty");
  return from_end ? split_from_end (self, &subject->string, separator, max)
                  : split (self, &subject->string, separator, max);
}

static LlmJinjaValue
text_split (LlmJinja            *self,
            const LlmJinjaValue *subject,
            const LlmJinjaArgs  *args)
{
  return run_split (self, subject, args, FALSE);
}

static LlmJinjaValue
text_rsplit (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  return run_split (self, subject, args, TRUE);
}

static LlmJinjaValue
text_splitlines (LlmJinja            *self,
                 const LlmJinjaValue *subject,
                 const LlmJinjaArgs  *args)
{
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);

  if (args->n_values > 0)
    llm_jinja_fail (self, "“splitlines” with line ends is not supported");
  result.list = llm_jinja_split_lines (self, &subject->string);
  return result;
}

/* What is before, the separator, and what is behind it. */
static LlmJinjaValue
partition (LlmJinja            *self,
           const LlmJinjaValue *subject,
           const LlmJinjaArgs  *args,
           gboolean             from_end)
{
  static const char *const names[] = { "sep", NULL };
  LlmJinjaValue arg[G_N_ELEMENTS (names)];
  LlmJinjaValue result = llm_jinja_list_new (self, LLM_JINJA_LIST_TUPLE);
  const LlmJinjaString *string = &subject->string;
  const LlmJinjaString *separator;
  gsize start, end;

  llm_jinja_args_take (self, "partition", args, 1, names, arg);
  separator = llm_jinja_need_string (self, "partition", &arg[0]);
  if (separator->length == 0)
    llm_jinja_fail (self, "“partition” needs a separator that is not empty");
  start = from_end ? llm_jinja_string_find_last (self, string, separator, string->length)
                   : llm_jinja_string_find (self, string, separator, 0);
  end = start + separator->length;
  if (start == G_MAXSIZE)
    start = end = from_end ? 0 : string->length;
  llm_jinja_list_add (self, result.list, llm_jinja_string_cut (string, 0, start));
  llm_jinja_list_add (self, result.list, llm_jinja_string_cut (string, start, end));
  llm_jinja_list_add (self, result.list, llm_jinja_string_cut (string, end, string->length));
  return result;
}

static LlmJinjaValue
text_partition (LlmJinja            *self,
                const LlmJinjaValue *subject,
                const LlmJinjaArgs  *args)
{
  return partition (self, subject, args, FALSE);
}

static LlmJinjaValue
text_rpartition (LlmJinja            *self,
                 const LlmJinjaValue *subject,
                 const LlmJinjaArgs  *args)
{
  return partition (self, subject, args, TRUE);
}

const LlmJinjaBuiltinEntry llm_jinja_methods_of_splits[] = {
  { "partition", text_partition },
  { "rpartition", text_rpartition },
  { "rsplit", text_rsplit },
  { "split", text_split },
  { "splitlines", text_splitlines },
  { NULL, NULL },
};
