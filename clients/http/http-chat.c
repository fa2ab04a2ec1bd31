/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chat completions: messages, and one more of them. */

#include "http-dialect.h"

#include <string.h>

static void
begin (const HttpAnswer *self,
       GString          *out,
       const char       *object)
{
  g_string_append_printf (out, "{\"id\":\"chatcmpl-%s\",\"object\":\"%s\",\"created\":%" G_GINT64_FORMAT
                          ",\"model\":", self->id, object, self->created);
  http_append_string (out, self->model);
}

static void
append_logprobs (GString      *out,
                 LlmsvcAnswer *answer)
{
  const char *logprobs = llmsvc_answer_get_logprobs (answer);

  if (http_has_text (logprobs))
    g_string_append_printf (out, ",\"logprobs\":{\"content\":%s}", logprobs);
  else
    g_string_append (out, ",\"logprobs\":null");
}

static char *
write_whole (const HttpAnswer *self,
             LlmsvcAnswer     *answer)
{
  const char *calls = llmsvc_answer_get_tool_calls (answer);
  const char *text = llmsvc_answer_get_text (answer);
  const char *reasoning = llmsvc_answer_get_reasoning (answer);
  g_autoptr(GString) out = g_string_new (NULL);

  begin (self, out, "chat.completion");
  g_string_append (out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":");
  if (http_has_text (calls) && !http_has_text (text))
    g_string_append (out, "null");
  else
    http_append_string (out, text);
  g_string_append (out, ",\"refusal\":null");
  if (http_has_text (reasoning))
    {
      g_string_append (out, ",\"reasoning_content\":");
      http_append_string (out, reasoning);
    }
  if (http_has_text (calls))
    g_string_append_printf (out, ",\"tool_calls\":%s", calls);
  g_string_append_c (out, '}');
  append_logprobs (out, answer);
  g_string_append_printf (out, ",\"finish_reason\":\"%s\"}],", http_get_reason (answer));
  http_append_usage (out, answer);
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

static void
begin_stream (HttpAnswer *self,
              GString    *out)
{
  begin_delta (self, out);
  g_string_append (out, "\"role\":\"assistant\",\"content\":\"\"");
  end_delta (out);
}

static void
add (HttpAnswer *self,
     GString    *out,
     const char *key,
     const char *text)
{
  begin_delta (self, out);
  g_string_append_printf (out, "\"%s\":", key);
  http_append_string (out, text);
  end_delta (out);
}

static void
add_text (HttpAnswer *self,
          GString    *out,
          const char *text)
{
  add (self, out, "content", text);
}

static void
add_reasoning (HttpAnswer *self,
               GString    *out,
               const char *text)
{
  add (self, out, "reasoning_content", text);
}

static void
add_call (HttpAnswer *self,
          GString    *out,
          const char *call)
{
  const char *members = strchr (call, '{');

  begin_delta (self, out);
  g_string_append_printf (out, "\"tool_calls\":[{\"index\":%u,%s]", self->n_calls++,
                          members != NULL ? members + 1 : "}");
  end_delta (out);
}

static void
end_stream (HttpAnswer   *self,
            GString      *out,
            LlmsvcAnswer *answer)
{
  g_string_append (out, "data: ");
  begin (self, out, "chat.completion.chunk");
  g_string_append (out, ",\"choices\":[{\"index\":0,\"delta\":{}");
  append_logprobs (out, answer);
  g_string_append_printf (out, ",\"finish_reason\":\"%s\"}]}\n\n", http_get_reason (answer));
  if (self->tells_usage)
    {
      g_string_append (out, "data: ");
      begin (self, out, "chat.completion.chunk");
      g_string_append (out, ",\"choices\":[],");
      http_append_usage (out, answer);
      g_string_append (out, "}\n\n");
    }
  g_string_append (out, "data: [DONE]\n\n");
}

const HttpDialect http_chat = {
  .path = "/v1/chat/completions",
  .read = http_request_read_chat,
  .write = write_whole,
  .begin = begin_stream,
  .add_text = add_text,
  .add_reasoning = add_reasoning,
  .add_call = add_call,
  .end = end_stream,
  .fail = http_append_failure,
};
