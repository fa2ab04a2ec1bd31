/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "http-answer.h"

#include <string.h>

#include "common/llmsvc-json.h"

HttpAnswer *
http_answer_new (const char *model)
{
  HttpAnswer *self = g_new0 (HttpAnswer, 1);
  g_autofree char *id = g_uuid_string_random ();

  self->id = g_strconcat ("chatcmpl-", id, NULL);
  self->created = g_get_real_time () / G_USEC_PER_SEC;
  self->model = g_strdup (model);
  return self;
}

void
http_answer_free (HttpAnswer *self)
{
  g_free (self->id);
  g_free (self->model);
  g_free (self);
}

static void
append_string (GString    *out,
               const char *text)
{
  g_string_append_c (out, '"');
  llmsvc_json_append_escaped (out, text, strlen (text));
  g_string_append_c (out, '"');
}

static void
begin (const HttpAnswer *self,
       GString          *out,
       const char       *object)
{
  g_string_append_printf (out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%" G_GINT64_FORMAT ",\"model\":",
                          self->id, object, self->created);
  append_string (out, self->model);
}

static gboolean
has_text (const char *text)
{
  return text != NULL && *text != '\0';
}

static const char *
get_reason (LlmsvcAnswer *answer)
{
  switch (llmsvc_answer_get_finish_reason (answer))
    {
    case LLMSVC_FINISH_REASON_LENGTH:
    case LLMSVC_FINISH_REASON_CONTEXT_FULL:
      return "length";
    default:
      return has_text (llmsvc_answer_get_tool_calls (answer)) ? "tool_calls" : "stop";
    }
}

static void
append_usage (GString      *out,
              LlmsvcAnswer *answer)
{
  guint n_prompt = llmsvc_answer_get_prompt_tokens (answer);
  guint n_output = llmsvc_answer_get_output_tokens (answer);

  g_string_append_printf (out,
                          ",\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%u,"
                          "\"prompt_tokens_details\":{\"cached_tokens\":%u},"
                          "\"completion_tokens_details\":{\"reasoning_tokens\":%u}}",
                          n_prompt, n_output, n_prompt + n_output, llmsvc_answer_get_cached_tokens (answer),
                          llmsvc_answer_get_reasoning_tokens (answer));
}

static void
append_logprobs (GString      *out,
                 LlmsvcAnswer *answer)
{
  const char *logprobs = llmsvc_answer_get_logprobs (answer);

  if (has_text (logprobs))
    g_string_append_printf (out, ",\"logprobs\":{\"content\":%s}", logprobs);
  else
    g_string_append (out, ",\"logprobs\":null");
}

char *
http_answer_write_whole (const HttpAnswer *self,
                         LlmsvcAnswer     *answer)
{
  const char *calls = llmsvc_answer_get_tool_calls (answer);
  const char *text = llmsvc_answer_get_text (answer);
  const char *reasoning = llmsvc_answer_get_reasoning (answer);
  g_autoptr(GString) out = g_string_new (NULL);

  begin (self, out, "chat.completion");
  g_string_append (out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
  if (has_text (calls) && !has_text (text))
    g_string_append (out, "null");
  else
    append_string (out, text);
  g_string_append (out, ",\"refusal\":null");
  if (has_text (reasoning))
    {
      g_string_append (out, ",\"reasoning_content\":");
      append_string (out, reasoning);
    }
  if (has_text (calls))
    g_string_append_printf (out, ",\"tool_calls\":%s", calls);
  g_string_append_c (out, '}');
  append_logprobs (out, answer);
  g_string_append_printf (out, ",\"finish_reason\":\"%s\"}]", get_reason (answer));
  append_usage (out, answer);
  g_string_append_c (out, '}');
  return g_string_free (g_steal_pointer (&out), FALSE);
}

/* --- events --- */

static void
begin_delta (const HttpAnswer *self,
             GString          *out)
{
  g_string_append (out, "data: ");
  begin (self, out, "chat.completion.chunk");
  g_string_append (out, ",\"choices\":[{\"index\":0,\"delta\":{");
}

static void
end_delta (GString *out)
{
  g_string_append (out, "},\"finish_reason\":null}]}\n\n");
}

void
http_answer_append_role (const HttpAnswer *self,
                         GString          *out)
{
  begin_delta (self, out);
  g_string_append (out, "\"role\":\"assistant\",\"content\":\"\"");
  end_delta (out);
}

void
http_answer_append_text (const HttpAnswer *self,
                         GString          *out,
                         const char       *key,
                         const char       *text)
{
  begin_delta (self, out);
  g_string_append_printf (out, "\"%s\":", key);
  append_string (out, text);
  end_delta (out);
}

void
http_answer_append_call (const HttpAnswer *self,
                         GString          *out,
                         const char       *call,
                         guint             index)
{
  const char *members = strchr (call, '{');

  begin_delta (self, out);
  g_string_append_printf (out, "\"tool_calls\":[{\"index\":%u,%s]", index,
                          members != NULL ? members + 1 : "}");
  end_delta (out);
}

void
http_answer_append_end (const HttpAnswer *self,
                        GString          *out,
                        LlmsvcAnswer     *answer,
                        gboolean          tells_usage)
{
  g_string_append (out, "data: ");
  begin (self, out, "chat.completion.chunk");
  g_string_append (out, ",\"choices\":[{\"index\":0,\"delta\":{}");
  append_logprobs (out, answer);
  g_string_append_printf (out, ",\"finish_reason\":\"%s\"}]}\n\n", get_reason (answer));
  if (tells_usage)
    {
      g_string_append (out, "data: ");
      begin (self, out, "chat.completion.chunk");
      g_string_append (out, ",\"choices\":[]");
      append_usage (out, answer);
      g_string_append (out, "}\n\n");
    }
  g_string_append (out, "data: [DONE]\n\n");
}
