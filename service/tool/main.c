/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include "config.h"

#include <glib/gi18n.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

#include "common/llmsvc-command-line.h"
#include "common/llmsvc-i18n.h"

static const struct
{
  const char *name;
  int (*run) (int argc, char **argv);
  const char *summary;
} commands[] = {
  { "generate", tool_generate, N_("Answer a prompt") },
  { "perplexity", tool_perplexity, N_("Measure how well a model predicts a text") },
  { "accuracy", tool_accuracy, N_("Measure how well a model solves tasks") },
  { "divergence", tool_divergence, N_("Measure what packing context memory changes") },
  { "tokenize", tool_tokenize, N_("Show a text's tokens") },
  { "inspect", tool_inspect, N_("Show what a GGUF file holds") },
  { "prepare", tool_prepare, N_("Prepare models for a quick start") },
  { "profile", tool_profile, N_("Measure what bringing contexts back costs") },
  { "options", tool_options, N_("List the options of the service's calls") },
};

static void
print_usage (void (*print) (const char *format, ...))
{
  print ("%s", _("Usage: llmsvc-tool COMMAND [OPTION…] …\n\nCommands:\n"));
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    print ("  %-12s %s\n", commands[i].name, _(commands[i].summary));
  print ("%s", _("\n“llmsvc-tool COMMAND --help” tells more.\n"));
}

gboolean
tool_parse (int                *argc,
            char             ***argv,
            const GOptionEntry *entries,
            const char         *usage,
            const char         *summary,
            int                 n_rest)
{
  /* for the life of the process, as those of main() would be */
  static char **words;
  const GOptionEntry *const tables[] = { entries, NULL };
  g_autoptr(GOptionContext) context = g_option_context_new (usage);
  g_autoptr(GError) error = NULL;

  words = llmsvc_command_line_split (*argv, tables);
  llmsvc_command_line_hide (*argv + 1);
  g_option_context_set_translation_domain (context, GETTEXT_PACKAGE);
  g_option_context_set_summary (context, summary);
  g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse_strv (context, &words, &error))
    {
      g_printerr ("llmsvc-tool: %s\n", error->message);
      return FALSE;
    }
  llmsvc_command_line_drop_separator (words);
  *argv = words;
  *argc = (int) g_strv_length (words);
  if (n_rest == TOOL_SOME ? *argc < 2 : *argc != n_rest + 1)
    {
      g_autofree char *help = g_option_context_get_help (context, TRUE, NULL);

      g_printerr ("%s", help);
      return FALSE;
    }
  return TRUE;
}

char *
tool_read (const char *path,
           GError    **error)
{
  char *text = NULL;

  if (strcmp (path, "-") == 0)
    path = "/dev/stdin";
  return g_file_get_contents (path, &text, NULL, error) ? text : NULL;
}

int
tool_fail (const GError *error)
{
  g_printerr ("llmsvc-tool: %s\n", error->message);
  return TOOL_FAILED;
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
    if (strcmp (name, commands[i].name) == 0)
      {
        g_autofree char *called = g_strconcat ("llmsvc-tool ", name, NULL);

        /* what the usage of --help begins with */
        g_set_prgname (called);
        return commands[i].run (argc - 1, argv + 1);
      }

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
