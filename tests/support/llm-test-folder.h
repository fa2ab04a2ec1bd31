/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A temporary folder of a test or a benchmark, which removes it at its end. Whoever
 * makes one owns it; what goes wrong aborts. GLib alone; any thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (transfer full): the path of a new, empty folder below g_get_tmp_dir(), mode 0700. */
char *llm_test_folder_new    (void) G_GNUC_WARN_UNUSED_RESULT;
/* The same on a file system that has a device: one in memory keeps its pages, and reads any number of
 * bytes directly. Below the first that is one of g_get_tmp_dir(), the tests' build folder, /var/tmp. */
char *llm_test_folder_new_on_disk (void) G_GNUC_WARN_UNUSED_RESULT;
/* Removes the folder and all that is in it; of a link the link itself. */
void  llm_test_folder_remove (const char *path);

G_END_DECLS
