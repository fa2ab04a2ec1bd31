/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Shared by llm-template*.c. */

#pragma once

#include "template/jinja/llm-jinja.h"
#include "template/llm-template.h"

struct _LlmTemplate
{
  LlmJinjaTemplate *program;
  LlmTemplateFeatures features;
  char *name;         /* of the file */
  char *bos;
  char *eos;
  GPtrArray *ends;    /* (element-type utf8): texts of tokens that end answers */
  gboolean skips_bos; /* the tokenizer writes it already */
  gboolean swallows_spaces;
  gboolean omits_tools; /* where there are none, they are undefined */
  gint64 probes_end_us; /* of this thread's processor time, while features are looked for; else 0 */
};

/* Origins: 0 is the template's own text. */
enum
{
  LLM_ORIGIN_TEMPLATE,
  LLM_ORIGIN_DATA,
  LLM_ORIGIN_MESSAGES, /* from here on two for each, its text and its extras */
};

static inline guint16
llm_origin_of_text (guint index)
{
  return (guint16) MIN (LLM_ORIGIN_MESSAGES + 2 * (guint64) index, G_MAXUINT16 - 1);
}

static inline guint16
llm_origin_of_extras (guint index)
{
  return (guint16) (llm_origin_of_text (index) + 1);
}

/* --- llm-template-run.c --- */

/* The whole text of these messages. */
gboolean llm_template_run         (LlmTemplate           *self,
                                   const LlmTemplateCall *call,
                                   LlmJinjaOutput        *out,
                                   GError               **error) G_GNUC_WARN_UNUSED_RESULT;
/* Renders a small conversation. @messages: NULL at the end. */
gboolean llm_template_probe       (LlmTemplate              *self,
                                   const LlmMessage *const  *messages,
                                   gboolean                  open_answer,
                                   const char               *tools,
                                   const char               *variables,
                                   LlmJinjaOutput           *out,
                                   GError                  **error);
/* Variables of a call that is to think, or not to. */
#define LLM_TEMPLATE_THINKS "{\"enable_thinking\": true, \"thinking\": true}"
#define LLM_TEMPLATE_THINKS_AT(level) \
  "{\"enable_thinking\": true, \"thinking\": true, \"reasoning_effort\": \"" level "\"}"
#define LLM_TEMPLATE_THINKS_NOT "{\"enable_thinking\": false, \"thinking\": false}"
static inline gboolean
llm_template_is_markup (const LlmJinjaOutput *out,
                        gsize                 at)
{
  return llm_jinja_output_get_run (out, at)->origin == LLM_ORIGIN_TEMPLATE;
}

/* Whether any of the text has that origin; @last: (out) (optional): the byte behind it. */
gboolean llm_template_has_origin  (const LlmJinjaOutput  *out,
                                   guint16                origin,
                                   gsize                 *last);

/* --- llm-template-thinking.c --- */

/* Finds what @self knows of thinking. */
void     llm_template_find_thinking (LlmTemplate          *self);
/* (transfer full) (nullable): what must follow @out, a prompt with what makes the model answer, for
 * @thinking; @thought: (out): where it ends then. Cuts off what says otherwise. */
char    *llm_template_complete_thought (LlmTemplate           *self,
                                        LlmJinjaOutput        *out,
                                        LlmThinking            thinking,
                                        LlmThought            *thought);

/* What templates are tried with. */
#define LLM_TEMPLATE_PROBE_NAME "probe_tool"
#define LLM_TEMPLATE_PROBE_OTHER_NAME "probe_other"
#define LLM_TEMPLATE_PROBE_TOOL(name)                                                            \
  "{\"type\": \"function\", \"function\": {\"name\": \"" name "\", \"description\": \"probe\", " \
  "\"parameters\": {\"type\": \"object\", \"properties\": {\"probe_key\": {\"type\": \"string\", " \
  "\"description\": \"probe\"}}, \"required\": [\"probe_key\"]}}}"
#define LLM_TEMPLATE_PROBE_TOOLS                                                                 \
  "[" LLM_TEMPLATE_PROBE_TOOL (LLM_TEMPLATE_PROBE_NAME) ", "                                     \
  LLM_TEMPLATE_PROBE_TOOL (LLM_TEMPLATE_PROBE_OTHER_NAME) "]"

/* --- llm-template-arguments.c --- */

/* Finds how arguments are written, in a template whose calls are no JSON. @begin: what stands before
 * the name of the function. */
void     llm_template_find_arguments (LlmTemplate *self,
                                      const char  *begin);

/* --- llm-template-features.c --- */

/* Finds @self's features. Fails if it can't render the simplest of conversations. */
gboolean llm_template_find_features (LlmTemplate *self,
                                     GError     **error) G_GNUC_WARN_UNUSED_RESULT;
void     llm_template_clear_features (LlmTemplateFeatures *features);
