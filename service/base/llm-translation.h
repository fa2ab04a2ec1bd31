/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Errors in another language: the format of a message is looked up in a file of
 * translations as msgfmt makes it (.mo), and what was printed into the message is put
 * into the translation. So the service makes its errors without knowing who reads them.
 *
 * The file is read by hand: gettext() speaks the language of the process, and only
 * such as this system has locales for, while the service answers each caller in its
 * own. Nothing in the file is believed, and no format of it is given to printf().
 * Immutable. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmTranslation LlmTranslation;

/**
 * llm_translation_new:
 * @bytes: the content of a file
 *
 * Texts that are damaged or not in UTF-8 are left out.
 *
 * Returns: (transfer full) (nullable): NULL when @bytes is no such file
 */
LlmTranslation *llm_translation_new   (GBytes               *bytes) G_GNUC_WARN_UNUSED_RESULT;
void            llm_translation_free  (LlmTranslation       *self);

/**
 * llm_translation_apply:
 * @error: of any domain; of one without details, the message as a whole is looked up
 *
 * Of what the message is made of, the message of the cause is translated too, and so is a
 * string that is a message with a space in it, unless it is in quotation marks: those are
 * around what came from outside, and a single word is a name.
 *
 * Returns: (transfer full): the message as it is when there is no translation, or one that
 *   asks for an argument that the message does not have
 */
char           *llm_translation_apply (const LlmTranslation *self,
                                       const GError         *error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTranslation, llm_translation_free)

G_END_DECLS
