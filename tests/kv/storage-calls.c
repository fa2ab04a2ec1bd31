/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A few calls of the system, which can be made to fail, or to be slow. */

#include <errno.h>

#include "storage-rig.h"
#include "support/llm-test-pace.h"

ssize_t __real_pread64 (int fd, void *bytes, size_t length, off64_t offset);
ssize_t __real_pwrite64 (int fd, const void *bytes, size_t length, off64_t offset);
int     __real_fallocate64 (int fd, int mode, off64_t offset, off64_t length);
int     __real_renameat (int from, const char *from_name, int to, const char *to_name);
ssize_t __real_preadv64 (int fd, const struct iovec *parts, int n, off64_t offset);
ssize_t __wrap_preadv64 (int fd, const struct iovec *parts, int n, off64_t offset);
ssize_t __wrap_pread64 (int fd, void *bytes, size_t length, off64_t offset);
ssize_t __wrap_pwrite64 (int fd, const void *bytes, size_t length, off64_t offset);
int     __wrap_fallocate64 (int fd, int mode, off64_t offset, off64_t length);
int     __wrap_renameat (int from, const char *from_name, int to, const char *to_name);

/* Threads of the disk look at these. Calls that work before one fails; negative for all. */
int rig_reads_left = -1;
int rig_writes_left = -1;
/* Calls that fail before they work again. */
int rig_fallocates_failing;
int rig_renames_failing;

void
rig_set_calls (int *calls,
               int  n)
{
  __atomic_store_n (calls, n, __ATOMIC_SEQ_CST);
}

static gboolean
fails_now (int *left)
{
  return __atomic_load_n (left, __ATOMIC_SEQ_CST) >= 0
         && __atomic_fetch_sub (left, 1, __ATOMIC_SEQ_CST) == 0;
}

static gboolean
fails_still (int *failing)
{
  int n = __atomic_load_n (failing, __ATOMIC_SEQ_CST);

  while (n > 0)
    if (__atomic_compare_exchange_n (failing, &n, n - 1, FALSE, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
      return TRUE;

  return FALSE;
}

ssize_t
__wrap_pread64 (int      fd,
                void    *bytes,
                size_t   length,
                off64_t  offset)
{
  llm_test_pace_wait (length);
  if (!fails_now (&rig_reads_left))
    return __real_pread64 (fd, bytes, length, offset);
  errno = EIO;
  return -1;
}

ssize_t
__wrap_preadv64 (int                 fd,
                 const struct iovec *parts,
                 int                 n,
                 off64_t             offset)
{
  size_t length = 0;

  for (int i = 0; i < n; i++)
    length += parts[i].iov_len;
  llm_test_pace_wait (length);
  if (!fails_now (&rig_reads_left))
    return __real_preadv64 (fd, parts, n, offset);
  errno = EIO;
  return -1;
}

ssize_t
__wrap_pwrite64 (int         fd,
                 const void *bytes,
                 size_t      length,
                 off64_t     offset)
{
  llm_test_pace_wait (length);
  if (!fails_now (&rig_writes_left))
    return __real_pwrite64 (fd, bytes, length, offset);
  errno = ENOSPC;
  return -1;
}

int
__wrap_fallocate64 (int     fd,
                    int     mode,
                    off64_t offset,
                    off64_t length)
{
  if (mode != 0 || !fails_still (&rig_fallocates_failing))
    return __real_fallocate64 (fd, mode, offset, length);
  errno = ENOSPC;
  return -1;
}

int
__wrap_renameat (int         from,
                 const char *from_name,
                 int         to,
                 const char *to_name)
{
  if (!fails_still (&rig_renames_failing))
    return __real_renameat (from, from_name, to, to_name);
  errno = EIO;
  return -1;
}
