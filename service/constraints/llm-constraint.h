/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a grammar allows next in one answer. It follows the tokens of the answer one by one, and
 * can go back, for drafts that are refused: the state behind each token is kept. Owned by one
 * decoder; one thread at a time. What is compiled of the grammar is shared.
 */

#pragma once

#include "constraints/llm-mask.h"

G_BEGIN_DECLS

typedef struct _LlmConstraint LlmConstraint;

/* @skips_space: one space at the very start of the answer is not part of its text (what
 * llm_text_stream_new() calls strip_leading_space). */
LlmConstraint *llm_constraint_new          (LlmMaskTable        *table,
                                            gboolean             skips_space);
/* (transfer full): one that has seen the same tokens. */
LlmConstraint *llm_constraint_copy         (const LlmConstraint *self);
void           llm_constraint_free         (LlmConstraint       *self);

/* 64-bit words of a mask: a bit per token of the vocabulary. */
guint          llm_constraint_get_n_words  (const LlmConstraint *self);
/* Sets in @bits exactly the tokens that may come next: those with which the text can still be
 * completed, and, where it is complete, those that end an answer. */
void           llm_constraint_compute_mask (LlmConstraint       *self,
                                            guint64             *bits);
/* Goes on with @token. Returns FALSE, and stays where it is, if that is not allowed. */
gboolean       llm_constraint_accept       (LlmConstraint       *self,
                                            gint32               token);
/* Takes back the last @n tokens that were accepted. */
void           llm_constraint_rollback     (LlmConstraint       *self,
                                            guint                n);
/* Tokens accepted so far. */
guint          llm_constraint_get_n        (const LlmConstraint *self);
/* Whether the text so far is complete. */
gboolean       llm_constraint_can_end      (const LlmConstraint *self);

/* Bytes of the shortest text that completes it; 0 behind a token that ends the answer. */
guint          llm_constraint_get_min_bytes (const LlmConstraint *self);
/* Clears in @bits the tokens after which more than @max_bytes are needed to complete the text.
 * Returns whether one remains; else @bits stay as they are. */
gboolean       llm_constraint_limit_mask   (LlmConstraint       *self,
                                            guint64             *bits,
                                            guint                max_bytes);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmConstraint, llm_constraint_free)

G_END_DECLS
