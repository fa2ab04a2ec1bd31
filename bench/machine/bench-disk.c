/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "machine/bench-limits.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT 4096
#define MAX_BLOCK (4u << 20)
/* What one sample takes at most. */
#define SAMPLE_US 200000

typedef struct
{
  int fd;
  gsize bytes;
  guint8 *buffer;   /* MAX_BLOCK */
} File;

static gboolean
make_file (File       *file,
           const char *folder,
           GError    **error)
{
  if (posix_memalign ((void **) &file->buffer, ALIGNMENT, MAX_BLOCK) != 0)
    g_error ("No memory for %u bytes", MAX_BLOCK);
  for (gsize i = 0; i < MAX_BLOCK; i++)
    file->buffer[i] = (guint8) (i * 7 >> 3);

  file->fd = open (folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file->fd < 0)
    return bench_fail_errno (error, "%s", folder);
  for (gsize at = 0; at < file->bytes; at += MAX_BLOCK)
    if (write (file->fd, file->buffer, MAX_BLOCK) != MAX_BLOCK)
      return bench_fail_errno (error, "%s", folder);
  return fsync (file->fd) == 0 || bench_fail_errno (error, "%s", folder);
}

/* Reads one block after another, or here and there, for a while; MB/s. */
static double
read_blocks (File    *file,
             gsize    block,
             gboolean is_random)
{
  gint64 begin = g_get_monotonic_time ();
  gsize n_blocks = file->bytes / block, n_read = 0;
  guint64 state = (guint64) begin;
  gint64 now;

  do
    {
      gsize at = n_read % n_blocks;

      state = state * G_GUINT64_CONSTANT (6364136223846793005) + 1442695040888963407;
      if (is_random)
        at = (gsize) (state >> 33) % n_blocks;
      if (pread (file->fd, file->buffer, block, (off_t) (at * block)) != (gssize) block)
        return 0;
      n_read++;
      now = g_get_monotonic_time ();
    }
  while (now - begin < SAMPLE_US);
  return (double) (n_read * block) / (double) (now - begin);
}

static double
read_mapped (File *file)
{
  guint8 *data = mmap (NULL, file->bytes, PROT_READ, MAP_SHARED, file->fd, 0);
  gint64 begin = g_get_monotonic_time ();
  guint64 sum = 0;

  if (data == MAP_FAILED)
    return 0;
  for (gsize i = 0; i < file->bytes; i += sizeof (guint64))
    sum += *(const volatile guint64 *) (data + i);
  begin = g_get_monotonic_time () - begin;
  munmap (data, file->bytes);
  return sum != 1 ? (double) file->bytes / (double) begin : 0;
}

static void
measure_blocks (Bench      *bench,
                File       *file,
                const char *how,
                gsize       block,
                gboolean    is_random)
{
  bench_add (bench, "MB/s", read_blocks (file, block, is_random),
             "disk, %s, %s blocks of %" G_GSIZE_FORMAT " KiB", how,
             is_random ? "scattered" : "consecutive", block / 1024);
}

static void
measure_file (Bench *bench,
              File  *file,
              guint  n_runs)
{
  static const gsize blocks[] = { 4u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20 };
  int flags = fcntl (file->fd, F_GETFL);
  gboolean is_direct = fcntl (file->fd, F_SETFL, flags | O_DIRECT) == 0;
  const char *how = is_direct ? "past the page cache" : "the file system knows no other way than "
                                                        "through the page cache";

  for (guint run = 0; run < n_runs; run++)
    for (guint i = 0; i < G_N_ELEMENTS (blocks); i++)
      for (guint is_random = 0; is_random < 2; is_random++)
        {
          if (!is_direct)
            posix_fadvise (file->fd, 0, 0, POSIX_FADV_DONTNEED);
          measure_blocks (bench, file, how, blocks[i], is_random);
        }

  fcntl (file->fd, F_SETFL, flags);
  for (gsize at = 0; at < file->bytes; at += MAX_BLOCK)
    if (pread (file->fd, file->buffer, MAX_BLOCK, (off_t) at) < 0)
      return;
  for (guint run = 0; run < n_runs; run++)
    {
      measure_blocks (bench, file, "from the page cache", 1u << 20, FALSE);
      bench_add (bench, "MB/s", read_mapped (file), "disk, from the page cache, mapped anew");
    }
}

gboolean
bench_disk_measure (Bench       *bench,
                    const char  *folder,
                    gsize        bytes,
                    guint        n_runs,
                    GError     **error)
{
  File file = { -1, MAX (bytes / MAX_BLOCK, 1) * MAX_BLOCK, NULL };
  gboolean is_made = make_file (&file, folder, error);

  if (is_made)
    measure_file (bench, &file, n_runs);
  if (file.fd >= 0)
    close (file.fd);
  free (file.buffer);
  return is_made;
}
