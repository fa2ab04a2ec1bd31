/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * From logits to a token. Steps, in this order: logit bias, penalties over the
 * last LLM_SAMPLER_PENALTY_WINDOW tokens, then greedy, or top-k, top-p, min-p,
 * temperature and a draw. The random numbers depend on the seed and on how many
 * tokens were drawn before, on nothing else. One generation owns it.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define LLM_SAMPLER_PENALTY_WINDOW 64

typedef struct
{
  gint32 token;
  float bias;
} LlmLogitBias;

typedef struct
{
  float temperature;        /* 0: greedy */
  guint top_k;              /* 0: all */
  float top_p;              /* 1: all */
  float min_p;              /* 0: all */
  float repeat_penalty;     /* 1: none; positive logits are divided, negative multiplied */
  float frequency_penalty;  /* 0: none; times the count */
  float presence_penalty;   /* 0: none */
  guint64 seed;
  const LlmLogitBias *bias; /* copied */
  guint n_bias;
} LlmSamplerConfig;

typedef struct _LlmSampler LlmSampler;

LlmSampler *llm_sampler_new    (const LlmSamplerConfig *config,
                                guint                   n_vocab);
void        llm_sampler_free   (LlmSampler  *self);
/* Counts a token of the prompt or of the answer for the penalties. */
void        llm_sampler_accept (LlmSampler  *self,
                                gint32       token);
/* Chooses; does not accept. @logits: n_vocab floats, left as they are. Ties go
 * to the lower id. NaN counts as minus infinity; -1 when every logit is. */
gint32      llm_sampler_sample (LlmSampler  *self,
                                const float *logits);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmSampler, llm_sampler_free)

G_END_DECLS
