/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A bounded interpreter of Jinja, for chat templates: the language as
 * apply_chat_template() of transformers runs it (sandboxed, trim_blocks and
 * lstrip_blocks on, loop controls and {% generation %} as extensions, tojson as
 * json.dumps()). docs/templates.md says what of Jinja is there; what is not is
 * refused with its line and column, never written differently. Steps, depth,
 * memory and output are limited.
 *
 * Every byte of what is written keeps its origin through all operations: 0 for
 * the template's own text, else what the caller gave its data. A parsed template
 * is immutable; any thread, several at once.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmJinjaTemplate LlmJinjaTemplate;

/* Fails with UNSUPPORTED; the message has line and column. @source: valid UTF-8. */
LlmJinjaTemplate *llm_jinja_template_new    (const char       *source,
                                             GError          **error) G_GNUC_WARN_UNUSED_RESULT;
void              llm_jinja_template_free   (LlmJinjaTemplate *self);

/* One of messages. */
typedef struct
{
  const char *role;       /* of a closed set: its origin is 0 */
  const char *text;
  const char *extras;     /* (nullable): a JSON object whose members are added; “content” replaces
                           * the text */
  guint16 text_origin;
  guint16 extras_origin;
} LlmJinjaMessage;

typedef struct
{
  const char *name;
  const char *text;
  gboolean is_json;       /* else a string */
  guint16 origin;
} LlmJinjaVariable;

typedef struct
{
  const LlmJinjaMessage *messages;
  guint n_messages;
  const char *members;    /* (nullable): a JSON object, whose members are variables too, */
  guint16 members_origin;
  const LlmJinjaVariable *variables; /* unless these have the same names */
  guint n_variables;
  gint64 now_s;           /* since 1970, for strftime_now, which gives the time of this place */
  gint64 max_us;          /* of the processor's time; 0: some seconds, more for much text */
} LlmJinjaInput;

/* Bytes of a text that come from one place: those up to @end that are in no run before. */
typedef struct
{
  gsize end;
  guint16 origin;
} LlmJinjaRun;

typedef struct
{
  char *text;             /* (owned): valid UTF-8, not terminated */
  gsize length;           /* may be made less */
  LlmJinjaRun *runs;      /* (owned) */
  guint n_runs;
} LlmJinjaOutput;

/* FALSE with @error: INVALID_ARGUMENT where the template itself refuses the conversation
 * (raise_exception) or JSON is none; else UNSUPPORTED. @out is to be cleared in any case. */
gboolean          llm_jinja_template_render (LlmJinjaTemplate    *self,
                                             const LlmJinjaInput *input,
                                             LlmJinjaOutput      *out,
                                             GError             **error) G_GNUC_WARN_UNUSED_RESULT;
void              llm_jinja_output_clear    (LlmJinjaOutput      *out);
/* The run of a byte that it has. */
const LlmJinjaRun *llm_jinja_output_get_run (const LlmJinjaOutput *out,
                                             gsize                at);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmJinjaTemplate, llm_jinja_template_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmJinjaOutput, llm_jinja_output_clear)

G_END_DECLS
