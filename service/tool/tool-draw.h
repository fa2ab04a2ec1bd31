/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Text that a model draws itself, where a command has no other. The only thread of the tool. */

#pragma once

#include <glib.h>

/* (transfer full) (element-type gint32): @n_windows of @n_ctx tokens, or of the model's context where
 * that is less, drawn with the service's arithmetic. */
GArray *tool_draw (guint    n_windows,
                   guint    n_ctx,
                   GError **error);
