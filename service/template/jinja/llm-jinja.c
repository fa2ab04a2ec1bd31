/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "template/jinja/llm-jinja.h"

#include <string.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "template/jinja/llm-jinja-parse.h"

/* Of a template; the largest that are published have 40 KiB. */
#define MAX_SOURCE (1024 * 1024)
#define MAX_PARSE_BYTES (128 * 1024 * 1024)
/* Of a rendering, besides what grows with its input. */
#define MAX_RENDER_BYTES (64 * 1024 * 1024)
#define MAX_RENDER_STEPS (10 * 1000 * 1000)
#define MAX_OUTPUT_BYTES (8 * 1024 * 1024)
/* And as much for each MiB of input; published templates take milliseconds. */
#define MAX_RENDER_US (2 * G_USEC_PER_SEC)

struct _LlmJinjaTemplate
{
  GPtrArray *blocks;        /* the tree, and names, lie in */
  GHashTable *names;        /* (element-type utf8): interned */
  char *source;             /* with \n at the ends of lines */
  gsize source_length;
  LlmJinjaNodes body;
};

static void
init (LlmJinja *self, LlmJinjaTemplate *template, gsize max_bytes, guint64 max_steps)
{
  *self = (LlmJinja) {
    .blocks = g_ptr_array_new_with_free_func (g_free),
    .max_bytes = max_bytes,
    .max_steps = max_steps,
    .end_us = G_MAXINT64,
    .source = template->source,
    .source_length = template->source_length,
    .names = template->names,
  };
}

/* As Jinja does: line ends are \n, and one at the end of the source is dropped. */
static void
take_source (LlmJinjaTemplate *self, const char *source)
{
  GString *text = g_string_new (NULL);

  for (const char *at = source; *at != '\0'; at++)
    {
      if (*at == '\r' && at[1] == '\n')
        continue;
      g_string_append_c (text, *at == '\r' ? '\n' : *at);
    }
  if (text->len > 0 && text->str[text->len - 1] == '\n')
    g_string_truncate (text, text->len - 1);
  self->source_length = text->len;
  self->source = g_string_free (text, FALSE);
}

/* Apart from what has cleanups of its own: a failure jumps here. */
static gboolean
try_parse (LlmJinja *jinja, LlmJinjaTemplate *self)
{
  if (setjmp (jinja->leave) != 0)
    return FALSE;
  llm_jinja_parse (jinja, &self->body);
  return TRUE;
}

LlmJinjaTemplate *
llm_jinja_template_new (const char *source, GError **error)
{
  g_autoptr(LlmJinjaTemplate) self = g_new0 (LlmJinjaTemplate, 1);
  LlmJinja jinja;
  gboolean is_parsed;

  self->names = g_hash_table_new (g_str_hash, g_str_equal);
  if (strlen (source) > MAX_SOURCE || !g_utf8_validate (source, -1, NULL))
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "it is no UTF-8 text of at most %d KiB", MAX_SOURCE / 1024);
  take_source (self, source);
  init (&jinja, self, MAX_PARSE_BYTES, G_MAXUINT64);
  is_parsed = try_parse (&jinja, self);
  self->blocks = g_steal_pointer (&jinja.blocks);
  if (!is_parsed)
    {
      g_propagate_error (error, jinja.error);
      return NULL;
    }
  return g_steal_pointer (&self);
}

void
llm_jinja_template_free (LlmJinjaTemplate *self)
{
  g_clear_pointer (&self->names, g_hash_table_unref);
  g_clear_pointer (&self->blocks, g_ptr_array_unref);
  g_free (self->source);
  g_free (self);
}

/* --- rendering --- */

/* @what is not so: the caller's JSON is no object. */
static LlmJinjaDict *
read_object (LlmJinja *self, const char *json, LlmJinjaOrigin origin, const char *what)
{
  LlmJinjaValue value;

  if (llm_jinja_read_json (self, json, origin, &value) && value.type == LLM_JINJA_DICT)
    return value.dict;
  self->has_raised = TRUE;
  llm_jinja_fail (self, "%s", what);
}

static LlmJinjaValue
new_message (LlmJinja *self, const LlmJinjaMessage *message)
{
  LlmJinjaValue value = llm_jinja_dict_new (self);

  value.origin = message->extras_origin;
  llm_jinja_dict_set_name (self, value.dict, "role",
                           llm_jinja_string_new (self, message->role, strlen (message->role), 0));
  llm_jinja_dict_set_name (self, value.dict, "content",
                           llm_jinja_string_new (self, message->text, strlen (message->text),
                                                 message->text_origin));
  if (message->extras != NULL)
    {
      const LlmJinjaDict *extras =
        read_object (self, message->extras, message->extras_origin,
                     "what a message holds besides its text is no JSON object");

      for (guint i = 0; i < extras->n_entries; i++)
        if (!llm_jinja_string_is (&extras->entries[i].key.string, "role"))
          llm_jinja_dict_set (self, value.dict, extras->entries[i].key, extras->entries[i].value);
    }
  return value;
}

static void
set_global (LlmJinja *self, const char *name, LlmJinjaValue value)
{
  const char *known = g_hash_table_lookup (self->names, name);

  /* what the template does not name it can't ask for */
  if (known != NULL)
    llm_jinja_scope_set (self, self->scope, known, value);
}

static void
set_members (LlmJinja *self, const LlmJinjaInput *input)
{
  const LlmJinjaDict *members;

  if (input->members == NULL)
    return;
  members = read_object (self, input->members, input->members_origin,
                         "the variables of the call are no JSON object");
  for (guint i = 0; i < members->n_entries; i++)
    set_global (self, llm_jinja_copy (self, &members->entries[i].key.string),
                members->entries[i].value);
}

static void
render (LlmJinja *self, LlmJinjaTemplate *template, const LlmJinjaInput *input)
{
  LlmJinjaValue messages = llm_jinja_list_new (self, LLM_JINJA_LIST_LIST);

  self->scope = llm_jinja_scope_new (self, NULL);
  set_members (self, input);
  llm_jinja_add_globals (self, self->scope);
  for (guint i = 0; i < input->n_messages; i++)
    llm_jinja_list_add (self, messages.list, new_message (self, &input->messages[i]));
  set_global (self, "messages", messages);
  for (guint i = 0; i < input->n_variables; i++)
    {
      const LlmJinjaVariable *variable = &input->variables[i];
      LlmJinjaValue value;

      if (!variable->is_json)
        value = llm_jinja_string_new (self, variable->text, strlen (variable->text),
                                      variable->origin);
      else if (!llm_jinja_read_json (self, variable->text, variable->origin, &value))
        {
          self->has_raised = TRUE;
          llm_jinja_fail (self, "“%s” is no JSON", variable->name);
        }
      set_global (self, variable->name, value);
    }

  /* variables of the template do not hide those of the caller from macros, as in Jinja */
  self->scope = llm_jinja_scope_new (self, self->scope);
  self->out = llm_jinja_text_new (self);
  llm_jinja_execute (self, &template->body);
}

static gboolean
try_render (LlmJinja *jinja, LlmJinjaTemplate *self, const LlmJinjaInput *input)
{
  if (setjmp (jinja->leave) != 0)
    return FALSE;
  render (jinja, self, input);
  return TRUE;
}

static gsize
count_bytes (const LlmJinjaInput *input)
{
  gsize n = 0;

  for (guint i = 0; i < input->n_messages; i++)
    n += strlen (input->messages[i].text)
         + (input->messages[i].extras != NULL ? strlen (input->messages[i].extras) : 0);
  for (guint i = 0; i < input->n_variables; i++)
    n += strlen (input->variables[i].text);
  return n + (input->members != NULL ? strlen (input->members) : 0);
}

gboolean
llm_jinja_template_render (LlmJinjaTemplate    *self,
                           const LlmJinjaInput *input,
                           LlmJinjaOutput      *out,
                           GError             **error)
{
  gsize n_input = count_bytes (input);
  LlmJinja jinja;
  gboolean is_rendered;

  *out = (LlmJinjaOutput) { NULL };
  init (&jinja, self, MAX_RENDER_BYTES + 64 * n_input, MAX_RENDER_STEPS + 16 * n_input);
  jinja.max_output = MAX_OUTPUT_BYTES + 4 * n_input;
  jinja.now_s = input->now_s;
  jinja.end_us = llm_clock_thread_us ()
                 + (input->max_us > 0 ? input->max_us
                                      : MAX_RENDER_US + (gint64) n_input * MAX_RENDER_US / (1 << 20));
  is_rendered = try_render (&jinja, self, input);
  if (is_rendered)
    {
      out->length = jinja.out->length;
      out->text = g_memdup2 (jinja.out->bytes, out->length);
      out->n_runs = jinja.out->n_runs;
      out->runs = g_memdup2 (jinja.out->runs, out->n_runs * sizeof *out->runs);
    }
  else
    {
      if (jinja.has_raised)
        jinja.error->code = LLMSVC_ERROR_INVALID_ARGUMENT;
      g_propagate_error (error, jinja.error);
    }
  llm_jinja_clear (&jinja);
  return is_rendered;
}

void
llm_jinja_output_clear (LlmJinjaOutput *out)
{
  g_clear_pointer (&out->text, g_free);
  g_clear_pointer (&out->runs, g_free);
}

const LlmJinjaRun *
llm_jinja_output_get_run (const LlmJinjaOutput *out, gsize at)
{
  return llm_jinja_find_run (out->runs, out->n_runs, at);
}
