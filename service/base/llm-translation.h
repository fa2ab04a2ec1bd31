/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Translates messages that are made already: finds the format which a message was
 * made with, by what is fixed in it, and puts the variable parts into the format's
 * translation. So the service makes its errors without knowing who will read them.
 * What is no message of the translation stays as it is. Immutable. Any thread.
 */

#pragma once

#include "base/llm-mo-file.h"

G_BEGIN_DECLS

typedef struct _LlmTranslation LlmTranslation;

/**
 * llm_translation_new:
 * @file: (transfer full): the formats and their translations
 *
 * A format of which another part than numbers, strings and characters is
 * variable is left out, and so is one whose translation does not fit it.
 */
LlmTranslation *llm_translation_new   (LlmMoFile            *file) G_GNUC_WARN_UNUSED_RESULT;
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
