/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "io/llm-cache-folder.h"
#include "support/llm-test-folder.h"

#define FILE_BYTES ((gsize) 1 << 20)

typedef struct
{
  char *folder;
} Fixture;

static void
set_up (Fixture       *fixture,
        gconstpointer  data)
{
  fixture->folder = llm_test_folder_new ();
}

static void
tear_down (Fixture       *fixture,
           gconstpointer  data)
{
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
}

/* A file that was used and changed @age_s ago. */
static void
write_file (Fixture    *fixture,
            const char *name,
            gint64      age_s)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);
  g_autofree char *bytes = g_malloc (FILE_BYTES);
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  struct timespec times[2] = { { .tv_sec = now - age_s }, { .tv_sec = now - age_s } };
  int fd = g_open (path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);

  memset (bytes, 1, FILE_BYTES);
  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, bytes, FILE_BYTES), ==, (gssize) FILE_BYTES);
  /* Blocks are only counted once they are on the disk. */
  g_assert_cmpint (fsync (fd), ==, 0);
  g_assert_cmpint (futimens (fd, times), ==, 0);
  close (fd);
}

static gboolean
has_file (Fixture    *fixture,
          const char *name)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);

  return g_file_test (path, G_FILE_TEST_EXISTS);
}

static gboolean
make_room (Fixture *fixture,
           guint64  bytes,
           guint64  limit,
           GError **error)
{
  return llm_cache_folder_make_room (fixture->folder, bytes, limit, NULL, error);
}

static void
test_room (Fixture       *fixture,
           gconstpointer  data)
{
  g_autoptr(GError) error = NULL;

  write_file (fixture, "old" LLM_CACHE_SUFFIX, 3000);
  write_file (fixture, "oldest" LLM_CACHE_SUFFIX, 4000);
  write_file (fixture, "new" LLM_CACHE_SUFFIX, 1000);
  write_file (fixture, "other", 9000);

  /* Room enough: nothing is removed. */
  g_assert_true (make_room (fixture, FILE_BYTES, 5 * FILE_BYTES, &error));
  g_assert_no_error (error);
  g_assert_true (has_file (fixture, "oldest" LLM_CACHE_SUFFIX));

  /* Two go, those that were used before the others. */
  g_assert_true (make_room (fixture, 2 * FILE_BYTES, 3 * FILE_BYTES + 65536, &error));
  g_assert_no_error (error);
  g_assert_false (has_file (fixture, "oldest" LLM_CACHE_SUFFIX));
  g_assert_false (has_file (fixture, "old" LLM_CACHE_SUFFIX));
  g_assert_true (has_file (fixture, "new" LLM_CACHE_SUFFIX));
  g_assert_true (has_file (fixture, "other"));

  /* What never fits costs nobody anything. */
  g_assert_false (make_room (fixture, 4 * FILE_BYTES, 3 * FILE_BYTES, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_assert_nonnull (strstr (error->message, fixture->folder));
  g_clear_error (&error);
  g_assert_false (make_room (fixture, G_MAXINT64, 0, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_clear_error (&error);
  g_assert_true (has_file (fixture, "new" LLM_CACHE_SUFFIX));

  /* The limit that follows from the disk. */
  g_assert_true (make_room (fixture, 4096, 0, &error));
  g_assert_no_error (error);
}

/* One that is named stays, however long ago it was used; then others go, or nothing fits. */
static void
test_spared (Fixture       *fixture,
             gconstpointer  data)
{
  g_autoptr(GError) error = NULL;

  write_file (fixture, "old" LLM_CACHE_SUFFIX, 3000);
  write_file (fixture, "new" LLM_CACHE_SUFFIX, 1000);
  g_assert_true (llm_cache_folder_make_room (fixture->folder, FILE_BYTES, 2 * FILE_BYTES + 65536,
                                             "old" LLM_CACHE_SUFFIX, &error));
  g_assert_no_error (error);
  g_assert_true (has_file (fixture, "old" LLM_CACHE_SUFFIX));
  g_assert_false (has_file (fixture, "new" LLM_CACHE_SUFFIX));
  g_assert_false (llm_cache_folder_make_room (fixture->folder, FILE_BYTES, FILE_BYTES + 65536,
                                              "old" LLM_CACHE_SUFFIX, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_assert_true (has_file (fixture, "old" LLM_CACHE_SUFFIX));
}

/* A file that was used lately stays, however long ago it was made. */
static void
test_touch (Fixture       *fixture,
            gconstpointer  data)
{
  g_autofree char *path = g_build_filename (fixture->folder, "first" LLM_CACHE_SUFFIX, NULL);
  g_autoptr(GError) error = NULL;
  struct stat before, after;
  int fd;

  write_file (fixture, "first" LLM_CACHE_SUFFIX, 3000);
  write_file (fixture, "second" LLM_CACHE_SUFFIX, 2000);
  fd = g_open (path, O_RDONLY | O_CLOEXEC, 0);
  g_assert_cmpint (fstat (fd, &before), ==, 0);
  llm_cache_folder_touch (fd);
  g_assert_cmpint (fstat (fd, &after), ==, 0);
  close (fd);
  g_assert_cmpint (after.st_atim.tv_sec, >, before.st_atim.tv_sec);
  g_assert_cmpint (after.st_mtim.tv_sec, ==, before.st_mtim.tv_sec);

  g_assert_true (make_room (fixture, FILE_BYTES, 2 * FILE_BYTES + 65536, &error));
  g_assert_no_error (error);
  g_assert_true (has_file (fixture, "first" LLM_CACHE_SUFFIX));
  g_assert_false (has_file (fixture, "second" LLM_CACHE_SUFFIX));
}

/* What a killed process left goes; what somebody is writing stays. */
static void
test_parts (Fixture       *fixture,
            gconstpointer  data)
{
  g_autofree char *locked = g_build_filename (fixture->folder, ".part-locked", NULL);
  g_autoptr(GError) error = NULL;
  int fd;

  write_file (fixture, ".part-stale", 1000);
  write_file (fixture, ".part-young", 0);
  write_file (fixture, ".part-locked", 1000);
  fd = g_open (locked, O_RDONLY | O_CLOEXEC, 0);
  g_assert_cmpint (flock (fd, LOCK_EX), ==, 0);
  g_assert_true (make_room (fixture, 1, 0, &error));
  g_assert_no_error (error);
  close (fd);
  g_assert_false (has_file (fixture, ".part-stale"));
  g_assert_true (has_file (fixture, ".part-young"));
  g_assert_true (has_file (fixture, ".part-locked"));
}

static void
test_create (Fixture       *fixture,
             gconstpointer  data)
{
  g_autofree char *deep = g_build_filename (fixture->folder, "a", "b", NULL);
  const struct rlimit small = { 4096, RLIM_INFINITY };
  g_autofree char *path = NULL;
  g_autofree char *none = NULL;
  g_autoptr(GError) error = NULL;
  struct rlimit limit;
  struct stat status;
  mode_t mask = umask (0077);
  int fd;

  for (int is_shared = FALSE; is_shared <= TRUE; is_shared++)
    {
      g_assert_true (llm_cache_folder_make (deep, is_shared, &error));
      g_assert_no_error (error);
      g_assert_cmpint (g_stat (deep, &status), ==, 0);
      g_assert_cmpint (status.st_mode & 0777, ==, is_shared ? 0755 : 0700);

      fd = llm_cache_folder_create (deep, is_shared, 100000, &path, &error);
      g_assert_no_error (error);
      g_assert_cmpint (fstat (fd, &status), ==, 0);
      g_assert_cmpint (status.st_mode & 0777, ==, is_shared ? 0644 : 0600);
      g_assert_true (g_str_has_prefix (path, deep));
      g_assert_cmpint (g_unlink (path), ==, 0);
      g_clear_pointer (&path, g_free);
      close (fd);
    }
  umask (mask);

  /* More than the process may write: an error, not a signal. */
  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &small), ==, 0);
  fd = llm_cache_folder_create (deep, FALSE, 100000, &none, &error);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &limit), ==, 0);
  g_assert_cmpint (fd, <, 0);
  g_assert_null (none);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_clear_error (&error);

  /* No folder there, and none to be made. */
  write_file (fixture, "file", 0);
  path = g_build_filename (fixture->folder, "file", "below", NULL);
  g_assert_false (llm_cache_folder_make (path, FALSE, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_clear_error (&error);
  g_assert_false (llm_cache_folder_make_room (path, 1, 0, NULL, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
  g_clear_error (&error);
  g_assert_cmpint (llm_cache_folder_create (path, FALSE, 1, &none, &error), <, 0);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/cache-folder/room", Fixture, NULL, set_up, test_room, tear_down);
  g_test_add ("/cache-folder/spared", Fixture, NULL, set_up, test_spared, tear_down);
  g_test_add ("/cache-folder/touch", Fixture, NULL, set_up, test_touch, tear_down);
  g_test_add ("/cache-folder/parts", Fixture, NULL, set_up, test_parts, tear_down);
  g_test_add ("/cache-folder/create", Fixture, NULL, set_up, test_create, tear_down);
  return g_test_run ();
}
