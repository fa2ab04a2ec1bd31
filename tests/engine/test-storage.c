/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The engine without its database, and on a full disk: calls say what is wrong, nothing is made up
 * in place of what is stored, and all is well when the fault is gone. */

#include "engine-rig.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <sqlite3.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "support/llm-test-folder.h"

#define QUESTION "I want a restaurant in San Jose, with a table outside for four people at seven."
#define LONG "{'temperature': <1.5>, 'seed': <uint64 5>, 'max-tokens': <uint32 40>}"

/* --- a disk of few bytes --- */

/* What the state folder may take, as SQLite's calls of the system see it; negative for no limit. The
 * same is true of a disk that context memory fills, and no test can be sure to have one. */
static gint64 disk_bytes = -1;
static char *disk_folder;
static guint n_refused;

static gint64
count_disk_bytes (const char *path)
{
  struct stat status;
  gint64 bytes;

  if (lstat (path, &status) < 0)
    return 0;
  bytes = (gint64) status.st_blocks * 512;
  if (S_ISDIR (status.st_mode))
    {
      g_autoptr(GDir) dir = g_dir_open (path, 0, NULL);
      const char *name;

      while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
        {
          g_autofree char *below = g_build_filename (path, name, NULL);

          bytes += count_disk_bytes (below);
        }
    }
  return bytes;
}

static gboolean
is_disk_full (int   fd,
              off_t end)
{
  gint64 limit = __atomic_load_n (&disk_bytes, __ATOMIC_SEQ_CST);
  struct stat status;

  if (limit < 0 || fstat (fd, &status) < 0 || end <= status.st_size ||
      count_disk_bytes (disk_folder) + end - status.st_size <= limit)
    return FALSE;
  __atomic_fetch_add (&n_refused, 1, __ATOMIC_SEQ_CST);
  errno = ENOSPC;
  return TRUE;
}

static ssize_t
write_to_disk (int         fd,
               const void *bytes,
               size_t      length)
{
  return is_disk_full (fd, lseek (fd, 0, SEEK_CUR) + (off_t) length) ? -1
                                                                     : write (fd, bytes, length);
}

static ssize_t
pwrite_to_disk (int         fd,
                const void *bytes,
                size_t      length,
                off_t       offset)
{
  return is_disk_full (fd, offset + (off_t) length) ? -1 : pwrite (fd, bytes, length, offset);
}

static void
set_disk (Fixture *fixture,
          gint64   bytes)
{
  sqlite3_vfs *vfs = sqlite3_vfs_find (NULL);

  g_free (disk_folder);
  disk_folder = g_strdup (fixture->state);
  /* which of them it uses is decided when SQLite is built */
  vfs->xSetSystemCall (vfs, "write", (sqlite3_syscall_ptr) write_to_disk);
  vfs->xSetSystemCall (vfs, "pwrite", (sqlite3_syscall_ptr) pwrite_to_disk);
  vfs->xSetSystemCall (vfs, "pwrite64", (sqlite3_syscall_ptr) pwrite_to_disk);
  __atomic_store_n (&n_refused, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n (&disk_bytes, bytes, __ATOMIC_SEQ_CST);
}

/* --- help --- */

static void
on_changed (LlmEngine *engine,
            guint     *n_changes)
{
  ++*n_changes;
}

static gboolean
is_available (Fixture    *fixture,
              const char *availability)
{
  return g_str_equal (llm_engine_get_availability (fixture->engine), availability);
}

/* Ready, and nothing is wrong with what is stored. */
static gboolean
is_well (Fixture *fixture)
{
  return is_available (fixture, "ready")
         && llm_engine_get_availability_reason (fixture->engine) == NULL;
}

static gboolean
close_context (LlmContext *context,
               GError    **error)
{
  g_autoptr(GAsyncResult) result = NULL;

  llm_context_close_async (context, on_result, &result);
  WAIT_FOR (result != NULL);
  return g_task_propagate_boolean (G_TASK (result), error);
}

static gboolean
list_contexts (Fixture *fixture,
               GError **error)
{
  g_autoptr(GAsyncResult) result = NULL;

  llm_engine_await_stored (fixture->engine, on_result, &result);
  WAIT_FOR (result != NULL);
  return g_task_propagate_boolean (G_TASK (result), error);
}

static gboolean
set_quota (Fixture    *fixture,
           const char *options,
           GError    **error)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_SET_QUOTA);
  g_autoptr(GAsyncResult) result = NULL;

  llm_engine_set_quota_async (fixture->engine, 1000, "org.example.App", parsed, on_result,
                              &result);
  WAIT_FOR (result != NULL);
  return g_task_propagate_boolean (G_TASK (result), error);
}

static gboolean
create_fails (Fixture    *fixture,
              const char *options,
              GError    **error)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_CREATE_CONTEXT);
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(LlmContext) context = NULL;

  llm_engine_create_context_async (fixture->engine, fixture->caller, parsed, on_result, &result);
  WAIT_FOR (result != NULL);
  context = g_task_propagate_pointer (G_TASK (result), error);
  return context == NULL;
}

/* Everything that would have to know what is stored says that it does not; the rest is answered,
 * with a warning. */
static void
assert_nothing_stored (Fixture *fixture)
{
  g_autoptr(Answer) answer = begin_complete (fixture, "Hello!", GREEDY);
  g_autoptr(LlmContext) unnamed = NULL;
  g_autoptr(GError) error = NULL;

  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  unnamed = create (fixture, "{'system': <'Be kind.'>}");
  g_free (ask (fixture, unnamed, "Hello!", GREEDY));
  g_free (ask (fixture, unnamed, "And now?", GREEDY));
  g_assert_cmpuint (count_messages (unnamed), ==, 5);
  g_assert_true (close_context (unnamed, &error));
  g_assert_null (open_context (fixture, "notes", "{}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_clear_error (&error);
  g_assert_false (list_contexts (fixture, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_clear_error (&error);
  g_assert_true (create_fails (fixture, "{'name': <'other'>}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_clear_error (&error);
  g_assert_false (set_quota (fixture, "{'calls': <uint32 3>}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_true (is_available (fixture, "ready"));
  g_assert_cmpstr (llm_engine_get_availability_reason (fixture->engine)->message, ==,
                   error->message);
}

/* --- at the start --- */

/* Somebody else has the database while the service starts: not for ever. */
static void
test_locked (Fixture      *fixture,
             gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->state, "contexts.db", NULL);
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContext) found = NULL;
  g_autoptr(GError) error = NULL;
  guint n_changes = 0;
  sqlite3 *other;

  g_free (ask (fixture, context, "Hello!", GREEDY));
  g_assert_true (set_quota (fixture, "{'contexts': <uint32 1>}", &error));
  g_clear_object (&context);
  stop_engine (&fixture->engine);

  g_assert_cmpint (sqlite3_open (path, &other), ==, SQLITE_OK);
  g_assert_cmpint (sqlite3_exec (other, "BEGIN EXCLUSIVE; DELETE FROM settings", NULL, NULL, NULL),
                   ==, SQLITE_OK);
  fixture->engine = start_engine (fixture->state, 2);
  g_signal_connect (fixture->engine, "availability-changed", G_CALLBACK (on_changed), &n_changes);
  WAIT_FOR (!is_available (fixture, "loading"));
  assert_nothing_stored (fixture);
  n_changes = 0;
  sqlite3_close (other);

  WAIT_FOR (is_well (fixture));
  g_assert_cmpuint (n_changes, >=, 1);
  g_assert_null (llm_engine_get_availability_reason (fixture->engine));
  found = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_messages (found), ==, 2);
  /* the quota that is stored is in force, and not the default */
  g_assert_true (create_fails (fixture, "{}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_QUOTA_EXCEEDED);
}

/* There is no room to make the database. */
static void
test_full_at_start (Fixture      *fixture,
                    gconstpointer data)
{
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(GError) error = NULL;

  stop_engine (&fixture->engine);
  llm_test_folder_remove (fixture->state);
  set_disk (fixture, 0);
  fixture->engine = start_engine (fixture->state, 2);
  WAIT_FOR (!is_available (fixture, "loading"));
  assert_nothing_stored (fixture);
  g_assert_nonnull (strstr (llm_engine_get_availability_reason (fixture->engine)->message,
                            "make room"));
  g_assert_cmpuint (__atomic_load_n (&n_refused, __ATOMIC_SEQ_CST), >, 0);

  set_disk (fixture, -1);
  WAIT_FOR (is_well (fixture));
  context = open_context (fixture, "notes", "{'create': <true>}", &error);
  g_assert_no_error (error);
  g_free (ask (fixture, context, "Hello!", GREEDY));
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_messages (context), ==, 2);
}

/* The state folder can't be made, and then it can: what is kept beside the database is, too. */
static void
test_no_folder_at_start (Fixture      *fixture,
                         gconstpointer data)
{
  g_autoptr(LlmContext) context = NULL;
  g_autofree char *chunks = NULL;

  stop_engine (&fixture->engine);
  llm_test_folder_remove (fixture->state);
  g_assert_true (g_file_set_contents (fixture->state, "a file", -1, NULL));
  fixture->engine = start_engine (fixture->state, 2);
  WAIT_FOR (!is_available (fixture, "loading"));
  assert_nothing_stored (fixture);
  g_assert_nonnull (strstr (llm_engine_get_availability_reason (fixture->engine)->message,
                            fixture->state));

  g_assert_cmpint (g_unlink (fixture->state), ==, 0);
  WAIT_FOR (is_well (fixture));
  context = create (fixture, "{'name': <'notes'>}");
  g_free (ask (fixture, context, QUESTION, LONG));
  trim (fixture, "medium");
  chunks = g_build_filename (fixture->state, "chunks", context->id, NULL);
  g_assert_true (g_file_test (chunks, G_FILE_TEST_IS_DIR));
}

/* --- while it runs --- */

static void
on_closed (LlmContext *context,
           const char *reason,
           char      **closed)
{
  g_free (*closed);
  *closed = g_strdup (reason);
}

/* The state folder goes, and comes back: turns are not acknowledged into nowhere. */
static void
test_lost (Fixture      *fixture,
           gconstpointer data)
{
  g_autofree char *aside = g_strconcat (fixture->state, "-aside", NULL);
  g_autofree char *other = g_strconcat (fixture->state, "-other", NULL);
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContext) unnamed = create (fixture, "{}");
  g_autoptr(LlmContext) made = NULL;
  g_autoptr(Answer) answer = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *closed = NULL;
  g_autofree char *chunks = NULL;
  guint n_changes = 0;

  g_signal_connect (context, "closed", G_CALLBACK (on_closed), &closed);
  g_free (ask (fixture, context, "Hello!", GREEDY));
  g_free (ask (fixture, unnamed, "Hello!", GREEDY));
  g_assert_cmpint (g_rename (fixture->state, aside), ==, 0);

  answer = begin_ask (fixture, context, "And now find me a comedy movie.", GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  WAIT_FOR (closed != NULL && is_well (fixture));
  g_assert_cmpstr (closed, ==, "administrator");
  g_assert_null (open_context (fixture, "notes", "{}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);
  g_clear_error (&error);
  made = create (fixture, "{'name': <'made'>}");
  chunks = g_build_filename (fixture->state, "chunks", made->id, NULL);
  /* context memory is where it belongs, too: what was computed before storage was opened there is not */
  do
    {
      g_free (ask (fixture, made, QUESTION, LONG));
      trim (fixture, "medium");
      for (guint i = 0; i < 20 && !g_file_test (chunks, G_FILE_TEST_IS_DIR); i++)
        iterate ();
    }
  while (!g_file_test (chunks, G_FILE_TEST_IS_DIR));
  /* what is not stored is not lost */
  g_assert_cmpuint (count_messages (unnamed), ==, 2);
  g_free (ask (fixture, unnamed, "Hello!", GREEDY));

  /* the old one again: the same service has its contexts */
  g_signal_connect (fixture->engine, "availability-changed", G_CALLBACK (on_changed), &n_changes);
  g_assert_cmpint (g_rename (fixture->state, other), ==, 0);
  g_assert_cmpint (g_rename (aside, fixture->state), ==, 0);
  g_assert_true (create_fails (fixture, "{'name': <'more'>}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_clear_error (&error);
  WAIT_FOR (n_changes > 0 && is_well (fixture));
  g_clear_object (&made);
  made = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_messages (made), ==, 2);
  g_free (ask (fixture, made, "And now find me a comedy movie.", GREEDY));
  g_clear_object (&made);
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);
  made = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_messages (made), ==, 4);
  llm_test_folder_remove (other);
}

/* An older copy is put in its place: what the service knows of the context is what is stored. */
static void
test_older_copy (Fixture      *fixture,
                 gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->state, "contexts.db", NULL);
  g_autofree char *journal = g_strconcat (path, "-wal", NULL);
  g_autofree char *copy = g_strconcat (path, ".copy", NULL);
  g_autofree char *bytes = NULL;
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(Answer) answer = NULL;
  g_autoptr(GError) error = NULL;
  gsize length;

  g_free (ask (fixture, context, "Hello!", GREEDY));
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  g_assert_true (g_file_get_contents (path, &bytes, &length, NULL));

  fixture->engine = start_engine (fixture->state, 2);
  context = open_context (fixture, "notes", "{}", &error);
  g_free (ask (fixture, context, "And now find me a comedy movie.", GREEDY));
  g_assert_cmpuint (context->revision, ==, 2);
  g_assert_true (g_file_set_contents (copy, bytes, (gssize) length, NULL));
  g_assert_cmpint (g_unlink (journal), ==, 0);
  g_assert_cmpint (g_rename (copy, path), ==, 0);

  answer = begin_ask (fixture, context, "Hello!", GREEDY);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  WAIT_FOR (context->revision == 1 && is_well (fixture));
  g_assert_cmpuint (count_messages (context), ==, 2);
  g_free (ask (fixture, context, "And now find me a comedy movie.", GREEDY));
  g_assert_cmpuint (count_messages (context), ==, 4);
}

/* --- a disk that context memory fills --- */

/* Chunks go before anything fails that people wait for. */
static void
test_full (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(LlmContext) notes = create (fixture, "{'name': <'notes'>}");
  g_autoptr(LlmContext) other = create (fixture, "{'name': <'other'>}");
  g_autoptr(Answer) answer = NULL;
  g_autoptr(GError) error = NULL;
  guint64 bytes;

  for (guint i = 0; i < 3; i++)
    {
      g_free (ask (fixture, notes, QUESTION, LONG));
      g_free (ask (fixture, other, QUESTION, LONG));
    }
  g_assert_cmpuint (trim (fixture, "medium"), >, 0);
  bytes = get_statistic (fixture->engine, "kv-storage-bytes");
  g_assert_cmpuint (bytes, >, 0);

  /* each change finds it full to the last byte */
  set_disk (fixture, count_disk_bytes (fixture->state));
  g_assert_true (rollback (notes, 1, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (__atomic_load_n (&n_refused, __ATOMIC_SEQ_CST), >, 0);
  WAIT_FOR (get_statistic (fixture->engine, "kv-storage-bytes") < bytes);

  g_free (ask (fixture, other, QUESTION, LONG));
  trim (fixture, "medium");
  set_disk (fixture, count_disk_bytes (fixture->state));
  g_assert_true (close_context (other, &error));
  g_assert_no_error (error);

  g_free (ask (fixture, notes, QUESTION, LONG));
  trim (fixture, "medium");
  set_disk (fixture, count_disk_bytes (fixture->state));
  answer = begin_ask (fixture, notes, QUESTION, LONG);
  WAIT_FOR (answer->is_finished);
  g_assert_no_error (answer->error);
  g_assert_cmpuint (count_messages (notes), ==, 8);

  /* all of that is there after the next start */
  set_disk (fixture, -1);
  g_clear_object (&notes);
  g_clear_object (&other);
  stop_engine (&fixture->engine);
  fixture->engine = start_engine (fixture->state, 2);
  notes = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (count_messages (notes), ==, 8);
  g_assert_null (open_context (fixture, "other", "{}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);
}

/* Nothing is left to give: the error says what to do, and nothing has changed. */
static void
test_full_of_others (Fixture      *fixture,
                     gconstpointer data)
{
  g_autoptr(LlmContext) notes = create (fixture, "{'name': <'notes'>}");
  g_autoptr(Answer) answer = NULL;
  g_autoptr(GError) error = NULL;

  g_free (ask (fixture, notes, "Hello!", GREEDY));
  trim (fixture, "medium");
  set_disk (fixture, 0);
  answer = begin_ask (fixture, notes, QUESTION, LONG);
  WAIT_FOR (answer->is_finished);
  g_assert_error (answer->error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  g_assert_nonnull (strstr (answer->error->message, "make room"));
  g_assert_cmpuint (count_messages (notes), ==, 2);
  /* that is no reason to be without a database */
  g_assert_true (is_available (fixture, "ready"));
  g_assert_false (set_quota (fixture, "{'contexts': <uint32 1>}", &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  /* a quota that could not be stored is not in force */
  g_object_unref (create (fixture, "{}"));
  set_disk (fixture, -1);
  g_free (ask (fixture, notes, QUESTION, LONG));
  g_assert_cmpuint (count_messages (notes), ==, 4);
}

/* What the journal takes on the disk can be used again. */
static void
test_full_journal (Fixture      *fixture,
                   gconstpointer data)
{
  LlmSettings *settings = new_settings (fixture->state, 2);
  g_autoptr(LlmContext) context = create (fixture, "{'name': <'notes'>}");
  g_autoptr(GError) error = NULL;

  g_free (ask (fixture, context, "Hello!", GREEDY));
  g_assert_true (set_quota (fixture, "{'contexts': <uint32 1>}", &error));
  g_clear_object (&context);
  stop_engine (&fixture->engine);
  g_free (settings->disk);
  settings->disk = g_strdup ("off");
  fixture->engine = start_engine_with (settings);
  for (guint i = 0; i < 60; i++)
    g_assert_true (set_quota (fixture, i % 2 == 0 ? "{'contexts': <uint32 2>}"
                                                  : "{'contexts': <uint32 3>}", &error));
  context = open_context (fixture, "notes", "{}", &error);
  g_assert_no_error (error);
  set_disk (fixture, 0);
  g_assert_true (close_context (context, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (__atomic_load_n (&n_refused, __ATOMIC_SEQ_CST), >, 0);
  set_disk (fixture, -1);
}

#define ADD(path, func) g_test_add (path, Fixture, NULL, set_up, func, tear_down)

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  /* faults are told in the log */
  g_log_set_always_fatal (G_LOG_LEVEL_ERROR);
  ADD ("/storage/locked", test_locked);
  ADD ("/storage/full-at-start", test_full_at_start);
  ADD ("/storage/no-folder-at-start", test_no_folder_at_start);
  ADD ("/storage/lost", test_lost);
  ADD ("/storage/older-copy", test_older_copy);
  ADD ("/storage/full", test_full);
  ADD ("/storage/full-of-others", test_full_of_others);
  ADD ("/storage/full-journal", test_full_journal);
  return g_test_run ();
}
