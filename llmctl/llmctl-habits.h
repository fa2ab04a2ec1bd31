/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Words that are commands of similar programs (Ollama, systemctl, docker): what they are here. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  const char *command;   /* "llmctl", "llmctl context": whose command it would be */
  const char *word;
  const char *runs;      /* (nullable): the command that it stands for, below the same one */
  const char *advice;    /* (nullable) N_(): what to do instead; one of both. {install}, {folder},
                          * {sudo} and {systemctl} become those of the service here */
  gboolean takes_none;   /* it stands for @runs only without arguments; else @advice says more */
} LlmctlHabit;

/* (nullable): NULL for a word that is nothing anywhere. */
const LlmctlHabit *llmctl_habit_find (const char *command,
                                      const char *word);

G_END_DECLS
