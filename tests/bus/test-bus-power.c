/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Suspend, batteries and power profiles, with services on a private bus that stand for
 * logind, UPower and power-profiles-daemon, and an engine with the shipped model. */

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>
#include <glib-unix.h>
#include <glib/gstdio.h>

#include "base/llm-sysinfo.h"
#include "bus/bus-rig.h"
#include "bus/llm-bus-power.h"
#include "engine/engine-rig.h"
#include "engine/llm-engine-private.h"
#include "support/llm-test-bus.h"
#include "support/llm-test-folder.h"

#define UPOWER "org.freedesktop.UPower"
#define PROFILES "org.freedesktop.UPower.PowerProfiles"
#define OLD_PROFILES "net.hadess.PowerProfiles"
#define LOGIND "org.freedesktop.login1"

/* Long enough to be interrupted, short enough for the shipped model's context. */
#define LONG "{'temperature': <0.0>, 'max-tokens': <uint32 200>}"
#define BACKGROUND "{'slo': <'background'>, 'temperature': <0.0>, 'max-tokens': <uint32 24>}"

static const char xml[] =
  "<node>"
  "<interface name='" LOGIND ".Manager'>"
  "<method name='Inhibit'><arg type='s' direction='in'/><arg type='s' direction='in'/>"
  "<arg type='s' direction='in'/><arg type='s' direction='in'/><arg type='h' direction='out'/>"
  "</method></interface>"
  "<interface name='" UPOWER "'><property name='OnBattery' type='b' access='read'/></interface>"
  "<interface name='" PROFILES "'><property name='ActiveProfile' type='s' access='read'/>"
  "</interface>"
  "<interface name='" OLD_PROFILES "'><property name='ActiveProfile' type='s' access='read'/>"
  "</interface>"
  "</node>";

typedef struct
{
  Fixture engine;
  char *folder;
  GTestDBus *bus;
  GDBusConnection *system;   /* what the service has */
  GDBusConnection *others;   /* the fake services' */
  GDBusNodeInfo *info;
  LlmBusPower *power;

  gboolean is_on_battery;
  const char *profile;
  gboolean refuses;          /* logind gives no lock */
  guint n_locks;             /* given so far */
  int lock;                  /* our end of the last one, -1: none is held */
} Rig;

/* --- the others --- */

static gboolean
on_lock_closed (int          fd,
                GIOCondition condition,
                gpointer     data)
{
  Rig *rig = data;

  close (fd);
  rig->lock = -1;
  return G_SOURCE_REMOVE;
}

static void
on_method (GDBusConnection       *connection,
           const char            *sender,
           const char            *path,
           const char            *interface,
           const char            *method,
           GVariant              *arguments,
           GDBusMethodInvocation *invocation,
           gpointer               data)
{
  Rig *rig = data;
  g_autoptr(GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr(GError) error = NULL;
  const char *what, *mode;
  int ends[2];

  g_variant_get (arguments, "(&ss&s&s)", &what, NULL, NULL, &mode);
  g_assert_cmpstr (what, ==, "sleep");
  g_assert_cmpstr (mode, ==, "delay");
  rig->n_locks++;
  if (rig->refuses)
    {
      g_dbus_method_invocation_return_dbus_error (
        invocation, "org.freedesktop.DBus.Error.AccessDenied", "Not you");
      return;
    }
  g_assert_true (g_unix_open_pipe (ends, FD_CLOEXEC, &error));
  g_unix_fd_list_append (fds, ends[1], &error);
  g_assert_no_error (error);
  close (ends[1]);
  g_assert_cmpint (rig->lock, ==, -1);
  rig->lock = ends[0];
  g_unix_fd_add (ends[0], G_IO_HUP, on_lock_closed, rig);
  g_dbus_method_invocation_return_value_with_unix_fd_list (invocation, g_variant_new ("(h)", 0),
                                                           fds);
}

static GVariant *
on_property (GDBusConnection *connection,
             const char      *sender,
             const char      *path,
             const char      *interface,
             const char      *name,
             GError         **error,
             gpointer         data)
{
  Rig *rig = data;

  return g_str_equal (name, "OnBattery") ? g_variant_new_boolean (rig->is_on_battery)
                                         : g_variant_new_string (rig->profile);
}

static const GDBusInterfaceVTable vtable = { on_method, on_property, NULL, { NULL } };

static void
offer (Rig        *rig,
       const char *path,
       const char *interface)
{
  g_autoptr(GError) error = NULL;

  g_dbus_connection_register_object (rig->others, path,
                                     g_dbus_node_info_lookup_interface (rig->info, interface),
                                     &vtable, rig, NULL, &error);
  g_assert_no_error (error);
}

static void
call_bus (Rig        *rig,
          const char *method,
          GVariant   *arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = g_dbus_connection_call_sync (
    rig->others, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", method,
    arguments, NULL, G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);

  g_assert_no_error (error);
}

static void
appear (Rig        *rig,
        const char *name)
{
  call_bus (rig, "RequestName", g_variant_new ("(su)", name, 0));
}

static void
vanish (Rig        *rig,
        const char *name)
{
  call_bus (rig, "ReleaseName", g_variant_new ("(s)", name));
}

static void
say (Rig        *rig,
     const char *path,
     const char *interface,
     const char *signal,
     GVariant   *arguments)
{
  g_autoptr(GError) error = NULL;

  g_dbus_connection_emit_signal (rig->others, NULL, path, interface, signal, arguments, &error);
  g_assert_no_error (error);
}

static void
prepare_for_sleep (Rig     *rig,
                   gboolean begins)
{
  say (rig, "/org/freedesktop/login1", LOGIND ".Manager", "PrepareForSleep",
       g_variant_new ("(b)", begins));
}

static void
change (Rig        *rig,
        const char *path,
        const char *interface,
        const char *property,
        GVariant   *value)
{
  GVariantBuilder changed;

  g_variant_builder_init (&changed, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&changed, "{sv}", property, value);
  say (rig, path, "org.freedesktop.DBus.Properties", "PropertiesChanged",
       g_variant_new ("(sa{sv}as)", interface, &changed, NULL));
}

static void
set_battery (Rig     *rig,
             gboolean is_on_battery)
{
  rig->is_on_battery = is_on_battery;
  change (rig, "/org/freedesktop/UPower", UPOWER, "OnBattery",
          g_variant_new_boolean (is_on_battery));
}

/* --- the rig --- */

static LlmPace
get_pace (Rig *rig)
{
  return rig->engine.engine->power.pace;
}

static void
write_supply (Rig        *rig,
              const char *supply,
              const char *attribute,
              const char *value)
{
  g_autofree char *folder =
    g_build_filename (rig->folder, "sys/class/power_supply", supply, NULL);
  g_autofree char *path = g_build_filename (folder, attribute, NULL);
  g_autoptr(GError) error = NULL;

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_file_set_contents (path, value, -1, &error);
  g_assert_no_error (error);
}

/* @pace: on the battery and while power is saved. */
static Rig *
rig_new (LlmPace pace,
         guint   longest_wait_s)
{
  Rig *rig = g_new0 (Rig, 1);
  g_autoptr(GError) error = NULL;
  g_autofree char *path = NULL;
  g_autofree char *text = NULL;
  LlmSettings *settings;

  rig->lock = -1;
  rig->profile = "balanced";
  rig->folder = llm_test_folder_new ();
  rig->engine.state = llm_test_folder_new ();

  /* one that could be started, and must not be */
  path = g_build_filename (rig->folder, UPOWER ".service", NULL);
  text = g_strdup_printf ("[D-BUS Service]\nName=" UPOWER "\n"
                          "Exec=/bin/sh -c 'touch %s/started'\n", rig->folder);
  g_file_set_contents (path, text, -1, &error);
  g_assert_no_error (error);
  rig->bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_add_service_dir (rig->bus, rig->folder);
  llm_test_bus_up (rig->bus);
  rig->system = llm_test_bus_connect (rig->bus);
  rig->others = llm_test_bus_connect (rig->bus);
  rig->info = g_dbus_node_info_new_for_xml (xml, &error);
  g_assert_no_error (error);
  offer (rig, "/org/freedesktop/login1", LOGIND ".Manager");
  offer (rig, "/org/freedesktop/UPower", UPOWER);
  offer (rig, "/org/freedesktop/UPower/PowerProfiles", PROFILES);
  offer (rig, "/net/hadess/PowerProfiles", OLD_PROFILES);

  settings = new_settings (rig->engine.state, 2);
  settings->pace_on_battery = settings->pace_on_power_saver = pace;
  settings->longest_wait_s = longest_wait_s;
  settings->n_background_threads = 2;
  rig->engine.engine = start_engine_with (settings);
  rig->engine.caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
  return rig;
}

static void
watch (Rig *rig)
{
  rig->power = llm_bus_power_watch (rig->engine.engine, rig->system, rig->folder);
}

static void
rig_free (Rig *rig)
{
  llm_bus_power_unwatch (rig->power);
  /* nothing is held any more */
  WAIT_FOR (rig->lock < 0);
  tear_down (&rig->engine, NULL);
  g_dbus_node_info_unref (rig->info);
  g_object_unref (rig->system);
  g_object_unref (rig->others);
  llm_test_bus_down (rig->bus);
  g_object_unref (rig->bus);
  llm_test_folder_remove (rig->folder);
  g_free (rig->folder);
  g_free (rig);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Rig, rig_free)

/* An answer whose text can be seen before its end. */
static TestSink *
begin_visible (Rig        *rig,
               const char *prompt,
               const char *options)
{
  g_autoptr(LlmCallOptions) parsed = parse_options (options, LLMSVC_CALL_COMPLETE);
  TestSink *sink = test_sink_new ();

  llm_engine_complete_async (rig->engine.engine, rig->engine.caller, prompt, parsed,
                             &sink->parent, NULL, NULL);
  return sink;
}

static gboolean
on_time (gpointer data)
{
  *(gboolean *) data = TRUE;
  return G_SOURCE_REMOVE;
}

/* Long enough for many tokens. */
static void
let_time_pass (void)
{
  gboolean is_over = FALSE;

  g_timeout_add (150, on_time, &is_over);
  WAIT_FOR (is_over);
}

/* --- suspend --- */

#define STORY "Once upon a time there was a girl who had a big red ball and a small dog. "

static void
test_suspend (void)
{
  g_autoptr(Rig) rig = rig_new (LLM_PACE_SLOW, 900);
  g_autofree char *whole = NULL;
  g_autofree char *answer = NULL;
  g_autofree char *before = NULL;
  g_autoptr(LlmContext) context = NULL;
  g_autoptr(LlmContextMemory) memory = NULL;
  g_autoptr(TestSink) sink = NULL;

  appear (rig, LOGIND);
  watch (rig);
  WAIT_FOR (rig->lock >= 0);
  whole = complete (&rig->engine, STORY, LONG);
  context = open_context (&rig->engine, "story", "{'create': <true>}", NULL);

  sink = begin_visible (rig, STORY, LONG);
  WAIT_FOR (sink->text->len > 0);
  answer = ask (&rig->engine, context, STORY STORY STORY STORY, GREEDY);
  g_assert_false (sink->is_finished);
  prepare_for_sleep (rig, TRUE);
  WAIT_FOR (rig->lock < 0);

  /* the lock went when all whole chunks were on storage, the turn on the disk, and nothing ran */
  g_assert_false (sink->is_finished);
  before = g_strdup (sink->text->str);
  memory = get_memory (context);
  g_assert_cmpuint (memory->n_chunks, >, 2);
  for (guint i = 0; i + 1 < memory->n_chunks; i++)
    g_assert_true (memory->places[i] == 'b' || memory->places[i] == 's');
  let_time_pass ();
  g_assert_cmpstr (sink->text->str, ==, before);
  g_assert_cmpuint (rig->n_locks, ==, 1);

  /* awake: the answer goes on where it was, and the next sleep waits, too */
  prepare_for_sleep (rig, FALSE);
  WAIT_FOR (sink->is_finished);
  g_assert_cmpstr (sink->text->str, ==, whole);
  WAIT_FOR (rig->lock >= 0);
  g_assert_cmpuint (rig->n_locks, ==, 2);
  g_assert_cmpuint (get_statistic (rig->engine.engine, "suspends"), ==, 1);
}

/* Without a lock calls stand still all the same; and go on when nobody can say any more that the
 * machine is awake. */
static void
test_suspend_without_lock (void)
{
  g_autoptr(Rig) rig = rig_new (LLM_PACE_SLOW, 900);
  g_autofree char *before = NULL;
  g_autoptr(TestSink) sink = NULL;
  gsize length;

  rig->refuses = TRUE;
  appear (rig, LOGIND);
  watch (rig);
  WAIT_FOR (rig->n_locks > 0);
  sink = begin_visible (rig, STORY, LONG);
  WAIT_FOR (sink->text->len > 0);
  prepare_for_sleep (rig, TRUE);
  do
    {
      length = sink->text->len;
      let_time_pass ();
      g_assert_false (sink->is_finished);
    }
  while (sink->text->len != length);

  vanish (rig, LOGIND);
  WAIT_FOR (sink->is_finished);
}

/* The daemon itself, on what it takes for the system's bus. */
static void
test_daemon (void)
{
  g_autoptr(BusRig) daemon = bus_rig_new_system ();
  g_autoptr(GDBusConnection) app = bus_rig_connect (daemon);
  g_autoptr(GError) error = NULL;
  Rig rig = { .lock = -1 };

  rig.others = bus_rig_connect (daemon);
  rig.info = g_dbus_node_info_new_for_xml (xml, &error);
  g_assert_no_error (error);
  offer (&rig, "/org/freedesktop/login1", LOGIND ".Manager");
  appear (&rig, LOGIND);
  g_variant_unref (bus_get (app, NULL, "", "Version"));
  WAIT_FOR (rig.lock >= 0);
  prepare_for_sleep (&rig, TRUE);
  WAIT_FOR (rig.lock < 0);
  prepare_for_sleep (&rig, FALSE);
  WAIT_FOR (rig.lock >= 0);

  /* it does not keep the machine awake after its end */
  bus_rig_end_daemon (daemon, SIGTERM);
  WAIT_FOR (rig.lock < 0);
  g_dbus_node_info_unref (rig.info);
  g_object_unref (rig.others);
}

/* --- batteries --- */

static void
test_battery_waits (void)
{
  g_autoptr(Rig) rig = rig_new (LLM_PACE_WAIT, 900);
  g_autofree char *interactive = NULL;
  g_autoptr(TestSink) sink = NULL;

  rig->is_on_battery = TRUE;
  appear (rig, UPOWER);
  watch (rig);
  WAIT_FOR (get_pace (rig) == LLM_PACE_WAIT);
  sink = begin_visible (rig, STORY, BACKGROUND);
  interactive = complete (&rig->engine, STORY, GREEDY);
  let_time_pass ();
  g_assert_cmpuint (sink->text->len, ==, 0);
  g_assert_cmpuint (get_statistic (rig->engine.engine, "on-battery"), ==, 1);
  g_assert_cmpuint (get_statistic (rig->engine.engine, "background-pace"), ==, LLM_PACE_WAIT);

  set_battery (rig, FALSE);
  WAIT_FOR (sink->is_finished);
  g_assert_cmpstr (sink->text->str, ==, interactive);
  g_assert_cmpint (get_pace (rig), ==, LLM_PACE_RUN);
}

static void
test_battery_slows (void)
{
  g_autoptr(Rig) rig = rig_new (LLM_PACE_SLOW, 900);
  g_autofree char *fast = NULL;
  g_autofree char *slow = NULL;

  appear (rig, UPOWER);
  watch (rig);
  fast = complete (&rig->engine, STORY, BACKGROUND);
  g_assert_cmpint (get_pace (rig), ==, LLM_PACE_RUN);
  set_battery (rig, TRUE);
  WAIT_FOR (get_pace (rig) == LLM_PACE_SLOW);
  slow = complete (&rig->engine, STORY, BACKGROUND);
  g_assert_cmpstr (slow, ==, fast);
}

static void
test_battery_waits_not_for_ever (void)
{
  g_autoptr(Rig) rig = rig_new (LLM_PACE_WAIT, 1);
  g_autofree char *text = NULL;

  rig->is_on_battery = TRUE;
  appear (rig, UPOWER);
  watch (rig);
  WAIT_FOR (get_pace (rig) == LLM_PACE_WAIT);
  text = complete (&rig->engine, STORY, BACKGROUND);
  g_assert_cmpint (get_pace (rig), ==, LLM_PACE_SLOW);
  g_assert_cmpuint (strlen (text), >, 0);

  /* and waits anew the next time */
  set_battery (rig, FALSE);
  WAIT_FOR (get_pace (rig) == LLM_PACE_RUN);
  set_battery (rig, TRUE);
  WAIT_FOR (get_pace (rig) == LLM_PACE_WAIT);
}

static void
test_kernel (void)
{
  g_autoptr(Rig) rig = rig_new (LLM_PACE_SLOW, 900);
  g_autofree char *marker = g_build_filename (rig->folder, "started", NULL);

  write_supply (rig, "BAT0", "type", "Battery\n");
  write_supply (rig, "BAT0", "status", "Discharging\n");
  watch (rig);
  WAIT_FOR (get_pace (rig) == LLM_PACE_SLOW);
  g_assert_false (g_file_test (marker, G_FILE_TEST_EXISTS));

  /* who knows better counts, as long as it is there */
  appear (rig, UPOWER);
  WAIT_FOR (get_pace (rig) == LLM_PACE_RUN);
  vanish (rig, UPOWER);
  WAIT_FOR (get_pace (rig) == LLM_PACE_SLOW);
}

static void
test_profiles (void)
{
  static const char *const names[][2] = {
    { PROFILES, "/org/freedesktop/UPower/PowerProfiles" },
    { OLD_PROFILES, "/net/hadess/PowerProfiles" },
  };
  g_autoptr(Rig) rig = rig_new (LLM_PACE_SLOW, 900);

  watch (rig);
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      rig->profile = "power-saver";
      appear (rig, names[i][0]);
      WAIT_FOR (get_pace (rig) == LLM_PACE_SLOW);
      change (rig, names[i][1], names[i][0], "ActiveProfile", g_variant_new_string ("performance"));
      WAIT_FOR (get_pace (rig) == LLM_PACE_RUN);
      /* another property, and one of another type, change nothing */
      change (rig, names[i][1], names[i][0], "Other", g_variant_new_string ("power-saver"));
      change (rig, names[i][1], names[i][0], "ActiveProfile", g_variant_new_uint32 (1));
      change (rig, names[i][1], names[i][0], "ActiveProfile", g_variant_new_string ("power-saver"));
      WAIT_FOR (get_pace (rig) == LLM_PACE_SLOW);
      vanish (rig, names[i][0]);
      WAIT_FOR (get_pace (rig) == LLM_PACE_RUN);
    }
}

/* --- what the kernel says --- */

static void
test_supplies (void)
{
  Rig rig = { .folder = llm_test_folder_new () };

  g_assert_cmpint (llm_sysinfo_read_supply (rig.folder), ==, LLM_SUPPLY_NONE);
  write_supply (&rig, "AC", "type", "Mains\n");
  write_supply (&rig, "AC", "online", "0\n");
  write_supply (&rig, "mouse", "type", "Battery\n");
  write_supply (&rig, "mouse", "scope", "Device\n");
  write_supply (&rig, "mouse", "status", "Discharging\n");
  g_assert_cmpint (llm_sysinfo_read_supply (rig.folder), ==, LLM_SUPPLY_NONE);
  write_supply (&rig, "BAT0", "type", "Battery\n");
  write_supply (&rig, "BAT0", "present", "1\n");
  write_supply (&rig, "BAT0", "status", "Discharging\n");
  g_assert_cmpint (llm_sysinfo_read_supply (rig.folder), ==, LLM_SUPPLY_BATTERY);
  write_supply (&rig, "AC", "online", "1\n");
  g_assert_cmpint (llm_sysinfo_read_supply (rig.folder), ==, LLM_SUPPLY_LINE);
  write_supply (&rig, "AC", "online", "0\n");
  write_supply (&rig, "BAT0", "status", "Not charging\n");
  g_assert_cmpint (llm_sysinfo_read_supply (rig.folder), ==, LLM_SUPPLY_LINE);
  write_supply (&rig, "BAT0", "present", "0\n");
  g_assert_cmpint (llm_sysinfo_read_supply (rig.folder), ==, LLM_SUPPLY_NONE);
  write_supply (&rig, "BAT0", "present", "");
  write_supply (&rig, "BAT0", "status", "\377\377 nonsense");
  g_assert_cmpint (llm_sysinfo_read_supply (rig.folder), ==, LLM_SUPPLY_LINE);
  llm_test_folder_remove (rig.folder);
  g_free (rig.folder);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/power/supplies", test_supplies);
  g_test_add_func ("/power/suspend", test_suspend);
  g_test_add_func ("/power/suspend-without-lock", test_suspend_without_lock);
  g_test_add_func ("/power/daemon", test_daemon);
  g_test_add_func ("/power/battery-waits", test_battery_waits);
  g_test_add_func ("/power/battery-slows", test_battery_slows);
  g_test_add_func ("/power/battery-waits-not-for-ever", test_battery_waits_not_for_ever);
  g_test_add_func ("/power/kernel", test_kernel);
  g_test_add_func ("/power/profiles", test_profiles);
  return g_test_run ();
}
