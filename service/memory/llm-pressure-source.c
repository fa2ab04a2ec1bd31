/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tests replace a kernel file by a FIFO: data to read there stands for the event. */

#include "memory/llm-pressure-source.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <glib-unix.h>

/* Pause after an event: a group under pressure may report thousands of them a second. */
#define PAUSE_MS 50
/* Limit of the text that a manager has us write. */
#define MAX_TRIGGER_BYTES 4096

typedef enum
{
  KIND_STALLS,             /* a trigger: never read */
  KIND_STREAM,             /* a FIFO, a socket, a counter of events: drained */
  KIND_TEXT,               /* changes: read again, from the beginning */
} Kind;

struct _LlmPressureSource
{
  LlmPressureFunc func;    /* (nullable) */
  gpointer data;
  LlmPressure hint;

  Kind kind;
  int fd;                  /* -1 for a monitor */
  int usage_fd;            /* of version 1: the file that the kernel watches; -1 */
  char *path;              /* (owned) */
  guint64 stalled_us;      /* as of the last event */
  gint64 threshold_us;     /* of a trigger */
  guint watch;             /* source */
  guint pause;             /* source */

  GMemoryMonitor *monitor; /* (nullable) (owned) */
};

static void begin_watch (LlmPressureSource *self);

static LlmPressureSource *
source_new (const char *path)
{
  LlmPressureSource *self = g_new0 (LlmPressureSource, 1);

  self->fd = self->usage_fd = -1;
  self->path = g_strdup (path);
  return self;
}

void
llm_pressure_source_free (LlmPressureSource *self)
{
  g_clear_handle_id (&self->watch, g_source_remove);
  g_clear_handle_id (&self->pause, g_source_remove);
  if (self->fd >= 0)
    close (self->fd);
  if (self->usage_fd >= 0)
    close (self->usage_fd);
  if (self->monitor != NULL)
    g_signal_handlers_disconnect_by_data (self->monitor, self);
  g_clear_object (&self->monitor);
  g_free (self->path);
  g_free (self);
}

void
llm_pressure_source_set_func (LlmPressureSource *self,
                              LlmPressureFunc    func,
                              gpointer           data)
{
  self->func = func;
  self->data = data;
}

/* A handler must do nothing after this. */
static void
tell (LlmPressureSource *self,
      LlmPressure        hint)
{
  if (self->func != NULL)
    self->func (hint, self->data);
}

static gboolean
fail (GError    **error,
      const char *path,
      const char *what)
{
  int saved_errno = errno;

  g_set_error (error, G_IO_ERROR, g_io_error_from_errno (saved_errno), "%s: %s: %s", path, what,
               g_strerror (saved_errno));
  return FALSE;
}

static void
drain (int fd)
{
  char bytes[4096];

  while (read (fd, bytes, sizeof bytes) > 0)
    ;
}

static guint64
read_stalled (LlmPressureSource *self)
{
  LlmStall stall = { 0 };

  return llm_pressure_read_stall (self->path, &stall) ? stall.some_us : 0;
}

static gboolean
is_real (LlmPressureSource *self)
{
  guint64 before = self->stalled_us;

  if (self->kind != KIND_STALLS)
    return TRUE;
  self->stalled_us = read_stalled (self);
  return llm_pressure_is_event (before, self->stalled_us, (guint64) self->threshold_us);
}

static gboolean
on_pause_over (gpointer data)
{
  LlmPressureSource *self = data;

  self->pause = 0;
  begin_watch (self);
  return G_SOURCE_REMOVE;
}

static gboolean
on_event (int          fd,
          GIOCondition condition,
          gpointer     data)
{
  LlmPressureSource *self = data;
  gboolean is_over = (condition & (G_IO_NVAL | G_IO_HUP)) != 0
                     || (self->kind == KIND_STALLS && (condition & G_IO_ERR) != 0);

  self->watch = 0;
  if (self->kind == KIND_TEXT)
    (void) lseek (fd, 0, SEEK_SET);
  if (self->kind != KIND_STALLS)
    drain (fd);
  /* The group was removed, or the other end closed. */
  if (is_over)
    return G_SOURCE_REMOVE;

  /* A trigger reports at most once in its window. */
  if (self->kind == KIND_STALLS)
    begin_watch (self);
  else
    self->pause = g_timeout_add (PAUSE_MS, on_pause_over, self);
  if (is_real (self))
    tell (self, self->hint);
  return G_SOURCE_REMOVE;
}

static void
begin_watch (LlmPressureSource *self)
{
  GIOCondition condition = self->kind == KIND_STREAM ? G_IO_IN : G_IO_PRI;

  self->watch = g_unix_fd_add_full (G_PRIORITY_HIGH, self->fd, condition, on_event, self, NULL);
}

/* Opens the file, which may be a FIFO instead. */
static gboolean
open_file (LlmPressureSource *self,
           Kind               kind,
           int                flags,
           GError           **error)
{
  struct stat status;

  self->fd = open (self->path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (self->fd < 0)
    return fail (error, self->path, "can't be opened");
  if (fstat (self->fd, &status) < 0)
    return fail (error, self->path, "can't be looked at");
  self->kind = S_ISFIFO (status.st_mode) ? KIND_STREAM : kind;
  return TRUE;
}

static gboolean
write_all (int         fd,
           const char *path,
           const void *bytes,
           gsize       length,
           GError    **error)
{
  return write (fd, bytes, length) == (gssize) length
         || fail (error, path, "the kernel refuses the trigger");
}

LlmPressureSource *
llm_psi_source_new (const char *path,
                    gint64      stall_us,
                    gint64      window_us,
                    GError    **error)
{
  g_autoptr(LlmPressureSource) self = source_new (path);
  g_autofree char *trigger =
    g_strdup_printf ("some %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, stall_us, window_us);

  if (!open_file (self, KIND_STALLS, O_RDWR, error))
    return NULL;
  self->threshold_us = stall_us;
  self->stalled_us = self->kind == KIND_STALLS ? read_stalled (self) : 0;
  /* with the terminating NUL, because the kernel overwrites the last byte */
  if (self->kind == KIND_STALLS
      && !write_all (self->fd, path, trigger, strlen (trigger) + 1, error))
    return NULL;
  begin_watch (self);
  return g_steal_pointer (&self);
}

static gboolean
connect_socket (LlmPressureSource *self,
                GError           **error)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };

  if (strlen (self->path) >= sizeof address.sun_path)
    {
      errno = ENAMETOOLONG;
      return fail (error, self->path, "can't be connected to");
    }
  memcpy (address.sun_path, self->path, strlen (self->path));
  self->kind = KIND_STREAM;
  self->fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (self->fd < 0 || connect (self->fd, (struct sockaddr *) &address, sizeof address) < 0)
    return fail (error, self->path, "can't be connected to");
  return TRUE;
}

LlmPressureSource *
llm_watch_source_new (const char *path,
                      const char *encoded,
                      GError    **error)
{
  g_autoptr(LlmPressureSource) self = source_new (path);
  g_autofree guchar *trigger = NULL;
  gsize length = 0;
  struct stat status;

  if (g_str_equal (path, "/dev/null"))
    return NULL;
  if (stat (path, &status) < 0)
    {
      fail (error, path, "can't be looked at");
      return NULL;
    }
  if (!(S_ISSOCK (status.st_mode) ? connect_socket (self, error)
                                  : open_file (self, KIND_STALLS, O_RDWR, error)))
    return NULL;

  if (encoded != NULL && strlen (encoded) <= MAX_TRIGGER_BYTES)
    trigger = g_base64_decode (encoded, &length);
  if (length > 0 && !write_all (self->fd, path, trigger, length, error))
    return NULL;
  self->hint = LLM_PRESSURE_LOW;
  begin_watch (self);
  return g_steal_pointer (&self);
}

LlmPressureSource *
llm_events_source_new (const char *path,
                       GError    **error)
{
  g_autoptr(LlmPressureSource) self = source_new (path);

  if (!open_file (self, KIND_TEXT, O_RDONLY, error))
    return NULL;
  /* from here on the kernel reports changes */
  drain (self->fd);
  begin_watch (self);
  return g_steal_pointer (&self);
}

LlmPressureSource *
llm_usage_source_new (const char *folder,
                      guint64     bytes,
                      GError    **error)
{
  const char *name = bytes > 0 ? "memory.usage_in_bytes" : "memory.pressure_level";
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *control = g_build_filename (folder, "cgroup.event_control", NULL);
  g_autoptr(LlmPressureSource) self = source_new (path);
  g_autofree char *text = NULL;
  int fd;
  gboolean is_written;

  self->kind = KIND_STREAM;
  self->fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  self->usage_fd = open (path, O_RDONLY | O_CLOEXEC);
  fd = open (control, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  text = bytes > 0
             ? g_strdup_printf ("%d %d %" G_GUINT64_FORMAT, self->fd, self->usage_fd, bytes)
             : g_strdup_printf ("%d %d low", self->fd, self->usage_fd);
  if (self->fd < 0 || self->usage_fd < 0 || fd < 0)
    is_written = fail (error, control, "can't be opened");
  else
    is_written = write_all (fd, control, text, strlen (text), error);
  if (fd >= 0)
    close (fd);
  if (!is_written)
    return NULL;
  begin_watch (self);
  return g_steal_pointer (&self);
}

static void
on_warning (GMemoryMonitor            *monitor,
            GMemoryMonitorWarningLevel level,
            LlmPressureSource         *self)
{
  LlmPressure hint = LLM_PRESSURE_LOW;

  if (level >= G_MEMORY_MONITOR_WARNING_LEVEL_CRITICAL)
    hint = LLM_PRESSURE_CRITICAL;
  else if (level >= G_MEMORY_MONITOR_WARNING_LEVEL_MEDIUM)
    hint = LLM_PRESSURE_MEDIUM;
  tell (self, hint);
}

LlmPressureSource *
llm_monitor_source_new (GMemoryMonitor *monitor)
{
  LlmPressureSource *self = source_new (NULL);

  self->monitor = g_object_ref (monitor);
  g_signal_connect (monitor, "low-memory-warning", G_CALLBACK (on_warning), self);
  return self;
}
