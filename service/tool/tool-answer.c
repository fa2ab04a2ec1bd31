/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool-answer.h"

#include "decoding/llm-sampler.h"
#include "decoding/llm-text-stream.h"

typedef struct
{
  LlmSampler *sampler;
  gint32 token;
} Choice;

static void
choose (guint        slot,
        const float *logits,
        gpointer     data)
{
  Choice *choice = data;

  choice->token = llm_sampler_sample (choice->sampler, logits);
}

gboolean
tool_answer (ToolModel *model,
             LlmKvSeq  *seq,
             GArray    *tokens,
             guint      n_most,
             GString   *text,
             GError   **error)
{
  const LlmSamplerConfig greedy = { .top_p = 1, .repeat_penalty = 1 };
  g_autoptr(LlmSampler) sampler = llm_sampler_new (&greedy, model->hparams->n_vocab);
  g_autoptr(LlmTextStream) stream = llm_text_stream_new (model->tokenizer, NULL, TRUE);
  Choice choice = { sampler, -1 };
  LlmMeasureKind kind = LLM_MEASURE_PROMPT;
  gboolean is_done = TRUE;
  LlmKvPlan plan;

  if (!llm_kv_seq_begin_call (seq, tokens->len - seq->length + n_most,
                              &plan, error))
    return FALSE;

  for (guint n = 0; n < n_most; n++)
    {
      is_done = llm_measure_rows (model->forward, seq, tool_model_tokens (tokens), tokens->len,
                                  kind, tokens->len - 1, choose, &choice, error);
      if (!is_done || choice.token < 0 ||
          llm_tokenizer_ends_answer (model->tokenizer, choice.token))
        break;

      llm_text_stream_push (stream, choice.token, text);
      g_array_append_val (tokens, choice.token);
      kind = LLM_MEASURE_ANSWER;
    }
  llm_text_stream_finish (stream, text);
  llm_measure_end (model->store, seq, tool_model_tokens (tokens));
  return is_done;
}
