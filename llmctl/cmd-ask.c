/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * llmctl ask: a context, one Generate, and its lines to stdout as they come.
 * Everything waits in one main loop, so that Ctrl-C and the time limit work in
 * every step; leaving the bus ends the answer and an unnamed context.
 */

#define G_LOG_DOMAIN "llmctl"

#include "llmctl/llmctl.h"

#include <errno.h>
#include <gio/gunixfdlist.h>
#include <glib-unix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-line.h"
#include "common/llmsvc-names.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/llmctl-term.h"

/* The service's own limit is lower or the administrator's choice. */
#define MAX_STDIN_BYTES (16 * 1024 * 1024)

typedef struct
{
  /* what was asked for */
  LlmctlBus which_bus;
  char *context_name;   /* (nullable) (owned) */
  char *system;         /* (nullable) (owned) */
  char *prompt;         /* (owned) */
  gboolean is_raw;
  gboolean is_json;
  GVariant *options;    /* (owned): a{sv} */

  /* under way */
  GDBusConnection *bus; /* (nullable) (owned) */
  GMainLoop *loop;      /* (owned) */
  GCancellable *cancellable; /* (owned) */
  LlmsvcLineReader *reader;  /* (owned) */
  int fd;               /* reading end of the answer, or -1 */
  guint fd_source;
  gboolean is_at_line_start; /* the last byte written was a newline */

  LlmctlExit status;
} Ask;

static void
ask_clear (Ask *self)
{
  g_clear_handle_id (&self->fd_source, g_source_remove);
  if (self->fd >= 0)
    close (self->fd);
  g_free (self->context_name);
  g_free (self->system);
  g_free (self->prompt);
  g_clear_pointer (&self->options, g_variant_unref);
  g_clear_object (&self->bus);
  g_clear_pointer (&self->loop, g_main_loop_unref);
  g_clear_object (&self->cancellable);
  g_clear_pointer (&self->reader, llmsvc_line_reader_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Ask, ask_clear)

/* The first reason to stop is the one that counts. */
static void
stop (Ask        *self,
      LlmctlExit  status)
{
  if (!g_main_loop_is_running (self->loop))
    return;

  self->status = status;
  g_clear_handle_id (&self->fd_source, g_source_remove);
  if (self->fd >= 0)
    close (self->fd);
  self->fd = -1;
  g_cancellable_cancel (self->cancellable);
  g_main_loop_quit (self->loop);
}

/* What is said on a terminal after half an answer begins on a line of its own. */
static void
end_line (Ask *self)
{
  g_autoptr(GError) error = NULL;

  if (self->is_json || self->is_at_line_start)
    return;

  self->is_at_line_start = TRUE;
  if (!llmctl_term_write ("\n", &error))
    g_debug ("%s", error->message);
}

static void
stop_with_error (Ask    *self,
                 GError *error)
{
  if (!g_main_loop_is_running (self->loop) ||
      g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;

  end_line (self);
  stop (self, llmctl_fail (error));
}

static gboolean
write_text (Ask        *self,
            const char *text)
{
  g_autoptr(GError) error = NULL;
  gsize length = strlen (text);

  if (length == 0)
    return TRUE;
  if (!llmctl_term_write (text, &error))
    {
      self->is_at_line_start = TRUE;
      stop_with_error (self, error);
      return FALSE;
    }

  self->is_at_line_start = text[length - 1] == '\n';
  return TRUE;
}

static gboolean
write_line (Ask        *self,
            const char *text,
            GVariant   *results)
{
  g_autoptr(GString) line = g_string_new (NULL);

  if (text != NULL)
    llmsvc_line_write_text (line, text, strlen (text));
  else
    llmsvc_line_write_done (line, results);

  return write_text (self, line->str);
}

static void
show_results (Ask      *self,
              GVariant *results)
{
  g_autofree const char **ignored = NULL;

  end_line (self);
  if (g_variant_lookup (results, "ignored", "^a&s", &ignored))
    for (gsize i = 0; ignored[i] != NULL; i++)
      llmctl_complain ("the service does not know the option “%s” here and went on without it",
                       ignored[i]);
}

/* What a line carries goes out; FALSE when the answer is over. */
static gboolean
take_line (Ask              *self,
           const LlmsvcLine *line)
{
  g_autoptr(GError) error = NULL;

  switch (line->kind)
    {
    case LLMSVC_LINE_TEXT:
      return self->is_json ? write_line (self, line->text, NULL) : write_text (self, line->text);
    case LLMSVC_LINE_DONE:
      if (self->is_json && !write_line (self, NULL, line->results))
        return FALSE;
      show_results (self, line->results);
      stop (self, LLMCTL_EXIT_OK);
      return FALSE;
    case LLMSVC_LINE_ERROR:
      error = g_dbus_error_new_for_dbus_error (line->name, line->text);
      stop_with_error (self, error);
      return FALSE;
    case LLMSVC_LINE_OTHER:
    default:
      return TRUE;
    }
}

static gboolean
on_readable (int           fd,
             GIOCondition  condition,
             gpointer      data)
{
  Ask *self = data;
  g_autoptr(GError) error = NULL;
  char buffer[16384];
  LlmsvcLine line;
  gssize n;

  n = read (fd, buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN))
    return G_SOURCE_CONTINUE;
  if (n <= 0)
    {
      self->fd_source = 0;
      end_line (self);
      llmctl_complain ("the answer broke off: the service has failed or was stopped; "
                       "what is above is not whole. Try again");
      stop (self, LLMCTL_EXIT_FAILED);
      return G_SOURCE_REMOVE;
    }

  if (llmsvc_line_reader_push (self->reader, buffer, (gsize) n, &error))
    while (llmsvc_line_reader_next (self->reader, &line, &error))
      {
        gboolean goes_on = take_line (self, &line);

        llmsvc_line_clear (&line);
        if (!goes_on)
          return G_SOURCE_CONTINUE;
      }

  if (error != NULL)
    stop_with_error (self, error);
  return G_SOURCE_CONTINUE;
}

static void
call (Ask                 *self,
      const char          *path,
      const char          *interface,
      const char          *method,
      GVariant            *parameters,
      const char          *reply_type,
      GAsyncReadyCallback  callback)
{
  g_dbus_connection_call_with_unix_fd_list (self->bus, LLMSVC_BUS_NAME, path, interface, method,
                                            parameters, G_VARIANT_TYPE (reply_type),
                                            G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL,
                                            self->cancellable, callback, self);
}

static GVariant *
finish_call (Ask           *self,
             GAsyncResult  *result,
             GUnixFDList  **fds,
             GError       **error)
{
  return g_dbus_connection_call_with_unix_fd_list_finish (self->bus, fds, result, error);
}

static void
on_completed (GObject      *source,
              GAsyncResult *result,
              gpointer      data)
{
  Ask *self = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = finish_call (self, result, NULL, &error);
  g_autoptr(GVariant) results = NULL;
  const char *text;

  if (reply == NULL)
    {
      stop_with_error (self, error);
      return;
    }

  g_variant_get (reply, "(&s@a{sv})", &text, &results);
  if (self->is_json ? !write_line (self, text, NULL) || !write_line (self, NULL, results)
                    : !write_text (self, text))
    return;
  show_results (self, results);
  stop (self, LLMCTL_EXIT_OK);
}

static void
on_generating (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  Ask *self = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GVariant) reply = finish_call (self, result, &fds, &error);
  gint32 index;

  if (reply == NULL)
    {
      stop_with_error (self, error);
      return;
    }

  g_variant_get (reply, "(&oh)", NULL, &index);
  self->fd = fds != NULL ? g_unix_fd_list_get (fds, index, &error) : -1;
  if (self->fd < 0 || !g_unix_set_fd_nonblocking (self->fd, TRUE, &error))
    {
      if (error == NULL)
        g_set_error_literal (&error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                             "The service has sent no pipe for the answer");
      stop_with_error (self, error);
      return;
    }

  self->fd_source = g_unix_fd_add (self->fd, G_IO_IN | G_IO_HUP | G_IO_ERR, on_readable, self);
}

static void
generate (Ask        *self,
          const char *context)
{
  GVariantBuilder messages;

  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", self->prompt, NULL);
  call (self, context, LLMSVC_CONTEXT_INTERFACE, "Generate",
        g_variant_new ("(a(ssa{sv})@a{sv})", &messages, self->options), "(oh)", on_generating);
}

static void
on_context_made (GObject      *source,
                 GAsyncResult *result,
                 gpointer      data)
{
  Ask *self = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = finish_call (self, result, NULL, &error);
  const char *path;

  if (reply == NULL)
    {
      stop_with_error (self, error);
      return;
    }

  g_variant_get (reply, "(&o)", &path);
  generate (self, path);
}

static void
create_context (Ask *self)
{
  GVariantBuilder options;

  g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
  if (self->context_name != NULL)
    g_variant_builder_add (&options, "{sv}", "name", g_variant_new_string (self->context_name));
  if (self->system != NULL)
    g_variant_builder_add (&options, "{sv}", "system", g_variant_new_string (self->system));
  call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext", g_variant_new ("(a{sv})", &options),
        "(o)", on_context_made);
}

static void
on_context_opened (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  Ask *self = data;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = finish_call (self, result, NULL, &error);
  const char *path;

  if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND))
    {
      create_context (self);
      return;
    }
  if (reply == NULL)
    {
      stop_with_error (self, error);
      return;
    }
  if (self->system != NULL)
    {
      llmctl_complain ("the context “%s” is there already with its own system text; "
                       "leave --system out or take another name", self->context_name);
      stop (self, LLMCTL_EXIT_USAGE);
      return;
    }

  g_variant_get (reply, "(&o)", &path);
  generate (self, path);
}

/* In the loop, so that stop() works from here on. */
static gboolean
on_started (gpointer data)
{
  Ask *self = data;
  g_autoptr(GError) error = NULL;
  LlmctlBus found;

  self->bus = llmctl_bus_connect (self->which_bus, &found, NULL, &error);
  if (self->bus == NULL)
    stop_with_error (self, error);
  else if (self->is_raw)
    call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
          g_variant_new ("(s@a{sv})", self->prompt, self->options), "(sa{sv})", on_completed);
  else if (self->context_name != NULL)
    call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "OpenContext",
          g_variant_new ("(sa{sv})", self->context_name, NULL), "(o)", on_context_opened);
  else
    create_context (self);

  return G_SOURCE_REMOVE;
}

static gboolean
on_interrupted (gpointer data)
{
  Ask *self = data;

  end_line (self);
  stop (self, LLMCTL_EXIT_INTERRUPTED);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_time_up (gpointer data)
{
  Ask *self = data;

  end_line (self);
  llmctl_complain ("the time limit has passed before the answer was whole");
  stop (self, LLMCTL_EXIT_TIME_LIMIT);
  return G_SOURCE_CONTINUE;
}

static LlmctlExit
run (Ask    *self,
     double  timeout_s)
{
  guint interrupt_source = g_unix_signal_add (SIGINT, on_interrupted, self);
  guint term_source = g_unix_signal_add (SIGTERM, on_interrupted, self);
  guint timeout_source =
      timeout_s > 0 ? g_timeout_add ((guint) (timeout_s * 1000), on_time_up, self) : 0;

  self->loop = g_main_loop_new (NULL, FALSE);
  self->cancellable = g_cancellable_new ();
  self->reader = llmsvc_line_reader_new ();
  g_idle_add (on_started, self);
  g_main_loop_run (self->loop);

  /* Calls that were cancelled still report to self. */
  while (g_main_context_iteration (NULL, FALSE))
    continue;

  g_source_remove (interrupt_source);
  g_source_remove (term_source);
  g_clear_handle_id (&timeout_source, g_source_remove);
  return self->status;
}

/* (transfer full): the prompt with what comes through a pipe or file before it. */
static char *
read_prompt (const char  *argument,
             GError     **error)
{
  g_autofree char *input = NULL;

  if (!g_utf8_validate (argument, -1, NULL))
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                           "The prompt is not valid UTF-8 text");
      return NULL;
    }

  if (strcmp (argument, "-") == 0)
    {
      input = llmctl_term_read (MAX_STDIN_BYTES, error);
      if (input != NULL && *input == '\0')
        {
          g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                               "The standard input is empty: there is no prompt");
          return NULL;
        }
      return g_steal_pointer (&input);
    }
  if (isatty (STDIN_FILENO))
    return g_strdup (argument);

  input = llmctl_term_read (MAX_STDIN_BYTES, error);
  if (input == NULL)
    return NULL;

  return *input == '\0' ? g_strdup (argument) : g_strconcat (input, "\n\n", argument, NULL);
}

static GVariant *
collect_options (char       **assignments,
                 const char  *max_tokens,
                 const char  *temperature,
                 const char  *seed,
                 gboolean     is_raw,
                 GError     **error)
{
  const char *const pairs[][2] = {
    { "max-tokens", max_tokens }, { "temperature", temperature }, { "seed", seed }
  };
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);
  g_autoptr(GVariant) options = NULL;

  for (gsize i = 0; i < G_N_ELEMENTS (pairs); i++)
    {
      g_autofree char *assignment = g_strconcat (pairs[i][0], "=", pairs[i][1], NULL);

      if (pairs[i][1] != NULL && !llmctl_options_add (&dict, assignment, error))
        return NULL;
    }
  for (gsize i = 0; assignments != NULL && assignments[i] != NULL; i++)
    if (!llmctl_options_add (&dict, assignments[i], error))
      return NULL;
  if (is_raw)
    g_variant_dict_insert (&dict, "raw", "b", TRUE);
  else
    g_variant_dict_insert (&dict, "stream", "s", "jsonl");

  options = g_variant_ref_sink (g_variant_dict_end (&dict));
  if (!llmctl_options_check (options, is_raw ? LLMSVC_CALL_COMPLETE : LLMSVC_CALL_GENERATE, error))
    return NULL;

  return g_steal_pointer (&options);
}

LlmctlExit
llmctl_cmd_ask (int   argc,
                char *argv[])
{
  g_auto(Ask) self = { .fd = -1, .is_at_line_start = TRUE };
  gboolean is_system_bus = FALSE;
  gboolean is_session_bus = FALSE;
  double timeout_s = 0;
  g_autofree char *max_tokens = NULL;
  g_autofree char *temperature = NULL;
  g_autofree char *seed = NULL;
  g_auto(GStrv) assignments = NULL;
  const GOptionEntry entries[] = {
    { "system-bus", 0, 0, G_OPTION_ARG_NONE, &is_system_bus,
      "Ask the service on the system bus only", NULL },
    { "session-bus", 0, 0, G_OPTION_ARG_NONE, &is_session_bus,
      "Ask the service on the session bus only", NULL },
    { "context", 'c', 0, G_OPTION_ARG_STRING, &self.context_name,
      "Go on in the context of this name; it is made when it is not there", "NAME" },
    { "system", 's', 0, G_OPTION_ARG_STRING, &self.system, "The system text of a new context",
      "TEXT" },
    { "max-tokens", 'n', 0, G_OPTION_ARG_STRING, &max_tokens, "The longest answer", "N" },
    { "temperature", 't', 0, G_OPTION_ARG_STRING, &temperature,
      "How freely words are chosen; 0 for always the most probable", "X" },
    { "seed", 0, 0, G_OPTION_ARG_STRING, &seed, "Same seed, same text", "N" },
    { "option", 'o', 0, G_OPTION_ARG_STRING_ARRAY, &assignments,
      "Any other option of the call; may be given several times", "KEY=VALUE" },
    { "raw", 0, 0, G_OPTION_ARG_NONE, &self.is_raw,
      "Take the prompt as it is, without the model's template; not streamed", NULL },
    { "timeout", 0, 0, G_OPTION_ARG_DOUBLE, &timeout_s, "Give up after so many seconds", "S" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &self.is_json, "Print the answer as lines of JSON", NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_auto(GStrv) rest = NULL;
  LlmctlExit status;

  if (!llmctl_parse (&argc, &argv, "PROMPT|-",
                     "Asks the language model and prints its answer as it comes. With “-” "
                     "the prompt is read\nfrom the standard input; otherwise what comes there "
                     "is put before the prompt.",
                     entries, &status))
    return status;

  rest = argv;
  if (argc != 2)
    {
      llmctl_complain (argc < 2 ? "there is no prompt; see “llmctl ask --help”"
                                : "there is more than one prompt: put it into quotes");
      return LLMCTL_EXIT_USAGE;
    }
  if (is_system_bus && is_session_bus)
    {
      llmctl_complain ("--system-bus and --session-bus exclude each other");
      return LLMCTL_EXIT_USAGE;
    }
  if (self.is_raw && (self.context_name != NULL || self.system != NULL))
    {
      llmctl_complain ("--raw takes the prompt as it is: leave --context and --system out");
      return LLMCTL_EXIT_USAGE;
    }
  if (!(timeout_s >= 0 && timeout_s <= 4000000))
    {
      llmctl_complain ("--timeout takes seconds from 0 (none) to 4000000");
      return LLMCTL_EXIT_USAGE;
    }
  if ((self.system != NULL && !g_utf8_validate (self.system, -1, NULL)) ||
      (self.context_name != NULL && !g_utf8_validate (self.context_name, -1, NULL)))
    {
      llmctl_complain ("--context and --system take UTF-8 text");
      return LLMCTL_EXIT_USAGE;
    }

  self.which_bus = is_system_bus    ? LLMCTL_BUS_SYSTEM
                   : is_session_bus ? LLMCTL_BUS_SESSION
                                    : LLMCTL_BUS_ANY;
  self.options =
      collect_options (assignments, max_tokens, temperature, seed, self.is_raw, &error);
  if (self.options == NULL)
    return llmctl_fail (error);
  self.prompt = read_prompt (argv[1], &error);
  if (self.prompt == NULL)
    return llmctl_fail (error);

  return run (&self, timeout_s);
}
