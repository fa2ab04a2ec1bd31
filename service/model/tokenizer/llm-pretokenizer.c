/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/tokenizer/llm-pretokenizer.h"

#include <string.h>

#include "model/tokenizer/llm-utf8.h"

/* What the patterns tell apart, and the sets that they name: \p{L}, \p{N}, \p{P}, \s and
 * [^\s\p{L}\p{N}]. The scripts from U+0800 to U+9FA5 and Hangul, as DeepSeek's pattern lists
 * them, are of another set as well. */
enum
{
  LETTER = 1 << 0,
  NUMBER = 1 << 1,
  PUNCTUATION = 1 << 2,
  OTHER = 1 << 3,
  BLANK = 1 << 4,       /* U+0020 */
  LINE_END = 1 << 5,    /* [\r\n] */
  OTHER_SPACE = 1 << 6,
  EASTERN = 1 << 7,
  SPACE = BLANK | LINE_END | OTHER_SPACE,
  SYMBOL = PUNCTUATION | OTHER,
};

#define MANY G_MAXUINT

/* One of the alternatives of a pattern: characters of sets; or what needs more than that. */
struct _LlmPattern
{
  enum { CHARACTERS = 1, CONTRACTION, ANY_CASE_CONTRACTION, LINE_ENDS, SPACES } kind;
  guint lead;   /* one, if there is one and @body follows */
  guint body;   /* from one to @max */
  guint max;
  guint tail;   /* any number */
};

/* \s+(?!\S)|\s+ : what stands before a word keeps its last space for that word. */
#define ALL_SPACES { SPACES }
#define END { 0 }

/* The pattern of GPT-2:
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static const LlmPattern gpt2[] = {
  { CONTRACTION }, { CHARACTERS, BLANK, LETTER, MANY }, { CHARACTERS, BLANK, NUMBER, MANY },
  { CHARACTERS, BLANK, SYMBOL, MANY }, ALL_SPACES, END
};

/* The pattern of Llama 3 and its kin:
 * (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,MAX_DIGITS}|
 *  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
#define LLAMA3(max_digits)                                                                  \
  { ANY_CASE_CONTRACTION }, { CHARACTERS, SYMBOL | BLANK | OTHER_SPACE, LETTER, MANY },     \
  { CHARACTERS, 0, NUMBER, max_digits }, { CHARACTERS, BLANK, SYMBOL, MANY, LINE_END },     \
  { LINE_ENDS }, ALL_SPACES, END
static const LlmPattern llama3[] = { LLAMA3 (3) };
static const LlmPattern qwen2[] = { LLAMA3 (1) };

/* \p{N}; [\r\n]; \s?\p{L}+; \s?\p{P}+ */
static const LlmPattern digit[] = { { CHARACTERS, 0, NUMBER, 1 }, END };
static const LlmPattern line_end[] = { { CHARACTERS, 0, LINE_END, 1 }, END };
static const LlmPattern letters[] = { { CHARACTERS, SPACE, LETTER, MANY }, END };
static const LlmPattern punctuation[] = { { CHARACTERS, SPACE, PUNCTUATION, MANY }, END };
static const LlmPattern eastern[] = { { CHARACTERS, 0, EASTERN, MANY }, END };

static const LlmPretokenizer pretokenizers[] =
{
  { .name = "gpt-2", .stages = { gpt2 } },
  { .name = "smollm", .stages = { digit, gpt2 } },
  { .name = "llama-bpe", .stages = { llama3 }, .ignores_merges = TRUE, .adds_bos = TRUE },
  { .name = "qwen2", .stages = { qwen2 } },
  { .name = "deepseek-coder", .stages = { line_end, letters, punctuation, eastern, digit } },
  { .name = "command-r", .stages = { digit, gpt2 } },
  { .name = "dbrx", .stages = { llama3 } },
  { .name = "deepseek-r1-qwen", .stages = { qwen2 } },
  { .name = "refact", .stages = { digit, gpt2 } },
  { .name = "starcoder", .stages = { digit, gpt2 } },
};

/* The sets of the character at @at, 0 at the end; passes over it. */
static inline guint
read_sets (const char **at,
           const char  *end)
{
  gunichar c;
  guint type, sets;

  if (*at >= end)
    return 0;
  if (g_ascii_isalpha (**at))
    {
      ++*at;
      return LETTER;
    }
  *at += llm_utf8_get (*at, end, &c);
  if (c == ' ')
    return BLANK;
  if (c == '\r' || c == '\n')
    return LINE_END;

  sets = (c >= 0x0800 && c <= 0x9fa5) || (c >= 0xac00 && c <= 0xd7ff) ? EASTERN : 0;
  if (llm_utf8_is_space (c))
    return sets | OTHER_SPACE;
  type = 1u << g_unichar_type (c);
  if ((type & LLM_UTF8_LETTERS) != 0)
    return sets | LETTER;
  if ((type & LLM_UTF8_NUMBERS) != 0)
    return sets | NUMBER;
  return sets | ((type & LLM_UTF8_PUNCTUATION) != 0 ? PUNCTUATION : OTHER);
}

/* Up to @max characters of @set. */
static inline const char *
skip_set (const char *at,
          const char *end,
          guint       set,
          guint       max)
{
  for (const char *next = at; set != 0 && max > 0 && (read_sets (&next, end) & set) != 0; max--)
    at = next;
  return at;
}

/* @next is behind a character of @sets; no set is in both lead and body. */
static inline const char *
match_characters (const LlmPattern *pattern,
                  guint             sets,
                  const char       *next,
                  const char       *end)
{
  const char *match;

  if ((sets & pattern->body) != 0)
    match = skip_set (next, end, pattern->body, pattern->max - 1);
  else if ((sets & pattern->lead) != 0)
    match = skip_set (next, end, pattern->body, pattern->max);
  else
    return NULL;
  return match > next || (sets & pattern->body) != 0 ? skip_set (match, end, pattern->tail, MANY)
                                                     : NULL;
}

/* 's|'t|'re|'ve|'m|'ll|'d, in either case where @any_case; at @at is its first character. */
static const char *
match_contraction (const char *at,
                   const char *end,
                   gboolean    any_case)
{
  static const char *const endings[] = { "s", "t", "re", "ve", "m", "ll", "d" };

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

/* A run of spaces: with @line_ends, up to the last line end in it, NULL if there is none. */
static const char *
match_spaces (const char *at,
              const char *end,
              gboolean    line_ends)
{
  const char *last = NULL, *behind_line = NULL;
  const char *p = at;
  guint sets;

  for (const char *next = p; ((sets = read_sets (&next, end)) & SPACE) != 0; p = next)
    {
      last = p;
      if (sets == LINE_END)
        behind_line = next;
    }
  if (line_ends || p == at)
    return behind_line;
  return p < end && last > at ? last : p;
}

/* Where the match of a pattern that begins at @at ends, NULL when there is none; likewise. */
static const char *
match_pattern (const LlmPattern *pattern,
               guint             sets,
               const char       *at,
               const char       *next,
               const char       *end)
{
  const char *match = NULL;

  for (; match == NULL && pattern->kind != 0; pattern++)
    if (pattern->kind == CHARACTERS)
      match = match_characters (pattern, sets, next, end);
    else if (pattern->kind == LINE_ENDS || pattern->kind == SPACES)
      match = (sets & SPACE) != 0 ? match_spaces (at, end, pattern->kind == LINE_ENDS) : NULL;
    else if (*at == '\'')
      match = match_contraction (at, end, pattern->kind == ANY_CASE_CONTRACTION);
  return match;
}

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
      const char *next = at;
      guint sets = read_sets (&next, end);
      const char *match = match_pattern (self->stages[stage], sets, at, next, end);

      if (match == NULL)
        {
          at = next;
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
