/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the folder of chunks may hold, whose it is, and who goes when it is full. */

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "storage-rig.h"
#include "support/llm-test-folder.h"

static guint64
measure_context (StorageRig *rig)
{
  guint64 bytes;

  g_assert_true (rig_write_context (rig, "x", "measure"));
  bytes = llm_kv_storage_get_bytes (rig->storage);
  llm_kv_storage_remove (rig->storage, "measure");
  return bytes;
}

/* The folder was changed so long ago. */
static void
age_context (StorageRig *rig,
             const char *id,
             gint64      age_s)
{
  g_autofree char *path = rig_get_path (rig, id, NULL);
  gint64 now = g_get_real_time () / G_USEC_PER_SEC;
  const struct timespec times[2] = { { .tv_sec = now - age_s }, { .tv_sec = now - age_s } };

  g_assert_cmpint (utimensat (AT_FDCWD, path, times, 0), ==, 0);
}

static void
test_limits (StorageRig    *rig,
             gconstpointer  data)
{
  guint64 one = measure_context (rig);
  LlmKvFolder *folder;

  /* Three fit. */
  rig->limit = 3 * one + one / 2;
  rig_restart (rig);
  g_assert_true (rig_write_context (rig, "x", "a"));
  g_assert_true (rig_write_context (rig, "y", "b"));
  g_assert_true (rig_write_context (rig, "x", "c"));
  rig_assert_contexts (rig, "abc");
  folder = rig_open_folder (rig, "x", "a");
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 16);
  llm_kv_folder_close (folder);
  g_assert_true (rig_write_context (rig, "x", "d"));
  rig_assert_contexts (rig, "acd");

  /* After a restart it is still known what was used last, and by whom; of an application that has
   * all it may, something of its own goes. */
  age_context (rig, "c", 300);
  age_context (rig, "a", 200);
  age_context (rig, "d", 100);
  rig->app_limit = 3 * one;
  rig_restart (rig);
  folder = rig_open_folder (rig, "x", "c");
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 16);
  g_assert_true (rig_write_context (rig, "y", "b"));
  rig_assert_contexts (rig, "bcd");
  rig->limit = 9 * one;
  llm_kv_folder_close (folder);
  age_context (rig, "b", 400);
  rig_restart (rig);
  g_assert_true (rig_write_context (rig, "x", "a"));
  rig_assert_contexts (rig, "abcd");
  g_assert_true (rig_write_context (rig, "x", "e"));
  rig_assert_contexts (rig, "abce");

  /* What never fits costs nobody anything. */
  rig->limit = one - 1;
  rig->app_limit = 0;
  rig_restart (rig);
  g_assert_false (rig_write_context (rig, "z", "d"));
  rig_assert_contexts (rig, "abce");
  rig->limit = 9 * one;
  rig->app_limit = one - 1;
  rig_restart (rig);
  g_assert_false (rig_write_context (rig, "z", "d"));
  rig_assert_contexts (rig, "abce");
  g_assert_cmpuint (rig->n_logged, ==, 2);

  /* A context's own extents are not taken for its next one. */
  rig->limit = one + one / 2;
  rig->app_limit = 0;
  rig_restart (rig);
  folder = rig_open_folder (rig, "x", "a");
  g_assert_false (rig_write_chunks (rig, folder, 16, 16, 1));
  rig_assert_contexts (rig, "a");
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 16);
  llm_kv_folder_close (folder);
}

/* Extents of a context that is open can go, too. */
static void
test_open_victim (StorageRig    *rig,
                  gconstpointer  data)
{
  guint64 one = measure_context (rig);
  LlmKvFolder *idle;

  rig->limit = 2 * one + one / 2;
  rig_restart (rig);
  idle = rig_open_folder (rig, "x", "a");
  g_assert_true (rig_write_chunks (rig, idle, 0, 16, 1));
  g_assert_true (rig_write_chunks (rig, idle, 16, 16, 1));
  g_assert_true (rig_write_context (rig, "y", "b"));
  g_assert_false (llm_kv_folder_find (idle, 0, rig_get_hash (0, 1), NULL, NULL));
  g_assert_cmpuint (rig_read_chunks (rig, idle, 1, 1, NULL), ==, 16);
  llm_kv_folder_close (idle);
}

static void
test_sweep (StorageRig    *rig,
            gconstpointer  data)
{
  g_autoptr(GHashTable) ids = g_hash_table_new (g_str_hash, g_str_equal);
  g_autofree char *part = NULL;
  g_autofree char *alien = NULL;
  LlmKvFolder *folder;

  g_assert_true (rig_write_context (rig, "x", "a"));
  g_assert_true (rig_write_context (rig, "x", "b"));
  g_assert_true (rig_write_context (rig, "x", "c"));
  /* A process that was killed between writing and naming, and what is not ours. */
  part = rig_get_path (rig, "a", "0000000000000009.part");
  g_assert_true (g_file_set_contents (part, "half", -1, NULL));
  alien = rig_get_path (rig, "a", "notes.kv");
  g_assert_true (g_file_set_contents (alien, "other", -1, NULL));
  rig_restart (rig);
  g_assert_false (g_file_test (part, G_FILE_TEST_EXISTS));
  g_assert_true (g_file_test (alien, G_FILE_TEST_EXISTS));
  g_assert_cmpint (g_unlink (alien), ==, 0);

  folder = rig_open_folder (rig, "x", "c");
  g_hash_table_add (ids, (char *) "a");
  llm_kv_storage_sweep (rig->storage, ids);
  rig_assert_contexts (rig, "ac");
  g_clear_pointer (&part, g_free);
  part = rig_get_path (rig, "b", NULL);
  g_assert_false (g_file_test (part, G_FILE_TEST_EXISTS));
  llm_kv_folder_close (folder);
  llm_kv_storage_remove (rig->storage, "nobody");
  llm_kv_storage_remove (rig->storage, "a");
  llm_kv_storage_remove (rig->storage, "c");
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, 0);
  g_assert_cmpint (g_rmdir (rig->folder), ==, 0);
  g_assert_cmpint (g_mkdir (rig->folder, 0700), ==, 0);
}

static void
test_modes (StorageRig    *rig,
            gconstpointer  data)
{
  mode_t mask = umask (0);
  g_autofree char *deep = g_build_filename (rig->folder, "deep", NULL);
  g_autofree char *folder = g_build_filename (deep, "a", NULL);
  g_autofree char *file = g_build_filename (folder, "0000000000000001.kv", NULL);
  g_autofree char *app = g_build_filename (folder, "app", NULL);
  StorageRig below = *rig;
  struct stat status;

  below.folder = deep;
  rig_make_storage (&below);
  g_assert_true (rig_write_context (&below, "x", "a"));
  umask (mask);
  g_assert_cmpint (g_stat (deep, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0700);
  g_assert_cmpint (g_stat (folder, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0700);
  g_assert_cmpint (g_stat (file, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0600);
  g_assert_cmpint (g_stat (app, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0600);
  llm_kv_storage_free (below.storage);
}

/* Nothing under the folder leads out of it, and nobody reads what another application left. */
static void
test_strangers (StorageRig    *rig,
                gconstpointer  data)
{
  g_autofree char *outside = llm_test_folder_new ();
  g_autofree char *door = rig_get_path (rig, "door", NULL);
  g_autofree char *file = NULL;
  g_autofree char *inner = NULL;
  g_autoptr(GPtrArray) paths = NULL;
  LlmKvFolder *folder;

  g_assert_cmpint (symlink (outside, door), ==, 0);
  rig_restart (rig);
  folder = rig_open_folder (rig, "x", "door");
  g_assert_false (rig_write_chunks (rig, folder, 0, 4, 1));
  llm_kv_folder_close (folder);
  llm_kv_storage_remove (rig->storage, "door");
  g_assert_cmpint (g_rmdir (outside), ==, 0);
  g_assert_cmpint (g_unlink (door), ==, 0);

  /* An extent that is a link to a good one. */
  g_assert_true (rig_write_context (rig, "x", "a"));
  paths = rig_list_files (rig, "a");
  file = g_build_filename (rig->folder, "moved", NULL);
  g_assert_cmpint (g_rename (g_ptr_array_index (paths, 0), file), ==, 0);
  g_assert_cmpint (symlink (file, g_ptr_array_index (paths, 0)), ==, 0);
  rig_restart (rig);
  folder = rig_open_folder (rig, "x", "a");
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  llm_kv_folder_close (folder);
  g_assert_cmpint (g_unlink (g_ptr_array_index (paths, 0)), ==, 0);
  g_assert_cmpint (g_rename (file, g_ptr_array_index (paths, 0)), ==, 0);

  rig_restart (rig);
  folder = rig_open_folder (rig, "y", "a");
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  g_assert_cmpuint (rig_count_files (rig, "a"), ==, 0);
  llm_kv_folder_close (folder);
}

static void
test_root (StorageRig    *rig,
           gconstpointer  data)
{
  g_autofree char *below = g_build_filename (rig->folder, "file", "below", NULL);
  g_autofree char *file = g_build_filename (rig->folder, "file", NULL);
  g_autoptr(GError) error = NULL;

  g_assert_null (llm_kv_storage_new (rig->folder, llm_disk_new ("threads", NULL), 0, 0,
                                     &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_clear_error (&error);
  g_assert_true (g_file_set_contents (file, "", 0, NULL));
  g_assert_null (llm_kv_storage_new (below, llm_disk_new ("threads", NULL), 0, 0, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_cmpint (g_unlink (file), ==, 0);
}

int
main (int   argc,
      char *argv[])
{
  static const RigTest tests[] = {
    { "limits", test_limits, FALSE },
    { "open-victim", test_open_victim, FALSE },
    { "sweep", test_sweep, FALSE },
    { "modes", test_modes, FALSE },
    { "strangers", test_strangers, FALSE },
    { "root", test_root, FALSE },
  };

  return rig_run_tests (argc, argv, "storage-limits", tests, G_N_ELEMENTS (tests));
}
