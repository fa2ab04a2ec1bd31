/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The model of a service that answers from a script: a GGUF file made in memory,
 * as small as one can be, with weights of zero. All of the service works with it
 * as with any other; what it would choose to say is never asked. Each byte of
 * text is one token, whose id is the byte; templates write ChatML. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (transfer full): the file, the same bytes each time. @n_ctx: its context length */
GBytes *llm_mock_model_new (guint n_ctx);

G_END_DECLS
