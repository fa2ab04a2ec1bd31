/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The language of llmctl's messages. Main thread, before any other. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Takes the locale of the environment, and makes _() of <glib/gi18n.h> find
 * llmctl's translations. */
void        llmctl_i18n_init       (void);

/* (nullable) (transfer none): the language that messages are in, "de" or "de_AT.UTF-8",
 * for the service to answer in; NULL for English as it is written. */
const char *llmctl_i18n_get_locale (void);

G_END_DECLS
