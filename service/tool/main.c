/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include "config.h"

#include <glib/gi18n.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "common/llmsvc-command-line.h"
#include "common/llmsvc-i18n.h"
#include "weights/llm-repacked-cache.h"

static const ToolCommand *const commands[] = {
  &tool_generate, &tool_perplexity, &tool_accuracy, &tool_quality, &tool_calibrate, &tool_draw_command,
  &tool_divergence, &tool_tokenize, &tool_inspect, &tool_prepare, &tool_profile, &tool_options, &tool_statistics,
};

static void
print_usage (void (*print) (const char *format, ...))
{
  print ("%s", _("Usage: llmsvc-tool COMMAND [OPTION…] …\n\nCommands:\n"));
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    print ("  %-12s %s\n", commands[i]->name, _(commands[i]->summary));
  print ("%s", _("\n“llmsvc-tool COMMAND --help” tells more.\n"));
}

/* Parses the options and checks how many arguments are left. @argv: the command's name first. */
static int
run_command (const ToolCommand *command,
             char             **argv)
{
  const GOptionEntry *const tables[] = { command->entries, NULL };
  g_autofree char *called = g_strconcat ("llmsvc-tool ", command->name, NULL);
  g_autoptr(GOptionContext) context = g_option_context_new (command->arguments);
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) words = llmsvc_command_line_split (argv, tables);
  int n_arguments, status;
  gboolean is_right;

  /* what the usage of --help begins with */
  g_set_prgname (called);
  llmsvc_command_line_hide (argv + 1);
  g_option_context_set_translation_domain (context, GETTEXT_PACKAGE);
  g_option_context_set_summary (context, command->description);
  g_option_context_add_main_entries (context, command->entries, NULL);
  if (!g_option_context_parse_strv (context, &words, &error))
    return tool_fail_usage (error->message);

  llmsvc_command_line_drop_separator (words);
  n_arguments = (int) g_strv_length (words) - 1;
  is_right = command->n_arguments == TOOL_SOME          ? n_arguments >= 1
             : command->n_arguments == TOOL_AT_MOST_ONE ? n_arguments <= 1
             : command->n_arguments == TOOL_ANY         ? TRUE
                                                        : n_arguments == command->n_arguments;
  if (!is_right)
    {
      g_autofree char *help = g_option_context_get_help (context, TRUE, NULL);

      g_printerr ("%s", help);
      return TOOL_USAGE;
    }

  status = command->run (words + 1);
  fflush (stdout);
  /* or the next start would do the same work again */
  llm_repacked_wait_for_all ();
  return status;
}

/* Errors are printed by the commands; what the engine notes for a journal is not
 * repeated on a terminal. */
static GLogWriterOutput
write_log (GLogLevelFlags   level,
           const GLogField *fields,
           gsize            n_fields,
           gpointer         data)
{
  if (level >= G_LOG_LEVEL_MESSAGE && g_getenv ("G_MESSAGES_DEBUG") == NULL)
    return G_LOG_WRITER_HANDLED;
  return g_log_writer_default (level, fields, n_fields, data);
}

int
main (int    argc,
      char **argv)
{
  const char *name = argc > 1 ? argv[1] : "";

  setlocale (LC_ALL, "");
  llmsvc_i18n_init ();
  textdomain (GETTEXT_PACKAGE);
  llmsvc_command_line_fit_prints ();
  g_log_set_writer_func (write_log, NULL, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    if (strcmp (name, commands[i]->name) == 0)
      return run_command (commands[i], argv + 1);

  if (strcmp (name, "--version") == 0)
    {
      puts ("llmsvc-tool " LLM_VERSION);
      return TOOL_OK;
    }
  if (strcmp (name, "--help") == 0)
    {
      print_usage (g_print);
      return TOOL_OK;
    }
  if (*name != '\0')
    g_printerr (_("llmsvc-tool: there is no command “%s”\n"), name);
  print_usage (g_printerr);
  return TOOL_USAGE;
}
