/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The languages of the callers: what the service says in English is said to each
 * in the language that its option `locale`, its Register() or the service's own
 * environment tells. Translations are read when they are first needed and kept for
 * the process; without one, the English text stays. Names of errors, options and
 * values are the same in all languages. Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Callers who have told no locale get that of the environment, as gettext() would read it: LC_ALL,
 * LC_MESSAGES or LANG says whether, LANGUAGE may say which. Before, they get English. */
void  llm_bus_translate_use_environment (void);

/**
 * llm_bus_translate:
 * @locale: (nullable): "de_DE.UTF-8", or several by preference, "de_AT:de"; NULL
 *   for the environment's
 *
 * Returns: (transfer full): the message of @error in the first of the languages there is
 *   a translation for; as it is when there is none, and from the place of English on
 */
char *llm_bus_translate                 (const char   *locale,
                                         const GError *error);

G_END_DECLS
