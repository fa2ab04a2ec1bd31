/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The companion of the model of a command that adds to it. The only thread of the tool. */

#pragma once

#include "model/llm-companion.h"
#include "tool-model.h"

/* Before anything takes minutes: whether the companion of the model can be written, and what is there is
 * one. @made: (out) (nullable) (transfer full). */
gboolean       tool_companion_open  (LlmCompanion  **made,
                                     GError        **error);
/* (transfer full): what the companion is written anew with: what it has (@companion: (nullable)), but for
 * keys that begin with one of @prefixes. */
LlmGgufWriter *tool_companion_begin (LlmModel       *model,
                                     LlmCompanion   *companion,
                                     const char *const *prefixes);
/* Writes it beside the model's file, and prints where that is. */
gboolean       tool_companion_save  (LlmModel       *model,
                                     LlmGgufWriter  *writer,
                                     GError        **error);
