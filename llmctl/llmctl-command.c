/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl-command.h"

#include <glib/gi18n.h>
#include <string.h>

#include "common/llmsvc-command-line.h"

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

const GOptionEntry *const *
llmctl_option_list (const LlmctlCommand *command,
                    const GOptionEntry  *tables[3])
{
  gsize n = 0;

  if (command != NULL && command->options != NULL)
    tables[n++] = command->options;
  tables[n++] = llmctl_common_options;
  tables[n] = NULL;
  return tables;
}

const GOptionEntry *
llmctl_option_find (const LlmctlCommand *command,
                    const char          *word)
{
  gsize length = g_str_has_prefix (word, "--") ? strcspn (word + 2, "=") : 0;
  const GOptionEntry *tables[3];

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
  const GOptionEntry *tables[3];

  return llmsvc_command_line_awaits_value (word, llmctl_option_list (command, tables));
}
