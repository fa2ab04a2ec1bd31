/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * When a window slides, and how far (L11): the first chunk stays as the attention's sink, and what
 * comes behind it goes, a quarter of the window at a time, so that it is rare and what is thrown
 * away is not much. Pure functions.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Whether a window of @n_ctx slots is large enough to slide. */
gboolean llm_window_is_possible (guint n_ctx,
                                 guint chunk_slots);
/* Slots at the beginning that stay. */
guint    llm_window_get_sinks   (guint chunk_slots);
/* How many tokens behind the sinks have slid away when a context has @n_tokens: 0 while they fit.
 * It depends only on how many there are, so a context that is read anew shows the model what it saw
 * before. */
guint    llm_window_get_n_slid  (guint n_tokens,
                                 guint n_ctx,
                                 guint chunk_slots);

G_END_DECLS
