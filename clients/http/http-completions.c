/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Completions: a text, without the model's template, and what follows it. A stream has all of that at
 * once, as the service gives it so. */

#include "http-dialect.h"

#include <libsoup/soup.h>

#include "http-error.h"

/* What OpenAI's has without a limit. */
#define DEFAULT_TOKENS 16

static gboolean
check_refused (JsonObject  *object,
               GError     **error)
{
  JsonNode *best_of = http_request_get_member (object, "best_of");
  gboolean echoes = FALSE;

  if (!http_request_read_boolean (object, "echo", &echoes, error))
    return FALSE;
  if (echoes)
    return http_fail (error, SOUP_STATUS_BAD_REQUEST, "echo", "unsupported_parameter",
                      "“echo” is not supported here: the prompt is not said again");
  if (best_of != NULL && (!JSON_NODE_HOLDS_VALUE (best_of) || json_node_get_int (best_of) != 1))
    return http_fail (error, SOUP_STATUS_BAD_REQUEST, "best_of", "unsupported_parameter",
                      "“best_of” has to be 1: one answer is given");
  return http_request_get_member (object, "logprobs") == NULL
         || http_fail (error, SOUP_STATUS_BAD_REQUEST, "logprobs", "unsupported_parameter",
                       "“logprobs” are told by /v1/chat/completions alone");
}

/* A string, or an array of one. */
static const char *
read_prompt (JsonObject  *object,
             GError     **error)
{
  JsonNode *node = http_request_get_member (object, "prompt");

  if (node != NULL && JSON_NODE_HOLDS_ARRAY (node) && json_array_get_length (json_node_get_array (node)) == 1)
    node = json_array_get_element (json_node_get_array (node), 0);
  if (node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING)
    return json_node_get_string (node);
  http_fail (error, SOUP_STATUS_BAD_REQUEST, "prompt", "invalid_type",
             "“prompt” has to be a string, or an array of one");
  return NULL;
}

static HttpRequest *
read_request (JsonObject  *object,
              GError     **error)
{
  g_autoptr(HttpRequest) self = http_request_new ();
  const char *prompt = read_prompt (object, error);
  const char *suffix;

  if (prompt == NULL || !check_refused (object, error) || !http_request_read_common (self, object, error)
      || !http_request_read_string (object, "suffix", &suffix, error))
    return NULL;
  self->prompt = g_strdup (prompt);
  if (llmsvc_options_get_value (self->options, "max-tokens") == NULL)
    llmsvc_options_set_value (self->options, "max-tokens", g_variant_new_uint32 (DEFAULT_TOKENS), NULL);
  if (suffix != NULL)
    llmsvc_options_set_value (self->options, "suffix", g_variant_new_string (suffix), NULL);
  else
    llmsvc_options_set_value (self->options, "raw", g_variant_new_boolean (TRUE), NULL);
  return g_steal_pointer (&self);
}

static void
append (const HttpAnswer *self,
        GString          *out,
        LlmsvcAnswer     *answer,
        gboolean          tells_usage)
{
  g_string_append_printf (out, "{\"id\":\"cmpl-%s\",\"object\":\"text_completion\",\"created\":%" G_GINT64_FORMAT
                          ",\"model\":", self->id, self->created);
  http_append_string (out, self->model);
  g_string_append (out, ",\"choices\":[{\"index\":0,\"text\":");
  http_append_string (out, llmsvc_answer_get_text (answer));
  g_string_append_printf (out, ",\"logprobs\":null,\"finish_reason\":\"%s\"}]", http_get_reason (answer));
  if (tells_usage)
    {
      g_string_append_c (out, ',');
      http_append_usage (out, answer);
    }
  g_string_append_c (out, '}');
}

static char *
write_whole (const HttpAnswer *self,
             LlmsvcAnswer     *answer)
{
  g_autoptr(GString) out = g_string_new (NULL);

  append (self, out, answer, TRUE);
  return g_string_free (g_steal_pointer (&out), FALSE);
}

static void
end_stream (HttpAnswer   *self,
            GString      *out,
            LlmsvcAnswer *answer)
{
  g_string_append (out, "data: ");
  append (self, out, answer, self->tells_usage);
  g_string_append (out, "\n\ndata: [DONE]\n\n");
}

const HttpDialect http_completions = {
  .path = "/v1/completions",
  .read = read_request,
  .write = write_whole,
  .end = end_stream,
  .fail = http_append_failure,
};
