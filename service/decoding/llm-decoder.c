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

  /* of one whose model may reason */
  LlmReasoning *reasoning; /* (nullable) (unowned) */
  GArray *forced;        /* (nullable) (owned) (element-type gint32): tokens to come, from @at on */
  guint at;
  gboolean has_spaces;   /* behind the mark that ends reasoning */
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

/* --- reasoning --- */

/* The next planned token; -1: none. */
static gint32
take_forced (PlainDecoder *self)
{
  if (self->at < self->forced->len)
    return g_array_index (self->forced, gint32, self->at++);
  g_array_set_size (self->forced, 0);
  self->at = 0;
  return -1;
}

static gint32
close_reasoning (PlainDecoder *self)
{
  self->has_spaces = TRUE;
  llm_reasoning_add_closing (self->reasoning, self->forced);
  return take_forced (self);
}

/* Whether the constrained answer would not fit any more if the reasoning went on. Where the answer
 * may be empty, as where it may call tools, it may also be cut before it begins. */
static gboolean
needs_room (PlainDecoder *self)
{
  return self->constraint != NULL && llm_constraint_get_min_bytes (self->constraint) > 0
         && self->max_tokens <= llm_reasoning_get_n_closing (self->reasoning) * 2
                                  + llm_constraint_get_min_bytes (self->constraint) + 1;
}

static gint32
think (PlainDecoder *self,
       const float  *logits)
{
  gint32 token;

  if (llm_reasoning_is_spent (self->reasoning) || needs_room (self))
    return close_reasoning (self);
  token = llm_sampler_sample (self->sampler, logits);
  if (token >= 0
      && (llm_reasoning_ends_answer (self->reasoning, token)
          || (self->constraint != NULL && llm_reasoning_spoils (self->reasoning, token))))
    return close_reasoning (self);
  return token;
}

/* The first token of a constrained answer, where the model may think before: its free choice shows
 * whether it would. Returns -1 if not. */
static gint32
open_reasoning (PlainDecoder *self,
                const float  *logits)
{
  gboolean is_whole = FALSE;
  gint32 token;

  if (llm_reasoning_is_spent (self->reasoning) || needs_room (self))
    return -1;
  token = llm_sampler_sample (self->sampler, logits);
  if (token < 0 || !llm_reasoning_begins (self->reasoning, token, &is_whole))
    return -1;
  if (!is_whole && llm_constraint_accept (self->constraint, token))
    {
      llm_constraint_rollback (self->constraint, 1);
      return -1;
    }
  llm_reasoning_add_opening (self->reasoning, self->forced);
  return take_forced (self);
}

/* A token before the answer; -1 if the answer begins. */
static gint32
choose_before_answer (PlainDecoder *self,
                      const float  *logits)
{
  gint32 token = take_forced (self);

  if (token >= 0)
    return token;
  switch (llm_reasoning_get_thought (self->reasoning))
    {
    case LLM_THOUGHT_INSIDE:
      return think (self, logits);
    case LLM_THOUGHT_BEGIN:
      return self->constraint != NULL ? open_reasoning (self, logits) : -1;
    case LLM_THOUGHT_OVER:
    default:
      if (self->constraint == NULL || self->has_spaces)
        return -1;
      self->has_spaces = TRUE;
      llm_reasoning_add_spaces (self->reasoning, self->forced);
      return take_forced (self);
    }
}

static gint32
choose (PlainDecoder *self,
        const float  *logits)
{
  gint32 token = -1;

  if (self->reasoning != NULL
      && (self->at < self->forced->len || !llm_reasoning_is_over (self->reasoning)))
    token = choose_before_answer (self, logits);
  if (token >= 0)
    {
      self->max_tokens -= MIN (self->max_tokens, 1);
      return token;
    }
  if (self->constraint == NULL)
    return llm_sampler_sample (self->sampler, logits);
  if (self->reasoning != NULL)
    llm_reasoning_begin_answer (self->reasoning);
  return sample_constrained (self, logits);
}

static gint32
consume (LlmDecoder  *decoder,
         const float *logits,
         GError     **error)
{
  PlainDecoder *self = (PlainDecoder *) decoder;

  self->last = choose (self, logits);
  if (self->last >= 0)
    llm_sampler_accept (self->sampler, self->last);
  else if (llm_sampler_sample (self->sampler, logits) < 0)
    llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
              "The model computed no number at all for the next token: its weights are damaged");
  else
    llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
              "The answer can't go on: what it is held to allows no token of the model here, or can be "
              "read in more than %u ways; a grammar with fewer alternatives for the same text helps",
              LLM_MAX_THREADS);
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
  g_clear_pointer (&self->forced, g_array_unref);
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
llm_decoder_set_reasoning (LlmDecoder   *decoder,
                           LlmReasoning *reasoning)
{
  PlainDecoder *self = (PlainDecoder *) decoder;

  self->reasoning = reasoning;
  self->forced = g_array_new (FALSE, FALSE, sizeof (gint32));
}

void
llm_decoder_free (LlmDecoder *self)
{
  if (self != NULL)
    self->class->free (self);
}
