/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How the tokens of an answer are chosen. The runtime asks a decoder for the rows of the next step
 * and gives it the logits of those that turn out to be valid:
 *
 *   begin (prompt); consume (logits of the prompt's last row) → the first token;
 *   then for each step: draft; propose → a tree of rows; consume (logits of its root) → the token
 *   that follows; while the row at hand has a child with that token, consume (logits of the child).
 *
 * The root is the token that was consumed last; further nodes are guesses. So each token is chosen
 * by the same function of the same logits in the same order, whatever was guessed: a guess never
 * changes the text (C5). A step may be abandoned, and its tree proposed again. A decoder belongs to
 * one request: made on the main thread, used by the executor's only, freed by either.
 */

#pragma once

#include <gio/gio.h>

#include "constraints/llm-constraint.h"
#include "decoding/draft/llm-draft-growth.h"
#include "decoding/llm-reasoning.h"
#include "decoding/llm-sampler.h"

G_BEGIN_DECLS

typedef struct _LlmDecoder LlmDecoder;

typedef struct
{
  /* Called once, before all else. */
  void     (*begin)      (LlmDecoder   *self,
                          const gint32 *prompt,
                          guint         n_prompt);
  /* (nullable): goes on with the guesses for the next step, by what it costs, and sets n_rows; may
   * be called again before the step. */
  void     (*draft)      (LlmDecoder          *self,
                          const LlmDraftCosts *costs);
  /* (nullable): while the step with its rows waits, which drafting has held up by @late_us so far:
   * goes on with guesses for the step after it (C7), for about a millisecond. FALSE when there is
   * nothing to do, or not enough time. */
  gboolean (*draft_ahead) (LlmDecoder  *self,
                          double        late_us);
  /* The rows of the next step, within the limits of @tree. */
  void     (*propose)    (LlmDecoder   *self,
                          LlmDraftTree *tree);
  /* The token that follows the row with these @logits (n_vocab floats); it is part of the answer
   * now. -1 with @error set when none is possible. */
  gint32   (*consume)    (LlmDecoder   *self,
                          const float  *logits,
                          GError      **error);
  /* (nullable): µs from now until the next step may begin; G_MAXINT64: it never does. */
  gint64   (*get_delay)  (LlmDecoder   *self);
  /* (nullable): whether text so far waits for further tokens before it is sent. */
  gboolean (*holds_text) (LlmDecoder   *self);
  /* (nullable): the call is preempted, or ends: gives back what of its KV cache it uses. */
  void     (*release)    (LlmDecoder   *self);
  void     (*free)       (LlmDecoder   *self);
} LlmDecoderClass;

struct _LlmDecoder
{
  const LlmDecoderClass *class;
  guint n_rows;          /* that it would propose for the next step; at least 1 */
  guint n_kept;          /* of those that it proposed last: guessed while the step before waited */
};

/* One row a step; its token is drawn by a sampler for @n_vocab tokens. */
LlmDecoder *llm_decoder_new_plain (const LlmSamplerConfig *config,
                                   guint                   n_vocab);
/* The same with @constraint (transfer full): its masks are applied before the sampler. Towards the
 * end of @max_tokens, the one that ends the answer included, it takes the shortest way to a valid
 * end, if the shortest text has fewer bytes than tokens are left. */
LlmDecoder *llm_decoder_new_constrained (const LlmSamplerConfig *config,
                                   guint                   n_vocab,
                                   LlmConstraint          *constraint,
                                   guint                   max_tokens);
/* Of one of these two, before it begins: its output may begin with reasoning, which follows the
 * tokens and outlives the decoder. The decoder ends reasoning that has used up its limit, and where
 * the model would end its answer within it; the constraint applies only to what follows. */
void        llm_decoder_set_reasoning (LlmDecoder         *self,
                                       LlmReasoning       *reasoning);
/* Does nothing with NULL. */
void        llm_decoder_free      (LlmDecoder             *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDecoder, llm_decoder_free)

G_END_DECLS
