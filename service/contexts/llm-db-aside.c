/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where a damaged database is kept. */

#include "base/llm-fail.h"
#include "contexts/llm-db-salvage.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"

gboolean
llm_db_put_aside (const char *path,
                  const char *copy,
                  const char *target,
                  GError    **error)
{
  static const char *const suffixes[] = { "", "-wal", "-shm" };
  g_autofree char *folder = g_path_get_dirname (path);
  gboolean is_kept = TRUE;
  int fd;

  for (guint i = 0; is_kept && i < G_N_ELEMENTS (suffixes); i++)
    {
      g_autofree char *from = g_strconcat (path, suffixes[i], NULL);
      g_autofree char *to = g_strconcat (copy, suffixes[i], NULL);

      is_kept = (i == 0 && target != NULL && link (from, to) == 0) || g_rename (from, to) == 0
                || errno == ENOENT;
    }
  if (!is_kept || (target != NULL && g_rename (target, path) != 0))
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The damaged context database %s can't be moved aside: %s", path,
                     g_strerror (errno));
  fd = open (folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0)
    {
      fsync (fd);
      close (fd);
    }
  return TRUE;
}

char *
llm_db_find_copy_path (const char *path)
{
  for (gint64 now = llm_clock_wall_s ();; now++)
    {
      char *copy = g_strdup_printf ("%s.damaged-%" G_GINT64_FORMAT, path, now);
      GStatBuf status;

      if (g_lstat (copy, &status) < 0)
        return copy;
      g_free (copy);
    }
}
