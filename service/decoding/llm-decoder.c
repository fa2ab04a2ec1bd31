/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-decoder.h"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

typedef struct
{
  LlmDecoder parent;
  LlmSampler *sampler;   /* (owned) */
  gint32 last;           /* token that was consumed last */
} PlainDecoder;

static void
begin (LlmDecoder   *decoder,
       const gint32 *prompt,
       guint         n_prompt)
{
  PlainDecoder *self = (PlainDecoder *) decoder;

  for (guint i = 0; i < n_prompt; i++)
    llm_sampler_accept (self->sampler, prompt[i]);
}

static guint
propose (LlmDecoder *decoder,
         gint32     *tokens,
         guint       n_max)
{
  tokens[0] = ((PlainDecoder *) decoder)->last;
  return 1;
}

static gint32
consume (LlmDecoder  *decoder,
         const float *logits,
         GError     **error)
{
  PlainDecoder *self = (PlainDecoder *) decoder;

  self->last = llm_sampler_sample (self->sampler, logits);
  if (self->last >= 0)
    llm_sampler_accept (self->sampler, self->last);
  else
    llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
              "The model computed no number at all for the next token: its weights are damaged");
  return self->last;
}

static void
plain_free (LlmDecoder *decoder)
{
  llm_sampler_free (((PlainDecoder *) decoder)->sampler);
  g_free (decoder);
}

LlmDecoder *
llm_decoder_new_plain (const LlmSamplerConfig *config,
                       guint                   n_vocab)
{
  static const LlmDecoderClass class = {
    .begin = begin,
    .propose = propose,
    .consume = consume,
    .free = plain_free,
  };
  PlainDecoder *self = g_new0 (PlainDecoder, 1);

  self->parent = (LlmDecoder) { .class = &class, .n_rows = 1 };
  self->sampler = llm_sampler_new (config, n_vocab);
  return &self->parent;
}

void
llm_decoder_free (LlmDecoder *self)
{
  if (self != NULL)
    self->class->free (self);
}
