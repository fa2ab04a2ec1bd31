/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The option “thinking”: a word, which may be a level of effort, or a number of tokens. */

#include "engine/calls/llm-engine-calls.h"

static const char *
get_word (const LlmCallOptions *options)
{
  return llm_call_options_get_string (options, LLMSVC_OPTION_THINKING, "auto");
}

LlmThinking
llm_engine_read_thinking (const LlmCallOptions *options)
{
  static const struct
  {
    const char *word;
    LlmThinking thinking;
  } words[] = {
    { "auto", LLM_THINKING_AUTO }, { "low", LLM_THINKING_LOW }, { "medium", LLM_THINKING_MEDIUM },
    { "high", LLM_THINKING_HIGH },
  };
  const char *word = get_word (options);

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_equal (word, words[i].word))
      return words[i].thinking;
  /* without reasoning */
  return g_str_equal (word, "off") || g_str_equal (word, "0") ? LLM_THINKING_OFF
                                                              : LLM_THINKING_ON;
}

guint
llm_engine_read_thinking_budget (const LlmCallOptions *options)
{
  guint64 n;

  if (llm_engine_read_thinking (options) == LLM_THINKING_OFF)
    return 0;
  return g_ascii_string_to_unsigned (get_word (options), 10, 0, G_MAXUINT - 1, &n, NULL)
           ? (guint) n : G_MAXUINT;
}
