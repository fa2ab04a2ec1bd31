/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Reads regular expressions (ECMA-262, with the flag u). What is no regular language (references
 * back) or is not worth it (looking behind, \b) is refused by name. */

#include <string.h>

#include "base/llm-fail.h"
#include "constraints/llm-pattern.h"

#define MAX_BYTES 65536
#define MAX_COUNT 10000

typedef struct
{
  const char *text;
  const char *at;
  guint depth;
  GError **error;
} Reader;

static LlmPattern *read_choice (Reader *self);

G_GNUC_PRINTF (2, 3)
static gpointer
fail (Reader     *self,
      const char *format,
      ...)
{
  g_autofree char *reason = NULL;
  va_list args;

  va_start (args, format);
  reason = g_strdup_vprintf (format, args);
  va_end (args);
  return llm_fail_null (self->error, LLMSVC_ERROR_INVALID_OPTION,
                        "the regular expression at character %ld: %s",
                        g_utf8_pointer_to_offset (self->text, self->at) + 1, reason);
}

static gunichar
peek (Reader *self)
{
  return g_utf8_get_char (self->at);
}

static gunichar
take (Reader *self)
{
  gunichar c = g_utf8_get_char (self->at);

  self->at = g_utf8_next_char (self->at);
  return c;
}

static gboolean
take_if (Reader     *self,
         const char *text)
{
  if (!g_str_has_prefix (self->at, text))
    return FALSE;
  self->at += strlen (text);
  return TRUE;
}

static gboolean
read_hex (Reader   *self,
          guint     n_digits,
          gunichar *c)
{
  *c = 0;
  for (guint i = 0; i < n_digits; i++)
    {
      int digit = g_ascii_xdigit_value (*self->at);

      if (digit < 0)
        {
          fail (self, "%u hexadecimal digits are wanted here", n_digits);
          return FALSE;
        }
      *c = *c * 16 + (gunichar) digit;
      self->at++;
    }
  return TRUE;
}

/* Behind \u: four digits, a pair of surrogates, or digits in braces. */
static gboolean
read_unicode (Reader   *self,
              gunichar *c)
{
  gunichar low;

  if (take_if (self, "{"))
    {
      for (*c = 0; g_ascii_isxdigit (*self->at) && *c <= 0x10ffff; self->at++)
        *c = *c * 16 + (gunichar) g_ascii_xdigit_value (*self->at);
      if (*c > 0x10ffff || !take_if (self, "}"))
        {
          fail (self, "this is no character");
          return FALSE;
        }
      return TRUE;
    }
  if (!read_hex (self, 4, c))
    return FALSE;
  if (*c >= 0xd800 && *c < 0xdc00 && take_if (self, "\\u"))
    {
      if (!read_hex (self, 4, &low))
        return FALSE;
      *c = 0x10000 + ((*c - 0xd800) << 10) + (low - 0xdc00);
    }
  return TRUE;
}

static void
add_class (GArray *set,
           char    letter)
{
  g_autoptr(GArray) own = g_array_new (FALSE, FALSE, sizeof (LlmCharRange));

  switch (g_ascii_tolower (letter))
    {
    case 'd':
      llm_set_add (own, '0', '9');
      break;
    case 'w':
      llm_set_add (own, '0', '9');
      llm_set_add (own, 'A', 'Z');
      llm_set_add (own, 'a', 'z');
      llm_set_add (own, '_', '_');
      break;
    default:
      llm_set_add (own, '\t', '\r');
      llm_set_add (own, ' ', ' ');
      llm_set_add (own, 0xa0, 0xa0);
      llm_set_add (own, 0x1680, 0x1680);
      llm_set_add (own, 0x2000, 0x200a);
      llm_set_add (own, 0x2028, 0x2029);
      llm_set_add (own, 0x202f, 0x202f);
      llm_set_add (own, 0x205f, 0x205f);
      llm_set_add (own, 0x3000, 0x3000);
      llm_set_add (own, 0xfeff, 0xfeff);
    }
  llm_set_settle (own, g_ascii_isupper (letter));
  llm_set_add_all (set, own);
}

static gboolean
read_property (Reader   *self,
               gboolean  negate,
               GArray   *set)
{
  const char *end = *self->at == '{' ? strchr (self->at, '}') : NULL;
  g_autofree char *name = NULL;

  if (end == NULL)
    {
      fail (self, "a property in braces is wanted behind \\p");
      return FALSE;
    }
  name = g_strndup (self->at + 1, end - self->at - 1);
  if (!llm_set_add_property (set, name, negate))
    {
      fail (self, "the property \\p{%.40s} is not known", name);
      return FALSE;
    }
  self->at = end + 1;
  return TRUE;
}

/* Behind a backslash: adds to @set. @single: (out): the one character, or -1 for a class. */
static gboolean
read_escape (Reader *self,
             GArray *set,
             gint64 *single)
{
  static const char letters[] = "t\tn\nv\vf\fr\r";
  gunichar c = *self->at != '\0' ? take (self) : 0;
  const char *found = c > 0 && c < 0x80 && g_ascii_isalpha (c) ? strchr (letters, (int) c) : NULL;

  *single = -1;
  if (c == 0)
    {
      fail (self, "it ends with a backslash");
      return FALSE;
    }
  if (c < 0x80 && strchr ("dDwWsS", (int) c) != NULL)
    {
      add_class (set, (char) c);
      return TRUE;
    }
  if (c == 'p' || c == 'P')
    return read_property (self, c == 'P', set);
  if (c == 'b' || c == 'B' || c == 'k' || (c >= '1' && c <= '9'))
    {
      fail (self, c == 'b' || c == 'B' ? "word boundaries (\\b, \\B) are not supported"
                                       : "references to groups are not supported");
      return FALSE;
    }
  if (found != NULL)
    c = (gunichar) found[1];
  else if (c == '0' && !g_ascii_isdigit (*self->at))
    c = 0;
  else if (c == 'x')
    {
      if (!read_hex (self, 2, &c))
        return FALSE;
    }
  else if (c == 'u')
    {
      if (!read_unicode (self, &c))
        return FALSE;
    }
  else if (c == 'c' && g_ascii_isalpha (*self->at))
    c = (gunichar) *self->at++ & 31;
  else if (c < 0x80 && g_ascii_isalnum (c))
    {
      fail (self, "the escape \\%c is not known", (char) c);
      return FALSE;
    }
  llm_set_add (set, c, c);
  *single = c;
  return TRUE;
}

/* One character or class within brackets. */
static gboolean
read_class_atom (Reader *self,
                 GArray *set,
                 gint64 *single)
{
  if (*self->at == '\0')
    {
      fail (self, "the closing bracket is missing");
      return FALSE;
    }
  if (g_str_has_prefix (self->at, "\\b"))
    {
      self->at += 2;
      *single = '\b';
    }
  else if (take_if (self, "\\-"))
    *single = '-';
  else if (take_if (self, "\\"))
    return read_escape (self, set, single);
  else
    *single = take (self);
  llm_set_add (set, (gunichar) *single, (gunichar) *single);
  return TRUE;
}

static LlmPattern *
read_brackets (Reader *self)
{
  g_autoptr(LlmPattern) pattern = llm_pattern_new (LLM_PATTERN_SET);
  gboolean negate = take_if (self, "^");
  gint64 low, high;

  while (!take_if (self, "]"))
    {
      if (!read_class_atom (self, pattern->set, &low))
        return NULL;
      if (self->at[0] != '-' || self->at[1] == ']')
        continue;
      self->at++;
      if (!read_class_atom (self, pattern->set, &high))
        return NULL;
      if (low < 0 || high < 0 || low > high)
        return fail (self, "this is no range of characters");
      llm_set_add (pattern->set, (gunichar) low, (gunichar) high);
    }
  llm_set_settle (pattern->set, negate);
  return g_steal_pointer (&pattern);
}

static LlmPattern *
read_group (Reader *self)
{
  g_autoptr(LlmPattern) pattern = NULL;
  g_autoptr(LlmPattern) ahead = NULL;

  if (take_if (self, "?"))
    {
      const char *name_end;

      /* as Python has names */
      if (g_str_has_prefix (self->at, "P<"))
        self->at++;
      name_end = strchr (self->at, '>');
      if (g_str_has_prefix (self->at, "<=") || g_str_has_prefix (self->at, "<!"))
        return fail (self, "looking behind is not supported");
      if (take_if (self, "="))
        ahead = llm_pattern_new (LLM_PATTERN_AHEAD);
      else if (take_if (self, "!"))
        ahead = llm_pattern_new (LLM_PATTERN_NOT_AHEAD);
      else if (*self->at == '<' && name_end != NULL)
        self->at = name_end + 1;
      else if (!take_if (self, ":"))
        return fail (self, "this kind of group is not supported");
    }
  if (++self->depth > LLM_PATTERN_MAX_DEPTH)
    return fail (self, "groups are nested more than %u deep", LLM_PATTERN_MAX_DEPTH);
  pattern = read_choice (self);
  self->depth--;
  if (pattern != NULL && !take_if (self, ")"))
    return fail (self, "the closing parenthesis is missing");
  if (pattern == NULL || ahead == NULL)
    return g_steal_pointer (&pattern);
  g_ptr_array_add (ahead->parts, g_steal_pointer (&pattern));
  return g_steal_pointer (&ahead);
}

static LlmPattern *
read_atom (Reader *self)
{
  g_autoptr(LlmPattern) pattern = NULL;
  gint64 single;
  gunichar c = take (self);

  switch (c)
    {
    case '^':
      return llm_pattern_new (LLM_PATTERN_START);
    case '$':
      return llm_pattern_new (LLM_PATTERN_END);
    case '(':
      return read_group (self);
    case '[':
      return read_brackets (self);
    case '*':
    case '+':
    case '?':
      self->at--;
      return fail (self, "“%c” stands for itself only behind a backslash", (char) c);
    case '{':
      if (*self->at != ',' && !g_ascii_isdigit (*self->at))
        return llm_pattern_new_char (c);
      self->at--;
      return fail (self, "before “{” is nothing that could be repeated");
    case '.':
      pattern = llm_pattern_new (LLM_PATTERN_SET);
      llm_set_add (pattern->set, '\n', '\n');
      llm_set_add (pattern->set, '\r', '\r');
      llm_set_add (pattern->set, 0x2028, 0x2029);
      llm_set_settle (pattern->set, TRUE);
      return g_steal_pointer (&pattern);
    case '\\':
      /* Python's names of both ends */
      if (take_if (self, "A"))
        return llm_pattern_new (LLM_PATTERN_START);
      if (take_if (self, "Z") || take_if (self, "z"))
        return llm_pattern_new (LLM_PATTERN_END);
      pattern = llm_pattern_new (LLM_PATTERN_SET);
      if (!read_escape (self, pattern->set, &single))
        return NULL;
      llm_set_settle (pattern->set, FALSE);
      return g_steal_pointer (&pattern);
    default:
      return llm_pattern_new_char (c);
    }
}

static gboolean
read_number (Reader *self,
             guint  *number)
{
  if (!g_ascii_isdigit (*self->at))
    {
      fail (self, "a number is wanted here");
      return FALSE;
    }
  for (*number = 0; g_ascii_isdigit (*self->at) && *number <= MAX_COUNT; self->at++)
    *number = *number * 10 + (guint) g_ascii_digit_value (*self->at);
  if (*number > MAX_COUNT)
    fail (self, "counts are limited to %u", MAX_COUNT);
  return *number <= MAX_COUNT;
}

/* Takes @pattern. */
static LlmPattern *
read_count (Reader     *self,
            LlmPattern *pattern)
{
  g_autoptr(LlmPattern) owned = pattern;
  guint min = 0;
  guint max = LLM_PATTERN_NO_LIMIT;

  if (take_if (self, "+"))
    min = 1;
  else if (take_if (self, "?"))
    max = 1;
  else if (*self->at == '{' && (self->at[1] == ',' || g_ascii_isdigit (self->at[1]))
           && take_if (self, "{"))
    {
      if (!read_number (self, &min))
        return NULL;
      max = min;
      if (take_if (self, ","))
        {
          max = LLM_PATTERN_NO_LIMIT;
          if (*self->at != '}' && !read_number (self, &max))
            return NULL;
        }
      if (max < min || !take_if (self, "}"))
        return fail (self, "this is no count");
    }
  else if (!take_if (self, "*"))
    return g_steal_pointer (&owned);
  take_if (self, "?"); /* lazy: the same texts */
  return llm_pattern_new_repeat (g_steal_pointer (&owned), min, max);
}

static LlmPattern *
read_sequence (Reader *self)
{
  g_autoptr(LlmPattern) sequence = llm_pattern_new (LLM_PATTERN_SEQUENCE);

  while (*self->at != '\0' && *self->at != '|' && *self->at != ')')
    {
      LlmPattern *part = read_atom (self);

      part = part != NULL ? read_count (self, part) : NULL;
      if (part == NULL)
        return NULL;
      g_ptr_array_add (sequence->parts, part);
    }
  return g_steal_pointer (&sequence);
}

static LlmPattern *
read_choice (Reader *self)
{
  g_autoptr(LlmPattern) choice = llm_pattern_new (LLM_PATTERN_CHOICE);

  do
    {
      LlmPattern *part = read_sequence (self);

      if (part == NULL)
        return NULL;
      g_ptr_array_add (choice->parts, part);
    }
  while (take_if (self, "|"));
  return g_steal_pointer (&choice);
}

LlmPattern *
llm_regex_parse (const char  *text,
                 GError     **error)
{
  Reader reader = { text, text, 0, error };
  g_autoptr(LlmPattern) pattern = NULL;

  if (strlen (text) > MAX_BYTES)
    return fail (&reader, "it has more than %u bytes", MAX_BYTES);
  pattern = read_choice (&reader);
  if (pattern != NULL && peek (&reader) != 0)
    return fail (&reader, "there is no group to close");
  return g_steal_pointer (&pattern);
}

static guint
add_anything (LlmNfa      *nfa,
              guint        from,
              LlmEncoding  encoding)
{
  g_autoptr(LlmPattern) any = llm_pattern_new (LLM_PATTERN_SET);
  guint to = llm_nfa_add_state (nfa);

  llm_set_settle (any->set, TRUE);
  llm_nfa_add_empty (nfa, from, to, LLM_EDGE_FREE);
  llm_nfa_add_set (nfa, to, any->set, to, encoding);
  return to;
}

LlmAutomaton *
llm_regex_compile (const char   *text,
                   gboolean      search,
                   LlmEncoding   encoding,
                   GError      **error)
{
  g_autoptr(LlmPattern) pattern = llm_regex_parse (text, error);
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  g_autoptr(GError) reason = NULL;
  LlmAutomaton *automaton = NULL;
  guint start = llm_nfa_add_state (nfa);
  guint end;

  if (pattern == NULL)
    return NULL;
  if (llm_pattern_has (pattern, 1u << LLM_PATTERN_AHEAD | 1u << LLM_PATTERN_NOT_AHEAD))
    {
      automaton = llm_regex_look_ahead (pattern, search, encoding, &reason);
      if (automaton != NULL)
        return automaton;
      if (reason != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&reason));
          return NULL;
        }
      end = LLM_DEAD;
    }
  else
    {
      end = search ? add_anything (nfa, start, encoding) : start;
      end = llm_pattern_add (pattern, nfa, end, encoding);
    }
  if (end != LLM_DEAD && search)
    end = add_anything (nfa, end, encoding);
  if (end != LLM_DEAD)
    automaton = llm_nfa_determinize (nfa, start, end);
  if (automaton == NULL)
    llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
              "the regular expression is too large: its automaton has more than %u states",
              LLM_AUTOMATON_MAX_STATES);
  return automaton;
}
