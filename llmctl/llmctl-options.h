/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Options of a call as people write them: KEY=VALUE, checked by the library, and sizes.
 * Main thread. */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* Sets "key=value"; one more value of a key that takes a list goes to its end. A key that
 * the library does not have is sent as it is: a newer service may know it. */
gboolean llmctl_options_add       (LlmsvcOptions     *options,
                                   const char        *assignment,
                                   GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same for each of @assignments, which is nullable. */
gboolean llmctl_options_add_all   (LlmsvcOptions     *options,
                                   char             **assignments,
                                   GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer container): the @n options that the library knows; what their blurb says is for people. */
GParamSpec **llmctl_options_list  (guint             *n);

/* (nullable): the option, or “require”, that @key is or was probably meant to be. */
const char  *llmctl_options_suggest (const char         *key);

/* A whole number with K, M, G or T behind, which are binary. */
gboolean llmctl_parse_bytes       (const char        *text,
                                   guint64           *bytes) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
