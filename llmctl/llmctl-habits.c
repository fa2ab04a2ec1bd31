/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl-habits.h"

#include <glib/gi18n.h>

static const LlmctlHabit habits[] = {
  { "llmctl", "list", "model list", NULL, FALSE },
  { "llmctl", "ls", "model list", NULL, FALSE },
  { "llmctl", "show", "model show", NULL, FALSE },
  { "llmctl", "ps", "status", NULL, FALSE },
  { "llmctl", "run", "chat",
    N_("One model serves all applications: “llmctl ask \"PROMPT\"” asks it, “llmctl chat” talks with "
       "it, and “llmctl model use ID” chooses it"), TRUE },
  { "llmctl", "pull", NULL,
    N_("llmctl downloads nothing: get a GGUF file and put it where the service looks, with "
       "“{install}”; “llmctl model list” shows it then, “{sudo}llmctl model use ID” takes it, and "
       "“llmctl doctor” says which size fits this machine"), FALSE },
  { "llmctl", "rm", NULL,
    N_("“llmctl context rm NAME” removes a context; “{sudo}rm {folder}/FILE.gguf” a model that "
       "was put there"), FALSE },
  { "llmctl", "stop", NULL,
    N_("The service releases memory by itself when others need it: “llmctl trim critical” does it "
       "now, and “{systemctl} stop llmsvc” ends it"), FALSE },
  { "llmctl", "serve", NULL,
    N_("The first call starts the service: nothing is to be started before. “llmctl status” says "
       "whether it runs, and “{systemctl} start llmsvc” starts it by hand"), FALSE },
  { "llmctl context", "ls", "list", NULL, FALSE },
  { "llmctl context", "delete", "rm", NULL, FALSE },
  { "llmctl context", "remove", "rm", NULL, FALSE },
  { "llmctl context", "create", "new", NULL, FALSE },
  { "llmctl model", "ls", "list", NULL, FALSE },
  { "llmctl model", "select", "use", NULL, FALSE },
};

const LlmctlHabit *
llmctl_habit_find (const char *command,
                   const char *word)
{
  for (gsize i = 0; i < G_N_ELEMENTS (habits); i++)
    if (g_str_equal (habits[i].command, command) && g_str_equal (habits[i].word, word))
      return &habits[i];
  return NULL;
}
