/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/identity/llm-bus-identity.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_INFO_BYTES (64 * 1024)
#define DEVICE_FIELD 2
#define MOUNT_POINT_FIELD 4

/* From mountinfo, which may be read of other users' processes, too: what lies at "/".
 * (transfer full) (nullable): "MAJOR:MINOR TYPE" of its device and file system */
static char *
parse_root (const char *text)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  char *root = NULL;

  /* "36 35 98:0 / / rw,noatime master:1 - ext3 /dev/root rw": optional fields end with "-"; of
   * several mounts on "/" the last is what the process sees */
  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto(GStrv) fields = g_strsplit (lines[i], " ", -1);
      const char *type = strstr (lines[i], " - ");

      if (g_strv_length (fields) <= MOUNT_POINT_FIELD || type == NULL ||
          !g_str_equal (fields[MOUNT_POINT_FIELD], "/"))
        continue;
      type += strlen (" - ");
      g_free (root);
      root = g_strdup_printf ("%s %.*s", fields[DEVICE_FIELD], (int) strcspn (type, " "), type);
    }

  return root;
}

/* Flatpak starts an application, and the proxy that speaks to the bus for it, on a tmpfs of its
 * own. A machine that runs from a tmpfs has the service on it as well. */
static gboolean
is_own_tmpfs (const char *root,
              const char *proc_root)
{
  g_autofree char *path = g_build_filename (proc_root, "self", "mountinfo", NULL);
  g_autofree char *text = NULL;
  g_autofree char *own = NULL;

  if (g_file_get_contents (path, &text, NULL, NULL))
    own = parse_root (text);
  return g_str_has_suffix (root, " tmpfs") && g_strcmp0 (own, root) != 0;
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

  if (!g_key_file_load_from_data (file, text, strlen (text), G_KEY_FILE_NONE, NULL))
    return NULL;

  return g_key_file_get_string (file, "Application", "name", NULL);
}

LlmBusFlatpak
llm_bus_flatpak_read (const char *proc_root,
                      guint32     pid,
                      char      **app_id)
{
  g_autofree char *folder = g_strdup_printf ("%s/%u", proc_root, pid);
  g_autofree char *mounts = g_build_filename (folder, "mountinfo", NULL);
  g_autofree char *path = g_build_filename (folder, "root", NULL);
  g_autofree char *mounts_text = NULL;
  g_autofree char *text = NULL;
  g_autofree char *root = NULL;
  gboolean may_be_flatpak;
  int root_fd, fd, code;

  *app_id = NULL;
  if (!g_file_get_contents (mounts, &mounts_text, NULL, NULL))
    return LLM_BUS_FLATPAK_NONE;
  /* a file system that a program of its user serves may answer never; so may a root that is no
   * mount point, of which the kernel does not say where it lies */
  root = parse_root (mounts_text);
  if (root == NULL || strstr (root, " fuse") != NULL)
    return LLM_BUS_FLATPAK_BROKEN;
  may_be_flatpak = is_own_tmpfs (root, proc_root);

  root_fd = open (path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root_fd < 0)
    return may_be_flatpak ? LLM_BUS_FLATPAK_HIDDEN : LLM_BUS_FLATPAK_NONE;

  fd = openat (root_fd, ".flatpak-info", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  code = errno;
  g_close (root_fd, NULL);
  if (fd < 0 && code == ENOENT)
    return LLM_BUS_FLATPAK_NONE;
  if (fd < 0)
    return LLM_BUS_FLATPAK_BROKEN;

  text = read_info (fd);
  g_close (fd, NULL);
  *app_id = text != NULL && may_be_flatpak ? parse_info (text) : NULL;
  return *app_id != NULL ? LLM_BUS_FLATPAK_NAMED : LLM_BUS_FLATPAK_BROKEN;
}
