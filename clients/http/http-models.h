/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The models, as OpenAI's API lists them. Main thread. */

#pragma once

#include <libsoup/soup.h>
#include <llmsvc.h>

G_BEGIN_DECLS

/* Replies to /v1/models, /v1/models/ID and /health. */
void     http_models_reply (SoupServerMessage *message,
                            LlmsvcClient      *client,
                            const char        *path);
/* Whether a request for @name (nullable) can be answered: the model in use answers. */
gboolean http_models_check (LlmsvcClient      *client,
                            const char        *name,
                            GError           **error);

G_END_DECLS
