/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A decoder with guesses: another decoder chooses the tokens, a source says what they may be, and
 * the tree of guesses grows by its rule. The text is the other decoder's own (C1, C5).
 */

#pragma once

#include "decoding/draft/llm-draft-source.h"
#include "decoding/llm-decoder.h"

G_BEGIN_DECLS

/* @chooser: (transfer full): proposes a row a step. @source: (transfer full). @config: copied.
 * @record: (nullable): what is known of the source for this model; referred to. */
LlmDecoder *llm_decoder_new_drafting (LlmDecoder            *chooser,
                                      LlmDraftSource        *source,
                                      const LlmGrowthConfig *config,
                                      LlmDraftRecord        *record);

G_END_DECLS
