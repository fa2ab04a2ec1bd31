/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Checks of the texts that a call brings, before the engine sees them: roles,
 * extras and sizes. Any thread.
 */

#pragma once

#include <glib.h>

#include "common/llm-call-options.h"

G_BEGIN_DECLS

/**
 * llm_bus_messages_check:
 * @messages: (nullable): `a(ssa{sv})`
 * @prompt: (nullable): another text of the call
 * @options: (nullable): whose `system` and `messages` count too
 * @limit: bytes of text that one call may bring
 *
 * Every role must be known, no message may have content beside its text (UNSUPPORTED), and all text
 * together be no longer than @limit.
 */
gboolean llm_bus_messages_check (GVariant            *messages,
                                 const char          *prompt,
                                 const LlmCallOptions *options,
                                 guint64              limit,
                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;

/* A name of a context that comes as an argument, by the rule of the option `name`. */
gboolean llm_bus_name_check     (const char          *name,
                                 GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
