/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The big–little decoder (Kim et al., 2023, “Speculative Decoding with Big Little Decoder”), to be
 * compared with: the small model writes on as long as it is sure of each token, then the large one
 * looks at what was written, goes back to the first token that it finds too unlikely and writes
 * that one itself. Unlike with guesses, the text is neither's.
 */

#pragma once

#include "decoding/draft/llm-draft-source.h"
#include "decoding/llm-decoder.h"

G_BEGIN_DECLS

/* @little: (transfer full). @fallback: the least probability with which it goes on. @rollback: the
 * most that a token may cost the large model, -ln of its probability. @growth: a chain, copied. */
LlmDecoder *bench_big_little_new (LlmDraftSource        *little,
                                  const LlmGrowthConfig *growth,
                                  double                 fallback,
                                  double                 rollback,
                                  guint                  n_vocab);

G_END_DECLS
