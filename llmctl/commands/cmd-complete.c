/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl complete: what could come next on a command line, for the shells. It asks
 * the same table and the same introspection as the commands do, never starts the
 * service, and would rather say nothing than be late or complain.
 */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/llmsvc-command-line.h"
#include "llmctl/bus/llmctl-object.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/llmctl.h"
#include "llmctl/llmctl-options.h"

#define DEFAULT_LIMIT_S 0.5
/* Of the limit, for one call: then there is time left to look elsewhere. */
#define CALL_SHARE 0.4

/* --- values of options --- */

/* What the help of Generate() lists for one of its options: "slo" has three. */
static void
offer_choices (LlmctlCompletion *self,
               const char       *name,
               const char       *before)
{
  const LlmctlMember *method = llmctl_node_lookup (llmctl_docs_get_node (),
                                                   LLMCTL_CONTEXT_INTERFACE, LLMCTL_MEMBER_METHOD,
                                                   "Generate");
  g_autoptr(GPtrArray) keys = method != NULL ? llmctl_docs_list_keys (method, "options") : NULL;
  const LlmctlKey *key = keys != NULL ? llmctl_docs_find_key (keys, name) : NULL;

  if (key != NULL)
    llmctl_completion_offer_all (self, before, (const char *const *) key->choices);
}

static void
offer_keys (LlmctlCompletion *self)
{
  guint n;
  g_autofree GParamSpec **specs = llmctl_options_list (&n);

  for (guint i = 0; i < n; i++)
    {
      g_autofree char *candidate = g_strconcat (specs[i]->name, "=", NULL);

      llmctl_completion_offer (self, candidate, g_param_spec_get_blurb (specs[i]));
    }
}

/* The options of llmctl mean the same with every command. */
static void
offer_value (LlmctlCompletion   *self,
             const GOptionEntry *option)
{
  const char *equals = strchr (self->word, '=');
  g_autofree char *key = equals != NULL ? g_strndup (self->word, (gsize) (equals - self->word))
                                        : NULL;
  g_autofree char *before = g_strconcat (key != NULL ? key : "", "=", NULL);

  if (strcmp (option->long_name, "context") == 0)
    llmctl_service_complete (self, LLMCTL_NAMES_CONTEXTS);
  else if (strcmp (option->long_name, "option") != 0)
    offer_choices (self, option->long_name, "");
  else if (equals == NULL)
    offer_keys (self);
  else
    offer_choices (self, key, before);
}

/* --- what comes next --- */

/* The word is an option, or “--name=” and its value. */
static void
offer_option (LlmctlCompletion    *self,
              const LlmctlCommand *command)
{
  const char *equals = strchr (self->word, '=');
  const GOptionEntry *option = equals != NULL ? llmctl_option_find (command, self->word) : NULL;
  const GOptionEntry *tables[LLMCTL_N_TABLES];
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

  llmctl_option_list (command, tables);
  for (gsize i = 0; tables[i] != NULL; i++)
    for (option = tables[i]; option->long_name != NULL; option++)
      {
        g_autofree char *name = g_strconcat ("--", option->long_name, NULL);

        llmctl_completion_offer (self, name, _(option->description));
      }
}

/* @words: all before the one that is being typed; the first is "llmctl". */
static void
offer (LlmctlCompletion *self,
       char            **words)
{
  const LlmctlCommand *const *commands = llmctl_commands;
  const LlmctlCommand *command = NULL;
  g_autoptr(GPtrArray) arguments = g_ptr_array_new_null_terminated (8, NULL, TRUE);
  const GOptionEntry *valued = NULL;   /* the option whose value comes next */
  gboolean has_ended = FALSE;

  for (gsize i = 1; words[i] != NULL; i++)
    {
      const GOptionEntry *option = has_ended ? NULL : llmctl_option_find (command, words[i]);

      if (valued != NULL)
        {
          valued = NULL;
        }
      else if (!has_ended && strcmp (words[i], "--") == 0)
        {
          has_ended = TRUE;
        }
      else if (option != NULL)
        {
          valued = llmctl_option_awaits_value (command, words[i]) ? option : NULL;
          /* As for the command they choose the bus. */
          if (strcmp (words[i], "--system-bus") == 0)
            llmctl_globals.bus_type = G_BUS_TYPE_SYSTEM;
          else if (strcmp (words[i], "--session-bus") == 0)
            llmctl_globals.bus_type = G_BUS_TYPE_SESSION;
        }
      else
        {
          if (commands != NULL)
            {
              command = llmctl_command_find (commands, words[i]);
              if (command == NULL)
                return;
              commands = command->commands;
            }
          if (commands == NULL)
            g_ptr_array_add (arguments, words[i]);
        }
    }

  if (valued != NULL)
    offer_value (self, valued);
  else if (!has_ended && self->word[0] == '-')
    offer_option (self, command);
  else if (commands != NULL)
    llmctl_commands_offer (self, commands);
  else if (command->complete != NULL)
    command->complete (self, (int) arguments->len, (char **) arguments->pdata);
  else if (command->names >= LLMCTL_NAMES_OBJECTS)
    llmctl_object_complete (self, command->names, (int) arguments->len, (char **) arguments->pdata);
  else if ((int) arguments->len <= command->n_names)
    llmctl_service_complete (self, command->names);
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
  double whole_s = floor (limit_s);
  const struct itimerval timer = {
    .it_value = { (time_t) whole_s, MIN ((suseconds_t) ((limit_s - whole_s) * 1e6) + 1, 999999) },
  };

  signal (SIGALRM, on_alarm);
  setitimer (ITIMER_REAL, &timer, NULL);

  llmctl_globals.timeout_s = limit_s * CALL_SHARE;
}

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
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
  .must_not_start = TRUE,
  .run = run,
  .is_hidden = TRUE,
};
