/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A file of translations as msgfmt makes it (.mo), read by hand: gettext() speaks
 * the language of the process, and only such as this system has locales for, while
 * the service answers each caller in its own. Nothing in the file is believed.
 * Immutable. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmMoFile LlmMoFile;

/* A message and its translation: NUL-terminated, valid UTF-8, owned by the file. */
typedef struct
{
  const char *id;
  const char *text;
} LlmMoEntry;

/**
 * llm_mo_file_new:
 * @bytes: the content of a file
 *
 * Takes the messages that have neither a context nor a plural: the messages of
 * the service have none. One that is damaged is left out, and so is one without
 * a translation.
 *
 * Returns: (transfer full) (nullable): NULL when @bytes is no such file in UTF-8
 */
LlmMoFile        *llm_mo_file_new    (GBytes           *bytes) G_GNUC_WARN_UNUSED_RESULT;
void              llm_mo_file_free   (LlmMoFile        *self);

guint             llm_mo_file_get_n  (const LlmMoFile  *self);
const LlmMoEntry *llm_mo_file_get    (const LlmMoFile  *self,
                                      guint             index);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmMoFile, llm_mo_file_free)

G_END_DECLS
