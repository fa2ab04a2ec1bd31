/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-decoder.h"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

typedef struct
{
  LlmDecoder parent;
  LlmSampler *sampler;   /* (owned) */
  gint32 last;           /* token that was consumed last */

  /* of a constrained one */
  LlmConstraint *constraint; /* (nullable) (owned) */
  guint n_vocab;
  guint max_tokens;
  guint64 *mask;         /* (owned) a bit per token of the vocabulary, in words */
  float *masked;         /* (owned) [n_vocab]: logits */
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

static void
propose (LlmDecoder   *decoder,
         LlmDraftTree *tree)
{
  llm_draft_tree_begin (tree, ((PlainDecoder *) decoder)->last);
}

/* @logits, and minus infinity for what the mask leaves out. */
static const float *
mask_logits (PlainDecoder *self,
             const float  *logits)
{
  guint n_words = llm_constraint_get_n_words (self->constraint);

  for (guint i = 0; i < self->n_vocab; i += 64)
    {
      guint n = MIN (64, self->n_vocab - i);
      guint64 word = i / 64 < n_words ? self->mask[i / 64] : 0;

      if (word == G_MAXUINT64)
        {
          memcpy (self->masked + i, logits + i, n * sizeof *logits);
          continue;
        }
      for (guint k = 0; k < n; k++)
        self->masked[i + k] = (word >> k & 1) != 0 ? logits[i + k] : -INFINITY;
    }
  return self->masked;
}

/* Whether a valid end is still within reach behind the token that was accepted last: the byte
 * tokens of the shortest text, and the one that ends the answer. */
static gboolean
is_within_reach (PlainDecoder *self)
{
  guint n = llm_constraint_get_n (self->constraint);

  return llm_constraint_get_min_bytes (self->constraint)
         < self->max_tokens - MIN (n, self->max_tokens);
}

static gint32
sample_constrained (PlainDecoder *self,
                    const float  *logits)
{
  gboolean can_reach = is_within_reach (self);
  guint n = llm_constraint_get_n (self->constraint) + 1;
  gint32 token;

  llm_constraint_compute_mask (self->constraint, self->mask);
  token = llm_sampler_sample (self->sampler, mask_logits (self, logits));
  if (token < 0 || !llm_constraint_accept (self->constraint, token))
    return -1;
  if (!can_reach || is_within_reach (self) || n >= self->max_tokens)
    return token;

  /* too far: of what the mask leaves, what is not */
  llm_constraint_rollback (self->constraint, 1);
  if (llm_constraint_limit_mask (self->constraint, self->mask, self->max_tokens - n - 1))
    token = llm_sampler_sample (self->sampler, mask_logits (self, logits));
  return token >= 0 && llm_constraint_accept (self->constraint, token) ? token : -1;
}

static gint32
consume (LlmDecoder  *decoder,
         const float *logits,
         GError     **error)
{
  PlainDecoder *self = (PlainDecoder *) decoder;

  self->last = self->constraint != NULL ? sample_constrained (self, logits)
                                        : llm_sampler_sample (self->sampler, logits);
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
  PlainDecoder *self = (PlainDecoder *) decoder;

  llm_sampler_free (self->sampler);
  llm_constraint_free (self->constraint);
  g_free (self->mask);
  g_free (self->masked);
  g_free (self);
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

LlmDecoder *
llm_decoder_new_constrained (const LlmSamplerConfig *config,
                             guint                   n_vocab,
                             LlmConstraint          *constraint,
                             guint                   max_tokens)
{
  LlmDecoder *decoder = llm_decoder_new_plain (config, n_vocab);
  PlainDecoder *self = (PlainDecoder *) decoder;

  self->constraint = constraint;
  self->n_vocab = n_vocab;
  self->max_tokens = max_tokens;
  self->mask = g_new (guint64, llm_constraint_get_n_words (constraint));
  self->masked = g_new (float, n_vocab);
  return decoder;
}

void
llm_decoder_free (LlmDecoder *self)
{
  if (self != NULL)
    self->class->free (self);
}
