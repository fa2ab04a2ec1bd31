/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-disk.h"

#include <errno.h>
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
fail (GError    **error,
      const char *what)
{
  int code = errno;

  g_set_error (error, G_IO_ERROR, (int) g_io_error_from_errno (code), "%s: %s", what,
               g_strerror (code));
  return FALSE;
}

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
    return fail (error, folder);
  for (gsize at = 0; at < file->bytes; at += MAX_BLOCK)
    if (write (file->fd, file->buffer, MAX_BLOCK) != MAX_BLOCK)
      return fail (error, folder);
  return fsync (file->fd) == 0 || fail (error, folder);
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
add (GPtrArray  *figures,
     const char *how,
     gsize       block,
     gboolean    is_random,
     double      sample)
{
  g_autofree char *name = g_strdup_printf ("disk, %s, %s blocks of %" G_GSIZE_FORMAT " KiB", how,
                                           is_random ? "scattered" : "consecutive", block / 1024);

  bench_figures_add (figures, name, "MB/s", sample);
}

static void
measure_file (GPtrArray *figures,
              File      *file,
              guint      n_runs)
{
  static const gsize blocks[] = { 4u << 10, 16u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20 };
  const gsize warm_block = 1u << 20;
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
          add (figures, how, blocks[i], is_random, read_blocks (file, blocks[i], is_random));
        }

  fcntl (file->fd, F_SETFL, flags);
  for (gsize at = 0; at < file->bytes; at += MAX_BLOCK)
    if (pread (file->fd, file->buffer, MAX_BLOCK, (off_t) at) < 0)
      return;
  for (guint run = 0; run < n_runs; run++)
    {
      add (figures, "from the page cache", warm_block, FALSE,
           read_blocks (file, warm_block, FALSE));
      bench_figures_add (figures, "disk, from the page cache, mapped anew", "MB/s",
                         read_mapped (file));
    }
}

gboolean
bench_disk_measure (GPtrArray   *figures,
                    const char  *folder,
                    gsize        bytes,
                    guint        n_runs,
                    GError     **error)
{
  File file = { -1, MAX (bytes / MAX_BLOCK, 1) * MAX_BLOCK, NULL };
  gboolean is_made = make_file (&file, folder, error);

  if (is_made)
    measure_file (figures, &file, n_runs);
  if (file.fd >= 0)
    close (file.fd);
  free (file.buffer);
  return is_made;
}
