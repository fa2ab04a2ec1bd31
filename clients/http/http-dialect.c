/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "http-dialect.h"

#include <string.h>

#include "common/llmsvc-json.h"
#include "http-error.h"

HttpAnswer *
http_answer_new (const HttpDialect *dialect,
                 const char        *model,
                 gboolean           tells_usage)
{
  HttpAnswer *self = g_new0 (HttpAnswer, 1);

  self->dialect = dialect;
  self->id = g_uuid_string_random ();
  self->created = g_get_real_time () / G_USEC_PER_SEC;
  self->model = g_strdup (model != NULL ? model : "");
  self->tells_usage = tells_usage;
  self->items = g_string_new (NULL);
  return self;
}

void
http_answer_free (HttpAnswer *self)
{
  g_free (self->id);
  g_free (self->model);
  if (self->item != NULL)
    g_string_free (self->item, TRUE);
  g_string_free (self->items, TRUE);
  g_free (self);
}

gboolean
http_has_text (const char *text)
{
  return text != NULL && *text != '\0';
}

void
http_append_string (GString    *out,
                    const char *text)
{
  g_string_append_c (out, '"');
  llmsvc_json_append_escaped (out, text, strlen (text));
  g_string_append_c (out, '"');
}

const char *
http_get_reason (LlmsvcAnswer *answer)
{
  switch (llmsvc_answer_get_finish_reason (answer))
    {
    case LLMSVC_FINISH_REASON_LENGTH:
    case LLMSVC_FINISH_REASON_CONTEXT_FULL:
      return "length";
    default:
      return http_has_text (llmsvc_answer_get_tool_calls (answer)) ? "tool_calls" : "stop";
    }
}

void
http_append_usage (GString      *out,
                   LlmsvcAnswer *answer)
{
  guint n_prompt = llmsvc_answer_get_prompt_tokens (answer);
  guint n_output = llmsvc_answer_get_output_tokens (answer);

  g_string_append_printf (out,
                          "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
                          "\"prompt_tokens_details\":{\"cached_tokens\":%u},"
                          "\"completion_tokens_details\":{\"reasoning_tokens\":%u}}",
                          n_prompt, n_output, n_prompt + n_output, llmsvc_answer_get_cached_tokens (answer),
                          llmsvc_answer_get_reasoning_tokens (answer));
}

void
http_append_failure (HttpAnswer   *self,
                     GString      *out,
                     const GError *error)
{
  g_autofree char *json = http_error_to_json (error);

  g_string_append_printf (out, "data: %s\n\ndata: [DONE]\n\n", json);
}
