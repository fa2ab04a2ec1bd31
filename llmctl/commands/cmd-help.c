/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl help: the table of commands for people, and as JSON for what is made from it. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/llmctl-command.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-output.h"

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

  g_string_append_printf (out, "  %s", name);
  /* A name that is too long has its help on the next line. */
  if (width > columns)
    {
      g_string_append_c (out, '\n');
      width = 0;
      g_string_append (out, "  ");
    }
  for (guint i = width; i < columns + 2; i++)
    g_string_append_c (out, ' ');
  g_string_append (out, wrapped + strspn (wrapped, " "));
}

static char *
make_option_name (const GOptionEntry *option)
{
  GString *name = g_string_new (NULL);

  if (option->short_name != 0)
    g_string_append_printf (name, "-%c, ", option->short_name);
  g_string_append_printf (name, "--%s", option->long_name);
  if (option->arg_description != NULL)
    g_string_append_printf (name, "=%s", _(option->arg_description));

  return g_string_free (name, FALSE);
}

static guint
get_option_columns (const GOptionEntry *options,
                    guint               columns)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      g_autofree char *name = make_option_name (option);
      guint width = llmctl_output_get_width (name);

      if (width <= MAX_NAME_COLUMNS)
        columns = MAX (columns, width);
    }

  return columns;
}

static void
append_options (GString            *out,
                const char         *title,
                const GOptionEntry *options,
                guint               columns)
{
  gboolean has_title = FALSE;

  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      g_autofree char *name = NULL;

      if (option->flags & G_OPTION_FLAG_HIDDEN)
        continue;
      if (!has_title)
        g_string_append_printf (out, "\n%s\n", title);
      has_title = TRUE;
      name = make_option_name (option);
      append_entry (out, name, columns, option->description != NULL ? _(option->description) : "");
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
append_exit_codes (GString *out)
{
  g_autofree char *text = llmctl_wrap (_("Ends with 0 when all is well, 1 after a failure, 2 for "
                                         "wrong usage, 3 when the time is up, 4 when the service "
                                         "or a model is not there, 5 when it is not allowed, 6 "
                                         "when too much is asked of the service, 130 when "
                                         "interrupted."), 0);

  g_string_append_printf (out, "\n%s", text);
}

char *
llmctl_help_make (const LlmctlCommand *command,
                  const char          *full_name)
{
  const LlmctlCommand *const *commands = command != NULL ? command->commands : llmctl_commands;
  g_autofree char *summary = NULL;
  g_autofree char *description = NULL;
  GString *out = g_string_new (NULL);
  guint columns;

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
    {
      summary = llmctl_wrap (_(command->summary), 0);
      g_string_append_printf (out, "\n%s", summary);
    }
  if (command != NULL && command->description != NULL)
    {
      description = llmctl_wrap (_(command->description), 0);
      g_string_append_printf (out, "\n%s", description);
    }

  if (commands != NULL)
    append_commands (out, commands);
  columns = get_option_columns (llmctl_common_options, 0);
  if (command != NULL && command->options != NULL)
    {
      columns = get_option_columns (command->options, columns);
      append_options (out, _("Options:"), command->options, columns);
    }
  append_options (out, _("Options of every command:"), llmctl_common_options, columns);
  if (command == NULL)
    append_exit_codes (out);

  return g_string_free (out, FALSE);
}

/* --- for programs --- */

static GVariant *
describe_options (const GOptionEntry *options)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      GVariantBuilder dict;

      if (option->flags & G_OPTION_FLAG_HIDDEN)
        continue;
      g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
      llmctl_json_add_string (&dict, "long", option->long_name);
      if (option->short_name != 0)
        {
          const char name[] = { option->short_name, '\0' };

          llmctl_json_add_string (&dict, "short", name);
        }
      if (option->arg_description != NULL)
        llmctl_json_add_string (&dict, "argument", _(option->arg_description));
      llmctl_json_add_boolean (&dict, "repeatable",
                               option->arg == G_OPTION_ARG_STRING_ARRAY ||
                                 option->arg == G_OPTION_ARG_FILENAME_ARRAY);
      llmctl_json_add_string (&dict, "help",
                              option->description != NULL ? _(option->description) : "");
      g_variant_builder_add_value (&builder, g_variant_builder_end (&dict));
    }

  return g_variant_builder_end (&builder);
}

static GVariant *
describe_commands (const LlmctlCommand *const *commands)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (gsize i = 0; commands[i] != NULL; i++)
    {
      const LlmctlCommand *command = commands[i];
      GVariantBuilder dict;

      g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
      llmctl_json_add_string (&dict, "name", command->name);
      llmctl_json_add_string (&dict, "parameters",
                              command->parameters != NULL ? _(command->parameters) : NULL);
      llmctl_json_add_string (&dict, "summary", _(command->summary));
      if (command->description != NULL)
        llmctl_json_add_string (&dict, "description", _(command->description));
      llmctl_json_add_boolean (&dict, "hidden", command->is_hidden);
      llmctl_json_add (&dict, "options", describe_options (command->options));
      if (command->commands != NULL)
        llmctl_json_add (&dict, "commands", describe_commands (command->commands));
      g_variant_builder_add_value (&builder, g_variant_builder_end (&dict));
    }

  return g_variant_builder_end (&builder);
}

/* --- the command --- */

static LlmctlExit
run (int    argc,
     char **argv)
{
  const LlmctlCommand *const *commands = llmctl_commands;
  const LlmctlCommand *command = NULL;
  g_autoptr(GString) full_name = g_string_new ("llmctl");
  g_autofree char *help = NULL;

  if (llmctl_globals.is_json)
    {
      GVariantBuilder dict;

      if (argc > 1)
        return llmctl_complain_usage (_("“help --json” takes no command: it prints all of them"));
      g_variant_builder_init (&dict, G_VARIANT_TYPE_VARDICT);
      llmctl_json_add_string (&dict, "name", "llmctl");
      llmctl_json_add_string (&dict, "program-version", LLM_VERSION);
      llmctl_json_add (&dict, "options", describe_options (llmctl_common_options));
      llmctl_json_add (&dict, "commands", describe_commands (llmctl_commands));
      llmctl_output_json (g_variant_builder_end (&dict));
      return LLMCTL_EXIT_OK;
    }

  for (int i = 1; i < argc; i++)
    {
      command = commands != NULL ? llmctl_command_find (commands, argv[i]) : NULL;
      if (command == NULL)
        return llmctl_complain_usage (_("“%s” is no command of “%s”"), argv[i], full_name->str);
      g_string_append_printf (full_name, " %s", argv[i]);
      commands = command->commands;
    }

  help = llmctl_help_make (command, full_name->str);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, help);
  return LLMCTL_EXIT_OK;
}

static void
complete (LlmctlCompletion *completion,
          int               argc,
          char            **argv)
{
  const LlmctlCommand *const *commands = llmctl_commands;

  for (int i = 1; i < argc && commands != NULL; i++)
    {
      const LlmctlCommand *command = llmctl_command_find (commands, argv[i]);

      commands = command != NULL ? command->commands : NULL;
    }
  for (gsize i = 0; commands != NULL && commands[i] != NULL; i++)
    if (!commands[i]->is_hidden)
      llmctl_completion_offer (completion, commands[i]->name, _(commands[i]->summary));
}

const LlmctlCommand llmctl_help_command = {
  .name = "help",
  .parameters = N_("[COMMAND…]"),
  .summary = N_("Show help for a command"),
  .description = N_("With --json the whole table of commands and options is printed, from which "
                    "man pages and completions are made."),
  .run = run,
  .complete = complete,
};
