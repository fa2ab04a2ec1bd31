/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Source to tokens, with trim_blocks and lstrip_blocks on and one newline at the end dropped, as
 * apply_chat_template() of transformers configures Jinja. */

#include "template/jinja/llm-jinja-parse.h"

#include <errno.h>
#include <string.h>

#include "tokenizer/llm-utf8.h"

#define MAX_BRACKETS 128

typedef struct
{
  LlmJinja *jinja;
  const char *text;
  gsize at;
  gsize end;
  gboolean starts_line;       /* all before @at ended with a newline, or there is nothing */
  LlmJinjaToken *tokens;
  guint n_tokens;
  guint n_room;
} Lexer;

static LlmJinjaToken *
add_token (Lexer *self, LlmJinjaTokenKind kind, gsize at)
{
  LlmJinjaToken *token;

  self->tokens = llm_jinja_grow (self->jinja, self->tokens, self->n_tokens, &self->n_room,
                                 sizeof *self->tokens);
  token = &self->tokens[self->n_tokens++];
  *token = (LlmJinjaToken) { .kind = kind, .at = (guint32) at };
  return token;
}

G_NORETURN static void
fail_at (Lexer *self, gsize at, const char *reason)
{
  self->jinja->at = (guint32) at;
  llm_jinja_fail (self->jinja, "%s", reason);
}

static gboolean
has_at (const Lexer *self, gsize at, const char *word)
{
  gsize n = strlen (word);

  return n <= self->end - at && memcmp (self->text + at, word, n) == 0;
}

static gsize
skip_spaces (const Lexer *self, gsize at)
{
  while (at < self->end)
    {
      gunichar c;
      gsize n = llm_utf8_get (self->text + at, self->text + self->end, &c);

      if (!llm_jinja_is_space (c))
        break;
      at += n;
    }
  return at;
}

static gboolean
is_name_byte (char c)
{
  return g_ascii_isalnum (c) || c == '_' || (guint8) c >= 0x80;
}

/* Where the tag “{% word %}” at @at has its sign, and where it ends; FALSE if it is another. */
static gboolean
read_word_tag (const Lexer *self, gsize at, const char *word, char *sign, gsize *after_word)
{
  if (!has_at (self, at, "{%"))
    return FALSE;
  at += 2;
  *sign = at < self->end && (self->text[at] == '-' || self->text[at] == '+') ? self->text[at] : 0;
  at = skip_spaces (self, at + (*sign != 0));
  if (!has_at (self, at, word))
    return FALSE;
  *after_word = at + strlen (word);
  return *after_word == self->end || !is_name_byte (self->text[*after_word]);
}

/* Adds the text up to @end, where a tag with @sign begins. */
static void
add_data (Lexer *self, gsize end, char sign, gboolean is_variable)
{
  gsize start = self->at;

  if (sign == '-')
    {
      LlmJinjaString string = { .bytes = self->text + start, .length = end - start };
      LlmJinjaValue trimmed = llm_jinja_string_trim (&string, NULL, FALSE, TRUE);

      end = start + trimmed.string.length;
    }
  else if (sign != '+' && !is_variable)
    {
      gsize line = end;

      while (line > start && self->text[line - 1] != '\n')
        line--;
      if ((line > start || self->starts_line) && skip_spaces (self, line) >= end)
        end = line;
    }
  if (end > start)
    add_token (self, LLM_JINJA_TOKEN_DATA, start)->value =
      llm_jinja_string_new (self->jinja, self->text + start, end - start, 0);
}

/* Goes behind the end of a tag, and what its sign or trim_blocks makes go. */
static void
end_tag (Lexer *self, gsize at, char sign, gboolean trims_newline)
{
  gsize start = at;

  if (sign == '-')
    at = skip_spaces (self, at);
  else if (sign != '+' && trims_newline && at < self->end && self->text[at] == '\n')
    at++;
  self->at = at;
  self->starts_line = at > start ? self->text[at - 1] == '\n' : FALSE;
}

static void
lex_comment (Lexer *self, gsize start)
{
  const char *close = memmem (self->text + start, self->end - start, "#}", 2);
  gsize at;
  char sign = 0;

  if (close == NULL)
    fail_at (self, start, "a comment has no end");
  at = (gsize) (close - self->text);
  if (at > start && (close[-1] == '-' || close[-1] == '+'))
    sign = close[-1];
  end_tag (self, at + 2, sign, TRUE);
}

/* The end of “{% raw” or “{% endraw”. */
static void
end_word_tag (Lexer *self, gsize at, gboolean trims_newline)
{
  at = skip_spaces (self, at);
  if (has_at (self, at, "-%}") || (trims_newline && has_at (self, at, "+%}")))
    end_tag (self, at + 3, self->text[at], trims_newline);
  else if (has_at (self, at, "%}"))
    end_tag (self, at + 2, 0, trims_newline);
  else
    fail_at (self, at, "this tag has no end");
}

/* “{% raw %}” ends at @at. */
static void
lex_raw (Lexer *self, gsize start, gsize at)
{
  char sign;
  gsize after;

  end_word_tag (self, at, FALSE);
  for (at = self->at; at < self->end; at++)
    {
      if (!read_word_tag (self, at, "endraw", &sign, &after))
        continue;
      add_data (self, at, sign, FALSE);
      end_word_tag (self, after, TRUE);
      return;
    }
  fail_at (self, start, "“raw” has no “endraw”");
}

/* Behind a backslash. Never more bytes than the source has. */
static void
add_escape (Lexer *self, char *out, gsize *n, gsize *at)
{
  static const char plain[] = "n\nt\tr\rb\bf\fv\va\a\\\\''\"\"";
  char c = self->text[*at];
  guint n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  gunichar code = 0;

  if (c == '\n')
    {
      (*at)++;
      return;
    }
  for (guint i = 0; i < sizeof plain - 1; i += 2)
    if (plain[i] == c)
      {
        out[(*n)++] = plain[i + 1];
        (*at)++;
        return;
      }
  if (c == 'N' || g_ascii_isdigit (c))
    fail_at (self, *at, "octal characters and those by name are not supported in a string");
  if (n_digits == 0)
    {
      out[(*n)++] = '\\';
      return;
    }
  (*at)++;
  for (guint i = 0; i < n_digits; i++, (*at)++)
    {
      if (*at >= self->end || !g_ascii_isxdigit (self->text[*at]))
        fail_at (self, *at, "a hexadecimal digit is missing in a string");
      code = code * 16 + (gunichar) g_ascii_xdigit_value (self->text[*at]);
    }
  if (!g_unichar_validate (code))
    fail_at (self, *at, "a string has an escape that is no character");
  *n += (gsize) g_unichar_to_utf8 (code, out + *n);
}

static void
lex_string (Lexer *self)
{
  gsize start = self->at;
  gsize at = start + 1;
  char quote = self->text[start];
  gsize length = 0;
  char *copy;

  while (at < self->end && self->text[at] != quote)
    at += self->text[at] == '\\' ? 2 : 1;
  if (at >= self->end)
    fail_at (self, start, "a string has no end");
  copy = llm_jinja_alloc (self->jinja, at - start);
  for (gsize i = start + 1; i < at;)
    {
      if (self->text[i] == '\\')
        {
          i++;
          add_escape (self, copy, &length, &i);
        }
      else
        {
          copy[length++] = self->text[i++];
        }
    }
  add_token (self, LLM_JINJA_TOKEN_STRING, start)->value =
    llm_jinja_string_new (self->jinja, copy, length, 0);
  self->at = at + 1;
}

static gsize
skip_digits (const Lexer *self, gsize at)
{
  while (at < self->end && g_ascii_isdigit (self->text[at]))
    at++;
  return at;
}

/* Behind the point and the exponent that follow the whole number up to @at. */
static gsize
skip_fraction (const Lexer *self, gsize at)
{
  gsize exponent = at;

  if (at + 1 < self->end && self->text[at] == '.' && g_ascii_isdigit (self->text[at + 1]))
    exponent = at = skip_digits (self, at + 1);
  if (exponent < self->end && (self->text[exponent] == 'e' || self->text[exponent] == 'E'))
    {
      exponent++;
      if (exponent < self->end && (self->text[exponent] == '-' || self->text[exponent] == '+'))
        exponent++;
      if (exponent < self->end && g_ascii_isdigit (self->text[exponent]))
        return skip_digits (self, exponent);
    }
  return at;
}

static void
lex_number (Lexer *self)
{
  gsize start = self->at;
  gsize whole = skip_digits (self, start);
  /* behind a point it is an item: a.0.1 */
  gsize end = start > 0 && self->text[start - 1] == '.' ? whole : skip_fraction (self, whole);
  gint64 integer;

  self->at = end;
  if (end > whole)
    {
      add_token (self, LLM_JINJA_TOKEN_FLOAT, start)->value =
        llm_jinja_float (g_ascii_strtod (self->text + start, NULL), 0);
      return;
    }
  errno = 0;
  integer = g_ascii_strtoll (self->text + start, NULL, 10);
  if (errno != 0)
    fail_at (self, start, "an integer is too large");
  add_token (self, LLM_JINJA_TOKEN_INTEGER, start)->value = llm_jinja_int (integer, 0);
}

static void
lex_operator (Lexer *self, char *brackets, guint *n_brackets)
{
  static const char *const operators[] = { "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*",
                                           "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=",
                                           ".", ":", "|", ",", ";" };
  static const char openers[] = "([{", closers[] = ")]}";
  guint i = 0;
  const char *found;
  LlmJinjaToken *token;

  while (i < G_N_ELEMENTS (operators) && !has_at (self, self->at, operators[i]))
    i++;
  if (i == G_N_ELEMENTS (operators))
    fail_at (self, self->at, "a character that is not expected in a tag");
  found = operators[i];
  if (strchr (openers, *found) != NULL)
    {
      if (*n_brackets == MAX_BRACKETS)
        fail_at (self, self->at, "too many brackets within each other");
      brackets[(*n_brackets)++] = closers[strchr (openers, *found) - openers];
    }
  else if (strchr (closers, *found) != NULL
           && (*n_brackets == 0 || brackets[--*n_brackets] != *found))
    {
      fail_at (self, self->at, "this bracket closes none");
    }
  token = add_token (self, LLM_JINJA_TOKEN_OPERATOR, self->at);
  token->name = llm_jinja_intern (self->jinja, found, strlen (found));
  self->at += strlen (found);
}

/* What lies between the ends of a tag, @close among them. */
static void
lex_tag (Lexer *self, gsize start, const char *close)
{
  gboolean is_block = *close == '%';
  char brackets[MAX_BRACKETS];
  guint n_brackets = 0;

  add_token (self, is_block ? LLM_JINJA_TOKEN_BLOCK_BEGIN : LLM_JINJA_TOKEN_VARIABLE_BEGIN, start);
  for (;;)
    {
      char c;
      gsize at = self->at = skip_spaces (self, self->at);
      gboolean has_sign;

      if (at >= self->end)
        fail_at (self, start, "this tag has no end");
      c = self->text[at];
      has_sign = (c == '-' || (c == '+' && is_block)) && has_at (self, at + 1, close);
      if (n_brackets == 0 && (has_sign || has_at (self, at, close)))
        {
          add_token (self, is_block ? LLM_JINJA_TOKEN_BLOCK_END : LLM_JINJA_TOKEN_VARIABLE_END, at);
          end_tag (self, at + 2 + has_sign, has_sign ? c : 0, is_block);
          return;
        }
      if (c == '"' || c == '\'')
        {
          lex_string (self);
        }
      else if (g_ascii_isdigit (c))
        {
          lex_number (self);
        }
      else if (is_name_byte (c))
        {
          while (self->at < self->end && is_name_byte (self->text[self->at]))
            self->at++;
          add_token (self, LLM_JINJA_TOKEN_NAME, at)->name =
            llm_jinja_intern (self->jinja, self->text + at, self->at - at);
        }
      else
        {
          lex_operator (self, brackets, &n_brackets);
        }
    }
}

LlmJinjaToken *
llm_jinja_lex (LlmJinja *self, guint *n_tokens)
{
  Lexer lexer = { .jinja = self, .text = self->source, .end = self->source_length,
                  .starts_line = TRUE };

  while (lexer.at < lexer.end)
    {
      gsize at = lexer.at;
      gsize after;
      char kind, sign;

      while (at < lexer.end && !has_at (&lexer, at, "{{") && !has_at (&lexer, at, "{%")
             && !has_at (&lexer, at, "{#"))
        at++;
      if (at >= lexer.end)
        {
          add_data (&lexer, lexer.end, '+', FALSE);
          break;
        }
      kind = lexer.text[at + 1];
      sign = at + 2 < lexer.end ? lexer.text[at + 2] : 0;
      if (sign != '-' && sign != '+')
        sign = 0;
      add_data (&lexer, at, sign, kind == '{');
      lexer.at = at + 2 + (sign != 0);
      if (kind == '#')
        lex_comment (&lexer, lexer.at);
      else if (kind == '%' && read_word_tag (&lexer, at, "raw", &sign, &after)
               && (has_at (&lexer, skip_spaces (&lexer, after), "%}")
                   || has_at (&lexer, skip_spaces (&lexer, after), "-%}")))
        lex_raw (&lexer, at, after);
      else
        lex_tag (&lexer, at, kind == '%' ? "%}" : "}}");
    }
  add_token (&lexer, LLM_JINJA_TOKEN_END, lexer.end);
  *n_tokens = lexer.n_tokens;
  return lexer.tokens;
}
