/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl complete: what could come next on a command line, for the shells. It asks
 * the same table and the same introspection as the commands do, never starts the
 * service, and would rather say nothing than be late or complain.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/llmsvc-command-line.h"
#include "llmctl/llmctl-command.h"
#include "llmctl/bus/llmctl-contexts.h"
#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/output/llmctl-output.h"

#define MAX_CANDIDATES 1000
#define DEFAULT_LIMIT_S 0.5
/* Of the limit, for one call: then there is time left to look elsewhere. */
#define CALL_SHARE 0.4

struct _LlmctlCompletion
{
  const char *word;
  const char *prefix;    /* stands before each candidate: "--context=" */
  GHashTable *offered;   /* (element-type utf8) (owned) */
};

const char *
llmctl_completion_get_word (LlmctlCompletion *self)
{
  return self->word;
}

/* A candidate and its help are one line with one tab. */
static char *
make_line (const char *text)
{
  g_autofree char *harmless = llmctl_output_make_harmless (text);

  return g_strdelimit (g_steal_pointer (&harmless), "\n\t", ' ');
}

void
llmctl_completion_offer (LlmctlCompletion *self,
                         const char       *candidate,
                         const char       *help)
{
  g_autofree char *line = NULL;
  g_autofree char *help_line = NULL;

  /* What had to be changed to be shown would not be what is meant. */
  line = make_line (candidate);
  if (!g_str_has_prefix (candidate, self->word) || strcmp (line, candidate) != 0 ||
      *candidate == '\0' || g_hash_table_size (self->offered) >= MAX_CANDIDATES ||
      !g_hash_table_add (self->offered, g_strdup (candidate)))
    return;

  help_line = make_line (help != NULL ? help : "");
  llmctl_output_data (self->prefix);
  llmctl_output_data (candidate);
  llmctl_output_printf (LLMCTL_STYLE_PLAIN, "\t%s\n", help_line);
}

static void
offer_options (LlmctlCompletion   *self,
               const GOptionEntry *options)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    if ((option->flags & G_OPTION_FLAG_HIDDEN) == 0)
      {
        g_autofree char *name = g_strconcat ("--", option->long_name, NULL);

        llmctl_completion_offer (self, name,
                                 option->description != NULL ? _(option->description) : NULL);
      }
}

static void
offer_commands (LlmctlCompletion           *self,
                const LlmctlCommand *const *commands)
{
  for (gsize i = 0; commands[i] != NULL; i++)
    if (!commands[i]->is_hidden)
      llmctl_completion_offer (self, commands[i]->name, _(commands[i]->summary));
}

/* --- values of options --- */

/* What the help of Generate() lists for one of its options: "slo" has three. */
static void
offer_choices (LlmctlCompletion *self,
               const char       *name,
               const char       *before)
{
  const LlmctlInterface *interface = llmctl_docs_find_method ("Generate");
  const LlmctlMember *method = NULL;

  if (interface != NULL)
    method = llmctl_interface_find (interface, LLMCTL_MEMBER_METHOD, "Generate");
  for (guint i = 0; method != NULL && i < method->in->len; i++)
    {
      const LlmctlArgument *argument = g_ptr_array_index (method->in, i);
      g_autoptr(GPtrArray) keys = llmctl_docs_list_keys (interface, argument);

      for (guint j = 0; j < keys->len; j++)
        {
          const LlmctlKey *key = g_ptr_array_index (keys, j);

          for (gsize k = 0; strcmp (key->key, name) == 0 && key->choices != NULL &&
                            key->choices[k] != NULL; k++)
            {
              g_autofree char *candidate = g_strconcat (before, key->choices[k], NULL);

              llmctl_completion_offer (self, candidate, NULL);
            }
        }
    }
}

static void
offer_key (const char *key,
           const char *help,
           gpointer    data)
{
  g_autofree char *candidate = g_strconcat (key, "=", NULL);

  llmctl_completion_offer (data, candidate, help);
}

/* The options of llmctl mean the same with every command. */
static void
offer_value (LlmctlCompletion   *self,
             const GOptionEntry *option)
{
  const char *equals = strchr (self->word, '=');

  if (strcmp (option->long_name, "context") == 0)
    {
      llmctl_contexts_complete (self);
    }
  else if (strcmp (option->long_name, "option") != 0)
    {
      offer_choices (self, option->long_name, "");
    }
  else if (equals == NULL)
    {
      llmctl_options_visit (offer_key, self);
    }
  else
    {
      g_autofree char *key = g_strndup (self->word, (gsize) (equals - self->word));
      g_autofree char *before = g_strconcat (key, "=", NULL);

      offer_choices (self, key, before);
    }
}

/* --- what comes next --- */

/* The options before the word choose the bus, as they would for the command. */
static void
take_common (const char *word)
{
  if (strcmp (word, "--system-bus") == 0)
    llmctl_globals.bus_type = G_BUS_TYPE_SYSTEM;
  else if (strcmp (word, "--session-bus") == 0)
    llmctl_globals.bus_type = G_BUS_TYPE_SESSION;
}

/* @words: all before the one that is being typed; the first is "llmctl". */
static void
offer (LlmctlCompletion *self,
       char            **words)
{
  const LlmctlCommand *const *commands = llmctl_commands;
  const LlmctlCommand *command = NULL;
  g_autoptr(GPtrArray) arguments = g_ptr_array_new ();
  const GOptionEntry *valued = NULL;   /* the option whose value comes next */
  gboolean has_ended = FALSE;

  for (gsize i = 1; words[i] != NULL; i++)
    {
      const GOptionEntry *option = has_ended ? NULL : llmctl_option_find (command, words[i]);

      if (valued != NULL)
        {
          valued = NULL;
          continue;
        }
      if (!has_ended && strcmp (words[i], "--") == 0)
        {
          has_ended = TRUE;
          continue;
        }
      if (option != NULL)
        {
          if (llmctl_option_awaits_value (command, words[i]))
            valued = option;
          take_common (words[i]);
          continue;
        }
      if (commands == NULL)
        {
          g_ptr_array_add (arguments, words[i]);
          continue;
        }
      command = llmctl_command_find (commands, words[i]);
      if (command == NULL)
        return;
      commands = command->commands;
      g_ptr_array_add (arguments, words[i]);
      if (commands != NULL)
        g_ptr_array_set_size (arguments, 0);
    }

  if (valued != NULL)
    {
      offer_value (self, valued);
      return;
    }
  if (!has_ended && self->word[0] == '-')
    {
      const char *equals = strchr (self->word, '=');
      const GOptionEntry *option = equals != NULL ? llmctl_option_find (command, self->word) : NULL;
      g_autofree char *prefix = NULL;

      if (option != NULL && llmsvc_command_line_takes_value (option))
        {
          prefix = g_strndup (self->word, (gsize) (equals + 1 - self->word));
          self->prefix = prefix;
          self->word = equals + 1;
          offer_value (self, option);
          self->prefix = "";
          return;
        }
      if (command != NULL)
        offer_options (self, command->options);
      offer_options (self, llmctl_common_options);
      return;
    }
  if (commands != NULL)
    {
      offer_commands (self, commands);
      return;
    }

  llmctl_output_flush ();
  g_ptr_array_add (arguments, NULL);
  if (command->complete != NULL)
    command->complete (self, (int) arguments->len - 1, (char **) arguments->pdata);
}

/* A bus or a file that hangs must not hang the shell: what was found so far has been
 * written. */
static void
on_alarm (int number)
{
  _exit (LLMCTL_EXIT_OK);
}

static void
set_limits (void)
{
  double limit_s = llmctl_globals.timeout_s > 0 ? llmctl_globals.timeout_s : DEFAULT_LIMIT_S;
  struct itimerval timer = { 0 };

  timer.it_value.tv_sec = (time_t) limit_s;
  timer.it_value.tv_usec = (suseconds_t) ((limit_s - (double) timer.it_value.tv_sec) * 1e6) + 1;
  if (timer.it_value.tv_usec >= 1000000)
    timer.it_value.tv_usec = 999999;
  signal (SIGALRM, on_alarm);
  setitimer (ITIMER_REAL, &timer, NULL);

  llmctl_globals.timeout_s = limit_s * CALL_SHARE;
  llmctl_globals.must_not_start = TRUE;
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlCompletion self = { .word = argc > 1 ? argv[argc - 1] : "", .prefix = "" };
  g_auto(GStrv) words = NULL;

  for (int i = 0; i < argc; i++)
    if (!g_utf8_validate (argv[i], -1, NULL))
      return LLMCTL_EXIT_OK;

  set_limits ();
  self.offered = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  words = g_strdupv (argv);
  if (argc > 1)
    g_clear_pointer (&words[argc - 1], g_free);
  offer (&self, words);
  g_hash_table_unref (self.offered);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_complete_command = {
  .name = "complete",
  .parameters = N_("-- WORD…"),
  .summary = N_("Print what can come next on a command line"),
  .description = N_("For the completion of shells. The words are those after “llmctl”; the last "
                    "one is being typed and may be empty. Each line is a candidate, a tab, and "
                    "help for it. Never starts the service, and ends after half a second, or "
                    "--timeout."),
  .run = run,
  .is_hidden = TRUE,
};
