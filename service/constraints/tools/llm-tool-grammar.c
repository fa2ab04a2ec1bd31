/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/tools/llm-tool-grammar.h"

#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error-private.h"
#include "constraints/llm-loose-text.h"
#include "constraints/schema/llm-schema.h"

#define SPACES " \n\t"

/* Of any length, in which no call begins. */
static LlmAutomaton *
make_free_text (const LlmCallFormat *format)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  guint start = llm_nfa_add_state (nfa);
  guint end;
  g_autoptr(LlmAutomaton) with = NULL;
  g_autoptr(LlmAutomaton) all = NULL;

  llm_nfa_add_bytes (nfa, start, 0, 255, start);
  all = llm_nfa_determinize (nfa, start, start);
  g_clear_pointer (&nfa, llm_nfa_free);

  nfa = llm_nfa_new ();
  start = llm_nfa_add_state (nfa);
  if (format->is_at_start)
    for (const char *space = SPACES; *space != '\0'; space++)
      llm_nfa_add_bytes (nfa, start, (guint8) *space, (guint8) *space, start);
  else
    llm_nfa_add_bytes (nfa, start, 0, 255, start);
  end = llm_nfa_add_text (nfa, start, format->marker, strlen (format->marker));
  llm_nfa_add_bytes (nfa, end, 0, 255, end);
  with = llm_nfa_determinize (nfa, start, end);
  return all != NULL && with != NULL ? llm_automaton_combine (all, with, LLM_COMBINE_WITHOUT)
                                     : NULL;
}

/* --- calls --- */

/* Name, middle and arguments of each that may be called, between @from and @to. */
static void
add_tools (LlmNfa         *nfa,
           const LlmTools *tools,
           const guint32  *rules,
           const char     *middle,
           guint           from,
           guint           to)
{
  for (guint i = 0; i < tools->tools->len; i++)
    {
      const LlmTool *tool = g_ptr_array_index (tools->tools, i);
      guint at;

      if (tools->choice == LLM_TOOL_CHOICE_NAMED && i != tools->named)
        continue;
      at = llm_nfa_add_text (nfa, from, tool->name, strlen (tool->name));
      at = llm_nfa_add_loose (nfa, at, middle, 0);
      llm_nfa_add_call (nfa, at, rules[i], to);
    }
}

static void
add_calls (LlmNfa              *nfa,
           const LlmTools      *tools,
           const LlmCallFormat *format,
           const guint32       *rules,
           guint                from,
           guint                to)
{
  guint names = llm_nfa_add_loose (nfa, from, format->begin, strlen (format->marker));
  guint behind = llm_nfa_add_state (nfa);

  add_tools (nfa, tools, rules, format->middle, names, behind);
  if (format->next != NULL && tools->is_parallel && tools->choice != LLM_TOOL_CHOICE_NAMED)
    add_tools (nfa, tools, rules, format->next_middle, llm_nfa_add_loose (nfa, behind, format->next, 0),
               behind);
  llm_nfa_add_empty (nfa, llm_nfa_add_loose (nfa, behind, format->end, 0), to, LLM_EDGE_FREE);
}

static LlmAutomaton *
make_answer (const LlmTools      *tools,
             const LlmCallFormat *format,
             const guint32       *rules)
{
  g_autoptr(LlmNfa) nfa = llm_nfa_new ();
  g_autoptr(LlmAutomaton) free_text = make_free_text (format);
  guint start = llm_nfa_add_state (nfa);
  guint end = llm_nfa_add_state (nfa);
  guint calls = llm_nfa_add_state (nfa);
  gboolean is_forced = tools->choice >= LLM_TOOL_CHOICE_REQUIRED;

  if (free_text == NULL)
    return NULL;
  if (!is_forced)
    llm_nfa_add_automaton (nfa, start, free_text, end);
  if (tools->choice != LLM_TOOL_CHOICE_NONE && !format->is_at_start && !is_forced)
    llm_nfa_add_automaton (nfa, start, free_text, calls);
  else if (tools->choice != LLM_TOOL_CHOICE_NONE)
    llm_nfa_add_empty (
      nfa, llm_nfa_add_optional (nfa, llm_nfa_add_optional (nfa, start, "\n"), " "), calls,
      LLM_EDGE_FREE);
  if (tools->choice != LLM_TOOL_CHOICE_NONE)
    add_calls (nfa, tools, format, rules, calls, end);
  return llm_nfa_determinize (nfa, start, end);
}

/* A schema's error with the place within the tools. */
static void
place_error (GError        **error,
             const LlmTool  *tool)
{
  static const char of_schema[] = "schema: #";
  const char *message = error != NULL ? (*error)->message : "";
  g_autoptr(GError) placed = NULL;

  if (!g_str_has_prefix (message, of_schema))
    return;
  (void) llm_fail (&placed, (*error)->code, "tools: %s%s", tool->pointer,
                   message + strlen (of_schema));
  g_clear_error (error);
  g_propagate_error (error, g_steal_pointer (&placed));
}

/* What the schema of @tool leaves out, with the place within the tools. */
static void
place_unheld (GPtrArray     *all,
              const LlmTool *tool,
              GPtrArray     *unheld)
{
  for (guint i = 0; i < unheld->len; i++)
    g_ptr_array_add (all, g_strdup_printf ("%s: %s%s", tool->name, tool->pointer,
                                           (const char *) g_ptr_array_index (unheld, i) + 1));
}

LlmGrammar *
llm_tool_grammar_new (const LlmTools      *tools,
                      const LlmCallFormat *format,
                      GError             **error)
{
  g_autoptr(LlmGrammarBuilder) builder = llm_grammar_builder_new ();
  guint32 root = llm_grammar_builder_add (builder, NULL);
  g_autofree guint32 *rules = g_new0 (guint32, tools->tools->len);
  g_autoptr(GError) cause = NULL;
  g_autoptr(GPtrArray) all_unheld = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GHashTable) kinds = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  LlmAutomaton *answer;
  LlmGrammar *grammar;

  for (guint i = 0; i < tools->tools->len; i++)
    {
      const LlmTool *tool = g_ptr_array_index (tools->tools, i);
      g_autoptr(GPtrArray) unheld = g_ptr_array_new_with_free_func (g_free);
      g_autoptr(GError) local = NULL;

      if (!llm_schema_add_rules (builder, tool->parameters, strlen (tool->parameters),
                                 format->arguments, tool->is_strict ? NULL : unheld, &rules[i],
                                 &local))
        {
          place_error (&local, tool);
          g_propagate_error (error, g_steal_pointer (&local));
          return NULL;
        }
      place_unheld (all_unheld, tool, unheld);
      if (format->arguments != NULL && !format->arguments->is_nested)
        llm_schema_find_kinds (tool->parameters, strlen (tool->parameters), tool->name, kinds);
    }
  answer = make_answer (tools, format, rules);
  if (answer == NULL)
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION, "tools: #: they are too many");
  llm_grammar_builder_set (builder, root, answer);
  grammar = llm_grammar_new (builder, root, &cause);
  if (grammar == NULL)
    g_propagate_error (error,
                       llmsvc_error_new (cause->code, cause, "tools: #: %s", cause->message));
  else
    {
      grammar->kinds = g_steal_pointer (&kinds);
      llm_grammar_set_unheld (grammar, all_unheld);
    }
  return grammar;
}
