/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/tools/llm-tool-messages.h"

#include <string.h>

#include "base/llm-json.h"

static void
message_clear (gpointer data)
{
  LlmMessage *message = data;

  g_free (message->role);
  g_free (message->text);
  g_free (message->extras);
}

void
llm_tool_messages_free (LlmToolMessages *self)
{
  g_array_unref (self->messages);
  g_free (self);
}

/* (transfer full) (nullable): the calls of an answer as text. */
static char *
write_calls (const char *extras)
{
  g_autoptr(LlmJson) root = extras != NULL ? llm_json_read (extras, strlen (extras), NULL) : NULL;
  const LlmJson *calls = root != NULL ? llm_json_get (root, "tool_calls") : NULL;
  g_autoptr(GString) text = g_string_new (NULL);

  if (calls == NULL || calls->kind != LLM_JSON_ARRAY)
    return NULL;
  for (guint i = 0; i < calls->values->len; i++)
    {
      const LlmJson *function = llm_json_get (g_ptr_array_index (calls->values, i), "function");
      const LlmJson *name = function != NULL ? llm_json_get (function, "name") : NULL;
      const LlmJson *arguments = function != NULL ? llm_json_get (function, "arguments") : NULL;

      if (name == NULL || name->kind != LLM_JSON_STRING)
        continue;
      g_string_append_printf (text, "%s<tool_call>\n{\"name\": ", text->len > 0 ? "\n" : "");
      llm_json_write (name, text);
      g_string_append (text, ", \"arguments\": ");
      /* OpenAI's API has a string that holds JSON */
      if (llm_json_is_nothing (arguments))
        g_string_append (text, "{}");
      else if (arguments->kind == LLM_JSON_STRING)
        g_string_append_len (text, arguments->text, (gssize) arguments->length);
      else
        llm_json_write (arguments, text);
      g_string_append (text, "}\n</tool_call>");
    }
  return text->len > 0 ? g_string_free (g_steal_pointer (&text), FALSE) : NULL;
}

/* (transfer full): what a system message says of the tools. */
static char *
write_tools (const char *tools)
{
  g_autoptr(LlmJson) root = llm_json_read (tools, strlen (tools), NULL);
  GString *text = g_string_new ("You can call these functions:\n");

  for (guint i = 0; root != NULL && root->kind == LLM_JSON_ARRAY && i < root->values->len; i++)
    {
      llm_json_write (g_ptr_array_index (root->values, i), text);
      g_string_append_c (text, '\n');
    }
  g_string_append (text, "To call one, answer with\n<tool_call>\n{\"name\": \"NAME\", "
                   "\"arguments\": {ARGUMENTS}}\n</tool_call>");
  return g_string_free (text, FALSE);
}

/* (transfer full): the two with @between, or the one that there is. */
static char *
join (const char *a,
      const char *between,
      const char *b)
{
  return g_strconcat (a, *a != '\0' && *b != '\0' ? between : "", b, NULL);
}

static void
add (LlmToolMessages *self,
     const char      *role,
     char            *text,
     const char      *extras)
{
  LlmMessage message = { g_strdup (role), text, g_strdup (extras) };

  g_array_append_val (self->messages, message);
}

/* Neighbouring results are one message: many templates want users and answers in turn. */
static void
add_result (LlmToolMessages  *self,
            const LlmMessage *message,
            gboolean          is_behind_result)
{
  g_autofree char *text = g_strdup_printf ("<tool_response>\n%s\n</tool_response>",
                                           message->text != NULL ? message->text : "");
  g_autofree char *before = NULL;
  LlmMessage *last;

  if (!is_behind_result)
    {
      add (self, "user", g_steal_pointer (&text), NULL);
      return;
    }
  last = &g_array_index (self->messages, LlmMessage, self->messages->len - 1);
  before = last->text;
  last->text = join (before, "\n", text);
}

LlmToolMessages *
llm_tool_messages_new (const LlmTemplateFeatures *features,
                       const GArray              *messages,
                       guint                      n_settled,
                       guint                      n_system,
                       const char                *tools)
{
  g_autoptr(LlmToolMessages) self = g_new0 (LlmToolMessages, 1);
  gboolean is_changed = FALSE, is_behind_result = FALSE;
  guint at = 0;

  self->messages = g_array_new (FALSE, FALSE, sizeof (LlmMessage));
  g_array_set_clear_func (self->messages, message_clear);
  self->has_tools = tools != NULL && !features->has_tools;
  self->n_system = n_system;
  if (self->has_tools)
    {
      const LlmMessage *first = messages->len > 0 ? &g_array_index (messages, LlmMessage, 0) : NULL;
      g_autofree char *text = write_tools (tools);
      gboolean has_system = first != NULL && g_strcmp0 (first->role, "system") == 0;

      add (self, "system", join (has_system ? first->text : "", "\n\n", text), NULL);
      self->n_system = MAX (n_system, 1);
      is_changed = TRUE;
      at = has_system;
    }
  for (guint i = at; i < messages->len; i++)
    {
      const LlmMessage *message = &g_array_index (messages, LlmMessage, i);
      gboolean is_result = g_strcmp0 (message->role, "tool") == 0 && !features->has_tool_results;
      g_autofree char *calls = features->format == LLM_TOOL_FORMAT_NONE
                                 ? write_calls (message->extras) : NULL;
      const char *text = message->text != NULL ? message->text : "";

      if (is_result)
        add_result (self, message, is_behind_result);
      else if (calls != NULL)
        add (self, message->role, join (text, "\n", calls), NULL);
      else
        add (self, message->role, g_strdup (text), message->extras);
      is_changed |= is_result || calls != NULL;
      is_behind_result = is_result;
      if (i + 1 == n_settled)
        self->n_settled = self->messages->len;
    }
  return is_changed ? g_steal_pointer (&self) : NULL;
}
