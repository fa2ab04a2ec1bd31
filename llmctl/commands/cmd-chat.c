/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl chat: a conversation on a terminal, or through a pipe with a line a turn. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <gio/gunixinputstream.h>
#include <glib/gi18n.h>
#include <string.h>
#include <unistd.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/chat/llmctl-call-options.h"
#include "llmctl/chat/llmctl-chat-line.h"
#include "llmctl/chat/llmctl-chat.h"
#include "llmctl/output/llmctl-progress.h"

#define BLOCK "\"\"\""
#define MAX_LINE_BYTES (16 * 1024 * 1024)

static char *context_name;
static char *system_text;
static gboolean hides_progress;

/* Texts are of type FILENAME: GLib would have strings in the locale's charset. */
static const GOptionEntry options[] = {
  { "context", 'c', 0, G_OPTION_ARG_FILENAME, &context_name,
    N_("Go on in the context of this name; it is made when it is not there"), N_("NAME") },
  { "system", 's', 0, G_OPTION_ARG_FILENAME, &system_text,
    N_("The system text of a new conversation"), N_("TEXT") },
  { "no-progress", 0, 0, G_OPTION_ARG_NONE, &hides_progress,
    N_("Draw no line of progress on the terminal"), NULL },
  G_OPTION_ENTRY_NULL
};

/* --- from lines to what is meant by them --- */

static LlmctlChatLine
read_pipe (LlmctlChat  *self,
           char       **line)
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;
  gsize length = 0;

  llmctl_wait_begin (FALSE);
  g_data_input_stream_read_line_async (self->input, G_PRIORITY_DEFAULT,
                                       llmctl_wait_get_cancellable (), llmctl_wait_take, &result);
  *line = g_data_input_stream_read_line_finish (self->input, llmctl_wait (&result), &length,
                                                &error);
  if (llmctl_wait_get_end () != LLMCTL_EXIT_OK)
    return LLMCTL_CHAT_LINE_INTERRUPTED;
  if (error != NULL)
    llmctl_complain (_("The standard input can't be read: %s"), error->message);
  else if (length > MAX_LINE_BYTES)
    llmctl_complain (_("A line of the standard input has more than %d bytes"), MAX_LINE_BYTES);
  if (error != NULL || length > MAX_LINE_BYTES)
    self->status = LLMCTL_EXIT_FAILED;
  if (*line == NULL || length > MAX_LINE_BYTES)
    return LLMCTL_CHAT_LINE_END;

  /* A NUL byte would cut it short without a word: that is no text either. */
  if (!g_utf8_validate_len (*line, length, NULL))
    {
      g_free (*line);
      *line = g_strdup ("\377");
    }
  return LLMCTL_CHAT_LINE_READ;
}

static LlmctlChatLine
read_line (LlmctlChat  *self,
           gboolean     is_first,
           char       **line)
{
  g_autofree char *name = llmctl_output_make_harmless (self->name != NULL ? self->name : "");
  g_autofree char *prompt = NULL;

  if (!self->is_interactive)
    return read_pipe (self, line);

  /* Only ASCII has the same width in every locale. */
  prompt = g_strconcat (g_str_is_ascii (name) && strlen (name) < 32 ? name : "", "> ", NULL);
  return llmctl_chat_line_read (is_first ? prompt : "| ", line);
}

/* Whether it ends with one backslash, which is then taken off; two are one that is meant. */
static gboolean
takes_more (char *line)
{
  gsize length = strlen (line);

  if (length == 0 || line[length - 1] != '\\')
    return FALSE;

  line[length - 1] = '\0';
  return length < 2 || line[length - 2] != '\\';
}

/* What was typed, over several lines or not. @is_block: (out): it was between two marks. FALSE at
 * the end. */
static gboolean
read_entry (LlmctlChat *self,
            GString    *entry,
            gboolean   *is_block)
{
  gboolean is_first = TRUE;

  *is_block = self->wants_block;
  self->wants_block = FALSE;
  for (;;)
    {
      g_autofree char *line = NULL;
      g_autofree char *stripped = NULL;
      LlmctlChatLine kind = read_line (self, is_first && !*is_block, &line);
      gboolean has_more;

      if (kind == LLMCTL_CHAT_LINE_END)
        return !is_first && entry->len > 0;
      if (kind == LLMCTL_CHAT_LINE_INTERRUPTED && !self->is_interactive)
        {
          self->status = LLMCTL_EXIT_INTERRUPTED;
          return FALSE;
        }
      if (kind == LLMCTL_CHAT_LINE_INTERRUPTED)
        {
          g_string_truncate (entry, 0);
          is_first = TRUE;
          *is_block = FALSE;
          continue;
        }

      stripped = g_strstrip (g_strdup (line));
      if (g_str_equal (stripped, BLOCK) && (*is_block || is_first))
        {
          if (*is_block)
            return TRUE;
          *is_block = TRUE;
          continue;
        }
      has_more = !*is_block && takes_more (line);
      if (!is_first)
        g_string_append_c (entry, '\n');
      g_string_append (entry, line);
      is_first = FALSE;
      if (!*is_block && !has_more)
        return TRUE;
    }
}

/* One entry, and what it is for. FALSE at the end. */
static gboolean
take_entry (LlmctlChat *self)
{
  g_autoptr(GString) text = g_string_new (NULL);
  gboolean is_block = FALSE;

  if (self->is_over || !read_entry (self, text, &is_block))
    return FALSE;
  if (!g_utf8_validate (text->str, -1, NULL))
    {
      llmctl_complain (_("What was typed is not valid UTF-8 text"));
      self->status = LLMCTL_EXIT_USAGE;
      return TRUE;
    }

  if (self->is_interactive && text->len > 0 && *text->str != ' ')
    llmctl_chat_line_remember (text->str);
  if (strspn (text->str, " \t\n") == text->len)
    return TRUE;
  /* With --json every line is a turn, so that any text can be sent. */
  if (is_block || llmctl_globals.is_json || *text->str != '/')
    llmctl_chat_ask (self, text->str);
  else if (text->str[1] == '/')
    llmctl_chat_ask (self, text->str + 1);
  else
    llmctl_chat_run_command (self, text->str);
  return TRUE;
}

/* --- the command --- */

static void
on_prewarmed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GError) error = NULL;

  /* The first question says what is wrong, if it still is. */
  if (!llmsvc_client_prewarm_finish (LLMSVC_CLIENT (source), result, &error))
    g_debug ("The model is not loaded ahead: %s", error->message);
}

static void
begin_terminal (LlmctlChat *self)
{
  LlmsvcModel *model = llmsvc_client_get_active_model (self->client);

  llmctl_chat_line_begin (llmctl_chat_complete, self);
  if (model != NULL)
    llmctl_chat_note (self, _("%s answers. /help lists the commands, Ctrl-D ends."),
                      llmsvc_model_get_title (model));
  else
    llmctl_chat_note (self, _("/help lists the commands, Ctrl-D ends."));
  llmsvc_client_prewarm_async (self->client, NULL, NULL, on_prewarmed, NULL);
}

static LlmctlExit
run (int       argc,
     char    **argv,
     GError  **error)
{
  g_auto(LlmctlChat) self = { NULL };
  g_autoptr(GInputStream) input = g_unix_input_stream_new (STDIN_FILENO, FALSE);

  if ((system_text != NULL && !g_utf8_validate (system_text, -1, NULL)) ||
      (context_name != NULL && !g_utf8_validate (context_name, -1, NULL)))
    return llmctl_complain_usage (_("--context and --system take UTF-8 text"));

  self.options = llmctl_call_options_collect (error);
  if (self.options == NULL)
    return LLMCTL_EXIT_FAILED;
  self.made = llmctl_call_options_split (self.options);
  self.system = g_strdup (system_text);
  self.said = g_ptr_array_new_with_free_func ((GDestroyNotify) g_variant_unref);
  self.is_interactive =
      isatty (STDIN_FILENO) && isatty (STDOUT_FILENO) && !llmctl_globals.is_json;
  self.input = g_data_input_stream_new (input);
  self.client = llmctl_wait_client (error);
  llmctl_progress_begin (!hides_progress && self.is_interactive);
  if (self.client == NULL || !llmctl_chat_open (&self, context_name, error))
    return LLMCTL_EXIT_FAILED;
  if (self.is_interactive)
    begin_terminal (&self);
  while (take_entry (&self))
    ;

  if (llmctl_wait_is_terminated ())
    return LLMCTL_EXIT_INTERRUPTED;
  /* Who sat there has seen what went wrong. */
  return self.is_interactive ? LLMCTL_EXIT_OK : self.status;
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
  .more_options = llmctl_call_options,
  .run = run,
};
