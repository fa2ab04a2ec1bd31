/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "storm/bench-storm-group.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#define REMOVE_STEP_US 20000
#define REMOVE_STEPS 250

struct _BenchStormGroup
{
  guint version;
  char *memory;                            /* folder with the limit */
  char *sides[BENCH_STORM_N_SIDES];        /* folders of version 2 */
  char *parent;                            /* (nullable): of @sides, where that is not @memory */
  int memory_procs;                        /* -1: entering a side enters this, too */
  int side_procs[BENCH_STORM_N_SIDES];
};

/* --- where hierarchies are --- */

/* Whether @word is one of those between commas in @list. */
static gboolean
has_word (const char *list,
          const char *word)
{
  g_auto(GStrv) words = g_strsplit (list, ",", -1);

  return g_strv_contains ((const char *const *) words, word);
}

/* (transfer full) (nullable): the mount point of the hierarchy of version 2, or of version 1 with
 * @controller. */
static char *
find_mount (const char *controller)
{
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  if (!g_file_get_contents ("/proc/self/mountinfo", &text, NULL, NULL))
    return NULL;
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      /* "ID PARENT DEVICE ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS" */
      const char *rest = strstr (lines[i], " - ");
      g_auto(GStrv) fields = g_strsplit (lines[i], " ", 6);
      g_auto(GStrv) ends = g_strsplit (rest != NULL ? rest + 3 : "", " ", 3);

      if (g_strv_length (fields) < 6 || g_strv_length (ends) < 3)
        continue;
      if (controller == NULL ? strcmp (ends[0], "cgroup2") == 0
                             : strcmp (ends[0], "cgroup") == 0 && has_word (ends[2], controller))
        return g_strdup (fields[4]);
    }
  return NULL;
}

/* (transfer full): this process' folder below @mount, or @mount where it can't be seen. */
static char *
find_own (const char *mount,
          const char *controller)
{
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  if (!g_file_get_contents ("/proc/self/cgroup", &text, NULL, NULL))
    return g_strdup (mount);
  lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++)
    {
      /* "ID:CONTROLLERS:PATH" */
      g_auto(GStrv) fields = g_strsplit (lines[i], ":", 3);
      g_autofree char *path = NULL;

      if (g_strv_length (fields) != 3 ||
          !(controller == NULL ? *fields[1] == '\0' : has_word (fields[1], controller)))
        continue;
      path = g_build_filename (mount, fields[2], NULL);
      if (g_file_test (path, G_FILE_TEST_IS_DIR))
        return g_steal_pointer (&path);
    }
  return g_strdup (mount);
}

/* --- small files --- */

static gboolean
fail (GError    **error,
      const char *path)
{
  int saved_errno = errno;

  g_set_error (error, G_IO_ERROR, (int) g_io_error_from_errno (saved_errno), "%s: %s", path,
               g_strerror (saved_errno));
  return FALSE;
}

static gboolean
write_value (const char  *folder,
             const char  *name,
             const char  *value,
             GError     **error)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  int fd = open (path, O_WRONLY | O_CLOEXEC);
  gboolean is_written;

  if (fd < 0)
    return fail (error, path);
  is_written = write (fd, value, strlen (value)) == (gssize) strlen (value);
  if (!is_written)
    fail (error, path);
  close (fd);
  return is_written;
}

static gboolean
make_folder (const char  *path,
             GError     **error)
{
  return g_mkdir (path, 0755) == 0 || fail (error, path);
}

static gboolean
open_procs (const char  *folder,
            int         *fd,
            GError     **error)
{
  g_autofree char *path = g_build_filename (folder, "cgroup.procs", NULL);

  *fd = open (path, O_WRONLY | O_CLOEXEC);
  return *fd >= 0 || fail (error, path);
}

/* The number behind @key, at the beginning of a line; of an empty @key the file's only one. */
static guint64
read_number (const char *folder,
             const char *name,
             const char *key)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *text = NULL;
  const char *at;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return 0;
  for (at = text; at != NULL && *at != '\0'; at = strchr (at, '\n'))
    {
      if (*at == '\n')
        at++;
      if (g_str_has_prefix (at, key))
        return g_ascii_strtoull (at + strlen (key), NULL, 10);
    }
  return 0;
}

static guint64
read_total (const char *folder,
            const char *kind)
{
  g_autofree char *path = g_build_filename (folder, "memory.pressure", NULL);
  g_autofree char *text = NULL;
  const char *at;

  if (!g_file_get_contents (path, &text, NULL, NULL) || (at = strstr (text, kind)) == NULL ||
      (at = strstr (at, "total=")) == NULL)
    return 0;
  return g_ascii_strtoull (at + strlen ("total="), NULL, 10);
}

/* --- the group --- */

/* @name: of the new group. @folder: below which it comes. */
static gboolean
make_sides (BenchStormGroup  *self,
            const char       *folder,
            GError          **error)
{
  static const char *const names[] = { "server", "eater" };

  for (guint i = 0; i < BENCH_STORM_N_SIDES; i++)
    {
      g_autofree char *path = g_build_filename (folder, names[i], NULL);
      g_autofree char *pressure = g_build_filename (path, "memory.pressure", NULL);

      if (!make_folder (path, error))
        return FALSE;
      self->sides[i] = g_steal_pointer (&path);
      if (!g_file_test (pressure, G_FILE_TEST_EXISTS))
        {
          g_set_error (error, G_IO_ERROR, G_IO_ERROR_NOT_SUPPORTED,
                       "%s: this kernel counts no stalls (PSI)", pressure);
          return FALSE;
        }
      if (!open_procs (self->sides[i], &self->side_procs[i], error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
make_version_2 (BenchStormGroup  *self,
                const char       *own,
                const char       *name,
                guint64           limit,
                GError          **error)
{
  g_autofree char *folder = g_build_filename (own, name, NULL);
  g_autofree char *value = g_strdup_printf ("%" G_GUINT64_FORMAT, limit);

  if (!write_value (own, "cgroup.subtree_control", "+memory", error) ||
      !make_folder (folder, error))
    return FALSE;
  self->version = 2;
  self->memory = g_steal_pointer (&folder);
  return write_value (self->memory, "memory.max", value, error) &&
         make_sides (self, self->memory, error);
}

static gboolean
make_version_1 (BenchStormGroup  *self,
                const char       *own,
                const char       *name,
                guint64           limit,
                GError          **error)
{
  g_autofree char *mount = find_mount ("memory");
  g_autofree char *own_memory = NULL;
  g_autofree char *folder = NULL;
  g_autofree char *parent = g_build_filename (own, name, NULL);
  g_autofree char *value = g_strdup_printf ("%" G_GUINT64_FORMAT, limit);

  if (mount == NULL)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                           "no memory controller is to be had, of neither version");
      return FALSE;
    }
  own_memory = find_own (mount, "memory");
  folder = g_build_filename (own_memory, name, NULL);
  if (!make_folder (folder, error))
    return FALSE;
  self->version = 1;
  self->memory = g_steal_pointer (&folder);
  if (!write_value (self->memory, "memory.limit_in_bytes", value, error) ||
      !open_procs (self->memory, &self->memory_procs, error) || !make_folder (parent, error))
    return FALSE;
  self->parent = g_steal_pointer (&parent);
  return make_sides (self, self->parent, error);
}

static gboolean
has_controller (const char *own)
{
  g_autofree char *path = g_build_filename (own, "cgroup.controllers", NULL);
  g_autofree char *text = NULL;
  g_auto(GStrv) words = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return FALSE;
  words = g_strsplit (g_strchomp (text), " ", -1);
  return g_strv_contains ((const char *const *) words, "memory");
}

BenchStormGroup *
bench_storm_group_new (guint64   limit,
                       GError  **error)
{
  static guint n_made;
  g_autoptr(BenchStormGroup) self = g_new0 (BenchStormGroup, 1);
  g_autofree char *mount = find_mount (NULL);
  g_autofree char *name = g_strdup_printf ("llmsvc-storm-%d-%u", (int) getpid (), n_made++);
  g_autofree char *own = NULL;

  self->memory_procs = -1;
  for (guint i = 0; i < BENCH_STORM_N_SIDES; i++)
    self->side_procs[i] = -1;
  if (mount == NULL)
    {
      g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND,
                           "no hierarchy of control groups of version 2 is mounted");
      return NULL;
    }
  own = find_own (mount, NULL);
  if (has_controller (own) ? !make_version_2 (self, own, name, limit, error)
                           : !make_version_1 (self, own, name, limit, error))
    return NULL;
  return g_steal_pointer (&self);
}

static void
remove_group (char *path)
{
  if (path == NULL)
    return;
  for (guint i = 0; i < REMOVE_STEPS && g_rmdir (path) < 0 && errno == EBUSY; i++)
    g_usleep (REMOVE_STEP_US);
  g_free (path);
}

static void
close_if_open (int fd)
{
  if (fd >= 0)
    close (fd);
}

void
bench_storm_group_free (BenchStormGroup *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < BENCH_STORM_N_SIDES; i++)
    {
      close_if_open (self->side_procs[i]);
      remove_group (self->sides[i]);
    }
  close_if_open (self->memory_procs);
  remove_group (self->parent);
  remove_group (self->memory);
  g_free (self);
}

gboolean
bench_storm_group_enter (BenchStormGroup *self,
                         BenchStormSide   side)
{
  return (self->memory_procs < 0 || write (self->memory_procs, "0", 1) == 1) &&
         write (self->side_procs[side], "0", 1) == 1;
}

void
bench_storm_group_read (BenchStormGroup   *self,
                        BenchStormReading *reading)
{
  if (self->version == 2)
    {
      reading->usage = read_number (self->memory, "memory.current", "");
      reading->cache = read_number (self->memory, "memory.stat", "active_file ") +
                       read_number (self->memory, "memory.stat", "inactive_file ");
      reading->oom_kills = read_number (self->memory, "memory.events", "oom_kill ");
    }
  else
    {
      reading->usage = read_number (self->memory, "memory.usage_in_bytes", "");
      reading->cache = read_number (self->memory, "memory.stat", "total_active_file ") +
                       read_number (self->memory, "memory.stat", "total_inactive_file ");
      reading->oom_kills = read_number (self->memory, "memory.oom_control", "oom_kill ");
    }
  for (guint i = 0; i < BENCH_STORM_N_SIDES; i++)
    reading->stalls[i] = (BenchStormStall) {
      .some_us = read_total (self->sides[i], "some "),
      .full_us = read_total (self->sides[i], "full "),
    };
}

guint
bench_storm_group_get_version (BenchStormGroup *self)
{
  return self->version;
}
