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

/**
 * llmctl_value_parse:
 * @name: what it is for, for the error
 * @type: signature of the value wanted
 * @word: a plain word for what is simple, JSON for the rest; for a variant as
 *   llmctl_value_guess()
 * @error: return location for an error
 *
 * Returns: (transfer full): the value, not floating, or %NULL with
 *   %LLMSVC_ERROR_INVALID_ARGUMENT set
 */
GVariant *llmctl_value_parse       (const char  *name,
                                    const char  *type,
                                    const char  *word,
                                    GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/**
 * llmctl_value_guess:
 * @name: what it is for, for the error
 * @word: JSON, or a word that is none and stands for itself; valid UTF-8
 * @error: return location for an error
 *
 * Takes a value for what it looks like, when nothing says what it is to be.
 *
 * Returns: (transfer full): the value, not floating, or %NULL with
 *   %LLMSVC_ERROR_INVALID_ARGUMENT set
 */
GVariant *llmctl_value_guess       (const char  *name,
                                    const char  *word,
                                    GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): @value that llmctl_json_read() has read, as llmctl_value_parse(). */
GVariant *llmctl_value_convert     (const char          *name,
                                    const GVariantType  *type,
                                    GVariant            *value,
                                    GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
