/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Functions that every template has: Jinja's, and those that transformers adds. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>
#include <time.h>

#include "common/llmsvc-error.h"

/* As Jinja's sandbox has it. */
#define MAX_RANGE 100000

static LlmJinjaValue
global_range (LlmJinja            *self,
              const LlmJinjaValue *subject,
              const LlmJinjaArgs  *args)
{
  LlmJinjaValue list = llm_jinja_list_new (self, LLM_JINJA_LIST_RANGE);
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
new_dict (LlmJinja           *self,
          const char         *function,
          const LlmJinjaArgs *args)
{
  LlmJinjaValue dict = llm_jinja_dict_new (self);
  guint n_positions = args->n_values - args->n_names;

  if (n_positions > 1)
    llm_jinja_fail (self, "“%s” takes one dict or list of pairs", function);
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
            llm_jinja_fail (self, "“%s” needs pairs", function);
          llm_jinja_dict_set (self, dict.dict, pair->items[0], pair->items[1]);
        }
    }
  for (guint i = 0; i < args->n_names; i++)
    llm_jinja_dict_set_name (self, dict.dict, args->names[i], args->values[n_positions + i]);
  return dict;
}

static LlmJinjaValue
global_dict (LlmJinja            *self,
             const LlmJinjaValue *subject,
             const LlmJinjaArgs  *args)
{
  return new_dict (self, "dict", args);
}

static LlmJinjaValue
global_namespace (LlmJinja            *self,
                  const LlmJinjaValue *subject,
                  const LlmJinjaArgs  *args)
{
  LlmJinjaValue value = new_dict (self, "namespace", args);

  value.type = LLM_JINJA_NAMESPACE;
  return value;
}

/* What the template has against the conversation. */
static LlmJinjaValue
global_raise_exception (LlmJinja            *self,
                        const LlmJinjaValue *subject,
                        const LlmJinjaArgs  *args)
{
  LlmJinjaValue message = { .type = LLM_JINJA_STRING };
  char text[400];
  gsize n;

  if (args->n_values > 0)
    message = llm_jinja_to_string (self, &args->values[0]);
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
add_time (LlmJinja        *self,
          LlmJinjaText    *text,
          const struct tm *now,
          char             field)
{
  static const char *const days[] = { "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday",
                                      "Friday", "Saturday" };
  static const char *const months[] = { "January", "February", "March", "April", "May", "June",
                                        "July", "August", "September", "October", "November",
                                        "December" };
  char buffer[32];
  guint hour = (guint) now->tm_hour;

  switch (field)
    {
    case 'A':
      g_strlcpy (buffer, days[now->tm_wday], sizeof buffer);
      break;
    case 'a':
      g_strlcpy (buffer, days[now->tm_wday], 4);
      break;
    case 'B':
      g_strlcpy (buffer, months[now->tm_mon], sizeof buffer);
      break;
    case 'b':
    case 'h':
      g_strlcpy (buffer, months[now->tm_mon], 4);
      break;
    case 'd':
      g_snprintf (buffer, sizeof buffer, "%02d", now->tm_mday);
      break;
    case 'e':
      g_snprintf (buffer, sizeof buffer, "%2d", now->tm_mday);
      break;
    case 'm':
      g_snprintf (buffer, sizeof buffer, "%02d", now->tm_mon + 1);
      break;
    case 'Y':
      g_snprintf (buffer, sizeof buffer, "%d", now->tm_year + 1900);
      break;
    case 'y':
      g_snprintf (buffer, sizeof buffer, "%02d", now->tm_year % 100);
      break;
    case 'H':
      g_snprintf (buffer, sizeof buffer, "%02u", hour);
      break;
    case 'I':
      g_snprintf (buffer, sizeof buffer, "%02u", hour % 12 == 0 ? 12 : hour % 12);
      break;
    case 'M':
      g_snprintf (buffer, sizeof buffer, "%02d", now->tm_min);
      break;
    case 'S':
      g_snprintf (buffer, sizeof buffer, "%02d", now->tm_sec);
      break;
    case 'p':
      g_strlcpy (buffer, hour < 12 ? "AM" : "PM", sizeof buffer);
      break;
    case 'j':
      g_snprintf (buffer, sizeof buffer, "%03d", now->tm_yday + 1);
      break;
    case 'F':
      g_snprintf (buffer, sizeof buffer, "%d-%02d-%02d", now->tm_year + 1900, now->tm_mon + 1,
                  now->tm_mday);
      break;
    case 'T':
      g_snprintf (buffer, sizeof buffer, "%02u:%02d:%02d", hour, now->tm_min, now->tm_sec);
      break;
    case '%':
      g_strlcpy (buffer, "%", sizeof buffer);
      break;
    default:
      llm_jinja_fail (self, "the field %%%c of “strftime_now” is not supported", field);
    }
  llm_jinja_text_add_bytes (self, text, buffer, strlen (buffer), 0);
}

static LlmJinjaValue
global_strftime_now (LlmJinja            *self,
                     const LlmJinjaValue *subject,
                     const LlmJinjaArgs  *args)
{
  static const char *const names[] = { "format", NULL };
  LlmJinjaValue arg[G_N_ELEMENTS (names)];
  LlmJinjaText *text = llm_jinja_text_new (self);
  time_t now = (time_t) self->now_s;
  struct tm fields;
  const LlmJinjaString *format;

  llm_jinja_args_take (self, "strftime_now", args, 1, names, arg);
  format = llm_jinja_need_string (self, "strftime_now", &arg[0]);
  if (localtime_r (&now, &fields) == NULL)
    llm_jinja_fail (self, "the time of day is not known");
  for (gsize i = 0; i < format->length; i++)
    {
      LlmJinjaValue byte = llm_jinja_string_cut (format, i, i + 1);

      if (format->bytes[i] == '%' && i + 1 < format->length)
        add_time (self, text, &fields, format->bytes[++i]);
      else
        llm_jinja_text_add (self, text, &byte.string);
    }
  return llm_jinja_text_end (text);
}

static LlmJinjaValue
refuse (LlmJinja            *self,
        const LlmJinjaValue *subject,
        const LlmJinjaArgs  *args)
{
  llm_jinja_fail (self, "“cycler”, “joiner” and “lipsum” are not supported");
}

void
llm_jinja_add_globals (LlmJinja      *self,
                       LlmJinjaScope *scope)
{
  static const LlmJinjaBuiltinEntry globals[] = {
    { "range", global_range }, { "dict", global_dict }, { "namespace", global_namespace },
    { "raise_exception", global_raise_exception }, { "strftime_now", global_strftime_now },
    { "cycler", refuse }, { "joiner", refuse }, { "lipsum", refuse },
  };

  for (guint i = 0; i < G_N_ELEMENTS (globals); i++)
    {
      const char *name = g_hash_table_lookup (self->names, globals[i].name);

      /* what the template does not name it can't ask for */
      if (name != NULL)
        llm_jinja_scope_set (self, scope, name,
                             llm_jinja_new_method (self, name, globals[i].run, NULL));
    }
}
