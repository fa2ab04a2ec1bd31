/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Checksums of what the context database holds, as columns beside it: SQLite
 * notices a page that is no page, but not a bit that flipped in a text. Any
 * thread.
 */

#pragma once

#include "contexts/llm-context-store.h"

G_BEGIN_DECLS

/* Of user and application: whose the context is. */
gint64 llm_checksum_of_owner   (const LlmStoredContext *context);
/* Of the rest of its row. */
gint64 llm_checksum_of_context (const LlmStoredContext *context);
/* Of what a turn says; @results (nullable) and @extras (element-type utf8), those of its messages,
 * as they are stored. */
gint64 llm_checksum_of_turn    (const char             *context,
                                gint64                  number,
                                const LlmTurn          *turn,
                                const char             *results,
                                const GPtrArray        *extras);
/* Of the tokens of a turn, which can be made again from what it says. */
gint64 llm_checksum_of_tokens  (const char             *context,
                                gint64                  number,
                                const LlmTurn          *turn);

G_END_DECLS
