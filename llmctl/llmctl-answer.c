/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Everything waits in one main loop, so that Ctrl-C and the time limit work in
 * every step; leaving the bus ends the answer and an unnamed context.
 */

#define G_LOG_DOMAIN "llmctl"

#include "llmctl/llmctl-answer.h"

#include <errno.h>
#include <gio/gunixfdlist.h>
#include <glib-unix.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-line.h"
#include "common/llmsvc-names.h"
#include "llmctl/llmctl-term.h"

typedef struct
{
  const LlmctlQuestion *question; /* (unowned) */

  GDBusConnection *bus;      /* (nullable) (owned) */
  GMainLoop *loop;           /* (owned) */
  GCancellable *cancellable; /* (owned) */
  LlmsvcLineReader *reader;  /* (owned) */
  int fd;                    /* reading end of the answer, or -1 */
  guint fd_source;
  gboolean is_at_line_start; /* the last byte written was a newline */
  LlmctlExit status;
} Answer;

static void
answer_clear (Answer *self)
{
  g_clear_handle_id (&self->fd_source, g_source_remove);
  if (self->fd >= 0)
    close (self->fd);
  g_clear_object (&self->bus);
  g_clear_pointer (&self->loop, g_main_loop_unref);
  g_clear_object (&self->cancellable);
  g_clear_pointer (&self->reader, llmsvc_line_reader_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Answer, answer_clear)

/* The first reason to stop is the one that counts. */
static void
stop (Answer     *self,
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
end_line (Answer *self)
{
  g_autoptr(GError) error = NULL;

  if (self->question->is_json || self->is_at_line_start)
    return;

  self->is_at_line_start = TRUE;
  if (!llmctl_term_write ("\n", &error))
    g_debug ("%s", error->message);
}

static void
stop_with_error (Answer *self,
                 GError *error)
{
  if (!g_main_loop_is_running (self->loop) ||
      g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;

  end_line (self);
  stop (self, llmctl_fail (error));
}

static gboolean
write_text (Answer     *self,
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
write_line (Answer     *self,
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
show_results (Answer   *self,
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
take_line (Answer           *self,
           const LlmsvcLine *line)
{
  g_autoptr(GError) error = NULL;

  switch (line->kind)
    {
    case LLMSVC_LINE_TEXT:
      return self->question->is_json ? write_line (self, line->text, NULL)
                                     : write_text (self, line->text);
    case LLMSVC_LINE_DONE:
      if (self->question->is_json && !write_line (self, NULL, line->results))
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
on_readable (int          fd,
             GIOCondition condition,
             gpointer     data)
{
  Answer *self = data;
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
call (Answer              *self,
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
finish_call (Answer        *self,
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
  Answer *self = data;
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
  if (self->question->is_json ? !write_line (self, text, NULL) || !write_line (self, NULL, results)
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
  Answer *self = data;
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
generate (Answer     *self,
          const char *context)
{
  GVariantBuilder messages;

  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", self->question->prompt, NULL);
  call (self, context, LLMSVC_CONTEXT_INTERFACE, "Generate",
        g_variant_new ("(a(ssa{sv})@a{sv})", &messages, self->question->options), "(oh)",
        on_generating);
}

static void
on_context_made (GObject      *source,
                 GAsyncResult *result,
                 gpointer      data)
{
  Answer *self = data;
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
create_context (Answer *self)
{
  GVariantBuilder options;

  g_variant_builder_init (&options, G_VARIANT_TYPE_VARDICT);
  if (self->question->context_name != NULL)
    g_variant_builder_add (&options, "{sv}", "name",
                           g_variant_new_string (self->question->context_name));
  if (self->question->system != NULL)
    g_variant_builder_add (&options, "{sv}", "system",
                           g_variant_new_string (self->question->system));
  call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "CreateContext", g_variant_new ("(a{sv})", &options),
        "(o)", on_context_made);
}

static void
on_context_opened (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  Answer *self = data;
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
  if (self->question->system != NULL)
    {
      llmctl_complain ("the context “%s” is there already with its own system text; "
                       "leave --system out or take another name", self->question->context_name);
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
  Answer *self = data;
  g_autoptr(GError) error = NULL;
  LlmctlBus found;

  self->bus = llmctl_bus_connect (self->question->which_bus, &found, NULL, &error);
  if (self->bus == NULL)
    stop_with_error (self, error);
  else if (self->question->is_raw)
    call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "Complete",
          g_variant_new ("(s@a{sv})", self->question->prompt, self->question->options),
          "(sa{sv})", on_completed);
  else if (self->question->context_name != NULL)
    call (self, LLMSVC_PATH, LLMSVC_INTERFACE, "OpenContext",
          g_variant_new ("(sa{sv})", self->question->context_name, NULL), "(o)", on_context_opened);
  else
    create_context (self);

  return G_SOURCE_REMOVE;
}

static gboolean
on_interrupted (gpointer data)
{
  Answer *self = data;

  end_line (self);
  stop (self, LLMCTL_EXIT_INTERRUPTED);
  return G_SOURCE_CONTINUE;
}

static gboolean
on_time_up (gpointer data)
{
  Answer *self = data;

  end_line (self);
  llmctl_complain ("the time limit has passed before the answer was whole");
  stop (self, LLMCTL_EXIT_TIME_LIMIT);
  return G_SOURCE_CONTINUE;
}

LlmctlExit
llmctl_answer_run (const LlmctlQuestion *question)
{
  g_auto(Answer) self = { .question = question, .fd = -1, .is_at_line_start = TRUE };
  guint interrupt_source = g_unix_signal_add (SIGINT, on_interrupted, &self);
  guint term_source = g_unix_signal_add (SIGTERM, on_interrupted, &self);
  guint timeout_source =
      question->timeout_s > 0
          ? g_timeout_add ((guint) (question->timeout_s * 1000), on_time_up, &self)
          : 0;

  self.loop = g_main_loop_new (NULL, FALSE);
  self.cancellable = g_cancellable_new ();
  self.reader = llmsvc_line_reader_new ();
  g_idle_add (on_started, &self);
  g_main_loop_run (self.loop);

  /* Calls that were cancelled still report to self. */
  while (g_main_context_iteration (NULL, FALSE))
    continue;

  g_source_remove (interrupt_source);
  g_source_remove (term_source);
  g_clear_handle_id (&timeout_source, g_source_remove);
  return self.status;
}
