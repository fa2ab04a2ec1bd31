/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Chat templates: messages with roles to the text a model was trained on, by
 * interpretation of the Jinja source in the GGUF file (jinja/llm-jinja.h). What
 * came from messages, tools and other data is plain text in the result, however
 * the template changed or joined it; only the template's own text is markup, in
 * which control tokens are found. A conversation is rendered whole; behind an
 * answer that is settled only what follows it is given, so that tokens already
 * in the context stay as they are. Immutable once made; any thread.
 */

#pragma once

#include "tokenizer/llm-tokenizer.h"

typedef struct _LlmTemplate LlmTemplate;

typedef struct
{
  char *role;    /* "system", "user", "assistant", "tool" */
  char *text;
  char *extras;  /* (nullable): a JSON object, whose members the template sees beside role and
                  * content: tool_calls (as OpenAI's; arguments as object or as a string that holds
                  * one), tool_call_id, name, reasoning_content (under the name that it knows) */
} LlmMessage;

/* Where the tokens so far end. */
typedef enum
{
  LLM_POINT_START,          /* nothing yet */
  LLM_POINT_OPEN_ANSWER,    /* within an answer of the model that has no end token */
  LLM_POINT_CLOSED_ANSWER,  /* behind the end token of an answer */
} LlmPoint;

/* What is wanted of the model's reasoning before the answer. */
typedef enum
{
  LLM_THINKING_AUTO,        /* as the template does by itself */
  LLM_THINKING_OFF,         /* the prompt ends in the answer, or the template says it otherwise */
  LLM_THINKING_ON,          /* the prompt ends within reasoning */
  LLM_THINKING_LOW,         /* likewise, and the template is told the level of effort */
  LLM_THINKING_MEDIUM,
  LLM_THINKING_HIGH,
  LLM_N_THINKING,
} LlmThinking;

/* Where a prompt ends. */
typedef enum
{
  LLM_THOUGHT_OVER,         /* in the answer: there is no reasoning */
  LLM_THOUGHT_BEGIN,        /* before both: the model may begin with reasoning */
  LLM_THOUGHT_INSIDE,       /* within reasoning */
} LlmThought;

typedef struct
{
  const LlmMessage *messages; /* all of the conversation */
  guint n_messages;
  LlmPoint point;
  guint n_settled;          /* messages before @point, the last of which is the answer; 0 at
                             * START */
  gboolean open_answer;     /* end with what makes the model answer; else right behind the last
                             * message: what stands between messages comes with the next one */
  gboolean continues;       /* the last message is an answer that is to be gone on with: all up to its
                             * last letter, as the app gave it. One without text is what makes the
                             * model answer */
  const char *tools;        /* (nullable): a JSON array, as OpenAI's */
  const char *variables;    /* (nullable): a JSON object: more for the template to see, as
                             * {"enable_thinking": false} */
  LlmThinking thinking;     /* AUTO or OFF do nothing where the template knows no thinking. Without
                             * @variables only: they may say another thing */
} LlmTemplateCall;

/* How a template writes the calls of an answer, found out by rendering one. */
typedef enum
{
  LLM_TOOL_FORMAT_NONE,     /* not at all */
  LLM_TOOL_FORMAT_JSON,     /* name and arguments as JSON; see the three texts below */
  LLM_TOOL_FORMAT_TAGS,     /* each argument in tags of its own: <parameter=key> and the like */
  LLM_TOOL_FORMAT_OTHER,    /* name (key="value"), and what else there is */
} LlmToolFormat;

/* Arguments that are not written as a JSON object. */
typedef struct
{
  char *begin;           /* from the function's name to the first key, */
  char *middle_text;     /* from a key to a string, */
  char *middle;          /* from a key to any other value, */
  char *between;         /* from a value to the next key, */
  char *end;             /* and what is behind the last value; */
  char *empty;           /* instead of all that where there are no arguments */
  char *quote;           /* around strings; "": nothing */
  char *stop;            /* where there is no @quote, what a string can't contain: the first tag of
                          * @between and @end */
  gboolean is_nested;    /* objects and arrays within are written so, too; else as JSON */
  gboolean is_sorted;    /* by key */
} LlmArgumentTexts;

void llm_argument_texts_free (LlmArgumentTexts *self);

typedef struct
{
  gboolean has_system;      /* else texts of system messages go before that of the next user's */
  gboolean has_tools;       /* it writes the tools it is given */
  gboolean has_tool_results; /* messages with the role “tool” behind a call; without calls: behind
                              * any answer */
  gboolean has_parallel_calls; /* several in one answer */
  gboolean needs_text_arguments; /* it wants the arguments of calls as a string */
  gboolean needs_short_ids; /* ids of calls have LLM_TEMPLATE_ID_LENGTH letters and digits */
  gboolean needs_null_content; /* and their text to be null where there is none */
  gboolean has_thinking;    /* the model may reason before the answer; then there are: */
  char *think_begin;        /* (nullable): what stands before reasoning, */
  char *think_end;          /* (nullable): and between that and the answer, with the spaces that the
                             * template writes */
  gboolean has_effort;      /* “reasoning_effort” changes the prompt; */
  gboolean has_switch;      /* “enable_thinking” or “thinking” changes the prompt; */
  gboolean switches_all;    /* not only what makes the model answer, but the text before it */
  const char *reasoning_key; /* (nullable): the member of an answer whose text it writes as
                              * reasoning; NULL: it writes none */
  gboolean keeps_reasoning; /* also of answers before the last question */
  LlmToolFormat format;
  const char *format_name;  /* "hermes", "llama-3", "mistral", …; "json", "tags" or "other" if it is
                             * none of these; "none" */
  LlmArgumentTexts *arguments; /* (nullable) (owned): how they are written where that is not as
                             * JSON */
  char *call_begin;         /* (nullable): with JSON, or @arguments: what stands before the name, */
  char *call_middle;        /* (nullable): between the name and the arguments, */
  char *call_end;           /* (nullable): and behind these, up to the end of the answer; */
  char *call_next;          /* (nullable): from there to the name of the next call, where there are
                             * several, */
  char *next_middle;        /* (nullable): and what is between name and arguments of that one. The
                             * calls were given the ids below, and may be numbered: 0, 1 */
} LlmTemplateFeatures;

#define LLM_TEMPLATE_ID_LENGTH 9
#define LLM_TEMPLATE_CALL_ID "call00001"
#define LLM_TEMPLATE_NEXT_ID "call00002"

/* @source: (nullable): tokenizer.chat_template of the file. @tokenizer: (nullable):
 * of the file, for the texts of BOS, EOS and what ends answers; needed only during
 * the call; NULL: <s>, </s> and what is common. @name_for_errors: the file.
 * Fails with UNSUPPORTED when there is none, or it can't be used: the message has
 * line, column and what is not supported. */
LlmTemplate *llm_template_new      (const char   *source,
                                    LlmTokenizer *tokenizer,
                                    const char   *name_for_errors,
                                    GError      **error) G_GNUC_WARN_UNUSED_RESULT;
void         llm_template_free     (LlmTemplate  *self);
const LlmTemplateFeatures *
             llm_template_get_features (LlmTemplate *self);
/* (transfer full): the features in a line, for people: "system, tools (hermes), thinking". */
char        *llm_template_describe (LlmTemplate  *self);

/* Rendered text, for all to read. */
typedef struct
{
  GArray *parts;          /* (element-type LlmTextPart) */
  char *text;             /* of the parts */
  LlmThought thought;     /* where it ends, if that is in an answer */
} LlmPrompt;

/* (transfer full): the text that follows @call->point, markup and plain text apart. Fails with
 * INVALID_ARGUMENT for a role or an order that this template can't express, also where it would
 * leave a message out, and where extras, tools or variables are no JSON; with UNSUPPORTED where the
 * template does what the interpreter does not know, or too much, or knows no thinking that is ON. */
LlmPrompt   *llm_template_render   (LlmTemplate           *self,
                                    const LlmTemplateCall *call,
                                    GError               **error) G_GNUC_WARN_UNUSED_RESULT;

void         llm_prompt_free       (LlmPrompt        *self);
static inline const LlmTextPart *
llm_prompt_get_parts (LlmPrompt *self,
                      guint     *n_parts)
{
  *n_parts = self->parts->len;
  return (const LlmTextPart *) (void *) self->parts->data;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmTemplate, llm_template_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmPrompt, llm_prompt_free)
