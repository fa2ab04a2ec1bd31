/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-folder.h"

#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

#define MAX_OPEN_FOLDERS 16

char *
llm_test_folder_new (void)
{
  g_autoptr(GError) error = NULL;
  char *path = g_dir_make_tmp ("llm-test-XXXXXX", &error);

  g_assert_no_error (error);
  return path;
}

char *
llm_test_folder_new_on_disk (void)
{
  const char *const places[] = { g_get_tmp_dir (), g_getenv ("G_TEST_BUILDDIR"), "/var/tmp" };

  for (guint i = 0; i < G_N_ELEMENTS (places); i++)
    {
      struct statfs status;
      char *path;

      if (places[i] == NULL || statfs (places[i], &status) != 0 || status.f_type == TMPFS_MAGIC ||
          status.f_type == RAMFS_MAGIC)
        continue;
      path = g_build_filename (places[i], "llm-test-XXXXXX", NULL);
      if (g_mkdtemp (path) != NULL)
        return path;
      g_free (path);
    }
  g_error ("This test needs a folder on a disk: none of TMPDIR, the build folder and /var/tmp is on one");
}

static int
remove_entry (const char        *path,
              const struct stat *status,
              int                type,
              struct FTW        *place)
{
  return remove (path);
}

void
llm_test_folder_remove (const char *path)
{
  g_assert_cmpint (nftw (path, remove_entry, MAX_OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS | FTW_MOUNT),
                   ==, 0);
}
