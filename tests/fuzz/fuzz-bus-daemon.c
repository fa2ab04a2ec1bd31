/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fuzz/fuzz-bus-daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <glib/gstdio.h>

#include "common/llmsvc-names.h"
#include "support/llm-test-bus.h"
#include "support/llm-test-folder.h"

#define WAIT_STEP_US 5000
/* For what does not end at all; a sanitized service on a busy machine takes its time. */
#define WAIT_MAX_US (G_GINT64_CONSTANT (300) * G_USEC_PER_SEC)
#define TAIL_BYTES 12000

/* Small limits, so that a run meets them; and no more on the disk than a test may take. */
#define CONFIG "[contexts]\nstorage-limit=64M\n[service]\nbudget=512M\nstall-timeout=20\n"
/* Who calls as often as this would otherwise be refused at the door, most of the time. */
#define OPEN_DOOR "[quota]\nrate=0\napps=0\n"

struct _FuzzBusDaemon
{
  char *program;
  char *model;
  char *folder;
  GTestDBus *bus;
  GDBusConnection *own;
  GPid pid;              /* 0: none */
};

static char *
make_path (FuzzBusDaemon *self,
           const char    *name)
{
  return g_build_filename (self->folder, name, NULL);
}

FuzzBusDaemon *
fuzz_bus_daemon_new (const char *program,
                     const char *model)
{
  FuzzBusDaemon *self = g_new0 (FuzzBusDaemon, 1);

  self->program = g_strdup (program);
  self->model = g_strdup (model);
  self->folder = llm_test_folder_new ();
  self->bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  llm_test_bus_up (self->bus);
  self->own = llm_test_bus_connect (self->bus);
  return self;
}

void
fuzz_bus_daemon_free (FuzzBusDaemon *self)
{
  if (self == NULL)
    return;
  if (self->pid != 0)
    {
      kill (self->pid, SIGKILL);
      waitpid (self->pid, NULL, 0);
    }
  g_object_unref (self->own);
  llm_test_bus_down (self->bus);
  g_object_unref (self->bus);
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_free (self->program);
  g_free (self->model);
  g_free (self);
}

GDBusConnection *
fuzz_bus_daemon_connect (FuzzBusDaemon *self,
                         GError       **error)
{
  return g_dbus_connection_new_for_address_sync (
    g_test_dbus_get_bus_address (self->bus),
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, error);
}

guint64
fuzz_bus_daemon_get_kib (FuzzBusDaemon *self)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/status", (int) self->pid);
  g_autofree char *text = NULL;
  const char *line;

  if (self->pid == 0 || !g_file_get_contents (path, &text, NULL, NULL))
    return 0;
  line = strstr (text, "VmRSS:");
  return line != NULL ? g_ascii_strtoull (line + strlen ("VmRSS:"), NULL, 10) : 0;
}

/* --- what it said --- */

/* The end of a file; empty when there is none. */
static char *
read_tail (const char *path)
{
  char *text = NULL;
  gsize length = 0;

  if (!g_file_get_contents (path, &text, &length, NULL))
    return g_strdup ("");
  if (length > TAIL_BYTES)
    memmove (text, text + length - TAIL_BYTES, TAIL_BYTES + 1);
  return text;
}

static gboolean
fail_with_log (FuzzBusDaemon *self,
               GError       **error,
               const char    *what)
{
  g_autofree char *path = make_path (self, "log");
  g_autofree char *tail = read_tail (path);

  g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "%s. Its last words:\n%s", what, tail);
  return FALSE;
}

/* Sanitizers write to files named sanitizer.PID. */
static gboolean
check_reports (FuzzBusDaemon *self,
               GError       **error)
{
  g_autoptr(GDir) folder = g_dir_open (self->folder, 0, NULL);
  const char *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    if (g_str_has_prefix (name, "sanitizer."))
      {
        g_autofree char *path = make_path (self, name);
        g_autofree char *text = NULL;

        g_file_get_contents (path, &text, NULL, NULL);
        g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "A sanitizer says:\n%.*s", TAIL_BYTES,
                     text != NULL ? text : "");
        return FALSE;
      }
  return TRUE;
}

/* --- its process --- */

static void
set_up_child (gpointer data)
{
  prctl (PR_SET_PDEATHSIG, SIGKILL);
}

/* What the caller's environment says of the sanitizers, and where their reports go. */
static char **
add_sanitizer (char      **environment,
               const char *variable,
               const char *folder)
{
  const char *own = g_getenv (variable);
  g_autofree char *value = g_strdup_printf ("%s%slog_path=%s/sanitizer", own != NULL ? own : "",
                                            own != NULL ? ":" : "", folder);

  return g_environ_setenv (environment, variable, value, TRUE);
}

static char **
make_environment (FuzzBusDaemon *self)
{
  char **environment = g_get_environ ();
  g_autofree char *cache = make_path (self, "cache");

  environment = g_environ_setenv (environment, "DBUS_SESSION_BUS_ADDRESS",
                                  g_test_dbus_get_bus_address (self->bus), TRUE);
  environment = g_environ_setenv (environment, "CACHE_DIRECTORY", cache, TRUE);
  environment = g_environ_setenv (environment, "G_DEBUG", "fatal-criticals", TRUE);
  environment = g_environ_setenv (environment, "LC_ALL", "C.UTF-8", TRUE);
  environment = add_sanitizer (environment, "ASAN_OPTIONS", self->folder);
  return add_sanitizer (environment, "UBSAN_OPTIONS", self->folder);
}

static gboolean
spawn (FuzzBusDaemon *self,
       GError       **error)
{
  g_auto(GStrv) environment = make_environment (self);
  g_autofree char *state = make_path (self, "state");
  g_autofree char *file = make_path (self, "llmsvc.conf");
  g_autofree char *log = make_path (self, "log");
  char *arguments[] = { self->program, (char *) "--session", (char *) "--config", file,
                        (char *) "--state-dir", state, (char *) "--model", self->model, NULL };
  int fd = g_open (log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  gboolean is_started;

  is_started = g_spawn_async_with_fds (NULL, arguments, environment, G_SPAWN_DO_NOT_REAP_CHILD,
                                       set_up_child, NULL, &self->pid, -1, fd, fd, error);
  g_close (fd, NULL);
  if (!is_started)
    self->pid = 0;
  return is_started;
}

gboolean
fuzz_bus_daemon_start (FuzzBusDaemon *self,
                       gboolean       keep_state,
                       GError       **error)
{
  g_autofree char *state = make_path (self, "state");
  g_autofree char *file = make_path (self, "llmsvc.conf");
  gint64 end_us = g_get_monotonic_time () + WAIT_MAX_US;

  if (!g_file_set_contents (file, keep_state ? CONFIG : CONFIG OPEN_DOOR, -1, error))
    return FALSE;
  if (!keep_state && g_file_test (state, G_FILE_TEST_IS_DIR))
    llm_test_folder_remove (state);
  if (!spawn (self, error))
    return FALSE;
  while (llm_test_bus_get_owner (self->own, LLMSVC_BUS_NAME) == 0)
    {
      if (!fuzz_bus_daemon_check (self, error))
        return FALSE;
      if (g_get_monotonic_time () > end_us)
        return fail_with_log (self, error, "The service does not start");
      g_usleep (WAIT_STEP_US);
    }
  return TRUE;
}

gboolean
fuzz_bus_daemon_check (FuzzBusDaemon *self,
                       GError       **error)
{
  int status = 0;

  if (self->pid != 0 && waitpid (self->pid, &status, WNOHANG) == self->pid)
    {
      g_autofree char *what =
        WIFSIGNALED (status)
          ? g_strdup_printf ("The service has died of signal %d", WTERMSIG (status))
          : g_strdup_printf ("The service has ended by itself with status %d", WEXITSTATUS (status));

      self->pid = 0;
      return check_reports (self, error) && fail_with_log (self, error, what);
    }
  return check_reports (self, error);
}

gboolean
fuzz_bus_daemon_stop (FuzzBusDaemon *self,
                      GError       **error)
{
  gint64 end_us = g_get_monotonic_time () + WAIT_MAX_US;
  int status = 0;

  kill (self->pid, SIGTERM);
  while (waitpid (self->pid, &status, WNOHANG) == 0)
    {
      if (g_get_monotonic_time () > end_us)
        return fail_with_log (self, error, "The service does not end");
      g_usleep (WAIT_STEP_US);
    }
  self->pid = 0;
  if (!check_reports (self, error))
    return FALSE;
  if (!WIFEXITED (status) || WEXITSTATUS (status) != 0)
    {
      g_autofree char *what = g_strdup_printf ("The service has ended with wait status %d", status);

      return fail_with_log (self, error, what);
    }
  while (llm_test_bus_get_owner (self->own, LLMSVC_BUS_NAME) != 0)
    g_usleep (WAIT_STEP_US);
  return TRUE;
}
