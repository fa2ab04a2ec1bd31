/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Options as calls take them. The thread of the caller. */

#pragma once

#include "common/llmsvc-option-table.h"
#include "llmsvc-options.h"

G_BEGIN_DECLS

/* (transfer full): everything that is set in @options (nullable), checked against the table,
 * and the locale of the process; NULL with @error set. To be changed by the caller. */
GVariantDict *llmsvc_options_begin       (LlmsvcOptions  *options,
                                          GError        **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer floating): the same as a{sv}, for calls that send what is set. */
GVariant     *llmsvc_options_take        (LlmsvcOptions  *options,
                                          GError        **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer floating): the list of strings @key with @entry behind. */
GVariant     *llmsvc_options_append      (LlmsvcOptions  *self,
                                          const char     *key,
                                          const char     *entry);
/* Whether the boolean @id is set and true. @options: (nullable). */
gboolean      llmsvc_options_is_true     (LlmsvcOptions  *options,
                                          LlmsvcOption    id);
/* (nullable) (transfer none): the string @id. @options: (nullable). */
const char   *llmsvc_options_get_string  (LlmsvcOptions  *options,
                                          LlmsvcOption    id);

G_END_DECLS
