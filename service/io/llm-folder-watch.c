/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "io/llm-folder-watch.h"

#include <errno.h>
#include <glib-unix.h>
#include <sys/inotify.h>
#include <unistd.h>

/* Changes come in bursts: those within this time cause one scan. */
#define SETTLE_MS 300
/* Interval of scans where the kernel does not report changes. */
#define LOOK_S 5
/* Retries when folders of a path come and go while it is watched. */
#define MAX_TRIES 100

#define COMES_OR_GOES (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB)
#define FOLDER_GONE (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT | IN_Q_OVERFLOW)

struct _LlmFolderWatch
{
  char *suffix;
  GHashTable *awaited;   /* (element-type utf8) (owned): names of folders that are not there */
  int fd;                /* -1: none */
  gboolean is_partial;   /* the kernel does not watch all of them */
  gboolean is_stale;
  guint source;
  guint timer;           /* source: tells of a change */
  guint poll_timer;      /* source: as if there were one */
  GSourceOnceFunc changed;
  gpointer data;
};

static gboolean
is_absent (int code)
{
  /* a folder that can't be listed counts as missing, until its mode changes */
  return code == ENOENT || code == ENOTDIR || code == EACCES;
}

/* FALSE when a folder above @folder was found, and the next one below it came meanwhile. */
static gboolean
try_to_watch (LlmFolderWatch *self,
              const char     *folder)
{
  g_autofree char *path = g_strdup (folder);
  g_autofree char *below = NULL;

  while (inotify_add_watch (self->fd, path,
                            IN_ONLYDIR | IN_MASK_ADD | COMES_OR_GOES | IN_DELETE_SELF
                              | IN_MOVE_SELF | (below == NULL ? IN_CLOSE_WRITE : 0)) < 0)
    {
      char *above = is_absent (errno) ? g_path_get_dirname (path) : NULL;

      if (above == NULL || g_str_equal (above, path))
        {
          g_free (above);
          self->is_partial = TRUE;
          return TRUE;
        }
      g_hash_table_add (self->awaited, g_path_get_basename (path));
      g_free (below);
      below = g_steal_pointer (&path);
      path = above;
    }
  return below == NULL || !g_file_test (below, G_FILE_TEST_IS_DIR) || access (below, R_OK) != 0;
}

LlmFolderWatch *
llm_folder_watch_new (const char *const *folders,
                      const char        *suffix)
{
  LlmFolderWatch *self = g_new0 (LlmFolderWatch, 1);

  self->suffix = g_strdup (suffix);
  self->awaited = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->fd = inotify_init1 (IN_CLOEXEC | IN_NONBLOCK);
  self->is_partial = self->fd < 0;
  for (guint i = 0; self->fd >= 0 && folders[i] != NULL; i++)
    {
      guint n_tries = 0;

      while (!try_to_watch (self, folders[i]) && ++n_tries < MAX_TRIES)
        ;
      self->is_partial |= n_tries == MAX_TRIES;
    }
  return self;
}

void
llm_folder_watch_free (LlmFolderWatch *self)
{
  g_clear_handle_id (&self->source, g_source_remove);
  g_clear_handle_id (&self->timer, g_source_remove);
  g_clear_handle_id (&self->poll_timer, g_source_remove);
  if (self->fd >= 0)
    close (self->fd);
  g_hash_table_unref (self->awaited);
  g_free (self->suffix);
  g_free (self);
}

gboolean
llm_folder_watch_is_stale (LlmFolderWatch *self)
{
  return self->is_stale || self->is_partial;
}

static void
on_time (gpointer data)
{
  LlmFolderWatch *self = data;

  self->timer = 0;
  self->changed (self->data);
}

/* The callback may free this. */
static gboolean
on_poll (gpointer data)
{
  LlmFolderWatch *self = data;

  self->changed (self->data);
  return G_SOURCE_CONTINUE;
}

/* Whether what has happened to @name, NULL for the folder itself, matters. */
static gboolean
take_event (LlmFolderWatch *self,
            guint32         mask,
            const char     *name)
{
  if ((mask & FOLDER_GONE) != 0 || (name != NULL && g_hash_table_contains (self->awaited, name)))
    {
      self->is_stale = TRUE;
      return TRUE;
    }
  return name == NULL || (name[0] != '.' && g_str_has_suffix (name, self->suffix));
}

static gboolean
on_readable (int          fd,
             GIOCondition condition,
             gpointer     data)
{
  LlmFolderWatch *self = data;
  _Alignas (struct inotify_event) char buffer[4096];
  gboolean matters = FALSE;
  ssize_t n = read (fd, buffer, sizeof buffer);

  for (ssize_t at = 0; at < n;)
    {
      const struct inotify_event *event = (const void *) (buffer + at);

      matters |= take_event (self, event->mask, event->len > 0 ? event->name : NULL);
      at += (ssize_t) (sizeof *event + event->len);
    }
  if (matters && self->timer == 0)
    self->timer = g_timeout_add_once (SETTLE_MS, on_time, self);
  return G_SOURCE_CONTINUE;
}

void
llm_folder_watch_start (LlmFolderWatch *self,
                        GSourceOnceFunc changed,
                        gpointer        data)
{
  self->changed = changed;
  self->data = data;
  if (self->fd >= 0)
    self->source = g_unix_fd_add (self->fd, G_IO_IN, on_readable, self);
  if (self->is_partial)
    self->poll_timer = g_timeout_add_seconds (LOOK_S, on_poll, self);
}
