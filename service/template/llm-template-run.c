/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One run of a template over a whole conversation. */

#include "template/llm-template-private.h"

#include <string.h>

#include "base/llm-clock.h"
#include "base/llm-json.h"

/* What its reasoning is called in the extras of a message. */
#define REASONING "reasoning_content"

/* Objects where there are strings that hold one, or the other way round: OpenAI's API has strings,
 * most templates are written for objects. No arguments are an empty object. Others stay as they
 * are. */
static void
convert_arguments (LlmJson  *function,
                   gboolean  wants_text)
{
  const LlmJson *arguments = llm_json_get (function, "arguments");
  g_autoptr(GString) text = g_string_new (NULL);
  LlmJson *object;

  if (arguments == NULL)
    return;
  if (llm_json_is_nothing (arguments))
    g_string_append (text, "{}");
  else if (arguments->kind == LLM_JSON_STRING)
    g_string_append_len (text, arguments->text, (gssize) arguments->length);
  else
    llm_json_write (arguments, text);
  if (wants_text && (arguments->kind != LLM_JSON_STRING || llm_json_is_nothing (arguments)))
    llm_json_set (function, "arguments", llm_json_new_string (text->str));
  if (wants_text || arguments->kind == LLM_JSON_OBJECT)
    return;
  object = llm_json_read (text->str, text->len, NULL);
  if (object != NULL && object->kind == LLM_JSON_OBJECT)
    llm_json_set (function, "arguments", object);
  else
    g_clear_pointer (&object, llm_json_free);
}

/* Templates of Mistral take ids of nine letters and digits, and no others; ids that are equal stay
 * equal. */
static void
shorten_id (LlmJson    *object,
            const char *key)
{
  static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const LlmJson *id = llm_json_get (object, key);
  g_autofree char *sum = NULL;
  char text[LLM_TEMPLATE_ID_LENGTH + 1] = "";
  gboolean is_short;

  if (id == NULL || id->kind != LLM_JSON_STRING)
    return;
  is_short = id->length == LLM_TEMPLATE_ID_LENGTH;
  for (gsize i = 0; i < id->length && is_short; i++)
    is_short = g_ascii_isalnum (id->text[i]);
  if (is_short)
    return;
  sum = g_compute_checksum_for_data (G_CHECKSUM_SHA256, (const guchar *) id->text, id->length);
  for (guint i = 0; i < LLM_TEMPLATE_ID_LENGTH; i++)
    text[i] = letters[(g_ascii_xdigit_value (sum[2 * i]) * 16 + g_ascii_xdigit_value (sum[2 * i + 1]))
                      % (int) strlen (letters)];
  llm_json_set (object, key, llm_json_new_string (text));
}

/* (transfer full) (nullable): the extras of @message with its calls and its reasoning as the
 * template wants them; NULL where there are none. */
static char *
convert_extras (const LlmTemplateFeatures *features,
                const LlmMessage          *message)
{
  const char *extras = message->extras;
  g_autoptr(LlmJson) root = NULL;
  g_autoptr(GString) text = NULL;
  LlmJson *reasoning;
  const LlmJson *calls;

  if (extras == NULL || (strstr (extras, "tool_call") == NULL && strstr (extras, REASONING) == NULL))
    return NULL;
  root = llm_json_read (extras, strlen (extras), NULL);
  if (root == NULL || root->kind != LLM_JSON_OBJECT)
    return NULL;
  reasoning = features->reasoning_key != NULL && !g_str_equal (features->reasoning_key, REASONING)
                ? llm_json_take (root, REASONING) : NULL;
  if (reasoning != NULL)
    llm_json_set (root, features->reasoning_key, reasoning);
  if (features->needs_short_ids)
    shorten_id (root, "tool_call_id");
  calls = llm_json_get (root, "tool_calls");
  for (guint i = 0; calls != NULL && calls->kind == LLM_JSON_ARRAY && i < calls->values->len; i++)
    {
      LlmJson *call = g_ptr_array_index (calls->values, i);
      LlmJson *function = (LlmJson *) llm_json_get (call, "function");

      if (features->needs_short_ids)
        shorten_id (call, "id");
      if (function != NULL && function->kind == LLM_JSON_OBJECT)
        convert_arguments (function, features->needs_text_arguments);
    }
  if (calls != NULL && calls->kind == LLM_JSON_ARRAY && features->needs_null_content
      && (message->text == NULL || *message->text == '\0'))
    llm_json_set (root, "content", llm_json_new_null ());
  text = g_string_new (NULL);
  llm_json_write (root, text);
  return g_string_free (g_steal_pointer (&text), FALSE);
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
  for (guint i = out->n_runs; i-- > 0;)
    if (out->runs[i].origin == origin && (i == 0 || out->runs[i - 1].end < out->length))
      {
        if (last != NULL)
          *last = MIN (out->runs[i].end, out->length);
        return TRUE;
      }
  return FALSE;
}
