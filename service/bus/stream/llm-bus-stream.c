/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/stream/llm-bus-stream.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "bus/llm-bus-translate.h"
#include "common/llmsvc-error-private.h"
#include "common/llmsvc-line.h"
#include "common/llmsvc-names.h"

#define PIPE_BYTES (64 * 1024)
/* the kernel's default limit for a user */
#define MAX_PIPE_BYTES (1024 * 1024)

typedef struct
{
  LlmSink parent;

  LlmCaller *owner;              /* (owned) */
  char *locale;                  /* (nullable) */
  int fd;               /* the writing end, -1 when it is closed */
  gboolean is_text;
  gboolean is_finished;
  guint linger_s;
  GString *pending;     /* bytes that the pipe has not taken yet */
  guint watch_gone;     /* source: the reader has left */
  guint watch_room;     /* source, 0 unless something is pending */
  guint watch_linger;   /* source, 0 unless finished with something pending */
} LlmBusStream;

/* (element-type LlmBusStream) (unowned): finished with something pending, the oldest first. Their
 * number is limited, because unread answers would use up the descriptors of the process. */
static GQueue lingering = G_QUEUE_INIT;

/* Removing the sources may drop the last reference: callers hold one. */
static void
close_pipe (LlmBusStream *self)
{
  g_clear_handle_id (&self->watch_gone, g_source_remove);
  g_clear_handle_id (&self->watch_room, g_source_remove);
  g_clear_handle_id (&self->watch_linger, g_source_remove);
  g_queue_remove (&lingering, self);
  if (self->fd >= 0)
    g_close (self->fd, NULL);
  self->fd = -1;
  g_string_truncate (self->pending, 0);
}

static void
lose_reader (LlmBusStream *self)
{
  gboolean was_finished = self->is_finished;

  close_pipe (self);
  if (!was_finished)
    llm_sink_closed (&self->parent);
}

/* FALSE when the reader has left. */
static gboolean
write_pending (LlmBusStream *self)
{
  gsize done = 0;

  while (done < self->pending->len)
    {
      ssize_t n = write (self->fd, self->pending->str + done, self->pending->len - done);

      if (n >= 0)
        done += (gsize) n;
      else if (errno == EAGAIN)
        break;
      else if (errno != EINTR)
        return FALSE;
    }

  g_string_erase (self->pending, 0, (gssize) done);
  return TRUE;
}

static gboolean
on_reader_gone (int          fd,
                GIOCondition condition,
                gpointer     data)
{
  g_autoptr(LlmSink) hold = llm_sink_ref (data);
  LlmBusStream *self = data;

  self->watch_gone = 0;
  lose_reader (self);
  return G_SOURCE_REMOVE;
}

static gboolean
on_room (int          fd,
         GIOCondition condition,
         gpointer     data)
{
  g_autoptr(LlmSink) hold = llm_sink_ref (data);
  LlmBusStream *self = data;

  if (!write_pending (self))
    {
      self->watch_room = 0;
      lose_reader (self);
      return G_SOURCE_REMOVE;
    }
  if (self->pending->len > 0)
    return G_SOURCE_CONTINUE;

  self->watch_room = 0;
  if (self->is_finished)
    close_pipe (self);
  else
    llm_sink_drained (&self->parent);
  return G_SOURCE_REMOVE;
}

/* Closes a stream whose reader is late. The pipe is full: it is made larger, so that it takes the
 * last line, and the reader may read it later. The kernel keeps its content until it is read or
 * closed; the service keeps no descriptor or memory. */
static void
close_unread (LlmBusStream *self)
{
  int n_bytes = fcntl (self->fd, F_GETPIPE_SZ);

  /* beyond a user's limit the kernel refuses, and the stream ends without its last line */
  if (n_bytes > 0 && self->pending->len < MAX_PIPE_BYTES
      && fcntl (self->fd, F_SETPIPE_SZ, n_bytes + (int) self->pending->len) > 0)
    (void) write_pending (self);
  close_pipe (self);
}

static gboolean
on_lingered (gpointer data)
{
  g_autoptr(LlmSink) hold = llm_sink_ref (data);
  LlmBusStream *self = data;

  self->watch_linger = 0;
  close_unread (self);
  return G_SOURCE_REMOVE;
}

/* Writes what it can. The loss of the reader is reported from the main loop, because the engine is
 * in the middle of handing over text. */
static gboolean
push (LlmBusStream *self)
{
  if (self->watch_room == 0 && !write_pending (self))
    {
      g_string_truncate (self->pending, 0);
      return FALSE;
    }
  if (self->pending->len == 0)
    return TRUE;

  if (self->watch_room == 0)
    self->watch_room = g_unix_fd_add (self->fd, G_IO_OUT, on_room, self);
  return FALSE;
}

/* A reader of text gets only the answer. */
static gboolean
accept_reasoning (LlmSink    *sink,
                  const char *text,
                  gsize       length)
{
  LlmBusStream *self = (LlmBusStream *) sink;

  if (self->fd < 0 || self->is_finished)
    return FALSE;

  if (!self->is_text && length > 0)
    llmsvc_line_write_reasoning (self->pending, text, length);
  return push (self);
}

static gboolean
accept_text (LlmSink    *sink,
             const char *text,
             gsize       length)
{
  LlmBusStream *self = (LlmBusStream *) sink;

  if (self->fd < 0 || self->is_finished)
    return FALSE;

  if (self->is_text)
    g_string_append_len (self->pending, text, (gssize) length);
  else if (length > 0)
    llmsvc_line_write_text (self->pending, text, length);

  return push (self);
}

static gboolean
accept_logprobs (LlmSink    *sink,
                 const char *items)
{
  LlmBusStream *self = (LlmBusStream *) sink;

  if (self->fd < 0 || self->is_finished)
    return FALSE;

  llmsvc_line_write_logprobs (self->pending, items);
  return push (self);
}

static gboolean
accept_call (LlmSink    *sink,
             const char *call)
{
  LlmBusStream *self = (LlmBusStream *) sink;

  if (self->is_text)
    return TRUE;
  if (self->fd < 0 || self->is_finished)
    return FALSE;
  llmsvc_line_write_call (self->pending, call);
  return push (self);
}

/* Not after unread lines: progress is only useful while it is new. */
static void
accept_progress (LlmSink  *sink,
                 GVariant *progress)
{
  LlmBusStream *self = (LlmBusStream *) sink;

  if (self->is_text || self->fd < 0 || self->is_finished || self->watch_room != 0)
    return;
  llmsvc_line_write_progress (self->pending, progress);
  (void) push (self);
}

static void
write_failure (LlmBusStream *self,
               const GError *error)
{
  g_autoptr(GError) converted = g_error_copy (error);
  g_autofree char *name = NULL;
  g_autofree char *message = NULL;

  llmsvc_error_convert (&converted);
  message = llm_bus_translate (self->locale, converted);
  name = g_strconcat (LLMSVC_ERROR_PREFIX, llmsvc_error_get_name (converted->code), NULL);
  llmsvc_line_write_error (self->pending, name, message);
}

static void
make_room_to_linger (LlmCaller *owner)
{
  LlmBusStream *oldest_of_app = NULL;
  LlmBusStream *oldest_of_user = NULL;
  g_autoptr(LlmSink) oldest = NULL;
  guint n_of_app = 0, n_of_user = 0;

  for (GList *l = lingering.tail; l != NULL; l = l->prev)
    {
      LlmBusStream *stream = l->data;

      if (stream->owner->app->uid != owner->app->uid)
        continue;
      oldest_of_user = stream;
      n_of_user++;
      if (stream->owner->app != owner->app)
        continue;
      oldest_of_app = stream;
      n_of_app++;
    }

  if (n_of_app >= LLM_BUS_STREAM_MAX_LINGERING)
    oldest = llm_sink_ref (oldest_of_app);
  else if (n_of_user >= LLM_BUS_STREAM_MAX_USER_LINGERING)
    oldest = llm_sink_ref (oldest_of_user);
  if (oldest != NULL)
    close_unread ((LlmBusStream *) oldest);
}

static void
finish (LlmSink      *sink,
        GVariant     *results,
        const GError *error)
{
  LlmBusStream *self = (LlmBusStream *) sink;

  if (self->fd < 0)
    return;

  self->is_finished = TRUE;
  if (!self->is_text && error != NULL)
    write_failure (self, error);
  else if (!self->is_text)
    llmsvc_line_write_done (self->pending, results);

  if (push (self) || self->watch_room == 0)
    {
      close_pipe (self);
      return;
    }

  /* the sources now own the object: each holds a reference until it is removed */
  make_room_to_linger (self->owner);
  g_queue_push_tail (&lingering, self);
  g_clear_handle_id (&self->watch_room, g_source_remove);
  self->watch_room = g_unix_fd_add_full (G_PRIORITY_DEFAULT, self->fd, G_IO_OUT, on_room,
                                         llm_sink_ref (self), llm_sink_unref);
  self->watch_linger = g_timeout_add_seconds_full (G_PRIORITY_DEFAULT, self->linger_s, on_lingered,
                                                   llm_sink_ref (self), llm_sink_unref);
}

static void
clear (LlmSink *sink)
{
  LlmBusStream *self = (LlmBusStream *) sink;

  close_pipe (self);
  g_string_free (self->pending, TRUE);
  llm_caller_unref (self->owner);
  g_free (self->locale);
}

/* g_unix_open_pipe() of GLib 2.74 does not take O_CLOEXEC, pipe2() does. The
 * reading end blocks unless its reader wants otherwise. */
LlmSink *
llm_bus_stream_new (LlmCaller         *owner,
                    gboolean           is_text,
                    const char        *locale,
                    guint              linger_s,
                    int               *read_fd,
                    GError           **error)
{
  static const LlmSinkClass class = { accept_text, finish, clear, accept_reasoning,
                                      accept_logprobs, accept_call, accept_progress };
  LlmBusStream *self;
  int fds[2];

  g_return_val_if_fail (read_fd != NULL, NULL);

  if (pipe2 (fds, O_CLOEXEC) != 0 || !g_unix_set_fd_nonblocking (fds[1], TRUE, NULL))
    return llm_fail_null (error, LLMSVC_ERROR_OVERLOADED, "No pipe can be made: %s",
                          g_strerror (errno));
  /* beyond a user's limit the kernel gives less, which only means more wakeups */
  (void) fcntl (fds[1], F_SETPIPE_SZ, PIPE_BYTES);

  self = llm_sink_new (&class, sizeof *self);
  self->pending = g_string_new (NULL);
  self->fd = fds[1];
  self->owner = llm_caller_ref (owner);
  self->is_text = is_text;
  self->locale = g_strdup (locale);
  self->linger_s = linger_s;
  self->watch_gone = g_unix_fd_add (self->fd, G_IO_ERR | G_IO_HUP, on_reader_gone, self);

  *read_fd = fds[0];
  return &self->parent;
}
