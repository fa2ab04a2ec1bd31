/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What others do to the database's files, at the start and while it is open: nothing crashes or
 * hangs, and what was acknowledged is there after the next start. */

#include "contexts/llm-context-store.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "engine-rig.h"
#include "support/llm-test-folder.h"

/* Tries of what is to work soon; not a time that anything has to take. */
#define MAX_TRIES 600
#define TRY_US (50 * 1000)

static gboolean
insert (LlmDb      *db,
        const char *id,
        GError    **error)
{
  LlmStoredContext *context = llm_stored_context_new ();
  gboolean is_good;

  context->id = g_strdup (id);
  context->uid = 1000;
  context->app = g_strdup ("org.example.App");
  context->name = g_strdup (id);
  context->slo = g_strdup ("responsive");
  context->turns = llm_conversation_new ();
  is_good = run_db (db, llm_store_insert_context, context, error);
  llm_stored_context_free (context);
  return is_good;
}

/* The contexts that are stored, as one string; NULL with @error. */
static char *
list (LlmDb  *db,
      GError **error)
{
  LlmStoredIndex *index = llm_stored_index_new ();
  GString *ids = g_string_new (NULL);
  gboolean is_good = run_db (db, llm_store_load_index, index, error);

  for (guint i = 0; i < index->contexts->len; i++)
    g_string_append (ids, ((LlmStoredContext *) g_ptr_array_index (index->contexts, i))->id);
  llm_stored_index_free (index);
  return g_string_free (ids, !is_good);
}

/* Waits until the database can be used again. */
static char *
await_list (LlmDb *db)
{
  for (guint i = 0; i < MAX_TRIES; i++)
    {
      g_autoptr(GError) error = NULL;
      char *ids = list (db, &error);

      if (ids != NULL)
        return ids;
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
      g_usleep (TRY_US);
    }
  g_assert_not_reached ();
}

static void
assert_storage_error (const GError *error,
                      const char   *part)
{
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  if (strstr (error->message, part) == NULL)
    g_error ("“%s” does not name “%s”", error->message, part);
}

/* --- at the start --- */

/* Another process has the file for itself: when it lets go, all is well. */
static void
test_locked (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "contexts.db", NULL);
  LlmDb *db = llm_db_new (folder, &llm_context_schema);
  g_autoptr(GError) error = NULL;
  g_autofree char *ids = NULL;
  sqlite3 *other;

  g_assert_true (insert (db, "a", &error));
  llm_db_free (db);

  g_assert_cmpint (sqlite3_open (path, &other), ==, SQLITE_OK);
  g_assert_cmpint (sqlite3_exec (other, "BEGIN EXCLUSIVE; DELETE FROM quotas", NULL, NULL, NULL),
                   ==, SQLITE_OK);
  db = llm_db_new (folder, &llm_context_schema);
  g_assert_false (insert (db, "b", &error));
  assert_storage_error (error, path);
  assert_storage_error (error, "another process");
  sqlite3_close (other);
  ids = await_list (db);
  g_assert_cmpstr (ids, ==, "a");
  llm_db_free (db);
  llm_test_folder_remove (folder);
}

/* The version that the file names is not that of its tables: that is told, with what is wrong, and
 * the file stays as it was, byte by byte. */
static void
test_version (void)
{
  static const struct
  {
    const char *sql;
    const char *part;
  } lies[] = {
    { "PRAGMA user_version = 0", "contexts" },
    { "PRAGMA user_version = 1", "contexts.checksum" },
    { "PRAGMA user_version = 4", "turns.n_sparse" },
    { "DROP TABLE traits", "traits.context" },
    { "DROP TABLE traits; PRAGMA user_version = 3", "traits.context" },
    { "DROP INDEX contexts_copy", "contexts_copy" },
    { "ALTER TABLE turns DROP COLUMN n_sparse", "turns.n_sparse" },
    { "PRAGMA user_version = 5", "turns.n_w8" },
    { "ALTER TABLE contexts ADD COLUMN more TEXT", "contexts.more" },
    { "PRAGMA journal_mode = DELETE; PRAGMA user_version = 2", "traits.context" },
    { "PRAGMA user_version = 99", "99" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (lies); i++)
    {
      g_autofree char *folder = llm_test_folder_new ();
      g_autofree char *path = g_build_filename (folder, "contexts.db", NULL);
      g_autofree char *before = NULL;
      g_autofree char *after = NULL;
      g_autofree char *ids = NULL;
      g_autoptr(GError) error = NULL;
      LlmDb *db = llm_db_new (folder, &llm_context_schema);
      sqlite3 *other;
      gsize n_before;
      gsize n_after;

      g_assert_true (insert (db, "a", &error));
      llm_db_free (db);
      g_assert_cmpint (sqlite3_open (path, &other), ==, SQLITE_OK);
      g_assert_cmpint (sqlite3_exec (other, lies[i].sql, NULL, NULL, NULL), ==, SQLITE_OK);
      sqlite3_close (other);
      g_assert_true (g_file_get_contents (path, &before, &n_before, NULL));

      db = llm_db_new (folder, &llm_context_schema);
      ids = list (db, &error);
      g_test_message ("%s: %s", lies[i].sql, error != NULL ? error->message : ids);
      g_assert_null (ids);
      assert_storage_error (error, path);
      assert_storage_error (error, lies[i].part);
      llm_db_free (db);
      g_assert_true (g_file_get_contents (path, &after, &n_after, NULL));
      g_assert_cmpmem (before, n_before, after, n_after);
      llm_test_folder_remove (folder);
    }
}

/* A second service on the same folder is told so; the first goes on. */
static void
test_second (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(LlmDb) first = llm_db_new (folder, &llm_context_schema);
  g_autoptr(LlmDb) second = llm_db_new (folder, &llm_context_schema);
  g_autoptr(GError) error = NULL;
  g_autofree char *ids = NULL;

  g_assert_true (insert (first, "a", &error));
  g_assert_false (insert (second, "b", &error));
  assert_storage_error (error, "another process");
  g_clear_error (&error);
  g_assert_true (insert (first, "c", &error));
  g_clear_pointer (&first, llm_db_free);
  ids = await_list (second);
  g_assert_cmpstr (ids, ==, "ac");
  g_assert_true (insert (second, "b", &error));
  g_clear_pointer (&second, llm_db_free);
  llm_test_folder_remove (folder);
}

/* What is not there yet may come. */
static void
test_no_folder_yet (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *state = g_build_filename (folder, "state", NULL);
  g_autoptr(LlmDb) db = llm_db_new (state, &llm_context_schema);
  g_autoptr(GError) error = NULL;
  g_autofree char *ids = NULL;

  g_assert_true (g_file_set_contents (state, "a file", -1, NULL));
  g_assert_false (insert (db, "a", &error));
  assert_storage_error (error, state);
  g_assert_cmpint (g_unlink (state), ==, 0);
  ids = await_list (db);
  g_assert_cmpstr (ids, ==, "");
  g_clear_pointer (&db, llm_db_free);
  llm_test_folder_remove (folder);
}

/* A name in the folder that leads elsewhere is not followed, and what is there stays as it is. */
static void
test_links (void)
{
  static const char *const names[] = { "contexts.db", "contexts.db-wal" };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autofree char *folder = llm_test_folder_new ();
      g_autofree char *state = g_build_filename (folder, "state", NULL);
      g_autofree char *name = g_build_filename (state, names[i], NULL);
      g_autofree char *elsewhere = g_build_filename (folder, "elsewhere", NULL);
      LlmDb *db = llm_db_new (state, &llm_context_schema);
      g_autoptr(GError) error = NULL;
      g_autofree char *bytes = NULL;
      g_autofree char *ids = NULL;

      g_assert_true (insert (db, "a", &error));
      llm_db_free (db);
      g_assert_true (g_file_set_contents (elsewhere, "", 0, NULL));
      g_unlink (name);
      g_assert_cmpint (symlink (elsewhere, name), ==, 0);

      db = llm_db_new (state, &llm_context_schema);
      g_assert_false (insert (db, "b", &error));
      assert_storage_error (error, names[i]);
      assert_storage_error (error, state);
      g_assert_true (g_file_get_contents (elsewhere, &bytes, NULL, NULL));
      g_assert_cmpstr (bytes, ==, "");

      g_assert_cmpint (g_unlink (name), ==, 0);
      ids = await_list (db);
      g_assert_cmpstr (ids, ==, i == 0 ? "" : "a");
      llm_db_free (db);
      llm_test_folder_remove (folder);
    }
}

/* The folder itself may lie elsewhere, if it is the user's own doing or root's; not another's. */
static void
test_folder_link (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *real = g_build_filename (folder, "private", NULL);
  g_autofree char *state = g_build_filename (folder, "state", NULL);
  g_autofree char *path = g_build_filename (real, "contexts.db", NULL);
  g_autoptr(GError) error = NULL;
  g_autofree char *ids = NULL;
  LlmDb *db;

  g_assert_cmpint (g_mkdir (real, 0700), ==, 0);
  g_assert_cmpint (symlink ("private", state), ==, 0);
  db = llm_db_new (state, &llm_context_schema);
  g_assert_true (insert (db, "a", &error));
  g_assert_true (insert (db, "b", &error));
  g_assert_true (g_file_test (path, G_FILE_TEST_IS_REGULAR));
  llm_db_free (db);

  /* only root can make it another's */
  if (geteuid () == 0)
    {
      g_assert_cmpint (lchown (state, 4711, 4711), ==, 0);
      db = llm_db_new (state, &llm_context_schema);
      g_assert_false (insert (db, "c", &error));
      assert_storage_error (error, "symbolic link of another user");
      g_assert_cmpint (lchown (state, 0, 0), ==, 0);
      ids = await_list (db);
      g_assert_cmpstr (ids, ==, "ab");
      llm_db_free (db);
    }
  llm_test_folder_remove (folder);
}

/* --- while it is open --- */

/* The journal's index used to be a file that any program of the user may truncate. */
static void
test_index_file (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "contexts.db-shm", NULL);
  g_autoptr(LlmDb) db = llm_db_new (folder, &llm_context_schema);
  g_autoptr(GError) error = NULL;
  g_autofree char *ids = NULL;

  g_assert_true (insert (db, "a", &error));
  g_assert_true (g_file_test (path, G_FILE_TEST_EXISTS) ? truncate (path, 0) == 0 : TRUE);
  g_assert_true (insert (db, "b", &error));
  g_assert_no_error (error);
  g_assert_false (g_file_test (path, G_FILE_TEST_EXISTS));
  ids = await_list (db);
  g_assert_cmpstr (ids, ==, "ab");
  g_clear_pointer (&db, llm_db_free);
  llm_test_folder_remove (folder);
}

static void
copy_file (const char *from,
           const char *to)
{
  g_autofree char *bytes = NULL;
  gsize length;

  g_assert_true (g_file_get_contents (from, &bytes, &length, NULL));
  g_assert_true (g_file_set_contents (to, bytes, (gssize) length, NULL));
}

typedef enum
{
  UNLINK_FILE,
  UNLINK_JOURNAL,
  UNLINK_FOLDER,
  MOVE_FOLDER,
  REPLACE_FILE,
  REPLACE_FOLDER,
  LINK_FILE,
  N_HARMS,
} Harm;

static void
do_harm (Harm        harm,
         const char *state)
{
  g_autofree char *path = g_build_filename (state, "contexts.db", NULL);
  g_autofree char *journal = g_strconcat (path, "-wal", NULL);
  g_autofree char *aside = g_strconcat (state, "-aside", NULL);
  g_autofree char *copy = g_build_filename (aside, "contexts.db", NULL);

  switch (harm)
    {
    case UNLINK_FILE:
      g_assert_cmpint (g_unlink (path), ==, 0);
      break;
    case UNLINK_JOURNAL:
      g_assert_cmpint (g_unlink (journal), ==, 0);
      break;
    case UNLINK_FOLDER:
      llm_test_folder_remove (state);
      break;
    case MOVE_FOLDER:
      g_assert_cmpint (g_rename (state, aside), ==, 0);
      break;
    case REPLACE_FILE:
      copy_file (path, aside);
      g_assert_cmpint (g_rename (aside, path), ==, 0);
      g_assert_cmpint (g_unlink (journal), ==, 0);
      break;
    case REPLACE_FOLDER:
      g_assert_cmpint (g_rename (state, aside), ==, 0);
      g_assert_cmpint (g_mkdir (state, 0700), ==, 0);
      copy_file (copy, path);
      break;
    case LINK_FILE:
      g_assert_cmpint (g_rename (path, aside), ==, 0);
      g_assert_cmpint (symlink (aside, path), ==, 0);
      break;
    case N_HARMS:
    default:
      g_assert_not_reached ();
    }
}

/* Removed or replaced: noticed by the next transaction, and not by the next start. */
static void
test_gone (void)
{
  for (guint i = 0; i < N_HARMS; i++)
    {
      g_autofree char *folder = llm_test_folder_new ();
      g_autofree char *state = g_build_filename (folder, "state", NULL);
      g_autofree char *path = g_build_filename (state, "contexts.db", NULL);
      LlmDb *db = llm_db_new (state, &llm_context_schema);
      g_autoptr(GError) error = NULL;
      g_autofree char *ids = NULL;
      g_autofree char *stored = NULL;
      g_autofree char *again = NULL;

      g_test_message ("harm %u", i);
      g_assert_true (insert (db, "a", &error));
      llm_db_free (db);
      db = llm_db_new (state, &llm_context_schema);
      g_assert_true (insert (db, "b", &error));
      do_harm (i, state);
      g_assert_false (insert (db, "c", &error));
      assert_storage_error (error, path);
      if (i == LINK_FILE)
        g_assert_cmpint (g_unlink (path), ==, 0);

      ids = await_list (db);
      g_assert_null (strchr (ids, 'c'));
      g_clear_error (&error);
      g_assert_true (insert (db, "d", &error));
      g_assert_no_error (error);
      stored = await_list (db);
      /* as if it had been killed: nothing is written at the end */
      again = g_strconcat (ids, "d", NULL);
      g_assert_cmpstr (stored, ==, again);
      llm_db_free (db);

      db = llm_db_new (state, &llm_context_schema);
      g_free (g_steal_pointer (&stored));
      stored = await_list (db);
      g_assert_cmpstr (stored, ==, again);
      llm_db_free (db);
      llm_test_folder_remove (folder);
    }
}

static gboolean
has_damaged (const char *folder)
{
  g_autoptr(GDir) entries = g_dir_open (folder, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (entries)) != NULL)
    if (g_str_has_prefix (name, "contexts.db.damaged-"))
      return TRUE;
  return FALSE;
}

/* Truncated: what is left is used where it is sound, and kept aside where it is not. */
static void
test_truncated (void)
{
  static const struct
  {
    const char *name;
    off_t bytes;
  } cuts[] = {
    { "contexts.db", 0 }, { "contexts.db", 100 }, { "contexts.db", 4096 }, { "contexts.db", 8192 },
    { "contexts.db-wal", 0 }, { "contexts.db-wal", 100 }, { "contexts.db-wal", 6000 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++)
    {
      g_autofree char *folder = llm_test_folder_new ();
      g_autofree char *path = g_build_filename (folder, cuts[i].name, NULL);
      LlmDb *db = llm_db_new (folder, &llm_context_schema);
      g_autoptr(GError) error = NULL;
      g_autofree char *ids = NULL;
      g_autofree char *stored = NULL;

      g_test_message ("%s to %d bytes", cuts[i].name, (int) cuts[i].bytes);
      g_assert_true (insert (db, "a", &error));
      llm_db_free (db);
      db = llm_db_new (folder, &llm_context_schema);
      g_assert_true (insert (db, "b", &error));
      g_assert_cmpint (truncate (path, cuts[i].bytes), ==, 0);
      g_assert_false (insert (db, "c", &error));
      assert_storage_error (error, "truncated");
      ids = await_list (db);
      g_assert_null (strchr (ids, 'c'));
      /* what had been written to the database before the journal was cut is there */
      if (g_str_has_suffix (cuts[i].name, "-wal"))
        g_assert_cmpstr (ids, ==, "a");
      g_assert_true (*ids != '\0' || has_damaged (folder) || cuts[i].bytes == 0);
      g_clear_error (&error);
      g_assert_true (insert (db, "d", &error));
      llm_db_free (db);
      db = llm_db_new (folder, &llm_context_schema);
      stored = await_list (db);
      g_assert_nonnull (strchr (stored, 'd'));
      llm_db_free (db);
      llm_test_folder_remove (folder);
    }
}

/* A page in the middle is not what it was: found when it is read, and all of it kept aside. */
static void
test_damaged_inside (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "contexts.db", NULL);
  LlmDb *db = llm_db_new (folder, &llm_context_schema);
  g_autoptr(GError) error = NULL;
  g_autofree char *ids = NULL;
  g_autofree char *bytes = NULL;
  gsize length;

  for (guint i = 0; i < 300; i++)
    {
      g_autofree char *id = g_strdup_printf ("%u-", i);

      g_assert_true (insert (db, id, &error));
    }
  llm_db_free (db);
  g_assert_true (g_file_get_contents (path, &bytes, &length, NULL));
  g_assert_cmpuint (length, >, 3 * 4096);
  memset (bytes + 4096, 0x5a, length - 4096);
  g_assert_true (g_file_set_contents (path, bytes, (gssize) length, NULL));

  db = llm_db_new (folder, &llm_context_schema);
  g_assert_null (list (db, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  ids = await_list (db);
  g_assert_cmpstr (ids, ==, "");
  g_assert_true (has_damaged (folder));
  g_clear_error (&error);
  g_assert_true (insert (db, "d", &error));
  llm_db_free (db);
  llm_test_folder_remove (folder);
}

/* --- the journal, overwritten in place --- */

static gboolean
has_damaged_journal (const char *folder)
{
  g_autoptr(GDir) entries = g_dir_open (folder, 0, NULL);
  const char *name;

  while ((name = g_dir_read_name (entries)) != NULL)
    if (g_str_has_prefix (name, "contexts.db-wal.damaged-"))
      return TRUE;
  return FALSE;
}

/* Bytes that no program meant, at the end of a journal, in it, or in place of what says how it is
 * to be read: that is noticed, the journal is kept, and what is before is used. One that is whole is
 * nothing to tell, and neither is one that a crash cut, or that has behind its end what it had
 * before it was last begun again. */
static void
test_overwritten_journal (void)
{
  static const struct
  {
    const char *what;
    off_t at;       /* from the beginning, or from the end when negative */
    off_t cut;      /* bytes that are missing at the end */
    gsize n_bytes;
    gboolean is_told;
    gboolean keeps_all;
  } cases[] = {
    { "whole", 0, 0, 0, FALSE, TRUE },
    { "header", 0, 0, 32, TRUE, FALSE },
    { "one byte of the header", 17, 0, 1, TRUE, FALSE },
    { "page in the middle", 32 + 30 * (24 + 4096) + 1000, 0, 64, TRUE, FALSE },
    { "frames in the middle", 32 + 30 * (24 + 4096), 0, 3 * (24 + 4096), TRUE, FALSE },
    { "last frames", -2 * (24 + 4096), 0, 2 * (24 + 4096), TRUE, FALSE },
    { "cut", 0, 1000, 0, FALSE, FALSE },
    { "restarted", 0, 0, 0, FALSE, TRUE },
  };

  /* the warnings come from the database's thread */
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *folder = llm_test_folder_new ();
      g_autofree char *copy = llm_test_folder_new ();
      g_autofree char *ids = NULL;
      g_autofree char *stored = NULL;
      g_autofree char *bytes = g_malloc (cases[i].n_bytes + 1);
      static const char *const names[] = { "contexts.db", "contexts.db-wal" };
      g_autoptr(GError) error = NULL;
      LlmDb *db = llm_db_new (folder, &llm_context_schema);
      g_autofree char *journal = g_build_filename (copy, names[1], NULL);
      guint n_contexts = g_str_equal (cases[i].what, "restarted") ? 100 : 20;
      g_autoptr(GString) all = g_string_new (NULL);
      GStatBuf status;
      int fd;

      for (guint n = 0; n < n_contexts; n++)
        {
          g_autofree char *id = g_strdup_printf ("%c%c", 'a' + n / 26, 'a' + n % 26);

          g_assert_true (insert (db, id, &error));
          g_string_append (all, id);
        }
      for (guint n = 0; n < G_N_ELEMENTS (names); n++)
        {
          g_autofree char *from = g_build_filename (folder, names[n], NULL);
          g_autofree char *to = g_build_filename (copy, names[n], NULL);

          copy_file (from, to);
        }
      llm_db_free (db);

      memset (bytes, 0xa5, cases[i].n_bytes);
      fd = open (journal, O_WRONLY | O_CLOEXEC);
      g_assert_cmpint (g_stat (journal, &status), ==, 0);
      g_test_message ("%s, of %d bytes", cases[i].what, (int) status.st_size);
      g_assert_cmpint (pwrite (fd, bytes, cases[i].n_bytes,
                               cases[i].at + (cases[i].at < 0 ? status.st_size : 0)),
                       ==, cases[i].n_bytes);
      g_assert_cmpint (ftruncate (fd, status.st_size - cases[i].cut), ==, 0);
      close (fd);

      db = llm_db_new (copy, &llm_context_schema);
      ids = list (db, &error);
      g_assert_no_error (error);
      g_test_message ("%s", ids);
      g_assert_true (has_damaged_journal (copy) == cases[i].is_told);
      g_assert_true (g_str_equal (ids, all->str) == cases[i].keeps_all);
      g_assert_true (g_str_has_prefix (all->str, ids));
      if (cases[i].at > 32 || cases[i].at < 0)
        g_assert_cmpuint (strlen (ids), >, 0);
      g_assert_true (insert (db, "zz", &error));
      llm_db_free (db);
      db = llm_db_new (copy, &llm_context_schema);
      stored = await_list (db);
      g_assert_true (g_str_has_suffix (stored, "zz"));
      llm_db_free (db);
      llm_test_folder_remove (folder);
      llm_test_folder_remove (copy);
    }
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  /* what is moved aside is told, by the database's thread */
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
  g_test_add_func ("/store-faults/locked", test_locked);
  g_test_add_func ("/store-faults/version", test_version);
  g_test_add_func ("/store-faults/second", test_second);
  g_test_add_func ("/store-faults/no-folder-yet", test_no_folder_yet);
  g_test_add_func ("/store-faults/links", test_links);
  g_test_add_func ("/store-faults/folder-link", test_folder_link);
  g_test_add_func ("/store-faults/index-file", test_index_file);
  g_test_add_func ("/store-faults/gone", test_gone);
  g_test_add_func ("/store-faults/truncated", test_truncated);
  g_test_add_func ("/store-faults/damaged-inside", test_damaged_inside);
  g_test_add_func ("/store-faults/overwritten-journal", test_overwritten_journal);
  return g_test_run ();
}
