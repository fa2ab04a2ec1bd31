/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-json.h"

#include <stdlib.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-json.h"

#define MAX_EXPONENT 400

static const LlmsvcJsonLimits limits = { .depth = LLMSVC_JSON_MAX_DEPTH, .values = 100000,
                                         .whole_digits = MAX_EXPONENT };

void
llm_json_free (LlmJson *self)
{
  g_free (self->text);
  g_clear_pointer (&self->values, g_ptr_array_unref);
  g_clear_pointer (&self->keys, g_ptr_array_unref);
  g_free (self);
}

static LlmJson *
new_value (LlmJsonKind kind)
{
  LlmJson *self = g_new0 (LlmJson, 1);

  self->kind = kind;
  if (kind >= LLM_JSON_ARRAY)
    self->values = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_json_free);
  if (kind == LLM_JSON_OBJECT)
    self->keys = g_ptr_array_new_with_free_func ((GDestroyNotify) llm_json_free);
  return self;
}

LlmJson *
llm_json_new_string (const char *text)
{
  LlmJson *self = new_value (LLM_JSON_STRING);

  self->text = g_strdup (text);
  self->length = strlen (text);
  return self;
}

LlmJson *
llm_json_new_null (void)
{
  return new_value (LLM_JSON_NULL);
}

/* The place of a member, or how many there are. */
static guint
find_member (const LlmJson *self,
             const char    *key)
{
  guint i = 0;

  while (i < self->keys->len && !llm_json_is (g_ptr_array_index (self->keys, i), key))
    i++;
  return i;
}

void
llm_json_set (LlmJson    *self,
              const char *key,
              LlmJson    *value)
{
  guint i = find_member (self, key);

  value->parent = self;
  value->place = i;
  if (i < self->values->len)
    {
      llm_json_free (g_ptr_array_index (self->values, i));
      g_ptr_array_index (self->values, i) = value;
      return;
    }
  g_ptr_array_add (self->keys, llm_json_new_string (key));
  g_ptr_array_add (self->values, value);
}

LlmJson *
llm_json_take (LlmJson    *self,
               const char *key)
{
  guint i = find_member (self, key);
  LlmJson *value;

  if (i == self->values->len)
    return NULL;
  g_ptr_array_remove_index (self->keys, i);
  value = g_ptr_array_steal_index (self->values, i);
  value->parent = NULL;
  for (; i < self->values->len; i++)
    ((LlmJson *) g_ptr_array_index (self->values, i))->place = i;
  return value;
}

/* --- reading what is known to be JSON --- */

static const char *
skip_space (const char *at)
{
  while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
    at++;
  return at;
}

static gunichar
read_code (const char *at)
{
  gunichar c = 0;

  for (guint i = 0; i < 4; i++)
    c = c * 16 + (gunichar) g_ascii_xdigit_value (at[i]);
  return c;
}

/* At the opening quote. */
static LlmJson *
read_string (const char **at)
{
  static const char letters[] = "b\bf\fn\nr\rt\t";
  LlmJson *self = new_value (LLM_JSON_STRING);
  GString *text = g_string_new (NULL);
  const char *p;

  for (p = *at + 1; *p != '"'; p++)
    {
      const char *found;
      gunichar c;

      if (*p != '\\')
        {
          g_string_append_c (text, *p);
          continue;
        }
      p++;
      found = g_ascii_isalpha (*p) ? strchr (letters, *p) : NULL;
      if (*p == 'u')
        {
          c = read_code (p + 1);
          p += 4;
          if (c >= 0xd800 && c < 0xdc00 && p[1] == '\\' && p[2] == 'u')
            {
              c = 0x10000 + ((c - 0xd800) << 10) + (read_code (p + 3) - 0xdc00);
              p += 6;
            }
          g_string_append_unichar (text, c);
        }
      else
        g_string_append_c (text, found != NULL ? found[1] : *p);
    }
  *at = p + 1;
  self->length = text->len;
  self->text = g_string_free (text, FALSE);
  return self;
}

static LlmJson *
read_value (const char **at)
{
  static const char *const words[] = { "null", "false", "true" };
  LlmJson *self;
  char close;

  if (**at == '"')
    return read_string (at);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_has_prefix (*at, words[i]))
      {
        *at += strlen (words[i]);
        return new_value (LLM_JSON_NULL + i);
      }
  if (**at != '[' && **at != '{')
    {
      self = new_value (LLM_JSON_NUMBER);
      self->length = strspn (*at, "+-.0123456789eE");
      self->text = g_strndup (*at, self->length);
      *at += self->length;
      return self;
    }

  close = **at == '[' ? ']' : '}';
  self = new_value (close == ']' ? LLM_JSON_ARRAY : LLM_JSON_OBJECT);
  for (*at = skip_space (*at + 1); **at != close; *at = skip_space (*at))
    {
      LlmJson *value;

      if (**at == ',')
        *at = skip_space (*at + 1);
      if (close == '}')
        {
          g_ptr_array_add (self->keys, read_string (at));
          *at = skip_space (skip_space (*at) + 1);
        }
      value = read_value (at);
      value->parent = self;
      value->place = self->values->len;
      g_ptr_array_add (self->values, value);
    }
  (*at)++;
  return self;
}

/* (nullable): an object that has a key twice. */
static const LlmJson *
find_twice (const LlmJson *self)
{
  g_autoptr(GHashTable) seen = NULL;

  if (self->kind == LLM_JSON_OBJECT)
    seen =
      g_hash_table_new_full (g_bytes_hash, g_bytes_equal, (GDestroyNotify) g_bytes_unref, NULL);
  for (guint i = 0; seen != NULL && i < self->keys->len; i++)
    {
      const LlmJson *key = g_ptr_array_index (self->keys, i);

      if (!g_hash_table_add (seen, g_bytes_new (key->text, key->length)))
        return self;
    }
  for (guint i = 0; self->values != NULL && i < self->values->len; i++)
    {
      const LlmJson *found = find_twice (g_ptr_array_index (self->values, i));

      if (found != NULL)
        return found;
    }
  return NULL;
}

static gboolean
has_surrogates (const LlmJson *self)
{
  if (self->kind == LLM_JSON_STRING
      && !g_utf8_validate_len (self->text, self->length, NULL)
      && memchr (self->text, '\0', self->length) == NULL)
    return TRUE;
  for (guint i = 0; self->values != NULL && i < self->values->len; i++)
    if (has_surrogates (g_ptr_array_index (self->values, i))
        || (self->keys != NULL && has_surrogates (g_ptr_array_index (self->keys, i))))
      return TRUE;
  return FALSE;
}

LlmJson *
llm_json_read (const char  *text,
               gsize        length,
               GError     **error)
{
  g_autofree char *copy = g_strndup (text, length);
  g_autoptr(LlmJson) self = NULL;
  const LlmJson *twice;
  const char *at = NULL;
  const char *fault;

  if (strlen (copy) != length || !g_utf8_validate (copy, -1, NULL))
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION, "it is not valid UTF-8");
  fault = llmsvc_json_find_fault (copy, length, &limits, &at);
  if (fault != NULL)
    {
      guint line = 1;

      for (const char *p = copy; p < at && *p != '\0'; p++)
        line += *p == '\n';
      return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION, "it is no JSON, line %u: %s", line,
                            fault);
    }
  at = skip_space (copy);
  self = read_value (&at);
  twice = find_twice (self);
  if (twice != NULL)
    {
      g_autofree char *pointer = llm_json_get_pointer (twice);

      return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION, "%s: a key is there twice",
                            pointer);
    }
  if (has_surrogates (self))
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION,
                          "a string in it has half a surrogate pair, which is no character");
  return g_steal_pointer (&self);
}

LlmJson *
llm_json_get (const LlmJson *self,
              const char    *key)
{
  for (guint i = 0; self->kind == LLM_JSON_OBJECT && i < self->keys->len; i++)
    if (llm_json_is (g_ptr_array_index (self->keys, i), key))
      return g_ptr_array_index (self->values, i);
  return NULL;
}

LlmJson *
llm_json_get_set (const LlmJson *self,
                  const char    *key)
{
  LlmJson *value = llm_json_get (self, key);

  return value != NULL && value->kind != LLM_JSON_NULL ? value : NULL;
}

gboolean
llm_json_is (const LlmJson *self,
             const char    *text)
{
  return self->kind == LLM_JSON_STRING && self->length == strlen (text)
         && memcmp (self->text, text, self->length) == 0;
}

gboolean
llm_json_is_nothing (const LlmJson *self)
{
  g_autofree char *text = NULL;

  if (self == NULL || self->kind == LLM_JSON_NULL)
    return TRUE;
  if (self->kind != LLM_JSON_STRING)
    return FALSE;
  text = g_strstrip (g_strndup (self->text, self->length));
  return strlen (self->text) == self->length && (*text == '\0' || g_str_equal (text, "null"));
}

char *
llm_json_get_pointer (const LlmJson *self)
{
  g_autofree char *above = NULL;
  GString *pointer;

  if (self->parent == NULL)
    return g_strdup ("#");
  above = llm_json_get_pointer (self->parent);
  pointer = g_string_new (above);
  if (self->parent->kind == LLM_JSON_ARRAY)
    g_string_append_printf (pointer, "/%u", self->place);
  else
    {
      const LlmJson *key = g_ptr_array_index (self->parent->keys, self->place);
      g_autofree char *valid = g_utf8_make_valid (key->text, (gssize) key->length);
      GString *name = g_string_new (valid);

      g_string_replace (name, "~", "~0", 0);
      g_string_replace (name, "/", "~1", 0);
      if (name->len > 100)
        g_string_truncate (name, (gsize) (g_utf8_find_prev_char (name->str, name->str + 100)
                                          - name->str));
      g_string_append_printf (pointer, "/%s", name->str);
      g_string_free (name, TRUE);
    }
  return g_string_free (pointer, FALSE);
}

static void
write_string (const LlmJson *self,
              GString       *out)
{
  g_string_append_c (out, '"');
  for (gsize at = 0; at <= self->length; at++)
    {
      gsize n = strlen (self->text + at);

      llmsvc_json_append_escaped (out, self->text + at, n);
      at += n;
      if (at < self->length)
        g_string_append (out, "\\u0000");
    }
  g_string_append_c (out, '"');
}

void
llm_json_write (const LlmJson *self,
                GString       *out)
{
  static const char *const words[] = { "null", "false", "true" };
  gboolean is_object = self->kind == LLM_JSON_OBJECT;

  if (self->kind < LLM_JSON_NUMBER)
    g_string_append (out, words[self->kind]);
  else if (self->kind == LLM_JSON_NUMBER)
    g_string_append_len (out, self->text, (gssize) self->length);
  else if (self->kind == LLM_JSON_STRING)
    write_string (self, out);
  if (self->kind < LLM_JSON_ARRAY)
    return;

  g_string_append_c (out, is_object ? '{' : '[');
  for (guint i = 0; i < self->values->len; i++)
    {
      if (i > 0)
        g_string_append_c (out, ',');
      if (is_object)
        {
          write_string (g_ptr_array_index (self->keys, i), out);
          g_string_append_c (out, ':');
        }
      llm_json_write (g_ptr_array_index (self->values, i), out);
    }
  g_string_append_c (out, is_object ? '}' : ']');
}

/* --- numbers --- */

gboolean
llm_decimal_read (LlmDecimal *self,
                  const char *text)
{
  gboolean is_negative = *text == '-';
  const char *digits = text + is_negative;
  gsize n_whole = strspn (digits, "0123456789");
  const char *behind = digits + n_whole;
  gsize n_fraction = *behind == '.' ? strspn (behind + 1, "0123456789") : 0;
  const char *exponent_text = *behind == '.' ? behind + 1 + n_fraction : behind;
  long exponent = *exponent_text != '\0' ? strtol (exponent_text + 1, NULL, 10) : 0;
  g_autoptr(GString) all = g_string_new_len (digits, (gssize) n_whole);
  gssize point;
  gsize skip;

  memset (self, 0, sizeof *self);
  if (ABS (exponent) > MAX_EXPONENT)
    return FALSE;
  g_string_append_len (all, behind + 1, (gssize) n_fraction);
  point = (gssize) n_whole + exponent;
  for (; point <= 0; point++)
    g_string_prepend_c (all, '0');
  while ((gssize) all->len < point)
    g_string_append_c (all, '0');
  self->whole = g_strndup (all->str, (gsize) point);
  self->fraction = g_strdup (all->str + point);
  skip = strspn (self->whole, "0");
  skip = MIN (skip, strlen (self->whole) - 1);
  memmove (self->whole, self->whole + skip, strlen (self->whole) - skip + 1);
  for (gsize n = strlen (self->fraction); n > 0 && self->fraction[n - 1] == '0'; n--)
    self->fraction[n - 1] = '\0';
  self->is_negative =
    is_negative && !(g_str_equal (self->whole, "0") && *self->fraction == '\0');
  return TRUE;
}

void
llm_decimal_clear (LlmDecimal *self)
{
  g_clear_pointer (&self->whole, g_free);
  g_clear_pointer (&self->fraction, g_free);
}
