/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Prints the documentation comments of the properties of LlmsvcOptions, which are made from
 * the table of options and so have no comment in a source. Runs while the library is built;
 * g-ir-scanner reads what it prints.
 */

#include <stdio.h>
#include <stdlib.h>

#include "common/llmsvc-option-table.h"

/* The calls that a library function makes, and what the bus has for the others. */
static const struct
{
  LlmsvcCall call;
  const char *link;
} callers[] = {
  { LLMSVC_CALL_GENERATE, "[method@Context.generate_async], [method@Context.prompt_async]" },
  { LLMSVC_CALL_ASK, "[method@Context.ask_async]" },
  { LLMSVC_CALL_COMPLETE, "[method@Client.complete_async]" },
  { LLMSVC_CALL_COUNT_TOKENS, "[method@Client.count_tokens_async]" },
  { LLMSVC_CALL_PREWARM, "[method@Client.prewarm_async]" },
  { LLMSVC_CALL_CREATE_CONTEXT, "[method@Client.create_context_async]" },
  { LLMSVC_CALL_OPEN_CONTEXT, "[method@Client.open_context_async]" },
  { LLMSVC_CALL_FORK, "[method@Context.fork_async]" },
  { LLMSVC_CALL_APPEND, "[method@Context.append_async]" },
  { LLMSVC_CALL_ROLLBACK, "[method@Context.rollback_async]" },
  { LLMSVC_CALL_SET_BUDGET, "`org.llm.Service.Memory.SetBudget()` on the bus" },
  { LLMSVC_CALL_TRIM, "`org.llm.Service.Memory.Trim()` on the bus" },
  { LLMSVC_CALL_SET_QUOTA, "`org.llm.Service.Admin.SetQuota()` on the bus" },
};

static void
print_range (const LlmsvcOptionInfo *option)
{
  const char *unit = option->unit != NULL ? option->unit : "";
  const char *space = option->unit != NULL ? " " : "";

  if (option->choices != NULL)
    {
      printf (" * One of");
      for (gsize i = 0; option->choices[i] != NULL; i++)
        printf ("%s `%s`", i > 0 ? "," : "", option->choices[i]);
      printf (option->takes_names     ? ", or a name.\n *\n"
              : option->takes_numbers ? ", or a whole number, as text.\n *\n"
                                      : ".\n *\n");
    }
  else if (g_str_equal (option->type, "s"))
    {
      if (option->max > 0)
        printf (" * From %.0f to %.0f bytes.\n *\n", option->min, option->max);
    }
  else if (g_str_equal (option->type, "as"))
    {
      printf (" * Up to %u strings of %.0f to %.0f bytes.\n *\n", option->max_entries, option->min,
              option->max);
    }
  else if (option->max_entries > 0)
    {
      printf (" * Of type `%s`, up to %u entries from %g to %g.\n *\n", option->type,
              option->max_entries, option->min, option->max);
    }
  else if (g_str_equal (option->type, "t") && option->max >= (double) G_MAXUINT64)
    {
      if (option->unit != NULL)
        printf (" * In %s.\n *\n", option->unit);
    }
  else if (option->max > 0)
    {
      printf (" * From %.10g to %.10g%s%s.\n *\n", option->min, option->max, space, unit);
    }
}

static void
print_calls (const LlmsvcOptionInfo *option)
{
  const char *before = " * For ";

  for (gsize i = 0; i < G_N_ELEMENTS (callers); i++)
    if (option->calls & callers[i].call)
      {
        printf ("%s%s", before, callers[i].link);
        before = ",\n *   ";
      }
  printf (".\n *\n");
}

int
main (void)
{
  for (guint id = 0; id < LLMSVC_N_OPTIONS; id++)
    {
      const LlmsvcOptionInfo *option = llmsvc_option_get_info (id);

      printf ("/**\n * LlmsvcOptions:%s:\n *\n * %s\n *\n", option->key, option->summary);
      print_range (option);
      print_calls (option);
      if (option->feature != NULL)
        printf (" * Needs the feature `%s`; see [method@Client.has_feature].\n *\n",
                option->feature);
      printf (" * Since: 0.1\n */\n\n");
    }
  return EXIT_SUCCESS;
}
