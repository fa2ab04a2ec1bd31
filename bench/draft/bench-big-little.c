/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "draft/bench-big-little.h"

#include <math.h>

#include "decoding/draft/llm-draft-decoder.h"

/* --- the small model, as long as it is sure --- */

typedef struct
{
  LlmDraftSource parent;
  LlmDraftSource *little;  /* (owned) */
  double fallback;
} SureSource;

static void
source_begin (LlmDraftSource *source,
              const gint32   *prompt,
              guint           n_prompt)
{
  SureSource *self = (SureSource *) source;

  self->little->class->begin (self->little, prompt, n_prompt);
}

static void
source_accept (LlmDraftSource *source,
               gint32          token)
{
  SureSource *self = (SureSource *) source;

  self->little->class->accept (self->little, token);
}

static LlmStatus
source_expand (LlmDraftSource       *source,
               const LlmDraftGrowth *growth,
               guint                 node,
               LlmDraftCandidate    *candidates,
               guint                *n)
{
  SureSource *self = (SureSource *) source;
  LlmStatus status = self->little->class->expand (self->little, growth, node, candidates, n);

  source->step_us = self->little->step_us;
  if (status == LLM_READY && *n > 0 && candidates[0].confidence < self->fallback)
    *n = 0;
  return status;
}

static void
source_free (LlmDraftSource *source)
{
  SureSource *self = (SureSource *) source;

  self->little->class->free (self->little);
  g_free (self);
}

/* --- the large one, which takes what is likely enough --- */

typedef struct
{
  LlmDecoder parent;
  LlmDraftTree tree;       /* under way */
  guint node;              /* of it, whose logits come next */
  gint32 last;
  double rollback;
  guint n_vocab;
} Judge;

static void
judge_begin (LlmDecoder   *decoder,
             const gint32 *prompt,
             guint         n_prompt)
{
}

static void
judge_propose (LlmDecoder   *decoder,
               LlmDraftTree *tree)
{
  llm_draft_tree_begin (tree, ((Judge *) decoder)->last);
}

static gint32
judge_consume (LlmDecoder  *decoder,
               const float *logits,
               GError     **error)
{
  Judge *self = (Judge *) decoder;
  guint child = self->node + 1 < self->tree.n ? self->node + 1 : LLM_DRAFT_NONE;
  guint best = 0;
  double sum = 0;

  for (guint i = 1; i < self->n_vocab; i++)
    if (logits[i] > logits[best])
      best = i;
  for (guint i = 0; i < self->n_vocab; i++)
    sum += exp ((double) logits[i] - logits[best]);
  self->last = (gint32) best;
  if (child != LLM_DRAFT_NONE
      && logits[best] + log (sum) - logits[self->tree.tokens[child]] <= self->rollback)
    self->last = self->tree.tokens[child];
  self->node = child;
  return self->last;
}

static void
judge_free (LlmDecoder *decoder)
{
  g_free (decoder);
}

/* --- both --- */

typedef struct
{
  LlmDecoder parent;
  LlmDecoder *drafting;    /* (owned): whose chooser is the judge */
  Judge *judge;
} BigLittle;

static void
begin (LlmDecoder   *decoder,
       const gint32 *prompt,
       guint         n_prompt)
{
  BigLittle *self = (BigLittle *) decoder;

  self->drafting->class->begin (self->drafting, prompt, n_prompt);
}

static void
draft (LlmDecoder          *decoder,
       const LlmDraftCosts *costs)
{
  BigLittle *self = (BigLittle *) decoder;

  self->drafting->class->draft (self->drafting, costs);
  decoder->n_rows = self->drafting->n_rows;
}

static void
propose (LlmDecoder   *decoder,
         LlmDraftTree *tree)
{
  BigLittle *self = (BigLittle *) decoder;

  self->drafting->class->propose (self->drafting, tree);
  self->judge->tree = *tree;
  self->judge->node = 0;
}

static gint32
consume (LlmDecoder  *decoder,
         const float *logits,
         GError     **error)
{
  BigLittle *self = (BigLittle *) decoder;

  return self->drafting->class->consume (self->drafting, logits, error);
}

static void
big_little_free (LlmDecoder *decoder)
{
  llm_decoder_free (((BigLittle *) decoder)->drafting);
  g_free (decoder);
}

LlmDecoder *
bench_big_little_new (LlmDraftSource        *little,
                      const LlmGrowthConfig *growth,
                      double                 fallback,
                      double                 rollback,
                      guint                  n_vocab)
{
  static const LlmDraftSourceClass source_class = {
    .begin = source_begin, .accept = source_accept, .expand = source_expand, .free = source_free,
  };
  static const LlmDecoderClass judge_class = {
    .begin = judge_begin, .propose = judge_propose, .consume = judge_consume, .free = judge_free,
  };
  static const LlmDecoderClass class = {
    .begin = begin, .draft = draft, .propose = propose, .consume = consume, .free = big_little_free,
  };
  SureSource *source = g_new0 (SureSource, 1);
  BigLittle *self = g_new0 (BigLittle, 1);

  source->parent = (LlmDraftSource) { .class = &source_class, .step_us = little->step_us };
  source->little = little;
  source->fallback = fallback;
  self->judge = g_new0 (Judge, 1);
  self->judge->parent = (LlmDecoder) { .class = &judge_class, .n_rows = 1 };
  self->judge->rollback = rollback;
  self->judge->n_vocab = n_vocab;
  self->drafting = llm_decoder_new_drafting (&self->judge->parent, &source->parent, growth, NULL);
  self->parent = (LlmDecoder) { .class = &class, .n_rows = 1 };
  return &self->parent;
}
