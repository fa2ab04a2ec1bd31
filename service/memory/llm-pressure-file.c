/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sources that wait on a file of the kernel or a manager. Where tests put a FIFO, something to read
 * there stands for the event. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <glib-unix.h>

#include "memory/llm-pressure-source-private.h"

/* After an event the file is left alone for a moment: a group that the kernel looks for pages in
 * tells so thousands of times a second. */
#define PAUSE_MS 50
/* The most that a manager has us write. */
#define MAX_TRIGGER_BYTES 4096

#define LLM_TYPE_FILE_SOURCE (llm_file_source_get_type ())
G_DECLARE_FINAL_TYPE (LlmFileSource, llm_file_source, LLM, FILE_SOURCE, LlmPressureSource)

typedef enum
{
  KIND_STALLS,          /* a trigger: never read */
  KIND_STREAM,          /* a FIFO, a socket, a counter of events: drained */
  KIND_TEXT,            /* changes: read again, from the beginning */
} Kind;

struct _LlmFileSource
{
  LlmPressureSource parent_instance;

  Kind kind;
  int fd;
  int usage_fd;         /* of version 1: the file that the kernel watches; -1 */
  char *path;           /* (owned) */
  guint64 stalled_us;   /* as of the last event */
  gint64 threshold_us;  /* of a trigger */
  LlmPressure hint;
  guint watch;          /* source */
  guint pause;          /* source */
};

G_DEFINE_FINAL_TYPE (LlmFileSource, llm_file_source, LLM_TYPE_PRESSURE_SOURCE)

static void begin_watch (LlmFileSource *self);

static void
llm_file_source_finalize (GObject *object)
{
  LlmFileSource *self = LLM_FILE_SOURCE (object);

  g_clear_handle_id (&self->watch, g_source_remove);
  g_clear_handle_id (&self->pause, g_source_remove);
  if (self->fd >= 0)
    close (self->fd);
  if (self->usage_fd >= 0)
    close (self->usage_fd);
  g_free (self->path);
  G_OBJECT_CLASS (llm_file_source_parent_class)->finalize (object);
}

static void
llm_file_source_class_init (LlmFileSourceClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_file_source_finalize;
}

static void
llm_file_source_init (LlmFileSource *self)
{
  self->fd = -1;
  self->usage_fd = -1;
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
read_stalled (LlmFileSource *self)
{
  LlmStall stall = { 0 };

  return llm_pressure_read_stall (self->path, &stall) ? stall.some_us : 0;
}

static gboolean
is_real (LlmFileSource *self)
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
  LlmFileSource *self = data;

  self->pause = 0;
  begin_watch (self);
  return G_SOURCE_REMOVE;
}

static gboolean
on_event (int          fd,
          GIOCondition condition,
          gpointer     data)
{
  g_autoptr(LlmFileSource) self = g_object_ref (data);
  gboolean is_over = (condition & (G_IO_NVAL | G_IO_HUP)) != 0
                     || (self->kind == KIND_STALLS && (condition & G_IO_ERR) != 0);

  self->watch = 0;
  if (self->kind == KIND_TEXT)
    (void) lseek (fd, 0, SEEK_SET);
  if (self->kind != KIND_STALLS)
    drain (fd);
  /* The group is gone, or who was at the other end. */
  if (is_over)
    return G_SOURCE_REMOVE;

  /* A trigger comes once in its window. */
  if (self->kind == KIND_STALLS)
    begin_watch (self);
  else
    self->pause = g_timeout_add (PAUSE_MS, on_pause_over, self);
  if (is_real (self))
    llm_pressure_source_stir (LLM_PRESSURE_SOURCE (self), self->hint);
  return G_SOURCE_REMOVE;
}

static void
begin_watch (LlmFileSource *self)
{
  GIOCondition condition = self->kind == KIND_STREAM ? G_IO_IN : G_IO_PRI;

  self->watch = g_unix_fd_add_full (G_PRIORITY_HIGH, self->fd, condition, on_event, self, NULL);
}

static LlmFileSource *
file_source_new (const char *name,
                 const char *path)
{
  LlmFileSource *self = g_object_new (LLM_TYPE_FILE_SOURCE, NULL);

  llm_pressure_source_set_name (LLM_PRESSURE_SOURCE (self), name);
  self->path = g_strdup (path);
  return self;
}

/* Opens the file, which may be a FIFO instead. */
static gboolean
open_file (LlmFileSource *self,
           Kind           kind,
           int            flags,
           GError       **error)
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
write_all (LlmFileSource *self,
           const void    *bytes,
           gsize          length,
           GError       **error)
{
  if (write (self->fd, bytes, length) == (gssize) length)
    return TRUE;
  return fail (error, self->path, "the kernel refuses the trigger");
}

LlmPressureSource *
llm_psi_source_new (const char *path,
                    gint64      stall_us,
                    gint64      window_us,
                    GError    **error)
{
  g_autoptr(LlmFileSource) self = file_source_new ("psi", path);
  g_autofree char *trigger =
    g_strdup_printf ("some %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, stall_us, window_us);

  if (!open_file (self, KIND_STALLS, O_RDWR, error))
    return NULL;
  self->threshold_us = stall_us;
  self->stalled_us = self->kind == KIND_STALLS ? read_stalled (self) : 0;
  /* with the byte that ends the text, as the kernel overwrites the last one */
  if (self->kind == KIND_STALLS && !write_all (self, trigger, strlen (trigger) + 1, error))
    return NULL;
  begin_watch (self);
  return LLM_PRESSURE_SOURCE (g_steal_pointer (&self));
}

static gboolean
connect_socket (LlmFileSource *self,
                GError       **error)
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
  g_autoptr(LlmFileSource) self = file_source_new ("watch", path);
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
  if (length > 0 && !write_all (self, trigger, length, error))
    return NULL;
  self->hint = LLM_PRESSURE_LOW;
  begin_watch (self);
  return LLM_PRESSURE_SOURCE (g_steal_pointer (&self));
}

LlmPressureSource *
llm_events_source_new (const char *path,
                       GError    **error)
{
  g_autoptr(LlmFileSource) self = file_source_new ("events", path);

  if (!open_file (self, KIND_TEXT, O_RDONLY, error))
    return NULL;
  /* From here on the kernel tells of changes. */
  drain (self->fd);
  begin_watch (self);
  return LLM_PRESSURE_SOURCE (g_steal_pointer (&self));
}

LlmPressureSource *
llm_usage_source_new (const char *folder,
                      guint64     bytes,
                      GError    **error)
{
  const char *name = bytes > 0 ? "memory.usage_in_bytes" : "memory.pressure_level";
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *control = g_build_filename (folder, "cgroup.event_control", NULL);
  g_autoptr(LlmFileSource) self = file_source_new (bytes > 0 ? "usage" : "level", path);
  g_autofree char *text = NULL;
  int fd;
  gboolean is_written;

  self->kind = KIND_STREAM;
  self->fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  self->usage_fd = open (path, O_RDONLY | O_CLOEXEC);
  fd = open (control, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
  if (self->fd < 0 || self->usage_fd < 0 || fd < 0)
    {
      fail (error, control, "can't be opened");
      if (fd >= 0)
        close (fd);
      return NULL;
    }

  text = bytes > 0
             ? g_strdup_printf ("%d %d %" G_GUINT64_FORMAT, self->fd, self->usage_fd, bytes)
             : g_strdup_printf ("%d %d low", self->fd, self->usage_fd);
  is_written = write (fd, text, strlen (text)) == (gssize) strlen (text);
  if (!is_written)
    fail (error, control, "the kernel refuses the event");
  close (fd);
  if (!is_written)
    return NULL;
  begin_watch (self);
  return LLM_PRESSURE_SOURCE (g_steal_pointer (&self));
}
