/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "io/llm-cache-folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"

#define PART_PREFIX ".part-"
/* The writer locks an unfinished file; a file younger than this may not be locked yet. */
#define PART_AGE_S 60

typedef struct
{
  guint64 bytes;
  struct timespec used;
  char *path;
} Entry;

static void
free_entry (gpointer data)
{
  g_free (((Entry *) data)->path);
  g_free (data);
}

static gboolean
fail (GError    **error,
      const char *path,
      int         saved_errno)
{
  g_autofree char *shown = g_filename_display_name (path);

  return llm_fail (error, LLMSVC_ERROR_FAILED, "Nothing can be kept in “%s”: %s", shown,
                   g_strerror (saved_errno));
}

gboolean
llm_cache_folder_fail_write (const char  *path,
                             int          saved_errno,
                             GError     **error)
{
  g_autofree char *shown = g_filename_display_name (path);
  g_autofree char *folder = g_path_get_dirname (shown);

  if (saved_errno != ENOSPC && saved_errno != EDQUOT)
    return llm_fail (error, LLMSVC_ERROR_STORAGE, "“%s” can't be written: %s", shown,
                     g_strerror (saved_errno));
  return llm_fail (error, LLMSVC_ERROR_STORAGE,
                   "“%s” can't be written: %s; make room in the folder “%s”, then try again", shown,
                   g_strerror (saved_errno), folder);
}

gboolean
llm_cache_folder_make (const char  *folder,
                       gboolean     is_shared,
                       GError     **error)
{
  if (g_mkdir_with_parents (folder, is_shared ? 0755 : 0700) < 0)
    return fail (error, folder, errno);
  /* The mask of a service removes the rights that others need; a folder of another user stays as it
   * is. */
  if (is_shared)
    (void) !chmod (folder, 0755);
  return TRUE;
}

static int
compare_used (gconstpointer a,
              gconstpointer b)
{
  const Entry *x = *(const Entry *const *) a;
  const Entry *y = *(const Entry *const *) b;

  if (x->used.tv_sec != y->used.tv_sec)
    return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
  return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* Removes unfinished files of processes that were killed. */
static void
remove_stale_part (const char        *path,
                   const struct stat *status)
{
  int fd;

  if (status->st_mtim.tv_sec > g_get_real_time () / G_USEC_PER_SEC - PART_AGE_S)
    return;
  fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0)
    return;
  if (flock (fd, LOCK_EX | LOCK_NB) == 0)
    unlink (path);
  close (fd);
}

/* (element-type Entry) (transfer full): the finished files, least recently used first; removes
 * leftover unfinished ones. */
static GPtrArray *
list_entries (const char *folder)
{
  GPtrArray *entries = g_ptr_array_new_with_free_func (free_entry);
  g_autoptr(GDir) dir = g_dir_open (folder, 0, NULL);
  const char *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree char *path = g_build_filename (folder, name, NULL);
      struct stat status;
      Entry *entry;

      if (lstat (path, &status) < 0 || !S_ISREG (status.st_mode))
        continue;
      if (g_str_has_prefix (name, PART_PREFIX))
        remove_stale_part (path, &status);
      if (!g_str_has_suffix (name, LLM_CACHE_SUFFIX))
        continue;
      entry = g_new (Entry, 1);
      *entry = (Entry) { (guint64) status.st_blocks * 512, status.st_atim,
                         g_steal_pointer (&path) };
      g_ptr_array_add (entries, entry);
    }
  g_ptr_array_sort (entries, compare_used);
  return entries;
}

static gboolean
is_spared (const Entry *entry,
           const char  *spared)
{
  return g_strcmp0 (strrchr (entry->path, '/') + 1, spared) == 0;
}

gboolean
llm_cache_folder_make_room (const char  *folder,
                            guint64      bytes,
                            guint64      limit,
                            const char  *spared,
                            GError     **error)
{
  g_autoptr(GPtrArray) entries = list_entries (folder);
  g_autofree char *shown = g_filename_display_name (folder);
  struct statvfs status;
  guint64 held = 0, stays = 0;
  guint64 available;

  if (statvfs (folder, &status) < 0)
    return fail (error, folder, errno);
  available = (guint64) status.f_bavail * status.f_frsize;
  for (guint i = 0; i < entries->len; i++)
    {
      const Entry *entry = g_ptr_array_index (entries, i);

      held += entry->bytes;
      stays += is_spared (entry, spared) ? entry->bytes : 0;
    }
  if (limit == 0)
    limit = (available + held) / 2;
  limit = MIN (limit, available + held);
  if (bytes > limit)
    return llm_fail (error, LLMSVC_ERROR_FAILED, "“%s” may hold %ju bytes, %ju are needed", shown,
                     limit, bytes);

  /* no other file goes for one that does not fit beside what stays */
  for (guint i = 0; i < entries->len && stays + bytes <= limit
                    && (held + bytes > limit || bytes > available); i++)
    {
      const Entry *entry = g_ptr_array_index (entries, i);

      if (is_spared (entry, spared)
          || (unlink (entry->path) < 0 && errno != ENOENT))
        continue;
      held -= entry->bytes;
      available += entry->bytes;
    }
  if (held + bytes <= limit && bytes <= available)
    return TRUE;
  return llm_fail (error, LLMSVC_ERROR_FAILED,
                   "“%s” holds files that stay, which leave no room for %ju bytes", shown,
                   bytes);
}

/* Writing past the file size limit of a process would raise a signal that ends it. */
static gboolean
is_within_limit (guint64 bytes)
{
  struct rlimit limit;

  return getrlimit (RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

int
llm_cache_folder_create (const char  *folder,
                         gboolean     is_shared,
                         guint64      bytes,
                         char       **path,
                         GError     **error)
{
  g_autofree char *name = NULL;
  int fd;

  *path = NULL;
  if (!is_within_limit (bytes))
    {
      fail (error, folder, EFBIG);
      return -1;
    }

  name = g_build_filename (folder, PART_PREFIX "XXXXXX", NULL);
  fd = mkostemp (name, O_CLOEXEC);
  if (fd < 0)
    {
      fail (error, folder, errno);
      return -1;
    }
  flock (fd, LOCK_EX | LOCK_NB);
  if (fchmod (fd, is_shared ? 0644 : 0600) < 0 ||
      (fallocate (fd, 0, 0, (off_t) bytes) < 0 && errno != EOPNOTSUPP && errno != ENOSYS))
    {
      llm_cache_folder_fail_write (name, errno, error);
      unlink (name);
      close (fd);
      return -1;
    }
  *path = g_steal_pointer (&name);
  return fd;
}

gboolean
llm_cache_folder_write (int           fd,
                        gconstpointer bytes,
                        gsize         size,
                        guint64       offset)
{
  for (gsize done = 0; done < size;)
    {
      gssize n = pwrite (fd, (const guint8 *) bytes + done, size - done, (off_t) (offset + done));

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          errno = n == 0 ? EIO : errno;
          return FALSE;
        }
      done += (gsize) n;
    }
  return TRUE;
}

void
llm_cache_folder_touch (int fd)
{
  const struct timespec times[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };

  (void) !futimens (fd, times);
}
