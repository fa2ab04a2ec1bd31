/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One run of a template over a whole conversation. */

#include "model/template/llm-template-private.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"

/* What its reasoning is called in the extras of a message. */
#define REASONING "reasoning_content"

/* Objects where there are strings that hold one, or the other way round: OpenAI's API has strings,
 * most templates are written for objects. Others stay as they are. */
static void
convert_arguments (JsonObject *call,
                   gboolean    wants_text)
{
  JsonNode *node = json_object_get_member (call, "arguments");

  if (node == NULL)
    return;
  if (wants_text && JSON_NODE_HOLDS_OBJECT (node))
    {
      g_autofree char *text = json_to_string (node, FALSE);

      json_object_set_string_member (call, "arguments", text);
    }
  else if (!wants_text && JSON_NODE_HOLDS_VALUE (node)
           && json_node_get_value_type (node) == G_TYPE_STRING)
    {
      JsonNode *object = json_from_string (json_node_get_string (node), NULL);

      if (object != NULL && JSON_NODE_HOLDS_OBJECT (object))
        json_object_set_member (call, "arguments", object);
      else
        g_clear_pointer (&object, json_node_unref);
    }
}

/* To the name that the template has for it. @key: (nullable) */
static void
rename_reasoning (JsonObject *extras,
                  const char *key)
{
  JsonNode *reasoning = json_object_get_member (extras, REASONING);

  if (reasoning == NULL || key == NULL || g_str_equal (key, REASONING))
    return;
  json_object_set_member (extras, key, json_node_copy (reasoning));
  json_object_remove_member (extras, REASONING);
}

/* (transfer full) (nullable): the extras of @message with its calls and its reasoning as the
 * template wants them; NULL where there are none. */
static char *
convert_extras (const LlmTemplateFeatures *features,
                const LlmMessage          *message)
{
  const char *extras = message->extras;
  g_autoptr(JsonNode) root = NULL;
  JsonNode *calls;

  if (extras == NULL
      || (strstr (extras, "tool_calls") == NULL && strstr (extras, REASONING) == NULL))
    return NULL;
  root = json_from_string (extras, NULL);
  if (root == NULL || !JSON_NODE_HOLDS_OBJECT (root))
    return NULL;
  rename_reasoning (json_node_get_object (root), features->reasoning_key);
  calls = json_object_get_member (json_node_get_object (root), "tool_calls");
  if (calls == NULL || !JSON_NODE_HOLDS_ARRAY (calls))
    return json_to_string (root, FALSE);
  for (guint i = 0; i < json_array_get_length (json_node_get_array (calls)); i++)
    {
      JsonNode *call = json_array_get_element (json_node_get_array (calls), i);
      JsonNode *function;

      if (!JSON_NODE_HOLDS_OBJECT (call))
        continue;
      function = json_object_get_member (json_node_get_object (call), "function");
      if (function != NULL && JSON_NODE_HOLDS_OBJECT (function))
        convert_arguments (json_node_get_object (function), features->needs_text_arguments);
    }
  if (features->needs_null_content && (message->text == NULL || *message->text == '\0'))
    json_object_set_null_member (json_node_get_object (root), "content");
  return json_to_string (root, FALSE);
}

/* (nullable): for @call. */
static const char *
get_variables (const LlmTemplateCall *call)
{
  static const char *const variables[LLM_N_THINKING] = {
    [LLM_THINKING_OFF] = LLM_TEMPLATE_THINKS_NOT,
    [LLM_THINKING_ON] = LLM_TEMPLATE_THINKS,
    [LLM_THINKING_LOW] = LLM_TEMPLATE_THINKS_AT ("low"),
    [LLM_THINKING_MEDIUM] = LLM_TEMPLATE_THINKS_AT ("medium"),
    [LLM_THINKING_HIGH] = LLM_TEMPLATE_THINKS_AT ("high"),
  };

  return call->variables != NULL ? call->variables : variables[call->thinking];
}

gboolean
llm_template_run (LlmTemplate           *self,
                  const LlmTemplateCall *call,
                  LlmJinjaOutput        *out,
                  GError               **error)
{
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autofree LlmJinjaMessage *messages = g_new0 (LlmJinjaMessage, call->n_messages + 1);
  /* what the caller names can't stand for these */
  const LlmJinjaVariable variables[] = {
    { "bos_token", self->bos, FALSE, LLM_ORIGIN_TEMPLATE },
    { "eos_token", self->eos, FALSE, LLM_ORIGIN_TEMPLATE },
    { "add_generation_prompt", call->open_answer ? "true" : "false", TRUE, LLM_ORIGIN_TEMPLATE },
    { "documents", "null", TRUE, LLM_ORIGIN_DATA },
    /* the last: see below */
    { "tools", call->tools != NULL ? call->tools : "null", TRUE, LLM_ORIGIN_DATA },
  };
  const LlmJinjaInput input = {
    .messages = messages, .n_messages = call->n_messages,
    .members = get_variables (call), .members_origin = LLM_ORIGIN_DATA,
    .variables = variables,
    .n_variables = G_N_ELEMENTS (variables) - (self->omits_tools && call->tools == NULL),
    .now_s = llm_clock_wall_s (),
    .max_us = self->probes_end_us > 0 ? MAX (self->probes_end_us - llm_clock_thread_us (), 1) : 0,
  };

  for (guint i = 0; i < call->n_messages; i++)
    {
      const LlmMessage *message = &call->messages[i];
      char *extras = convert_extras (&self->features, message);

      if (extras != NULL)
        g_ptr_array_add (texts, extras);
      messages[i] = (LlmJinjaMessage) {
        .role = message->role,
        .text = message->text != NULL ? message->text : "",
        .extras = extras != NULL ? extras : message->extras,
        .text_origin = llm_origin_of_text (i),
        .extras_origin = llm_origin_of_extras (i),
      };
    }
  return llm_jinja_template_render (self->program, &input, out, error);
}

gboolean
llm_template_probe (LlmTemplate              *self,
                    const LlmMessage *const  *messages,
                    gboolean                  open_answer,
                    const char               *tools,
                    const char               *variables,
                    LlmJinjaOutput           *out,
                    GError                  **error)
{
  LlmMessage copies[8];
  LlmTemplateCall probed = { .messages = copies, .open_answer = open_answer, .tools = tools,
                             .variables = variables };

  for (; messages[probed.n_messages] != NULL; probed.n_messages++)
    copies[probed.n_messages] = *messages[probed.n_messages];
  llm_jinja_output_clear (out);
  return llm_template_run (self, &probed, out, error);
}

gboolean
llm_template_has_origin (const LlmJinjaOutput *out,
                         guint16               origin,
                         gsize                *last)
{
  for (gsize i = out->length; i-- > 0;)
    if (out->origins[i] == origin)
      {
        if (last != NULL)
          *last = i + 1;
        return TRUE;
      }
  return FALSE;
}
