/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* When a process is believed to be in a sandbox: what its group, its root and its label say, all
 * together. */

#include "bus/identity/llm-bus-identity.h"

/* Who made the group that names a snap: only the one in which the name is counts. */
static void
test_made_by (void)
{
  static const char *const folders[] = { NULL };
  static const struct
  {
    const char *text;
    gboolean is_users;
  } cases[] = {
    { "0::/user.slice/user-1000.slice/user@1000.service/app.slice/snap.draw.draw-1.scope\n", TRUE },
    { "0::/user@1000.service/snap.draw.draw-1.scope/user@0.service\n", TRUE },
    { "0::/system.slice/snap.draw.daemon.service\n", FALSE },
    { "7:freezer:/snap.draw\n1:name=systemd:/user.slice/user@1000.service/app.slice\n", FALSE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *app_id = NULL;
      gboolean is_users;

      g_test_message ("%s", cases[i].text);
      g_assert_cmpint (llm_bus_identity_parse_cgroup (cases[i].text, folders, &app_id,
                                                      &is_users), ==, LLM_CALLER_SNAP);
      g_assert_cmpstr (app_id, ==, "snap.draw");
      g_assert_true (is_users == cases[i].is_users);
    }
}

#define NO_LABEL NULL
#define FREE_LABEL "unconfined\n"
#define DRAW_LABEL "snap.draw.draw (enforce)\n"
#define GIMP "org.gimp.GIMP"
#define KRITA "org.kde.krita"
#define DRAW "snap.draw"
#define FIREFOX "snap.firefox"

/* All that a process may show, and what it is then. */
static const struct
{
  LlmBusEvidence evidence;
  LlmCallerKind kind;
  const char *app_id;
} decisions[] = {
  /* nothing claims a sandbox: programs of the user, in containers or not */
  { { LLM_CALLER_HOST, NULL, FALSE, LLM_BUS_FLATPAK_NONE, NULL, NO_LABEL }, LLM_CALLER_HOST, NULL },
  { { LLM_CALLER_HOST, NULL, FALSE, LLM_BUS_FLATPAK_NONE, NULL, FREE_LABEL },
    LLM_CALLER_HOST, NULL },
  { { LLM_CALLER_HOST, NULL, FALSE, LLM_BUS_FLATPAK_HIDDEN, NULL, NO_LABEL },
    LLM_CALLER_HOST, NULL },
  { { LLM_CALLER_UNIT, "notes", TRUE, LLM_BUS_FLATPAK_NONE, NULL, FREE_LABEL },
    LLM_CALLER_UNIT, "notes" },

  /* a Flatpak: the group and the root say the same */
  { { LLM_CALLER_FLATPAK, GIMP, TRUE, LLM_BUS_FLATPAK_NAMED, GIMP, FREE_LABEL },
    LLM_CALLER_FLATPAK, GIMP },
  { { LLM_CALLER_FLATPAK, GIMP, TRUE, LLM_BUS_FLATPAK_HIDDEN, NULL, NO_LABEL },
    LLM_CALLER_FLATPAK, GIMP },
  /* one of both alone, others than each other, or none that can be read */
  { { LLM_CALLER_FLATPAK, GIMP, TRUE, LLM_BUS_FLATPAK_NONE, NULL, FREE_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_FLATPAK, GIMP, FALSE, LLM_BUS_FLATPAK_NONE, NULL, NO_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_HOST, NULL, FALSE, LLM_BUS_FLATPAK_NAMED, GIMP, FREE_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_UNIT, "notes", TRUE, LLM_BUS_FLATPAK_NAMED, GIMP, NO_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_FLATPAK, GIMP, TRUE, LLM_BUS_FLATPAK_NAMED, KRITA, NO_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_FLATPAK, GIMP, TRUE, LLM_BUS_FLATPAK_BROKEN, NULL, NO_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_HOST, NULL, FALSE, LLM_BUS_FLATPAK_BROKEN, NULL, NO_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_UNKNOWN, NULL, FALSE, LLM_BUS_FLATPAK_NAMED, GIMP, NO_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_UNKNOWN, NULL, FALSE, LLM_BUS_FLATPAK_NONE, NULL, DRAW_LABEL },
    LLM_CALLER_UNKNOWN, NULL },

  /* a snap: the label, which the kernel sets, with or without its group */
  { { LLM_CALLER_SNAP, DRAW, TRUE, LLM_BUS_FLATPAK_NONE, NULL, DRAW_LABEL },
    LLM_CALLER_SNAP, DRAW },
  { { LLM_CALLER_HOST, NULL, FALSE, LLM_BUS_FLATPAK_NONE, NULL, DRAW_LABEL },
    LLM_CALLER_SNAP, DRAW },
  { { LLM_CALLER_UNIT, "notes", TRUE, LLM_BUS_FLATPAK_HIDDEN, NULL, DRAW_LABEL },
    LLM_CALLER_SNAP, DRAW },
  /* where there is no AppArmor: a group that root made */
  { { LLM_CALLER_SNAP, DRAW, FALSE, LLM_BUS_FLATPAK_NONE, NULL, NO_LABEL }, LLM_CALLER_SNAP, DRAW },
  { { LLM_CALLER_SNAP, DRAW, TRUE, LLM_BUS_FLATPAK_NONE, NULL, NO_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  /* the group says a snap, and AppArmor none or another */
  { { LLM_CALLER_SNAP, DRAW, TRUE, LLM_BUS_FLATPAK_NONE, NULL, FREE_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_SNAP, DRAW, FALSE, LLM_BUS_FLATPAK_NONE, NULL, FREE_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_SNAP, FIREFOX, TRUE, LLM_BUS_FLATPAK_NONE, NULL, DRAW_LABEL },
    LLM_CALLER_UNKNOWN, NULL },

  /* a snap and a Flatpak at once */
  { { LLM_CALLER_FLATPAK, GIMP, TRUE, LLM_BUS_FLATPAK_NAMED, GIMP, DRAW_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_FLATPAK, GIMP, TRUE, LLM_BUS_FLATPAK_NONE, NULL, DRAW_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_SNAP, DRAW, TRUE, LLM_BUS_FLATPAK_NAMED, GIMP, DRAW_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
  { { LLM_CALLER_SNAP, DRAW, FALSE, LLM_BUS_FLATPAK_NAMED, GIMP, NO_LABEL },
    LLM_CALLER_UNKNOWN, NULL },
};

static void
test_decide (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (decisions); i++)
    {
      g_autofree char *app_id = NULL;

      g_test_message ("case %u", i);
      g_assert_cmpint (llm_bus_identity_decide (&decisions[i].evidence, &app_id), ==,
                       decisions[i].kind);
      g_assert_cmpstr (app_id, ==, decisions[i].app_id);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/bus/sandboxes/made-by", test_made_by);
  g_test_add_func ("/bus/sandboxes/decide", test_decide);

  return g_test_run ();
}
