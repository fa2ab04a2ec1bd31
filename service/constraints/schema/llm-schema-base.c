/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Errors, what the compiler owns, sets of strings and numbers. */

#include <stdarg.h>
#include <string.h>

#include "base/llm-fail.h"
#include "constraints/schema/llm-schema-private.h"

typedef struct
{
  gpointer data;
  GDestroyNotify free;
} Owned;

static void
set_error (LlmSchema     *self,
           const LlmJson *node,
           gboolean       is_unheld,
           const char    *format,
           va_list        args)
{
  g_autofree char *reason = NULL;
  g_autofree char *pointer = NULL;

  if (self->error != NULL)
    return;
  reason = g_strdup_vprintf (format, args);
  if (node == NULL)
    node = self->at != NULL ? self->at : self->root;
  pointer = llm_json_get_pointer (node);
  llm_fail (&self->error, LLMSVC_ERROR_INVALID_OPTION, "schema: %s: %s", pointer, reason);
  self->is_unheld = is_unheld;
}

gpointer
llm_schema_fail (LlmSchema     *self,
                 const LlmJson *node,
                 const char    *format,
                 ...)
{
  va_list args;

  va_start (args, format);
  set_error (self, node, FALSE, format, args);
  va_end (args);
  return NULL;
}

gpointer
llm_schema_refuse (LlmSchema     *self,
                   const LlmJson *node,
                   const char    *format,
                   ...)
{
  va_list args;

  va_start (args, format);
  set_error (self, node, TRUE, format, args);
  va_end (args);
  return NULL;
}

gboolean
llm_schema_leave_out (LlmSchema *self)
{
  const char *place = self->error != NULL ? strchr (self->error->message, '#') : NULL;

  if (self->error == NULL || !self->is_unheld || self->unheld == NULL || place == NULL)
    return FALSE;
  if (!g_ptr_array_find_with_equal_func (self->unheld, place, g_str_equal, NULL))
    g_ptr_array_add (self->unheld, g_strdup (place));
  g_clear_error (&self->error);
  self->is_unheld = FALSE;
  return TRUE;
}

gpointer
llm_schema_own (LlmSchema      *self,
                gpointer        data,
                GDestroyNotify  free)
{
  Owned *owned = g_new (Owned, 1);

  *owned = (Owned) { data, free };
  g_ptr_array_add (self->owned, owned);
  return data;
}

LlmAutomaton *
llm_schema_own_automaton (LlmSchema    *self,
                          LlmAutomaton *automaton)
{
  if (automaton == NULL)
    return llm_schema_refuse (self, NULL, "what it asks of strings or numbers is too large");
  return llm_schema_own (self, automaton, (GDestroyNotify) llm_automaton_unref);
}

LlmAutomaton *
llm_schema_combine (LlmSchema    *self,
                    LlmAutomaton *a,
                    LlmAutomaton *b,
                    LlmCombine    how)
{
  gboolean is_all_a = a == self->numbers || a == self->strings;
  gboolean is_all_b = b == self->numbers || b == self->strings;

  if (a == NULL || b == NULL)
    return NULL;
  if (how != LLM_COMBINE_WITHOUT && a == b)
    return a;
  if (how == LLM_COMBINE_AND && (is_all_a || llm_automaton_is_empty (b)))
    return b;
  if (how == LLM_COMBINE_AND && (is_all_b || llm_automaton_is_empty (a)))
    return a;
  if (how == LLM_COMBINE_OR && (is_all_a || llm_automaton_is_empty (b)))
    return a;
  if (how == LLM_COMBINE_OR && (is_all_b || llm_automaton_is_empty (a)))
    return b;
  if (how == LLM_COMBINE_WITHOUT && (llm_automaton_is_empty (a) || llm_automaton_is_empty (b)))
    return a;
  if (how == LLM_COMBINE_WITHOUT && (is_all_b || a == b))
    return self->nothing;
  return llm_schema_own_automaton (self, llm_automaton_combine (a, b, how));
}

GString *
llm_schema_encode (const LlmJson *string)
{
  static const char letters[] = "\bb\ff\nn\rr\tt\"\"\\\\";
  GString *text = g_string_new (NULL);

  for (gsize i = 0; i < string->length; i++)
    {
      guint8 c = (guint8) string->text[i];
      const char *found = NULL;

      for (const char *at = letters; *at != '\0' && found == NULL; at += 2)
        found = (guint8) *at == c ? at : NULL;
      if (found != NULL)
        g_string_append_printf (text, "\\%c", found[1]);
      else if (c < 0x20)
        g_string_append_printf (text, "\\u%04x", c);
      else
        g_string_append_c (text, (char) c);
    }
  return text;
}

static void
free_owned (gpointer data)
{
  Owned *owned = data;

  owned->free (owned->data);
  g_free (owned);
}

GPtrArray *
llm_schema_new_owned (void)
{
  return g_ptr_array_new_with_free_func (free_owned);
}
