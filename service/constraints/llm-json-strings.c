/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-json-values.h"

#include "constraints/llm-automaton-private.h"
#include "constraints/llm-compile-work.h"
#include "constraints/llm-pattern.h"

#include <string.h>

/* Built in any case. */
#define MIN_COUNT 16

/* One character. */
static LlmAutomaton *
make_character (void)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  g_autoptr(LlmPattern) any = llm_pattern_new (LLM_PATTERN_SET);
  guint start = llm_nfa_add_state (nfa);
  LlmAutomaton *one;

  llm_set_settle (any->set, TRUE);
  one = llm_nfa_determinize (nfa, start, llm_pattern_add (any, nfa, start, LLM_ENCODING_JSON));
  if (one != NULL)
    llm_automaton_minimize (one);
  return one;
}

/* The states within a character, once for each count; an end of a character is the start of the
 * next one. No subset construction, which a thousand characters would be too many for. */
LlmAutomaton *
llm_json_strings (guint min,
                  guint max)
{
  g_autoptr(LlmAutomaton) one = make_character ();
  g_autoptr(LlmAutomaton) self = llm_automaton_new ();
  const gboolean has_max = max != LLM_PATTERN_NO_LIMIT;
  const guint n = has_max ? max : min;
  gsize n_entries;

  if (one == NULL || n > LLM_AUTOMATON_MAX_STATES / one->n_states)
    return NULL;
  memcpy (self->classes, one->classes, sizeof self->classes);
  self->n_classes = one->n_classes;
  self->n_states = (n + 1) * one->n_states;
  n_entries = (gsize) self->n_states * self->n_classes;
  self->next = g_new (guint32, n_entries);
  self->is_final = g_new0 (guint8, self->n_states);
  self->first_calls = g_new0 (guint32, self->n_states + 1);
  for (gsize i = 0; i < n_entries; i++)
    {
      const guint count = (guint) (i / ((gsize) one->n_states * one->n_classes));
      const guint32 next = one->next[i % ((gsize) one->n_states * one->n_classes)];
      const gboolean is_end = next != LLM_DEAD && one->is_final[next];

      if (next == LLM_DEAD || (has_max && count == n))
        self->next[i] = LLM_DEAD;
      else
        self->next[i] = is_end ? MIN (count + 1, n) * one->n_states : count * one->n_states + next;
    }
  for (guint count = min; count <= n; count++)
    self->is_final[count * one->n_states] = TRUE;
  llm_automaton_trim (self);
  return llm_compile_work_count (n_entries, llm_automaton_count_bytes (self)) || n < MIN_COUNT
           ? g_steal_pointer (&self)
           : NULL;
}

LlmAutomaton *
llm_json_string (const char *text,
                 gsize       length)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint at = start;

  for (gsize i = 0; i < length;)
    {
      /* NUL is a character, which GLib's functions take for an end */
      gunichar c = text[i] != '\0' ? g_utf8_get_char (text + i) : 0;
      g_autoptr(LlmPattern) pattern = llm_pattern_new_char (c);

      at = llm_pattern_add (pattern, nfa, at, LLM_ENCODING_JSON);
      if (at == LLM_DEAD)
        return NULL;
      i += text[i] != '\0' ? (gsize) (g_utf8_next_char (text + i) - (text + i)) : 1;
    }
  return llm_nfa_determinize (nfa, start, at);
}

/* --- in other ways than JSON's --- */

static guint32
step (const LlmAutomaton *self,
      guint32             state,
      char                byte)
{
  return state != LLM_DEAD ? self->next[state * self->n_classes + self->classes[(guint8) byte]]
                           : LLM_DEAD;
}

static void
add_bytes (LlmNfa     *nfa,
           guint       from,
           const char *bytes,
           gsize       n_bytes,
           guint32     to)
{
  if (to != LLM_DEAD)
    llm_nfa_add_empty (nfa, llm_nfa_add_text (nfa, from, bytes, n_bytes), to, LLM_EDGE_FREE);
}

/* What follows a backslash in JSON. */
static void
add_escapes (LlmNfa             *nfa,
             const LlmAutomaton *strings,
             guint32             state,
             gboolean            is_python)
{
  static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
  guint32 escaped = step (strings, state, '\\');

  for (const char *at = letters; *at != '\0'; at += 2)
    {
      const char in_quotes[] = { '\\', at[1] };
      gboolean is_plain = !is_python || *at == '"';

      add_bytes (nfa, state, is_plain ? at : in_quotes, is_plain ? 1 : 2,
                 step (strings, escaped, at[1]));
    }
  escaped = step (strings, step (strings, step (strings, escaped, 'u'), '0'), '0');
  for (guint c = 1; c < 0x20; c++)
    {
      char digits[8];
      const char byte = (char) c;

      g_snprintf (digits, sizeof digits, "\\u%04x", c);
      add_bytes (nfa, state, is_python ? digits : &byte, is_python ? 6 : 1,
                 step (strings, step (strings, escaped, digits[4]), digits[5]));
    }
}

LlmAutomaton *
llm_json_strings_to_write (const LlmAutomaton *strings,
                           gboolean            is_python)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint end, open, start, close;

  for (guint state = 0; state < strings->n_states; state++)
    (void) llm_nfa_add_state (nfa);
  end = llm_nfa_add_state (nfa);
  for (guint state = 0; state < strings->n_states; state++)
    {
      if (strings->is_final[state])
        llm_nfa_add_empty (nfa, state, end, LLM_EDGE_FREE);
      add_escapes (nfa, strings, state, is_python);
      for (guint byte = 0x20; byte < 256; byte++)
        {
          guint32 to = step (strings, state, (char) byte);

          if (to == LLM_DEAD || byte == '\\')
            continue;
          if (is_python && byte == '\'')
            add_bytes (nfa, state, "\\'", 2, to);
          else
            llm_nfa_add_bytes (nfa, state, (guint8) byte, (guint8) byte, to);
        }
    }
  if (!is_python || strings->n_states == 0)
    return llm_nfa_determinize (nfa, 0, end);
  start = llm_nfa_add_state (nfa);
  open = llm_nfa_add_text (nfa, start, "'", 1);
  llm_nfa_add_empty (nfa, open, 0, LLM_EDGE_FREE);
  close = llm_nfa_add_text (nfa, end, "'", 1);
  return llm_nfa_determinize (nfa, start, close);
}

#define BYTE_255 "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define IPV4 BYTE_255 "(?:\\." BYTE_255 "){3}"
#define HEX4 "[0-9a-fA-F]{1,4}"
#define SHORT_LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,13}[a-zA-Z0-9])?"
#define LABEL "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
/* One label may be long: a name has 191 characters at most, and an address fits into 254. */
#define HOST "(?:" SHORT_LABEL "\\.){0,4}" LABEL "(?:\\." SHORT_LABEL "){0,4}"
/* every month has its days; February 29 in years that 4 divides, and of the centuries, 400 */
#define DATE                                                                                      \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"                                  \
  "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"                           \
  "|(?:[0-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
#define TIME                                                                                      \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?"                                  \
  "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define DURATION_TIME                                                                             \
  "T(?:[0-9]{1,9}H(?:[0-9]{1,9}M(?:[0-9]{1,9}S)?)?|[0-9]{1,9}M(?:[0-9]{1,9}S)?|[0-9]{1,9}S)"
#define DURATION_DATE                                                                             \
  "(?:[0-9]{1,9}D|[0-9]{1,9}M(?:[0-9]{1,9}D)?|[0-9]{1,9}Y(?:[0-9]{1,9}M(?:[0-9]{1,9}D)?)?)"

/* As in section 7.3 of JSON Schema Validation; of each the forms that all know, no longer than
 * names and addresses can be. */
static const struct
{
  const char *name;
  const char *regex;
} formats[] = {
  { "date", DATE },
  { "time", TIME },
  { "date-time", DATE "T" TIME },
  { "duration",
    "P(?:[0-9]{1,9}W|" DURATION_DATE "(?:" DURATION_TIME ")?|" DURATION_TIME ")" },
  { "email", "[a-zA-Z0-9_+-]{1,32}(?:\\.[a-zA-Z0-9_+-]{1,16}){0,1}@" HOST },
  { "hostname", HOST },
  { "ipv4", IPV4 },
  { "ipv6",
    "(?:" HEX4 ":){7}" HEX4 "|(?:" HEX4 ":){1,7}:|(?:" HEX4 ":){1,6}:" HEX4 "|(?:" HEX4
    ":){1,5}(?::" HEX4 "){1,2}|(?:" HEX4 ":){1,4}(?::" HEX4 "){1,3}|(?:" HEX4 ":){1,3}(?::" HEX4
    "){1,4}|(?:" HEX4 ":){1,2}(?::" HEX4 "){1,5}|" HEX4 ":(?::" HEX4 "){1,6}|:(?:(?::" HEX4
    "){1,7}|:)" },
  { "uri",
    "[a-zA-Z][a-zA-Z0-9+.-]{0,20}:(?://[a-zA-Z0-9._~!$&'()*+,;=:@-]+)?"
    "(?:[a-zA-Z0-9._~!$&'()*+,;=:@/-]|%[0-9a-fA-F]{2})*"
    "(?:\\?(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?-]|%[0-9a-fA-F]{2})*)?"
    "(?:#(?:[a-zA-Z0-9._~!$&'()*+,;=:@/?-]|%[0-9a-fA-F]{2})*)?" },
  { "uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}" },
};

LlmAutomaton *
llm_json_format (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (formats); i++)
    if (g_str_equal (formats[i].name, name))
      return llm_regex_compile (formats[i].regex, FALSE, LLM_ENCODING_JSON, NULL);
  return NULL;
}
