/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-daemon.h"

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#include "support/llm-test-bus.h"
#include "support/llm-test-folder.h"

#define BUS_NAME "org.llm.Service"
#define SHIPPED_MODEL "llmsvc-demo-8M-Q8_0.gguf"
#define NO_BUS "unix:path=/nonexistent/bus"
#define WAIT_STEP_US 2000
/* For what does not end at all: no test asserts how long something takes. */
#define WAIT_MAX_US (120 * G_USEC_PER_SEC)
#define CALL_TIMEOUT_MS 120000

struct _LlmTestDaemon
{
  LlmTestDaemonFlags flags;
  GTestDBus *bus;
  char *folder;
  GPtrArray *command;    /* (element-type utf8) (owned), NULL-terminated */
  GDBusConnection *own;  /* for questions to the bus; never calls the service */
};

/* --- files --- */

/* (transfer full): its path */
static char *
write_file (LlmTestDaemon *self,
            const char    *name,
            const char    *content)
{
  g_autofree char *path = g_build_filename (self->folder, name, NULL);
  g_autoptr(GError) error = NULL;

  g_file_set_contents (path, content, -1, &error);
  g_assert_no_error (error);
  return g_steal_pointer (&path);
}

/* --- processes --- */

/* A process that has ended may stay as a zombie until somebody asks for it. */
static gboolean
is_gone (int pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/stat", pid);
  g_autofree char *text = NULL;
  const char *state;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return TRUE;
  state = strrchr (text, ')');
  return state != NULL && (g_str_has_prefix (state, ") Z") || g_str_has_prefix (state, ") X"));
}

/* The test's own sources go on meanwhile: it may be reading what the service writes. */
static void
wait_a_little (gint64 end_us)
{
  g_assert_cmpint (g_get_monotonic_time (), <, end_us);
  while (g_main_context_iteration (NULL, FALSE))
    ;
  g_usleep (WAIT_STEP_US);
}

/* --- the service --- */

static void
add_argument (GPtrArray  *command,
              const char *argument)
{
  g_ptr_array_add (command, g_strdup (argument));
}

static void
make_command (LlmTestDaemon            *self,
              const LlmTestDaemonSetup *setup)
{
  g_autofree char *config = NULL;
  g_autofree char *state = g_build_filename (self->folder, "state", NULL);
  g_auto(GStrv) variables =
    g_strsplit (setup->environment != NULL ? setup->environment : "", " ", -1);

  config = write_file (self, "llmsvc.conf", setup->config != NULL ? setup->config : "");
  self->command = g_ptr_array_new_with_free_func (g_free);
  add_argument (self->command, "/usr/bin/env");
  add_argument (self->command, "LC_ALL=C.UTF-8");
  for (guint i = 0; variables[i] != NULL; i++)
    if (*variables[i] != '\0')
      add_argument (self->command, variables[i]);
  add_argument (self->command, g_getenv ("LLM_DAEMON"));
  add_argument (self->command, self->flags & LLM_TEST_DAEMON_SYSTEM ? "--system" : "--session");
  add_argument (self->command, "--config");
  add_argument (self->command, config);
  if (!(self->flags & LLM_TEST_DAEMON_NO_STATE_DIR))
    {
      add_argument (self->command, "--state-dir");
      add_argument (self->command, state);
    }
  if (setup->script != NULL)
    {
      g_autofree char *script = write_file (self, "script.json", setup->script);

      add_argument (self->command, "--mock");
      add_argument (self->command, script);
    }
  else
    {
      g_autofree char *shipped = g_build_filename (g_getenv ("LLM_MODEL_DIR"), SHIPPED_MODEL, NULL);

      add_argument (self->command, "--model");
      add_argument (self->command, setup->model != NULL ? setup->model : shipped);
    }
  g_ptr_array_add (self->command, NULL);
}

static void
write_service_file (LlmTestDaemon *self)
{
  g_autoptr(GString) text = g_string_new ("[D-BUS Service]\nName=" BUS_NAME "\nExec=");
  g_autofree char *path = NULL;

  /* The bus tells those it starts its address, which is the system's as well then. */
  if (self->flags & LLM_TEST_DAEMON_SYSTEM)
    g_string_append (text, "/bin/sh -c 'DBUS_SYSTEM_BUS_ADDRESS=\"$DBUS_STARTER_ADDRESS\" "
                           "exec \"$@\"' sh");
  for (guint i = 0; g_ptr_array_index (self->command, i) != NULL; i++)
    g_string_append_printf (text, " \"%s\"", (const char *) g_ptr_array_index (self->command, i));
  g_string_append_c (text, '\n');
  path = write_file (self, BUS_NAME ".service", text->str);
}

static void
end_with_parent (gpointer data)
{
  prctl (PR_SET_PDEATHSIG, SIGTERM);
}

static void
spawn (LlmTestDaemon *self)
{
  g_autoptr(GSubprocessLauncher) launcher = g_subprocess_launcher_new (G_SUBPROCESS_FLAGS_NONE);
  g_autoptr(GSubprocess) process = NULL;
  g_autoptr(GError) error = NULL;
  gint64 end_us = g_get_monotonic_time () + WAIT_MAX_US;
  int pid;

  /* a missing or broken model is worth a warning to the service, and must not end it */
  g_subprocess_launcher_setenv (launcher, "G_DEBUG", "fatal-criticals", TRUE);
  g_subprocess_launcher_set_child_setup (launcher, end_with_parent, NULL, NULL);
  process = g_subprocess_launcher_spawnv (launcher, (const char *const *) self->command->pdata,
                                          &error);
  g_assert_no_error (error);
  pid = (int) g_ascii_strtoll (g_subprocess_get_identifier (process), NULL, 10);
  while (llm_test_daemon_get_pid (self) == 0)
    {
      /* ended before it had the name: it said why */
      g_assert_false (is_gone (pid));
      wait_a_little (end_us);
    }
}

void
llm_test_daemon_start (LlmTestDaemon *self)
{
  if (self->flags & LLM_TEST_DAEMON_ACTIVATABLE)
    {
      g_autoptr(GVariant) reply = NULL;
      g_autoptr(GError) error = NULL;

      reply = g_dbus_connection_call_sync (self->own, "org.freedesktop.DBus",
                                           "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                           "StartServiceByName",
                                           g_variant_new ("(su)", BUS_NAME, 0), NULL,
                                           G_DBUS_CALL_FLAGS_NONE, CALL_TIMEOUT_MS, NULL, &error);
      g_assert_no_error (error);
    }
  else
    {
      g_assert_cmpint (llm_test_daemon_get_pid (self), ==, 0);
      spawn (self);
    }
}

static void
wait_end (LlmTestDaemon *self,
          int            pid)
{
  gint64 end_us = g_get_monotonic_time () + WAIT_MAX_US;

  while (!is_gone (pid) || llm_test_daemon_get_pid (self) == pid)
    wait_a_little (end_us);
}

void
llm_test_daemon_kill (LlmTestDaemon *self,
                      int            signal)
{
  int pid = llm_test_daemon_get_pid (self);

  if (pid == 0)
    return;
  g_assert_cmpint (kill (pid, signal), ==, 0);
  wait_end (self, pid);
}

void
llm_test_daemon_wait_gone (LlmTestDaemon *self)
{
  int pid = llm_test_daemon_get_pid (self);

  if (pid != 0)
    wait_end (self, pid);
}

void
llm_test_daemon_restart (LlmTestDaemon *self)
{
  llm_test_daemon_kill (self, SIGTERM);
  llm_test_daemon_start (self);
}

/* --- the helper --- */

LlmTestDaemon *
llm_test_daemon_new (const LlmTestDaemonSetup *setup)
{
  LlmTestDaemon *self = g_new0 (LlmTestDaemon, 1);
  LlmTestDaemonSetup nothing = { NULL };

  setup = setup != NULL ? setup : &nothing;
  g_assert_nonnull (g_getenv ("LLM_DAEMON"));
  g_assert_nonnull (g_getenv ("LLM_MODEL_DIR"));

  self->flags = setup->flags;
  self->folder = llm_test_folder_new ();
  make_command (self, setup);
  if (self->flags & LLM_TEST_DAEMON_ACTIVATABLE)
    write_service_file (self);

  self->bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_add_service_dir (self->bus, self->folder);
  llm_test_bus_up (self->bus);
  g_setenv ("DBUS_SYSTEM_BUS_ADDRESS",
            self->flags & LLM_TEST_DAEMON_SYSTEM ? llm_test_daemon_get_address (self) : NO_BUS,
            TRUE);
  if (self->flags & LLM_TEST_DAEMON_SYSTEM)
    g_setenv ("DBUS_SESSION_BUS_ADDRESS", NO_BUS, TRUE);
  self->own = llm_test_daemon_connect (self);

  llm_test_daemon_start (self);
  return self;
}

void
llm_test_daemon_free (LlmTestDaemon *self)
{
  llm_test_daemon_kill (self, SIGTERM);
  g_object_unref (self->own);
  if (self->flags & LLM_TEST_DAEMON_SYSTEM)
    {
      /* as g_test_dbus_down() does it for the session bus */
      g_autoptr(GDBusConnection) shared = g_bus_get_sync (G_BUS_TYPE_SYSTEM, NULL, NULL);

      if (shared != NULL)
        g_dbus_connection_set_exit_on_close (shared, FALSE);
    }
  llm_test_bus_down (self->bus);
  g_object_unref (self->bus);
  g_unsetenv ("DBUS_SYSTEM_BUS_ADDRESS");
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_ptr_array_unref (self->command);
  g_free (self);
}

const char *
llm_test_daemon_get_address (LlmTestDaemon *self)
{
  return g_test_dbus_get_bus_address (self->bus);
}

const char *
llm_test_daemon_get_folder (LlmTestDaemon *self)
{
  return self->folder;
}

GDBusConnection *
llm_test_daemon_connect (LlmTestDaemon *self)
{
  return llm_test_bus_connect (self->bus);
}

int
llm_test_daemon_get_pid (LlmTestDaemon *self)
{
  return llm_test_bus_get_owner (self->own, BUS_NAME);
}
