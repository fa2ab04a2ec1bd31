/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Damage, failing calls of the system, a full disk, and ends in the middle: no wrong chunk comes
 * back, and nothing is lost but what was hit. */

#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "common/llmsvc-error.h"
#include "storage-rig.h"

static guint
read_context (StorageRig *rig,
              guint      *n_failed)
{
  LlmKvFolder *folder = rig_open_folder (rig, "app", "context");
  guint n_good = rig_read_chunks (rig, folder, 1, 1, n_failed);

  llm_kv_folder_close (folder);
  return n_good;
}

/* What a folder with one extent had, so that it can be made again. */
typedef struct
{
  char *path;
  char *bytes;
  gsize length;
  char *app_path;
  char *app;
} Copy;

static void
copy_context (StorageRig *rig,
              Copy       *copy)
{
  g_autoptr(GPtrArray) paths = rig_list_files (rig, "context");

  g_assert_cmpuint (paths->len, ==, 1);
  copy->path = g_strdup (g_ptr_array_index (paths, 0));
  copy->app_path = rig_get_path (rig, "context", "app");
  g_assert_true (g_file_get_contents (copy->path, &copy->bytes, &copy->length, NULL));
  g_assert_true (g_file_get_contents (copy->app_path, &copy->app, NULL, NULL));
}

static void
copy_clear (Copy *copy)
{
  g_free (copy->path);
  g_free (copy->bytes);
  g_free (copy->app_path);
  g_free (copy->app);
}

/* The service was not there when the first @length bytes were put back. */
static void
put_back (StorageRig *rig,
          const Copy *copy,
          gsize       length)
{
  g_autofree char *folder = g_path_get_dirname (copy->path);

  llm_kv_storage_free (rig->storage);
  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_assert_true (g_file_set_contents_full (copy->app_path, copy->app, -1, G_FILE_SET_CONTENTS_NONE,
                                           0600, NULL));
  g_assert_true (g_file_set_contents_full (copy->path, copy->bytes, (gssize) length,
                                           G_FILE_SET_CONTENTS_NONE, 0600, NULL));
  rig_make_storage (rig);
}

/* Each byte of a file wrong once: chunks come back right, or not at all. */
static void
test_flips (StorageRig    *rig,
            gconstpointer  data)
{
  LlmKvFolder *folder = rig_open_folder (rig, "app", "context");
  g_autoptr(LlmKvExtent) good = NULL;
  guint n_parts = 0;
  const char *reason;
  Copy copy;
  int fd;

  g_assert_true (rig_write_chunks (rig, folder, 0, 3, 1));
  llm_kv_folder_close (folder);
  copy_context (rig, &copy);
  good = llm_kv_extent_parse ((const guint8 *) copy.bytes, copy.length, copy.length,
                              &rig->shape, &reason);
  g_assert_nonnull (good);
  g_assert_cmpuint (good->header_bytes, ==, LLM_DISK_BLOCK);
  for (gsize i = 0; i < good->header_bytes; i++)
    {
      copy.bytes[i] ^= 1 << i % 8;
      g_assert_null (llm_kv_extent_parse ((const guint8 *) copy.bytes, copy.length, copy.length,
                                          &rig->shape, &reason));
      g_assert_nonnull (reason);
      /* and some of them on the disk */
      if (i % 64 == 0)
        {
          guint n_failed;

          put_back (rig, &copy, copy.length);
          g_assert_cmpuint (read_context (rig, &n_failed), ==, 0);
          g_assert_cmpuint (n_failed, ==, 0);
          g_assert_cmpuint (rig_count_files (rig, "context"), ==, 0);
        }
      copy.bytes[i] ^= 1 << i % 8;
    }

  put_back (rig, &copy, copy.length);
  fd = g_open (copy.path, O_WRONLY | O_CLOEXEC, 0);
  for (gsize i = good->header_bytes; i < copy.length; i++)
    {
      guint8 wrong = (guint8) copy.bytes[i] ^ (guint8) (1 << i % 8);
      guint n_failed;

      g_assert_cmpint (pwrite (fd, &wrong, 1, (off_t) i), ==, 1);
      g_assert_cmpuint (read_context (rig, &n_failed) + n_failed, ==, 3);
      g_assert_cmpuint (n_failed, <=, 1);
      n_parts += n_failed;
      g_assert_cmpint (pwrite (fd, &copy.bytes[i], 1, (off_t) i), ==, 1);
    }
  close (fd);
  g_assert_cmpuint (n_parts, ==,
                    rig_get_bytes (rig, rig_get_form (0)) + rig_get_bytes (rig, rig_get_form (1)) +
                    rig_get_bytes (rig, rig_get_form (2)));
  copy_clear (&copy);
}

static void
test_truncated (StorageRig    *rig,
                gconstpointer  data)
{
  LlmKvFolder *folder;
  guint n_failed;
  Copy copy;

  folder = rig_open_folder (rig, "app", "context");
  g_assert_true (rig_write_chunks (rig, folder, 0, 40, 1));
  copy_context (rig, &copy);
  /* While it is open, behind our back: the chunks that are cut off are forgotten. */
  g_assert_cmpint (truncate (copy.path, LLM_DISK_BLOCK + 100), ==, 0);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, &n_failed), <, 40);
  g_assert_cmpuint (n_failed, >, 0);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 40 - n_failed);
  llm_kv_folder_close (folder);

  for (gsize i = 0; i <= copy.length; i += 256)
    {
      put_back (rig, &copy, i);
      g_assert_cmpuint (read_context (rig, &n_failed), ==, i == copy.length ? 40 : 0);
      g_assert_cmpuint (n_failed, ==, 0);
      g_assert_cmpuint (rig_count_files (rig, "context"), ==, i == copy.length);
    }

  /* Gone while it is open. */
  folder = rig_open_folder (rig, "app", "context");
  g_assert_cmpint (g_unlink (copy.path), ==, 0);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, &n_failed), ==, 0);
  g_assert_cmpuint (n_failed, ==, 40);
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  g_assert_true (rig_write_chunks (rig, folder, 0, 40, 1));
  llm_kv_folder_close (folder);
  copy_clear (&copy);
}

/* Errors of the disk in the middle. */
static void
test_io_errors (StorageRig    *rig,
                gconstpointer  data)
{
  LlmKvFolder *folder;
  guint n_failed;

  rig_make_shape (rig, LARGE);
  folder = rig_open_folder (rig, "app", "context");
  for (int i = 0; i < 6; i++)
    {
      rig_set_calls (&rig_writes_left, i);
      g_assert_false (rig_write_chunks (rig, folder, 0, 60, 1));
      g_assert_cmpint (__atomic_load_n (&rig_writes_left, __ATOMIC_SEQ_CST), <, 0);
      g_assert_cmpuint (rig_count_files (rig, "context"), ==, 0);
      g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, 0);
    }
  g_assert_cmpuint (rig->n_logged, ==, 1);
  rig_set_calls (&rig_renames_failing, 1);
  g_assert_false (rig_write_chunks (rig, folder, 0, 60, 1));
  g_assert_cmpuint (rig_count_files (rig, "context"), ==, 0);

  g_assert_true (rig_write_chunks (rig, folder, 0, 60, 1));
  g_assert_true (rig_write_chunks (rig, folder, 60, 60, 1));
  rig_set_calls (&rig_reads_left, 5);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, &n_failed), ==, 120 - n_failed);
  g_assert_cmpuint (n_failed, >, 0);
  g_assert_cmpuint (n_failed, <, 60);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 120 - n_failed);
  llm_kv_folder_close (folder);
}

static void
test_full_disk (StorageRig    *rig,
                gconstpointer  data)
{
  const struct rlimit small = { 2 * LLM_DISK_BLOCK, RLIM_INFINITY };
  struct rlimit before;
  LlmKvFolder *folder;

  g_assert_true (rig_write_context (rig, "x", "a"));
  g_assert_true (rig_write_context (rig, "x", "b"));
  g_assert_true (rig_write_context (rig, "x", "c"));
  /* The file system says so: what was not used for longest makes room, as much as it needs. */
  rig_set_calls (&rig_fallocates_failing, 2);
  g_assert_true (rig_write_context (rig, "x", "d"));
  rig_assert_contexts (rig, "cd");
  rig_set_calls (&rig_fallocates_failing, 100);
  g_assert_false (rig_write_context (rig, "x", "e"));
  rig_set_calls (&rig_fallocates_failing, 0);
  rig_assert_contexts (rig, "");
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, 0);

  /* A limit of the process is no signal. */
  folder = rig_open_folder (rig, "x", "a");
  g_assert_cmpint (getrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &small), ==, 0);
  g_assert_false (rig_write_chunks (rig, folder, 0, 30, 1));
  g_assert_cmpint (setrlimit (RLIMIT_FSIZE, &before), ==, 0);
  g_assert_true (rig_write_chunks (rig, folder, 0, 30, 1));
  llm_kv_folder_close (folder);
}

static void
note (gpointer data)
{
  __atomic_store_n ((gboolean *) data, TRUE, __ATOMIC_SEQ_CST);
}

/* Somebody else needs room on the disk: what was not used for longest goes, of open contexts, too,
 * and is there for others once that is said. */
static void
test_trim (StorageRig    *rig,
           gconstpointer  data)
{
  LlmKvFolder *folder;
  gboolean is_settled = FALSE;
  guint64 one, all;

  g_assert_true (rig_write_context (rig, "x", "a"));
  one = llm_kv_storage_get_bytes (rig->storage);
  g_assert_true (rig_write_context (rig, "y", "b"));
  g_assert_true (rig_write_context (rig, "x", "c"));
  g_assert_true (rig_write_context (rig, "y", "d"));
  all = llm_kv_storage_get_bytes (rig->storage);

  g_assert_cmpuint (llm_kv_storage_trim (rig->storage, one + 1), ==, 2 * one);
  llm_kv_storage_settle (rig->storage, note, &is_settled);
  while (!__atomic_load_n (&is_settled, __ATOMIC_SEQ_CST))
    g_usleep (1000);
  rig_assert_contexts (rig, "cd");
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, all - 2 * one);

  folder = rig_open_folder (rig, "x", "c");
  g_assert_cmpuint (llm_kv_storage_trim (rig->storage, G_MAXUINT64), ==, 2 * one);
  g_assert_cmpuint (llm_kv_storage_trim (rig->storage, 1), ==, 0);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 0);
  g_assert_true (rig_write_chunks (rig, folder, 0, 16, 1));
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 16);
  llm_kv_folder_close (folder);
}

/* A link in its place is not followed, and what it leads to not touched. */
static void
test_link (StorageRig    *rig,
           gconstpointer  data)
{
  g_autofree char *elsewhere = g_strconcat (rig->folder, "-elsewhere", NULL);
  g_autofree char *part = NULL;
  g_autoptr(LlmKvStorage) storage = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_true (rig_write_context (rig, "x", "a"));
  part = rig_get_path (rig, "a", "0000000000000009.part");
  g_assert_true (g_file_set_contents (part, "half", -1, NULL));
  g_assert_true (llm_kv_storage_is_in_place (rig->storage));
  llm_kv_storage_free (rig->storage);
  g_assert_cmpint (g_rename (rig->folder, elsewhere), ==, 0);
  g_assert_cmpint (symlink (elsewhere, rig->folder), ==, 0);
  storage = llm_kv_storage_new (rig->folder, rig_new_disk (rig), 0, 0, &error);
  g_assert_null (storage);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_nonnull (strstr (error->message, rig->folder));
  g_assert_cmpint (g_unlink (rig->folder), ==, 0);
  g_assert_cmpint (g_rename (elsewhere, rig->folder), ==, 0);
  g_assert_true (g_file_test (part, G_FILE_TEST_EXISTS));

  rig_make_storage (rig);
  g_assert_cmpint (g_rename (rig->folder, elsewhere), ==, 0);
  g_assert_false (llm_kv_storage_is_in_place (rig->storage));
  g_assert_cmpint (g_rename (elsewhere, rig->folder), ==, 0);
  g_assert_true (llm_kv_storage_is_in_place (rig->storage));
}

/* --- ends in the middle --- */

static void
test_cancel (StorageRig    *rig,
             gconstpointer  data)
{
  g_autofree RigWrite *write = g_new (RigWrite, 1);
  LlmKvFolder *folder;
  LlmKvRead *work;
  RigRead *read;

  rig_make_shape (rig, LARGE);
  folder = rig_open_folder (rig, "app", "context");
  g_assert_true (rig_write_chunks (rig, folder, 0, 60, 1));

  /* A write: its data may go with the folder. */
  rig_begin_write (rig, folder, write, 60, 100, 1);
  g_assert_cmpuint (rig_count_files (rig, "context"), ==, 2);
  llm_kv_folder_close (folder);
  rig_end_write (write);
  g_assert_cmpuint (rig_count_files (rig, "context"), ==, 1);
  while (llm_disk_poll (llm_kv_storage_get_disk (rig->storage), WAIT_US) > 0)
    ;
  g_assert_false (write->has_ended);
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==,
                    rig_count_disk_bytes (rig, "context"));

  /* A read: by its owner, by the folder, and by the folder from inside of a callback. */
  for (guint i = 0; i < 3; i++)
    {
      folder = rig_open_folder (rig, "app", "context");
      read = rig_read_new (rig, 60);
      for (guint j = 0; j < 60; j++)
        {
          LlmKvSlot slot;
          LlmKvRecord record;

          g_assert_true (llm_kv_folder_find (folder, j, rig_get_hash (j, 1), &slot, &record));
          rig_set_target (read, j, slot, &record);
        }
      work = llm_kv_folder_read (folder, read->targets, 60, rig_on_arrived, read,
                                 rig_on_read_ended, read);
      if (i == 2)
        {
          read->closes = folder;
          while (read->closes != NULL)
            rig_poll_disk (rig);
          g_assert_cmpuint (read->n_ended, <=, 1);
        }
      else if (i == 1)
        llm_kv_folder_close (folder);
      llm_kv_read_free (work);
      if (i == 0)
        llm_kv_folder_close (folder);
      while (read->is_under_way)
        rig_poll_disk (rig);
      rig_spoil (read);
      while (llm_disk_poll (llm_kv_storage_get_disk (rig->storage), WAIT_US) > 0)
        ;
      for (guint j = 0; j < read->n; j++)
        for (gsize k = 0; k < rig_get_bytes (rig, read->records[j].form); k++)
          g_assert_cmpuint (read->targets[j].data[k], ==, SPOILT);
      rig_read_free (read);
    }

  /* And a process that goes while it writes. */
  folder = rig_open_folder (rig, "app", "context");
  rig_begin_write (rig, folder, write, 60, 100, 1);
  llm_kv_folder_close (folder);
  rig_restart (rig);
  rig_end_write (write);
  folder = rig_open_folder (rig, "app", "context");
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 60);
  llm_kv_folder_close (folder);
}

/* --- holes --- */

/* Dead chunks give their blocks back; those that live beside them do not notice. */
static void
test_holes (StorageRig    *rig,
            gconstpointer  data)
{
  LlmKvFolder *folder, *fork;
  guint64 bytes, before;
  LlmKvSlot slot;

  rig_make_shape (rig, LARGE);
  folder = rig_open_folder (rig, "app", "context");
  g_assert_true (rig_write_chunks (rig, folder, 0, 60, 1));
  bytes = llm_kv_storage_get_folder_bytes (rig->storage, "context");
  for (guint i = 0; i < 60; i++)
    if (i % 20 >= 10 && llm_kv_folder_find (folder, i, rig_get_hash (i, 1), &slot, NULL))
      {
        llm_kv_folder_forget (folder, slot);
        g_assert_false (llm_kv_folder_find (folder, i, rig_get_hash (i, 1), NULL, NULL));
      }
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 30);
  /* Nothing happens on the disk before it is tidied, and then in another thread. */
  g_assert_false (llm_kv_storage_is_tidy (rig->storage));
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, bytes);
  while (llm_kv_storage_tidy (rig->storage))
    ;
  g_assert_true (llm_kv_storage_is_tidy (rig->storage));
  while (llm_kv_storage_get_bytes (rig->storage) >= bytes * 4 / 5)
    g_usleep (1000);
  llm_kv_folder_close (folder);
  rig_restart (rig);
  folder = rig_open_folder (rig, "app", "context");
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "context"), <, bytes * 4 / 5);
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "context"), ==, rig_count_disk_bytes (rig, "context"));
  /* Those that still have their blocks may be found again, and are whole. */
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), >=, 30);

  /* What a fork has as well stays whole. */
  fork = rig_open_folder (rig, "app", "fork");
  g_assert_true (rig_write_chunks (rig, folder, 0, 60, 2));
  llm_kv_folder_link (fork, folder, 60);
  g_assert_cmpuint (rig_count_files (rig, "context"), ==, 1);
  before = llm_kv_storage_get_folder_bytes (rig->storage, "context");
  for (guint i = 0; i < 50; i++)
    {
      g_assert_true (llm_kv_folder_find (folder, i, rig_get_hash (i, 2), &slot, NULL));
      llm_kv_folder_forget (folder, slot);
    }
  g_assert_cmpuint (rig_read_chunks (rig, fork, 2, 1, NULL), ==, 60);
  llm_kv_folder_close (folder);
  llm_kv_folder_close (fork);
  rig_restart (rig);
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "fork"), ==, before);
  fork = rig_open_folder (rig, "app", "fork");
  g_assert_cmpuint (rig_read_chunks (rig, fork, 2, 1, NULL), ==, 60);
  llm_kv_folder_close (fork);
}

int
main (int   argc,
      char *argv[])
{
  static const RigTest tests[] = {
    { "flips", test_flips, FALSE },
    { "truncated", test_truncated, FALSE },
    { "io-errors", test_io_errors, TRUE },
    { "full-disk", test_full_disk, FALSE },
    { "trim", test_trim, FALSE },
    { "link", test_link, FALSE },
    { "cancel", test_cancel, FALSE },
    { "holes", test_holes, FALSE },
  };

  return rig_run_tests (argc, argv, "storage-faults", tests, G_N_ELEMENTS (tests));
}
