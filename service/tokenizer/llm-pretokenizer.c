/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tokenizer/llm-pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "tokenizer/llm-utf8.h"

/* Patterns need fewer; with a wrong one, only the caller that sends the text gets worse tokens. */
#define MAX_STEPS_PER_BYTE 8
#define MIN_STEPS 1000

struct _LlmPretokenizer
{
  pcre2_code *stages[LLM_PRETOKENIZER_MAX_STAGES];
  guint n_stages;
};

/* One text that is being split. */
typedef struct
{
  const LlmPretokenizer *self;
  const char *text;          /* the caller's */
  const char *valid;         /* the same, but for bytes that are not UTF-8 */
  pcre2_match_data *match;
  pcre2_match_context *limits;
  LlmWordFunc func;
  gpointer user_data;
} Split;

/* Just-in-time compiled code would be three to five times as fast, but the service may not have
 * memory that is both written and executed, and words are a small part of a text's cost. */
static pcre2_code *
compile (const char *pattern)
{
  PCRE2_SIZE offset;
  int code;
  pcre2_code *compiled = pcre2_compile ((PCRE2_SPTR) pattern, PCRE2_ZERO_TERMINATED,
                                        PCRE2_UTF | PCRE2_NO_AUTO_CAPTURE, &code, &offset, NULL);

  if (compiled == NULL)
    g_error ("“%s”, byte %zu: error %d of PCRE2", pattern, offset, code);
  return compiled;
}

LlmPretokenizer *
llm_pretokenizer_new (const LlmPretokenizerRules *rules)
{
  LlmPretokenizer *self = g_new0 (LlmPretokenizer, 1);

  while (rules->patterns[self->n_stages] != NULL)
    {
      self->stages[self->n_stages] = compile (rules->patterns[self->n_stages]);
      self->n_stages++;
    }
  return self;
}

void
llm_pretokenizer_free (LlmPretokenizer *self)
{
  for (guint i = 0; i < self->n_stages; i++)
    pcre2_code_free (self->stages[i]);
  g_free (self);
}

/* Whether there is a word at @at or behind, then in the ovector. */
static gboolean
match_stage (const Split *split,
             guint        stage,
             PCRE2_SPTR   text,
             PCRE2_SIZE   length,
             PCRE2_SIZE   at)
{
  int result;

  pcre2_set_match_limit (split->limits,
                         (guint32) MIN (MAX_STEPS_PER_BYTE * (guint64) (length - at) + MIN_STEPS,
                                        G_MAXUINT32));
  result = pcre2_match (split->self->stages[stage], text, length, at,
                        PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, split->match, split->limits);
  if (result < 0 && result != PCRE2_ERROR_NOMATCH)
    g_critical ("Error %d of PCRE2; a text of %zu bytes is one word from byte %zu on", result, length,
                at);
  return result >= 0;
}

static void
split_from_stage (const Split *split,
                  guint        stage,
                  gsize        begin,
                  gsize        end)
{
  const PCRE2_SPTR part = (PCRE2_SPTR) split->valid + begin;
  PCRE2_SIZE at = 0;
  PCRE2_SIZE *found = pcre2_get_ovector_pointer (split->match);

  if (stage == split->self->n_stages)
    {
      split->func (split->text + begin, end - begin, split->user_data);
      return;
    }

  while (begin + at < end && match_stage (split, stage, part, end - begin, at))
    {
      const PCRE2_SIZE first = found[0], behind = found[1];

      if (first > at)
        split_from_stage (split, stage + 1, begin + at, begin + first);
      split_from_stage (split, stage + 1, begin + first, begin + behind);
      at = behind;
    }
  if (begin + at < end)
    split_from_stage (split, stage + 1, begin + at, end);
}

/* (transfer full): @text with a control character for each byte that is not UTF-8. */
static char *
replace_invalid (const char *text,
                 gsize       length)
{
  char *valid = g_memdup2 (text, length);
  const char *at = text, *end = text + length;

  while (!g_utf8_validate_len (at, (gsize) (end - at), &at) && at < end)
    {
      gunichar c;

      /* GLib wants no NUL in a text. */
      if (*at != '\0')
        valid[at - text] = '\x7f';
      at += *at == '\0' ? 1 : llm_utf8_get (at, end, &c);
    }
  return valid;
}

void
llm_pretokenizer_split (const LlmPretokenizer *self,
                        const char            *text,
                        gsize                  length,
                        LlmWordFunc            func,
                        gpointer               user_data)
{
  g_autofree char *copy = NULL;
  Split split = { .self = self, .text = text, .valid = text, .func = func,
                  .user_data = user_data };

  if (!g_utf8_validate_len (text, length, NULL))
    split.valid = copy = replace_invalid (text, length);
  split.match = pcre2_match_data_create (1, NULL);
  split.limits = pcre2_match_context_create (NULL);
  split_from_stage (&split, 0, 0, length);
  pcre2_match_context_free (split.limits);
  pcre2_match_data_free (split.match);
}
