/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Responses: items, which are messages, calls of functions and what these returned, and more items.
 * They are read as the messages of a chat. Nothing is kept under an id: a client sends all items. */

#include "http-dialect.h"

#include <libsoup/soup.h>
#include <string.h>

#include "common/llmsvc-json.h"
#include "http-error.h"

#define BAD SOUP_STATUS_BAD_REQUEST

/* --- requests --- */

static const char *
get_text (JsonObject *object,
          const char *key)
{
  JsonNode *node = http_request_get_member (object, key);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
           ? json_node_get_string (node) : NULL;
}

static JsonObject *
get_object (JsonNode *node)
{
  return node != NULL && JSON_NODE_HOLDS_OBJECT (node) ? json_node_get_object (node) : NULL;
}

static JsonObject *
add_message (JsonArray  *messages,
             const char *role)
{
  JsonObject *message = json_object_new ();

  json_object_set_string_member (message, "role", role);
  json_array_add_object_element (messages, message);
  return message;
}

/* Parts of text, of any direction, are those of a chat; others stay as they are, and are refused. */
static JsonNode *
convert_content (JsonNode *content)
{
  JsonNode *made = json_node_copy (content);

  for (guint i = 0; JSON_NODE_HOLDS_ARRAY (made) && i < json_array_get_length (json_node_get_array (made)); i++)
    {
      JsonObject *part = get_object (json_array_get_element (json_node_get_array (made), i));
      const char *type = part != NULL ? get_text (part, "type") : NULL;

      if (g_strcmp0 (type, "input_text") == 0 || g_strcmp0 (type, "output_text") == 0)
        json_object_set_string_member (part, "type", "text");
    }
  return made;
}

static JsonNode *
deep_copy (JsonNode *node)
{
  g_autofree char *text = json_to_string (node, FALSE);

  return json_from_string (text, NULL);
}

/* Calls of one answer stand in one message. */
static void
add_call (JsonArray  *messages,
          JsonObject *item)
{
  guint n = json_array_get_length (messages);
  JsonObject *message = n > 0 ? json_array_get_object_element (messages, n - 1) : NULL;
  JsonObject *call = json_object_new (), *function = json_object_new ();
  const char *id = get_text (item, "call_id"), *name = get_text (item, "name");
  const char *arguments = get_text (item, "arguments");

  if (message == NULL || g_strcmp0 (get_text (message, "role"), LLMSVC_ROLE_ASSISTANT) != 0)
    message = add_message (messages, LLMSVC_ROLE_ASSISTANT);
  if (!json_object_has_member (message, "tool_calls"))
    json_object_set_array_member (message, "tool_calls", json_array_new ());
  json_object_set_string_member (function, "name", name != NULL ? name : "");
  json_object_set_string_member (function, "arguments", arguments != NULL ? arguments : "");
  json_object_set_string_member (call, "id", id != NULL ? id : "");
  json_object_set_string_member (call, "type", "function");
  json_object_set_object_member (call, "function", function);
  json_array_add_object_element (json_object_get_array_member (message, "tool_calls"), call);
}

static gboolean
add_item (JsonArray  *messages,
          JsonObject *item,
          guint       number,
          GError    **error)
{
  const char *type = get_text (item, "type"), *role = get_text (item, "role");
  JsonObject *message;

  if (type == NULL || g_str_equal (type, "message"))
    {
      JsonNode *content = http_request_get_member (item, "content");

      message = add_message (messages, role != NULL ? role : "");
      if (content != NULL)
        {
          g_autoptr(JsonNode) copy = deep_copy (content);

          json_object_set_member (message, "content", convert_content (copy));
        }
      return TRUE;
    }
  if (g_str_equal (type, "function_call"))
    {
      add_call (messages, item);
      return TRUE;
    }
  if (g_str_equal (type, "function_call_output"))
    {
      JsonNode *output = http_request_get_member (item, "output");
      const char *id = get_text (item, "call_id");

      message = add_message (messages, LLMSVC_ROLE_TOOL);
      json_object_set_string_member (message, "tool_call_id", id != NULL ? id : "");
      if (output != NULL)
        {
          g_autoptr(JsonNode) copy = deep_copy (output);

          json_object_set_member (message, "content", convert_content (copy));
        }
      return TRUE;
    }
  /* what was thought is no part of later prompts */
  return g_str_equal (type, "reasoning")
         || http_fail (error, BAD, "input", "unsupported_value",
                       "input[%u] is “%s”, and only messages, calls of functions and what these returned "
                       "are read here", number, type);
}

static gboolean
add_input (JsonArray   *messages,
           JsonObject  *object,
           GError     **error)
{
  JsonNode *input = http_request_get_member (object, "input");
  const char *instructions;

  if (!http_request_read_string (object, "instructions", &instructions, error))
    return FALSE;
  if (instructions != NULL)
    json_object_set_string_member (add_message (messages, LLMSVC_ROLE_SYSTEM), "content", instructions);
  if (get_text (object, "input") != NULL)
    {
      json_object_set_string_member (add_message (messages, LLMSVC_ROLE_USER), "content",
                                     get_text (object, "input"));
      return TRUE;
    }
  if (input == NULL || !JSON_NODE_HOLDS_ARRAY (input))
    return http_fail (error, BAD, "input", "invalid_type", "“input” has to be a string or an array of items");
  for (guint i = 0; i < json_array_get_length (json_node_get_array (input)); i++)
    {
      JsonObject *item = get_object (json_array_get_element (json_node_get_array (input), i));

      if (item == NULL)
        return http_fail (error, BAD, "input", "invalid_type", "input[%u] has to be an object", i);
      if (!add_item (messages, item, i, error))
        return FALSE;
    }
  return TRUE;
}

/* Here a function's members stand beside its type, there in an object of their own. */
static gboolean
convert_tools (JsonObject  *object,
               JsonObject  *chat,
               GError     **error)
{
  JsonNode *tools = http_request_get_member (object, "tools");
  JsonObject *choice = get_object (http_request_get_member (object, "tool_choice"));
  JsonArray *made;

  if (tools != NULL && !JSON_NODE_HOLDS_ARRAY (tools))
    return http_fail (error, BAD, "tools", "invalid_type", "“tools” has to be an array");
  if (tools != NULL)
    {
      made = json_array_new ();
      json_object_set_array_member (chat, "tools", made);
      for (guint i = 0; i < json_array_get_length (json_node_get_array (tools)); i++)
        {
          JsonObject *tool = get_object (json_array_get_element (json_node_get_array (tools), i));
          JsonObject *outer;
          JsonNode *function;

          if (tool == NULL || g_strcmp0 (get_text (tool, "type"), "function") != 0)
            return http_fail (error, BAD, "tools", "unsupported_value",
                              "tools[%u] has to be a function: no others are run here", i);
          outer = json_object_new ();
          function = deep_copy (json_array_get_element (json_node_get_array (tools), i));
          json_object_remove_member (json_node_get_object (function), "type");
          json_object_set_string_member (outer, "type", "function");
          json_object_set_member (outer, "function", function);
          json_array_add_object_element (made, outer);
        }
    }
  if (choice != NULL)
    {
      JsonObject *outer = json_object_new (), *function = json_object_new ();
      const char *name = get_text (choice, "name");

      if (name != NULL)
        json_object_set_string_member (function, "name", name);
      json_object_set_object_member (outer, "function", function);
      json_object_set_object_member (chat, "tool_choice", outer);
    }
  else if (get_text (object, "tool_choice") != NULL)
    json_object_set_string_member (chat, "tool_choice", get_text (object, "tool_choice"));
  return TRUE;
}

static void
convert_format (JsonObject *object,
                JsonObject *chat)
{
  JsonObject *text = get_object (http_request_get_member (object, "text"));
  JsonNode *format = text != NULL ? http_request_get_member (text, "format") : NULL;
  JsonObject *made;

  if (get_object (format) == NULL)
    return;
  made = json_object_new ();
  if (get_text (get_object (format), "type") != NULL)
    json_object_set_string_member (made, "type", get_text (get_object (format), "type"));
  json_object_set_member (made, "json_schema", deep_copy (format));
  json_object_set_object_member (chat, "response_format", made);
}

static gboolean
check_refused (JsonObject  *object,
               GError     **error)
{
  static const char *const kept[] = { "previous_response_id", "conversation", "prompt" };
  gboolean is_background = FALSE;

  for (guint i = 0; i < G_N_ELEMENTS (kept); i++)
    if (http_request_get_member (object, kept[i]) != NULL)
      return http_fail (error, BAD, kept[i], "unsupported_parameter",
                        "“%s” is not supported here: nothing is kept under an id, so send all items", kept[i]);
  if (!http_request_read_boolean (object, "background", &is_background, error))
    return FALSE;
  return !is_background
         || http_fail (error, BAD, "background", "unsupported_parameter",
                       "“background” is not supported here: an answer is given while its client waits");
}

static HttpRequest *
read_request (JsonObject  *object,
              GError     **error)
{
  static const char *const same[] = {
    "model", "temperature", "top_p", "stream", "parallel_tool_calls", "seed",
  };
  g_autoptr(JsonObject) chat = json_object_new ();
  JsonArray *messages = json_array_new ();
  JsonObject *reasoning = get_object (http_request_get_member (object, "reasoning"));

  json_object_set_array_member (chat, "messages", messages);
  if (!check_refused (object, error) || !add_input (messages, object, error)
      || !convert_tools (object, chat, error))
    return NULL;
  convert_format (object, chat);
  for (guint i = 0; i < G_N_ELEMENTS (same); i++)
    if (http_request_get_member (object, same[i]) != NULL)
      json_object_set_member (chat, same[i], json_node_copy (http_request_get_member (object, same[i])));
  if (http_request_get_member (object, "max_output_tokens") != NULL)
    json_object_set_member (chat, "max_tokens",
                            json_node_copy (http_request_get_member (object, "max_output_tokens")));
  if (reasoning != NULL && get_text (reasoning, "effort") != NULL)
    json_object_set_string_member (chat, "reasoning_effort", get_text (reasoning, "effort"));
  return http_request_read_chat (chat, error);
}

/* --- items --- */

/* Each begins as “in_progress”, without its content, and is “completed” later. */
static void
append_message (GString    *out,
                const char *id,
                guint       number,
                const char *text)
{
  g_string_append_printf (out, "{\"type\":\"message\",\"id\":\"msg_%s_%u\",\"status\":\"%s\","
                          "\"role\":\"assistant\",\"content\":[", id, number,
                          text != NULL ? "completed" : "in_progress");
  if (text != NULL)
    {
      g_string_append (out, "{\"type\":\"output_text\",\"text\":");
      http_append_string (out, text);
      g_string_append (out, ",\"annotations\":[],\"logprobs\":[]}");
    }
  g_string_append (out, "]}");
}

static void
append_reasoning (GString    *out,
                  const char *id,
                  guint       number,
                  const char *text)
{
  g_string_append_printf (out, "{\"type\":\"reasoning\",\"id\":\"rs_%s_%u\",\"summary\":[],\"content\":[", id,
                          number);
  if (text != NULL)
    {
      g_string_append (out, "{\"type\":\"reasoning_text\",\"text\":");
      http_append_string (out, text);
      g_string_append_c (out, '}');
    }
  g_string_append_printf (out, "],\"status\":\"%s\"}", text != NULL ? "completed" : "in_progress");
}

/* @arguments: (nullable): NULL while they are to come */
static void
append_call (GString    *out,
             const char *id,
             guint       number,
             JsonObject *call,
             const char *arguments)
{
  JsonObject *function = get_object (http_request_get_member (call, "function"));
  const char *call_id = get_text (call, "id");
  const char *name = function != NULL ? get_text (function, "name") : NULL;

  g_string_append_printf (out, "{\"type\":\"function_call\",\"id\":\"fc_%s_%u\",\"call_id\":", id, number);
  http_append_string (out, call_id != NULL ? call_id : "");
  g_string_append (out, ",\"name\":");
  http_append_string (out, name != NULL ? name : "");
  g_string_append (out, ",\"arguments\":");
  http_append_string (out, arguments != NULL ? arguments : "");
  g_string_append_printf (out, ",\"status\":\"%s\"}", arguments != NULL ? "completed" : "in_progress");
}

static const char *
get_arguments (JsonObject *call)
{
  JsonObject *function = get_object (http_request_get_member (call, "function"));
  const char *arguments = function != NULL ? get_text (function, "arguments") : NULL;

  return arguments != NULL ? arguments : "";
}

/* --- the object --- */

static void
append_response (const HttpAnswer *self,
                 GString          *out,
                 const char       *status,
                 const char       *items,
                 LlmsvcAnswer     *answer)
{
  gboolean is_cut = answer != NULL && g_str_equal (http_get_reason (answer), "length");

  g_string_append_printf (out, "{\"id\":\"resp_%s\",\"object\":\"response\",\"created_at\":%" G_GINT64_FORMAT
                          ",\"status\":\"%s\",\"error\":null,\"incomplete_details\":%s,\"instructions\":null,"
                          "\"metadata\":{},\"model\":", self->id, self->created,
                          is_cut ? "incomplete" : status,
                          is_cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
  http_append_string (out, self->model);
  g_string_append_printf (out, ",\"output\":[%s],\"parallel_tool_calls\":true,\"temperature\":null,"
                          "\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":null,\"usage\":", items);
  if (answer != NULL)
    {
      guint n_prompt = llmsvc_answer_get_prompt_tokens (answer);
      guint n_output = llmsvc_answer_get_output_tokens (answer);

      g_string_append_printf (out, "{\"input_tokens\":%u,\"input_tokens_details\":{\"cached_tokens\":%u},"
                              "\"output_tokens\":%u,\"output_tokens_details\":{\"reasoning_tokens\":%u},"
                              "\"total_tokens\":%u}", n_prompt, llmsvc_answer_get_cached_tokens (answer),
                              n_output, llmsvc_answer_get_reasoning_tokens (answer), n_prompt + n_output);
    }
  else
    g_string_append (out, "null");
  g_string_append_c (out, '}');
}

static void
add_comma (GString *out)
{
  if (out->len > 0)
    g_string_append_c (out, ',');
}

static char *
write_whole (const HttpAnswer *self,
             LlmsvcAnswer     *answer)
{
  const char *text = llmsvc_answer_get_text (answer);
  const char *reasoning = llmsvc_answer_get_reasoning (answer);
  const char *calls = llmsvc_answer_get_tool_calls (answer);
  g_autoptr(GString) items = g_string_new (NULL);
  g_autoptr(GString) out = g_string_new (NULL);
  guint number = 0;

  if (http_has_text (reasoning))
    append_reasoning (items, self->id, number++, reasoning);
  if (http_has_text (text) || !http_has_text (calls))
    {
      add_comma (items);
      append_message (items, self->id, number++, text);
    }
  if (http_has_text (calls))
    {
      g_autoptr(JsonNode) root = llmsvc_json_parse (calls, strlen (calls), NULL);

      for (guint i = 0; root != NULL && i < json_array_get_length (json_node_get_array (root)); i++)
        {
          JsonObject *call = json_array_get_object_element (json_node_get_array (root), i);

          add_comma (items);
          append_call (items, self->id, number++, call, get_arguments (call));
        }
    }
  append_response (self, out, "completed", items->str, answer);
  return g_string_free (g_steal_pointer (&out), FALSE);
}

/* --- events --- */

/* Up to its members. */
static void
begin_event (HttpAnswer *self,
             GString    *out,
             const char *type)
{
  g_string_append_printf (out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%u", type, type,
                          self->n_events++);
}

static void
end_event (GString *out)
{
  g_string_append (out, "}\n\n");
}

static void
append_state (HttpAnswer   *self,
              GString      *out,
              const char   *type,
              const char   *status,
              LlmsvcAnswer *answer)
{
  begin_event (self, out, type);
  g_string_append (out, ",\"response\":");
  append_response (self, out, status, self->items->str, answer);
  end_event (out);
}

static void
begin_stream (HttpAnswer *self,
              GString    *out)
{
  append_state (self, out, "response.created", "in_progress", NULL);
  append_state (self, out, "response.in_progress", "in_progress", NULL);
}

/* The item under way, as far as it is known; @text: (nullable) */
static void
append_item (const HttpAnswer *self,
             GString          *out,
             const char       *text)
{
  if (self->is_reasoning)
    append_reasoning (out, self->id, self->n_items, text);
  else
    append_message (out, self->id, self->n_items, text);
}

static const char *
get_prefix (const HttpAnswer *self)
{
  return self->is_reasoning ? "rs" : "msg";
}

static void
append_part (const HttpAnswer *self,
             GString          *out,
             const char       *text)
{
  g_string_append_printf (out, ",\"item_id\":\"%s_%s_%u\",\"output_index\":%u,\"content_index\":0,"
                          "\"part\":{\"type\":\"%s\",\"text\":", get_prefix (self), self->id, self->n_items,
                          self->n_items, self->is_reasoning ? "reasoning_text" : "output_text");
  http_append_string (out, text);
  g_string_append (out, self->is_reasoning ? "}" : ",\"annotations\":[],\"logprobs\":[]}");
}

static void
append_piece (HttpAnswer *self,
              GString    *out,
              const char *kind,
              const char *key,
              const char *text)
{
  g_autofree char *type =
    g_strdup_printf ("response.%s.%s", self->is_reasoning ? "reasoning_text" : "output_text", kind);

  begin_event (self, out, type);
  g_string_append_printf (out, ",\"item_id\":\"%s_%s_%u\",\"output_index\":%u,\"content_index\":0,\"%s\":",
                          get_prefix (self), self->id, self->n_items, self->n_items, key);
  http_append_string (out, text);
  if (!self->is_reasoning)
    g_string_append (out, ",\"logprobs\":[]");
  end_event (out);
}

static void
end_item (HttpAnswer *self,
          GString    *out)
{
  if (self->item == NULL)
    return;
  append_piece (self, out, "done", "text", self->item->str);
  begin_event (self, out, "response.content_part.done");
  append_part (self, out, self->item->str);
  end_event (out);
  begin_event (self, out, "response.output_item.done");
  g_string_append_printf (out, ",\"output_index\":%u,\"item\":", self->n_items);
  append_item (self, out, self->item->str);
  end_event (out);
  add_comma (self->items);
  append_item (self, self->items, self->item->str);
  self->n_items++;
  g_string_free (g_steal_pointer (&self->item), TRUE);
}

static void
add_piece (HttpAnswer *self,
           GString    *out,
           const char *text,
           gboolean    is_reasoning)
{
  if (self->item != NULL && self->is_reasoning != is_reasoning)
    end_item (self, out);
  if (self->item == NULL)
    {
      self->item = g_string_new (NULL);
      self->is_reasoning = is_reasoning;
      begin_event (self, out, "response.output_item.added");
      g_string_append_printf (out, ",\"output_index\":%u,\"item\":", self->n_items);
      append_item (self, out, NULL);
      end_event (out);
      begin_event (self, out, "response.content_part.added");
      append_part (self, out, "");
      end_event (out);
    }
  g_string_append (self->item, text);
  append_piece (self, out, "delta", "delta", text);
}

static void
add_text (HttpAnswer *self,
          GString    *out,
          const char *text)
{
  add_piece (self, out, text, FALSE);
}

static void
add_reasoning (HttpAnswer *self,
               GString    *out,
               const char *text)
{
  add_piece (self, out, text, TRUE);
}

static void
append_call_item (HttpAnswer *self,
                  GString    *out,
                  const char *type,
                  JsonObject *call,
                  const char *arguments)
{
  begin_event (self, out, type);
  g_string_append_printf (out, ",\"output_index\":%u,\"item\":", self->n_items);
  append_call (out, self->id, self->n_items, call, arguments);
  end_event (out);
}

static void
append_arguments (HttpAnswer *self,
                  GString    *out,
                  const char *type,
                  const char *key,
                  const char *arguments)
{
  begin_event (self, out, type);
  g_string_append_printf (out, ",\"item_id\":\"fc_%s_%u\",\"output_index\":%u,\"%s\":", self->id, self->n_items,
                          self->n_items, key);
  http_append_string (out, arguments);
  end_event (out);
}

static void
add_stream_call (HttpAnswer *self,
                 GString    *out,
                 const char *text)
{
  g_autoptr(JsonNode) root = llmsvc_json_parse (text, strlen (text), NULL);
  JsonObject *call = get_object (root);

  end_item (self, out);
  if (call == NULL)
    return;
  append_call_item (self, out, "response.output_item.added", call, NULL);
  append_arguments (self, out, "response.function_call_arguments.delta", "delta", get_arguments (call));
  append_arguments (self, out, "response.function_call_arguments.done", "arguments", get_arguments (call));
  append_call_item (self, out, "response.output_item.done", call, get_arguments (call));
  add_comma (self->items);
  append_call (self->items, self->id, self->n_items, call, get_arguments (call));
  self->n_items++;
}

static void
end_stream (HttpAnswer   *self,
            GString      *out,
            LlmsvcAnswer *answer)
{
  gboolean is_cut = g_str_equal (http_get_reason (answer), "length");

  /* an answer without a word is one, too */
  if (self->item == NULL && self->n_items == 0)
    add_text (self, out, "");
  end_item (self, out);
  append_state (self, out, is_cut ? "response.incomplete" : "response.completed", "completed", answer);
}

static void
fail_stream (HttpAnswer   *self,
             GString      *out,
             const GError *error)
{
  begin_event (self, out, "error");
  g_string_append (out, ",\"code\":\"server_error\",\"param\":null,\"message\":");
  http_append_string (out, error->message);
  end_event (out);
}

const HttpDialect http_responses = {
  .path = "/v1/responses",
  .read = read_request,
  .write = write_whole,
  .begin = begin_stream,
  .add_text = add_text,
  .add_reasoning = add_reasoning,
  .add_call = add_stream_call,
  .end = end_stream,
  .fail = fail_stream,
};
