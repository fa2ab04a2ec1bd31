/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-repeats.h"

/* A short run so often, and so many tokens of it; or a longer one. */
#define MANY_TIMES 8
#define MANY_TOKENS 48
#define TIMES 3
#define TOKENS 300

gboolean
llm_repeats_push (LlmRepeats   *self,
                  const gint32 *tokens,
                  guint         n_tokens)
{
  gboolean goes_round = FALSE;

  for (guint run = 1; run <= LLM_REPEATS_MAX_RUN && run < n_tokens; run++)
    {
      guint n;

      if (tokens[n_tokens - 1] != tokens[n_tokens - 1 - run])
        {
          self->n_same[run] = 0;
          continue;
        }
      n = ++self->n_same[run] + run;
      goes_round |= (n >= MANY_TIMES * run && n >= MANY_TOKENS) || (n >= TIMES * run && n >= TOKENS);
    }
  return goes_round;
}
