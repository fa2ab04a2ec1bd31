/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sets of characters, and the bytes that encode them. */

#include "constraints/llm-pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#define MAX_CHAR 0x10ffff
/* Characters that are looked at together: no piece has surrogates and others. */
#define PIECE 0x800
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

/* The long names of general categories, of which PCRE2 has the short ones. */
static const struct
{
  const char *name;
  const char *short_name;
} categories[] = {
  { "Letter", "L" }, { "Cased_Letter", "L&" }, { "Uppercase_Letter", "Lu" },
  { "Lowercase_Letter", "Ll" }, { "Titlecase_Letter", "Lt" }, { "Modifier_Letter", "Lm" },
  { "Other_Letter", "Lo" }, { "Mark", "M" }, { "Combining_Mark", "M" },
  { "Nonspacing_Mark", "Mn" }, { "Spacing_Mark", "Mc" }, { "Enclosing_Mark", "Me" },
  { "Number", "N" }, { "Decimal_Number", "Nd" }, { "digit", "Nd" }, { "Letter_Number", "Nl" },
  { "Other_Number", "No" }, { "Punctuation", "P" }, { "punct", "P" },
  { "Connector_Punctuation", "Pc" }, { "Dash_Punctuation", "Pd" }, { "Open_Punctuation", "Ps" },
  { "Close_Punctuation", "Pe" }, { "Initial_Punctuation", "Pi" }, { "Final_Punctuation", "Pf" },
  { "Other_Punctuation", "Po" }, { "Symbol", "S" }, { "Math_Symbol", "Sm" },
  { "Currency_Symbol", "Sc" }, { "Modifier_Symbol", "Sk" }, { "Other_Symbol", "So" },
  { "Separator", "Z" }, { "Space_Separator", "Zs" }, { "Line_Separator", "Zl" },
  { "Paragraph_Separator", "Zp" }, { "Other", "C" }, { "Control", "Cc" }, { "cntrl", "Cc" },
  { "Format", "Cf" }, { "Surrogate", "Cs" }, { "Private_Use", "Co" }, { "Unassigned", "Cn" },
};

/* (transfer full) (nullable): @name, a property of ECMA-262, as PCRE2 has it. */
static char *
translate (const char *name)
{
  static const struct
  {
    const char *prefix;
    const char *own;
  } prefixes[] = { { "General_Category=", "" }, { "gc=", "" },
                   { "Script_Extensions=", "scx:" }, { "scx=", "scx:" },
                   { "Script=", "sc:" }, { "sc=", "sc:" } };
  const char *own = "";

  for (guint i = 0; i < G_N_ELEMENTS (prefixes); i++)
    if (g_str_has_prefix (name, prefixes[i].prefix))
      {
        name += strlen (prefixes[i].prefix);
        own = prefixes[i].own;
        break;
      }
  for (guint i = 0; i < G_N_ELEMENTS (categories) && *own == '\0'; i++)
    if (g_str_equal (name, categories[i].name))
      name = categories[i].short_name;
  for (const char *at = name; *at != '\0'; at++)
    if (!g_ascii_isalnum (*at) && *at != '_' && *at != '&')
      return NULL;
  return *name != '\0' ? g_strdup_printf ("[\\p{%s%s}]+", own, name) : NULL;
}

/* Adds those of @n characters from @first on that @code matches. */
static void
add_matches (GArray           *set,
             pcre2_code       *code,
             pcre2_match_data *match,
             gunichar          first,
             guint             n)
{
  g_autoptr(GString) text = g_string_sized_new (n * 4);
  const gsize *ends = pcre2_get_ovector_pointer (match);
  gsize at = 0;
  gunichar c = first;

  for (guint i = 0; i < n; i++)
    if (first + i == 0)
      g_string_append_c (text, '\0');
    else
      g_string_append_unichar (text, first + i);
  while (pcre2_match (code, (PCRE2_SPTR) text->str, text->len, at, PCRE2_NO_UTF_CHECK, match, NULL)
         > 0)
    {
      gunichar low =
        c + (gunichar) g_utf8_pointer_to_offset (text->str + at, text->str + ends[0]);

      c = low + (gunichar) g_utf8_pointer_to_offset (text->str + ends[0], text->str + ends[1]);
      llm_set_add (set, low, c - 1);
      at = ends[1];
    }
}

gboolean
llm_set_add_property (GArray     *set,
                      const char *name,
                      gboolean    negate)
{
  g_autoptr(GArray) own = g_array_new (FALSE, FALSE, sizeof (LlmCharRange));
  g_autofree char *pattern = NULL;
  pcre2_code *code;
  pcre2_match_data *match;
  gsize offset;
  int status;

  if (g_str_equal (name, "Any"))
    llm_set_add (own, 0, MAX_CHAR);
  else if (g_str_equal (name, "Assigned"))
    return llm_set_add_property (set, "Cn", !negate);
  else
    {
      pattern = translate (name);
      code = pattern != NULL ? pcre2_compile ((PCRE2_SPTR) pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF,
                                              &status, &offset, NULL)
                             : NULL;
      if (code == NULL)
        return FALSE;
      match = pcre2_match_data_create_from_pattern (code, NULL);
      for (gunichar c = 0; c <= MAX_CHAR; c += PIECE)
        if (c < 0xd800 || c > 0xdfff)
          add_matches (own, code, match, c, PIECE);
      pcre2_match_data_free (match);
      pcre2_code_free (code);
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
