/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * When a window slides, and how far (L11): the chunks with the system message stay, at least the
 * first one as the attention sink, and the tokens after them are removed, a quarter of the window
 * at a time, so that it is rare and not much is lost. Pure functions.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Slots at the beginning that stay: whole chunks, with the first @n_system tokens in them. */
guint    llm_window_get_sinks   (guint n_system,
                                 guint chunk_slots);
/* Whether a window of @n_ctx slots is large enough to slide after @n_sinks: they take no more than
 * half of it, so that at least a quarter is left for the newest tokens. */
gboolean llm_window_is_possible (guint n_ctx,
                                 guint n_sinks,
                                 guint chunk_slots);
/* How many tokens after the sinks have slid away when a context has @n_tokens: 0 while they fit. It
 * depends on the number of tokens only, so a context that is prefilled again shows the model the
 * same tokens as before. */
guint    llm_window_get_n_slid  (guint n_tokens,
                                 guint n_ctx,
                                 guint chunk_slots);

G_END_DECLS
