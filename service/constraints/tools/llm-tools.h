/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The functions that an answer may call, as OpenAI's API describes them: a JSON array of
 * {"type": "function", "function": {"name", "description", "parameters"}}. Untrusted. Immutable
 * once read; any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define LLM_TOOLS_MAX 128
#define LLM_TOOL_NAME_MAX 64

typedef struct
{
  char *name;            /* letters, digits, “_”, “-” and “.” */
  char *parameters;      /* JSON Schema of an object: its arguments. Where the schema only lists
                          * properties, there are no others */
  gboolean is_strict;    /* a keyword that can't be enforced is an error */
  char *pointer;         /* where the caller's schema lies: “#/0/function/parameters” */
} LlmTool;

typedef enum
{
  LLM_TOOL_CHOICE_AUTO,      /* text, or calls, or text and then calls */
  LLM_TOOL_CHOICE_NONE,      /* no call */
  LLM_TOOL_CHOICE_REQUIRED,  /* a call of any, or several */
  LLM_TOOL_CHOICE_NAMED,     /* one call of one */
} LlmToolChoice;

typedef struct
{
  GPtrArray *tools;      /* (element-type LlmTool) (owned) */
  char *text;            /* (owned): them as JSON, each with all that templates take for granted */
  LlmToolChoice choice;
  guint named;           /* which tool, if NAMED */
  gboolean is_parallel;  /* there may be several calls */
  gboolean is_strict;    /* all tools are */
} LlmTools;

/* (transfer full) (nullable): @tools: JSON; @choice: “auto”, “none”, “required” or a name;
 * @is_strict: all of them are, whatever they say. @error,
 * in LLMSVC_ERROR, names the option and, within the tools, has a JSON pointer. */
LlmTools *llm_tools_read (const char *tools,
                          const char *choice,
                          gboolean    is_parallel,
                          gboolean    is_strict,
                          GError    **error) G_GNUC_WARN_UNUSED_RESULT;
void      llm_tools_free (LlmTools   *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTools, llm_tools_free)

G_END_DECLS
