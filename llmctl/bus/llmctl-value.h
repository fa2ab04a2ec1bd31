/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Values of any type of the bus, as people write them on a command line: plain words
 * for what is simple, JSON for the rest. Any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define LLMCTL_MESSAGES_TYPE "a(ssa{sv})"

/* (transfer full): a type as its values are written: "string", "[integer, …]",
 * "{key: any, …}". The words are those of JSON and not translated. */
char     *llmctl_type_describe     (const char  *type);
/* (transfer full): what could be typed for it, without the quotes of a shell. */
char     *llmctl_type_make_example (const char  *type);

/* (transfer full): @word as @type, not floating; LLMSVC_ERROR_INVALID_ARGUMENT if it is none, with
 * @name, what it is for. A plain word for what is simple, JSON for the rest; for a variant as
 * llmctl_value_guess(). */
GVariant *llmctl_value_parse       (const char  *name,
                                    const char  *type,
                                    const char  *word,
                                    GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for @word, valid UTF-8, when nothing says what it is to be: JSON, or a word that is none
 * and stands for itself. */
GVariant *llmctl_value_guess       (const char  *name,
                                    const char  *word,
                                    GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): @value that llmctl_json_read() has read, as llmctl_value_parse(). */
GVariant *llmctl_value_convert     (const char          *name,
                                    const GVariantType  *type,
                                    GVariant            *value,
                                    GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
