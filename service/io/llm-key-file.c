/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "io/llm-key-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "io/llm-cache-folder.h"

GKeyFile *
llm_key_file_read (const char *path,
                   gsize       max_bytes)
{
  g_autoptr(GKeyFile) file = g_key_file_new ();
  g_autofree char *text = g_malloc (max_bytes + 1);
  int fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  gssize n;

  if (fd < 0)
    return NULL;
  n = read (fd, text, max_bytes + 1);
  close (fd);
  if (n <= 0 || (gsize) n > max_bytes ||
      !g_key_file_load_from_data (file, text, (gsize) n, G_KEY_FILE_NONE, NULL))
    return NULL;
  return g_steal_pointer (&file);
}

static gboolean
write_all (int         fd,
           const char *text,
           gsize       length)
{
  while (length > 0)
    {
      gssize n = write (fd, text, length);

      if (n < 0 && errno != EINTR)
        return FALSE;
      if (n > 0)
        {
          text += n;
          length -= (gsize) n;
        }
    }
  return TRUE;
}

gboolean
llm_key_file_write (GKeyFile    *file,
                    const char  *folder,
                    const char  *name,
                    gboolean     is_shared,
                    gboolean     waits,
                    GError     **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *part = NULL;
  g_autofree char *text = NULL;
  gboolean is_written;
  gsize length;
  int saved_errno;
  int fd;

  text = g_key_file_to_data (file, &length, NULL);
  if (!llm_cache_folder_make (folder, is_shared, error))
    return FALSE;
  fd = llm_cache_folder_create (folder, is_shared, length, &part, error);
  if (fd < 0)
    return FALSE;

  is_written = write_all (fd, text, length) && (!waits || fsync (fd) == 0)
               && rename (part, path) == 0;
  saved_errno = errno;
  close (fd);
  if (!is_written)
    {
      g_autofree char *shown = g_filename_display_name (path);

      unlink (part);
      llm_fail (error, LLMSVC_ERROR_STORAGE, "“%s” can't be written: %s", shown,
                g_strerror (saved_errno));
    }
  return is_written;
}
