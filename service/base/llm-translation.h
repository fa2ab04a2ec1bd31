/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Translates messages that are made already: finds the format which a message was
 * made with, by what is fixed in it, and puts the variable parts into the format's
 * translation. So the service makes its errors without knowing who will read them.
 * What is no message of the translation stays as it is.
 *
 * Formats and translations come from a file as msgfmt makes it (.mo), read by hand:
 * gettext() speaks the language of the process, and only such as this system has
 * locales for, while the service answers each caller in its own. Nothing in the file
 * is believed, and no format of it is given to printf(). Immutable. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmTranslation LlmTranslation;

/**
 * llm_translation_new:
 * @bytes: the content of a file
 *
 * Takes the messages that have neither a context nor a plural: the messages of the
 * service have none. One that is damaged is left out, and so is one without a
 * translation, one of which another part than numbers, strings and characters is
 * variable, and one whose translation does not fit it.
 *
 * Returns: (transfer full) (nullable): NULL when @bytes is no such file in UTF-8
 */
LlmTranslation *llm_translation_new   (GBytes               *bytes) G_GNUC_WARN_UNUSED_RESULT;
void            llm_translation_free  (LlmTranslation       *self);

/**
 * llm_translation_apply:
 * @message: as printf() made it with one of the formats
 *
 * Of several formats that could have made it, the one with the most fixed text is
 * taken. A string in it that is a message itself is translated too, unless it is
 * in quotation marks: those are around what came from outside. Time and memory are
 * bounded; past that, and for what is no known message, it is @message again.
 *
 * Returns: (transfer full)
 */
char           *llm_translation_apply (const LlmTranslation *self,
                                       const char           *message);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTranslation, llm_translation_free)

G_END_DECLS
