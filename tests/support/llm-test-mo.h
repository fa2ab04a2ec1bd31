/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of translations (.mo) for tests, as msgfmt would make them. Any thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * llm_test_mo_new:
 * @entries: message and translation by turns, up to a NULL message; "" is the header
 * @is_swapped: in the byte order that this machine has not
 *
 * Returns: (transfer full): the content of a file
 */
GBytes *llm_test_mo_new (const char *const *entries,
                         gboolean           is_swapped);

G_END_DECLS
