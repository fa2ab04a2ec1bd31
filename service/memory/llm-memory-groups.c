/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "memory/llm-memory-groups.h"

#include <string.h>

/* Without a limit, the kernel reports a number close to the greatest. */
#define NO_LIMIT (G_GUINT64_CONSTANT (1) << 60)
/* Nested groups: more levels than any manager makes. */
#define MAX_LEVELS 32

/* Mount point of a hierarchy, and our group in it. */
typedef struct
{
  char *folder;         /* (nullable) (owned): of our group */
  char *mount;          /* (nullable) (owned) */
} Hierarchy;

enum { V1, V2, N_VERSIONS };

struct _LlmMemoryGroups
{
  char *root;           /* (owned) */
  Hierarchy hierarchies[N_VERSIONS];
  char *tightest;       /* (nullable) (owned) */
  gboolean is_v1;       /* that one */
};

/* The names of their files. */
static const struct
{
  const char *limits[2];
  const char *usage;
  const char *cache[2];    /* keys of memory.stat, with all below */
} names[N_VERSIONS] = {
  { { "memory.limit_in_bytes", NULL }, "memory.usage_in_bytes",
    { "total_active_file", "total_inactive_file" } },
  { { "memory.max", "memory.high" }, "memory.current", { "active_file", "inactive_file" } },
};

static char *
read_text (const char *folder,
           const char *name)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  char *text = NULL;

  return g_file_get_contents (path, &text, NULL, NULL) ? text : NULL;
}

/* FALSE also for "max". */
static gboolean
read_number (const char *folder,
             const char *name,
             guint64    *number)
{
  g_autofree char *text = read_text (folder, name);
  char *end;

  if (text == NULL)
    return FALSE;
  *number = g_ascii_strtoull (text, &end, 10);
  return end != text;
}

/* The line "KEY N". */
static guint64
find_number (const char *text,
             const char *key)
{
  gsize length = strlen (key);

  for (const char *line = text; line != NULL; line = strchr (line, '\n'))
    {
      line += *line == '\n';
      if (strncmp (line, key, length) == 0 && line[length] == ' ')
        return g_ascii_strtoull (line + length + 1, NULL, 10);
    }
  return 0;
}

static gboolean
has_option (const char *options,
            const char *option)
{
  g_auto(GStrv) all = g_strsplit (options, ",", -1);

  return g_strv_contains ((const char *const *) all, option);
}

/* Finds where the hierarchy is mounted: "ID PARENT DEVICE ROOT MOUNT … - TYPE SOURCE OPTIONS". */
static gboolean
find_mount (const char  *mountinfo,
            gboolean     is_v1,
            char       **mounted_group,
            char       **mount)
{
  g_auto(GStrv) lines = g_strsplit (mountinfo, "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto(GStrv) fields = g_strsplit (lines[i], " ", -1);
      guint n = g_strv_length (fields);
      guint dash = 6;

      while (dash < n && !g_str_equal (fields[dash], "-"))
        dash++;
      if (dash + 3 >= n)
        continue;
      if (is_v1
            ? g_str_equal (fields[dash + 1], "cgroup") && has_option (fields[dash + 3], "memory")
            : g_str_equal (fields[dash + 1], "cgroup2"))
        {
          /* blanks in paths are written as octal numbers there */
          *mounted_group = g_strcompress (fields[3]);
          *mount = g_strcompress (fields[4]);
          return TRUE;
        }
    }
  return FALSE;
}

/* (nullable): our group's path in the hierarchy: "N:CONTROLLERS:PATH". */
static char *
find_group (const char *cgroup,
            gboolean    is_v1)
{
  g_auto(GStrv) lines = g_strsplit (cgroup, "\n", -1);

  for (guint i = 0; lines[i] != NULL; i++)
    {
      g_auto(GStrv) fields = g_strsplit (lines[i], ":", 3);

      if (g_strv_length (fields) == 3
          && (is_v1 ? has_option (fields[1], "memory")
                    : g_str_equal (fields[0], "0") && *fields[1] == '\0'))
        return g_steal_pointer (&fields[2]);
    }
  return NULL;
}

/* In a container, the mount may begin below the root of the hierarchy: only groups from there on
 * are visible. */
static void
find_hierarchy (LlmMemoryGroups *self,
                guint            version,
                const char      *cgroup,
                const char      *mountinfo)
{
  Hierarchy *hierarchy = &self->hierarchies[version];
  gboolean is_v1 = version == V1;
  g_autofree char *group = find_group (cgroup, is_v1);
  g_autofree char *mounted = NULL;
  g_autofree char *mount = NULL;
  const char *below;

  if (group == NULL || strstr (group, "..") != NULL
      || !find_mount (mountinfo, is_v1, &mounted, &mount))
    return;
  below = group;
  if (!g_str_equal (mounted, "/"))
    below = g_str_has_prefix (group, mounted) ? group + strlen (mounted) : "";
  hierarchy->mount = g_build_filename (self->root, mount, NULL);
  hierarchy->folder = g_build_filename (hierarchy->mount, below, NULL);
  while (strlen (hierarchy->folder) > strlen (hierarchy->mount)
         && g_str_has_suffix (hierarchy->folder, "/"))
    hierarchy->folder[strlen (hierarchy->folder) - 1] = '\0';
}

LlmMemoryGroups *
llm_memory_groups_new (const char *root)
{
  LlmMemoryGroups *self = g_new0 (LlmMemoryGroups, 1);
  g_autofree char *folder = NULL;
  g_autofree char *cgroup = NULL;
  g_autofree char *mountinfo = NULL;

  self->root = g_strdup (root != NULL && *root != '\0' ? root : "/");
  folder = g_build_filename (self->root, "proc", "self", NULL);
  cgroup = read_text (folder, "cgroup");
  mountinfo = read_text (folder, "mountinfo");
  for (guint i = 0; cgroup != NULL && mountinfo != NULL && i < N_VERSIONS; i++)
    find_hierarchy (self, i, cgroup, mountinfo);
  return self;
}

void
llm_memory_groups_free (LlmMemoryGroups *self)
{
  for (guint i = 0; i < N_VERSIONS; i++)
    {
      g_free (self->hierarchies[i].folder);
      g_free (self->hierarchies[i].mount);
    }
  g_free (self->root);
  g_free (self->tightest);
  g_free (self);
}

/* FALSE for a group without a limit. */
static gboolean
read_group (const char    *folder,
            guint          version,
            LlmGroupUsage *usage)
{
  g_autofree char *stat = NULL;
  guint64 limit;

  *usage = (LlmGroupUsage) { 0 };
  for (guint i = 0; i < G_N_ELEMENTS (names[version].limits); i++)
    if (names[version].limits[i] != NULL && read_number (folder, names[version].limits[i], &limit)
        && limit < NO_LIMIT && (usage->limit == 0 || limit < usage->limit))
      usage->limit = MAX (limit, 1);
  if (usage->limit == 0 || !read_number (folder, names[version].usage, &usage->usage))
    return FALSE;

  stat = read_text (folder, "memory.stat");
  for (guint i = 0; stat != NULL && i < G_N_ELEMENTS (names[version].cache); i++)
    usage->cache += MIN (find_number (stat, names[version].cache[i]), usage->usage);
  usage->cache = MIN (usage->cache, usage->usage);
  return TRUE;
}

guint64
llm_group_usage_get_room (const LlmGroupUsage *self)
{
  guint64 fixed = self->usage - self->cache;

  if (self->limit == 0)
    return G_MAXUINT64;
  return self->limit > fixed ? self->limit - fixed : 0;
}

/* Visits the groups from ours up to the mount. */
static void
read_hierarchy (LlmMemoryGroups *self,
                guint            version,
                LlmGroupUsage   *tightest)
{
  const Hierarchy *hierarchy = &self->hierarchies[version];
  g_autofree char *folder = g_strdup (hierarchy->folder);

  for (guint level = 0; folder != NULL && level < MAX_LEVELS; level++)
    {
      LlmGroupUsage usage;
      char *above;

      if (read_group (folder, version, &usage)
          && llm_group_usage_get_room (&usage) < llm_group_usage_get_room (tightest))
        {
          *tightest = usage;
          g_free (self->tightest);
          self->tightest = g_strdup (folder);
          self->is_v1 = version == V1;
        }
      if (strlen (folder) <= strlen (hierarchy->mount))
        return;
      above = g_path_get_dirname (folder);
      g_free (folder);
      folder = above;
    }
}

void
llm_memory_groups_read (LlmMemoryGroups *self,
                        LlmGroupUsage   *usage)
{
  *usage = (LlmGroupUsage) { 0 };
  g_clear_pointer (&self->tightest, g_free);
  for (guint i = 0; i < N_VERSIONS; i++)
    read_hierarchy (self, i, usage);
}

const char *
llm_memory_groups_get_v2 (LlmMemoryGroups *self)
{
  return self->hierarchies[V2].folder;
}

const char *
llm_memory_groups_get_tightest (LlmMemoryGroups *self,
                                gboolean        *is_v1)
{
  *is_v1 = self->is_v1;
  return self->tightest;
}
