/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "io/llm-file-map.h"
#include "support/llm-test-folder.h"

typedef struct
{
  char *folder;
  char *path;
} Fixture;

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  fixture->folder = llm_test_folder_new_on_disk ();
  fixture->path = g_build_filename (fixture->folder, "file", NULL);
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->path);
  g_free (fixture->folder);
}

static gsize
get_page_size (void)
{
  return (gsize) sysconf (_SC_PAGESIZE);
}

/* A file whose byte i is i modulo 251, written through to the disk. */
static void
write_file (const char *path,
            gsize       size)
{
  g_autofree guint8 *bytes = g_malloc (size);
  int fd = g_open (path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

  for (gsize i = 0; i < size; i++)
    bytes[i] = (guint8) (i % 251);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, bytes, size), ==, (gssize) size);
  g_assert_cmpint (fsync (fd), ==, 0);
  close (fd);
}

static void
test_read (Fixture       *fixture,
           gconstpointer  data)
{
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(LlmFileMap) other = NULL;
  g_autoptr(GError) error = NULL;

  write_file (fixture->path, 10000);
  map = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);

  g_assert_cmpuint (llm_file_map_get_size (map), ==, 10000);
  for (gsize i = 0; i < 10000; i++)
    g_assert_cmpuint (llm_file_map_get_data (map)[i], ==, i % 251);
  g_assert_false (llm_file_map_is_damaged (map));

  other = llm_file_map_ref (map);
  g_assert_true (other == map);
}

/* Where the end begins that has so much in memory: what is gone does not count. */
static void
test_tail (Fixture       *fixture,
           gconstpointer  data)
{
  const guint64 mib = 1 << 20;
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(GError) error = NULL;
  guint64 resident = 0;

  write_file (fixture->path, 8 * mib);
  map = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);
  llm_file_map_populate (map, 0, 8 * mib);
  g_assert_cmpuint (llm_file_map_find_resident_tail (map, 0, 8 * mib, mib, &resident), ==, 6 * mib);
  g_assert_cmpuint (resident, ==, 2 * mib);
  g_assert_cmpuint (llm_file_map_find_resident_tail (map, 0, 5 * mib, 2 * mib, &resident), ==,
                    2 * mib);
  g_assert_cmpuint (resident, ==, 3 * mib);
  g_assert_cmpuint (llm_file_map_find_resident_tail (map, 3 * mib, 5 * mib, 9 * mib, &resident),
                    ==, 3 * mib);
  g_assert_cmpuint (resident, ==, 2 * mib);
  g_assert_cmpuint (llm_file_map_find_resident_tail (map, 0, 8 * mib, G_MAXUINT64, &resident), ==,
                    0);
  g_assert_cmpuint (resident, ==, 8 * mib);
  g_assert_cmpuint (llm_file_map_find_resident_tail (map, 0, 0, mib, &resident), ==, 0);
  g_assert_cmpuint (resident, ==, 0);
}

/* Of a file that this process may not write the kernel does not say what the page cache has: then
 * what is mapped counts. In a process of its own, which is nobody. */
static void
test_not_ours (void)
{
  pid_t pid = fork ();
  int status = 0;

  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      g_autoptr(LlmFileMap) map = NULL;
      guint64 before, after, dropped;

      if (geteuid () == 0 && (setuid (65534) < 0 || prctl (PR_SET_DUMPABLE, 1) < 0))
        _exit (1);
      map = llm_file_map_open ("/bin/sh", NULL);
      if (map == NULL)
        _exit (2);
      before = llm_file_map_count_resident (map, 0, G_MAXUINT64);
      llm_file_map_populate (map, 0, llm_file_map_get_size (map));
      after = llm_file_map_count_resident (map, 0, G_MAXUINT64);
      llm_file_map_drop (map, 0, llm_file_map_get_size (map));
      dropped = llm_file_map_count_resident (map, 0, G_MAXUINT64);
      _exit (before == 0 && after == llm_file_map_get_size (map) && dropped == 0 ? 0 : 3);
    }
  g_assert_cmpint (waitpid (pid, &status, 0), ==, pid);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

static void
test_bytes (void)
{
  static const guint8 storage[200] = { 0, 1, 2, 3 };
  /* Wherever it lies, this is not aligned. */
  gsize shift = (guintptr) storage % 2 == 0 ? 1 : 2;
  g_autoptr(GBytes) bytes = g_bytes_new_static (storage + shift, 100);
  g_autoptr(GBytes) empty = g_bytes_new_static (NULL, 0);
  g_autoptr(LlmFileMap) map = llm_file_map_new_for_bytes (bytes);
  g_autoptr(LlmFileMap) none = llm_file_map_new_for_bytes (empty);

  g_assert_cmpuint (llm_file_map_get_size (map), ==, 100);
  g_assert_cmpmem (llm_file_map_get_data (map), 100, storage + shift, 100);
  g_assert_cmpuint ((guintptr) llm_file_map_get_data (map) % 64, ==, 0);
  g_assert_cmpuint (llm_file_map_count_resident (map, 90, 100), ==, 10);
  g_assert_false (llm_file_map_is_damaged (map));
  llm_file_map_prefetch (map, 0, 100);
  llm_file_map_drop (map, 0, 100);
  g_assert_cmpmem (llm_file_map_get_data (map), 100, storage + shift, 100);

  g_assert_cmpuint (llm_file_map_get_size (none), ==, 0);
  g_assert_cmpuint (llm_file_map_count_resident (none, 0, 1), ==, 0);
}

static void
test_cut_file (Fixture       *fixture,
               gconstpointer  data)
{
  gsize page = get_page_size ();
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(LlmFileMap) whole = NULL;
  g_autofree char *whole_path = g_build_filename (fixture->folder, "whole", NULL);
  g_autoptr(GError) error = NULL;
  const guint8 *bytes;

  write_file (fixture->path, 8 * page);
  write_file (whole_path, 8 * page);
  map = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);
  whole = llm_file_map_open (whole_path, &error);
  g_assert_no_error (error);

  g_assert_cmpint (truncate (fixture->path, (off_t) (2 * page)), ==, 0);

  bytes = llm_file_map_get_data (map);
  g_assert_cmpuint (bytes[2 * page - 1], ==, (2 * page - 1) % 251);
  for (gsize i = 5 * page; i < 6 * page; i++)
    g_assert_cmpuint (bytes[i], ==, 0);
  for (gsize i = 2 * page; i < 8 * page; i++)
    g_assert_cmpuint (bytes[i], ==, 0);
  g_assert_cmpuint (bytes[page + 1], ==, (page + 1) % 251);
  g_assert_true (llm_file_map_is_damaged (map));

  /* It stays so when the file is whole again; another map never was. */
  write_file (fixture->path, 8 * page);
  g_assert_true (llm_file_map_is_damaged (map));
  g_assert_false (llm_file_map_is_damaged (whole));
  g_assert_cmpuint (llm_file_map_get_data (whole)[5 * page], ==, 5 * page % 251);

  /* A new map in the same place of the table begins undamaged. */
  g_clear_pointer (&map, llm_file_map_unref);
  map = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);
  g_assert_false (llm_file_map_is_damaged (map));
  g_assert_cmpint (g_remove (whole_path), ==, 0);
}

/* No page is lost, and yet the bytes are not those of the file that was opened. */
static void
test_changed_file (Fixture       *fixture,
                   gconstpointer  data)
{
  g_autoptr(LlmFileMap) cut = NULL;
  g_autoptr(LlmFileMap) touched = NULL;
  const struct timespec times[2] = { { 1000000000, 1 }, { 1000000000, 1 } };
  g_autoptr(GError) error = NULL;

  write_file (fixture->path, 1000);
  cut = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);
  g_assert_cmpint (truncate (fixture->path, 500), ==, 0);
  g_assert_true (llm_file_map_is_damaged (cut));

  touched = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);
  g_assert_false (llm_file_map_is_damaged (touched));
  g_assert_cmpint (utimensat (AT_FDCWD, fixture->path, times, 0), ==, 0);
  g_assert_true (llm_file_map_is_damaged (touched));
}

static gpointer
read_all (gpointer data)
{
  LlmFileMap *map = data;
  guint64 sum = 0;

  for (guint64 i = 0; i < llm_file_map_get_size (map); i += 512)
    sum += llm_file_map_get_data (map)[i];
  return GUINT_TO_POINTER ((guint) sum);
}

static void
test_cut_file_threads (Fixture       *fixture,
                       gconstpointer  data)
{
  gsize page = get_page_size ();

  for (guint round = 0; round < 20; round++)
    {
      g_autoptr(LlmFileMap) map = NULL;
      g_autoptr(GError) error = NULL;
      GThread *threads[4];

      write_file (fixture->path, 64 * page);
      map = llm_file_map_open (fixture->path, &error);
      g_assert_no_error (error);
      g_assert_cmpint (truncate (fixture->path, 0), ==, 0);
      for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
        threads[i] = g_thread_new ("reader", read_all, map);
      for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
        g_assert_cmpuint (GPOINTER_TO_UINT (g_thread_join (threads[i])), ==, 0);
      g_assert_true (llm_file_map_is_damaged (map));
    }
}

static void
test_residency (Fixture       *fixture,
                gconstpointer  data)
{
  gsize page = get_page_size ();
  guint64 size = 100 * page + 123;
  g_autoptr(LlmFileMap) map = NULL;
  g_autoptr(GError) error = NULL;
  guint64 sum;

  write_file (fixture->path, size);
  map = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);
  sum = GPOINTER_TO_UINT (read_all (map));

  g_assert_cmpuint (llm_file_map_count_resident (map, 0, G_MAXUINT64), ==, size);
  g_assert_cmpuint (llm_file_map_count_resident (map, 10, 5), ==, 5);
  g_assert_cmpuint (llm_file_map_count_resident (map, page - 3, page), ==, page);
  g_assert_cmpuint (llm_file_map_count_resident (map, size - 1, 100), ==, 1);
  g_assert_cmpuint (llm_file_map_count_resident (map, size, 100), ==, 0);

  llm_file_map_drop (map, 0, size);
  g_assert_cmpuint (llm_file_map_count_resident (map, 0, size), ==, 0);

  llm_file_map_prefetch (map, 3, size);
  g_assert_cmpuint (GPOINTER_TO_UINT (read_all (map)), ==, sum);
  g_assert_cmpuint (llm_file_map_count_resident (map, 0, size), ==, size);
  g_assert_false (llm_file_map_is_damaged (map));

  /* Less than a page and what lies outside: nothing happens. */
  llm_file_map_drop (map, 1, page);
  llm_file_map_drop (map, size, 10);
  llm_file_map_prefetch (map, G_MAXUINT64, G_MAXUINT64);
  g_assert_cmpuint (llm_file_map_count_resident (map, 0, size), ==, size);
}

static void
check_error (const char *path,
             int         code,
             const char *part)
{
  g_autoptr(GError) error = NULL;

  g_assert_null (llm_file_map_open (path, &error));
  g_assert_error (error, LLMSVC_ERROR, code);
  g_assert_nonnull (strstr (error->message, path));
  g_assert_nonnull (strstr (error->message, part));
}

static void
test_errors (Fixture       *fixture,
             gconstpointer  data)
{
  g_autofree char *below = g_build_filename (fixture->path, "below", NULL);

  check_error (fixture->path, LLMSVC_ERROR_NOT_FOUND, g_strerror (ENOENT));
  check_error (fixture->folder, LLMSVC_ERROR_INVALID_ARGUMENT, "folder");

  write_file (fixture->path, 0);
  check_error (fixture->path, LLMSVC_ERROR_INVALID_ARGUMENT, "empty");
  check_error (below, LLMSVC_ERROR_NOT_FOUND, g_strerror (ENOTDIR));
  g_assert_cmpint (g_remove (fixture->path), ==, 0);

  /* Nobody writes into the pipe: this must not wait. */
  g_assert_cmpint (mkfifo (fixture->path, 0600), ==, 0);
  check_error (fixture->path, LLMSVC_ERROR_INVALID_ARGUMENT, "special");
}

static void
test_too_many (Fixture       *fixture,
               gconstpointer  data)
{
  g_autoptr(GPtrArray) maps =
    g_ptr_array_new_with_free_func ((GDestroyNotify) llm_file_map_unref);
  g_autoptr(GError) error = NULL;
  LlmFileMap *map;

  write_file (fixture->path, 10);
  while ((map = llm_file_map_open (fixture->path, &error)) != NULL)
    {
      g_assert_cmpuint (maps->len, <, 1000);
      g_ptr_array_add (maps, map);
    }
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_assert_cmpuint (maps->len, ==, 256);

  g_ptr_array_set_size (maps, 0);
  g_clear_error (&error);
  map = llm_file_map_open (fixture->path, &error);
  g_assert_no_error (error);
  llm_file_map_unref (map);
}

/* The handler that was there before. */
static void
on_foreign_bus_error (int        number,
                      siginfo_t *info,
                      void      *context)
{
  _exit (info->si_addr != NULL ? 42 : 43);
}

/* What is not ours still ends the process, or goes to the handler before us. */
static void
die_by_foreign_fault (const char *path,
                      gboolean    has_handler)
{
  struct sigaction action = { .sa_sigaction = on_foreign_bus_error, .sa_flags = SA_SIGINFO };
  struct sigaction none = { .sa_handler = SIG_DFL };
  g_autoptr(LlmFileMap) map = NULL;
  const volatile guint8 *foreign;
  int fd;

  sigaction (SIGBUS, has_handler ? &action : &none, NULL);
  map = llm_file_map_open (path, NULL);
  fd = g_open (path, O_RDWR | O_CLOEXEC, 0);
  foreign = mmap (NULL, get_page_size (), PROT_READ, MAP_SHARED, fd, 0);
  if (map == NULL || foreign == MAP_FAILED || ftruncate (fd, 0) < 0)
    _exit (1);
  _exit (foreign[0] == 0 ? 2 : 3);
}

static void
test_foreign_fault (Fixture       *fixture,
                    gconstpointer  data)
{
  gboolean has_handler = GPOINTER_TO_INT (data);
  pid_t child;
  int status;

  write_file (fixture->path, 100);
  child = fork ();
  if (child == 0)
    die_by_foreign_fault (fixture->path, has_handler);

  g_assert_cmpint (child, >, 0);
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  if (has_handler)
    {
      g_assert_true (WIFEXITED (status));
      g_assert_cmpint (WEXITSTATUS (status), ==, 42);
    }
  else
    {
      g_assert_true (WIFSIGNALED (status));
      g_assert_cmpint (WTERMSIG (status), ==, SIGBUS);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  /* First: the handler is installed with the first map of a process, here in the child. */
  g_test_add ("/foreign-fault/handler", Fixture, GINT_TO_POINTER (TRUE), set_up,
              test_foreign_fault, tear_down);
  g_test_add ("/foreign-fault/default", Fixture, GINT_TO_POINTER (FALSE), set_up,
              test_foreign_fault, tear_down);
  g_test_add ("/file-map/read", Fixture, NULL, set_up, test_read, tear_down);
  g_test_add ("/file-map/tail", Fixture, NULL, set_up, test_tail, tear_down);
  g_test_add_func ("/file-map/not-ours", test_not_ours);
  g_test_add_func ("/file-map/bytes", test_bytes);
  g_test_add ("/file-map/cut", Fixture, NULL, set_up, test_cut_file, tear_down);
  g_test_add ("/file-map/cut-threads", Fixture, NULL, set_up, test_cut_file_threads, tear_down);
  g_test_add ("/file-map/changed", Fixture, NULL, set_up, test_changed_file, tear_down);
  g_test_add ("/file-map/residency", Fixture, NULL, set_up, test_residency, tear_down);
  g_test_add ("/file-map/errors", Fixture, NULL, set_up, test_errors, tear_down);
  g_test_add ("/file-map/too-many", Fixture, NULL, set_up, test_too_many, tear_down);
  return g_test_run ();
}
