/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-w8-site.h"

LlmW8Kind
llm_w8_kind_of (LlmOperator op)
{
  switch ((int) op)
    {
    case LLM_OP_QUERY:
    case LLM_OP_KEY:
    case LLM_OP_VALUE:
      return LLM_W8_ATTENTION_INPUT;
    case LLM_OP_ATTENTION_OUT:
      return LLM_W8_ATTENTION_OUTPUT;
    case LLM_OP_FFN_GATE:
    case LLM_OP_FFN_UP:
      return LLM_W8_FFN_INPUT;
    case LLM_OP_FFN_DOWN:
      return LLM_W8_FFN_OUTPUT;
    default:
      return LLM_W8_N_KINDS;
    }
}

const char *
llm_w8_kind_get_name (LlmW8Kind kind)
{
  static const char *const names[LLM_W8_N_KINDS] = {
    "attention-input", "attention-output", "ffn-input", "ffn-output",
  };

  return names[kind];
}

guint
llm_w8_kind_get_size (LlmW8Kind         kind,
                      const LlmHparams *hparams)
{
  switch (kind)
    {
    case LLM_W8_ATTENTION_OUTPUT:
      return hparams->query_width;
    case LLM_W8_FFN_OUTPUT:
      return hparams->n_ff;
    default:
      return hparams->n_embd;
    }
}

guint16 *
llm_w8_cut_hot (const LlmW8Site *site,
                guint            first,
                guint            count,
                guint           *n_hot)
{
  guint16 *hot_of;
  guint n = 0;

  *n_hot = 0;
  if (site->hot_of == NULL)
    return NULL;
  hot_of = g_new0 (guint16, count);
  for (guint i = 0; i < count; i++)
    if (site->hot_of[first + i] != 0)
      hot_of[i] = (guint16) ++n;
  *n_hot = n;
  return hot_of;
}
