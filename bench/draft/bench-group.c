/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "draft/bench-group.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "bench.h"

/* A group goes only when the kernel has seen its last process end. */
#define REMOVE_STEP_US 20000
#define REMOVE_STEPS 250

struct _BenchGroup
{
  char *folder;
  char *procs;
  gboolean is_v2;
};

static gboolean
write_number (const char *folder,
              const char *name,
              guint64     number,
              GError    **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *text = g_strdup_printf ("%" G_GUINT64_FORMAT, number);
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

BenchGroup *
bench_group_new (guint64   limit,
                 GError  **error)
{
  g_autoptr(BenchGroup) self = g_new0 (BenchGroup, 1);
  g_autofree char *own = NULL;
  g_autofree char *name = g_strdup_printf ("llmsvc-bench-%d", (int) getpid ());

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
  self->folder = g_build_filename (own, name, NULL);
  if (g_mkdir (self->folder, 0755) < 0)
    {
      bench_fail_errno (error, "%s", self->folder);
      g_clear_pointer (&self->folder, g_free);
      return NULL;
    }
  self->procs = g_build_filename (self->folder, "cgroup.procs", NULL);
  if (!write_number (self->folder, self->is_v2 ? "memory.max" : "memory.limit_in_bytes", limit,
                     error))
    return NULL;
  return g_steal_pointer (&self);
}

void
bench_group_free (BenchGroup *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; self->folder != NULL && i < REMOVE_STEPS && g_rmdir (self->folder) < 0
                    && errno == EBUSY; i++)
    g_usleep (REMOVE_STEP_US);
  g_free (self->folder);
  g_free (self->procs);
  g_free (self);
}

/* In the child, before it becomes the program. */
static void
enter (gpointer data)
{
  const BenchGroup *self = data;
  int fd = open (self->procs, O_WRONLY | O_CLOEXEC);

  if (fd < 0 || write (fd, "0", 1) != 1)
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
