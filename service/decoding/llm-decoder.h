/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How the tokens of an answer are chosen. The runtime asks a decoder for the rows of the next step,
 * gives it the logits of these rows, and tells it how many stay in the KV cache:
 *
 *   begin (prompt); consume (logits of the prompt's last row) → the first token;
 *   then for each step: propose → rows; consume (logits of each row, in order) → the token that
 *   follows it; as long as that is the token of the next row, that row is valid, too; commit (n).
 *
 * The first proposed token is the one that was consumed last; further ones are guesses. A decoder
 * belongs to one request: made on the main thread, used by the executor's only, freed by either.
 */

#pragma once

#include <gio/gio.h>

#include "decoding/llm-sampler.h"

G_BEGIN_DECLS

typedef struct _LlmDecoder LlmDecoder;

typedef struct
{
  /* Called once, before all else. */
  void     (*begin)      (LlmDecoder   *self,
                          const gint32 *prompt,
                          guint         n_prompt);
  /* Fills in up to @n_max tokens, a chain: each is computed as if it followed those before it.
   * Returns how many, at least 1. */
  guint    (*propose)    (LlmDecoder   *self,
                          gint32       *tokens,
                          guint         n_max);
  /* The token that follows the row with these @logits (n_vocab floats); it is part of the answer
   * now. -1 with @error set when there is none. */
  gint32   (*consume)    (LlmDecoder   *self,
                          const float  *logits,
                          GError      **error);
  /* (nullable): of the proposed rows the first @n stay. */
  void     (*commit)     (LlmDecoder   *self,
                          guint         n);
  /* (nullable): µs from now until the next step may begin; G_MAXINT64: it never does. */
  gint64   (*get_delay)  (LlmDecoder   *self);
  /* (nullable): whether text so far waits for further tokens before it is sent. */
  gboolean (*holds_text) (LlmDecoder   *self);
  void     (*free)       (LlmDecoder   *self);
} LlmDecoderClass;

struct _LlmDecoder
{
  const LlmDecoderClass *class;
  guint n_rows;          /* that it would propose for a step; at least 1 */
};

/* One row a step; its token is drawn by a sampler for @n_vocab tokens. */
LlmDecoder *llm_decoder_new_plain (const LlmSamplerConfig *config,
                                   guint                   n_vocab);
/* Does nothing with NULL. */
void        llm_decoder_free      (LlmDecoder             *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDecoder, llm_decoder_free)

G_END_DECLS
