/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * When a window slides, and how far (L11): the chunks with the system message stay, at least the
 * first one as the attention's sink, and what comes behind them goes, a quarter of the window at a
 * time, so that it is rare and what is thrown away is not much. Pure functions.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Slots at the beginning that stay: whole chunks, with the first @n_system tokens in them. */
guint    llm_window_get_sinks   (guint n_system,
                                 guint chunk_slots);
/* Whether a window of @n_ctx slots is large enough to slide behind @n_sinks: they take no more than
 * half of it, so that at least a quarter is left of what is newest. */
gboolean llm_window_is_possible (guint n_ctx,
                                 guint n_sinks,
                                 guint chunk_slots);
/* How many tokens behind the sinks have slid away when a context has @n_tokens: 0 while they fit.
 * It depends only on how many there are, so a context that is read anew shows the model what it saw
 * before. */
guint    llm_window_get_n_slid  (guint n_tokens,
                                 guint n_ctx,
                                 guint chunk_slots);

G_END_DECLS
