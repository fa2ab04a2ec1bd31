/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/disk/llm-kv-storage-private.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of a unit of stat.st_blocks. */
#define STAT_BLOCK 512

struct _LlmKvCleaner
{
  GThreadPool *pool;     /* (owned) */
  GAsyncQueue *results;  /* (owned) (element-type Job): done, still open, so that no other file
                          * has the inode */
};

/* A job of the thread; the file is closed at its end. */
typedef struct
{
  int fd;                /* or -1 */
  GBytes *header;        /* (nullable) (owned): written to the file, whose ranges are then punched
                          * out */
  GArray *ranges;        /* (nullable) (owned) (element-type LlmKvRange) */
  LlmKvCleanerFunc func; /* (nullable) */
  gpointer data;
} Job;

static void
job_free (Job *job)
{
  if (job->fd >= 0)
    close (job->fd);
  g_clear_pointer (&job->header, g_bytes_unref);
  g_clear_pointer (&job->ranges, g_array_unref);
  g_free (job);
}

static void
punch (const Job *job)
{
  gsize length;
  const void *header = g_bytes_get_data (job->header, &length);

  /* The header must mark the dead chunks first: else the extent would count as damaged later. */
  if (pwrite (job->fd, header, length, 0) != (gssize) length)
    return;
  /* A file system that can't punch holes keeps the blocks until the file is removed. */
  LLM_EACH_IN (const LlmKvRange, range, job->ranges)
    (void) !fallocate (job->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       (off_t) range->begin, (off_t) (range->end - range->begin));
}

static void
run (gpointer data,
     gpointer user_data)
{
  LlmKvCleaner *self = user_data;
  Job *job = data;

  if (job->header != NULL)
    {
      punch (job);
      g_async_queue_push (self->results, job);
      return;
    }
  if (job->func != NULL)
    job->func (job->data);
  job_free (job);
}

static void
push (LlmKvCleaner *self,
      Job           job)
{
  /* If no thread can start now, a later one takes the job. */
  g_thread_pool_push (self->pool, g_memdup2 (&job, sizeof job), NULL);
}

LlmKvCleaner *
llm_kv_cleaner_new (void)
{
  LlmKvCleaner *self = g_new0 (LlmKvCleaner, 1);

  self->results = g_async_queue_new_full ((GDestroyNotify) job_free);
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
  push (self, (Job) { .fd = -1, .func = func, .data = data });
}

void
llm_kv_cleaner_close (LlmKvCleaner *self,
                      int           fd)
{
  push (self, (Job) { .fd = fd });
}

void
llm_kv_cleaner_unlink (LlmKvCleaner *self,
                       int           folder_fd,
                       const char   *name)
{
  /* While the file is open its blocks stay. */
  int fd = openat (folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

  unlinkat (folder_fd, name, 0);
  if (fd >= 0)
    llm_kv_cleaner_close (self, fd);
}

void
llm_kv_cleaner_punch (LlmKvCleaner *self,
                      int           fd,
                      GBytes       *header,
                      GArray       *ranges)
{
  push (self, (Job) { .fd = fd, .header = header, .ranges = ranges });
}

gboolean
llm_kv_cleaner_take_result (LlmKvCleaner *self,
                            guint64      *inode,
                            guint64      *bytes)
{
  Job *job = g_async_queue_try_pop (self->results);
  struct stat status;

  if (job == NULL)
    return FALSE;
  *inode = *bytes = 0;
  if (fstat (job->fd, &status) == 0)
    {
      *inode = status.st_ino;
      *bytes = (guint64) status.st_blocks * STAT_BLOCK;
    }
  /* The file may have been removed meanwhile: then closing it frees its blocks. */
  llm_kv_cleaner_close (self, job->fd);
  job->fd = -1;
  job_free (job);
  return TRUE;
}
