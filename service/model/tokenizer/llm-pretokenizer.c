/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/tokenizer/llm-pretokenizer.h"

#include <string.h>

#include "model/tokenizer/llm-utf8.h"

/* The sets that the patterns are made of: \p{L}, \p{N}, \p{P}, \s and the rest. */
typedef enum
{
  CLASS_OTHER,
  CLASS_LETTER,
  CLASS_NUMBER,
  CLASS_PUNCTUATION,
  CLASS_SPACE,
  CLASS_END,          /* no character: the text is at its end */
} CharClass;

static CharClass
classify (gunichar c)
{
  guint type;

  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    return CLASS_LETTER;
  if (llm_utf8_is_space (c))
    return CLASS_SPACE;

  type = 1u << g_unichar_type (c);
  if ((type & LLM_UTF8_LETTERS) != 0)
    return CLASS_LETTER;
  if ((type & LLM_UTF8_NUMBERS) != 0)
    return CLASS_NUMBER;
  return (type & LLM_UTF8_PUNCTUATION) != 0 ? CLASS_PUNCTUATION : CLASS_OTHER;
}

static CharClass
class_at (const char *at,
          const char *end)
{
  gunichar c;

  if (at >= end)
    return CLASS_END;
  llm_utf8_get (at, end, &c);
  return classify (c);
}

static const char *
next_char (const char *at,
           const char *end)
{
  gunichar c;

  return at + llm_utf8_get (at, end, &c);
}

static const char *
skip_class (const char *at,
            const char *end,
            CharClass   class)
{
  while (class_at (at, end) == class)
    at = next_char (at, end);
  return at;
}

/* [^\s\p{L}\p{N}]* */
static const char *
skip_symbols (const char *at,
              const char *end)
{
  for (;;)
    {
      CharClass class = class_at (at, end);

      if (class != CLASS_OTHER && class != CLASS_PUNCTUATION)
        return at;
      at = next_char (at, end);
    }
}

static gboolean
is_line_end (const char *at,
             const char *end)
{
  return at < end && (*at == '\r' || *at == '\n');
}

/* 's|'t|'re|'ve|'m|'ll|'d, in either case where @any_case. */
static const char *
match_contraction (const char *at,
                   const char *end,
                   gboolean    any_case)
{
  static const char *const endings[] = { "s", "t", "re", "ve", "m", "ll", "d" };

  if (*at != '\'')
    return NULL;
  at++;
  for (guint i = 0; i < G_N_ELEMENTS (endings); i++)
    {
      gsize length = strlen (endings[i]);

      if ((gsize) (end - at) < length)
        continue;
      if (any_case ? g_ascii_strncasecmp (at, endings[i], length) == 0
                   : strncmp (at, endings[i], length) == 0)
        return at + length;
    }
  return NULL;
}

/* \s+(?!\S)|\s+ : what stands before a word keeps its last space for that word. */
static const char *
match_spaces (const char *at,
              const char *end)
{
  const char *last = NULL;
  const char *p = at;

  while (class_at (p, end) == CLASS_SPACE)
    {
      last = p;
      p = next_char (p, end);
    }
  if (p == at)
    return NULL;
  return p < end && last > at ? last : p;
}

/* The pattern of GPT-2:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static const char *
match_gpt2 (const char *at,
            const char *end)
{
  const char *match = match_contraction (at, end, FALSE);
  const char *word = *at == ' ' ? at + 1 : at;
  CharClass class;

  if (match != NULL)
    return match;

  class = class_at (word, end);
  switch (class)
    {
    case CLASS_LETTER:
    case CLASS_NUMBER:
      return skip_class (word, end, class);
    case CLASS_PUNCTUATION:
    case CLASS_OTHER:
      return skip_symbols (word, end);
    case CLASS_SPACE:
    case CLASS_END:
    default:
      return match_spaces (at, end);
    }
}

/* [^\r\n\p{L}\p{N}]?\p{L}+ */
static const char *
match_letters (const char *at,
               const char *end)
{
  CharClass class = class_at (at, end);
  const char *next;

  if (class == CLASS_LETTER)
    return skip_class (at, end, CLASS_LETTER);
  if (class == CLASS_NUMBER || is_line_end (at, end))
    return NULL;
  next = next_char (at, end);
  return class_at (next, end) == CLASS_LETTER ? skip_class (next, end, CLASS_LETTER) : NULL;
}

/* \s*[\r\n]+ : up to the last line end of a run of spaces. */
static const char *
match_line_ends (const char *at,
                 const char *end)
{
  const char *match = NULL;

  while (class_at (at, end) == CLASS_SPACE)
    {
      const char *next = next_char (at, end);

      if (is_line_end (at, end))
        match = next;
      at = next;
    }
  return match;
}

/* The pattern of Llama 3 and its kin:
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,MAX_DIGITS}|
 *  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static const char *
match_llama3 (const char *at,
              const char *end,
              guint       max_digits)
{
  const char *match = match_contraction (at, end, TRUE);
  const char *word = *at == ' ' ? at + 1 : at;

  if (match == NULL)
    match = match_letters (at, end);
  if (match != NULL)
    return match;

  if (class_at (at, end) == CLASS_NUMBER)
    {
      match = at;
      for (guint i = 0; i < max_digits && class_at (match, end) == CLASS_NUMBER; i++)
        match = next_char (match, end);
      return match;
    }

  match = skip_symbols (word, end);
  if (match > word)
    {
      while (is_line_end (match, end))
        match++;
      return match;
    }

  match = match_line_ends (at, end);
  return match != NULL ? match : match_spaces (at, end);
}

static const char *
match_llama_bpe (const char *at,
                 const char *end)
{
  return match_llama3 (at, end, 3);
}

static const char *
match_qwen2 (const char *at,
             const char *end)
{
  return match_llama3 (at, end, 1);
}

/* \p{N} */
static const char *
match_digit (const char *at,
             const char *end)
{
  return class_at (at, end) == CLASS_NUMBER ? next_char (at, end) : NULL;
}

/* [\r\n] */
static const char *
match_one_line_end (const char *at,
                    const char *end)
{
  return is_line_end (at, end) ? at + 1 : NULL;
}

/* \s?\p{L}+ and \s?\p{P}+ */
static const char *
match_spaced (const char *at,
              const char *end,
              CharClass   class)
{
  const char *word = class_at (at, end) == CLASS_SPACE ? next_char (at, end) : at;
  const char *match = skip_class (word, end, class);

  return match > word ? match : NULL;
}

static const char *
match_spaced_letters (const char *at,
                      const char *end)
{
  return match_spaced (at, end, CLASS_LETTER);
}

static const char *
match_spaced_punctuation (const char *at,
                          const char *end)
{
  return match_spaced (at, end, CLASS_PUNCTUATION);
}

/* The scripts from U+0800 to U+9FA5 and Hangul, as DeepSeek's pattern lists them. */
static const char *
match_eastern (const char *at,
               const char *end)
{
  const char *p = at;

  while (p < end)
    {
      gunichar c;
      gsize length = llm_utf8_get (p, end, &c);

      if (!(c >= 0x0800 && c <= 0x9fa5) && !(c >= 0xac00 && c <= 0xd7ff))
        break;
      p += length;
    }
  return p > at ? p : NULL;
}

static const LlmPretokenizer pretokenizers[] =
{
  { .name = "gpt-2", .stages = { match_gpt2 } },
  { .name = "smollm", .stages = { match_digit, match_gpt2 } },
  { .name = "llama-bpe", .stages = { match_llama_bpe }, .ignores_merges = TRUE, .adds_bos = TRUE },
  { .name = "qwen2", .stages = { match_qwen2 } },
  { .name = "deepseek-coder",
    .stages = { match_one_line_end, match_spaced_letters, match_spaced_punctuation, match_eastern,
                match_digit } },
  { .name = "command-r", .stages = { match_digit, match_gpt2 } },
  { .name = "dbrx", .stages = { match_llama_bpe } },
  { .name = "deepseek-r1-qwen", .stages = { match_qwen2 } },
  { .name = "refact", .stages = { match_digit, match_gpt2 } },
  { .name = "starcoder", .stages = { match_digit, match_gpt2 } },
};

const LlmPretokenizer *
llm_pretokenizer_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (pretokenizers); i++)
    if (g_str_equal (pretokenizers[i].name, name))
      return &pretokenizers[i];
  return NULL;
}

char *
llm_pretokenizer_list_names (void)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (pretokenizers); i++)
    g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", pretokenizers[i].name);
  return g_string_free (names, FALSE);
}

static void
split_from_stage (const LlmPretokenizer *self,
                  guint                  stage,
                  const char            *begin,
                  const char            *end,
                  LlmWordFunc            func,
                  gpointer               user_data)
{
  const char *gap = begin;
  const char *at = begin;

  if (self->stages[stage] == NULL)
    {
      func (begin, (gsize) (end - begin), user_data);
      return;
    }

  while (at < end)
    {
      const char *match = self->stages[stage] (at, end);

      if (match == NULL)
        {
          at = next_char (at, end);
          continue;
        }
      if (gap < at)
        split_from_stage (self, stage + 1, gap, at, func, user_data);
      split_from_stage (self, stage + 1, at, match, func, user_data);
      at = gap = match;
    }
  if (gap < end)
    split_from_stage (self, stage + 1, gap, end, func, user_data);
}

void
llm_pretokenizer_split (const LlmPretokenizer *self,
                        const char            *text,
                        gsize                  length,
                        LlmWordFunc            func,
                        gpointer               user_data)
{
  split_from_stage (self, 0, text, text + length, func, user_data);
}
