/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A model's likeliest answer. The only thread of the tool. */

#pragma once

#include "tool-model.h"

/* Computes the rest of the prompt @tokens (element-type gint32) in @seq and answers in one call, with
 * @n_most tokens at most. @tokens gets those of the answer, too; @text its text. */
gboolean tool_answer (ToolModel *model,
                      LlmKvSeq  *seq,
                      GArray    *tokens,
                      guint      n_most,
                      GString   *text,
                      GError   **error);
