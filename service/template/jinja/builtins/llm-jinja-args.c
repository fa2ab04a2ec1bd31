/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What filters, tests and methods are given. */

#include "template/jinja/llm-jinja-private.h"

#include <string.h>

void
llm_jinja_args_take (LlmJinja           *self,
                     const char         *function,
                     const LlmJinjaArgs *args,
                     guint               n_needed,
                     const char *const  *names,
                     LlmJinjaValue      *out)
{
  guint n_positions = args->n_values - args->n_names;
  guint n = 0;

  for (; names[n] != NULL; n++)
    out[n] = n < n_positions ? args->values[n] : llm_jinja_undefined (NULL);
  if (n_positions > n)
    llm_jinja_fail (self, "“%s” takes at most %u arguments here, not %u", function, n, n_positions);

  for (guint i = 0; i < args->n_names; i++)
    {
      guint at = 0;

      while (at < n && strcmp (names[at], args->names[i]) != 0)
        at++;
      if (at == n)
        llm_jinja_fail (self, "the argument “%.60s” of “%s” is not supported", args->names[i],
                        function);
      if (at < n_positions)
        llm_jinja_fail (self, "the argument “%.60s” of “%s” is given twice", args->names[i],
                        function);
      out[at] = args->values[n_positions + i];
    }
  for (guint i = 0; i < n_needed; i++)
    if (!llm_jinja_arg_given (&out[i]))
      llm_jinja_fail (self, "“%s” lacks its argument “%s”", function, names[i]);
}

/* One that the template gave has a name or came from an expression; see below. */
gboolean
llm_jinja_arg_given (const LlmJinjaValue *value)
{
  return value->type != LLM_JINJA_UNDEFINED || value->name != NULL;
}

gint64
llm_jinja_need_int (LlmJinja            *self,
                    const char          *function,
                    const LlmJinjaValue *value)
{
  if (value->type == LLM_JINJA_BOOL)
    return value->boolean;
  if (value->type != LLM_JINJA_INT)
    llm_jinja_fail (self, "“%s” needs an integer, not a value of type %s", function,
                    llm_jinja_type_name (value));
  return value->integer;
}

const LlmJinjaString *
llm_jinja_need_string (LlmJinja            *self,
                       const char          *function,
                       const LlmJinjaValue *value)
{
  if (value->type != LLM_JINJA_STRING)
    llm_jinja_fail (self, "“%s” needs a string, not a value of type %s", function,
                    llm_jinja_type_name (value));
  return &value->string;
}
