/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What was meant by a word that is unknown. Any thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (nullable): the one of @candidates (NULL-terminated) that @word was probably meant to be. */
const char *llmctl_suggest (const char        *word,
                            const char *const *candidates);

G_END_DECLS
