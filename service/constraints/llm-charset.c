/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sets of characters, and the bytes that encode them. */

#include "constraints/llm-pattern.h"

#include <string.h>

#define MAX_CHAR 0x10ffff
/* A set of more ranges goes through an automaton of its own, which shares first bytes. */
#define MAX_RANGES_INLINE 8

void
llm_set_add (GArray   *set,
             gunichar  low,
             gunichar  high)
{
  LlmCharRange range = { low, MIN (high, MAX_CHAR) };

  if (low <= range.high)
    g_array_append_val (set, range);
}

void
llm_set_add_all (GArray       *set,
                 const GArray *other)
{
  g_array_append_vals (set, other->data, other->len);
}

static int
compare_ranges (gconstpointer a,
                gconstpointer b)
{
  const LlmCharRange *x = a;
  const LlmCharRange *y = b;

  return x->low < y->low ? -1 : x->low > y->low;
}

/* [low, high] without the surrogates, which UTF-8 can't encode. */
static void
append_scalars (GArray   *set,
                gunichar  low,
                gunichar  high)
{
  if (low < 0xd800)
    llm_set_add (set, low, MIN (high, 0xd7ff));
  if (high > 0xdfff)
    llm_set_add (set, MAX (low, 0xe000), high);
}

void
llm_set_settle (GArray   *set,
                gboolean  negate)
{
  g_autoptr(GArray) old = g_array_copy (set);
  gunichar next = 0; /* not looked at yet */

  g_array_sort (old, compare_ranges);
  g_array_set_size (set, 0);
  for (guint i = 0; i < old->len;)
    {
      LlmCharRange range = g_array_index (old, LlmCharRange, i++);

      for (; i < old->len && g_array_index (old, LlmCharRange, i).low <= range.high + 1; i++)
        range.high = MAX (range.high, g_array_index (old, LlmCharRange, i).high);
      if (!negate)
        append_scalars (set, range.low, range.high);
      else if (range.low > next)
        append_scalars (set, next, range.low - 1);
      next = range.high + 1;
    }
  if (negate && next <= MAX_CHAR)
    append_scalars (set, next, MAX_CHAR);
}

/* --- properties --- */

static const struct
{
  const char *name;      /* a letter for all categories that begin with it */
  const char *long_name;
  guint32 types;         /* 1 << GUnicodeType */
} properties[] = {
#define T(name) (1u << G_UNICODE_##name)
  { "Lu", "Uppercase_Letter", T (UPPERCASE_LETTER) },
  { "Ll", "Lowercase_Letter", T (LOWERCASE_LETTER) },
  { "Lt", "Titlecase_Letter", T (TITLECASE_LETTER) },
  { "Lm", "Modifier_Letter", T (MODIFIER_LETTER) },
  { "Lo", "Other_Letter", T (OTHER_LETTER) },
  { "L", "Letter",
    T (UPPERCASE_LETTER) | T (LOWERCASE_LETTER) | T (TITLECASE_LETTER) | T (MODIFIER_LETTER)
      | T (OTHER_LETTER) },
  { "Mn", "Nonspacing_Mark", T (NON_SPACING_MARK) },
  { "Mc", "Spacing_Mark", T (SPACING_MARK) },
  { "Me", "Enclosing_Mark", T (ENCLOSING_MARK) },
  { "M", "Mark", T (NON_SPACING_MARK) | T (SPACING_MARK) | T (ENCLOSING_MARK) },
  { "Nd", "Decimal_Number", T (DECIMAL_NUMBER) },
  { "Nl", "Letter_Number", T (LETTER_NUMBER) },
  { "No", "Other_Number", T (OTHER_NUMBER) },
  { "N", "Number", T (DECIMAL_NUMBER) | T (LETTER_NUMBER) | T (OTHER_NUMBER) },
  { "P", "Punctuation",
    T (CONNECT_PUNCTUATION) | T (DASH_PUNCTUATION) | T (CLOSE_PUNCTUATION) | T (FINAL_PUNCTUATION)
      | T (INITIAL_PUNCTUATION) | T (OTHER_PUNCTUATION) | T (OPEN_PUNCTUATION) },
  { "Sc", "Currency_Symbol", T (CURRENCY_SYMBOL) },
  { "Sm", "Math_Symbol", T (MATH_SYMBOL) },
  { "S", "Symbol",
    T (CURRENCY_SYMBOL) | T (MODIFIER_SYMBOL) | T (MATH_SYMBOL) | T (OTHER_SYMBOL) },
  { "Zs", "Space_Separator", T (SPACE_SEPARATOR) },
  { "Z", "Separator", T (SPACE_SEPARATOR) | T (LINE_SEPARATOR) | T (PARAGRAPH_SEPARATOR) },
#undef T
};

gboolean
llm_set_add_property (GArray     *set,
                      const char *name,
                      gboolean    negate)
{
  g_autoptr(GArray) own = g_array_new (FALSE, FALSE, sizeof (LlmCharRange));
  guint i = 0;

  if (g_str_has_prefix (name, "gc="))
    name += strlen ("gc=");
  else if (g_str_has_prefix (name, "General_Category="))
    name += strlen ("General_Category=");
  while (i < G_N_ELEMENTS (properties)
         && !g_str_equal (name, properties[i].name) && !g_str_equal (name, properties[i].long_name))
    i++;
  if (i == G_N_ELEMENTS (properties))
    return FALSE;

  for (gunichar c = 0; c <= MAX_CHAR; c++)
    if ((properties[i].types & (1u << g_unichar_type (c))) != 0)
      {
        if (own->len > 0 && g_array_index (own, LlmCharRange, own->len - 1).high == c - 1)
          g_array_index (own, LlmCharRange, own->len - 1).high = c;
        else
          llm_set_add (own, c, c);
      }
  llm_set_settle (own, negate);
  llm_set_add_all (set, own);
  return TRUE;
}

/* --- bytes --- */

/* Edges for bytes that each lie within those of @low and @high. */
static void
add_sequence (LlmNfa       *nfa,
              guint         from,
              const guint8 *low,
              const guint8 *high,
              guint         n,
              guint         to)
{
  for (guint i = 0; i < n; i++)
    {
      guint next = i == n - 1 ? to : llm_nfa_add_state (nfa);

      llm_nfa_add_bytes (nfa, from, low[i], high[i], next);
      from = next;
    }
}

/* Characters of one length in UTF-8: cut until all of a part's trailing bytes are free below the
 * first one that differs. */
static void
add_range (LlmNfa   *nfa,
           guint     from,
           gunichar  low,
           gunichar  high,
           guint     to)
{
  static const gunichar lengths[] = { 0x7f, 0x7ff, 0xffff };
  guint8 low_bytes[6], high_bytes[6];
  int n;

  for (guint i = 0; i < G_N_ELEMENTS (lengths); i++)
    if (low <= lengths[i] && high > lengths[i])
      {
        add_range (nfa, from, low, lengths[i], to);
        add_range (nfa, from, lengths[i] + 1, high, to);
        return;
      }
  n = g_unichar_to_utf8 (low, (char *) low_bytes);
  for (int k = 1; k < n; k++)
    {
      gunichar rest = (1u << (6 * k)) - 1;

      if ((low & ~rest) == (high & ~rest))
        continue;
      if ((low & rest) != 0)
        {
          add_range (nfa, from, low, low | rest, to);
          add_range (nfa, from, (low | rest) + 1, high, to);
          return;
        }
      if ((high & rest) != rest)
        {
          add_range (nfa, from, low, (high & ~rest) - 1, to);
          add_range (nfa, from, high & ~rest, high, to);
          return;
        }
    }
  g_unichar_to_utf8 (high, (char *) high_bytes);
  add_sequence (nfa, from, low_bytes, high_bytes, (guint) n, to);
}

static void
add_escaped (LlmNfa   *nfa,
             guint     from,
             gunichar  c,
             guint     to)
{
  static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
  char text[8] = "\\";
  guint last;

  for (const char *at = letters; *at != '\0'; at += 2)
    if ((gunichar) *at == c)
      text[1] = at[1];
  if (text[1] == '\0')
    g_snprintf (text, sizeof text, "\\u%04x", c);
  last = llm_nfa_add_text (nfa, from, text, strlen (text));
  llm_nfa_add_empty (nfa, last, to, LLM_EDGE_FREE);
}

static void
add_encoded (LlmNfa   *nfa,
             guint     from,
             gunichar  low,
             gunichar  high,
             guint     to)
{
  for (gunichar c = low; c <= high && c <= '\\'; c++)
    if (c < 0x20 || c == '"' || c == '\\')
      {
        if (c > low)
          add_range (nfa, from, low, c - 1, to);
        add_escaped (nfa, from, c, to);
        low = c + 1;
      }
  if (low <= high)
    add_range (nfa, from, low, high, to);
}

static void
add_ranges (LlmNfa       *nfa,
            guint         from,
            const GArray *set,
            guint         to,
            LlmEncoding   encoding)
{
  for (guint i = 0; i < set->len; i++)
    {
      LlmCharRange range = g_array_index (set, LlmCharRange, i);

      if (encoding == LLM_ENCODING_JSON)
        add_encoded (nfa, from, range.low, range.high, to);
      else
        add_range (nfa, from, range.low, range.high, to);
    }
}

void
llm_nfa_add_set (LlmNfa       *nfa,
                 guint         from,
                 const GArray *set,
                 guint         to,
                 LlmEncoding   encoding)
{
  g_autoptr(LlmNfa) own = NULL;
  g_autoptr(LlmAutomaton) automaton = NULL;
  guint start, end;

  if (set->len <= MAX_RANGES_INLINE)
    {
      add_ranges (nfa, from, set, to, encoding);
      return;
    }
  own = llm_nfa_new ();
  start = llm_nfa_add_state (own);
  end = llm_nfa_add_state (own);
  add_ranges (own, start, set, end, encoding);
  automaton = llm_nfa_determinize (own, start, end);
  llm_nfa_add_automaton (nfa, from, automaton, to);
}
