/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bus/identity/llm-bus-identity.h"
#include "support/llm-test-folder.h"

typedef struct
{
  char *root;             /* stands for /proc */
  char *desktop_folder;
  const char *folders[3]; /* a missing folder, then desktop_folder */
} Fixture;

static void
write_file (const char *folder,
            const char *name,
            const char *content)
{
  g_autofree char *path = g_build_filename (folder, name, NULL);
  g_autofree char *parent = g_path_get_dirname (path);
  g_autoptr(GError) error = NULL;

  g_assert_cmpint (g_mkdir_with_parents (parent, 0700), ==, 0);
  g_file_set_contents (path, content, -1, &error);
  g_assert_no_error (error);
}

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->root = llm_test_folder_new ();
  fixture->desktop_folder = g_build_filename (fixture->root, "applications", NULL);
  fixture->folders[0] = "/nonexistent/applications";
  fixture->folders[1] = fixture->desktop_folder;
  write_file (fixture->desktop_folder, "org.gnome.TextEditor.desktop", "");
  write_file (fixture->desktop_folder, "my-notes.desktop", "");
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_test_folder_remove (fixture->root);
  g_free (fixture->desktop_folder);
  g_free (fixture->root);
}

typedef struct
{
  const char *text;
  LlmCallerKind kind;
  const char *app_id;
} Case;

static const Case cgroup_cases[] = {
  /* flatpak, unified and version 1, an id with escaped dashes */
  { "0::/user.slice/user@1000.service/app.slice/app-flatpak-org.gimp.GIMP-4711.scope\n",
    LLM_CALLER_FLATPAK, "org.gimp.GIMP" },
  { "2:cpu:/\n1:name=systemd:/user.slice/app-flatpak-org.gimp.GIMP-4711.scope\n0::/\n",
    LLM_CALLER_FLATPAK, "org.gimp.GIMP" },
  { "0::/app.slice/app-flatpak-org.kde.my\\x2dnotes-1.scope\n",
    LLM_CALLER_FLATPAK, "org.kde.my-notes" },
  { "0::/app.slice/app-flatpak-org.gimp.GIMP-4711.scope/inner\n",
    LLM_CALLER_FLATPAK, "org.gimp.GIMP" },
  /* a sandbox that can't be named is not the host */
  { "0::/app.slice/app-flatpak-.scope\n", LLM_CALLER_UNKNOWN, NULL },
  { "0::/app.slice/app-flatpak-org.bad\\x2fpath-1.scope\n", LLM_CALLER_UNKNOWN, NULL },
  { "0::/app.slice/app-flatpak-org.bad\\x00-1.scope\n", LLM_CALLER_UNKNOWN, NULL },
  { "0::/app.slice/app-flatpak-org.bad\\x-1.scope\n", LLM_CALLER_UNKNOWN, NULL },

  /* snap: scope, service, the freezer of version 1 */
  { "0::/user.slice/user@1000.service/app.slice/snap.firefox.firefox-3c9f.scope\n",
    LLM_CALLER_SNAP, "snap.firefox" },
  { "0::/system.slice/snap.lxd.daemon.service\n", LLM_CALLER_SNAP, "snap.lxd" },
  { "7:freezer:/snap.hello-world\n1:name=systemd:/user.slice\n0::/user.slice\n",
    LLM_CALLER_SNAP, "snap.hello-world" },
  { "7:freezer:/snap.Bad Name\n0::/\n", LLM_CALLER_UNKNOWN, NULL },
  { "7:freezer:/\n0::/user.slice\n", LLM_CALLER_HOST, NULL },

  /* units named after a desktop file, with and without a launcher */
  { "0::/app.slice/app-gnome-org.gnome.TextEditor-4711.scope\n",
    LLM_CALLER_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-org.gnome.TextEditor-4711.scope\n",
    LLM_CALLER_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-org.gnome.TextEditor@1234.service\n",
    LLM_CALLER_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-org.gnome.TextEditor.service\n", LLM_CALLER_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-kde-my\\x2dnotes-77.scope\n", LLM_CALLER_UNIT, "my-notes" },
  { "1:name=systemd:/app.slice/app-gnome-org.gnome.TextEditor-4711.scope\n",
    LLM_CALLER_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-org.gnome.TextEditor-1.scope/tab-1.scope\n",
    LLM_CALLER_UNIT, "org.gnome.TextEditor" },

  /* the system's endpoint, and what a user can make of its name */
  { "0::/system.slice/llmsvc-http.service\n", LLM_CALLER_ENDPOINT, NULL },
  { "1:name=systemd:/system.slice/llmsvc-http.service\n0::/\n", LLM_CALLER_ENDPOINT, NULL },
  { "0::/system.slice/llmsvc-http.service/inner\n", LLM_CALLER_HOST, NULL },
  { "0::/llmsvc-http.service\n", LLM_CALLER_HOST, NULL },
  { "0::/user.slice/user-1000.slice/user@1000.service/system.slice/llmsvc-http.service\n",
    LLM_CALLER_HOST, NULL },
  { "7:cpu:/system.slice/llmsvc-http.service\n0::/user.slice\n", LLM_CALLER_HOST, NULL },

  /* no desktop file, no id; other units */
  { "0::/app.slice/app-gnome-org.example.Invented-4711.scope\n", LLM_CALLER_HOST, NULL },
  { "0::/app.slice/app-..\\x2f..\\x2fetc-1.scope\n", LLM_CALLER_HOST, NULL },
  { "0::/app.slice/app-.scope\n", LLM_CALLER_HOST, NULL },
  { "0::/user.slice/user-1000.slice/session-3.scope\n", LLM_CALLER_HOST, NULL },
  { "0::/\n", LLM_CALLER_HOST, NULL },

  /* a sandbox in one hierarchy outweighs a unit in the other */
  { "1:name=systemd:/app-org.gnome.TextEditor-1.scope\n0::/app-flatpak-org.gimp.GIMP-1.scope\n",
    LLM_CALLER_FLATPAK, "org.gimp.GIMP" },
  /* different sandboxes in two hierarchies */
  { "1:name=systemd:/app-flatpak-org.kde.krita-1.scope\n0::/app-flatpak-org.gimp.GIMP-1.scope\n",
    LLM_CALLER_UNKNOWN, NULL },
  { "7:freezer:/snap.draw\n0::/app-flatpak-org.gimp.GIMP-1.scope\n", LLM_CALLER_UNKNOWN, NULL },
  { "7:freezer:/snap.draw\n0::/snap.draw.draw-1.scope\n", LLM_CALLER_SNAP, "snap.draw" },
  /* a path with colons */
  { "0::/a:b/app-org.gnome.TextEditor-1.scope\n", LLM_CALLER_UNIT, "org.gnome.TextEditor" },

  /* nothing that tells anything */
  { "", LLM_CALLER_UNKNOWN, NULL },
  { "\n\n", LLM_CALLER_UNKNOWN, NULL },
  { "3:memory:/\n", LLM_CALLER_UNKNOWN, NULL },
  { "garbage", LLM_CALLER_UNKNOWN, NULL },
};

static void
test_cgroup (Fixture      *fixture,
             gconstpointer data)
{
  for (guint i = 0; i < G_N_ELEMENTS (cgroup_cases); i++)
    {
      g_autofree char *app_id = NULL;
      LlmCallerKind kind;
      gboolean is_users;

      g_test_message ("%s", cgroup_cases[i].text);
      kind =
        llm_bus_identity_parse_cgroup (cgroup_cases[i].text, fixture->folders, &app_id, &is_users);
      g_assert_cmpint (kind, ==, cgroup_cases[i].kind);
      g_assert_cmpstr (app_id, ==, cgroup_cases[i].app_id);
    }
}

#define GIMP "org.gimp.GIMP"

static void
test_label (void)
{
  static const Case cases[] = {
    { "snap.firefox.firefox (enforce)", LLM_CALLER_SNAP, "snap.firefox" },
    { "snap.hello-world_1.sh", LLM_CALLER_SNAP, "snap.hello-world_1" },
    { "snap.firefox", LLM_CALLER_HOST, NULL },
    { "snap..x", LLM_CALLER_HOST, NULL },
    { "snap.UPPER.x", LLM_CALLER_HOST, NULL },
    { "unconfined", LLM_CALLER_HOST, NULL },
    { "/usr/bin/snap.firefox.x", LLM_CALLER_HOST, NULL },
    { "", LLM_CALLER_HOST, NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *app_id = NULL;

      g_test_message ("%s", cases[i].text);
      g_assert_cmpint (llm_bus_identity_parse_label (cases[i].text, &app_id), ==, cases[i].kind);
      g_assert_cmpstr (app_id, ==, cases[i].app_id);
    }
}

static void
test_app_id (void)
{
  g_autofree char *longest = g_strnfill (255, 'a');
  g_autofree char *too_long = g_strnfill (256, 'a');

  g_assert_true (llm_bus_identity_is_app_id ("org.gnome.TextEditor"));
  g_assert_true (llm_bus_identity_is_app_id ("my-notes_2"));
  g_assert_true (llm_bus_identity_is_app_id (longest));
  g_assert_false (llm_bus_identity_is_app_id (too_long));
  g_assert_false (llm_bus_identity_is_app_id (""));
  g_assert_false (llm_bus_identity_is_app_id (".hidden"));
  g_assert_false (llm_bus_identity_is_app_id ("-option"));
  g_assert_false (llm_bus_identity_is_app_id ("../etc"));
  g_assert_false (llm_bus_identity_is_app_id ("a b"));
  g_assert_false (llm_bus_identity_is_app_id ("unknown:1.5"));
  g_assert_false (llm_bus_identity_is_app_id ("naïve"));

  /* names of the sandboxed, which no program outside may take */
  g_assert_true (llm_bus_identity_is_reserved ("snap.firefox"));
  g_assert_true (llm_bus_identity_is_reserved ("flatpak.org.gimp.GIMP"));
  g_assert_false (llm_bus_identity_is_reserved ("snapshot"));
}

#define BAD_STAT "42 (x) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 -5 0 0\n"
#define STAT "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0\n"
#define MOUNTS "36 35 98:0 / / rw,noatime master:1 - ext4 /dev/root rw\n"
/* as bwrap leaves it */
#define SANDBOX_MOUNTS                                                                             \
  "64 42 0:39 /newroot / rw,nosuid,nodev,relatime - tmpfs tmpfs rw,uid=1000,gid=1000\n"           \
  "65 64 98:0 /usr /usr ro,nosuid,nodev,relatime - ext4 /dev/root rw\n"
/* What programs of a machine share. */
#define MACHINE_MOUNTS                                                                             \
  MOUNTS "37 36 0:31 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw\n"                                  \
         "38 36 0:32 / /run/user/1000 rw,nosuid - tmpfs tmpfs rw\n"
#define GIMP_INFO "[Application]\nname=" GIMP "\nruntime=x\n"
#define USERS "0::/user.slice/user-1000.slice/user@1000.service/app.slice/"
#define GIMP_GROUP USERS "app-flatpak-org.gimp.GIMP-4711.scope\n"

/* What process 42 of the fixture is. */
static void
check_read (Fixture       *fixture,
            const char    *label,
            LlmCallerKind  kind,
            const char    *app_id)
{
  const LlmBusProcess process = {
    .proc_root = fixture->root, .pid = 42, .pidfd = -1, .label = label,
    .desktop_folders = fixture->folders,
  };
  g_autofree char *found = NULL;

  g_assert_cmpint (llm_bus_identity_read (&process, &found), ==, kind);
  g_assert_cmpstr (found, ==, app_id);
}

static void
set_process (Fixture    *fixture,
             const char *group,
             const char *mounts,
             const char *info)
{
  g_autofree char *path = g_build_filename (fixture->root, "42/root/.flatpak-info", NULL);

  write_file (fixture->root, "42/stat", STAT);
  write_file (fixture->root, "42/cgroup", group);
  write_file (fixture->root, "42/mountinfo", mounts);
  write_file (fixture->root, "42/root/file", "");
  write_file (fixture->root, "self/mountinfo", MOUNTS);
  write_file (fixture->root, "1/mountinfo", MACHINE_MOUNTS);
  if (info != NULL)
    write_file (fixture->root, "42/root/.flatpak-info", info);
  else
    g_unlink (path);
}

static void
test_read (Fixture      *fixture,
           gconstpointer data)
{
  set_process (fixture, GIMP_GROUP, SANDBOX_MOUNTS, GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_FLATPAK, GIMP);
  check_read (fixture, "unconfined", LLM_CALLER_FLATPAK, GIMP);
  check_read (fixture, "snap.firefox.firefox (enforce)", LLM_CALLER_UNKNOWN, NULL);

  /* a snap in the group of its user's systemd: by the label of the bus, or by the kernel's */
  set_process (fixture, USERS "snap.firefox.firefox-3c9f.scope\n", MOUNTS, NULL);
  check_read (fixture, "snap.firefox.firefox (enforce)", LLM_CALLER_SNAP, "snap.firefox");
  write_file (fixture->root, "42/attr/apparmor/current", "snap.firefox.firefox (enforce)\n");
  check_read (fixture, NULL, LLM_CALLER_SNAP, "snap.firefox");
  check_read (fixture, "unconfined_u:unconfined_r:unconfined_t:s0", LLM_CALLER_SNAP,
              "snap.firefox");
}

/* What a program outside a sandbox can do without root: name a scope, make a root. */
static void
test_forged (Fixture      *fixture,
             gconstpointer data)
{
  static const char snap_group[] = USERS "snap.firefox.firefox-3c9f.scope\n";

  /* systemd-run --user --scope --unit=app-flatpak-org.gimp.GIMP-4711 */
  set_process (fixture, GIMP_GROUP, MOUNTS, NULL);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  check_read (fixture, "unconfined", LLM_CALLER_UNKNOWN, NULL);

  /* a root of its own, by chroot in a name space of users */
  set_process (fixture, "0::/\n", MOUNTS, GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  set_process (fixture, "0::/\n", SANDBOX_MOUNTS, GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  set_process (fixture, USERS "app-org.gnome.TextEditor-1.scope\n", SANDBOX_MOUNTS, GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);

  /* both, but not on a file system of its own */
  set_process (fixture, GIMP_GROUP, MOUNTS, GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  set_process (fixture, GIMP_GROUP, SANDBOX_MOUNTS, GIMP_INFO);
  write_file (fixture->root, "self/mountinfo", SANDBOX_MOUNTS);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);

  /* on a tmpfs that other programs have, too */
  set_process (fixture, GIMP_GROUP, "64 42 0:31 /newroot / rw - tmpfs tmpfs rw\n", GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  set_process (fixture, GIMP_GROUP, "64 42 0:32 /newroot / rw - tmpfs tmpfs rw\n", GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  /* a folder of one, or all of it, which bwrap does not make */
  set_process (fixture, GIMP_GROUP, "64 42 0:39 /some/root / rw - tmpfs tmpfs rw\n", GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  set_process (fixture, GIMP_GROUP, "64 42 0:39 / / rw - tmpfs tmpfs rw\n", GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  /* over a root that the process never left */
  set_process (fixture, GIMP_GROUP, MOUNTS SANDBOX_MOUNTS, GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  set_process (fixture, GIMP_GROUP, SANDBOX_MOUNTS MOUNTS, GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);

  /* systemd-run --user --scope --unit=snap.firefox.firefox-3c9f, with and without AppArmor */
  set_process (fixture, snap_group, MOUNTS, NULL);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  write_file (fixture->root, "42/attr/apparmor/current", "unconfined\n");
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  check_read (fixture, "snap.draw.draw (enforce)", LLM_CALLER_UNKNOWN, NULL);

  /* toolbox and other containers claim nothing */
  set_process (fixture, USERS "libpod-1f2e.scope\n",
               "700 42 0:51 / / rw,relatime - overlay overlay rw,lowerdir=/l\n", NULL);
  check_read (fixture, NULL, LLM_CALLER_HOST, NULL);
  set_process (fixture, "0::/\n", SANDBOX_MOUNTS, NULL);
  check_read (fixture, NULL, LLM_CALLER_HOST, NULL);
}

/* Whatever can't be read makes the caller unknown, never an ordinary program. */
static void
test_unreadable (Fixture      *fixture,
                 gconstpointer data)
{
  static const char *const bad_stats[] = { "", "42", "42 (x", "42 (x)", "42 (x) S 1 2",
                                           BAD_STAT };

  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);

  write_file (fixture->root, "42/stat", STAT);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);

  write_file (fixture->root, "42/cgroup", "0::/\n");
  for (guint i = 0; i < G_N_ELEMENTS (bad_stats); i++)
    {
      write_file (fixture->root, "42/stat", bad_stats[i]);
      check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
    }

  write_file (fixture->root, "42/stat", STAT);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  write_file (fixture->root, "42/mountinfo", MOUNTS);
  check_read (fixture, NULL, LLM_CALLER_HOST, NULL);
}

/* A user makes itself mounts by the ten thousand, in a name space of its own. */
static void
test_long (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(GString) text = g_string_new (MOUNTS);
  g_autofree char *group = NULL;

  for (guint i = 0; i < 3000; i++)
    g_string_append_printf (text, "%u 36 98:0 /d%u /some/where/%u rw - ext4 /dev/root rw\n", i + 100, i, i);
  set_process (fixture, "0::/\n", text->str, NULL);
  check_read (fixture, NULL, LLM_CALLER_HOST, NULL);
  for (guint i = 0; i < 30000; i++)
    g_string_append_printf (text, "%u 36 98:0 /d%u /some/where/%u rw - ext4 /dev/root rw\n", i + 9999, i, i);
  set_process (fixture, "0::/\n", text->str, NULL);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);

  group = g_strnfill (1 << 20, 'x');
  set_process (fixture, group, MOUNTS, NULL);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  set_process (fixture, "0::/\n", MOUNTS, NULL);
  check_read (fixture, NULL, LLM_CALLER_HOST, NULL);
  write_file (fixture->root, "42/stat", group);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
}

static void
remove_process_file (Fixture    *fixture,
                     const char *name)
{
  g_autofree char *path = g_build_filename (fixture->root, name, NULL);

  g_assert_cmpint (g_remove (path), ==, 0);
}

/* What Flatpak says in the process's root, with what the group says. */
static void
test_flatpak_info (Fixture      *fixture,
                   gconstpointer data)
{
  static const char *const contradictions[] = { USERS "app-flatpak-org.kde.krita-4711.scope\n",
                                                USERS "snap.firefox.firefox-1.scope\n",
                                                "0::/system.slice/snap.lxd.daemon.service\n" };
  g_autofree char *huge = g_strnfill (100000, '#');
  const char *const bad_infos[] = { "", "[Application]\nname=../etc\n", huge };
  /* roots that may never answer: served by a program of the user, or nobody says where they lie */
  static const char *const bad_mounts[] = {
    "36 35 0:1 / / rw - fuse.evil evil rw\n",
    SANDBOX_MOUNTS "36 35 0:1 / / rw - fuse evil rw\n",
    "36 35 0:1 / /proc rw - proc proc rw\n",
    "",
  };

  for (guint i = 0; i < G_N_ELEMENTS (contradictions); i++)
    {
      set_process (fixture, contradictions[i], SANDBOX_MOUNTS, GIMP_INFO);
      check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
    }
  for (guint i = 0; i < G_N_ELEMENTS (bad_infos); i++)
    {
      set_process (fixture, GIMP_GROUP, SANDBOX_MOUNTS, bad_infos[i]);
      check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
    }
  for (guint i = 0; i < G_N_ELEMENTS (bad_mounts); i++)
    {
      set_process (fixture, GIMP_GROUP, bad_mounts[i], GIMP_INFO);
      check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
    }

  /* FUSE elsewhere than at the root does not matter */
  set_process (fixture, GIMP_GROUP, "36 35 0:1 / /mnt rw - fuse.evil evil rw\n" SANDBOX_MOUNTS,
               GIMP_INFO);
  check_read (fixture, NULL, LLM_CALLER_FLATPAK, GIMP);

  /* another user's process: its root can't be seen, but what file system it is on */
  remove_process_file (fixture, "42/root/.flatpak-info");
  remove_process_file (fixture, "42/root/file");
  remove_process_file (fixture, "42/root");
  check_read (fixture, NULL, LLM_CALLER_FLATPAK, GIMP);
  write_file (fixture->root, "42/mountinfo", MOUNTS);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  remove_process_file (fixture, "42/mountinfo");
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
}

/* A fifo in its place must not hold the reader up, nor a link lead elsewhere. */
static void
test_flatpak_traps (Fixture      *fixture,
                    gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->root, "42/root/.flatpak-info", NULL);

  set_process (fixture, GIMP_GROUP, SANDBOX_MOUNTS, NULL);
  write_file (fixture->root, "42/root/other", GIMP_INFO);

  g_assert_cmpint (mkfifo (path, 0600), ==, 0);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
  g_assert_cmpint (g_unlink (path), ==, 0);
  g_assert_cmpint (symlink ("other", path), ==, 0);
  check_read (fixture, NULL, LLM_CALLER_UNKNOWN, NULL);
}

static LlmCallerKind
read_process (const LlmBusProcess *process)
{
  g_autofree char *app_id = NULL;

  return llm_bus_identity_read (process, &app_id);
}

/* A child that ends when it is told to. */
static int
start_child (int *end)
{
  int fds[2];
  int pid;

  g_assert_cmpint (pipe (fds), ==, 0);
  pid = fork ();
  g_assert_cmpint (pid, >=, 0);
  if (pid == 0)
    {
      char byte;

      close (fds[1]);
      _exit (read (fds[0], &byte, 1) != 0);
    }
  close (fds[0]);
  *end = fds[1];
  return pid;
}

/* A number that another process had when the connection was made tells nothing. */
static void
test_reused (Fixture      *fixture,
             gconstpointer data)
{
  LlmBusProcess process = { .proc_root = "/proc", .pidfd = -1,
                            .desktop_folders = fixture->folders };
  struct timespec now;
  gint64 now_us;
  int end, pid, pidfd;

  pid = start_child (&end);
  pidfd = (int) syscall (SYS_pidfd_open, pid, 0);
  g_assert_cmpint (clock_gettime (CLOCK_BOOTTIME, &now), ==, 0);
  now_us = (gint64) now.tv_sec * G_USEC_PER_SEC + now.tv_nsec / 1000;

  /* without a descriptor the time decides: the connection was there before the process */
  process.pid = (guint32) pid;
  process.seen_us = now_us;
  g_assert_cmpint (read_process (&process), !=, LLM_CALLER_UNKNOWN);
  process.seen_us = now_us - 60 * G_USEC_PER_SEC;
  g_assert_cmpint (read_process (&process), ==, LLM_CALLER_UNKNOWN);

  /* with one it does not, but whether the process is still there */
  g_assert_cmpint (pidfd, >=, 0);
  process.pidfd = pidfd;
  g_assert_cmpint (read_process (&process), !=, LLM_CALLER_UNKNOWN);
  close (end);
  g_assert_cmpint (waitpid (pid, NULL, 0), ==, pid);

  /* the number now is somebody else's, who is an ordinary program */
  process.pid = (guint32) getpid ();
  g_assert_cmpint (read_process (&process), ==, LLM_CALLER_UNKNOWN);
  process.pidfd = -1;
  process.seen_us = 0;
  g_assert_cmpint (read_process (&process), !=, LLM_CALLER_UNKNOWN);
  close (pidfd);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/bus/identity/cgroup", Fixture, NULL, set_up, test_cgroup, tear_down);
  g_test_add_func ("/bus/identity/label", test_label);
  g_test_add_func ("/bus/identity/app-id", test_app_id);
  g_test_add ("/bus/identity/forged", Fixture, NULL, set_up, test_forged, tear_down);
  g_test_add ("/bus/identity/long", Fixture, NULL, set_up, test_long, tear_down);
  g_test_add ("/bus/identity/read", Fixture, NULL, set_up, test_read, tear_down);
  g_test_add ("/bus/identity/unreadable", Fixture, NULL, set_up, test_unreadable, tear_down);
  g_test_add ("/bus/identity/flatpak-info", Fixture, NULL, set_up, test_flatpak_info, tear_down);
  g_test_add ("/bus/identity/flatpak-traps", Fixture, NULL, set_up, test_flatpak_traps, tear_down);
  g_test_add ("/bus/identity/reused", Fixture, NULL, set_up, test_reused, tear_down);

  return g_test_run ();
}
