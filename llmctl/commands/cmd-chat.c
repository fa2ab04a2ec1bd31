/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl chat: a conversation on a terminal, or through a pipe with a line a turn. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>
#include <unistd.h>

#include "llmctl/chat/llmctl-chat-history.h"
#include "llmctl/chat/llmctl-chat-line.h"
#include "llmctl/chat/llmctl-chat.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

static char *context_name;
static char *system_text;
static char **assignments;

/* Texts are of type FILENAME: GLib would have strings in the locale's charset. */
static const GOptionEntry options[] = {
  { "context", 'c', 0, G_OPTION_ARG_FILENAME, &context_name,
    N_("Go on in the context of this name; it is made when it is not there"), N_("NAME") },
  { "system", 's', 0, G_OPTION_ARG_FILENAME, &system_text,
    N_("The system text of a new conversation"), N_("TEXT") },
  { "option", 'o', 0, G_OPTION_ARG_FILENAME_ARRAY, &assignments,
    N_("An option of every turn; may be given several times"), N_("KEY=VALUE") },
  G_OPTION_ENTRY_NULL
};

static void
chat_clear (LlmctlChat *self)
{
  g_clear_object (&self->context);
  g_clear_object (&self->client);
  g_clear_object (&self->options);
  g_clear_pointer (&self->name, g_free);
  g_clear_pointer (&self->system, g_free);
  g_clear_pointer (&self->said, g_ptr_array_unref);
  g_clear_pointer (&self->last_prompt, g_free);
  g_clear_pointer (&self->last_request_id, g_free);
  g_clear_object (&self->last_options);
  g_clear_pointer (&self->context_names, g_ptr_array_unref);
  g_clear_pointer (&self->history_path, g_free);
  if (self->pending != NULL)
    g_string_free (g_steal_pointer (&self->pending), TRUE);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlChat, chat_clear)

void
llmctl_chat_note (LlmctlChat *self,
                  const char *format,
                  ...)
{
  g_autofree char *text = NULL;
  va_list arguments;

  if (!self->is_interactive)
    return;

  va_start (arguments, format);
  text = g_strdup_vprintf (format, arguments);
  va_end (arguments);
  llmctl_output_text (LLMCTL_STYLE_DIM, text);
  llmctl_output_text (LLMCTL_STYLE_PLAIN, "\n");
}

void
llmctl_chat_fail (LlmctlChat *self,
                  GError     *error)
{
  self->status = llmctl_wait_fail (error);
}

/* The model is loaded while the first question is typed; a failure is the question's. */
static void
on_prewarmed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GError) error = NULL;

  if (!llmsvc_client_prewarm_finish (LLMSVC_CLIENT (source), result, &error))
    g_debug ("The model is not loaded ahead: %s", error->message);
}

static void
begin_terminal (LlmctlChat *self)
{
  LlmsvcModel *model = llmsvc_client_get_active_model (self->client);
  g_autoptr(GPtrArray) entries = NULL;

  self->history_path = llmctl_chat_history_get_path ();
  entries = llmctl_chat_history_read (self->history_path);
  llmctl_chat_line_begin (llmctl_chat_complete, self);
  for (guint i = 0; i < entries->len; i++)
    llmctl_chat_line_add_history (g_ptr_array_index (entries, i));

  if (model != NULL)
    llmctl_chat_note (self, _("%s answers. /help lists the commands, Ctrl-D ends."),
                      llmsvc_model_get_title (model));
  else
    llmctl_chat_note (self, _("/help lists the commands, Ctrl-D ends."));
  llmsvc_client_prewarm_async (self->client, NULL, NULL, on_prewarmed, NULL);
  llmctl_chat_read_names (self);
}

static LlmctlExit
chat (LlmctlChat *self)
{
  g_autoptr(GError) error = NULL;
  gboolean is_command = FALSE;
  char *next = NULL;

  self->client = llmctl_wait_client (&error);
  if (self->client == NULL || !llmctl_chat_open (self, context_name, &error))
    return llmctl_wait_fail (error);

  if (self->is_interactive)
    begin_terminal (self);
  while (llmctl_chat_next (self, &next, &is_command))
    {
      g_autofree char *entry = g_steal_pointer (&next);

      if (is_command)
        llmctl_chat_run_command (self, entry);
      else
        llmctl_chat_ask (self, entry);
    }

  if (llmctl_wait_is_terminated ())
    return LLMCTL_EXIT_INTERRUPTED;
  /* Who sat there has seen what went wrong. */
  return self->is_interactive ? LLMCTL_EXIT_OK : self->status;
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_auto(LlmctlChat) self = { NULL };
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  if ((system_text != NULL && !g_utf8_validate (system_text, -1, NULL)) ||
      (context_name != NULL && !g_utf8_validate (context_name, -1, NULL)))
    return llmctl_complain_usage (_("--context and --system take UTF-8 text"));

  self.options = llmsvc_options_new ();
  if (!llmctl_options_add_all (self.options, assignments, &error))
    return llmctl_fail (error);
  self.system = g_strdup (system_text);
  self.said = g_ptr_array_new_with_free_func (g_object_unref);
  self.context_names = g_ptr_array_new_with_free_func (g_free);
  self.is_interactive =
      isatty (STDIN_FILENO) && isatty (STDOUT_FILENO) && !llmctl_globals.is_json;

  return chat (&self);
}

const LlmctlCommand llmctl_chat_command = {
  .name = "chat",
  .summary = N_("Talk with the model"),
  .description = N_("Ctrl-C stops an answer and Ctrl-D ends; /help inside lists the commands. "
                    "What is typed is kept for the arrow keys in the state folder of llmsvc, but "
                    "for lines that begin with a space.\n"
                    "From a pipe each line is a turn, and the exit status is that of the last "
                    "failure. --timeout is for each turn.\n"
                    "--json: for each turn lines {\"t\":\"…\"}, then {\"done\":{…}} or "
                    "{\"error\":{\"name\",\"message\"}}; every line of the input is a turn, also "
                    "one with “/”."),
  .options = options,
  .run = run,
};
