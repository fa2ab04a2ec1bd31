/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The disk queue, with each of those that move its bytes. pread() and pwrite() of the threads are
 * wrapped, so that they can fail, be short and be slow. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "io/llm-disk.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-pace.h"

#define BLOCK LLM_DISK_BLOCK
#define WAIT_US (60 * G_USEC_PER_SEC)

ssize_t __real_pread64 (int fd, void *bytes, size_t length, off64_t offset);
ssize_t __real_pwrite64 (int fd, const void *bytes, size_t length, off64_t offset);
ssize_t __real_preadv64 (int fd, const struct iovec *parts, int n, off64_t offset);
ssize_t __wrap_preadv64 (int fd, const struct iovec *parts, int n, off64_t offset);
ssize_t __wrap_pread64 (int fd, void *bytes, size_t length, off64_t offset);
ssize_t __wrap_pwrite64 (int fd, const void *bytes, size_t length, off64_t offset);

/* What the wrapped functions do: each bit of this (from the lowest on) says of a call whether it is
 * interrupted, and those that are not are short as long as bits are left. */
static guint trouble;

static gboolean
take_trouble (size_t *length)
{
  guint old = (guint) g_atomic_int_get ((gint *) &trouble);

  if (old == 0)
    return FALSE;
  g_atomic_int_set ((gint *) &trouble, old >> 1);
  if (old & 1)
    {
      errno = old & 2 ? EINTR : EAGAIN;
      return TRUE;
    }
  *length = MAX (*length / 2 / BLOCK * BLOCK, MIN (*length, BLOCK));
  return FALSE;
}

ssize_t
__wrap_pread64 (int      fd,
                void    *bytes,
                size_t   length,
                off64_t  offset)
{
  llm_test_pace_wait (length);
  return take_trouble (&length) ? -1 : __real_pread64 (fd, bytes, length, offset);
}

ssize_t
__wrap_preadv64 (int                 fd,
                 const struct iovec *parts,
                 int                 n,
                 off64_t             offset)
{
  struct iovec some[LLM_DISK_MAX_PARTS];
  size_t length = 0, left;

  for (int i = 0; i < n; i++)
    length += parts[i].iov_len;
  llm_test_pace_wait (length);
  if (take_trouble (&length))
    return -1;
  left = length;
  for (int i = 0; i < n; i++)
    {
      some[i] = (struct iovec) { parts[i].iov_base, MIN (parts[i].iov_len, left) };
      left -= some[i].iov_len;
    }
  return __real_preadv64 (fd, some, n, offset);
}

ssize_t
__wrap_pwrite64 (int         fd,
                 const void *bytes,
                 size_t      length,
                 off64_t     offset)
{
  llm_test_pace_wait (length);
  return take_trouble (&length) ? -1 : __real_pwrite64 (fd, bytes, length, offset);
}

typedef struct
{
  LlmDisk *disk;
  char *folder;
  int folder_fd;
  GArray *log;           /* (element-type guint): classes of the writes that were begun */
} Fixture;

typedef struct
{
  Fixture *fixture;
  LlmDiskClass io_class;
  guint seed;            /* of its bytes */
  gsize wanted;
  gssize n;
  guint n_answers;
} Request;

static guint8
get_byte (guint seed,
          gsize at)
{
  return (guint8) (seed * 31 + at * 7 + at / 251);
}

static void
on_fill (guint8   *buffer,
         gsize     length,
         gpointer  data)
{
  Request *request = data;
  Fixture *fixture = request->fixture;
  guint io_class = request->io_class;

  for (gsize i = 0; i < length; i++)
    buffer[i] = get_byte (request->seed, i);
  g_array_append_val (fixture->log, io_class);
}

static void
on_written (gssize        n,
            const guint8 *buffer,
            gpointer      data)
{
  Request *request = data;

  g_assert_null (buffer);
  request->n = n;
  request->n_answers++;
}

static void
on_read (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  Request *request = data;

  request->n = n;
  request->n_answers++;
  for (gssize i = 0; i < n; i++)
    g_assert_cmpuint (buffer[i], ==, get_byte (request->seed, (gsize) i));
}

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  const char *name = data;
  g_autoptr(GError) error = NULL;

  fixture->disk = llm_disk_new (strcmp (name, "paced") == 0 ? "threads" : name, &error);
  g_assert_no_error (error);
  llm_test_pace_set (20, strcmp (name, "paced") == 0 ? 400000000 : 0);
  fixture->folder = llm_test_folder_new_on_disk ();
  fixture->folder_fd = g_open (fixture->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  fixture->log = g_array_new (FALSE, FALSE, sizeof (guint));
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  llm_disk_free (fixture->disk);
  close (fixture->folder_fd);
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
  g_array_unref (fixture->log);
}

static int
open_file (Fixture    *fixture,
           const char *name,
           int         flags)
{
  int fd = llm_disk_open (fixture->disk, fixture->folder_fd, name, flags);

  g_assert_cmpint (fd, >=, 0);
  return fd;
}

static guint
count_pending (Fixture *fixture)
{
  guint n = 0;

  for (guint i = 0; i < LLM_N_DISK_CLASSES; i++)
    n += llm_disk_get_n_pending (fixture->disk, i);
  return n;
}

static void
wait_for_all (Fixture *fixture)
{
  while (count_pending (fixture) > 0)
    g_assert_cmpuint (llm_disk_poll (fixture->disk, WAIT_US), >, 0);
}

static void
begin_request (Fixture      *fixture,
               Request      *request,
               LlmDiskClass  io_class,
               int           fd,
               guint         place,
               gsize         length,
               gboolean      writes)
{
  guint64 offset = (guint64) place * LLM_DISK_MAX_BYTES;

  *request = (Request) { .fixture = fixture, .io_class = io_class, .seed = place,
                         .wanted = length };
  if (writes)
    llm_disk_write (fixture->disk, io_class, fd, offset, length, on_fill, on_written, request);
  else
    llm_disk_read (fixture->disk, io_class, fd, offset, length, on_read, request);
}

/* One request, to its end. */
static gssize
run_request (Fixture      *fixture,
             int           fd,
             guint         place,
             gsize         length,
             gboolean      writes)
{
  Request request;

  begin_request (fixture, &request, LLM_DISK_RESTORE, fd, place, length, writes);
  wait_for_all (fixture);
  g_assert_cmpuint (request.n_answers, ==, 1);
  return request.n;
}

static gsize
get_length (guint place)
{
  return (place % 5 == 0 ? LLM_DISK_MAX_BYTES / BLOCK : 1 + place % 13) * (gsize) BLOCK;
}

static void
test_bytes (Fixture       *fixture,
            gconstpointer  data)
{
  Request requests[60];
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT | O_EXCL);

  for (int writes = TRUE; writes >= FALSE; writes--)
    {
      for (guint i = 0; i < G_N_ELEMENTS (requests); i++)
        begin_request (fixture, &requests[i], i % LLM_N_DISK_CLASSES, fd, i, get_length (i),
                       writes);
      g_assert_cmpuint (llm_disk_get_n_pending (fixture->disk, LLM_DISK_RESTORE), ==, 20);
      wait_for_all (fixture);
      for (guint i = 0; i < G_N_ELEMENTS (requests); i++)
        {
          g_assert_cmpuint (requests[i].n_answers, ==, 1);
          g_assert_cmpint (requests[i].n, ==, requests[i].wanted);
        }
      /* The buffers go, and come back. */
      llm_disk_trim (fixture->disk);
    }
  close (fd);
  g_assert_cmpint (llm_disk_open (fixture->disk, fixture->folder_fd, "file",
                                  O_RDWR | O_CREAT | O_EXCL), ==, -EEXIST);
  g_assert_cmpint (llm_disk_open (fixture->disk, fixture->folder_fd, "other", O_RDONLY), ==,
                   -ENOENT);
}

#define GUARD 0xa5

typedef struct
{
  guint8 *memory;        /* (owned) */
  struct iovec parts[LLM_DISK_MAX_PARTS];
  guint n;
  gsize length;
  gssize result;         /* -1 until the answer */
} Parts;

static void
on_parts_read (gssize        n,
               const guint8 *buffer,
               gpointer      data)
{
  Parts *parts = data;

  g_assert_null (buffer);
  parts->result = n;
}

/* Parts of 1 to @most units each, up to @length bytes; between them, and in front of the first, are
 * @shift bytes and whole sectors. */
static void
read_parts (Fixture *fixture,
            int      fd,
            guint64  offset,
            gsize    length,
            gsize    unit,
            gsize    shift,
            Parts   *parts)
{
  gsize at = shift;

  *parts = (Parts) { .memory = g_aligned_alloc (1, 2 * LLM_DISK_MAX_BYTES, BLOCK), .result = -1 };
  memset (parts->memory, GUARD, 2 * LLM_DISK_MAX_BYTES);
  while (parts->length < length)
    {
      gsize bytes = MIN ((1 + (gsize) parts->n * 5 % 17) * unit, length - parts->length);

      parts->parts[parts->n++] = (struct iovec) { parts->memory + at, bytes };
      parts->length += bytes;
      at += bytes + LLM_DISK_SECTOR;
    }
  llm_disk_read_parts (fixture->disk, LLM_DISK_RESTORE, fd, offset, parts->parts, parts->n,
                       on_parts_read, parts);
  wait_for_all (fixture);
}

/* The bytes are where they belong, as far as the file goes, and nowhere else. */
static void
check_parts (Parts   *parts,
             guint64  offset,
             guint64  file_bytes)
{
  gsize there = offset < file_bytes ? MIN (parts->length, file_bytes - offset) : 0;
  guint8 *at = parts->memory;
  gsize done = 0;

  g_assert_cmpint (parts->result, ==, there);
  for (guint i = 0; i < parts->n; i++)
    {
      guint8 *base = parts->parts[i].iov_base;

      for (; at < base; at++)
        g_assert_cmpuint (*at, ==, GUARD);
      for (gsize j = 0; j < parts->parts[i].iov_len && done < there; j++, done++)
        g_assert_cmpuint (base[j], ==, get_byte (0, offset + done));
      at = base + parts->parts[i].iov_len;
    }
  for (; at < parts->memory + 2 * LLM_DISK_MAX_BYTES; at++)
    g_assert_cmpuint (*at, ==, GUARD);
  g_aligned_free (parts->memory);
}

/* Whether the kernel can bring single sectors to where they are wanted. */
static gboolean
has_sectors (int fd)
{
  guint8 *memory = g_aligned_alloc (1, BLOCK, BLOCK);
  gboolean is_able = __real_pread64 (fd, memory + LLM_DISK_SECTOR, LLM_DISK_SECTOR,
                                     LLM_DISK_SECTOR) == LLM_DISK_SECTOR;

  g_aligned_free (memory);
  return is_able;
}

/* Sectors come without a copy; what is no whole number of them comes as well. */
static void
test_parts (Fixture       *fixture,
            gconstpointer  data)
{
  const gsize file_bytes = LLM_DISK_MAX_BYTES / 2;
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT | O_EXCL);
  gboolean is_direct = (fcntl (fd, F_GETFL) & O_DIRECT) != 0;
  Parts parts;

  g_assert_cmpint (run_request (fixture, fd, 0, file_bytes, TRUE), ==, file_bytes);
  for (guint i = 0; i < 40; i++)
    {
      guint64 offset = (guint64) i * i * LLM_DISK_SECTOR;

      read_parts (fixture, fd, offset, (1 + i * 3) * LLM_DISK_SECTOR, LLM_DISK_SECTOR, 0, &parts);
      check_parts (&parts, offset, file_bytes);
    }
  if (has_sectors (fd))
    g_assert_cmpuint (llm_disk_get_copied_bytes (fixture->disk), ==, 0);

  for (guint i = 0; i < 40; i++)
    {
      guint64 before = llm_disk_get_copied_bytes (fixture->disk);
      guint64 offset = (guint64) i * 3301;

      read_parts (fixture, fd, offset, 7 + i * 331, 101, 1, &parts);
      if (is_direct)
        g_assert_cmpint (llm_disk_get_copied_bytes (fixture->disk) - before, ==, parts.result);
      check_parts (&parts, offset, file_bytes);
    }
  close (fd);
}

#define N_INTO 40

/* Many long reads right to where they belong, more than may be under way at once, and the last one
 * reaches behind the end of the file; a restore beside them begins at once: it can't be cancelled. */
static void
test_into (Fixture       *fixture,
           gconstpointer  data)
{
  const gsize end = 2 * LLM_DISK_MAX_INTO + 5 * BLOCK + 100;
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT | O_EXCL);
  Parts reads[N_INTO];
  Request restore;

  for (guint place = 0; place * LLM_DISK_MAX_BYTES < end; place++)
    g_assert_cmpint (run_request (fixture, fd, place, LLM_DISK_MAX_BYTES, TRUE), >, 0);
  g_assert_cmpint (ftruncate (fd, (off_t) end), ==, 0);

  for (guint i = 0; i < N_INTO; i++)
    {
      reads[i] = (Parts) { .memory = g_aligned_alloc (1, LLM_DISK_MAX_INTO + BLOCK, BLOCK),
                           .length = LLM_DISK_MAX_INTO - (i % 3) * BLOCK, .result = -1 };
      memset (reads[i].memory, GUARD, LLM_DISK_MAX_INTO + BLOCK);
    }
  for (guint i = 0; i < N_INTO; i++)
    llm_disk_read_into (fixture->disk, LLM_DISK_WEIGHTS, fd, i * 12 * BLOCK, reads[i].memory,
                        reads[i].length, on_parts_read, &reads[i]);
  begin_request (fixture, &restore, LLM_DISK_RESTORE, fd, 1, BLOCK, FALSE);
  /* Nothing that is under way ends without a poll: of the reads some still wait. */
  llm_disk_cancel (fixture->disk, &restore);
  wait_for_all (fixture);
  g_assert_cmpint (restore.n, ==, BLOCK);

  for (guint i = 0; i < N_INTO; i++)
    {
      gsize offset = i * 12 * BLOCK;
      gsize wanted = MIN (reads[i].length, end - offset);

      g_assert_cmpint (reads[i].result, ==, wanted);
      for (gsize at = 0; at < wanted; at += 61)
        g_assert_cmpuint (reads[i].memory[at], ==,
                          get_byte ((guint) ((offset + at) / LLM_DISK_MAX_BYTES),
                                    (offset + at) % LLM_DISK_MAX_BYTES));
      for (gsize at = reads[i].length; at < LLM_DISK_MAX_INTO + BLOCK; at++)
        g_assert_cmpuint (reads[i].memory[at], ==, GUARD);
      g_aligned_free (reads[i].memory);
    }
  g_assert_cmpuint (llm_disk_get_copied_bytes (fixture->disk), ==, 0);
  close (fd);
}

/* Better classes begin before others that were asked earlier; few write ahead. */
static void
test_classes (Fixture       *fixture,
              gconstpointer  data)
{
  const guint n_asked[LLM_N_DISK_CLASSES] = { 8, 20, 10 };
  Request requests[38];
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT | O_EXCL);
  guint n_begun[LLM_N_DISK_CLASSES] = { 0 };
  guint n_weights = 0;
  guint n = 0;

  for (int io_class = LLM_DISK_AHEAD; io_class >= LLM_DISK_RESTORE; io_class--)
    for (guint i = 0; i < n_asked[io_class]; i++, n++)
      begin_request (fixture, &requests[n], io_class, fd, n, BLOCK, TRUE);
  for (guint i = 0; i < fixture->log->len; i++)
    n_begun[g_array_index (fixture->log, guint, i)]++;
  g_assert_cmpuint (n_begun[LLM_DISK_AHEAD], ==, 2);
  g_assert_cmpuint (n_begun[LLM_DISK_WEIGHTS], ==, 8);
  g_assert_cmpuint (n_begun[LLM_DISK_RESTORE], ==, 6);
  wait_for_all (fixture);
  close (fd);

  g_assert_cmpuint (n, ==, G_N_ELEMENTS (requests));
  g_assert_cmpuint (fixture->log->len, ==, n);
  /* Of the better class all begin while no more of the next one do than may be under way. */
  n = 0;
  for (guint i = 0; i < fixture->log->len && n < n_asked[LLM_DISK_RESTORE]; i++)
    {
      n += g_array_index (fixture->log, guint, i) == LLM_DISK_RESTORE;
      n_weights += g_array_index (fixture->log, guint, i) == LLM_DISK_WEIGHTS;
    }
  g_assert_cmpuint (n_weights, ==, 8);
}

static void
test_ends_of_files (Fixture       *fixture,
                    gconstpointer  data)
{
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT);

  g_assert_cmpint (run_request (fixture, fd, 0, 4 * BLOCK, TRUE), ==, 4 * BLOCK);
  g_assert_cmpint (ftruncate (fd, 3 * BLOCK + 100), ==, 0);
  g_assert_cmpint (run_request (fixture, fd, 0, 16 * BLOCK, FALSE), ==, 3 * BLOCK + 100);
  g_assert_cmpint (ftruncate (fd, 2 * BLOCK), ==, 0);
  g_assert_cmpint (run_request (fixture, fd, 0, 16 * BLOCK, FALSE), ==, 2 * BLOCK);
  g_assert_cmpint (run_request (fixture, fd, 1, BLOCK, FALSE), ==, 0);
  close (fd);
}

static void
test_errors (Fixture       *fixture,
             gconstpointer  data)
{
  const struct rlimit small = { 2 * BLOCK, RLIM_INFINITY };
  struct rlimit before;
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT);

  close (fd);
  fd = open_file (fixture, "file", O_RDONLY);
  g_assert_cmpint (run_request (fixture, fd, 0, BLOCK, TRUE), ==, -EBADF);
  close (fd);
  fd = open_file (fixture, "file", O_WRONLY);
  g_assert_cmpint (run_request (fixture, fd, 0, BLOCK, FALSE), ==, -EBADF);
  close (fd);
  fd = open_file (fixture, "/dev/full", O_WRONLY);
  g_assert_cmpint (run_request (fixture, fd, 0, BLOCK, TRUE), ==, -ENOSPC);
  close (fd);

  /* A first part fits: the write goes on, and finds out. */
  signal (SIGXFSZ, SIG_IGN);
  fd = open_file (fixture, "file", O_RDWR);
  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &small), ==, 0);
  g_assert_cmpint (run_request (fixture, fd, 0, 4 * BLOCK, TRUE), ==, -EFBIG);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_cmpint (run_request (fixture, fd, 0, 4 * BLOCK, TRUE), ==, 4 * BLOCK);
  close (fd);
  g_assert_cmpuint (count_pending (fixture), ==, 0);
}

static void
test_nothing (Fixture       *fixture,
              gconstpointer  data)
{
  Request request;

  /* Without requests nobody waits. */
  g_assert_cmpuint (llm_disk_poll (fixture->disk, G_MAXINT64), ==, 0);
  begin_request (fixture, &request, LLM_DISK_RESTORE, -1, 0, 0, FALSE);
  g_assert_cmpuint (request.n_answers, ==, 0);
  g_assert_cmpuint (llm_disk_poll (fixture->disk, 0), ==, 1);
  g_assert_cmpuint (request.n_answers, ==, 1);
  g_assert_cmpint (request.n, ==, 0);
}

static void
test_cancel (Fixture       *fixture,
             gconstpointer  data)
{
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT);
  Request requests[40];
  guint n_cancelled = 0;
  guint n_begun;

  for (guint i = 0; i < G_N_ELEMENTS (requests); i++)
    begin_request (fixture, &requests[i], LLM_DISK_RESTORE, fd, i, BLOCK, TRUE);
  n_begun = fixture->log->len;
  for (guint i = 0; i < G_N_ELEMENTS (requests) - 1; i++)
    llm_disk_cancel (fixture->disk, &requests[i]);
  wait_for_all (fixture);

  for (guint i = 0; i < G_N_ELEMENTS (requests); i++)
    {
      g_assert_cmpuint (requests[i].n_answers, ==, 1);
      n_cancelled += requests[i].n == -ECANCELED;
    }
  g_assert_cmpuint (n_begun, >, 0);
  g_assert_cmpuint (n_cancelled, ==, G_N_ELEMENTS (requests) - 1 - n_begun);
  /* What was cancelled is not asked for its bytes. */
  g_assert_cmpuint (fixture->log->len, ==, n_begun + 1);
  close (fd);
}

static void
on_read_again (gssize        n,
               const guint8 *buffer,
               gpointer      data)
{
  Request *request = data;

  request->n_answers++;
  request->n = n;
  if (request->n_answers < 3)
    llm_disk_read (request->fixture->disk, LLM_DISK_RESTORE, -1, 0, 0, on_read_again, request);
}

/* What is under way ends, what is not does not begin, and nobody is left without an answer. */
static void
test_free (Fixture       *fixture,
           gconstpointer  data)
{
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT);
  Request requests[100];
  Request again = { .fixture = fixture };
  guint n_cancelled = 0;
  g_autoptr(GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (requests); i++)
    begin_request (fixture, &requests[i], i % LLM_N_DISK_CLASSES, fd, i, LLM_DISK_MAX_BYTES, TRUE);
  llm_disk_read (fixture->disk, LLM_DISK_RESTORE, -1, 0, 0, on_read_again, &again);
  llm_disk_free (fixture->disk);
  close (fd);
  for (guint i = 0; i < G_N_ELEMENTS (requests); i++)
    {
      g_assert_cmpuint (requests[i].n_answers, ==, 1);
      g_assert_true (requests[i].n == LLM_DISK_MAX_BYTES || requests[i].n == -ECANCELED);
      n_cancelled += requests[i].n == -ECANCELED;
    }
  g_assert_cmpuint (n_cancelled, ==, G_N_ELEMENTS (requests) - fixture->log->len);
  g_assert_cmpuint (n_cancelled, >, 0);
  g_assert_cmpuint (again.n_answers, ==, 3);
  g_assert_cmpint (again.n, ==, -ECANCELED);

  fixture->disk = llm_disk_new ("threads", &error);
  g_assert_no_error (error);
}

typedef struct
{
  GThread *owner;
  gint *gate;            /* (nullable): goes on when it is 1 */
  gssize result;
  gssize n;
  guint n_done;
  gboolean was_run;
} Work;

static gssize
do_work (gpointer data)
{
  Work *work = data;

  g_assert_true (g_thread_self () != work->owner);
  work->was_run = TRUE;
  while (work->gate != NULL && g_atomic_int_get (work->gate) == 0)
    g_usleep (1000);
  return work->result;
}

static void
on_worked (gssize        n,
           const guint8 *buffer,
           gpointer      data)
{
  Work *work = data;

  g_assert_true (g_thread_self () == work->owner);
  g_assert_null (buffer);
  work->n = n;
  work->n_done++;
}

/* What blocks does so on another thread, whatever it answers; meanwhile the owner goes on. */
static void
test_work (Fixture       *fixture,
           gconstpointer  data)
{
  static const gssize results[] = { 0, 5, -EINTR, -EAGAIN, -ENOENT, G_MAXSSIZE };
  gint gate = 0;
  Work works[20];
  guint n_cancelled = 0;

  for (guint i = 0; i < G_N_ELEMENTS (results); i++)
    {
      works[i] = (Work) { .owner = g_thread_self (), .result = results[i] };
      llm_disk_run (fixture->disk, i % LLM_N_DISK_CLASSES, do_work, on_worked, &works[i]);
      g_assert_cmpuint (works[i].n_done, ==, 0);
    }
  wait_for_all (fixture);
  for (guint i = 0; i < G_N_ELEMENTS (results); i++)
    {
      g_assert_cmpuint (works[i].n_done, ==, 1);
      g_assert_true (works[i].was_run);
      g_assert_cmpint (works[i].n, ==, results[i]);
    }

  for (guint i = 0; i < G_N_ELEMENTS (works); i++)
    {
      works[i] = (Work) { .owner = g_thread_self (), .gate = &gate, .result = 7 };
      llm_disk_run (fixture->disk, LLM_DISK_RESTORE, do_work, on_worked, &works[i]);
    }
  g_assert_cmpuint (llm_disk_poll (fixture->disk, 0), ==, 0);
  for (guint i = 0; i < G_N_ELEMENTS (works); i++)
    llm_disk_cancel (fixture->disk, &works[i]);
  g_atomic_int_set (&gate, 1);
  wait_for_all (fixture);
  for (guint i = 0; i < G_N_ELEMENTS (works); i++)
    {
      g_assert_cmpuint (works[i].n_done, ==, 1);
      g_assert_cmpint (works[i].n, ==, works[i].was_run ? 7 : -ECANCELED);
      n_cancelled += !works[i].was_run;
    }
  g_assert_cmpuint (n_cancelled, >, 0);
  g_assert_cmpuint (n_cancelled, <, G_N_ELEMENTS (works));
}

/* Interrupted and short transfers go on where they were; not for ever. */
static void
test_trouble (Fixture       *fixture,
              gconstpointer  data)
{
  int fd = open_file (fixture, "file", O_RDWR | O_CREAT);
  Parts parts;

  for (guint i = 0; i < 200; i++)
    {
      guint seed = g_test_rand_int () & 0xfff;

      g_atomic_int_set ((gint *) &trouble, (gint) seed);
      g_assert_cmpint (run_request (fixture, fd, i % 4, 40 * BLOCK, TRUE), ==, 40 * BLOCK);
      g_atomic_int_set ((gint *) &trouble, (gint) seed);
      g_assert_cmpint (run_request (fixture, fd, i % 4, 40 * BLOCK, FALSE), ==, 40 * BLOCK);
      if (i % 4 != 0)
        continue;
      g_atomic_int_set ((gint *) &trouble, (gint) seed);
      read_parts (fixture, fd, LLM_DISK_SECTOR, 30 * BLOCK, LLM_DISK_SECTOR, 0, &parts);
      check_parts (&parts, LLM_DISK_SECTOR, 40 * BLOCK);
    }
  g_atomic_int_set ((gint *) &trouble, -1);
  g_assert_cmpint (run_request (fixture, fd, 0, BLOCK, FALSE), <, 0);
  g_atomic_int_set ((gint *) &trouble, 0);
  close (fd);
}

static void
test_new (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmDisk) disk = NULL;

  g_assert_null (llm_disk_new ("punched-cards", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "punched-cards"));
  g_clear_error (&error);
  disk = llm_disk_new (NULL, &error);
  g_assert_no_error (error);
  g_clear_pointer (&disk, llm_disk_free);
  disk = llm_disk_new ("uring", &error);
  g_assert_no_error (error);
}

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *name;
    void (*func) (Fixture *, gconstpointer);
  } tests[] = {
    { "bytes", test_bytes },
    { "parts", test_parts },
    { "into", test_into },
    { "classes", test_classes },
    { "ends-of-files", test_ends_of_files },
    { "errors", test_errors },
    { "nothing", test_nothing },
    { "cancel", test_cancel },
    { "free", test_free },
    { "work", test_work },
  };
  static const char *const backends[] = { "uring", "threads", "paced" };

  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    for (guint j = 0; j < G_N_ELEMENTS (tests); j++)
      {
        g_autofree char *path = g_strdup_printf ("/disk/%s/%s", backends[i], tests[j].name);

        g_test_add (path, Fixture, backends[i], set_up, tests[j].func, tear_down);
      }
  g_test_add ("/disk/threads/trouble", Fixture, "threads", set_up, test_trouble, tear_down);
  g_test_add_func ("/disk/new", test_new);
  return g_test_run ();
}
