/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "io/llm-file-map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "io/llm-map-guard.h"

#define BYTES_ALIGNMENT 64
#define MINCORE_PAGES ((gsize) 4096)
#define PAGEMAP_PAGES ((gsize) 512)
#define TAIL_BYTES ((guint64) 2 << 20)
#define POPULATE_BYTES ((guint64) 16 << 20)
/* Limit of a call's length: the kernel reads no more ahead in one call than the device takes at
 * once or its own read-ahead, of which this is the default. */
#define PREFETCH_BYTES ((guint64) 128 << 10)

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

typedef struct
{
  int fd;                   /* (owned) */
  guint64 offset;           /* in the map: a multiple of a page */
  LlmFileIdentity identity;
} Part;

struct _LlmFileMap
{
  gatomicrefcount ref_count;

  const guint8 *data;
  guint64 size;

  Part *parts;        /* (owned) [n_parts]: files; none for bytes */
  guint n_parts;
  gboolean is_huge;   /* mapped for huge pages */
  gboolean is_told;   /* the kernel reports its pages in the page cache */
  LlmMapGuard *guard; /* (nullable), NULL for bytes */
  GBytes *bytes;      /* (nullable) */
  guint8 *copy;       /* (nullable) (owned): of bytes that were not aligned */
};

static gsize page_size;

/* Called before the first file is mapped. */
static void
begin_first (void)
{
  static gsize has_begun = 0;

  if (g_once_init_enter (&has_begun))
    {
      llm_map_guard_install ();
      page_size = (gsize) sysconf (_SC_PAGESIZE);
      g_once_init_leave (&has_begun, 1);
    }
}

/* Of the last failed call. */
static int
get_code (void)
{
  if (errno == ENOENT || errno == ENOTDIR)
    return LLMSVC_ERROR_NOT_FOUND;
  if (errno == EACCES || errno == EPERM)
    return LLMSVC_ERROR_NOT_AUTHORIZED;
  return errno == ENOMEM ? LLMSVC_ERROR_NO_MEMORY : LLMSVC_ERROR_FAILED;
}

static void
fill_identity (LlmFileIdentity   *identity,
               const struct stat *status)
{
  *identity = (LlmFileIdentity) {
    .device = status->st_dev,
    .inode = status->st_ino,
    .size = (guint64) status->st_size,
    .modified_s = status->st_mtim.tv_sec,
    .modified_ns = status->st_mtim.tv_nsec,
    .changed_s = status->st_ctim.tv_sec,
    .changed_ns = status->st_ctim.tv_nsec,
    .uid = status->st_uid,
    .mode = status->st_mode,
  };
}

gboolean
llm_file_identity_read (int              fd,
                        LlmFileIdentity *identity)
{
  struct stat status;

  if (fstat (fd, &status) < 0)
    return FALSE;
  fill_identity (identity, &status);
  return TRUE;
}

gboolean
llm_file_identity_read_path (const char      *path,
                             LlmFileIdentity *identity)
{
  struct stat status;

  if (stat (path, &status) < 0)
    return FALSE;
  fill_identity (identity, &status);
  return TRUE;
}

gboolean
llm_file_identity_equal (const LlmFileIdentity *a,
                         const LlmFileIdentity *b,
                         gboolean               is_strict)
{
  return (!is_strict || a->device == b->device) && a->inode == b->inode && a->size == b->size &&
         a->modified_s == b->modified_s && a->modified_ns == b->modified_ns &&
         a->changed_s == b->changed_s && a->changed_ns == b->changed_ns;
}

/* The part of the range that is in the file, from its page on. FALSE for an empty one, and for
 * bytes. */
static gboolean
find_pages (LlmFileMap *self,
            guint64     offset,
            guint64     length,
            guint64    *begin,
            guint64    *end)
{
  if (self->n_parts == 0 || offset >= self->size || length == 0)
    return FALSE;

  *begin = offset & ~(guint64) (page_size - 1);
  *end = offset + MIN (length, self->size - offset);
  return TRUE;
}

/* Maps the file at an address that is a multiple of a huge page: reserves more addresses first, and
 * unmaps the rest on both sides. */
static void *
map_aligned (int    fd,
             size_t size)
{
  size_t reserved = size + LLM_FILE_MAP_HUGE;
  guint8 *base, *aligned, *end;
  void *data;

  base = mmap (NULL, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return MAP_FAILED;

  aligned = base + (LLM_FILE_MAP_HUGE - (uintptr_t) base % LLM_FILE_MAP_HUGE) % LLM_FILE_MAP_HUGE;
  data = mmap (aligned, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED)
    {
      int saved_errno = errno;

      munmap (base, reserved);
      errno = saved_errno;
      return MAP_FAILED;
    }

  end = aligned + (size + page_size - 1) / page_size * page_size;
  if (aligned > base)
    munmap (base, (size_t) (aligned - base));
  munmap (end, (size_t) (base + reserved - end));
  madvise (data, size, MADV_HUGEPAGE);
  return data;
}

/* The condition of mincore(): to own the file, or to be allowed to write it. */
static gboolean
is_told_of_cache (int    fd,
                  guint32 uid)
{
  char path[sizeof "/proc/self/fd/" + 3 * sizeof fd];

  g_snprintf (path, sizeof path, "/proc/self/fd/%d", fd);
  return uid == geteuid () || faccessat (AT_FDCWD, path, W_OK, AT_EACCESS) == 0;
}

static gboolean
guard (LlmFileMap  *self,
       const char  *shown,
       GError     **error)
{
  self->guard = llm_map_guard_enter (self->data, self->size);
  if (self->guard == NULL)
    llm_fail (error, LLMSVC_ERROR_FAILED,
              "Can't map “%s”: %d files are mapped already, which is the limit", shown,
              LLM_MAX_MAP_GUARDS);
  return self->guard != NULL;
}

/* Takes @fd; -1 with errno set where it could not be opened. */
static LlmFileMap *
new_for_fd (int          fd,
            const char  *path,
            gboolean     is_huge,
            GError     **error)
{
  g_autoptr(LlmFileMap) self = g_new0 (LlmFileMap, 1);
  g_autofree char *shown = g_filename_display_name (path);
  LlmFileIdentity identity;
  void *data;

  g_atomic_ref_count_init (&self->ref_count);
  if (fd < 0)
    return llm_fail_null (error, get_code (), "Can't open “%s”: %s", shown, g_strerror (errno));
  self->parts = g_new0 (Part, 1);
  self->n_parts = 1;
  self->parts[0].fd = fd;
  if (!llm_file_identity_read (fd, &identity))
    return llm_fail_null (error, get_code (), "Can't open “%s”: %s", shown, g_strerror (errno));
  self->parts[0].identity = identity;

  if (S_ISDIR (identity.mode))
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                          "“%s” is a folder, a file is needed", shown);
  if (!S_ISREG (identity.mode))
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_ARGUMENT,
                          "“%s” is a special file, a regular one is needed", shown);
  if (identity.size == 0)
    return llm_fail_null (error, LLMSVC_ERROR_INVALID_ARGUMENT, "“%s” is an empty file", shown);

  if (is_huge)
    data = map_aligned (fd, identity.size);
  else
    data = mmap (NULL, identity.size, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED)
    return llm_fail_null (error, get_code (), "Can't map “%s”: %s", shown, g_strerror (errno));
  self->data = data;
  self->size = identity.size;
  self->is_huge = is_huge;
  self->is_told = is_told_of_cache (fd, identity.uid);

  return guard (self, shown, error) ? g_steal_pointer (&self) : NULL;
}

LlmFileMap *
llm_file_map_open (const char  *path,
                   GError     **error)
{
  begin_first ();
  /* O_NONBLOCK: does not wait for the other end of a pipe. */
  return new_for_fd (open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), path, FALSE, error);
}

LlmFileMap *
llm_file_map_new_for_fd (int          fd,
                         const char  *path,
                         GError     **error)
{
  g_return_val_if_fail (fd >= 0, NULL);

  begin_first ();
  return new_for_fd (fd, path, TRUE, error);
}

LlmFileMap *
llm_file_map_join (LlmFileMap *const  *maps,
                   guint               n_maps,
                   GError            **error)
{
  g_autoptr(LlmFileMap) self = g_new0 (LlmFileMap, 1);
  guint8 *data;

  g_atomic_ref_count_init (&self->ref_count);
  self->is_told = TRUE;
  self->parts = g_new0 (Part, n_maps);
  for (guint i = 0; i < n_maps; i++)
    {
      Part *part = &self->parts[i];

      g_assert (maps[i]->n_parts == 1);
      *part = maps[i]->parts[0];
      part->offset = (self->size + page_size - 1) / page_size * page_size;
      part->fd = fcntl (part->fd, F_DUPFD_CLOEXEC, 0);
      if (part->fd < 0)
        return llm_fail_null (error, get_code (), "Can't map several files as one: %s",
                              g_strerror (errno));
      self->n_parts++;
      self->size = part->offset + part->identity.size;
      self->is_told = self->is_told && maps[i]->is_told;
    }

  data = mmap (NULL, self->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    return llm_fail_null (error, get_code (), "Can't map several files as one: %s",
                          g_strerror (errno));
  self->data = data;
  for (guint i = 0; i < n_maps; i++)
    if (mmap (data + self->parts[i].offset, self->parts[i].identity.size, PROT_READ,
              MAP_SHARED | MAP_FIXED, self->parts[i].fd, 0) == MAP_FAILED)
      return llm_fail_null (error, get_code (), "Can't map several files as one: %s",
                            g_strerror (errno));
  return guard (self, "*", error) ? g_steal_pointer (&self) : NULL;
}

LlmFileMap *
llm_file_map_new_for_bytes (GBytes *bytes)
{
  LlmFileMap *self;
  gsize size;

  self = g_new0 (LlmFileMap, 1);
  g_atomic_ref_count_init (&self->ref_count);
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
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_file_map_unref (LlmFileMap *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;

  g_clear_pointer (&self->guard, llm_map_guard_leave);
  if (self->n_parts > 0 && self->data != NULL)
    munmap ((void *) self->data, self->size);
  for (guint i = 0; i < self->n_parts; i++)
    close (self->parts[i].fd);
  g_free (self->parts);
  g_aligned_free (self->copy);
  g_clear_pointer (&self->bytes, g_bytes_unref);
  g_free (self);
}

const guint8 *
llm_file_map_get_data (LlmFileMap *self)
{
  return self->data;
}

guint64
llm_file_map_get_size (LlmFileMap *self)
{
  return self->size;
}

static void
take_later (gint64 *s,
            gint64 *ns,
            gint64  other_s,
            gint64  other_ns)
{
  if (other_s < *s || (other_s == *s && other_ns <= *ns))
    return;
  *s = other_s;
  *ns = other_ns;
}

gboolean
llm_file_map_get_identity (LlmFileMap      *self,
                           LlmFileIdentity *identity)
{
  if (self->n_parts == 0)
    {
      memset (identity, 0, sizeof *identity);
      return FALSE;
    }
  *identity = self->parts[0].identity;
  for (guint i = 1; i < self->n_parts; i++)
    {
      const LlmFileIdentity *part = &self->parts[i].identity;

      identity->size += part->size;
      identity->mode &= part->mode;
      take_later (&identity->modified_s, &identity->modified_ns, part->modified_s,
                  part->modified_ns);
      take_later (&identity->changed_s, &identity->changed_ns, part->changed_s,
                  part->changed_ns);
    }
  return TRUE;
}

int
llm_file_map_get_fd (LlmFileMap *self)
{
  return self->n_parts > 0 ? self->parts[0].fd : -1;
}

int
llm_file_map_get_part (LlmFileMap      *self,
                       guint            i,
                       guint64         *offset,
                       LlmFileIdentity *identity)
{
  if (i >= self->n_parts)
    return -1;
  *offset = self->parts[i].offset;
  *identity = self->parts[i].identity;
  return self->parts[i].fd;
}

/* A file may also change without losing a page: truncated within its last page, or overwritten. Its
 * size and time show that. */
gboolean
llm_file_map_is_damaged (LlmFileMap *self)
{
  gboolean is_damaged = self->guard != NULL && llm_map_guard_is_damaged (self->guard);

  for (guint i = 0; !is_damaged && i < self->n_parts; i++)
    {
      const LlmFileIdentity *then = &self->parts[i].identity;
      LlmFileIdentity now;

      is_damaged = !llm_file_identity_read (self->parts[i].fd, &now) || now.size != then->size
                   || now.modified_s != then->modified_s || now.modified_ns != then->modified_ns;
    }
  return is_damaged;
}

void
llm_file_map_set_damaged (LlmFileMap *self)
{
  g_return_if_fail (self->guard != NULL);

  llm_map_guard_set_damaged (self->guard);
}

/* Fills in @is_there for the pages from @data on. */
static gboolean
read_residency (LlmFileMap    *self,
                int            pagemap,
                const guint8  *data,
                gsize          n_pages,
                guint8        *is_there)
{
  guint64 entries[PAGEMAP_PAGES];

  if (self->is_told)
    return mincore ((void *) data, n_pages * page_size, is_there) == 0;
  for (gsize at = 0; at < n_pages; at += PAGEMAP_PAGES)
    {
      gsize n = MIN (n_pages - at, PAGEMAP_PAGES);
      guint64 page = (uintptr_t) data / page_size + at;

      if (pread (pagemap, entries, n * sizeof *entries, (off_t) (page * sizeof *entries))
          != (gssize) (n * sizeof *entries))
        return FALSE;
      for (gsize i = 0; i < n; i++)
        is_there[at + i] = (guint8) (entries[i] >> 63);
    }
  return TRUE;
}

guint64
llm_file_map_count_resident (LlmFileMap *self,
                             guint64     offset,
                             guint64     length)
{
  guint8 is_there[MINCORE_PAGES];
  guint64 begin, end, count = 0;
  int pagemap = -1;

  if (!find_pages (self, offset, length, &begin, &end))
    return self->n_parts == 0 && offset < self->size ? MIN (length, self->size - offset) : 0;
  if (!self->is_told)
    pagemap = open ("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

  for (guint64 at = begin; at < end; at += MINCORE_PAGES * page_size)
    {
      gsize n = (MIN (end - at, MINCORE_PAGES * page_size) + page_size - 1) / page_size;

      if (!read_residency (self, pagemap, self->data + at, n, is_there))
        {
          count = end - offset;
          break;
        }
      for (gsize i = 0; i < n; i++)
        if ((is_there[i] & 1) != 0)
          count += MIN (at + (i + 1) * page_size, end) - MAX (at + i * page_size, offset);
    }
  if (pagemap >= 0)
    close (pagemap);
  return count;
}

guint64
llm_file_map_find_resident_tail (LlmFileMap *self,
                                 guint64     first,
                                 guint64     end,
                                 guint64     bytes,
                                 guint64    *resident)
{
  guint64 begin;

  begin = MIN (end, self->size);
  *resident = 0;
  while (begin > first && *resident < bytes)
    {
      guint64 next = MAX ((begin - 1) / TAIL_BYTES * TAIL_BYTES, first);

      *resident += llm_file_map_count_resident (self, next, begin - next);
      begin = next;
    }
  return begin;
}

void
llm_file_map_set_random (LlmFileMap *self,
                         gboolean    is_random)
{
  if (self->n_parts == 0)
    return;
  madvise ((void *) self->data, self->size, is_random ? MADV_RANDOM : MADV_NORMAL);
  /* with huge pages, one missing page would cause reads of two huge ones */
  if (self->is_huge)
    madvise ((void *) self->data, self->size, is_random ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
}

void
llm_file_map_prefetch (LlmFileMap *self,
                       guint64     offset,
                       guint64     length)
{
  guint64 begin, end;

  if (!find_pages (self, offset, length, &begin, &end))
    return;
  for (guint64 at = begin; at < end; at += PREFETCH_BYTES)
    madvise ((void *) (self->data + at), MIN (end - at, PREFETCH_BYTES), MADV_WILLNEED);
}

/* In pieces, because a call blocks other threads that map or unmap. A kernel before 5.14 does not
 * know the advice, and only reads ahead. */
void
llm_file_map_populate (LlmFileMap *self,
                       guint64     offset,
                       guint64     length)
{
  guint64 begin, end;
  int advice = MADV_POPULATE_READ;

  if (!find_pages (self, offset, length, &begin, &end))
    return;
  for (guint64 at = begin; at < end; at += POPULATE_BYTES)
    {
      gsize span = (gsize) MIN (end - at, POPULATE_BYTES);

      if (madvise ((void *) (self->data + at), span, advice) == 0)
        continue;
      if (errno != EINVAL || advice == MADV_WILLNEED)
        return;
      advice = MADV_WILLNEED;
      madvise ((void *) (self->data + at), span, advice);
    }
}

/* The part whose pages it shares with no neighbour; the file's last page has none. */
static gboolean
find_own_pages (LlmFileMap *self,
                guint64     offset,
                guint64     length,
                guint64    *begin,
                guint64    *end)
{
  if (!find_pages (self, offset, length, begin, end))
    return FALSE;
  *begin = (offset + page_size - 1) & ~(guint64) (page_size - 1);
  *end = *end == self->size ? *end : *end & ~(guint64) (page_size - 1);
  return *begin < *end;
}

void
llm_file_map_drop (LlmFileMap *self,
                   guint64     offset,
                   guint64     length)
{
  guint64 begin, end;

  if (!find_own_pages (self, offset, length, &begin, &end))
    return;
  madvise ((void *) (self->data + begin), end - begin, MADV_DONTNEED);
  for (guint i = 0; i < self->n_parts; i++)
    {
      const Part *part = &self->parts[i];
      guint64 first = MAX (begin, part->offset);
      guint64 last = MIN (end, part->offset + part->identity.size);

      if (first < last)
        posix_fadvise (part->fd, (off_t) (first - part->offset), (off_t) (last - first),
                       POSIX_FADV_DONTNEED);
    }
}

/* Splits only pages that no other process maps; a kernel before 5.4 does not know the advice. */
void
llm_file_map_drop_exactly (LlmFileMap *self,
                           guint64     offset,
                           guint64     length)
{
  guint64 begin, end, edge;

  if (!find_own_pages (self, offset, length, &begin, &end))
    return;
  edge = MIN (begin + LLM_FILE_MAP_HUGE, end);
  madvise ((void *) (self->data + begin), edge - begin, MADV_PAGEOUT);
  edge = MAX (edge, (end - MIN (end, LLM_FILE_MAP_HUGE)) & ~(guint64) (page_size - 1));
  if (edge < end)
    madvise ((void *) (self->data + edge), end - edge, MADV_PAGEOUT);
  llm_file_map_drop (self, offset, length);
}
