/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The languages of the callers: English messages of the service are translated for each caller into
 * the language of its option `locale`, its Register() or the service's environment. Translations
 * are read when they are first needed and kept for the process; without one, the English text
 * stays. Names of errors, options and values are the same in all languages. Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Callers without a locale get that of the environment, as gettext() would read it: LC_ALL,
 * LC_MESSAGES or LANG says whether, LANGUAGE may say which. Before this call, they get English. */
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
