/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-flatpak.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bus/llm-bus-identity.h"

#define MAX_INFO_BYTES (64 * 1024)
#define MOUNT_POINT_FIELD 4

/* Whether the process's root lies on a file system that a program of its user serves: asking that
 * may take for ever. */
static LlmBusFlatpak
check_root (const char *folder)
{
  g_autofree char *path = g_build_filename (folder, "mountinfo", NULL);
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return LLM_BUS_FLATPAK_HIDDEN;

  /* "36 35 98:0 / / rw,noatime master:1 - ext3 /dev/root rw": optional fields end with "-" */
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto(GStrv) fields = g_strsplit (lines[i], " ", -1);
      const char *type = strstr (lines[i], " - ");

      if (g_strv_length (fields) > MOUNT_POINT_FIELD && type != NULL &&
          g_str_equal (fields[MOUNT_POINT_FIELD], "/") && g_str_has_prefix (type, " - fuse"))
        return LLM_BUS_FLATPAK_BROKEN;
    }

  return LLM_BUS_FLATPAK_NONE;
}

/* At most MAX_INFO_BYTES of a regular file, or NULL. */
static char *
read_info (int fd)
{
  struct stat status;
  g_autofree char *text = NULL;
  gsize done = 0;

  if (fstat (fd, &status) != 0 || !S_ISREG (status.st_mode) || status.st_size > MAX_INFO_BYTES)
    return NULL;

  text = g_malloc0 (MAX_INFO_BYTES + 1);
  while (done < MAX_INFO_BYTES)
    {
      ssize_t n = read (fd, text + done, MAX_INFO_BYTES - done);

      if (n == 0)
        return g_steal_pointer (&text);
      if (n > 0)
        done += (gsize) n;
      else if (errno != EINTR)
        return NULL;
    }

  return NULL;
}

static char *
parse_info (const char *text)
{
  g_autoptr(GKeyFile) file = g_key_file_new ();
  g_autofree char *id = NULL;

  if (!g_key_file_load_from_data (file, text, strlen (text), G_KEY_FILE_NONE, NULL))
    return NULL;

  id = g_key_file_get_string (file, "Application", "name", NULL);
  if (id == NULL || !llm_bus_identity_is_app_id (id))
    return NULL;

  return g_steal_pointer (&id);
}

LlmBusFlatpak
llm_bus_flatpak_read (const char *folder,
                      char      **app_id)
{
  g_autofree char *path = g_build_filename (folder, "root", NULL);
  g_autofree char *text = NULL;
  LlmBusFlatpak root = check_root (folder);
  int root_fd, fd, code;

  *app_id = NULL;
  if (root != LLM_BUS_FLATPAK_NONE)
    return root;

  root_fd = open (path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root_fd < 0)
    return LLM_BUS_FLATPAK_HIDDEN;

  fd = openat (root_fd, ".flatpak-info", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  code = errno;
  g_close (root_fd, NULL);
  if (fd < 0 && code == ENOENT)
    return LLM_BUS_FLATPAK_NONE;
  if (fd < 0)
    return code == EACCES || code == EPERM ? LLM_BUS_FLATPAK_HIDDEN : LLM_BUS_FLATPAK_BROKEN;

  text = read_info (fd);
  g_close (fd, NULL);
  *app_id = text != NULL ? parse_info (text) : NULL;
  return *app_id != NULL ? LLM_BUS_FLATPAK_NAMED : LLM_BUS_FLATPAK_BROKEN;
}
