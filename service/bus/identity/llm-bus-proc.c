/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bus/identity/llm-bus-proc.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <unistd.h>

#define PIECE (16 * 1024)

char *
llm_bus_proc_read_fd (int   fd,
                      gsize max_bytes)
{
  g_autoptr(GByteArray) text = g_byte_array_new ();
  gsize length = 0;

  while (length <= max_bytes)
    {
      ssize_t n;

      g_byte_array_set_size (text, (guint) (length + PIECE + 1));
      n = read (fd, text->data + length, PIECE);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return NULL;
      if (n == 0)
        {
          text->data[length] = '\0';
          return (char *) g_byte_array_free (g_steal_pointer (&text), FALSE);
        }
      length += (gsize) n;
    }

  return NULL;
}

char *
llm_bus_proc_read (const char *folder,
                   const char *name,
                   gsize       max_bytes)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  int fd = open (path, O_RDONLY | O_CLOEXEC);
  char *text;

  if (fd < 0)
    return NULL;
  text = llm_bus_proc_read_fd (fd, max_bytes);
  g_close (fd, NULL);
  return text;
}
