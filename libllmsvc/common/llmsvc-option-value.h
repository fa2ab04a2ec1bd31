/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One value of an option, from what came over the bus to the type of the table,
 * with every check that needs this value alone. Used by llm-call-options.c. Any
 * thread.
 */

#pragma once

#include "common/llmsvc-option-table.h"

G_BEGIN_DECLS

/* (transfer full): the content of variants in variants, up to four deep; deeper
 * ones stay variants, which is a type that no option has. */
GVariant *llmsvc_option_value_unwrap  (GVariant                *value);

/* (transfer full): @value in the type of @info, or NULL with @error set. */
GVariant *llmsvc_option_value_convert (const LlmsvcOptionInfo  *info,
                                       GVariant                *value,
                                       GError                 **error) G_GNUC_WARN_UNUSED_RESULT;

/* Sets an error of INVALID_OPTION; always FALSE. */
gboolean  llmsvc_option_fail          (GError                 **error,
                                       const char              *format,
                                       ...) G_GNUC_PRINTF (2, 3);

/* (transfer full): at most a beginning of @text, for messages. */
char     *llmsvc_shorten              (const char              *text);

/* Whether the name of a context may have @c: what is printed, and what joins or parts letters in Persian,
 * in Indian scripts and in emoji, but no “/”. */
gboolean llmsvc_name_may_have (gunichar c);

G_END_DECLS
