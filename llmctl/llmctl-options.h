/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* KEY=VALUE from a command line as an option of a call, by the table of options. */

#pragma once

#include "common/llmsvc-option-table.h"

G_BEGIN_DECLS

/* Adds "key=value"; one more value of a key that takes a list goes to its end. A
 * key that the table does not have is sent as GVariant text or else as a string:
 * a newer service may know it. */
gboolean llmctl_options_add   (GVariantDict  *dict,
                               const char    *assignment,
                               GError       **error) G_GNUC_WARN_UNUSED_RESULT;

/* Whether the service would find a wrong type or range. */
gboolean llmctl_options_check (GVariant      *dict,
                               LlmsvcCall     call,
                               GError       **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
