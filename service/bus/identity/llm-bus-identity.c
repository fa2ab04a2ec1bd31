/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/identity/llm-bus-identity.h"

#include "bus/identity/llm-bus-proc.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define MAX_APP_ID_BYTES 255
/* Enough for a group for each of a dozen controllers, with names that systemd has made; a line of
 * numbers; a label. */
#define MAX_PROC_BYTES (64 * 1024)
#define SNAP_PREFIX "snap."
#define FLATPAK_PREFIX "app-flatpak-"
#define UNIT_PREFIX "app-"
/* Only root makes groups there. */
#define ENDPOINT_GROUP "/system.slice/llmsvc-http.service"
/* In a user's own systemd any program of the user gets the group name it asks for. */
#define USER_MANAGER "/user@"

gboolean
llm_bus_identity_is_app_id (const char *id)
{
  gsize length = strspn (id, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "._-");

  return length > 0 && length <= MAX_APP_ID_BYTES && id[length] == '\0' && id[0] != '.' &&
         id[0] != '-';
}

/* Ids of sandboxed applications begin with the kind of their sandbox: no program outside of one
 * may take such a name. */
gboolean
llm_bus_identity_is_reserved (const char *id)
{
  return g_str_has_prefix (id, SNAP_PREFIX) || g_str_has_prefix (id, LLM_BUS_FLATPAK_PREFIX);
}

/* The id in name[0..length), with systemd's \xNN taken out, or NULL when it is not one. */
static char *
take_app_id (const char *name,
             gsize       length)
{
  g_autoptr(GString) id = g_string_sized_new (length);

  for (gsize i = 0; i < length; i++)
    {
      gboolean is_escape = length - i > 3 && name[i] == '\\' && name[i + 1] == 'x';
      int high = is_escape ? g_ascii_xdigit_value (name[i + 2]) : -1;
      int low = is_escape ? g_ascii_xdigit_value (name[i + 3]) : -1;

      g_string_append_c (id, high >= 0 && low >= 0 ? (char) (high * 16 + low) : name[i]);
      if (high >= 0 && low >= 0)
        i += 3;
    }

  /* an id has no backslash, so one that escapes nothing makes it invalid; nor a NUL */
  return strlen (id->str) == id->len && llm_bus_identity_is_app_id (id->str)
           ? g_strdup (id->str)
           : NULL;
}

/* "snap.NAME.REST": the first two parts. */
static char *
take_snap_id (const char *name)
{
  gsize length = strlen (SNAP_PREFIX);

  if (!g_str_has_prefix (name, SNAP_PREFIX))
    return NULL;
  length += strspn (name + length, G_CSET_a_2_z G_CSET_DIGITS "-_");
  return length > strlen (SNAP_PREFIX) && name[length] == '.' ? g_strndup (name, length) : NULL;
}

LlmCallerKind
llm_bus_identity_parse_label (const char  *label,
                              char       **app_id)
{
  *app_id = take_snap_id (label);
  return *app_id != NULL ? LLM_CALLER_SNAP : LLM_CALLER_HOST;
}

/* "app-flatpak-ID-INSTANCE.scope". A Flatpak scope with an unreadable id is still a sandbox: the
 * caller then is unknown. */
static LlmCallerKind
parse_flatpak (const char  *unit,
               char       **app_id)
{
  const char *start, *end;

  if (!g_str_has_prefix (unit, FLATPAK_PREFIX) || !g_str_has_suffix (unit, ".scope"))
    return LLM_CALLER_HOST;

  start = unit + strlen (FLATPAK_PREFIX);
  end = strrchr (start, '-');
  *app_id = end != NULL ? take_app_id (start, (gsize) (end - start)) : NULL;
  return *app_id != NULL ? LLM_CALLER_FLATPAK : LLM_CALLER_UNKNOWN;
}

GStrv
llm_bus_identity_list_desktop_folders (gboolean is_system)
{
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  const char *const *folders = g_get_system_data_dirs ();

  for (int i = is_system ? 0 : -1; i < 0 || folders[i] != NULL; i++)
    {
      const char *data = i < 0 ? g_get_user_data_dir () : folders[i];
      g_autofree char *folder = g_build_filename (data, "applications", NULL);

      g_strv_builder_add (builder, folder);
    }

  return g_strv_builder_end (builder);
}

static gboolean
has_desktop_file (const char        *id,
                  const char *const *folders)
{
  g_autofree char *name = g_strconcat (id, ".desktop", NULL);

  for (guint i = 0; folders[i] != NULL; i++)
    {
      g_autofree char *path = g_build_filename (folders[i], name, NULL);

      if (g_file_test (path, G_FILE_TEST_IS_REGULAR))
        return TRUE;
    }

  return FALSE;
}

/* "app[-LAUNCHER]-ID-RANDOM.scope" and "app[-LAUNCHER]-ID[@RANDOM].service". An id is only believed
 * when a desktop file has it, because programs choose these names freely. */
static LlmCallerKind
parse_unit (const char         *unit,
            const char *const  *desktop_folders,
            char              **app_id)
{
  const char *start, *end;

  if (!g_str_has_prefix (unit, UNIT_PREFIX))
    return LLM_CALLER_HOST;

  start = unit + strlen (UNIT_PREFIX);
  if (g_str_has_suffix (unit, ".scope"))
    end = strrchr (start, '-');
  else if (g_str_has_suffix (unit, ".service"))
    end = start + MIN (strcspn (start, "@"), strlen (start) - strlen (".service"));
  else
    return LLM_CALLER_HOST;

  while (end != NULL && start < end)
    {
      g_autofree char *id = take_app_id (start, (gsize) (end - start));
      const char *dash;

      if (id != NULL && !llm_bus_identity_is_reserved (id) &&
          has_desktop_file (id, desktop_folders))
        {
          *app_id = g_steal_pointer (&id);
          return LLM_CALLER_UNIT;
        }

      dash = memchr (start, '-', (gsize) (end - start));
      if (dash == NULL)
        break;
      start = dash + 1;
    }

  return LLM_CALLER_HOST;
}

/* Looks at every folder of the path, the innermost first: applications may make
 * groups of their own below the one they were put into. */
static LlmCallerKind
parse_path (const char         *path,
            const char *const  *desktop_folders,
            char              **app_id)
{
  g_auto(GStrv) parts = g_strsplit (path, "/", -1);
  LlmCallerKind kind = LLM_CALLER_HOST;

  for (guint i = 0; kind == LLM_CALLER_HOST && parts[i] != NULL; i++)
    kind = parse_flatpak (parts[i], app_id);
  for (guint i = 0; kind == LLM_CALLER_HOST && parts[i] != NULL; i++)
    kind = llm_bus_identity_parse_label (parts[i], app_id);
  for (guint i = g_strv_length (parts); kind == LLM_CALLER_HOST && i > 0; i--)
    kind = parse_unit (parts[i - 1], desktop_folders, app_id);
  if (kind == LLM_CALLER_HOST && g_str_equal (path, ENDPOINT_GROUP))
    kind = LLM_CALLER_ENDPOINT;

  return kind;
}

/* The freezer of a snap on version 1 is "/snap.NAME", without an application. */
static LlmCallerKind
parse_freezer (const char  *path,
               char       **app_id)
{
  g_autofree char *name = NULL;

  if (!g_str_has_prefix (path, "/" SNAP_PREFIX))
    return LLM_CALLER_HOST;

  name = g_strconcat (path + 1, ".", NULL);
  *app_id = take_snap_id (name);
  return *app_id != NULL ? LLM_CALLER_SNAP : LLM_CALLER_UNKNOWN;
}

static gboolean
is_sandbox (LlmCallerKind kind)
{
  return kind == LLM_CALLER_FLATPAK || kind == LLM_CALLER_SNAP;
}

LlmCallerKind
llm_bus_identity_parse_cgroup (const char         *text,
                               const char *const  *desktop_folders,
                               char              **app_id,
                               gboolean           *is_users)
{
  g_auto(GStrv) lines = g_strsplit (text, "\n", -1);
  LlmCallerKind found = LLM_CALLER_HOST;
  gboolean is_read = FALSE;

  *app_id = NULL;
  *is_users = FALSE;

  for (guint i = 0; lines[i] != NULL; i++)
    {
      /* "NUMBER:CONTROLLERS:PATH"; the path may hold colons */
      g_auto(GStrv) fields = g_strsplit (lines[i], ":", 3);
      g_autofree char *id = NULL;
      gboolean is_freezer;
      LlmCallerKind kind;

      if (g_strv_length (fields) != 3)
        continue;

      is_freezer = g_str_equal (fields[1], "freezer");
      if (!is_freezer && *fields[1] != '\0' && !g_str_equal (fields[1], "name=systemd"))
        continue;
      is_read = is_read || !is_freezer;
      kind = is_freezer ? parse_freezer (fields[2], &id)
                        : parse_path (fields[2], desktop_folders, &id);

      /* two hierarchies with different sandboxes */
      if (is_sandbox (kind) && is_sandbox (found) &&
          (kind != found || !g_str_equal (id, *app_id)))
        kind = LLM_CALLER_UNKNOWN;
      if (kind == LLM_CALLER_UNKNOWN)
        {
          g_clear_pointer (app_id, g_free);
          return LLM_CALLER_UNKNOWN;
        }
      /* a sandbox in one hierarchy outweighs a unit in the other */
      if (kind > found)
        {
          found = kind;
          *is_users = strstr (fields[2], USER_MANAGER) != NULL;
          g_free (*app_id);
          *app_id = g_steal_pointer (&id);
        }
    }

  return is_read ? found : LLM_CALLER_UNKNOWN;
}

/* Field 22 of /proc/PID/stat, in ticks since the machine started. The name in
 * field 2 may hold anything, so counting begins behind its last parenthesis. */
static gboolean
read_start_time (const char *folder,
                 guint64    *start_time)
{
  g_autofree char *text = llm_bus_proc_read (folder, "stat", MAX_PROC_BYTES);
  g_auto(GStrv) fields = NULL;
  const char *rest;

  if (text == NULL)
    return FALSE;

  rest = strrchr (text, ')');
  if (rest == NULL || rest[1] != ' ')
    return FALSE;

  fields = g_strsplit (rest + 2, " ", -1);
  return g_strv_length (fields) > 19 &&
         g_ascii_string_to_unsigned (fields[19], 10, 0, G_MAXUINT64, start_time, NULL);
}

/* Whether the process of @pidfd has not ended. */
static gboolean
is_alive (int pidfd)
{
  struct pollfd poll_fd = { .fd = pidfd, .events = POLLIN };
  int n;

  do
    n = poll (&poll_fd, 1, 0);
  while (n < 0 && errno == EINTR);

  /* readable: it has ended; any other event counts as ended, too */
  return n == 0;
}

/* Whether the start time @start, in ticks since the machine started, is later than @seen_us. */
static gboolean
started_after (guint64 start,
               gint64  seen_us)
{
  long ticks_per_s = sysconf (_SC_CLK_TCK);

  return seen_us > 0 && ticks_per_s > 0 &&
         (double) start / (double) ticks_per_s > (double) seen_us / G_USEC_PER_SEC;
}

LlmCallerKind
llm_bus_identity_decide (const LlmBusEvidence  *evidence,
                         char                 **app_id)
{
  const gboolean is_named = evidence->root == LLM_BUS_FLATPAK_NAMED;
  g_autofree char *snap = NULL;
  gboolean is_believed;

  *app_id = NULL;
  if (evidence->group == LLM_CALLER_UNKNOWN || evidence->root == LLM_BUS_FLATPAK_BROKEN)
    return LLM_CALLER_UNKNOWN;

  if (evidence->label != NULL &&
      llm_bus_identity_parse_label (evidence->label, &snap) == LLM_CALLER_SNAP)
    {
      if (is_named || evidence->group == LLM_CALLER_FLATPAK ||
          (evidence->group == LLM_CALLER_SNAP && !g_str_equal (evidence->group_id, snap)))
        return LLM_CALLER_UNKNOWN;
      *app_id = g_steal_pointer (&snap);
      return LLM_CALLER_SNAP;
    }

  if (evidence->group == LLM_CALLER_FLATPAK)
    is_believed = evidence->root == LLM_BUS_FLATPAK_HIDDEN ||
                  (is_named && g_str_equal (evidence->group_id, evidence->root_id));
  else if (evidence->group == LLM_CALLER_SNAP)
    is_believed = !is_named && evidence->label == NULL && !evidence->is_users_group;
  else
    is_believed = !is_named;
  if (!is_believed)
    return LLM_CALLER_UNKNOWN;

  *app_id = g_strdup (evidence->group_id);
  return evidence->group;
}

/* AppArmor's label of the process: the one it had when it connected, where the bus tells that it
 * was a snap's (what else the bus tells may be of another security module). Otherwise what the
 * kernel has now, which it has only where AppArmor is in force. (nullable) */
static char *
read_label (const LlmBusProcess *process,
            const char          *folder)
{
  g_autofree char *snap = NULL;

  if (process->label != NULL &&
      llm_bus_identity_parse_label (process->label, &snap) == LLM_CALLER_SNAP)
    return g_strdup (process->label);

  return llm_bus_proc_read (folder, "attr/apparmor/current", MAX_PROC_BYTES);
}

static LlmCallerKind
read_files (const LlmBusProcess  *process,
            const char           *folder,
            char                **app_id)
{
  g_autofree char *text = llm_bus_proc_read (folder, "cgroup", MAX_PROC_BYTES);
  g_autofree char *label = NULL;
  g_autofree char *root_id = NULL;
  g_autofree char *group_id = NULL;
  LlmBusEvidence evidence = { .group = LLM_CALLER_UNKNOWN };

  if (text == NULL)
    return LLM_CALLER_UNKNOWN;

  evidence.label = label = read_label (process, folder);
  evidence.group = llm_bus_identity_parse_cgroup (text, process->desktop_folders, &group_id,
                                                  &evidence.is_users_group);
  evidence.group_id = group_id;
  evidence.root = llm_bus_flatpak_read (process->proc_root, process->pid, &root_id);
  if (root_id != NULL && !llm_bus_identity_is_app_id (root_id))
    evidence.root = LLM_BUS_FLATPAK_BROKEN;
  evidence.root_id = root_id;
  return llm_bus_identity_decide (&evidence, app_id);
}

LlmCallerKind
llm_bus_identity_read (const LlmBusProcess  *process,
                       char                **app_id)
{
  g_autofree char *folder = g_strdup_printf ("%s/%u", process->proc_root, process->pid);
  guint64 before, after;
  LlmCallerKind kind;

  *app_id = NULL;

  if (!read_start_time (folder, &before) ||
      (process->pidfd < 0 && started_after (before, process->seen_us)))
    return LLM_CALLER_UNKNOWN;

  kind = read_files (process, folder, app_id);

  if (!read_start_time (folder, &after) || before != after ||
      (process->pidfd >= 0 && !is_alive (process->pidfd)))
    {
      g_clear_pointer (app_id, g_free);
      return LLM_CALLER_UNKNOWN;
    }

  return kind;
}
