/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-folder.h"

#include <ftw.h>
#include <stdio.h>

#define MAX_OPEN_FOLDERS 16

char *
llm_test_folder_new (void)
{
  g_autoptr(GError) error = NULL;
  char *path = g_dir_make_tmp ("llm-test-XXXXXX", &error);

  g_assert_no_error (error);
  return path;
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
