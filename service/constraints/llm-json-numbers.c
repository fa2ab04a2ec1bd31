/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-json-values.h"

#include <string.h>

#include "constraints/llm-pattern.h"

#define WHOLE "(?:0|[1-9][0-9]*)"
/* Decimal fractions of up to 15 digits keep their order as doubles. */
#define EXACT_DIGITS 15
#define CLOSE_DIGITS 30
/* Whole numbers to write. */
#define MAX_DIGITS 31
/* The same of what has too many states for that: multiples of a large number. */
#define FEW_DIGITS 12
#define MAX_MULTIPLE_STATES 10000

static LlmAutomaton *
compile (const char *regex)
{
  return llm_regex_compile (regex, FALSE, LLM_ENCODING_UTF8, NULL);
}

LlmAutomaton *
llm_json_numbers (void)
{
  return compile (WHOLE "(?:\\.[0-9]+)?|-[1-9][0-9]*(?:\\.[0-9]+)?|-0\\.[0-9]*[1-9][0-9]*");
}

LlmAutomaton *
llm_json_integers (void)
{
  return compile ("(?:" WHOLE "|-[1-9][0-9]*)(?:\\.0+)?");
}

typedef enum
{
  LESS,
  EQUAL,
  GREATER,
  N_ORDERS
} Order;

static Order
order_of (char a,
          char b)
{
  return a < b ? LESS : a > b ? GREATER : EQUAL;
}

/* What @wanted of the orders a magnitude has to the one of @bound, digit by digit. */
static void
add_magnitudes (LlmNfa           *nfa,
                guint             start,
                guint             end,
                const LlmDecimal *bound,
                const gboolean    wanted[N_ORDERS])
{
  guint n = (guint) strlen (bound->whole);
  guint n_fraction = (guint) strlen (bound->fraction);
  guint last[N_ORDERS];      /* behind as many digits as the bound has, or fewer */
  guint fraction[N_ORDERS];  /* behind the point; EQUAL: so far */
  guint longer = llm_nfa_add_state (nfa);
  guint at = start;

  for (Order order = LESS; order < N_ORDERS; order++)
    {
      last[order] = start;
      fraction[order] = llm_nfa_add_state (nfa);
      if (order != EQUAL)
        llm_nfa_add_bytes (nfa, fraction[order], '0', '9', fraction[order]);
      if (order != EQUAL && wanted[order])
        llm_nfa_add_empty (nfa, fraction[order], end, LLM_EDGE_FREE);
    }
  for (guint k = 0; k < n; k++)
    {
      guint next[N_ORDERS];

      for (Order order = LESS; order < N_ORDERS; order++)
        next[order] = llm_nfa_add_state (nfa);
      for (char digit = '0'; digit <= '9'; digit++)
        {
          llm_nfa_add_bytes (nfa, last[EQUAL], (guint8) digit, (guint8) digit,
                             next[order_of (digit, bound->whole[k])]);
          for (Order order = LESS; order < N_ORDERS && k > 0; order += GREATER - LESS)
            llm_nfa_add_bytes (nfa, last[order], (guint8) digit, (guint8) digit, next[order]);
        }
      memcpy (last, next, sizeof last);
      for (Order order = LESS; order < N_ORDERS && k < n - 1; order++)
        {
          llm_nfa_add_bytes (nfa, last[order], '.', '.', fraction[LESS]);
          if (wanted[LESS])
            llm_nfa_add_empty (nfa, last[order], end, LLM_EDGE_FREE);
        }
    }
  for (Order order = LESS; order < N_ORDERS; order++)
    {
      Order whole = order == EQUAL && n_fraction > 0 ? LESS : order;

      llm_nfa_add_bytes (nfa, last[order], '.', '.', fraction[order]);
      llm_nfa_add_bytes (nfa, last[order], '0', '9', longer);
      if (wanted[whole])
        llm_nfa_add_empty (nfa, last[order], end, LLM_EDGE_FREE);
    }
  llm_nfa_add_bytes (nfa, longer, '0', '9', longer);
  llm_nfa_add_bytes (nfa, longer, '.', '.', fraction[GREATER]);
  if (wanted[GREATER])
    llm_nfa_add_empty (nfa, longer, end, LLM_EDGE_FREE);

  at = fraction[EQUAL];
  for (guint k = 0; k < n_fraction; k++)
    {
      guint next = llm_nfa_add_state (nfa);

      for (char digit = '0'; digit <= '9'; digit++)
        {
          Order order = order_of (digit, bound->fraction[k]);

          llm_nfa_add_bytes (nfa, at, (guint8) digit, (guint8) digit,
                             order == EQUAL ? next : fraction[order]);
        }
      if (wanted[LESS])
        llm_nfa_add_empty (nfa, at, end, LLM_EDGE_FREE);
      at = next;
    }
  llm_nfa_add_bytes (nfa, at, '0', '0', at);
  llm_nfa_add_bytes (nfa, at, '1', '9', fraction[GREATER]);
  if (wanted[EQUAL])
    llm_nfa_add_empty (nfa, at, end, LLM_EDGE_FREE);
}

/* Takes what @nfa accepts that is a number, too. */
static LlmAutomaton *
finish (const LlmNfa *nfa,
        guint         start,
        guint         end)
{
  g_autoptr(LlmAutomaton) numbers = llm_json_numbers ();
  g_autoptr(LlmAutomaton) automaton = llm_nfa_determinize (nfa, start, end);

  return automaton != NULL ? llm_automaton_combine (numbers, automaton, LLM_COMBINE_AND) : NULL;
}

LlmAutomaton *
llm_json_numbers_by (const LlmDecimal *bound,
                     gboolean          less,
                     gboolean          equal,
                     gboolean          greater)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  LlmDecimal zero = { FALSE, (char *) "0", (char *) "" };
  guint start = llm_nfa_add_state (nfa);
  guint minus = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  gboolean upwards[N_ORDERS] = { less, equal, greater };
  gboolean downwards[N_ORDERS] = { greater, equal, less };
  gboolean all_greater[N_ORDERS] = { greater, greater, greater };
  gboolean all_less[N_ORDERS] = { less, less, less };

  llm_nfa_add_bytes (nfa, start, '-', '-', minus);
  add_magnitudes (nfa, start, end, bound->is_negative ? &zero : bound,
                  bound->is_negative ? all_greater : upwards);
  add_magnitudes (nfa, minus, end, bound->is_negative ? bound : &zero,
                  bound->is_negative ? downwards : all_less);
  return finish (nfa, start, end);
}

/* Whole multiples of @modulus × 10^@n_zeros: that many zeros behind a multiple of @modulus. */
static LlmAutomaton *
make_whole_multiples (guint64 modulus,
                      guint   n_zeros)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  guint zeros = llm_nfa_add_state (nfa);
  guint fraction = llm_nfa_add_state (nfa);
  guint first = nfa->n_states;
  guint at = zeros;

  nfa->n_states += (guint) modulus;
  llm_nfa_add_bytes (nfa, start, '-', '-', first);
  llm_nfa_add_empty (nfa, start, first, LLM_EDGE_FREE);
  for (guint64 rest = 0; rest < modulus; rest++)
    for (guint8 digit = 0; digit <= 9; digit++)
      llm_nfa_add_bytes (nfa, first + (guint) rest, '0' + digit, '0' + digit,
                         first + (guint) ((rest * 10 + digit) % modulus));
  llm_nfa_add_empty (nfa, first, zeros, LLM_EDGE_FREE);
  for (guint i = 0; i < n_zeros; i++)
    at = llm_nfa_add_text (nfa, at, "0", 1);
  llm_nfa_add_empty (nfa, at, end, LLM_EDGE_FREE);
  llm_nfa_add_bytes (nfa, at, '.', '.', fraction);
  llm_nfa_add_bytes (nfa, fraction, '0', '0', fraction);
  llm_nfa_add_empty (nfa, fraction, end, LLM_EDGE_FREE);
  /* zero itself has no digits more */
  llm_nfa_add_bytes (nfa, start, '0', '0', at);
  return finish (nfa, start, end);
}

LlmAutomaton *
llm_json_multiples (const LlmDecimal *factor)
{
  guint n_fraction = (guint) strlen (factor->fraction);
  g_autofree char *text = g_strconcat (factor->whole, factor->fraction, NULL);
  g_autoptr(LlmNfa) nfa = NULL;
  guint64 modulus;
  guint n_zeros = 0;
  guint start, end, first;

  if (strlen (text) > 15)
    return NULL;
  modulus = g_ascii_strtoull (text, NULL, 10);
  for (; n_fraction == 0 && modulus % 10 == 0; modulus /= 10)
    n_zeros++;
  if (modulus * (n_fraction + 1) > MAX_MULTIPLE_STATES)
    return NULL;
  if (n_fraction == 0)
    return make_whole_multiples (modulus, n_zeros);

  /* states: whole part, then how many digits behind the point were read; and the rest so far */
  nfa = llm_nfa_new ();
  start = llm_nfa_add_state (nfa);
  end = llm_nfa_add_state (nfa);
  first = nfa->n_states;
  nfa->n_states += (guint) modulus * (n_fraction + 2);
  llm_nfa_add_bytes (nfa, start, '-', '-', first);
  llm_nfa_add_empty (nfa, start, first, LLM_EDGE_FREE);
  for (guint place = 0; place < n_fraction + 2; place++)
    for (guint64 rest = 0; rest < modulus; rest++)
      {
        guint from = first + (guint) (place * modulus + rest);
        guint64 whole = rest;

        for (guint8 digit = 0; digit <= 9 && place <= n_fraction; digit++)
          llm_nfa_add_bytes (nfa, from, '0' + digit, '0' + digit,
                             first + (guint) ((place > 0 ? place + 1 : 0) * modulus
                                              + (rest * 10 + digit) % modulus));
        if (place == 0)
          llm_nfa_add_bytes (nfa, from, '.', '.', first + (guint) (modulus + rest));
        else if (place == n_fraction + 1)
          llm_nfa_add_bytes (nfa, from, '0', '0', from);
        for (guint i = place > 0 ? place - 1 : 0; i < n_fraction; i++)
          whole = whole * 10 % modulus;
        if (whole == 0)
          llm_nfa_add_empty (nfa, from, end, LLM_EDGE_FREE);
      }
  return finish (nfa, start, end);
}

/* Whole numbers of @n_whole digits, and with @n_digits (0: no others) fractions of so many in
 * all. */
static LlmAutomaton *
compile_writable (guint n_whole,
                  guint n_digits)
{
  g_autoptr(GString) regex = g_string_new (NULL);

  g_string_append_printf (regex, "-?(?:0|[1-9][0-9]{0,%u})", n_whole - 1);
  if (n_digits > 0)
    g_string_append_printf (regex, "|-?0\\.[0-9]{1,%u}", n_digits);
  for (guint n = 1; n < n_digits; n++)
    g_string_append_printf (regex, "|-?[1-9][0-9]{%u}\\.[0-9]{1,%u}", n - 1, n_digits - n);
  return compile (regex->str);
}

/* Whether no state leads back to itself: from all of them an end can be reached. */
static gboolean
is_finite (const LlmAutomaton *automaton)
{
  const guint n_states = automaton->n_states, n_classes = automaton->n_classes;
  g_autofree guint *n_sources = g_new0 (guint, n_states + 1);
  g_autoptr(GArray) free_states = g_array_new (FALSE, FALSE, sizeof (guint));
  guint n_done = 0;

  for (gsize i = 0; i < (gsize) n_states * n_classes; i++)
    if (automaton->next[i] != LLM_DEAD)
      n_sources[automaton->next[i]]++;
  for (guint state = 0; state < n_states; state++)
    if (n_sources[state] == 0)
      g_array_append_val (free_states, state);
  for (; free_states->len > 0; n_done++)
    {
      const guint32 *row;
      guint state = g_array_index (free_states, guint, free_states->len - 1);

      g_array_set_size (free_states, free_states->len - 1);
      row = automaton->next + (gsize) state * n_classes;
      for (guint c = 0; c < n_classes; c++)
        if (row[c] != LLM_DEAD && --n_sources[row[c]] == 0)
          g_array_append_val (free_states, row[c]);
    }
  return n_done == n_states;
}

/* @written and what else of @numbers has a text like @regex, if those are so many numbers and no
 * more: they were named one by one, and are read as what they were named. */
static LlmAutomaton *
add_named (LlmAutomaton       *written,
           const LlmAutomaton *numbers,
           const char         *regex)
{
  g_autoptr(LlmAutomaton) old = written;
  g_autoptr(LlmAutomaton) kind = written != NULL ? compile (regex) : NULL;
  g_autoptr(LlmAutomaton) of_kind =
    kind != NULL ? llm_automaton_combine (numbers, kind, LLM_COMBINE_AND) : NULL;
  g_autoptr(LlmAutomaton) others =
    of_kind != NULL ? llm_automaton_combine (of_kind, old, LLM_COMBINE_WITHOUT) : NULL;

  if (others == NULL)
    return NULL;
  if (llm_automaton_is_empty (others) || !is_finite (others))
    return g_steal_pointer (&old);
  return llm_automaton_combine (old, others, LLM_COMBINE_OR);
}

LlmAutomaton *
llm_json_numbers_to_write (const LlmAutomaton *numbers)
{
  g_autoptr(LlmAutomaton) integers = llm_json_integers ();
  g_autoptr(LlmAutomaton) fractions =
    llm_automaton_combine (numbers, integers, LLM_COMBINE_WITHOUT);
  g_autoptr(LlmAutomaton) writable = NULL;
  LlmAutomaton *written;
  guint n_digits;

  if (fractions == NULL)
    return NULL;
  n_digits = llm_automaton_is_empty (fractions) ? 0 : EXACT_DIGITS;
  writable = compile_writable (MAX_DIGITS, n_digits);
  written = llm_automaton_combine (numbers, writable, LLM_COMBINE_AND);
  if (written == NULL)
    {
      llm_automaton_unref (writable);
      writable = compile_writable (FEW_DIGITS, MIN (n_digits, FEW_DIGITS));
      written = llm_automaton_combine (numbers, writable, LLM_COMBINE_AND);
    }
  if (!llm_automaton_is_empty (fractions))
    written = add_named (written, numbers, "-?" WHOLE "\\.[0-9]*[1-9]");
  written = add_named (written, numbers, "-?[1-9][0-9]*");
  if (written == NULL || !llm_automaton_is_empty (written))
    return written;

  /* bounds so close that nothing shorter is between them */
  llm_automaton_unref (written);
  g_clear_pointer (&writable, llm_automaton_unref);
  writable = compile_writable (MAX_DIGITS, CLOSE_DIGITS);
  return llm_automaton_combine (numbers, writable, LLM_COMBINE_AND);
}
