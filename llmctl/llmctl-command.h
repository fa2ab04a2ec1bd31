/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The table of commands and their options, which the program, help and completion read.
 * One thread.
 */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* In the order of the help; ends with NULL. In main.c. */
extern const LlmctlCommand *const llmctl_commands[];

/* What every command takes; ends with an empty one. */
extern const GOptionEntry llmctl_common_options[];

/* (nullable): the command called @name of @commands. */
const LlmctlCommand *llmctl_command_find  (const LlmctlCommand *const *commands,
                                           const char                 *name);
/* For completion: those that are not hidden. */
void                 llmctl_commands_offer (LlmctlCompletion           *completion,
                                            const LlmctlCommand *const *commands);
/* Tables of the options of @command (nullable) and of those that every command takes; ends with
 * NULL. Returns @tables. */
const GOptionEntry *const *llmctl_option_list (const LlmctlCommand    *command,
                                               const GOptionEntry     *tables[3]);
/* (nullable): the option of @command (nullable), or of all of them, that @word is:
 * "--name", "--name=…" or "-n". */
const GOptionEntry  *llmctl_option_find   (const LlmctlCommand        *command,
                                           const char                 *word);
/* Whether the word after @word, an option, is its value. */
gboolean             llmctl_option_awaits_value (const LlmctlCommand  *command,
                                                 const char           *word);

/* (nullable): the one of @candidates (NULL-terminated) that @word was probably meant to be. */
const char          *llmctl_suggest       (const char                 *word,
                                           const char *const          *candidates);

/* (transfer full): help for @command, called @full_name ("llmctl context list"); of
 * the whole program when it is NULL. */
char                *llmctl_help_make     (const LlmctlCommand        *command,
                                           const char                 *full_name);
/* Prints it. */
void                 llmctl_help_show     (const LlmctlCommand        *command,
                                           const char                 *full_name);

G_END_DECLS
