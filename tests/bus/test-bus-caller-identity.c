/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <glib.h>
#include <glib/gstdio.h>
#include <string.h>

#include "bus/llm-bus-identity.h"
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
  LlmBusAppKind kind;
  const char *app_id;
} Case;

static const Case cgroup_cases[] = {
  /* flatpak, unified and version 1, an id with escaped dashes */
  { "0::/user.slice/user@1000.service/app.slice/app-flatpak-org.gimp.GIMP-4711.scope\n",
    LLM_BUS_APP_FLATPAK, "org.gimp.GIMP" },
  { "2:cpu:/\n1:name=systemd:/user.slice/app-flatpak-org.gimp.GIMP-4711.scope\n0::/\n",
    LLM_BUS_APP_FLATPAK, "org.gimp.GIMP" },
  { "0::/app.slice/app-flatpak-org.kde.my\\x2dnotes-1.scope\n",
    LLM_BUS_APP_FLATPAK, "org.kde.my-notes" },
  { "0::/app.slice/app-flatpak-org.gimp.GIMP-4711.scope/inner\n",
    LLM_BUS_APP_FLATPAK, "org.gimp.GIMP" },
  /* a sandbox that can't be named is not the host */
  { "0::/app.slice/app-flatpak-.scope\n", LLM_BUS_APP_UNKNOWN, NULL },
  { "0::/app.slice/app-flatpak-org.bad\\x2fpath-1.scope\n", LLM_BUS_APP_UNKNOWN, NULL },
  { "0::/app.slice/app-flatpak-org.bad\\x00-1.scope\n", LLM_BUS_APP_UNKNOWN, NULL },
  { "0::/app.slice/app-flatpak-org.bad\\x-1.scope\n", LLM_BUS_APP_UNKNOWN, NULL },

  /* snap: scope, service, the freezer of version 1 */
  { "0::/user.slice/user@1000.service/app.slice/snap.firefox.firefox-3c9f.scope\n",
    LLM_BUS_APP_SNAP, "snap.firefox" },
  { "0::/system.slice/snap.lxd.daemon.service\n", LLM_BUS_APP_SNAP, "snap.lxd" },
  { "7:freezer:/snap.hello-world\n1:name=systemd:/user.slice\n0::/user.slice\n",
    LLM_BUS_APP_SNAP, "snap.hello-world" },
  { "7:freezer:/snap.Bad Name\n0::/\n", LLM_BUS_APP_UNKNOWN, NULL },
  { "7:freezer:/\n0::/user.slice\n", LLM_BUS_APP_NONE, NULL },

  /* units named after a desktop file, with and without a launcher */
  { "0::/app.slice/app-gnome-org.gnome.TextEditor-4711.scope\n",
    LLM_BUS_APP_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-org.gnome.TextEditor-4711.scope\n",
    LLM_BUS_APP_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-org.gnome.TextEditor@1234.service\n",
    LLM_BUS_APP_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-org.gnome.TextEditor.service\n", LLM_BUS_APP_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-kde-my\\x2dnotes-77.scope\n", LLM_BUS_APP_UNIT, "my-notes" },
  { "1:name=systemd:/app.slice/app-gnome-org.gnome.TextEditor-4711.scope\n",
    LLM_BUS_APP_UNIT, "org.gnome.TextEditor" },
  { "0::/app.slice/app-org.gnome.TextEditor-1.scope/tab-1.scope\n",
    LLM_BUS_APP_UNIT, "org.gnome.TextEditor" },

  /* no desktop file, no id; other units */
  { "0::/app.slice/app-gnome-org.example.Invented-4711.scope\n", LLM_BUS_APP_NONE, NULL },
  { "0::/app.slice/app-..\\x2f..\\x2fetc-1.scope\n", LLM_BUS_APP_NONE, NULL },
  { "0::/app.slice/app-.scope\n", LLM_BUS_APP_NONE, NULL },
  { "0::/user.slice/user-1000.slice/session-3.scope\n", LLM_BUS_APP_NONE, NULL },
  { "0::/\n", LLM_BUS_APP_NONE, NULL },

  /* a sandbox in one hierarchy outweighs a unit in the other */
  { "1:name=systemd:/app-org.gnome.TextEditor-1.scope\n0::/app-flatpak-org.gimp.GIMP-1.scope\n",
    LLM_BUS_APP_FLATPAK, "org.gimp.GIMP" },
  /* a path with colons */
  { "0::/a:b/app-org.gnome.TextEditor-1.scope\n", LLM_BUS_APP_UNIT, "org.gnome.TextEditor" },

  /* nothing that tells anything */
  { "", LLM_BUS_APP_UNKNOWN, NULL },
  { "\n\n", LLM_BUS_APP_UNKNOWN, NULL },
  { "3:memory:/\n", LLM_BUS_APP_UNKNOWN, NULL },
  { "garbage", LLM_BUS_APP_UNKNOWN, NULL },
};

static void
test_cgroup (Fixture      *fixture,
             gconstpointer data)
{
  for (guint i = 0; i < G_N_ELEMENTS (cgroup_cases); i++)
    {
      g_autofree char *app_id = NULL;
      LlmBusAppKind kind;

      g_test_message ("%s", cgroup_cases[i].text);
      kind = llm_bus_identity_parse_cgroup (cgroup_cases[i].text, fixture->folders, &app_id);
      g_assert_cmpint (kind, ==, cgroup_cases[i].kind);
      g_assert_cmpstr (app_id, ==, cgroup_cases[i].app_id);
    }
}

static void
test_label (void)
{
  static const Case cases[] = {
    { "snap.firefox.firefox (enforce)", LLM_BUS_APP_SNAP, "snap.firefox" },
    { "snap.hello-world_1.sh", LLM_BUS_APP_SNAP, "snap.hello-world_1" },
    { "snap.firefox", LLM_BUS_APP_NONE, NULL },
    { "snap..x", LLM_BUS_APP_NONE, NULL },
    { "snap.UPPER.x", LLM_BUS_APP_NONE, NULL },
    { "unconfined", LLM_BUS_APP_NONE, NULL },
    { "/usr/bin/snap.firefox.x", LLM_BUS_APP_NONE, NULL },
    { "", LLM_BUS_APP_NONE, NULL },
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
}

#define BAD_STAT "42 (x) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 -5 0 0\n"
#define STAT "42 (a) b (c) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 98765 0 0\n"

static void
test_read (Fixture      *fixture,
           gconstpointer data)
{
  g_autofree char *app_id = NULL;

  write_file (fixture->root, "42/stat", STAT);
  write_file (fixture->root, "42/cgroup", "0::/app-flatpak-org.gimp.GIMP-4711.scope\n");

  g_assert_cmpint (llm_bus_identity_read (fixture->root, 42, NULL, fixture->folders, &app_id), ==,
                   LLM_BUS_APP_FLATPAK);
  g_assert_cmpstr (app_id, ==, "org.gimp.GIMP");
  g_clear_pointer (&app_id, g_free);

  /* the label comes first; one that is no snap's changes nothing */
  g_assert_cmpint (llm_bus_identity_read (fixture->root, 42, "snap.firefox.firefox (enforce)",
                                          fixture->folders, &app_id), ==, LLM_BUS_APP_SNAP);
  g_assert_cmpstr (app_id, ==, "snap.firefox");
  g_clear_pointer (&app_id, g_free);
  g_assert_cmpint (llm_bus_identity_read (fixture->root, 42, "unconfined", fixture->folders,
                                          &app_id), ==, LLM_BUS_APP_FLATPAK);
}

/* Whatever can't be read makes the caller unknown, never an ordinary program. */
static void
test_unreadable (Fixture      *fixture,
                 gconstpointer data)
{
  static const char *const bad_stats[] = { "", "42", "42 (x", "42 (x)", "42 (x) S 1 2",
                                           BAD_STAT };
  g_autofree char *app_id = NULL;

  g_assert_cmpint (llm_bus_identity_read (fixture->root, 42, NULL, fixture->folders, &app_id), ==,
                   LLM_BUS_APP_UNKNOWN);
  g_assert_null (app_id);

  write_file (fixture->root, "42/stat", STAT);
  g_assert_cmpint (llm_bus_identity_read (fixture->root, 42, NULL, fixture->folders, &app_id), ==,
                   LLM_BUS_APP_UNKNOWN);

  write_file (fixture->root, "42/cgroup", "0::/\n");
  for (guint i = 0; i < G_N_ELEMENTS (bad_stats); i++)
    {
      write_file (fixture->root, "42/stat", bad_stats[i]);
      g_assert_cmpint (llm_bus_identity_read (fixture->root, 42, NULL, fixture->folders, &app_id),
                       ==, LLM_BUS_APP_UNKNOWN);
    }

  write_file (fixture->root, "42/stat", STAT);
  g_assert_cmpint (llm_bus_identity_read (fixture->root, 42, NULL, fixture->folders, &app_id), ==,
                   LLM_BUS_APP_NONE);
  g_assert_null (app_id);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add ("/bus/identity/cgroup", Fixture, NULL, set_up, test_cgroup, tear_down);
  g_test_add_func ("/bus/identity/label", test_label);
  g_test_add_func ("/bus/identity/app-id", test_app_id);
  g_test_add ("/bus/identity/read", Fixture, NULL, set_up, test_read, tear_down);
  g_test_add ("/bus/identity/unreadable", Fixture, NULL, set_up, test_unreadable, tear_down);

  return g_test_run ();
}
