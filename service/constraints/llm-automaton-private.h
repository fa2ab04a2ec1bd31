/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the files of the automata share. */

#pragma once

#include "constraints/llm-automaton.h"

LlmAutomaton *llm_automaton_new  (void);
/* Bytes that it has in memory. */
gint64        llm_automaton_count_bytes (const LlmAutomaton *self);
/* The same texts with as few states as there can be; without calls. */
void          llm_automaton_minimize (LlmAutomaton *self);
/* Leaves out the states from which no end can be reached; calls are taken to end. */
void          llm_automaton_trim (LlmAutomaton *self);
