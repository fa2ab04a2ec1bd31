/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "draft/bench-group.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "bench.h"

/* A group goes only when the kernel has seen its last process end. */
#define REMOVE_STEP_US 20000
#define REMOVE_STEPS 250

struct _BenchGroup
{
  char *folder;
  char *disk_folder;     /* (nullable): of version 1, of the disk's controller */
  gboolean is_v2;
};

static gboolean
write_text (const char *folder,
            const char *name,
            const char *text,
            GError    **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  int fd = open (path, O_WRONLY | O_CLOEXEC);
  gboolean is_written = fd >= 0 && write (fd, text, strlen (text)) == (gssize) strlen (text);

  if (!is_written)
    bench_fail_errno (error, "%s", path);
  if (fd >= 0)
    close (fd);
  return is_written;
}

/* (transfer full) (nullable): this process' folder below @mount, as @controllers has it. */
static char *
find_own (const char *mount,
          const char *controllers)
{
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;
  char *found = NULL;

  if (!g_file_get_contents ("/proc/self/cgroup", &text, NULL, NULL))
    return NULL;
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL && found == NULL; i++)
    {
      g_auto(GStrv) fields = g_strsplit (lines[i], ":", 3);

      if (g_strv_length (fields) == 3 && strcmp (fields[1], controllers) == 0)
        found = g_build_filename (mount, fields[2], NULL);
    }
  if (found != NULL && g_file_test (found, G_FILE_TEST_IS_DIR))
    return found;
  g_free (found);
  return g_file_test (mount, G_FILE_TEST_IS_DIR) ? g_strdup (mount) : NULL;
}

/* (transfer full) (nullable): a new one below @own. */
static char *
make_folder (const char  *own,
             GError     **error)
{
  char *folder = g_strdup_printf ("%s/llmsvc-bench-%d", own, (int) getpid ());

  if (g_mkdir (folder, 0755) == 0)
    return folder;
  bench_fail_errno (error, "%s", folder);
  g_free (folder);
  return NULL;
}

BenchGroup *
bench_group_new (guint64   limit,
                 GError  **error)
{
  g_autoptr(BenchGroup) self = g_new0 (BenchGroup, 1);
  g_autofree char *own = NULL;
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, limit);

  own = find_own ("/sys/fs/cgroup/memory", "memory");
  if (own == NULL)
    {
      self->is_v2 = TRUE;
      own = find_own ("/sys/fs/cgroup", "");
    }
  if (own == NULL)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                           "No control groups are mounted below /sys/fs/cgroup");
      return NULL;
    }
  self->folder = make_folder (own, error);
  if (self->folder == NULL
      || !write_text (self->folder, self->is_v2 ? "memory.max" : "memory.limit_in_bytes", text, error))
    return NULL;
  return g_steal_pointer (&self);
}

/* (transfer full) (nullable): MAJOR:MINOR of the disk that @path lies on: of the whole one, where it is
 * a partition. */
static char *
find_disk (const char *path)
{
  g_autofree char *folder = NULL;
  g_autofree char *number = NULL;
  g_autofree char *whole = NULL;
  GStatBuf stat_buf;

  if (g_stat (path, &stat_buf) < 0)
    return NULL;
  number = g_strdup_printf ("%u:%u", major (stat_buf.st_dev), minor (stat_buf.st_dev));
  folder = g_build_filename ("/sys/dev/block", number, "partition", NULL);
  if (!g_file_test (folder, G_FILE_TEST_EXISTS))
    return g_steal_pointer (&number);
  g_free (folder);
  folder = g_build_filename ("/sys/dev/block", number, "..", "dev", NULL);
  if (!g_file_get_contents (folder, &whole, NULL, NULL))
    return NULL;
  return g_strdup (g_strchomp (whole));
}

gboolean
bench_group_set_rate (BenchGroup  *self,
                      const char  *path,
                      guint64      n_bytes,
                      guint64      n_requests,
                      GError     **error)
{
  const struct
  {
    guint64 rate;
    const char *name, *file;
  } limits[] = { { n_bytes, "rbps=", "blkio.throttle.read_bps_device" },
                 { n_requests, "riops=", "blkio.throttle.read_iops_device" } };
  g_autofree char *disk = NULL;
  g_autofree char *own = NULL;

  if (n_bytes == 0 && n_requests == 0)
    return TRUE;
  disk = find_disk (path);
  if (disk == NULL)
    return bench_fail_errno (error, "%s", path);
  if (!self->is_v2)
    {
      own = find_own ("/sys/fs/cgroup/blkio", "blkio");
      if (own == NULL)
        {
          g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                               "No control groups of disks are mounted below /sys/fs/cgroup");
          return FALSE;
        }
      self->disk_folder = make_folder (own, error);
      if (self->disk_folder == NULL)
        return FALSE;
    }
  for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      g_autofree char *text = g_strdup_printf ("%s %s%" G_GUINT64_FORMAT, disk,
                                               self->is_v2 ? limits[i].name : "", limits[i].rate);

      if (limits[i].rate > 0
          && !write_text (self->is_v2 ? self->folder : self->disk_folder,
                          self->is_v2 ? "io.max" : limits[i].file, text, error))
        return FALSE;
    }
  return TRUE;
}

static void
remove_folder (char *folder)
{
  for (guint i = 0; folder != NULL && i < REMOVE_STEPS && g_rmdir (folder) < 0 && errno == EBUSY; i++)
    g_usleep (REMOVE_STEP_US);
  g_free (folder);
}

void
bench_group_free (BenchGroup *self)
{
  if (self == NULL)
    return;
  remove_folder (self->folder);
  remove_folder (self->disk_folder);
  g_free (self);
}

/* In the child, before it becomes the program. */
static void
enter (gpointer data)
{
  const BenchGroup *self = data;
  const char *folders[] = { self->folder, self->disk_folder };

  for (guint i = 0; i < G_N_ELEMENTS (folders); i++)
    if (folders[i] != NULL && !write_text (folders[i], "cgroup.procs", "0", NULL))
      _exit (126);
}

char *
bench_group_run (BenchGroup  *self,
                 char       **words,
                 GError     **error)
{
  g_autofree char *output = NULL;
  int status;

  if (!g_spawn_sync (NULL, words, NULL, G_SPAWN_SEARCH_PATH, enter, self, &output, NULL, &status,
                     error)
      || !g_spawn_check_wait_status (status, error))
    {
      g_prefix_error (error, "%s: ", words[0]);
      return NULL;
    }
  return g_steal_pointer (&output);
}

guint64
bench_group_get_peak (BenchGroup *self)
{
  g_autofree char *path = g_build_filename (self->folder,
                                            self->is_v2 ? "memory.peak"
                                                        : "memory.max_usage_in_bytes", NULL);
  g_autofree char *text = NULL;

  return g_file_get_contents (path, &text, NULL, NULL) ? g_ascii_strtoull (text, NULL, 10) : 0;
}
