/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-loose-text.h"

#include <string.h>

#define SPACES " \n\t"
/* Beside these a model may leave spaces out, or write others. */
#define JOINTS "{}[]<>:,\"\xff\x01\x02"

guint
llm_nfa_add_optional (LlmNfa     *nfa,
                      guint       from,
                      const char *text)
{
  guint to = llm_nfa_add_text (nfa, from, text, strlen (text));

  if (to != from)
    llm_nfa_add_empty (nfa, from, to, LLM_EDGE_FREE);
  return to;
}

/* @low to @high letters or digits, or (@digits) only the latter. */
static guint
add_word (LlmNfa  *nfa,
          guint    from,
          guint    low,
          guint    high,
          gboolean digits)
{
  guint end = llm_nfa_add_state (nfa);

  for (guint i = 0; i < high; i++)
    {
      guint to = llm_nfa_add_state (nfa);

      llm_nfa_add_bytes (nfa, from, '0', '9', to);
      if (!digits)
        {
          llm_nfa_add_bytes (nfa, from, 'A', 'Z', to);
          llm_nfa_add_bytes (nfa, from, 'a', 'z', to);
        }
      if (i + 1 >= low)
        llm_nfa_add_empty (nfa, to, end, LLM_EDGE_FREE);
      from = to;
    }
  return end;
}

guint
llm_nfa_add_loose (LlmNfa     *nfa,
                   guint       from,
                   const char *pattern,
                   gsize       n_exact)
{
  const char *at = pattern + n_exact;

  from = llm_nfa_add_text (nfa, from, pattern, n_exact);
  while (*at != '\0')
    {
      gsize n = strspn (at, SPACES);
      /* a tokenizer may put a space behind a tag */
      gboolean is_behind_tag = at > pattern && strchr (">]", at[-1]) != NULL;

      if (n == 0 && is_behind_tag)
        from = llm_nfa_add_optional (nfa, from, " ");
      if (n > 0)
        {
          gboolean is_loose = at == pattern || at[n] == '\0' || strchr (JOINTS, at[-1]) != NULL
                              || strchr (JOINTS, at[n]) != NULL;
          guint to = llm_nfa_add_text (nfa, from, at, n);

          if (is_loose)
            {
              llm_nfa_add_bytes (nfa, from, ' ', ' ', to);
              llm_nfa_add_empty (nfa, from, to, LLM_EDGE_FREE);
            }
          from = to;
          at += n;
          continue;
        }
      if (*at == LLM_CALL_ID)
        from = add_word (nfa, from, LLM_CALL_ID_LENGTH, LLM_CALL_ID_LENGTH, FALSE);
      else if (*at == LLM_CALL_NUMBER)
        from = add_word (nfa, from, 1, 3, TRUE);
      else
        from = llm_nfa_add_text (nfa, from, at, 1);
      at++;
    }
  if (at > pattern && strchr (">]", at[-1]) != NULL)
    from = llm_nfa_add_optional (nfa, from, " ");
  return from;
}
