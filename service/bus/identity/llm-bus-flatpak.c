/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/identity/llm-bus-identity.h"

#include "bus/identity/llm-bus-proc.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_INFO_BYTES (64 * 1024)
/* Some thousand mounts. */
#define MAX_MOUNTS_BYTES (1024 * 1024)

/* A line of mountinfo: "36 35 98:0 / /usr rw,noatime master:1 - ext3 /dev/root rw"; optional fields
 * end with "-". */
typedef struct
{
  char *device;       /* "98:0" */
  char *folder;       /* of the file system, that is mounted: "/" */
  char *point;        /* where it is mounted, as the process sees it: "/usr" */
  const char *type;   /* of file system, up to a space */
} Mount;

/* Cuts @line into pieces. */
static gboolean
parse_mount (char  *line,
             Mount *mount)
{
  char *rest = line, *type = strstr (line, " - ");

  if (type == NULL)
    return FALSE;
  mount->type = type + strlen (" - ");
  strsep (&rest, " ");
  strsep (&rest, " ");
  mount->device = strsep (&rest, " ");
  mount->folder = strsep (&rest, " ");
  mount->point = strsep (&rest, " ");
  return mount->point != NULL;
}

static gboolean
is_of_type (const Mount *mount,
            const char  *type)
{
  return g_str_has_prefix (mount->type, type) && mount->type[strlen (type)] == ' ';
}

/* Whether the process has the device mounted anywhere; also where that can't be read. */
static gboolean
has_device (const char *folder,
            const char *device)
{
  g_autofree char *text = llm_bus_proc_read (folder, "mountinfo", MAX_MOUNTS_BYTES);
  char *rest = text, *line;
  Mount mount;

  while ((line = strsep (&rest, "\n")) != NULL)
    if (parse_mount (line, &mount) && g_str_equal (mount.device, device))
      return TRUE;
  return text == NULL;
}

/* Of several mounts on "/" the kernel does not say which is the process's root: over it, another
 * file system can be mounted that the process itself never enters. Flatpak's sandbox has one: the
 * folder "newroot" of a tmpfs that is mounted nowhere else. So whatever the machine has as a tmpfs
 * for its programs (/tmp, /dev/shm, /run/user/UID, or all of it) is none.
 * @may_be_flatpak: (out). Returns whether the root may be looked into: a file system that a program
 * of its user serves may answer never; so may a root that is no mount point, of which the kernel
 * does not say where it lies. */
static gboolean
check_root (const char *proc_root,
            const char *folder,
            gboolean   *may_be_flatpak)
{
  g_autofree char *text = llm_bus_proc_read (folder, "mountinfo", MAX_MOUNTS_BYTES);
  g_autofree char *own = g_build_filename (proc_root, "self", NULL);
  g_autofree char *first = g_build_filename (proc_root, "1", NULL);
  char *rest = text, *line;
  const char *device = NULL;
  guint n_roots = 0, n_like_flatpak = 0;
  Mount mount;

  while ((line = strsep (&rest, "\n")) != NULL)
    {
      if (!parse_mount (line, &mount) || !g_str_equal (mount.point, "/"))
        continue;
      if (g_str_has_prefix (mount.type, "fuse"))
        return FALSE;
      n_roots++;
      n_like_flatpak += is_of_type (&mount, "tmpfs") && g_str_equal (mount.folder, "/newroot");
      device = mount.device;
    }
  *may_be_flatpak = n_roots == 1 && n_like_flatpak == 1 && !has_device (own, device) &&
                    !has_device (first, device);
  return n_roots > 0;
}

/* At most MAX_INFO_BYTES of a regular file, or NULL. */
static char *
read_info (int fd)
{
  struct stat status;

  if (fstat (fd, &status) != 0 || !S_ISREG (status.st_mode) || status.st_size > MAX_INFO_BYTES)
    return NULL;
  return llm_bus_proc_read_fd (fd, MAX_INFO_BYTES);
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
  g_autofree char *path = g_build_filename (folder, "root", NULL);
  g_autofree char *text = NULL;
  gboolean may_be_flatpak;
  int root_fd, fd, code;

  *app_id = NULL;
  if (!check_root (proc_root, folder, &may_be_flatpak))
    return LLM_BUS_FLATPAK_BROKEN;

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
