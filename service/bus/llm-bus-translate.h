/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The languages of the callers: what the service says in English is said to each
 * in the language that its option `locale`, its Register() or the service's own
 * environment tells. Translations are read when they are first needed; without
 * one, the English text stays. Names of errors, options and values are the same
 * in all languages. Reference-counted. Main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmBusTranslator LlmBusTranslator;

/**
 * llm_bus_translator_new:
 * @folder: where the translations lie, as LANGUAGE/LC_MESSAGES/llmsvc.mo
 * @fallback: (nullable): the locale of callers that have told none; NULL for English
 */
LlmBusTranslator *llm_bus_translator_new       (const char             *folder,
                                                const char             *fallback);
LlmBusTranslator *llm_bus_translator_ref       (LlmBusTranslator       *self);
void              llm_bus_translator_unref     (LlmBusTranslator       *self);

/**
 * llm_bus_translator_translate:
 * @locale: (nullable): "de_DE.UTF-8", or several by preference, "de_AT:de"; NULL
 *   for the fallback
 * @message: in English
 *
 * Returns: (transfer full): @message in the first of the languages there is a
 *   translation for; as it is when there is none, and from the place of English on
 */
char             *llm_bus_translator_translate (LlmBusTranslator       *self,
                                                const char             *locale,
                                                const char             *message);

/**
 * llm_bus_translator_translate_error:
 *
 * Returns: (transfer full): a copy of @error with its message translated
 */
GError           *llm_bus_translator_translate_error (LlmBusTranslator *self,
                                                      const char       *locale,
                                                      const GError     *error);

/* (transfer full) (nullable): the language of the environment, as gettext() would
 * read it: LC_ALL, LC_MESSAGES or LANG says whether, LANGUAGE may say which. */
char             *llm_bus_translator_guess_locale (void);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmBusTranslator, llm_bus_translator_unref)

G_END_DECLS
