/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Functions that every template has: Jinja's, and those that transformers adds. */

#include "template/jinja/builtins/llm-jinja-builtins.h"

#include <locale.h>
#include <string.h>
#include <time.h>

/* As Jinja's sandbox has it. */
#define MAX_RANGE 100000

static LlmJinjaValue
run_range (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue list = llm_jinja_list_new (self, LLM_JINJA_LIST_RANGE);
  const LlmJinjaArgs *args = call->args;
  gint64 bounds[3] = { 0, 0, 1 };

  if (args->n_values < 1 || args->n_values > 3 || args->n_names > 0)
    llm_jinja_fail (self, "“range” takes one to three numbers");
  for (guint i = 0; i < args->n_values; i++)
    bounds[args->n_values == 1 ? 1 : i] = llm_jinja_need_int (self, "range", &args->values[i]);
  if (bounds[2] == 0)
    llm_jinja_fail (self, "the step of “range” can't be 0");
  for (gint64 i = bounds[0]; bounds[2] > 0 ? i < bounds[1] : i > bounds[1];)
    {
      if (list.list->n_items == MAX_RANGE)
        llm_jinja_fail (self, "“range” has more than %d numbers", MAX_RANGE);
      llm_jinja_list_add (self, list.list, llm_jinja_int (i, 0));
      if (__builtin_add_overflow (i, bounds[2], &i))
        break;
    }
  return list;
}

/* From pairs or another dict, then names. */
static LlmJinjaValue
run_dict (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaArgs *args = call->args;
  LlmJinjaValue dict = llm_jinja_dict_new (self);
  guint n_positions = args->n_values - args->n_names;

  if (n_positions > 1)
    llm_jinja_fail (self, "“%s” takes one dict or list of pairs", call->builtin->name);
  if (n_positions == 1 && args->values[0].type == LLM_JINJA_DICT)
    {
      for (guint i = 0; i < args->values[0].dict->n_entries; i++)
        llm_jinja_dict_set (self, dict.dict, args->values[0].dict->entries[i].key,
                            args->values[0].dict->entries[i].value);
    }
  else if (n_positions == 1)
    {
      const LlmJinjaList *pairs = llm_jinja_iterate (self, &args->values[0]);

      for (guint i = 0; i < pairs->n_items; i++)
        {
          const LlmJinjaList *pair = llm_jinja_iterate (self, &pairs->items[i]);

          if (pair->n_items != 2)
            llm_jinja_fail (self, "“%s” needs pairs", call->builtin->name);
          llm_jinja_dict_set (self, dict.dict, pair->items[0], pair->items[1]);
        }
    }
  for (guint i = 0; i < args->n_names; i++)
    llm_jinja_dict_set_name (self, dict.dict, args->names[i], args->values[n_positions + i]);
  return dict;
}

static LlmJinjaValue
run_namespace (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue value = run_dict (self, call);

  value.type = LLM_JINJA_NAMESPACE;
  return value;
}

/* What the template has against the conversation. */
static LlmJinjaValue
run_raise_exception (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaValue message = { .type = LLM_JINJA_STRING };
  char text[400];
  gsize n;

  if (call->args->n_values > 0)
    message = llm_jinja_to_string (self, &call->args->values[0]);
  n = MIN (message.string.length, sizeof text - 1);
  while (n > 0 && n < message.string.length && ((guint8) message.string.bytes[n] & 0xc0) == 0x80)
    n--;
  if (n > 0)
    memcpy (text, message.string.bytes, n);
  text[n] = '\0';
  self->has_raised = TRUE;
  llm_jinja_fail (self, "%s", text);
}

/* In English, whatever the process speaks: templates were written for that. */
static void
add_time (LlmJinja *self, LlmJinjaText *text, const struct tm *now, char field)
{
  const char format[] = { '%', field, '\0' };
  char buffer[32];
  locale_t english;
  gsize n;

  if (field == '\0' || strchr ("AaBbhdemYyHIMSpjFT%", field) == NULL)
    llm_jinja_fail (self, "the field %%%c of “strftime_now” is not supported", field);
  english = newlocale (LC_ALL_MASK, "C", (locale_t) 0);
  n = strftime_l (buffer, sizeof buffer, format, now, english);
  freelocale (english);
  llm_jinja_text_add_bytes (self, text, buffer, n, 0);
}

static LlmJinjaValue
run_strftime_now (LlmJinja *self, LlmJinjaCall *call)
{
  LlmJinjaText *text = llm_jinja_text_new (self);
  time_t now = (time_t) self->now_s;
  struct tm fields;
  const LlmJinjaString *format = &call->arg[0].string;

  if (localtime_r (&now, &fields) == NULL)
    llm_jinja_fail (self, "the time of day is not known");
  for (gsize i = 0; i < format->length; i++)
    if (format->bytes[i] == '%' && i + 1 < format->length)
      add_time (self, text, &fields, format->bytes[++i]);
    else
      llm_jinja_text_add_part (self, text, format, i, i + 1);
  return llm_jinja_text_end (text);
}

void
llm_jinja_add_globals (LlmJinja *self, LlmJinjaScope *scope)
{
  static const LlmJinjaBuiltin globals[] = {
    { "dict", LLM_JINJA_TAKES_ALL, run_dict, 0, { { NULL, 0, 0 } } },
    { "namespace", LLM_JINJA_TAKES_ALL, run_namespace, 0, { { NULL, 0, 0 } } },
    { "raise_exception", LLM_JINJA_TAKES_ALL, run_raise_exception, 0, { { NULL, 0, 0 } } },
    { "range", LLM_JINJA_TAKES_ALL, run_range, 0, { { NULL, 0, 0 } } },
    { "strftime_now", 0, run_strftime_now, 0, { { "format", LLM_JINJA_TAKE_TEXT, 0 } } },
  };

  for (guint i = 0; i < G_N_ELEMENTS (globals); i++)
    {
      const char *name = g_hash_table_lookup (self->names, globals[i].name);

      /* what the template does not name it can't ask for */
      if (name != NULL)
        llm_jinja_scope_set (self, scope, name,
                             llm_jinja_new_method (self, name, &globals[i], NULL));
    }
}
