/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What comes to folders and goes there is told, also where the kernel can't watch. */

#include "io/llm-folder-watch.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "support/llm-test-folder.h"

/* For things that must not come. */
#define NOTHING_MS 700
#define MAX_WAIT_MS 30000

int __real_inotify_add_watch (int fd, const char *path, guint32 mask);
int __wrap_inotify_add_watch (int fd, const char *path, guint32 mask);

static gboolean is_full;   /* the kernel's limit is reached */

int
__wrap_inotify_add_watch (int         fd,
                          const char *path,
                          guint32     mask)
{
  if (!is_full)
    return __real_inotify_add_watch (fd, path, mask);
  errno = ENOSPC;
  return -1;
}

typedef struct
{
  char *root;
  char *folder;      /* in it */
  LlmFolderWatch *watch;
  guint n_told;
} Fixture;

static void
on_changed (gpointer data)
{
  ((Fixture *) data)->n_told++;
}

static void
watch (Fixture *fixture)
{
  const char *const folders[] = { fixture->folder, NULL };

  g_clear_pointer (&fixture->watch, llm_folder_watch_free);
  fixture->n_told = 0;
  fixture->watch = llm_folder_watch_new (folders, ".gguf");
  llm_folder_watch_start (fixture->watch, on_changed, fixture);
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->root = llm_test_folder_new ();
  fixture->folder = g_build_filename (fixture->root, "one", "two", NULL);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_folder_watch_free (fixture->watch);
  llm_test_folder_remove (fixture->root);
  g_free (fixture->root);
  g_free (fixture->folder);
  is_full = FALSE;
}

static gboolean
on_time (gpointer data)
{
  *(gboolean *) data = TRUE;
  return G_SOURCE_REMOVE;
}

/* TRUE when something was told within that time. */
static gboolean
wait_for (Fixture *fixture,
          guint    ms)
{
  gboolean is_over = FALSE;
  guint timer = g_timeout_add (ms, on_time, &is_over);

  while (fixture->n_told == 0 && !is_over)
    g_main_context_iteration (NULL, TRUE);
  if (!is_over)
    g_source_remove (timer);
  return fixture->n_told > 0;
}

static void
assert_told (Fixture *fixture,
             gboolean is_stale)
{
  g_assert_true (wait_for (fixture, MAX_WAIT_MS));
  g_assert_cmpint (llm_folder_watch_is_stale (fixture->watch), ==, is_stale);
  fixture->n_told = 0;
}

static int
create (Fixture    *fixture,
        const char *name)
{
  g_autofree char *path = g_build_filename (fixture->folder, name, NULL);
  int fd = open (path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

  g_assert_cmpint (fd, >=, 0);
  return fd;
}

static void
test_files (Fixture      *fixture,
            gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->folder, "a.gguf", NULL);
  g_autofree char *other = g_build_filename (fixture->folder, "b.gguf", NULL);
  g_autofree char *away = g_build_filename (fixture->root, "a.gguf", NULL);
  int fd;

  g_assert_cmpint (g_mkdir_with_parents (fixture->folder, 0700), ==, 0);
  watch (fixture);
  g_assert_false (llm_folder_watch_is_stale (fixture->watch));
  close (create (fixture, "a.txt"));
  close (create (fixture, ".a.gguf"));
  g_assert_false (wait_for (fixture, NOTHING_MS));

  fd = create (fixture, "a.gguf");
  assert_told (fixture, FALSE);
  for (guint i = 0; i < 100; i++)
    g_assert_cmpint (write (fd, "more", 4), ==, 4);
  g_assert_false (wait_for (fixture, NOTHING_MS));
  close (fd);
  assert_told (fixture, FALSE);
  g_assert_cmpint (g_chmod (path, 0400), ==, 0);
  assert_told (fixture, FALSE);
  g_assert_cmpint (g_rename (path, other), ==, 0);
  assert_told (fixture, FALSE);
  g_assert_cmpint (g_rename (other, away), ==, 0);
  assert_told (fixture, FALSE);
  g_assert_cmpint (g_rename (away, path), ==, 0);
  assert_told (fixture, FALSE);
  g_assert_cmpint (g_unlink (path), ==, 0);
  assert_told (fixture, FALSE);
}

/* Folders come one after the other, and go. */
static void
test_folders (Fixture      *fixture,
              gconstpointer data)
{
  g_autofree char *parent = g_path_get_dirname (fixture->folder);
  g_autofree char *aside = g_build_filename (fixture->root, "aside", NULL);

  watch (fixture);
  g_assert_false (llm_folder_watch_is_stale (fixture->watch));
  g_assert_cmpint (g_mkdir (aside, 0700), ==, 0);
  g_assert_false (wait_for (fixture, NOTHING_MS));

  g_assert_cmpint (g_mkdir (parent, 0700), ==, 0);
  assert_told (fixture, TRUE);
  watch (fixture);
  g_assert_cmpint (symlink (aside, fixture->folder), ==, 0);
  assert_told (fixture, TRUE);
  watch (fixture);
  close (create (fixture, "a.gguf"));
  assert_told (fixture, FALSE);
  llm_test_folder_remove (aside);
  assert_told (fixture, TRUE);
}

/* Where the kernel can't watch, time passes for it. */
static void
test_limit (Fixture      *fixture,
            gconstpointer data)
{
  g_assert_cmpint (g_mkdir_with_parents (fixture->folder, 0700), ==, 0);
  is_full = TRUE;
  watch (fixture);
  assert_told (fixture, TRUE);
  assert_told (fixture, TRUE);
  is_full = FALSE;
  watch (fixture);
  g_assert_false (llm_folder_watch_is_stale (fixture->watch));
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/io/folder-watch/files", Fixture, NULL, set_up, test_files, tear_down);
  g_test_add ("/io/folder-watch/folders", Fixture, NULL, set_up, test_folders, tear_down);
  g_test_add ("/io/folder-watch/limit", Fixture, NULL, set_up, test_limit, tear_down);

  return g_test_run ();
}
