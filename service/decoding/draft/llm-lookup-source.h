/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Guesses from the context's own text (C9): what followed earlier where the same tokens stood
 * before it. How often that was right, by how many tokens were the same, is learned from every
 * token of the answer, guessed or not.
 */

#pragma once

#include "decoding/draft/llm-draft-source.h"

G_BEGIN_DECLS

LlmDraftSource *llm_lookup_source_new (void);

G_END_DECLS
