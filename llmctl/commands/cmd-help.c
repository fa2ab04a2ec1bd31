/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl help: the table of commands for people, and as JSON for what is made from it. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/llmctl.h"
#include "llmctl/output/llmctl-json.h"

#define MAX_NAME_COLUMNS 28

/* --- for people --- */

static void
append_entry (GString    *out,
              const char *name,
              guint       columns,
              const char *help)
{
  g_autofree char *wrapped = llmctl_wrap (help, columns + 4);
  guint width = llmctl_output_get_width (name);

  /* A name that is too long has its help on the next line. */
  g_string_append_printf (out, "  %s%s", name, width > columns ? "\n  " : "");
  g_string_append_printf (out, "%*s%s", (int) (columns + 2 - (width > columns ? 0 : width)), "",
                          wrapped + strspn (wrapped, " "));
}

/* (transfer full) */
static char *
make_option_name (const GOptionEntry *option)
{
  const char letter[] = { '-', option->short_name, ',', ' ', '\0' };
  const char *argument = option->arg_description;

  return g_strconcat (option->short_name != 0 ? letter : "", "--", option->long_name,
                      argument != NULL ? "=" : "", argument != NULL ? _(argument) : "", NULL);
}

/* The tables of options that @command (nullable) takes, each under its title. */
static void
append_options (GString             *out,
                const LlmctlCommand *command)
{
  const GOptionEntry *tables[LLMCTL_N_TABLES];
  guint columns = 0;

  llmctl_option_list (command, tables);
  for (gsize i = 0; tables[i] != NULL; i++)
    for (const GOptionEntry *option = tables[i]; option->long_name != NULL; option++)
      {
        g_autofree char *name = make_option_name (option);
        guint width = llmctl_output_get_width (name);

        if (width <= MAX_NAME_COLUMNS)
          columns = MAX (columns, width);
      }

  for (gsize i = 0; tables[i] != NULL; i++)
    {
      gboolean is_common = tables[i] == llmctl_common_options;

      if (i == 0 || is_common)
        g_string_append_printf (out, "\n%s\n",
                                is_common ? _("Options of every command:") : _("Options:"));
      for (const GOptionEntry *option = tables[i]; option->long_name != NULL; option++)
        {
          g_autofree char *name = make_option_name (option);

          append_entry (out, name, columns, _(option->description));
        }
    }
}

static void
append_commands (GString                    *out,
                 const LlmctlCommand *const *commands)
{
  guint columns = 0;

  for (gsize i = 0; commands[i] != NULL; i++)
    columns = MAX (columns, llmctl_output_get_width (commands[i]->name));

  g_string_append_printf (out, "\n%s\n", _("Commands:"));
  for (gsize i = 0; commands[i] != NULL; i++)
    if (!commands[i]->is_hidden)
      append_entry (out, commands[i]->name, columns, _(commands[i]->summary));
}

static void
append_text (GString    *out,
             const char *text)
{
  g_autofree char *wrapped = llmctl_wrap (text, 0);

  g_string_append_printf (out, "\n%s", wrapped);
}

char *
llmctl_help_make (const LlmctlCommand *command,
                  const char          *full_name)
{
  const LlmctlCommand *const *commands = command != NULL ? command->commands : llmctl_commands;
  GString *out = g_string_new (NULL);

  if (commands != NULL)
    /* TRANSLATORS: %s is a program or command; COMMAND stands for one of its commands */
    g_string_append_printf (out, _("Usage: %s COMMAND [OPTION…]\n"), full_name);
  else if (command->parameters != NULL)
    /* TRANSLATORS: %s are the name of a command and its arguments */
    g_string_append_printf (out, _("Usage: %s [OPTION…] %s\n"), full_name,
                            _(command->parameters));
  else
    g_string_append_printf (out, _("Usage: %s [OPTION…]\n"), full_name);

  if (command != NULL)
    append_text (out, _(command->summary));
  if (command != NULL && command->description != NULL)
    append_text (out, _(command->description));
  if (commands != NULL)
    append_commands (out, commands);
  append_options (out, command);
  if (command == NULL)
    append_text (out, _("Ends with 0 when all is well, 1 after a failure, 2 for wrong usage, 3 when "
                        "the time is up, 4 when the service or a model is not there, 5 when it is "
                        "not allowed, 6 when too much is asked of the service, 130 when "
                        "interrupted."));

  return g_string_free (out, FALSE);
}

void
llmctl_help_show (const LlmctlCommand *command,
                  const char          *full_name)
{
  g_autofree char *help = llmctl_help_make (command, full_name);

  llmctl_output_text (LLMCTL_STYLE_PLAIN, help);
}

/* --- for programs --- */

/* (nullable): a text of the tables in the language of the user. */
static const char *
translate (const char *text)
{
  return text != NULL ? _(text) : NULL;
}

static void
add_options (GVariantBuilder    *builder,
             const GOptionEntry *options)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      const char short_name[] = { option->short_name, '\0' };

      g_variant_builder_add_value (builder, llmctl_json_object (
          "long:s", option->long_name, "short:s", *short_name != '\0' ? short_name : NULL,
          "argument:s", translate (option->arg_description),
          "repeatable:b", option->arg == G_OPTION_ARG_FILENAME_ARRAY,
          "help:s", _(option->description), NULL));
    }
}

static GVariant *
describe_options (const GOptionEntry *options,
                  const GOptionEntry *more)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  add_options (&builder, options);
  add_options (&builder, more);

  return g_variant_builder_end (&builder);
}

static GVariant *
describe_commands (const LlmctlCommand *const *commands)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (const LlmctlCommand *command; (command = *commands) != NULL; commands++)
    g_variant_builder_add_value (&builder, llmctl_json_object (
        "name:s", command->name, "parameters:s", translate (command->parameters),
        "summary:s", _(command->summary), "description:s", translate (command->description),
        "hidden:b", command->is_hidden, "options:*", describe_options (command->options, command->more_options),
        "commands:*", command->commands != NULL ? describe_commands (command->commands) : NULL,
        NULL));

  return g_variant_builder_end (&builder);
}

/* --- the command --- */

/* Steps down from all commands to those of what @argv names. (nullable): the word that is none;
 * @command: (out) (nullable): the last one */
static const char *
find_commands (char                       **argv,
               GString                     *full_name,
               const LlmctlCommand        **command,
               const LlmctlCommand *const **commands)
{
  *command = NULL;
  *commands = llmctl_commands;
  for (gsize i = 1; argv[i] != NULL; i++)
    {
      *command = *commands != NULL ? llmctl_command_find (*commands, argv[i]) : NULL;
      if (*command == NULL)
        return argv[i];
      *commands = (*command)->commands;
      g_string_append_printf (full_name, " %s", argv[i]);
    }

  return NULL;
}

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  g_autoptr(GString) full_name = g_string_new ("llmctl");
  const LlmctlCommand *const *commands;
  const LlmctlCommand *command;
  const char *unknown;

  if (llmctl_globals.is_json && argc > 1)
    return llmctl_complain_usage (_("“help --json” takes no command: it prints all of them"));
  if (llmctl_globals.is_json)
    {
      llmctl_output_json (llmctl_json_object (
          "name:s", "llmctl", "program-version:s", LLM_VERSION,
          "options:*", describe_options (llmctl_common_options, NULL),
          "commands:*", describe_commands (llmctl_commands), NULL));
      return LLMCTL_EXIT_OK;
    }

  unknown = find_commands (argv, full_name, &command, &commands);
  if (unknown != NULL)
    return llmctl_complain_usage (_("Unknown command “%s” of “%s”"), unknown, full_name->str);
  llmctl_help_show (command, full_name->str);
  return LLMCTL_EXIT_OK;
}

static void
complete (LlmctlCompletion *completion,
          int               argc,
          char            **argv)
{
  g_autoptr(GString) full_name = g_string_new (NULL);
  const LlmctlCommand *const *commands;
  const LlmctlCommand *command;

  if (find_commands (argv, full_name, &command, &commands) == NULL && commands != NULL)
    llmctl_commands_offer (completion, commands);
}

const LlmctlCommand llmctl_help_command = {
  .name = "help",
  .parameters = N_("[COMMAND…]"),
  .summary = N_("Show help for a command"),
  .description = N_("With --json the whole table of commands and options is printed, from which "
                    "man pages and completions are made."),
  .is_long = TRUE,
  .run = run,
  .complete = complete,
};
