/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The texts of JSON's numbers and strings as regular languages. Numbers are plain: no exponent, no
 * “-0”; the languages hold all of the texts that stand for a number, with zeros at its end or not,
 * so that intersections and complements are those of the numbers. Strings are what stands between
 * the quotes, each character written in one way (LLM_ENCODING_JSON). Any thread.
 */

#pragma once

#include "constraints/llm-automaton.h"
#include "base/llm-json.h"

G_BEGIN_DECLS

/* All (transfer full) (nullable): NULL when one becomes too large. */
LlmAutomaton *llm_json_numbers         (void);
LlmAutomaton *llm_json_integers        (void);
/* Numbers less than, equal to, greater than @bound, as asked for. */
LlmAutomaton *llm_json_numbers_by      (const LlmDecimal   *bound,
                                        gboolean            less,
                                        gboolean            equal,
                                        gboolean            greater);
/* Multiples of @factor, which is greater than 0, as decimals. */
LlmAutomaton *llm_json_multiples       (const LlmDecimal   *factor);
/* Of a language of numbers, the texts to write: whole numbers without a point where all are, and
 * no more digits than programs read exactly, but for numbers that are named one by one. */
LlmAutomaton *llm_json_numbers_to_write (const LlmAutomaton *numbers);

/* All strings of @min to @max characters (G_MAXUINT: no limit). */
LlmAutomaton *llm_json_strings         (guint               min,
                                        guint               max);
LlmAutomaton *llm_json_string          (const char         *text,
                                        gsize               length);
/* Of strings as above: as they are, or between single quotes as Python has them. */
LlmAutomaton *llm_json_strings_to_write (const LlmAutomaton *strings,
                                         gboolean            is_python);
/* Strings of a format of JSON Schema; NULL, too, if @name is not one of the supported. */
LlmAutomaton *llm_json_format          (const char         *name);

G_END_DECLS
