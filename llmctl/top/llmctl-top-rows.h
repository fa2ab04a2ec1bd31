/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The applications and contexts of a sample as tables of “llmctl top”. Main thread. */

#pragma once

#include "llmctl/top/llmctl-top-view.h"

G_BEGIN_DECLS

/* Adds them, sorted, as far as the frame may have @rows lines in all. */
void llmctl_top_rows_draw (const LlmctlTopView *view,
                           LlmctlFrame         *frame,
                           guint                columns,
                           guint                rows);

G_END_DECLS
