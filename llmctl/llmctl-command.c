/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl-command.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include "common/llmsvc-command-line.h"
#include "llmctl/output/llmctl-output.h"

#define MAX_TIMEOUT_S 4000000
#define MAX_SUGGEST_LENGTH 48
/* Stands before a negative number while the options are read: it is no option. */
#define NUMBER_MARK '\001'

LlmctlGlobals llmctl_globals = { .bus_type = G_BUS_TYPE_NONE };

static gboolean is_system_bus;
static gboolean is_session_bus;
static gboolean wants_help;
static gboolean wants_version;

const GOptionEntry llmctl_common_options[] = {
  { "system-bus", 0, 0, G_OPTION_ARG_NONE, &is_system_bus,
    N_("Only the service on the system bus"), NULL },
  { "session-bus", 0, 0, G_OPTION_ARG_NONE, &is_session_bus,
    N_("Only the service on the session bus"), NULL },
  { "json", 0, 0, G_OPTION_ARG_NONE, &llmctl_globals.is_json,
    N_("Print JSON"), NULL },
  { "timeout", 0, 0, G_OPTION_ARG_DOUBLE, &llmctl_globals.timeout_s,
    N_("Give up after so many seconds"), N_("SECONDS") },
  { "help", 'h', 0, G_OPTION_ARG_NONE, &wants_help,
    N_("Show help"), NULL },
  G_OPTION_ENTRY_NULL
};

static const GOptionEntry version_options[] = {
  { "version", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &wants_version, NULL, NULL },
  G_OPTION_ENTRY_NULL
};

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
  guint best_edits = (guint) length / 3 + 1;

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

/* --- the table --- */

const LlmctlCommand *
llmctl_command_find (const LlmctlCommand *const *commands,
                     const char                 *name)
{
  for (gsize i = 0; commands[i] != NULL; i++)
    if (strcmp (commands[i]->name, name) == 0)
      return commands[i];

  return NULL;
}

static const GOptionEntry *
find_in (const GOptionEntry *options,
         const char         *word)
{
  gsize length = word[1] == '-' ? strcspn (word + 2, "=") : 0;

  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    if (length > 0 ? strncmp (option->long_name, word + 2, length) == 0 &&
                       option->long_name[length] == '\0'
                   : option->short_name != 0 && option->short_name == word[1])
      return option;

  return NULL;
}

const GOptionEntry *
llmctl_option_find (const LlmctlCommand *command,
                    const char          *word)
{
  const GOptionEntry *option = NULL;

  if (word[0] != '-' || word[1] == '\0' || strcmp (word, "--") == 0)
    return NULL;

  if (command != NULL)
    option = find_in (command->options, word);
  return option != NULL ? option : find_in (llmctl_common_options, word);
}

/* @tables: room for three */
static const GOptionEntry *const *
list_options (const LlmctlCommand *command,
              const GOptionEntry  *tables[3])
{
  gsize n = 0;

  if (command != NULL && command->options != NULL)
    tables[n++] = command->options;
  tables[n++] = llmctl_common_options;
  tables[n] = NULL;
  return tables;
}

gboolean
llmctl_option_awaits_value (const LlmctlCommand *command,
                            const char          *word)
{
  const GOptionEntry *tables[3];

  return llmsvc_command_line_awaits_value (word, list_options (command, tables));
}

/* --- reading options --- */

static gboolean
looks_like_number (const char *word)
{
  return word[0] == '-' && (g_ascii_isdigit (word[1]) ||
                            (word[1] == '.' && g_ascii_isdigit (word[2])));
}

/* A negative number is an argument and no option, unless it is the value of one. @words:
 * without clusters. */
static void
mark_numbers (const LlmctlCommand *command,
              char               **words)
{
  gboolean is_value = FALSE;

  for (gsize i = 1; words[i] != NULL && strcmp (words[i], "--") != 0; i++)
    {
      gboolean is_option = !is_value && llmctl_option_find (command, words[i]) != NULL;

      if (!is_value && looks_like_number (words[i]))
        {
          char *marked = g_strdup_printf ("%c%s", NUMBER_MARK, words[i]);

          g_free (words[i]);
          words[i] = marked;
        }
      is_value = is_option && llmctl_option_awaits_value (command, words[i]);
    }
}

static void
unmark_numbers (char **words)
{
  for (gsize i = 0; words[i] != NULL; i++)
    if (words[i][0] == NUMBER_MARK)
      memmove (words[i], words[i] + 1, strlen (words[i]));
}

static void
add_names (GPtrArray          *names,
           const GOptionEntry *options)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    g_ptr_array_add (names, g_strconcat ("--", option->long_name, NULL));
}

static LlmctlExit
complain_option (const LlmctlCommand *command,
                 const char          *full_name,
                 char               **words,
                 const GError        *error)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  g_autofree char *word = NULL;
  const char *suggestion;

  for (gsize i = 1; words[i] != NULL && word == NULL && strcmp (words[i], "--") != 0; i++)
    if (words[i][0] == '-' && words[i][1] != '\0' && llmctl_option_find (command, words[i]) == NULL)
      word = g_strndup (words[i], strcspn (words[i], "="));

  if (!g_error_matches (error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION) || word == NULL)
    {
      /* TRANSLATORS: a complaint of the option parser, and the name of a command */
      llmctl_complain (_("%s; see “%s --help”"), error->message, full_name);
      return LLMCTL_EXIT_USAGE;
    }

  add_names (names, command != NULL ? command->options : NULL);
  add_names (names, llmctl_common_options);
  g_ptr_array_add (names, NULL);
  suggestion = llmctl_suggest (word, (const char *const *) names->pdata);
  if (suggestion != NULL)
    llmctl_complain (_("“%s” has no option “%s”; did you mean “%s”?"), full_name, word, suggestion);
  else
    llmctl_complain (_("“%s” has no option “%s”; see “%s --help”"), full_name, word, full_name);
  return LLMCTL_EXIT_USAGE;
}

/* Takes the options out of @words, which begin with a name; before a subcommand
 * (@is_leaf is FALSE) only those up to the first other word. */
static gboolean
read_options (const LlmctlCommand   *command,
              const char            *full_name,
              gboolean               is_leaf,
              char                ***words,
              LlmctlExit            *status)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_auto(GStrv) before = g_strdupv (*words);
  g_autoptr(GError) error = NULL;

  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_set_strict_posix (context, !is_leaf);
  g_option_context_add_main_entries (context, llmctl_common_options, NULL);
  if (command == NULL)
    g_option_context_add_main_entries (context, version_options, NULL);
  else if (command->options != NULL)
    g_option_context_add_main_entries (context, command->options, NULL);

  if (is_leaf)
    {
      const GOptionEntry *tables[3];
      char **split = llmsvc_command_line_split (*words, list_options (command, tables));

      g_strfreev (*words);
      *words = split;
      mark_numbers (command, *words);
    }
  if (!g_option_context_parse_strv (context, words, &error))
    {
      *status = complain_option (command, full_name, before, error);
      return FALSE;
    }
  unmark_numbers (*words);
  if (is_leaf || g_strcmp0 ((*words)[1], "--") == 0)
    llmsvc_command_line_drop_separator (*words);

  return TRUE;
}

static gboolean
check_common (LlmctlExit *status)
{
  if (is_system_bus && is_session_bus)
    {
      *status = llmctl_complain_usage (_("--system-bus and --session-bus exclude each other"));
      return FALSE;
    }
  if (!(llmctl_globals.timeout_s >= 0 && llmctl_globals.timeout_s <= MAX_TIMEOUT_S))
    {
      *status = llmctl_complain_usage (_("--timeout takes seconds from 0 (none) to %d"),
                                       MAX_TIMEOUT_S);
      return FALSE;
    }

  llmctl_globals.bus_type = is_system_bus    ? G_BUS_TYPE_SYSTEM
                            : is_session_bus ? G_BUS_TYPE_SESSION
                                             : G_BUS_TYPE_NONE;
  return TRUE;
}

/* --- running --- */

static LlmctlExit
complain_command (const LlmctlCommand *const *commands,
                  const char                 *full_name,
                  const char                 *word)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new ();
  const char *suggestion;

  for (gsize i = 0; commands[i] != NULL; i++)
    if (!commands[i]->is_hidden)
      g_ptr_array_add (names, (gpointer) commands[i]->name);
  g_ptr_array_add (names, NULL);

  suggestion = llmctl_suggest (word, (const char *const *) names->pdata);
  if (suggestion != NULL)
    llmctl_complain (_("“%s” is no command of “%s”; did you mean “%s”?"), word, full_name,
                     suggestion);
  else
    llmctl_complain (_("“%s” is no command of “%s”; see “%s --help”"), word, full_name, full_name);
  return LLMCTL_EXIT_USAGE;
}

static LlmctlExit
show_help (const LlmctlCommand *command,
           const char          *full_name,
           char               **words)
{
  g_autofree char *help = NULL;
  LlmctlExit status = LLMCTL_EXIT_OK;

  if (command != NULL && command->help != NULL &&
      command->help ((int) g_strv_length (words), words, &status))
    return status;

  help = llmctl_help_make (command, full_name);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, help);
  return LLMCTL_EXIT_OK;
}

/* @words: without what came before the name of @command, which is called @full_name. */
static LlmctlExit
run_command (const LlmctlCommand *command,
             const char          *full_name,
             char               **words)
{
  const LlmctlCommand *const *commands = command != NULL ? command->commands : llmctl_commands;
  g_auto(GStrv) rest = g_strdupv (words);
  LlmctlExit status = LLMCTL_EXIT_OK;

  if (!read_options (command, full_name, commands == NULL, &rest, &status))
    return status;
  if (wants_version)
    {
      llmctl_output_text (LLMCTL_STYLE_PLAIN, "llmctl " LLM_VERSION "\n");
      return LLMCTL_EXIT_OK;
    }
  if (commands == NULL)
    {
      if (!check_common (&status))
        return status;
      if (wants_help)
        return show_help (command, full_name, rest);
      return command->run ((int) g_strv_length (rest), rest);
    }

  if (rest[1] == NULL)
    {
      g_autofree char *help = NULL;

      if (wants_help)
        return show_help (command, full_name, rest);
      help = llmctl_help_make (command, full_name);
      g_printerr ("%s", help);
      return LLMCTL_EXIT_USAGE;
    }

  {
    const LlmctlCommand *next = llmctl_command_find (commands, rest[1]);
    g_autofree char *next_name = g_strconcat (full_name, " ", rest[1], NULL);

    if (next == NULL)
      return complain_command (commands, full_name, rest[1]);
    return run_command (next, next_name, rest + 1);
  }
}

/* What comes after the name of a command: prompts, names and texts of users. */
static char **
skip_commands (char **argv)
{
  const LlmctlCommand *const *commands = llmctl_commands;

  for (argv++; *argv != NULL && commands != NULL; argv++)
    {
      const LlmctlCommand *command = llmctl_command_find (commands, *argv);

      if (command != NULL)
        commands = command->commands;
    }

  return argv;
}

LlmctlExit
llmctl_command_main (int    argc,
                     char **argv)
{
  g_auto(GStrv) words = NULL;

  if (argc < 1)
    return LLMCTL_EXIT_USAGE;

  /* before the bus daemon, which logs command lines, sees this process */
  words = g_strdupv (argv);
  llmsvc_command_line_hide (skip_commands (argv));
  return run_command (NULL, "llmctl", words);
}
