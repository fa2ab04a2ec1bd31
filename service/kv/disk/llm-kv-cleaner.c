/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-cleaner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a unit of stat.st_blocks. */
#define STAT_BLOCK 512

struct _LlmKvCleaner
{
  GThreadPool *pool;     /* (owned) */
  GAsyncQueue *results;  /* (owned) (element-type Punch): done, still open, so that no other file
                          * has the inode */
};

typedef struct
{
  LlmKvCleanerFunc func;
  gpointer data;
} Job;

typedef struct
{
  LlmKvCleaner *cleaner; /* (unowned) */
  int fd;
  GBytes *header;        /* (owned) */
  GArray *ranges;        /* (owned) (element-type LlmKvRange) */
} Punch;

static void
punch_free (Punch *self)
{
  if (self->fd >= 0)
    close (self->fd);
  g_bytes_unref (self->header);
  g_array_unref (self->ranges);
  g_free (self);
}

static void
run (gpointer data,
     gpointer user_data)
{
  g_autofree Job *job = data;

  job->func (job->data);
}

LlmKvCleaner *
llm_kv_cleaner_new (void)
{
  LlmKvCleaner *self = g_new0 (LlmKvCleaner, 1);

  self->results = g_async_queue_new_full ((GDestroyNotify) punch_free);
  self->pool = g_thread_pool_new (run, self, 1, FALSE, NULL);
  return self;
}

void
llm_kv_cleaner_free (LlmKvCleaner *self)
{
  g_thread_pool_free (self->pool, FALSE, TRUE);
  g_async_queue_unref (self->results);
  g_free (self);
}

void
llm_kv_cleaner_call (LlmKvCleaner    *self,
                     LlmKvCleanerFunc func,
                     gpointer         data)
{
  Job *job = g_new (Job, 1);

  *job = (Job) { func, data };
  /* Without a thread now, one that comes later takes it. */
  g_thread_pool_push (self->pool, job, NULL);
}

static void
run_close (gpointer data)
{
  close (GPOINTER_TO_INT (data));
}

void
llm_kv_cleaner_close (LlmKvCleaner *self,
                      int           fd)
{
  llm_kv_cleaner_call (self, run_close, GINT_TO_POINTER (fd));
}

void
llm_kv_cleaner_unlink (LlmKvCleaner *self,
                       int           folder_fd,
                       const char   *name)
{
  /* While it is open its blocks stay. */
  int fd = openat (folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

  unlinkat (folder_fd, name, 0);
  if (fd >= 0)
    llm_kv_cleaner_close (self, fd);
}

static void
run_punch (gpointer data)
{
  Punch *punch = data;
  gsize length;
  const void *header = g_bytes_get_data (punch->header, &length);
  /* The header says first what is dead: else it would count as damaged one day. */
  gboolean is_written = pwrite (punch->fd, header, length, 0) == (gssize) length;

  /* A file system that can't do it keeps the blocks until the file goes. */
  for (guint i = 0; is_written && i < punch->ranges->len; i++)
    {
      const LlmKvRange *range = &g_array_index (punch->ranges, LlmKvRange, i);

      (void) !fallocate (punch->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                         (off_t) range->begin, (off_t) (range->end - range->begin));
    }
  g_async_queue_push (punch->cleaner->results, punch);
}

void
llm_kv_cleaner_punch (LlmKvCleaner *self,
                      int           fd,
                      GBytes       *header,
                      GArray       *ranges)
{
  Punch *punch = g_new (Punch, 1);

  *punch = (Punch) { self, fd, header, ranges };
  llm_kv_cleaner_call (self, run_punch, punch);
}

gboolean
llm_kv_cleaner_take_result (LlmKvCleaner *self,
                            guint64      *inode,
                            guint64      *bytes)
{
  Punch *punch = g_async_queue_try_pop (self->results);
  struct stat status;

  if (punch == NULL)
    return FALSE;
  *inode = *bytes = 0;
  if (fstat (punch->fd, &status) == 0)
    {
      *inode = status.st_ino;
      *bytes = (guint64) status.st_blocks * STAT_BLOCK;
    }
  /* It may have been removed meanwhile: then this is its end. */
  llm_kv_cleaner_close (self, punch->fd);
  punch->fd = -1;
  punch_free (punch);
  return TRUE;
}
