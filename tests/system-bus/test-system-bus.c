/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who may do what, with real users, processes, groups and name spaces, on a real bus of type
 * system with the policy that is installed, and real polkit. */

#include <linux/sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system-rig.h"

#define EXIT_SKIPPED 77
#define APP "org.example.App"
#define NO_OBJECT "- org.freedesktop.DBus.Error.UnknownObject"
#define REFUSED "- org.llm.Service.Error.NotAuthorized"

static SystemRig *rig;

static void
assert_begins (const char *reply,
               const char *begin)
{
  if (!g_str_has_prefix (reply, begin))
    g_error ("“%s” does not begin with “%s”", reply, begin);
}

static void
check (SystemCaller *caller,
       const char   *path,
       const char   *interface,
       const char   *method,
       const char   *arguments,
       const char   *begin)
{
  g_autofree char *reply = system_call (caller, path, interface, method, arguments);

  assert_begins (reply, begin);
}

static SystemCaller *
new_host (guint       uid,
          const char *app_id)
{
  SystemCaller *caller = system_caller_new (rig, uid, NULL, NULL, FALSE, FALSE);
  g_autofree char *arguments = g_strdup_printf ("('%s', @a{sv} {})", app_id);

  if (app_id[0] != '\0')
    check (caller, NULL, "", "Register", arguments, "+");
  return caller;
}

/* The path of a named context. (transfer full) */
static char *
open_context (SystemCaller *caller)
{
  g_autofree char *reply =
    system_call (caller, NULL, "", "OpenContext", "('kept', {'create': <true>})");
  const char *start, *end;

  assert_begins (reply, "+ (");
  start = strchr (reply, '/');
  g_assert_nonnull (start);
  end = strpbrk (start, "',)");
  g_assert_nonnull (end);
  return g_strndup (start, (gsize) (end - start));
}

/* The kind under which ListApps, asked by root, knows a user's application. (transfer full) */
static char *
get_kind (guint       uid,
          const char *app_id)
{
  g_autoptr(SystemCaller) root = system_caller_new (rig, 0, NULL, NULL, FALSE, FALSE);
  g_autofree char *reply = system_call (root, NULL, ".Admin", "ListApps", "(@a{sv} {},)");
  g_autoptr(GVariant) value = NULL;
  g_autoptr(GVariant) apps = NULL;
  g_autoptr(GError) error = NULL;

  assert_begins (reply, "+ ");
  value = g_variant_parse (G_VARIANT_TYPE ("(aa{sv})"), reply + 2, NULL, NULL, &error);
  g_assert_no_error (error);
  apps = g_variant_get_child_value (value, 0);
  for (gsize i = 0; i < g_variant_n_children (apps); i++)
    {
      g_autoptr(GVariant) app = g_variant_get_child_value (apps, i);
      const char *id, *kind;
      guint32 owner;

      g_assert_true (g_variant_lookup (app, "app-id", "&s", &id));
      g_assert_true (g_variant_lookup (app, "uid", "u", &owner));
      g_assert_true (g_variant_lookup (app, "kind", "&s", &kind));
      if (owner == uid && g_str_equal (id, app_id))
        return g_strdup (kind);
    }

  return g_strdup ("not there");
}

static void
assert_kind (guint       uid,
             const char *app_id,
             const char *kind)
{
  g_autofree char *found = get_kind (uid, app_id);

  g_assert_cmpstr (found, ==, kind);
}

/* What belongs to others does not exist, on whatever way one looks. */
static void
check_blind (SystemCaller *caller,
             const char   *context)
{
  g_autofree char *list = NULL;
  const char *id = strrchr (context, '/') + 1;

  check (caller, context, ".Context", "GetMessages", "(uint32 0, uint32 0, @a{sv} {})", NO_OBJECT);
  check (caller, context, ".Context", "Close", "(@a{sv} {},)", NO_OBJECT);
  check (caller, context, "org.freedesktop.DBus.Properties", "Get",
         "('org.llm.Service.Context', 'Name')", NO_OBJECT);
  check (caller, context, "org.freedesktop.DBus.Properties", "GetAll",
         "('org.llm.Service.Context',)", NO_OBJECT);
  check (caller, context, "org.freedesktop.DBus.Introspectable", "Introspect", "()", NO_OBJECT);
  list = system_call (caller, "/org/llm/Service/contexts", "org.freedesktop.DBus.Introspectable",
                      "Introspect", "()");
  assert_begins (list, "+");
  g_assert_null (strstr (list, id));
  g_clear_pointer (&list, g_free);
  list = system_call (caller, NULL, "", "ListContexts", "(@a{sv} {},)");
  assert_begins (list, "+");
  g_assert_null (strstr (list, id));
}

/* What takes an administrator, or polkit's word, is refused. */
static void
check_powerless (SystemCaller *caller)
{
  check (caller, NULL, ".Memory", "Trim", "('critical', @a{sv} {})", REFUSED);
  check (caller, NULL, ".Memory", "SetBudget", "({'bytes': <uint64 1>},)", REFUSED);
  check (caller, NULL, ".Admin", "SetQuota", "('', {'contexts': <uint32 1>})", REFUSED);
  check (caller, NULL, "", "SelectModel", "('x', @a{sv} {})", REFUSED);
}

/* --- the bus itself --- */

static void
test_policy (void)
{
  g_autoptr(SystemCaller) user = new_host (RIG_UID, "");

  /* nobody else may take the name, and only the listed interfaces get through */
  check (user, "/", "org.freedesktop.DBus", "RequestName", "('org.llm.Service', uint32 0)",
         "- org.freedesktop.DBus.Error.AccessDenied");
  check (user, NULL, "org.example.Else", "Do", "()", "- org.freedesktop.DBus.Error.AccessDenied");
  check (user, NULL, "org.freedesktop.DBus.Properties", "Set",
         "('org.llm.Service', 'Version', <'x'>)", "- org.freedesktop.DBus.Error.InvalidArgs");
  check (user, NULL, "org.freedesktop.DBus.Properties", "Get", "('org.llm.Service', 'ApiVersion')",
         "+");
}

/* --- who sees and may what --- */

typedef struct
{
  SystemCaller *owner;
  char *context;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->owner = new_host (RIG_UID, APP);
  fixture->context = open_context (fixture->owner);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  check (fixture->owner, fixture->context, ".Context", "Close", "(@a{sv} {},)", "+");
  system_caller_free (fixture->owner);
  g_free (fixture->context);
}

static void
test_same_app (Fixture      *fixture,
               gconstpointer data)
{
  g_autoptr(SystemCaller) again = new_host (RIG_UID, APP);

  check (again, fixture->context, ".Context", "GetMessages", "(uint32 0, uint32 0, @a{sv} {})",
         "+");
  check_powerless (again);
  assert_kind (RIG_UID, APP, "registered");
}

/* The same person's other application. */
static void
test_other_app (Fixture      *fixture,
                gconstpointer data)
{
  g_autoptr(SystemCaller) other = new_host (RIG_UID, "org.example.Other");
  g_autoptr(SystemCaller) nameless = new_host (RIG_UID, "");
  g_autofree char *apps = NULL;

  check_blind (other, fixture->context);
  check_blind (nameless, fixture->context);
  check_powerless (other);
  check_powerless (nameless);

  /* outside a sandbox one may know what else of the same person there is */
  apps = system_call (other, NULL, ".Admin", "ListApps", "(@a{sv} {},)");
  assert_begins (apps, "+");
  g_assert_nonnull (strstr (apps, APP));
}

static void
test_other_user (Fixture      *fixture,
                 gconstpointer data)
{
  g_autoptr(SystemCaller) same_name = new_host (RIG_OTHER_UID, APP);
  g_autofree char *apps = NULL;
  g_autofree char *context = NULL;

  check_blind (same_name, fixture->context);
  check_powerless (same_name);
  apps = system_call (same_name, NULL, ".Admin", "ListApps", "(@a{sv} {},)");
  assert_begins (apps, "+");
  g_assert_null (strstr (apps, "61301"));

  /* the same names in peace beside each other */
  context = open_context (same_name);
  g_assert_cmpstr (context, !=, fixture->context);
  check_blind (fixture->owner, context);
  check (same_name, context, ".Context", "Close", "(@a{sv} {},)", "+");
  assert_kind (RIG_OTHER_UID, APP, "registered");
}

/* Root sees who there is, but no contexts: an application of root's is one like others. */
static void
test_root (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(SystemCaller) root = new_host (0, APP);

  check_blind (root, fixture->context);
  check (root, NULL, ".Memory", "Trim", "('low', @a{sv} {})", "+");
  check (root, NULL, ".Memory", "SetBudget", "({'bytes': <uint64 0>},)", "+");
  check (root, NULL, ".Admin", "SetQuota", "('" APP "', {'contexts': <uint32 9>})", "+");
  check (root, NULL, "", "SelectModel", "('no such model', @a{sv} {})",
         "- org.llm.Service.Error.NotFound");

  /* another user's application */
  check (root, NULL, ".Admin", "SetQuota",
         "('" APP "', {'contexts': <uint32 1>, 'uid': <uint32 61301>})",
         "+");
  check (fixture->owner, NULL, "", "CreateContext", "(@a{sv} {},)",
         "- org.llm.Service.Error.QuotaExceeded");
  check (root, NULL, ".Admin", "SetQuota",
         "('" APP "', {'contexts': <uint32 0>, 'uid': <uint32 61301>})",
         "+");
  check (fixture->owner, NULL, "", "CreateContext", "(@a{sv} {},)", "+");
}

static gboolean
lacks_groups (void)
{
  if (system_rig_has_groups (rig))
    return FALSE;

  g_printerr ("NOT TESTED: sandboxes and reused process numbers: no control group can be made "
              "here\n");
  g_test_skip ("no control group can be made");
  return TRUE;
}

/* A sandboxed caller has its own contexts, but sees nobody else and decides nothing. */
static void
check_sandboxed (SystemCaller *caller,
                 const char   *context,
                 const char   *app_id,
                 const char   *kind)
{
  g_autofree char *own = NULL;

  check (caller, NULL, "", "Register", "('" APP "', @a{sv} {})", REFUSED);
  check_blind (caller, context);
  check_powerless (caller);
  check (caller, NULL, ".Admin", "ListApps", "(@a{sv} {},)", REFUSED);
  own = open_context (caller);
  check (caller, own, ".Context", "GetMessages", "(uint32 0, uint32 0, @a{sv} {})", "+");
  assert_kind (RIG_UID, app_id, kind);
  check (caller, own, ".Context", "Close", "(@a{sv} {},)", "+");
}

/* Every one is alone, and keeps nothing. */
static void
check_unknown (SystemCaller *caller,
               guint         uid,
               const char   *context)
{
  g_autofree char *app_id = g_strconcat ("unknown", system_caller_get_name (caller), NULL);

  check (caller, NULL, "", "Register", "('" APP "', @a{sv} {})", REFUSED);
  check_blind (caller, context);
  check_powerless (caller);
  check (caller, NULL, ".Admin", "ListApps", "(@a{sv} {},)", REFUSED);
  check (caller, NULL, "", "OpenContext", "('kept', {'create': <true>})", REFUSED);
  check (caller, NULL, "", "CreateContext", "(@a{sv} {},)", "+");
  assert_kind (uid, app_id, "unknown");
}

/* A caller in a group with this name, unless that is NULL, and in a root with this id, or in the
 * machine's. */
static SystemCaller *
new_sandboxed (guint       uid,
               const char *group_name,
               const char *root_id,
               gboolean    is_sandbox)
{
  g_autofree char *group = group_name != NULL ? system_rig_make_group (rig, group_name) : NULL;
  g_autofree char *root = root_id != NULL || is_sandbox
                            ? system_rig_make_root (rig, root_id)
                            : NULL;

  return system_caller_new (rig, uid, group, root, is_sandbox, FALSE);
}

/* Its id is the host program's, whose contexts it must not get by that. The daemon may not look
 * into its root. */
static void
test_flatpak (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(SystemCaller) caller = NULL;

  if (lacks_groups ())
    return;
  caller = new_sandboxed (RIG_UID, "app-flatpak-" APP "-4711.scope", APP, TRUE);
  check_sandboxed (caller, fixture->context, "flatpak." APP, "flatpak");
}

/* What decides about snaps where the kernel has AppArmor is the label, which a test can't set. */
static void
test_snap (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(SystemCaller) caller = NULL;
  g_autofree char *group = NULL;
  g_autofree char *label = NULL;

  if (lacks_groups ())
    return;
  group = system_rig_make_group (rig, "snap.draw.draw-0815.scope");
  caller = system_caller_new (rig, RIG_UID, group, NULL, FALSE, FALSE);
  if (g_file_get_contents ("/proc/self/attr/apparmor/current", &label, NULL, NULL))
    check_unknown (caller, RIG_UID, fixture->context);
  else
    check_sandboxed (caller, fixture->context, "snap.draw", "snap");
}

/* Flatpak's own word, for the daemon's own user alone: it may look at these processes. */
static void
test_flatpak_root (Fixture      *fixture,
                   gconstpointer data)
{
  g_autoptr(SystemCaller) caller = NULL;

  if (lacks_groups ())
    return;
  caller = new_sandboxed (RIG_SERVICE_UID, "app-flatpak-org.example.Rooted-1.scope",
                          "org.example.Rooted", TRUE);
  check (caller, NULL, "", "Register", "('" APP "', @a{sv} {})", REFUSED);
  check (caller, NULL, ".Admin", "ListApps", "(@a{sv} {},)", REFUSED);
  check (caller, NULL, "", "CreateContext", "(@a{sv} {},)", "+");
  assert_kind (RIG_SERVICE_UID, "flatpak.org.example.Rooted", "flatpak");
}

static void
test_unknown (Fixture      *fixture,
              gconstpointer data)
{
  g_autoptr(SystemCaller) caller = NULL;
  g_autofree char *group = NULL;

  if (lacks_groups ())
    return;
  group = system_rig_make_group (rig, "app-flatpak-.scope");
  caller = system_caller_new (rig, RIG_UID, group, NULL, FALSE, FALSE);
  check_unknown (caller, RIG_UID, fixture->context);
}

/* What a program without root can get: a group of any name from its user's systemd, a root in a
 * name space of its own. Neither alone makes it another application. */
static void
test_forged (Fixture      *fixture,
             gconstpointer data)
{
  static const struct
  {
    guint uid;
    const char *group;
    const char *root_id;
    gboolean is_sandbox;
  } attempts[] = {
    { RIG_UID, "app-flatpak-org.example.Mark-1.scope", NULL, FALSE },
    { RIG_UID, "app-flatpak-org.example.Mark-2.scope", "org.example.Mark", FALSE },
    { RIG_UID, "user@61301.service", NULL, FALSE },
    { RIG_UID, "user@61301.service/snap.mark.mark-1.scope", NULL, FALSE },
    { RIG_SERVICE_UID, NULL, "org.example.Mark", TRUE },
    { RIG_SERVICE_UID, NULL, "org.example.Mark", FALSE },
    { RIG_SERVICE_UID, "app-flatpak-org.example.Mark-3.scope", NULL, TRUE },
    { RIG_SERVICE_UID, "app-flatpak-org.example.Mark-4.scope", "org.example.Other", TRUE },
    { RIG_SERVICE_UID, "app-flatpak-org.example.Mark-5.scope", "org.example.Mark", FALSE },
  };

  if (lacks_groups ())
    return;
  for (guint i = 0; i < G_N_ELEMENTS (attempts); i++)
    {
      g_autoptr(SystemCaller) caller =
        new_sandboxed (attempts[i].uid, attempts[i].group, attempts[i].root_id,
                       attempts[i].is_sandbox);

      g_test_message ("attempt %u", i);
      /* a group of the user's systemd alone is none of an application */
      if (attempts[i].group != NULL && g_str_has_suffix (attempts[i].group, ".service"))
        check (caller, NULL, "", "Register", "('" APP "', @a{sv} {})", "+");
      else
        check_unknown (caller, attempts[i].uid, fixture->context);
    }
}

/* A container that claims nothing is a program of its user, whatever its root. */
static void
test_container (Fixture      *fixture,
                gconstpointer data)
{
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *root = system_rig_make_root (rig, NULL);
      g_autoptr(SystemCaller) caller = system_caller_new (rig, RIG_SERVICE_UID, NULL, root, i == 1, FALSE);

      check (caller, NULL, "", "Register", "('" APP "', @a{sv} {})", "+");
      check (caller, NULL, "", "CreateContext", "(@a{sv} {},)", "+");
      assert_kind (RIG_SERVICE_UID, APP, "registered");
    }
}

/* A process of its own user with just that number, outside of all groups. */
static int
start_with_pid (int pid)
{
  pid_t wanted = pid;
  struct clone_args arguments = {
    .exit_signal = SIGCHLD,
    .set_tid = (guint64) (gintptr) &wanted,
    .set_tid_size = 1,
  };
  long made = syscall (SYS_clone3, &arguments, sizeof arguments);

  if (made == 0)
    {
      if (setresuid (RIG_UID, RIG_UID, RIG_UID) == 0)
        pause ();
      _exit (1);
    }
  return (int) made;
}

/* In a sandbox one connects, leaves the connection to a child, and ends; when the number is an
 * ordinary program's, the child calls. */
static void
test_reused (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(SystemCaller) caller = NULL;
  g_autofree char *group = NULL;
  int pid;

  if (lacks_groups ())
    return;
  group = system_rig_make_group (rig, "app-flatpak-org.example.Sly-1.scope");
  caller = system_caller_new (rig, RIG_UID, group, NULL, FALSE, TRUE);
  while (kill (system_caller_get_pid (caller), 0) == 0)
    g_usleep (1000);
  /* starting times have ticks of 10 ms */
  g_usleep (50000);
  pid = start_with_pid (system_caller_get_pid (caller));
  if (pid < 0)
    {
      g_printerr ("NOT TESTED: reused process numbers: the kernel gives no chosen one\n");
      g_test_skip ("no process with a chosen number can be made");
      return;
    }
  g_assert_cmpint (pid, ==, system_caller_get_pid (caller));
  check_unknown (caller, RIG_UID, fixture->context);
  g_assert_cmpint (kill (pid, SIGKILL), ==, 0);
  g_assert_cmpint (waitpid (pid, NULL, 0), ==, pid);
}

/* Nobody is there any more to be asked about. */
static void
test_left (Fixture      *fixture,
           gconstpointer data)
{
  g_autoptr(SystemCaller) caller = system_caller_new (rig, RIG_UID, NULL, NULL, FALSE, TRUE);

  while (kill (system_caller_get_pid (caller), 0) == 0)
    g_usleep (1000);
  check_unknown (caller, RIG_UID, fixture->context);
}

/* --- polkit --- */

static void
test_polkit (Fixture      *fixture,
             gconstpointer data)
{
  g_autoptr(SystemCaller) trusted = NULL;
  g_autoptr(SystemCaller) sandboxed = NULL;
  g_autoptr(SystemCaller) user = NULL;

  if (!system_rig_has_polkit (rig))
    {
      g_printerr ("NOT TESTED: what polkit allows: polkitd does not run here\n");
      g_test_skip ("polkitd does not run here");
      return;
    }

  trusted = new_host (RIG_TRUSTED_UID, "");
  check (trusted, NULL, ".Memory", "Trim", "('low', @a{sv} {})", "+");
  check (trusted, NULL, ".Memory", "SetBudget", "({'bytes': <uint64 0>},)", "+");
  check (trusted, NULL, ".Admin", "SetQuota", "('" APP "', {'contexts': <uint32 9>})", "+");
  check (trusted, NULL, "", "SelectModel", "('no such model', @a{sv} {})",
         "- org.llm.Service.Error.NotFound");
  /* what polkit allows is about the user's own */
  check (trusted, NULL, ".Admin", "SetQuota",
         "('" APP "', {'contexts': <uint32 9>, 'uid': <uint32 61301>})", REFUSED);
  check_blind (trusted, fixture->context);

  user = new_host (RIG_UID, "");
  check_powerless (user);

  /* polkit knows users; that it is a sandbox, we do */
  if (lacks_groups ())
    return;
  sandboxed = new_sandboxed (RIG_TRUSTED_UID, "app-flatpak-org.example.Trusted-1.scope",
                             "org.example.Trusted", TRUE);
  check_powerless (sandboxed);
}

int
main (int   argc,
      char *argv[])
{
  static const struct
  {
    const char *path;
    void (*test) (Fixture *fixture, gconstpointer data);
  } tests[] = {
    { "/system-bus/same-app", test_same_app },
    { "/system-bus/other-app", test_other_app },
    { "/system-bus/other-user", test_other_user },
    { "/system-bus/root", test_root },
    { "/system-bus/flatpak", test_flatpak },
    { "/system-bus/flatpak-root", test_flatpak_root },
    { "/system-bus/snap", test_snap },
    { "/system-bus/unknown", test_unknown },
    { "/system-bus/forged", test_forged },
    { "/system-bus/container", test_container },
    { "/system-bus/reused", test_reused },
    { "/system-bus/left", test_left },
    { "/system-bus/polkit", test_polkit },
  };
  const char *why = NULL;
  int result;

  g_test_init (&argc, &argv, NULL);
  rig = system_rig_new (&why);
  if (rig == NULL)
    {
      g_printerr ("NOT TESTED: several users on a real system bus: %s\n", why);
      return EXIT_SKIPPED;
    }

  g_test_add_func ("/system-bus/policy", test_policy);
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    g_test_add (tests[i].path, Fixture, NULL, set_up, tests[i].test, tear_down);
  result = g_test_run ();
  system_rig_free (rig);
  return result;
}
