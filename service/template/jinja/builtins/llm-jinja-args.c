/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a row with arguments that are checked before. */

#include "template/jinja/builtins/llm-jinja-builtins.h"

#include <string.h>

/* What the template gave has a name or came from an expression. */
gboolean
llm_jinja_arg_given (const LlmJinjaValue *value)
{
  return value->type != LLM_JINJA_UNDEFINED || value->name != NULL;
}

static guint
count_parameters (const LlmJinjaBuiltin *builtin)
{
  guint n = 0;

  while (n < LLM_JINJA_MAX_PARAMETERS && builtin->parameters[n].name != NULL)
    n++;
  return n;
}

/* Puts each argument at the place of its parameter. */
static void
sort_arguments (LlmJinja *self, LlmJinjaCall *call)
{
  const LlmJinjaBuiltin *builtin = call->builtin;
  const LlmJinjaArgs *args = call->args;
  guint n_positions = args->n_values - args->n_names;
  guint n = count_parameters (builtin);

  if (n_positions > n)
    llm_jinja_fail (self, "“%s” takes at most %u arguments here, not %u", builtin->name, n,
                    n_positions);
  for (guint i = 0; i < n_positions; i++)
    call->arg[i] = args->values[i];
  for (guint i = 0; i < args->n_names; i++)
    {
      guint at = 0;

      while (at < n && strcmp (builtin->parameters[at].name, args->names[i]) != 0)
        at++;
      if (at == n)
        llm_jinja_fail (self, "the argument “%.60s” of “%s” is not supported", args->names[i],
                        builtin->name);
      if (at < n_positions)
        llm_jinja_fail (self, "the argument “%.60s” of “%s” is given twice", args->names[i],
                        builtin->name);
      call->arg[at] = args->values[n_positions + i];
    }
}

static void
check_argument (LlmJinja                *self,
                const char              *function,
                const LlmJinjaParameter *parameter,
                LlmJinjaValue           *value)
{
  LlmJinjaTake take = parameter->take;
  gboolean is_given = llm_jinja_arg_given (value);
  gboolean is_left_out = !is_given || value->type == LLM_JINJA_NONE;

  if (!is_given && take != LLM_JINJA_TAKE_ANY && take != LLM_JINJA_TAKE_TEXT_OR_NONE
      && take != LLM_JINJA_TAKE_INT)
    llm_jinja_fail (self, "“%s” lacks its argument “%s”", function, parameter->name);
  if (take == LLM_JINJA_TAKE_TEXT_OR_NONE && is_left_out)
    *value = llm_jinja_none ();
  else if (take == LLM_JINJA_TAKE_TEXT || take == LLM_JINJA_TAKE_TEXT_OR_NONE)
    llm_jinja_need_string (self, function, value);
  else if (take == LLM_JINJA_TAKE_INT && is_left_out)
    *value = llm_jinja_int (parameter->fallback, 0);
  else if (take == LLM_JINJA_TAKE_INT || take == LLM_JINJA_TAKE_NEEDED_INT)
    *value = llm_jinja_int (llm_jinja_need_int (self, function, value), value->origin);
}

LlmJinjaValue
llm_jinja_run_builtin (LlmJinja              *self,
                       const LlmJinjaBuiltin *builtin,
                       const LlmJinjaValue   *subject,
                       const LlmJinjaArgs    *args)
{
  LlmJinjaCall call = { .builtin = builtin, .subject = *subject, .args = args };
  LlmJinjaValue result;

  llm_jinja_charge (self, subject, 1);
  llm_jinja_charge (self, args->values, args->n_values);
  if (builtin->places & LLM_JINJA_AS_TEXT)
    call.subject = llm_jinja_to_string (self, subject);
  if (!(builtin->places & LLM_JINJA_TAKES_ALL))
    {
      sort_arguments (self, &call);
      for (guint i = 0; i < count_parameters (builtin); i++)
        check_argument (self, builtin->name, &builtin->parameters[i], &call.arg[i]);
    }
  result = builtin->run (self, &call);
  if (builtin->places & LLM_JINJA_KEEPS_HTML)
    result.is_html = call.subject.is_html;
  return result;
}

gint64
llm_jinja_need_int (LlmJinja *self, const char *function, const LlmJinjaValue *value)
{
  if (value->type == LLM_JINJA_BOOL)
    return value->boolean;
  if (value->type != LLM_JINJA_INT)
    llm_jinja_fail (self, "“%s” needs an integer, not a value of type %s", function,
                    llm_jinja_type_name (value));
  return value->integer;
}

const LlmJinjaString *
llm_jinja_need_string (LlmJinja *self, const char *function, const LlmJinjaValue *value)
{
  if (value->type != LLM_JINJA_STRING)
    llm_jinja_fail (self, "“%s” needs a string, not a value of type %s", function,
                    llm_jinja_type_name (value));
  return &value->string;
}
