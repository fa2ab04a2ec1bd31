/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options for constraints of an answer, and whether the shortest valid answer fits. */

#include "base/llm-fail.h"
#include "engine/calls/llm-engine-calls.h"

#include "common/llmsvc-error.h"

static const struct
{
  const char *format;
  LlmConstraintKind kind;
  LlmsvcOption option;
} constraints[] = {
  { "json-schema", LLM_CONSTRAINT_JSON_SCHEMA, LLMSVC_OPTION_SCHEMA },
  { "regex", LLM_CONSTRAINT_REGEX, LLMSVC_OPTION_REGEX },
  { "grammar", LLM_CONSTRAINT_GRAMMAR, LLMSVC_OPTION_GRAMMAR },
};

static gboolean
read_format (LlmCallOptions    *options,
             LlmConstraintKind *kind,
             const char       **text,
             GError           **error)
{
  const char *format =
    llm_call_options_get_string (options, LLMSVC_OPTION_RESPONSE_FORMAT, NULL);

  *kind = LLM_CONSTRAINT_JSON;
  *text = g_strcmp0 (format, "json") == 0 ? "" : NULL;
  for (guint i = 0; i < G_N_ELEMENTS (constraints); i++)
    {
      const char *key = llmsvc_option_get_info (constraints[i].option)->key;
      const char *own = llm_call_options_get_string (options, constraints[i].option, NULL);
      gboolean is_asked = g_strcmp0 (format, constraints[i].format) == 0;

      if (own == NULL && is_asked)
        return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                         "response-format: “%s” needs the option “%s”", format, key);
      if (own != NULL && !is_asked && (format != NULL || *text != NULL))
        return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                         "%s: it is for the response-format “%s” only", key, constraints[i].format);
      if (own == NULL)
        continue;
      *kind = constraints[i].kind;
      *text = own;
      if (*kind == LLM_CONSTRAINT_JSON_SCHEMA
          && !llm_call_options_get_boolean (options, LLMSVC_OPTION_STRICT, TRUE))
        *kind = LLM_CONSTRAINT_LOOSE_SCHEMA;
    }
  return TRUE;
}

gboolean
llm_engine_read_constraint (LlmCallOptions    *options,
                            LlmConstraintKind *kind,
                            char             **text,
                            GError           **error)
{
  const char *tools = llm_call_options_get_string (options, LLMSVC_OPTION_TOOLS, NULL);
  const char *choice = llm_call_options_get_string (options, LLMSVC_OPTION_TOOL_CHOICE, NULL);
  gboolean calls_none = g_strcmp0 (choice, "none") == 0;
  const char *format;

  *text = NULL;
  if (!read_format (options, kind, &format, error))
    return FALSE;
  if (tools == NULL && choice != NULL && !calls_none && !g_str_equal (choice, "auto"))
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "tool-choice: “%s” needs the option “tools”", choice);
  if (tools != NULL && format != NULL && !calls_none)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "response-format: an answer that may call tools has no other format; give "
                     "“none” as tool-choice");
  if (tools != NULL && format == NULL)
    {
      *kind = LLM_CONSTRAINT_TOOLS;
      *text = llm_constraint_write_tools (
        tools, choice != NULL ? choice : "auto",
        llm_call_options_get_string (options, LLMSVC_OPTION_TEMPLATE, NULL),
        llm_call_options_get_boolean (options, LLMSVC_OPTION_PARALLEL_TOOLS, TRUE),
        llm_call_options_get_boolean (options, LLMSVC_OPTION_STRICT, FALSE));
    }
  else
    {
      *text = g_strdup (format);
    }
  return TRUE;
}

gboolean
llm_engine_check_room (const LlmRequest *request,
                       LlmMaskTable     *masks,
                       guint             min_bytes,
                       guint            *n,
                       GError          **error)
{
  const LlmTokenTrie *tokens = llm_mask_table_get_tokens (masks);
  /* tool calls may have control tokens */
  guint max_bytes =
    MAX (request->answer.calls_marker != NULL ? tokens->max_bytes : tokens->max_text_bytes, 1);
  guint64 min_tokens = (min_bytes + (guint64) max_bytes - 1) / max_bytes + 1;
  guint max_tokens = request->max_tokens;

  if (request->answer.reasoning != NULL && min_bytes > 0
      && llm_reasoning_get_thought (request->answer.reasoning) == LLM_THOUGHT_INSIDE)
    min_tokens += llm_reasoning_get_n_closing (request->answer.reasoning);
  if (min_tokens > max_tokens)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "max-tokens: %u are too few: the shortest answer that keeps to what "
                     "the call asks for has %u bytes, which take %ju tokens or more",
                     max_tokens, min_bytes, min_tokens);
  if (!request->window.slides)
    max_tokens = MIN (max_tokens, request->window.n_ctx - request->prompt->len + 1);
  if (min_tokens > max_tokens)
    return llm_fail (error, LLMSVC_ERROR_CONTEXT_FULL,
                     "The context has room for %u tokens: the shortest answer that keeps to what "
                     "the call asks for has %u bytes, which take %ju tokens or more",
                     max_tokens, min_bytes, min_tokens);
  *n = max_tokens;
  return TRUE;
}
