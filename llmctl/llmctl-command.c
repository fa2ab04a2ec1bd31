/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>
#include <string.h>

#include "common/llmsvc-command-line.h"

#define MAX_SUGGEST_LENGTH 48

const GOptionEntry llmctl_common_options[] = {
  { "system-bus", 0, 0, G_OPTION_ARG_NONE, &llmctl_globals.is_system_bus,
    N_("Only the service on the system bus"), NULL },
  { "session-bus", 0, 0, G_OPTION_ARG_NONE, &llmctl_globals.is_session_bus,
    N_("Only the service on the session bus"), NULL },
  { "json", 0, 0, G_OPTION_ARG_NONE, &llmctl_globals.is_json,
    N_("Print JSON"), NULL },
  { "timeout", 0, 0, G_OPTION_ARG_DOUBLE, &llmctl_globals.timeout_s,
    N_("Give up after so many seconds"), N_("SECONDS") },
  { "help", 'h', 0, G_OPTION_ARG_NONE, &llmctl_globals.wants_help,
    N_("Show help"), NULL },
  G_OPTION_ENTRY_NULL
};

const LlmctlCommand *
llmctl_command_find (const LlmctlCommand *const *commands,
                     const char                 *name)
{
  for (gsize i = 0; commands[i] != NULL; i++)
    if (strcmp (commands[i]->name, name) == 0)
      return commands[i];

  return NULL;
}

void
llmctl_commands_offer (LlmctlCompletion           *completion,
                       const LlmctlCommand *const *commands)
{
  for (gsize i = 0; commands[i] != NULL; i++)
    if (!commands[i]->is_hidden)
      llmctl_completion_offer (completion, commands[i]->name, _(commands[i]->summary));
}

const GOptionEntry *const *
llmctl_option_list (const LlmctlCommand *command,
                    const GOptionEntry  *tables[LLMCTL_N_TABLES])
{
  gsize n = 0;

  if (command != NULL && command->options != NULL)
    tables[n++] = command->options;
  if (command != NULL && command->more_options != NULL)
    tables[n++] = command->more_options;
  tables[n++] = llmctl_common_options;
  tables[n] = NULL;
  return tables;
}

const GOptionEntry *
llmctl_option_find (const LlmctlCommand *command,
                    const char          *word)
{
  gsize length = g_str_has_prefix (word, "--") ? strcspn (word + 2, "=") : 0;
  const GOptionEntry *tables[LLMCTL_N_TABLES];

  if (word[0] != '-' || word[1] == '\0' || strcmp (word, "--") == 0)
    return NULL;

  llmctl_option_list (command, tables);
  for (gsize i = 0; tables[i] != NULL; i++)
    for (const GOptionEntry *option = tables[i]; option->long_name != NULL; option++)
      if (length > 0 ? strncmp (option->long_name, word + 2, length) == 0 &&
                         option->long_name[length] == '\0'
                     : option->short_name != 0 && option->short_name == word[1])
        return option;

  return NULL;
}

gboolean
llmctl_option_awaits_value (const LlmctlCommand *command,
                            const char          *word)
{
  const GOptionEntry *tables[LLMCTL_N_TABLES];

  return llmsvc_command_line_awaits_value (word, llmctl_option_list (command, tables));
}

/* --- what was meant --- */

static guint
count_edits (const char *a,
             const char *b)
{
  gsize n_a = strlen (a);
  gsize n_b = strlen (b);
  guint rows[3][MAX_SUGGEST_LENGTH + 1];

  for (gsize j = 0; j <= n_b; j++)
    rows[0][j] = (guint) j;
  for (gsize i = 1; i <= n_a; i++)
    {
      guint *row = rows[i % 3];
      const guint *above = rows[(i - 1) % 3];
      const guint *above_two = rows[(i + 1) % 3];

      row[0] = (guint) i;
      for (gsize j = 1; j <= n_b; j++)
        {
          gboolean is_same = g_ascii_tolower (a[i - 1]) == g_ascii_tolower (b[j - 1]);

          row[j] = MIN (MIN (above[j], row[j - 1]) + 1, above[j - 1] + (is_same ? 0 : 1));
          if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
            row[j] = MIN (row[j], above_two[j - 2] + 1);
        }
    }

  return rows[n_a % 3][n_b];
}

const char *
llmctl_suggest (const char        *word,
                const char *const *candidates)
{
  gsize length = strlen (word);
  const char *best = NULL;
  /* few of the letters, and not of the dashes in front of an option */
  guint best_edits = (guint) (length - strspn (word, "-")) / 3;

  if (length == 0 || length > MAX_SUGGEST_LENGTH)
    return NULL;

  for (gsize i = 0; candidates[i] != NULL; i++)
    {
      guint edits;

      if (strlen (candidates[i]) > MAX_SUGGEST_LENGTH)
        continue;
      edits = count_edits (word, candidates[i]);
      if (edits <= best_edits && (best == NULL || edits < best_edits))
        {
          best = candidates[i];
          best_edits = edits;
        }
    }
  /* The beginning of a longer name. */
  for (gsize i = 0; best == NULL && length > 1 && candidates[i] != NULL; i++)
    if (g_str_has_prefix (candidates[i], word))
      best = candidates[i];

  return best;
}
