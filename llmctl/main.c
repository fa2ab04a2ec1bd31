/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl: the service for people and shells, over the bus. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gi18n.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-command-line.h"
#include "llmctl/bus/llmctl-place.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/llmctl-habits.h"
#include "llmctl/llmctl.h"
#include "llmctl/output/llmctl-pager.h"

#define MAX_TIMEOUT_S 4000000
/* Stands before a negative number while the options are read: it is no option. */
#define NUMBER_MARK '\001'

/* In the order of the help. */
#define COMMANDS(X)                                                                                \
  X (ask) X (chat) X (context) X (model) X (status) X (memory) X (trim) X (stats) X (metrics)      \
  X (apps) X (quota) X (http) X (top) X (monitor) X (doctor) X (tree) X (introspect) X (call) X (get)       \
  X (set) X (complete) X (help)
#define DECLARE(name) extern const LlmctlCommand llmctl_##name##_command;
#define LIST(name)    &llmctl_##name##_command,

COMMANDS (DECLARE)

const LlmctlCommand *const llmctl_commands[] = { COMMANDS (LIST) NULL };

static gboolean wants_version;

static const GOptionEntry version_options[] = {
  { "version", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_NONE, &wants_version, NULL, NULL },
  G_OPTION_ENTRY_NULL
};

/* --- reading options --- */

/* A negative number is an argument and no option, unless it is the value of one. @words:
 * without clusters. */
static void
mark_numbers (const LlmctlCommand *command,
              char               **words)
{
  gboolean is_value = FALSE;

  for (gsize i = 1; words[i] != NULL && strcmp (words[i], "--") != 0; i++)
    {
      const char *digits = words[i] + 1 + (words[i][0] == '-' && words[i][1] == '.');

      if (!is_value && words[i][0] == '-' && g_ascii_isdigit (*digits))
        {
          char *marked = g_strdup_printf ("%c%s", NUMBER_MARK, words[i]);

          g_free (words[i]);
          words[i] = marked;
        }
      is_value = !is_value && llmctl_option_awaits_value (command, words[i]);
    }
}

static void
unmark_numbers (char **words)
{
  for (gsize i = 0; words[i] != NULL; i++)
    if (words[i][0] == NUMBER_MARK)
      memmove (words[i], words[i] + 1, strlen (words[i]));
}

static LlmctlExit
complain_option (const LlmctlCommand *command,
                 const char          *full_name,
                 char               **words,
                 const GError        *error)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_null_terminated (16, g_free, TRUE);
  const GOptionEntry *tables[LLMCTL_N_TABLES];
  g_autofree char *word = NULL;
  const char *suggestion;

  for (gsize i = 1; words[i] != NULL && word == NULL && strcmp (words[i], "--") != 0; i++)
    if (words[i][0] == '-' && words[i][1] != '\0' && llmctl_option_find (command, words[i]) == NULL)
      word = g_strndup (words[i], strcspn (words[i], "="));

  llmctl_option_list (command, tables);
  for (gsize i = 0; tables[i] != NULL; i++)
    for (const GOptionEntry *option = tables[i]; option->long_name != NULL; option++)
      g_ptr_array_add (names, g_strconcat ("--", option->long_name, NULL));
  suggestion = word != NULL ? llmctl_suggest (word, (const char *const *) names->pdata) : NULL;

  if (!g_error_matches (error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION) || word == NULL)
    /* TRANSLATORS: a complaint of the option parser, and the name of a command */
    llmctl_complain (_("%s; see “%s --help”"), error->message, full_name);
  else if (suggestion != NULL)
    llmctl_complain (_("“%s” has no option “%s”; did you mean “%s”?"), full_name, word, suggestion);
  else
    llmctl_complain (_("“%s” has no option “%s”; see “%s --help”"), full_name, word, full_name);
  return LLMCTL_EXIT_USAGE;
}

/* Takes the options out of @words, which begin with a name; before a subcommand
 * (@is_leaf is FALSE) only those up to the first other word. */
static LlmctlExit
read_options (const LlmctlCommand   *command,
              const char            *full_name,
              gboolean               is_leaf,
              char                ***words)
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_auto(GStrv) before = g_strdupv (*words);
  const GOptionEntry *tables[LLMCTL_N_TABLES];
  g_autoptr(GError) error = NULL;

  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_set_strict_posix (context, !is_leaf);
  llmctl_option_list (command, tables);
  for (gsize i = 0; tables[i] != NULL; i++)
    g_option_context_add_main_entries (context, tables[i], NULL);
  if (command == NULL)
    g_option_context_add_main_entries (context, version_options, NULL);

  if (is_leaf)
    {
      char **split = llmsvc_command_line_split (*words, tables);

      g_strfreev (*words);
      *words = split;
      mark_numbers (command, *words);
    }
  if (!g_option_context_parse_strv (context, words, &error))
    return complain_option (command, full_name, before, error);

  unmark_numbers (*words);
  if (is_leaf || g_strcmp0 ((*words)[1], "--") == 0)
    llmsvc_command_line_drop_separator (*words);
  return LLMCTL_EXIT_OK;
}

static LlmctlExit
check_common (void)
{
  if (llmctl_globals.is_system_bus && llmctl_globals.is_session_bus)
    return llmctl_complain_usage (_("--system-bus and --session-bus exclude each other"));
  if (!(llmctl_globals.timeout_s >= 0 && llmctl_globals.timeout_s <= MAX_TIMEOUT_S))
    return llmctl_complain_usage (_("--timeout takes seconds from 0 (none) to %d"), MAX_TIMEOUT_S);

  llmctl_globals.bus_type = llmctl_globals.is_system_bus    ? G_BUS_TYPE_SYSTEM
                            : llmctl_globals.is_session_bus ? G_BUS_TYPE_SESSION
                                                            : G_BUS_TYPE_NONE;
  return LLMCTL_EXIT_OK;
}

/* --- running --- */

static LlmctlExit
complain_command (const LlmctlCommand *const *commands,
                  const char                 *full_name,
                  const char                 *word)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_null_terminated (16, NULL, TRUE);
  const char *suggestion;

  for (gsize i = 0; commands[i] != NULL; i++)
    if (!commands[i]->is_hidden)
      g_ptr_array_add (names, (gpointer) commands[i]->name);

  suggestion = llmctl_suggest (word, (const char *const *) names->pdata);
  if (suggestion != NULL)
    llmctl_complain (_("Unknown command “%s” of “%s”; did you mean “%s”?"), word, full_name,
                     suggestion);
  else
    llmctl_complain (_("Unknown command “%s” of “%s”; see “%s --help”"), word, full_name, full_name);
  return LLMCTL_EXIT_USAGE;
}

static LlmctlExit
check_arguments (const LlmctlCommand *command,
                 char               **words)
{
  const guint n_most = command->n_most;

  if (command->missing != NULL && words[1] == NULL)
    return llmctl_complain_usage ("%s", _(command->missing));
  if (g_strv_length (words) <= 1 + n_most || (n_most == 0 && command->parameters != NULL))
    return LLMCTL_EXIT_OK;
  if (n_most == 0)
    return llmctl_complain_usage (_("“%s” takes no argument"), words[0]);
  return llmctl_complain_usage (_("“%s” is one argument too many for “%s”"), words[1 + n_most],
                                words[0]);
}

static void
begin_pager (void)
{
  if (!llmctl_globals.is_json)
    llmctl_pager_begin ();
}

/* Runs @command, or shows its help. */
static LlmctlExit
run_leaf (const LlmctlCommand *command,
          const char          *full_name,
          char               **words)
{
  LlmctlExit status = llmctl_globals.wants_help ? LLMCTL_EXIT_OK : check_arguments (command, words);
  int n = (int) g_strv_length (words);
  g_autoptr(GError) error = NULL;

  llmctl_globals.must_not_start = command->must_not_start;
  llmctl_globals.is_admin = command->is_admin;
  if (status != LLMCTL_EXIT_OK)
    return status;
  if (command->is_long || llmctl_globals.wants_help)
    begin_pager ();
  if (!llmctl_globals.wants_help)
    status = command->run (n, words, &error);
  else if (command->help == NULL || !command->help (n, words, &error))
    llmctl_help_show (command, full_name);

  return error != NULL ? llmctl_fail (error) : status;
}

static LlmctlExit run_command (const LlmctlCommand *command,
                               const char          *full_name,
                               char               **words);

/* (transfer full): the advice, for the service that answers here or would. */
static char *
make_advice (const LlmctlHabit *habit)
{
  GBusType type = llmctl_find_bus_type ();
  g_autofree char *folder = llmctl_place_make_folder (type);
  g_autofree char *install = llmctl_place_make_install (type);
  GString *advice = g_string_new (_(habit->advice));

  g_string_replace (advice, "{install}", install, 0);
  g_string_replace (advice, "{folder}", folder, 0);
  g_string_replace (advice, "{sudo}", llmctl_place_get_sudo (type), 0);
  g_string_replace (advice, "{systemctl}", llmctl_place_get_systemctl (type), 0);
  return g_string_free (advice, FALSE);
}

/* @words begin with a word that is no command of @command, but one of other programs. */
static LlmctlExit
follow_habit (const LlmctlHabit   *habit,
              const LlmctlCommand *command,
              const char          *full_name,
              char               **words)
{
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_auto(GStrv) runs = NULL;
  g_auto(GStrv) replaced = NULL;
  g_autofree char *advice = NULL;
  LlmctlExit status;

  if (habit->runs == NULL
      || (habit->takes_none && words[1] != NULL && words[1][0] != '-'))
    {
      status = check_common ();
      if (status != LLMCTL_EXIT_OK)
        return status;
      advice = make_advice (habit);
      llmctl_complain ("%s", advice);
      return LLMCTL_EXIT_USAGE;
    }
  runs = g_strsplit (habit->runs, " ", -1);
  g_strv_builder_add (builder, full_name);
  g_strv_builder_addv (builder, (const char **) runs);
  g_strv_builder_addv (builder, (const char **) words + 1);
  replaced = g_strv_builder_end (builder);
  return run_command (command, full_name, replaced);
}

/* What “llmctl” alone shows: the state, and where to go from here. */
static LlmctlExit
show_overview (void)
{
  char *words[] = { (char *) "status", NULL };
  LlmctlExit status = check_common ();

  if (status == LLMCTL_EXIT_OK)
    status = run_leaf (&llmctl_status_command, "llmctl status", words);
  if (llmctl_globals.is_json || llmctl_connect (NULL) == NULL)
    return status;
  llmctl_output_printf (LLMCTL_STYLE_BOLD, "\n%s\n", _("Next:"));
  llmctl_output_printf (LLMCTL_STYLE_PLAIN,
                        _("  llmctl ask \"PROMPT\"   ask a question; “llmctl chat” for a conversation\n"
                          "  llmctl doctor         what is wrong here, and which model fits\n"
                          "  llmctl help           all commands; “llmctl COMMAND --help” for one\n"));
  /* one that does not run yet is as it should be: the first question starts it */
  return status == LLMCTL_EXIT_NOT_AVAILABLE ? LLMCTL_EXIT_OK : status;
}

/* @words: without what came before the name of @command, which is called @full_name. */
static LlmctlExit
run_command (const LlmctlCommand *command,
             const char          *full_name,
             char               **words)
{
  const LlmctlCommand *const *commands = command != NULL ? command->commands : llmctl_commands;
  g_auto(GStrv) rest = g_strdupv (words);
  LlmctlExit status = read_options (command, full_name, commands == NULL, &rest);
  g_autofree char *next_name = NULL;
  g_autofree char *help = NULL;
  const LlmctlHabit *habit;

  if (status == LLMCTL_EXIT_OK && !wants_version && commands == NULL)
    status = check_common ();
  if (status != LLMCTL_EXIT_OK)
    return status;

  if (wants_version)
    {
      llmctl_output_text (LLMCTL_STYLE_PLAIN, "llmctl " LLM_VERSION "\n");
      return LLMCTL_EXIT_OK;
    }
  if (commands == NULL)
    return run_leaf (command, full_name, rest);
  if (llmctl_globals.wants_help && rest[1] == NULL)
    {
      begin_pager ();
      llmctl_help_show (command, full_name);
      return LLMCTL_EXIT_OK;
    }
  if (rest[1] == NULL && command == NULL)
    return show_overview ();
  if (rest[1] == NULL)
    {
      help = llmctl_help_make (command, full_name);
      g_printerr ("%s", help);
      return LLMCTL_EXIT_USAGE;
    }

  habit = llmctl_habit_find (full_name, rest[1]);
  if (habit != NULL)
    return follow_habit (habit, command, full_name, rest + 1);
  command = llmctl_command_find (commands, rest[1]);
  next_name = g_strconcat (full_name, " ", rest[1], NULL);
  return command != NULL ? run_command (command, next_name, rest + 1)
                         : complain_command (commands, full_name, rest[1]);
}

/* --- the program --- */

/* A socket to the bus must not get the number of a standard stream that is closed;
 * what is opened instead can't be read or written either. */
static void
hold_standard_streams (void)
{
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
    if (fcntl (fd, F_GETFD) < 0 && errno == EBADF &&
        open ("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
      _exit (LLMCTL_EXIT_FAILED);
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

int
main (int   argc,
      char *argv[])
{
  g_auto(GStrv) words = NULL;

  hold_standard_streams ();
  llmctl_i18n_init ();
  llmsvc_command_line_fit_prints ();
  /* Registers the names of the service's errors. */
  (void) LLMSVC_ERROR;
  if (argc < 1)
    return LLMCTL_EXIT_USAGE;

  /* before the bus daemon, which logs command lines, sees this process */
  words = g_strdupv (argv);
  llmctl_globals.words = (const char *const *) words + 1;
  llmsvc_command_line_hide (skip_commands (argv));
  return llmctl_output_finish ((int) run_command (NULL, "llmctl", words));
}
