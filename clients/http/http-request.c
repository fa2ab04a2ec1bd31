/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "http-request.h"

#include <libsoup/soup.h>
#include <string.h>

#include "common/llmsvc-json.h"
#include "http-error.h"

#define BAD SOUP_STATUS_BAD_REQUEST
#define WRONG_TYPE "invalid_type"
#define WRONG_VALUE "invalid_value"
#define UNSUPPORTED "unsupported_parameter"
#define MAX_STOPS 16

HttpRequest *
http_request_new (void)
{
  HttpRequest *self = g_new0 (HttpRequest, 1);

  self->messages = g_ptr_array_new_with_free_func (g_object_unref);
  self->options = llmsvc_options_new ();
  return self;
}

void
http_request_free (HttpRequest *self)
{
  g_free (self->model);
  g_free (self->prompt);
  g_clear_pointer (&self->messages, g_ptr_array_unref);
  g_clear_object (&self->options);
  g_free (self);
}

/* --- members --- */

JsonNode *
http_request_get_member (JsonObject *object,
                         const char *key)
{
  JsonNode *node = json_object_get_member (object, key);

  return node == NULL || JSON_NODE_HOLDS_NULL (node) ? NULL : node;
}

static gboolean
is_string (JsonNode *node)
{
  return JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING;
}

static gboolean
is_number (JsonNode *node)
{
  return JSON_NODE_HOLDS_VALUE (node)
         && (json_node_get_value_type (node) == G_TYPE_INT64
             || json_node_get_value_type (node) == G_TYPE_DOUBLE);
}

gboolean
http_request_read_string (JsonObject  *object,
                          const char  *key,
                          const char **text,
                          GError     **error)
{
  JsonNode *node = http_request_get_member (object, key);

  *text = node != NULL && is_string (node) ? json_node_get_string (node) : NULL;
  return node == NULL || *text != NULL
         || http_fail (error, BAD, key, WRONG_TYPE, "“%s” has to be a string", key);
}

gboolean
http_request_read_boolean (JsonObject  *object,
                           const char  *key,
                           gboolean    *value,
                           GError     **error)
{
  JsonNode *node = http_request_get_member (object, key);

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_BOOLEAN)
    return http_fail (error, BAD, key, WRONG_TYPE, "“%s” has to be true or false", key);
  *value = json_node_get_boolean (node);
  return TRUE;
}

/* As the service says what is wrong with a value, but of the member's own name. */
static gboolean
set_option (HttpRequest  *self,
            const char   *option,
            GVariant     *value,
            const char   *key,
            GError      **error)
{
  g_autoptr(GError) cause = NULL;

  return llmsvc_options_set_value (self->options, option, value, &cause)
         || http_fail (error, BAD, key, WRONG_VALUE, "“%s”: %s", key, cause->message);
}

static char *
to_text (JsonNode *node)
{
  return json_to_string (node, FALSE);
}

/* --- numbers, by a table --- */

typedef enum
{
  FRACTION,
  COUNT,
  SEED,
} NumberKind;

/* Members that are options of the service; of two for the same, the latter counts. */
static const struct
{
  const char *key;
  const char *option;
  NumberKind kind;
} numbers[] = {
  { "temperature", "temperature", FRACTION },
  { "top_p", "top-p", FRACTION },
  { "min_p", "min-p", FRACTION },
  { "repeat_penalty", "repeat-penalty", FRACTION },
  { "frequency_penalty", "frequency-penalty", FRACTION },
  { "presence_penalty", "presence-penalty", FRACTION },
  { "top_k", "top-k", COUNT },
  { "max_tokens", "max-tokens", COUNT },
  { "max_completion_tokens", "max-tokens", COUNT },
  { "seed", "seed", SEED },
};

static gboolean
read_numbers (HttpRequest  *self,
              JsonObject   *object,
              GError      **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      const char *key = numbers[i].key;
      JsonNode *node = http_request_get_member (object, key);
      gboolean is_whole = node != NULL && JSON_NODE_HOLDS_VALUE (node)
                          && json_node_get_value_type (node) == G_TYPE_INT64;
      GVariant *value;

      if (node == NULL)
        continue;
      if (!is_number (node) || (numbers[i].kind != FRACTION && !is_whole))
        return http_fail (error, BAD, key, WRONG_TYPE, "“%s” has to be a%s number", key,
                          numbers[i].kind == FRACTION ? "" : " whole");
      if (numbers[i].kind == COUNT && (json_node_get_int (node) < 0
                                       || json_node_get_int (node) > G_MAXUINT32))
        return http_fail (error, BAD, key, WRONG_VALUE, "“%s” has to be from 0 to %u", key, G_MAXUINT32);
      value = numbers[i].kind == FRACTION ? g_variant_new_double (json_node_get_double (node))
              : numbers[i].kind == COUNT ? g_variant_new_uint32 ((guint32) json_node_get_int (node))
                                         : g_variant_new_uint64 ((guint64) json_node_get_int (node));
      if (!set_option (self, numbers[i].option, value, key, error))
        return FALSE;
    }
  return TRUE;
}

/* --- members of their own kind --- */

static gboolean
read_stop (HttpRequest  *self,
           JsonObject   *object,
           GError      **error)
{
  JsonNode *node = http_request_get_member (object, "stop");
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_auto(GStrv) texts = NULL;
  guint n;

  if (node == NULL)
    return TRUE;
  if (is_string (node))
    g_strv_builder_add (builder, json_node_get_string (node));
  else if (!JSON_NODE_HOLDS_ARRAY (node))
    return http_fail (error, BAD, "stop", WRONG_TYPE, "“stop” has to be a string, or an array of strings");
  else
    {
      n = json_array_get_length (json_node_get_array (node));
      if (n > MAX_STOPS)
        return http_fail (error, BAD, "stop", WRONG_VALUE, "“stop” has %u strings, at most %d are possible",
                          n, MAX_STOPS);
      for (guint i = 0; i < n; i++)
        {
          JsonNode *element = json_array_get_element (json_node_get_array (node), i);

          if (!is_string (element))
            return http_fail (error, BAD, "stop", WRONG_TYPE, "“stop” has to be an array of strings");
          g_strv_builder_add (builder, json_node_get_string (element));
        }
    }
  texts = g_strv_builder_end (builder);
  return *texts == NULL || set_option (self, "stop", g_variant_new_strv ((const char *const *) texts, -1),
                                       "stop", error);
}

static gboolean
read_logit_bias (HttpRequest  *self,
                 JsonObject   *object,
                 GError      **error)
{
  JsonNode *node = http_request_get_member (object, "logit_bias");
  GVariantBuilder builder;
  JsonObjectIter iter;
  const char *key;
  JsonNode *member;

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return http_fail (error, BAD, "logit_bias", WRONG_TYPE, "“logit_bias” has to be an object");
  if (json_object_get_size (json_node_get_object (node)) == 0)
    return TRUE;
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{ud}"));
  json_object_iter_init (&iter, json_node_get_object (node));
  while (json_object_iter_next (&iter, &key, &member))
    {
      guint64 token;

      if (!g_ascii_string_to_unsigned (key, 10, 0, G_MAXUINT32, &token, NULL) || !is_number (member))
        {
          g_variant_builder_clear (&builder);
          return http_fail (error, BAD, "logit_bias", WRONG_VALUE,
                            "“logit_bias” has to have numbers by token: “%s” is none", key);
        }
      g_variant_builder_add (&builder, "{ud}", (guint32) token, json_node_get_double (member));
    }
  return set_option (self, "logit-bias", g_variant_builder_end (&builder), "logit_bias", error);
}

static gboolean
read_logprobs (HttpRequest  *self,
               JsonObject   *object,
               GError      **error)
{
  JsonNode *top = http_request_get_member (object, "top_logprobs");
  gboolean has_logprobs = FALSE;

  if (!http_request_read_boolean (object, "logprobs", &has_logprobs, error))
    return FALSE;
  if (top != NULL && (!is_number (top) || json_node_get_int (top) < 0 || json_node_get_int (top) > 20))
    return http_fail (error, BAD, "top_logprobs", WRONG_VALUE, "“top_logprobs” has to be from 0 to 20");
  if (top != NULL && !has_logprobs && json_node_get_int (top) > 0)
    return http_fail (error, BAD, "top_logprobs", WRONG_VALUE, "“top_logprobs” needs “logprobs”: true");
  return !has_logprobs
         || set_option (self, "logprobs",
                        g_variant_new_uint32 (top != NULL ? (guint32) json_node_get_int (top) : 0),
                        "logprobs", error);
}

static gboolean
read_format (HttpRequest  *self,
             JsonObject   *object,
             GError      **error)
{
  JsonNode *node = http_request_get_member (object, "response_format");
  JsonNode *inner, *schema;
  g_autofree char *text = NULL;
  const char *type;

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return http_fail (error, BAD, "response_format", WRONG_TYPE, "“response_format” has to be an object");
  if (!http_request_read_string (json_node_get_object (node), "type", &type, error))
    return FALSE;
  if (g_strcmp0 (type, "text") == 0)
    return TRUE;
  if (g_strcmp0 (type, "json_object") == 0)
    return set_option (self, "response-format", g_variant_new_string ("json"), "response_format", error);
  if (g_strcmp0 (type, "json_schema") != 0)
    return http_fail (error, BAD, "response_format", WRONG_VALUE,
                      "“response_format” has to have a type: text, json_object or json_schema");
  inner = http_request_get_member (json_node_get_object (node), "json_schema");
  schema = inner != NULL && JSON_NODE_HOLDS_OBJECT (inner)
             ? http_request_get_member (json_node_get_object (inner), "schema") : NULL;
  if (schema == NULL || !JSON_NODE_HOLDS_OBJECT (schema))
    return http_fail (error, BAD, "response_format", WRONG_VALUE,
                      "“response_format” of type json_schema needs an object “json_schema” with an "
                      "object “schema”");
  text = to_text (schema);
  return set_option (self, "response-format", g_variant_new_string ("json-schema"), "response_format",
                     error)
         && set_option (self, "schema", g_variant_new_string (text), "response_format", error);
}

/* auto, none, required, or the function that is named. */
static gboolean
read_tool_choice (HttpRequest  *self,
                  JsonObject   *object,
                  GError      **error)
{
  JsonNode *node = http_request_get_member (object, "tool_choice");
  JsonNode *function;
  const char *name = NULL;

  if (node == NULL)
    return TRUE;
  if (is_string (node))
    name = json_node_get_string (node);
  else if (JSON_NODE_HOLDS_OBJECT (node))
    {
      function = http_request_get_member (json_node_get_object (node), "function");
      if (function != NULL && JSON_NODE_HOLDS_OBJECT (function)
          && !http_request_read_string (json_node_get_object (function), "name", &name, error))
        return FALSE;
    }
  if (name == NULL)
    return http_fail (error, BAD, "tool_choice", WRONG_VALUE,
                      "“tool_choice” has to be auto, none, required, or "
                      "{\"type\":\"function\",\"function\":{\"name\":…}}");
  return set_option (self, "tool-choice", g_variant_new_string (name), "tool_choice", error);
}

static gboolean
read_tools (HttpRequest  *self,
            JsonObject   *object,
            GError      **error)
{
  JsonNode *node = http_request_get_member (object, "tools");
  gboolean parallel = TRUE;
  g_autofree char *text = NULL;

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_ARRAY (node))
    return http_fail (error, BAD, "tools", WRONG_TYPE, "“tools” has to be an array");
  if (json_array_get_length (json_node_get_array (node)) == 0)
    return TRUE;
  text = to_text (node);
  if (!http_request_read_boolean (object, "parallel_tool_calls", &parallel, error)
      || !set_option (self, "tools", g_variant_new_string (text), "tools", error)
      || (!parallel && !set_option (self, "parallel-tools", g_variant_new_boolean (FALSE),
                                    "parallel_tool_calls", error)))
    return FALSE;
  return read_tool_choice (self, object, error);
}

static gboolean
read_effort (HttpRequest  *self,
             JsonObject   *object,
             GError      **error)
{
  static const struct { const char *effort, *thinking; } efforts[] = {
    { "none", "off" }, { "minimal", "low" }, { "low", "low" }, { "medium", "medium" }, { "high", "high" },
    { "xhigh", "high" },
  };
  const char *effort;

  if (!http_request_read_string (object, "reasoning_effort", &effort, error))
    return FALSE;
  if (effort == NULL)
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (efforts); i++)
    if (g_str_equal (effort, efforts[i].effort))
      return set_option (self, "thinking", g_variant_new_string (efforts[i].thinking), "reasoning_effort",
                         error);
  return http_fail (error, BAD, "reasoning_effort", WRONG_VALUE,
                    "“reasoning_effort” has to be none, minimal, low, medium or high");
}

static gboolean
read_stream (HttpRequest  *self,
             JsonObject   *object,
             GError      **error)
{
  JsonNode *options = http_request_get_member (object, "stream_options");

  if (!http_request_read_boolean (object, "stream", &self->streams, error))
    return FALSE;
  if (options == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (options))
    return http_fail (error, BAD, "stream_options", WRONG_TYPE, "“stream_options” has to be an object");
  return http_request_read_boolean (json_node_get_object (options), "include_usage", &self->tells_usage, error);
}

/* Known, and more than there is here. */
static gboolean
check_refused (JsonObject  *object,
               GError     **error)
{
  static const char *const refused[] = {
    "audio", "web_search_options", "functions", "function_call",
  };
  JsonNode *n = http_request_get_member (object, "n"), *modalities = http_request_get_member (object, "modalities");

  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    if (http_request_get_member (object, refused[i]) != NULL)
      return http_fail (error, BAD, refused[i], UNSUPPORTED, "“%s” is not supported here%s", refused[i],
                        g_str_has_prefix (refused[i], "function") ? "; use “tools”" : "");
  if (n != NULL && (!is_number (n) || json_node_get_int (n) != 1))
    return http_fail (error, BAD, "n", UNSUPPORTED, "“n” has to be 1: one answer is given");
  for (guint i = 0; modalities != NULL && JSON_NODE_HOLDS_ARRAY (modalities)
                    && i < json_array_get_length (json_node_get_array (modalities)); i++)
    {
      JsonNode *element = json_array_get_element (json_node_get_array (modalities), i);

      if (!is_string (element) || !g_str_equal (json_node_get_string (element), "text"))
        return http_fail (error, BAD, "modalities", UNSUPPORTED, "“modalities” can be [\"text\"] alone");
    }
  return TRUE;
}

/* --- messages --- */

static const struct { const char *name, *role; } roles[] = {
  { "system", LLMSVC_ROLE_SYSTEM }, { "developer", LLMSVC_ROLE_SYSTEM }, { "user", LLMSVC_ROLE_USER },
  { "assistant", LLMSVC_ROLE_ASSISTANT }, { "tool", LLMSVC_ROLE_TOOL },
};

/* Parts of text are joined; others are of other kinds. */
static gboolean
read_content (JsonObject  *message,
              const char  *where,
              GString     *text,
              GError     **error)
{
  JsonNode *node = http_request_get_member (message, "content");
  JsonArray *parts;

  if (node == NULL)
    return TRUE;
  if (is_string (node))
    {
      g_string_append (text, json_node_get_string (node));
      return TRUE;
    }
  if (!JSON_NODE_HOLDS_ARRAY (node))
    return http_fail (error, BAD, where, WRONG_TYPE, "%s: “content” has to be a string or an array of parts",
                      where);
  parts = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (parts); i++)
    {
      JsonNode *part = json_array_get_element (parts, i);
      const char *type, *piece;

      if (!JSON_NODE_HOLDS_OBJECT (part))
        return http_fail (error, BAD, where, WRONG_TYPE, "%s: part %u of “content” has to be an object",
                          where, i);
      if (!http_request_read_string (json_node_get_object (part), "type", &type, error))
        return FALSE;
      if (type == NULL || !(g_str_equal (type, "text") || g_str_equal (type, "refusal")))
        return http_fail (error, BAD, where, UNSUPPORTED,
                          "%s: part %u of “content” is “%s”, and only text is read here", where, i,
                          type != NULL ? type : "");
      if (!http_request_read_string (json_node_get_object (part), type, &piece, error))
        return FALSE;
      g_string_append (text, piece != NULL ? piece : "");
    }
  return TRUE;
}

/* (nullable): of an earlier answer, the call with that id. */
static JsonNode *
find_call (JsonArray  *messages,
           guint       before,
           const char *id)
{
  for (guint i = before; i-- > 0;)
    {
      JsonNode *node = json_array_get_element (messages, i);
      JsonNode *calls = JSON_NODE_HOLDS_OBJECT (node)
                          ? http_request_get_member (json_node_get_object (node), "tool_calls") : NULL;

      for (guint j = 0; calls != NULL && JSON_NODE_HOLDS_ARRAY (calls)
                        && j < json_array_get_length (json_node_get_array (calls)); j++)
        {
          JsonNode *call = json_array_get_element (json_node_get_array (calls), j);
          JsonNode *found = JSON_NODE_HOLDS_OBJECT (call) ? http_request_get_member (json_node_get_object (call), "id")
                                                          : NULL;

          if (found != NULL && is_string (found) && g_str_equal (json_node_get_string (found), id))
            return call;
        }
    }
  return NULL;
}

static LlmsvcMessage *
make_result (JsonArray   *messages,
             guint        number,
             JsonObject  *message,
             const char  *where,
             const char  *text,
             GError     **error)
{
  g_autoptr(GError) cause = NULL;
  g_autofree char *call_text = NULL;
  LlmsvcMessage *made;
  const char *id;
  JsonNode *call;

  if (!http_request_read_string (message, "tool_call_id", &id, error))
    return NULL;
  call = id != NULL ? find_call (messages, number, id) : NULL;
  if (call == NULL)
    {
      http_fail (error, BAD, where, WRONG_VALUE, "%s: “tool_call_id” has to be the id of a call in an "
                 "earlier message", where);
      return NULL;
    }
  call_text = to_text (call);
  made = llmsvc_message_new_tool_result (call_text, text, &cause);
  if (made == NULL)
    http_fail (error, BAD, where, WRONG_VALUE, "%s: %s", where, cause->message);
  return made;
}

static LlmsvcMessage *
make_message (JsonArray   *messages,
              guint        number,
              GError     **error)
{
  JsonNode *node = json_array_get_element (messages, number);
  g_autofree char *where = g_strdup_printf ("messages[%u]", number);
  g_autoptr(GString) text = g_string_new (NULL);
  const char *name = NULL, *role = NULL;
  g_autoptr(GVariant) extras = NULL;
  JsonNode *calls;

  if (!JSON_NODE_HOLDS_OBJECT (node))
    {
      http_fail (error, BAD, where, WRONG_TYPE, "%s has to be an object", where);
      return NULL;
    }
  if (!http_request_read_string (json_node_get_object (node), "role", &name, error)
      || !read_content (json_node_get_object (node), where, text, error))
    return NULL;
  for (guint i = 0; name != NULL && i < G_N_ELEMENTS (roles); i++)
    if (g_str_equal (name, roles[i].name))
      role = roles[i].role;
  if (role == NULL)
    {
      http_fail (error, BAD, where, WRONG_VALUE,
                 "%s: “role” has to be system, developer, user, assistant or tool", where);
      return NULL;
    }
  if (g_str_equal (role, LLMSVC_ROLE_TOOL))
    return make_result (messages, number, json_node_get_object (node), where, text->str, error);
  calls = http_request_get_member (json_node_get_object (node), "tool_calls");
  if (calls != NULL && JSON_NODE_HOLDS_ARRAY (calls)
      && json_array_get_length (json_node_get_array (calls)) > 0)
    {
      g_autofree char *calls_text = to_text (calls);

      extras = g_variant_ref_sink (g_variant_new_parsed ("{'tool-calls': <%s>}", calls_text));
    }
  return g_object_new (LLMSVC_TYPE_MESSAGE, "role", role, "text", text->str, "extras", extras, NULL);
}

static gboolean
read_messages (HttpRequest  *self,
               JsonObject   *object,
               GError      **error)
{
  JsonNode *node = http_request_get_member (object, "messages");
  JsonArray *messages;

  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node)
      || json_array_get_length (json_node_get_array (node)) == 0)
    return http_fail (error, BAD, "messages", node == NULL ? "missing_required_parameter" : WRONG_TYPE,
                      "“messages” has to be an array of one message at least");
  messages = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (messages); i++)
    {
      LlmsvcMessage *message = make_message (messages, i, error);

      if (message == NULL)
        return FALSE;
      g_ptr_array_add (self->messages, message);
    }
  return TRUE;
}

/* --- requests --- */

JsonNode *
http_request_parse (const char  *body,
                    gsize        length,
                    GError     **error)
{
  g_autoptr(GError) cause = NULL;
  g_autoptr(JsonNode) root = NULL;

  if (!g_utf8_validate_len (body, length, NULL))
    {
      http_fail (error, BAD, NULL, WRONG_VALUE, "The body has to be JSON in UTF-8");
      return NULL;
    }
  root = llmsvc_json_parse (body, length, &cause);
  if (root != NULL && JSON_NODE_HOLDS_OBJECT (root))
    return g_steal_pointer (&root);
  http_fail (error, BAD, NULL, WRONG_VALUE, "The body has to be a JSON object: %s",
             cause != NULL ? cause->message : "this is another value");
  return NULL;
}

gboolean
http_request_read_common (HttpRequest  *self,
                          JsonObject   *object,
                          GError      **error)
{
  const char *model;

  if (!check_refused (object, error) || !http_request_read_string (object, "model", &model, error)
      || !read_numbers (self, object, error) || !read_stop (self, object, error)
      || !read_logit_bias (self, object, error) || !read_stream (self, object, error))
    return FALSE;
  self->model = g_strdup (model);
  return TRUE;
}

HttpRequest *
http_request_read_chat (JsonObject  *object,
                        GError     **error)
{
  g_autoptr(HttpRequest) self = http_request_new ();

  if (!read_messages (self, object, error) || !http_request_read_common (self, object, error)
      || !read_logprobs (self, object, error) || !read_format (self, object, error)
      || !read_tools (self, object, error) || !read_effort (self, object, error))
    return NULL;
  return g_steal_pointer (&self);
}
