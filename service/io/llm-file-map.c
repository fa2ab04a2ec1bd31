/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-io"

#include "io/llm-file-map.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/llmsvc-error.h"

#define MAX_GUARDS 256
#define BYTES_ALIGNMENT 64
#define MINCORE_PAGES ((gsize) 4096)

/* One mapping as the signal handler sees it. The handler may run in any thread
 * at any time, so it reads nothing but these. @begin is written last when a
 * mapping is entered and first when it is taken out. */
typedef struct
{
  _Atomic (uintptr_t) begin;  /* 0 while the entry is free */
  _Atomic (uintptr_t) end;
  atomic_bool is_damaged;
} Guard;

struct _LlmFileMap
{
  gatomicrefcount ref_count;

  const guint8 *data;
  guint64 size;

  int fd;             /* -1 for bytes */
  struct timespec modified;
  Guard *guard;       /* (nullable), NULL for bytes */
  GBytes *bytes;      /* (nullable) */
  guint8 *copy;       /* (nullable) (owned): of bytes that were not aligned */
};

static Guard guards[MAX_GUARDS];
static GMutex guards_lock;
static uintptr_t page_size;
static struct sigaction previous_action;

/* What would have happened without us. */
static void
pass_on_signal (int        number,
                siginfo_t *info,
                void      *context)
{
  if ((previous_action.sa_flags & SA_SIGINFO) != 0)
    {
      previous_action.sa_sigaction (number, info, context);
    }
  else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN)
    {
      previous_action.sa_handler (number);
    }
  else if (info->si_code > 0 || previous_action.sa_handler == SIG_DFL)
    {
      /* The access is tried again when we return and then ends the process; a
       * signal that somebody sent has to be sent again. */
      struct sigaction action = { .sa_handler = SIG_DFL };

      sigaction (number, &action, NULL);
      if (info->si_code <= 0)
        raise (number);
    }
}

/* A file that was cut has lost all that follows, and after an error of the disk
 * the rest is of no use either: so everything from here on becomes zeros, in
 * one call, rather than a mapping and a signal for each page. */
static void
on_bus_error (int        number,
              siginfo_t *info,
              void      *context)
{
  int saved_errno = errno;
  uintptr_t address = (uintptr_t) info->si_addr;

  for (guint i = 0; info->si_code > 0 && i < MAX_GUARDS; i++)
    {
      uintptr_t begin = atomic_load (&guards[i].begin);
      uintptr_t end = atomic_load (&guards[i].end);
      uintptr_t page = address & ~(page_size - 1);

      if (begin == 0 || address < begin || address >= end)
        continue;

      atomic_store (&guards[i].is_damaged, true);
      if (mmap ((void *) page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) == MAP_FAILED)
        break;
      errno = saved_errno;
      return;
    }

  errno = saved_errno;
  pass_on_signal (number, info, context);
}

static void
install_handler (void)
{
  static gsize is_installed = 0;

  if (g_once_init_enter (&is_installed))
    {
      struct sigaction action = { .sa_sigaction = on_bus_error,
                                  .sa_flags = SA_SIGINFO | SA_ONSTACK };

      page_size = (uintptr_t) sysconf (_SC_PAGESIZE);
      sigemptyset (&action.sa_mask);
      sigaction (SIGBUS, &action, &previous_action);
      g_once_init_leave (&is_installed, 1);
    }
}

/* NULL when the table is full. */
static Guard *
enter_guard (const void *data,
             guint64     size)
{
  Guard *found = NULL;

  g_mutex_lock (&guards_lock);
  for (guint i = 0; i < MAX_GUARDS && found == NULL; i++)
    if (atomic_load (&guards[i].begin) == 0)
      found = &guards[i];

  if (found != NULL)
    {
      uintptr_t end = (uintptr_t) data + size;

      atomic_store (&found->is_damaged, false);
      atomic_store (&found->end, (end + page_size - 1) & ~(page_size - 1));
      atomic_store (&found->begin, (uintptr_t) data);
    }
  g_mutex_unlock (&guards_lock);
  return found;
}

static void
leave_guard (Guard *guard)
{
  g_mutex_lock (&guards_lock);
  atomic_store (&guard->begin, 0);
  g_mutex_unlock (&guards_lock);
}

static int
get_code (int saved_errno)
{
  switch (saved_errno)
    {
    case ENOENT:
    case ENOTDIR:
      return LLMSVC_ERROR_NOT_FOUND;
    case EACCES:
    case EPERM:
      return LLMSVC_ERROR_NOT_AUTHORIZED;
    case ENOMEM:
      return LLMSVC_ERROR_NO_MEMORY;
    default:
      return LLMSVC_ERROR_FAILED;
    }
}

/* Cuts the range to the file. */
static gboolean
clamp_range (LlmFileMap *self,
             guint64     offset,
             guint64    *length)
{
  if (offset >= self->size)
    return FALSE;

  *length = MIN (*length, self->size - offset);
  return *length > 0;
}

LlmFileMap *
llm_file_map_open (const char  *path,
                   GError     **error)
{
  g_autoptr(LlmFileMap) self = NULL;
  g_autofree char *shown = NULL;
  struct stat status;
  void *data;
  int saved_errno;

  g_return_val_if_fail (path != NULL, NULL);

  install_handler ();
  shown = g_filename_display_name (path);

  self = g_new0 (LlmFileMap, 1);
  g_atomic_ref_count_init (&self->ref_count);
  /* Not to wait for the other end when it is a pipe. */
  self->fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (self->fd < 0 || fstat (self->fd, &status) < 0)
    {
      saved_errno = errno;
      g_set_error (error, LLMSVC_ERROR, get_code (saved_errno), "Can't open “%s”: %s", shown,
                   g_strerror (saved_errno));
      return NULL;
    }

  if (!S_ISREG (status.st_mode) || status.st_size == 0)
    {
      if (S_ISDIR (status.st_mode))
        g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "“%s” is a folder, a file is needed", shown);
      else if (S_ISREG (status.st_mode))
        g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT, "“%s” is an empty file",
                     shown);
      else
        g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                     "“%s” is a special file, a regular one is needed", shown);
      return NULL;
    }

  data = mmap (NULL, (size_t) status.st_size, PROT_READ, MAP_SHARED, self->fd, 0);
  if (data == MAP_FAILED)
    {
      saved_errno = errno;
      g_set_error (error, LLMSVC_ERROR, get_code (saved_errno), "Can't map “%s”: %s", shown,
                   g_strerror (saved_errno));
      return NULL;
    }
  self->data = data;
  self->size = (guint64) status.st_size;
  self->modified = status.st_mtim;

  self->guard = enter_guard (self->data, self->size);
  if (self->guard == NULL)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                   "Can't map “%s”: %d files are mapped already, which is the limit", shown,
                   MAX_GUARDS);
      return NULL;
    }

  return g_steal_pointer (&self);
}

LlmFileMap *
llm_file_map_new_for_bytes (GBytes *bytes)
{
  LlmFileMap *self;
  gsize size;

  g_return_val_if_fail (bytes != NULL, NULL);

  self = g_new0 (LlmFileMap, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->fd = -1;
  self->bytes = g_bytes_ref (bytes);
  self->data = g_bytes_get_data (bytes, &size);
  self->size = size;

  /* A mapping begins at a page, and what is in it counts on that. */
  if ((uintptr_t) self->data % BYTES_ALIGNMENT != 0)
    {
      self->copy = g_aligned_alloc (1, size, BYTES_ALIGNMENT);
      memcpy (self->copy, self->data, size);
      self->data = self->copy;
    }
  return self;
}

LlmFileMap *
llm_file_map_ref (LlmFileMap *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_file_map_unref (LlmFileMap *self)
{
  g_return_if_fail (self != NULL);

  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;

  g_clear_pointer (&self->guard, leave_guard);
  if (self->fd >= 0)
    {
      if (self->data != NULL)
        munmap ((void *) self->data, self->size);
      close (self->fd);
    }
  g_aligned_free (self->copy);
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_free (self);
}

const guint8 *
llm_file_map_get_data (LlmFileMap *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return self->data;
}

guint64
llm_file_map_get_size (LlmFileMap *self)
{
  g_return_val_if_fail (self != NULL, 0);

  return self->size;
}

/* A file may also change with no page lost: cut within its last one, or written
 * over. That shows in its size and time. */
gboolean
llm_file_map_is_damaged (LlmFileMap *self)
{
  struct stat status;

  g_return_val_if_fail (self != NULL, FALSE);

  if (self->guard == NULL)
    return FALSE;

  return atomic_load (&self->guard->is_damaged) || fstat (self->fd, &status) < 0 ||
         (guint64) status.st_size != self->size ||
         status.st_mtim.tv_sec != self->modified.tv_sec ||
         status.st_mtim.tv_nsec != self->modified.tv_nsec;
}

/**
 * llm_file_map_count_resident:
 * @offset: first byte
 * @length: bytes; what lies behind the end of the file is left out
 *
 * The kernel tells this only to those who may write the file; to others all
 * pages seem to be there. Bytes that are no file are always there.
 *
 * Returns: bytes of the range that are in memory
 */
guint64
llm_file_map_count_resident (LlmFileMap *self,
                             guint64     offset,
                             guint64     length)
{
  unsigned char pages[MINCORE_PAGES];
  guint64 end, count = 0;

  g_return_val_if_fail (self != NULL, 0);

  if (!clamp_range (self, offset, &length))
    return 0;
  if (self->fd < 0)
    return length;

  end = offset + length;
  for (guint64 at = offset & ~(guint64) (page_size - 1); at < end; at += MINCORE_PAGES * page_size)
    {
      gsize span = MIN (end - at, MINCORE_PAGES * page_size);

      if (mincore ((void *) (self->data + at), span, pages) < 0)
        return count;
      for (gsize i = 0; i * page_size < span; i++)
        if ((pages[i] & 1) != 0)
          count += MIN (at + (i + 1) * page_size, end) - MAX (at + i * page_size, offset);
    }
  return count;
}

void
llm_file_map_prefetch (LlmFileMap *self,
                       guint64     offset,
                       guint64     length)
{
  guint64 begin;

  g_return_if_fail (self != NULL);

  if (self->fd < 0 || !clamp_range (self, offset, &length))
    return;

  begin = offset & ~(guint64) (page_size - 1);
  madvise ((void *) (self->data + begin), offset + length - begin, MADV_WILLNEED);
}

void
llm_file_map_drop (LlmFileMap *self,
                   guint64     offset,
                   guint64     length)
{
  guint64 begin, end;

  g_return_if_fail (self != NULL);

  if (self->fd < 0 || !clamp_range (self, offset, &length))
    return;

  /* A page that neighbours share stays; the last one of the file is nobody else's. */
  begin = (offset + page_size - 1) & ~(guint64) (page_size - 1);
  end = offset + length == self->size ? self->size : (offset + length) & ~(guint64) (page_size - 1);
  if (begin >= end)
    return;

  madvise ((void *) (self->data + begin), end - begin, MADV_DONTNEED);
  posix_fadvise (self->fd, (off_t) begin, (off_t) (end - begin), POSIX_FADV_DONTNEED);
}
