/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Checksums of what the context database holds, as columns beside it: SQLite
 * notices a page that is no page, but not a bit that flipped in a text. Any
 * thread.
 */

#pragma once

#include "contexts/llm-context-store.h"

G_BEGIN_DECLS

typedef struct _LlmChecksum LlmChecksum;

LlmChecksum *llm_checksum_new        (void);
/* @string: (nullable): NULL is not the same as empty */
void         llm_checksum_add_string (LlmChecksum *self,
                                      const char  *string);
void         llm_checksum_add_number (LlmChecksum *self,
                                      gint64       number);
/* Frees @self. */
gint64       llm_checksum_end        (LlmChecksum *self);

/* Of user and application: whose the context is. */
gint64       llm_checksum_of_owner   (const LlmStoredContext *context);
/* Of the rest of its row. */
gint64       llm_checksum_of_context (const LlmStoredContext *context);
/* Of what a turn says, begun: then come role, text and extras of each of its messages. */
LlmChecksum *llm_checksum_begin_turn (const char             *context,
                                      gint64                  number,
                                      const LlmTurn          *turn,
                                      const char             *results);
/* Of the tokens of a turn, which can be made again from what it says. */
gint64       llm_checksum_of_tokens  (const char             *context,
                                      gint64                  number,
                                      const LlmTurn          *turn);

void         llm_checksum_free       (LlmChecksum            *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmChecksum, llm_checksum_free)

G_END_DECLS
