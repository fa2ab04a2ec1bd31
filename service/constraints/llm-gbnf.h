/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Grammars in GBNF, as llama.cpp documents it (grammars/README.md): rules NAME ::= …, of which
 * “root” is the answer. Left recursion is refused, as there; so are tokens by number (“<[12]>”).
 */

#pragma once

#include "constraints/llm-grammar.h"

G_BEGIN_DECLS

/* (transfer full) (nullable): @error, in LLMSVC_ERROR, says the line. */
LlmGrammar *llm_gbnf_compile (const char *text,
                              GError    **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
