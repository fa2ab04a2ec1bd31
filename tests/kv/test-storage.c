/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Chunks on storage: what comes back is what was written, or nothing. All of it with io_uring and
 * with threads. */

#include <fcntl.h>
#include <glib/gstdio.h>
#include <unistd.h>

#include "kv/disk/llm-kv-storage-private.h"
#include "storage-rig.h"

static void
test_write_and_read (StorageRig    *rig,
                     gconstpointer  data)
{
  for (guint scale = SMALL; scale <= LARGE; scale += LARGE - SMALL)
    {
      LlmKvFolder *folder;

      rig_make_shape (rig, scale);
      rig->shape.identity += scale;
      folder = rig_open_folder (rig, "app", "context");
      g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
      g_assert_true (rig_write_chunks (rig, folder, 0, 90, 7));
      g_assert_true (rig_write_chunks (rig, folder, 90, 1, 7));
      g_assert_true (rig_write_chunks (rig, folder, 91, LLM_KV_EXTENT_CHUNKS, 7));
      g_assert_cmpuint (rig_count_files (rig, "context"), ==, 3);
      g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 91 + LLM_KV_EXTENT_CHUNKS);
      g_assert_cmpuint (rig_read_chunks (rig, folder, 7, 1, NULL), ==, 91 + LLM_KV_EXTENT_CHUNKS);
      g_assert_cmpuint (rig_read_chunks (rig, folder, 7, 5, NULL), ==,
                        (91 + LLM_KV_EXTENT_CHUNKS) / 5 + 1);
      /* Another text is not what was written. */
      g_assert_cmpuint (rig_read_chunks (rig, folder, 8, 1, NULL), ==, 0);
      llm_kv_folder_close (folder);

      rig_restart (rig);
      folder = rig_open_folder (rig, "app", "context");
      g_assert_cmpuint (rig_read_chunks (rig, folder, 7, 1, NULL), ==, 91 + LLM_KV_EXTENT_CHUNKS);
      g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==,
                        rig_count_disk_bytes (rig, "context"));
      llm_kv_folder_close (folder);
    }
  /* The other shape's extents went when the folder was opened with this one. */
  g_assert_cmpuint (rig_count_files (rig, "context"), ==, 3);
  g_assert_cmpuint (rig->n_logged, ==, 1);
}

/* Writes what comes with the next chunks of "context" to it. */
static void
write_extents (StorageRig *rig,
               guint       first,
               guint       n)
{
  LlmKvFolder *folder = rig_open_folder (rig, "app", "context");

  for (guint i = 0; i < n; i++)
    g_assert_true (rig_write_chunks (rig, folder, first + 4 * i, 4, 7));
  llm_kv_folder_close (folder);
}

/* Until the disk has answered, what lies in a folder is not known, and nobody waits for it. */
static void
test_opening (StorageRig    *rig,
              gconstpointer  data)
{
  const guint n_extents = 40;
  LlmDisk *disk;
  LlmKvFolder *folder;
  LlmKvFolder *other;

  write_extents (rig, 0, n_extents);
  rig_restart (rig);
  disk = llm_kv_storage_get_disk (rig->storage);
  folder = llm_kv_folder_open (rig->storage, "app", "context", &rig->shape);
  g_assert_false (llm_kv_folder_is_open (folder));
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  g_assert_false (llm_kv_folder_find (folder, 0, rig_get_hash (0, 7), NULL, NULL));
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "context"), ==, rig_count_disk_bytes (rig, "context"));

  /* others are used meanwhile; there is nothing to wait for in a new one, or to give away yet */
  other = llm_kv_folder_open (rig->storage, "app", "other", &rig->shape);
  g_assert_true (llm_kv_folder_is_open (other));
  llm_kv_folder_link (other, folder, 1000);
  llm_kv_folder_forget (folder, (LlmKvSlot) { 1, 0 });
  g_assert_cmpuint (rig_count_files (rig, "other"), ==, 0);

  while (!llm_kv_folder_is_open (folder))
    rig_poll_disk (rig);
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 4 * n_extents);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 7, 1, NULL), ==, 4 * n_extents);
  llm_kv_folder_link (other, folder, 1000);
  g_assert_cmpuint (rig_count_files (rig, "other"), ==, n_extents);
  llm_kv_folder_close (other);
  llm_kv_folder_close (folder);

  /* what is written meanwhile is later than what was there */
  folder = llm_kv_folder_open (rig->storage, "app", "context", &rig->shape);
  g_assert_true (rig_write_chunks (rig, folder, 8, 4, 9));
  while (!llm_kv_folder_is_open (folder))
    rig_poll_disk (rig);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 9, 1, NULL), ==, 4);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 7, 1, NULL), ==, 4 * n_extents - 4);
  llm_kv_folder_close (folder);

  /* what goes meanwhile, to make room, is not there: all that the other one has, and then the first
   * of this one */
  folder = llm_kv_folder_open (rig->storage, "app", "context", &rig->shape);
  for (guint i = 0; i <= n_extents; i++)
    g_assert_true (llm_kv_storage_evict (rig->storage, 0, NULL));
  g_assert_false (llm_kv_folder_is_open (folder));
  while (!llm_kv_folder_is_open (folder))
    rig_poll_disk (rig);
  g_assert_false (llm_kv_folder_find (folder, 0, rig_get_hash (0, 7), NULL, NULL));
  g_assert_cmpuint (rig_read_chunks (rig, folder, 7, 1, NULL), ==, 4 * n_extents - 8);
  llm_kv_folder_close (folder);

  /* closed at once, and at the end of all */
  for (guint i = 0; i < 3; i++)
    {
      folder = llm_kv_folder_open (rig->storage, "app", "context", &rig->shape);
      if (i > 0)
        llm_disk_poll (disk, 0);
      llm_kv_folder_close (folder);
    }
  rig_restart (rig);
  folder = rig_open_folder (rig, "app", "context");
  g_assert_cmpuint (rig_read_chunks (rig, folder, 7, 1, NULL), ==, 4 * n_extents - 8);
  llm_kv_folder_close (folder);
  g_assert_cmpuint (rig->n_logged, ==, 0);
}

/* A chunk's files are opened, and its bytes read, by the disk's threads: a read may end at any
 * time. */
static void
test_ended_reads (StorageRig    *rig,
                  gconstpointer  data)
{
  LlmKvFolder *folder;

  write_extents (rig, 0, 10);
  folder = rig_open_folder (rig, "app", "context");
  for (guint i = 0; i < 4; i++)
    {
      RigRead *read = rig_read_new (rig, 40);
      LlmKvRead *work;

      read->n = 0;
      for (guint number = 0; number < 40; number++)
        {
          LlmKvSlot slot;
          LlmKvRecord record;

          g_assert_true (llm_kv_folder_find (folder, number, rig_get_hash (number, 7), &slot,
                                             &record));
          if (rig_get_bytes (rig, record.form) > 0)
            rig_set_target (read, read->n++, slot, &record);
        }
      work = llm_kv_folder_read (folder, read->targets, read->n, rig_on_arrived, read,
                                 rig_on_read_ended, read);
      g_assert_cmpuint (llm_kv_read_get_bytes (work), >, 0);
      for (guint j = 0; j < i; j++)
        llm_disk_poll (llm_kv_storage_get_disk (rig->storage), 0);
      if (i == 3)
        llm_kv_folder_close (folder);
      llm_kv_read_free (work);
      rig_read_free (read);
    }
}

/* The first layers of all come before the last ones of any. */
static void
test_layers (StorageRig    *rig,
             gconstpointer  data)
{
  const guint n = 250;
  RigRead *read = rig_read_new (rig, n);
  LlmKvFolder *folder;
  LlmKvRead *work;

  rig_make_shape (rig, LARGE);
  folder = rig_open_folder (rig, "app", "context");
  for (guint i = 0; i < n; i += 50)
    g_assert_true (rig_write_chunks (rig, folder, i, 50, 1));
  read->n = 0;
  for (guint i = 0; i < n; i++)
    {
      LlmKvSlot slot;
      LlmKvRecord record;

      g_assert_true (llm_kv_folder_find (folder, i, rig_get_hash (i, 1), &slot, &record));
      /* what has no bytes is there at once */
      if (rig_get_bytes (rig, record.form) > 0)
        rig_set_target (read, read->n++, slot, &record);
    }
  g_assert_cmpuint (read->n, >, 200);
  work = llm_kv_folder_read (folder, read->targets, read->n, rig_on_arrived, read,
                             rig_on_read_ended, read);
  while (read->n_ended < read->n)
    rig_poll_disk (rig);
  llm_kv_read_free (work);
  g_assert_cmpuint (read->n_failed, ==, 0);
  g_assert_cmpuint (read->n_first, ==, read->n);
  rig_read_free (read);
  llm_kv_folder_close (folder);
}

static void
test_latest (StorageRig    *rig,
             gconstpointer  data)
{
  LlmKvFolder *folder = rig_open_folder (rig, "app", "context");
  guint64 hashes[8];
  LlmKvSlot slot;

  g_assert_true (rig_write_chunks (rig, folder, 0, 8, 1));
  g_assert_true (rig_write_chunks (rig, folder, 4, 2, 2));
  g_assert_false (llm_kv_folder_find (folder, 4, rig_get_hash (4, 1), NULL, NULL));
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 6);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 2, 1, NULL), ==, 2);
  llm_kv_folder_close (folder);
  rig_restart (rig);

  /* The same after a restart, once the context has said which tokens it has: files may have others'
   * chunks. The next one is later than all there were. */
  folder = rig_open_folder (rig, "app", "context");
  for (guint i = 0; i < 8; i++)
    hashes[i] = rig_get_hash (i, i == 4 || i == 5 ? 2 : 1);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 8);
  llm_kv_folder_keep (folder, hashes, 8);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 6);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 2, 1, NULL), ==, 2);
  g_assert_true (rig_write_chunks (rig, folder, 0, 8, 3));
  g_assert_cmpuint (rig_read_chunks (rig, folder, 3, 1, NULL), ==, 8);
  g_assert_cmpuint (rig_count_files (rig, "context"), ==, 1);

  /* An extent goes with its last chunk. */
  for (guint i = 0; i < 8; i++)
    {
      g_assert_cmpuint (rig_count_files (rig, "context"), ==, 1);
      g_assert_true (llm_kv_folder_find (folder, i, rig_get_hash (i, 3), &slot, NULL));
      llm_kv_folder_forget (folder, slot);
      g_assert_false (llm_kv_folder_find (folder, i, rig_get_hash (i, 3), NULL, NULL));
      llm_kv_folder_forget (folder, slot);
    }
  g_assert_cmpuint (rig_count_files (rig, "context"), ==, 0);
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "context"), ==, 0);
  g_assert_cmpuint (llm_kv_folder_get_end (folder), ==, 0);
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, 0);
  llm_kv_folder_close (folder);
}

/* Of two writes at the same time the later one counts, even if it ends first. */
static void
test_overtaken (StorageRig    *rig,
                gconstpointer  data)
{
  /* The only one of them that has no bytes, so that there is little to write. */
  const guint number = 11;
  g_autofree RigWrite *first = g_new (RigWrite, 1);
  g_autofree RigWrite *second = g_new (RigWrite, 1);
  LlmKvFolder *folder;

  rig_make_shape (rig, LARGE);
  g_assert_cmpuint (rig_get_bytes (rig, rig_get_form (number)), ==, 0);
  folder = rig_open_folder (rig, "app", "context");
  rig_begin_write (rig, folder, first, 0, 100, 4);
  rig_begin_write (rig, folder, second, number, 1, 5);
  /* (mostly the second one does) */
  while (!first->has_ended || !second->has_ended)
    rig_poll_disk (rig);
  g_assert_no_error (first->error);
  g_assert_no_error (second->error);
  rig_end_write (first);
  rig_end_write (second);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 5, 1, NULL), ==, 1);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 4, 1, NULL), ==, 99);
  llm_kv_folder_close (folder);
}

/* What is not there any more is told, not read. */
static void
test_gone (StorageRig    *rig,
           gconstpointer  data)
{
  LlmKvFolder *folder = rig_open_folder (rig, "app", "context");
  RigRead *read = rig_read_new (rig, 4);
  LlmKvRead *work;
  LlmKvRecord record;
  LlmKvSlot slot;

  g_assert_true (rig_write_chunks (rig, folder, 0, 4, 1));
  for (guint i = 0; i < 4; i++)
    {
      g_assert_true (llm_kv_folder_find (folder, i, rig_get_hash (i, 1), &slot, &record));
      rig_set_target (read, i, slot, &record);
    }
  llm_kv_folder_forget (folder, read->targets[0].slot);
  read->targets[1].slot.extent = 99;
  read->targets[2].slot.index = 4;
  work = llm_kv_folder_read (folder, read->targets, 4, rig_on_arrived, read,
                             rig_on_read_ended, read);
  while (read->n_ended < 4)
    rig_poll_disk (rig);
  g_assert_cmpuint (read->n_failed, ==, 3);
  llm_kv_read_free (work);
  rig_read_free (read);
  g_assert_cmpuint (rig_read_chunks (rig, folder, 1, 1, NULL), ==, 3);
  llm_kv_folder_close (folder);
}

static void
test_link (StorageRig    *rig,
           gconstpointer  data)
{
  LlmKvFolder *from = rig_open_folder (rig, "app", "origin");
  LlmKvFolder *fork = rig_open_folder (rig, "app", "fork");
  LlmKvSlot slot, again;
  guint64 hashes[40];
  guint64 bytes;

  g_assert_true (rig_write_chunks (rig, from, 0, 16, 1));
  g_assert_true (rig_write_chunks (rig, from, 16, 16, 1));
  g_assert_true (rig_write_chunks (rig, from, 32, 16, 1));
  bytes = llm_kv_storage_get_bytes (rig->storage);

  llm_kv_folder_link (fork, from, 40);
  g_assert_true (llm_kv_folder_find (fork, 0, rig_get_hash (0, 1), &slot, NULL));
  llm_kv_folder_link (fork, from, 40);
  g_assert_true (llm_kv_folder_find (fork, 0, rig_get_hash (0, 1), &again, NULL));
  g_assert_cmpuint (again.extent, ==, slot.extent);
  g_assert_cmpuint (llm_kv_folder_get_end (fork), ==, 40);
  g_assert_cmpuint (rig_read_chunks (rig, fork, 1, 1, NULL), ==, 40);
  g_assert_cmpuint (rig_count_files (rig, "fork"), ==, 3);
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, bytes);
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "fork"), ==, bytes);
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "origin"), ==, bytes);

  /* What one forgets or writes anew is the other's still. */
  g_assert_true (rig_write_chunks (rig, from, 0, 16, 2));
  g_assert_true (rig_write_chunks (rig, from, 16, 8, 2));
  g_assert_cmpuint (rig_read_chunks (rig, fork, 1, 1, NULL), ==, 40);
  g_assert_cmpuint (rig_read_chunks (rig, from, 2, 1, NULL), ==, 24);
  llm_kv_folder_close (from);
  llm_kv_folder_close (fork);
  llm_kv_storage_remove (rig->storage, "origin");
  rig_restart (rig);
  fork = rig_open_folder (rig, "app", "fork");
  g_assert_cmpuint (rig_read_chunks (rig, fork, 1, 1, NULL), ==, 48);
  for (guint i = 0; i < 40; i++)
    hashes[i] = rig_get_hash (i, 1);
  llm_kv_folder_keep (fork, hashes, 40);
  g_assert_cmpuint (rig_read_chunks (rig, fork, 1, 1, NULL), ==, 40);
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==,
                    rig_count_disk_bytes (rig, "fork"));
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "fork"), ==,
                    rig_count_disk_bytes (rig, "fork"));
  g_assert_cmpuint (llm_kv_storage_get_folder_bytes (rig->storage, "origin"), ==, 0);
  llm_kv_folder_close (fork);
  llm_kv_storage_remove (rig->storage, "fork");
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, 0);
}

/* The chunk @number of a text, as a context that has it in memory would adopt it. @spoils: another
 * byte of it. */
static gboolean
adopt (StorageRig  *rig,
       LlmKvFolder *folder,
       guint        number,
       gboolean     spoils)
{
  LlmKvRecord record = { .number = number, .hash = rig_get_hash (number, 1),
                         .form = rig_get_form (number), .density = 1, .n_rows = 1 };
  gsize bytes = rig_get_bytes (rig, record.form);
  g_autofree guint8 *data = g_malloc (bytes + 1);
  LlmKvSlot slot;

  rig_fill_chunk (data, bytes, record.hash);
  if (spoils && bytes > 0)
    data[bytes - 1] ^= 1;
  return llm_kv_folder_adopt (folder, &record, data, &slot);
}

static char *
get_first_file (StorageRig *rig,
                const char *id)
{
  g_autoptr(GPtrArray) files = rig_list_files (rig, id);

  g_assert_cmpuint (files->len, >, 0);
  return g_strdup (files->pdata[0]);
}

/* What two contexts of an application have to the byte is there once, in a file that has other
 * chunks besides; and is found after a restart, when the one that wrote it is gone. */
static void
test_adopt (StorageRig    *rig,
            gconstpointer  data)
{
  LlmKvFolder *from = rig_open_folder (rig, "app", "origin");
  LlmKvFolder *to = rig_open_folder (rig, "app", "other");
  LlmKvFolder *foreign = rig_open_folder (rig, "app-2", "foreign");
  guint64 hashes[16];
  guint64 bytes;

  g_assert_true (rig_write_chunks (rig, from, 0, 40, 1));
  bytes = llm_kv_storage_get_bytes (rig->storage);
  for (guint i = 0; i < 10; i++)
    {
      g_assert_false (adopt (rig, foreign, i, FALSE));
      g_assert_true (adopt (rig, to, i, TRUE) == (rig_get_bytes (rig, rig_get_form (i)) == 0));
      g_assert_true (adopt (rig, to, i, FALSE));
    }
  g_assert_cmpuint (rig_count_files (rig, "other"), ==, 1);
  g_assert_cmpuint (rig_count_files (rig, "foreign"), ==, 0);
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, bytes);
  g_assert_cmpuint (rig_read_chunks (rig, to, 1, 1, NULL), ==, 10);
  /* its own text goes on differently */
  g_assert_true (rig_write_chunks (rig, to, 10, 6, 3));
  g_assert_cmpuint (rig_read_chunks (rig, to, 1, 1, NULL), ==, 10);
  llm_kv_folder_close (foreign);
  llm_kv_folder_close (from);
  llm_kv_folder_close (to);

  rig_restart (rig);
  bytes = llm_kv_storage_get_bytes (rig->storage);
  llm_kv_storage_remove (rig->storage, "origin");
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, bytes);
  to = rig_open_folder (rig, "app", "other");
  for (guint i = 0; i < 16; i++)
    hashes[i] = rig_get_hash (i, i < 10 ? 1 : 3);
  llm_kv_folder_keep (to, hashes, 16);
  g_assert_cmpuint (rig_read_chunks (rig, to, 1, 1, NULL), ==, 10);
  g_assert_cmpuint (rig_read_chunks (rig, to, 3, 1, NULL), ==, 6);
  /* what was the other one's alone is given back */
  while (llm_kv_storage_tidy (rig->storage))
    ;
  llm_kv_folder_close (to);
  rig_restart (rig);
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), ==, rig_count_disk_bytes (rig, "other"));
  g_assert_cmpuint (llm_kv_storage_get_bytes (rig->storage), <, bytes);
}

/* After a power cut a shared file has its name in both folders, and not all of its bytes. */
static void
test_torn (StorageRig    *rig,
           gconstpointer  data)
{
  const char *const ids[] = { "origin", "other" };
  LlmKvFolder *folders[2];
  g_autofree char *path = NULL;
  g_autofree char *text = NULL;
  guint n_failed;
  gsize length;

  rig_make_shape (rig, LARGE);
  for (guint i = 0; i < 2; i++)
    folders[i] = rig_open_folder (rig, "app", ids[i]);
  g_assert_true (rig_write_chunks (rig, folders[0], 0, 40, 1));
  for (guint i = 0; i < 40; i++)
    g_assert_true (adopt (rig, folders[1], i, FALSE));
  for (guint i = 0; i < 2; i++)
    llm_kv_folder_close (folders[i]);
  path = get_first_file (rig, "other");
  g_assert_true (g_file_get_contents (path, &text, &length, NULL));
  {
    g_autofree guint8 *zeros = g_malloc0 (length / 2);
    int fd = open (path, O_WRONLY | O_CLOEXEC);

    g_assert_cmpint (pwrite (fd, zeros, length / 2, (off_t) (length / 2)), ==, (gssize) (length / 2));
    close (fd);
  }

  rig_restart (rig);
  for (guint i = 0; i < 2; i++)
    {
      guint n;

      folders[i] = rig_open_folder (rig, "app", ids[i]);
      n = rig_read_chunks (rig, folders[i], 1, 1, &n_failed);
      g_assert_cmpuint (n_failed, >, 0);
      g_assert_cmpuint (n + n_failed, ==, 40);
      /* it is forgotten there, computed again, and written anew */
      g_assert_true (rig_write_chunks (rig, folders[i], 0, 40, 1));
      g_assert_cmpuint (rig_read_chunks (rig, folders[i], 1, 1, NULL), ==, 40);
    }
  for (guint i = 0; i < 2; i++)
    llm_kv_folder_close (folders[i]);
}

static void
test_hash (StorageRig    *rig,
           gconstpointer  data)
{
  const gint32 tokens[] = { 1, 2, 3, 4, 5, 6 };

  g_assert_cmpuint (llm_kv_hash_tokens (0, tokens, 3), ==, llm_kv_hash_tokens (0, tokens, 3));
  g_assert_cmpuint (llm_kv_hash_tokens (0, tokens, 3), !=, llm_kv_hash_tokens (0, tokens, 2));
  g_assert_cmpuint (llm_kv_hash_tokens (0, tokens, 3), !=, llm_kv_hash_tokens (0, tokens + 1, 3));
  g_assert_cmpuint (llm_kv_hash_tokens (0, tokens, 3), !=, llm_kv_hash_tokens (9, tokens, 3));
}

int
main (int   argc,
      char *argv[])
{
  static const RigTest tests[] = {
    { "write-and-read", test_write_and_read, FALSE },
    { "layers", test_layers, FALSE },
    { "opening", test_opening, FALSE },
    { "ended-reads", test_ended_reads, FALSE },
    { "latest", test_latest, FALSE },
    { "overtaken", test_overtaken, FALSE },
    { "gone", test_gone, FALSE },
    { "link", test_link, FALSE },
    { "adopt", test_adopt, FALSE },
    { "torn", test_torn, FALSE },
    { "hash", test_hash, FALSE },
  };

  return rig_run_tests (argc, argv, "storage", tests, G_N_ELEMENTS (tests));
}
