/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The grammar of an answer that may call tools: free text until a call begins, calls as the model
 * writes them, names of known tools, and arguments by their schemas. Any thread.
 */

#pragma once

#include "constraints/llm-grammar.h"
#include "constraints/tools/llm-call-format.h"
#include "constraints/tools/llm-tools.h"

G_BEGIN_DECLS

/* (transfer full) (nullable): @error, in LLMSVC_ERROR, has a JSON pointer within the tools. */
LlmGrammar *llm_tool_grammar_new (const LlmTools      *tools,
                                  const LlmCallFormat *format,
                                  GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
