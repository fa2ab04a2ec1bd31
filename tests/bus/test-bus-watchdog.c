/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The service manager's watchdog is fed while the main loop turns and the thread that computes goes
 * on, be it from stage to stage of a long answer; and no more when that thread hangs. A thread is
 * made to hang from outside, by a debugger's means.
 */

#include <errno.h>
#include <gio/gio.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bus-rig.h"
#include "support/llm-test-folder.h"

#define TICK_MS 250
#define ENVIRONMENT "NOTIFY_SOCKET=%s WATCHDOG_USEC=500000"
/* Without a message for this long, there are none: many times what is between two. */
#define SILENCE_MS (16 * TICK_MS)
/* Pings while a thread hangs: at least, as a long stage is no fault; and far more than there may
 * be. */
#define PATIENCE 5
#define MANY_PINGS 60

typedef struct
{
  char *folder;
  int fd;
  BusRig *rig;
  GDBusConnection *app;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  g_autofree char *environment = NULL;
  g_autofree char *path = NULL;

  fixture->folder = llm_test_folder_new ();
  path = g_build_filename (fixture->folder, "socket", NULL);
  g_strlcpy (address.sun_path, path, sizeof address.sun_path);
  fixture->fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (bind (fixture->fd, (struct sockaddr *) &address, sizeof address), ==, 0);
  environment = g_strdup_printf (ENVIRONMENT, path);
  fixture->rig = bus_rig_new_with_environment (NULL, NULL, environment);
  fixture->app = bus_rig_connect (fixture->rig);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  g_object_unref (fixture->app);
  bus_rig_free (fixture->rig);
  close (fixture->fd);
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
}

/* Whether a ping came within @timeout_ms. */
static gboolean
await_ping (Fixture *fixture,
            int      timeout_ms)
{
  struct pollfd wait = { .fd = fixture->fd, .events = POLLIN };
  char buffer[64];
  ssize_t n;

  do
    {
      if (poll (&wait, 1, timeout_ms) == 0)
        return FALSE;
      n = recv (fixture->fd, buffer, sizeof buffer - 1, 0);
      g_assert_cmpint (n, >, 0);
      buffer[n] = '\0';
    }
  while (!g_str_equal (buffer, "WATCHDOG=1"));
  return TRUE;
}

/* Those that wait already. */
static guint
count_pings (Fixture *fixture)
{
  guint n = 0;

  while (await_ping (fixture, 0))
    n++;
  return n;
}

/* The thread's id. */
static pid_t
find_thread (pid_t       process,
             const char *name)
{
  g_autofree char *path = g_strdup_printf ("/proc/%d/task", process);
  g_autoptr(GDir) folder = g_dir_open (path, 0, NULL);
  const char *entry;

  g_assert_nonnull (folder);
  while ((entry = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *comm = g_build_filename (path, entry, "comm", NULL);
      g_autofree char *text = NULL;

      if (g_file_get_contents (comm, &text, NULL, NULL) && g_str_equal (g_strstrip (text), name))
        return atoi (entry);
    }
  g_assert_not_reached ();
}

/* Stops one thread, and no other of its process. FALSE where that is not allowed. */
static gboolean
hang_thread (pid_t thread)
{
  if (ptrace (PTRACE_SEIZE, thread, NULL, NULL) < 0)
    {
      g_assert_cmpint (errno, ==, EPERM);
      return FALSE;
    }
  g_assert_cmpint (ptrace (PTRACE_INTERRUPT, thread, NULL, NULL), ==, 0);
  g_assert_cmpint (waitpid (thread, NULL, __WALL), ==, thread);
  return TRUE;
}

static void
release_thread (pid_t thread)
{
  g_assert_cmpint (ptrace (PTRACE_DETACH, thread, NULL, NULL), ==, 0);
}

static void
test_hanging (Fixture      *fixture,
              gconstpointer data)
{
  pid_t thread;
  guint n = 0;

  bus_get_number (fixture->app, NULL, ".Memory", "Resident");
  g_assert_true (await_ping (fixture, BUS_RIG_TIMEOUT_MS));
  count_pings (fixture);
  thread = find_thread (bus_rig_get_pid (fixture->rig), GPOINTER_TO_INT (data) == 0
                                                          ? "llm-executor" : "llmsvcd");
  if (!hang_thread (thread))
    {
      g_test_skip ("No thread of another process may be stopped here");
      return;
    }

  /* patience first, then silence, though the main loop turns; with that stopped, at once */
  while (await_ping (fixture, SILENCE_MS))
    g_assert_cmpuint (++n, <, MANY_PINGS);
  g_test_message ("%u pings before it was noticed", n);
  if (GPOINTER_TO_INT (data) == 0)
    {
      bus_get_number (fixture->app, NULL, ".Memory", "Resident");
      g_assert_cmpuint (n, >=, PATIENCE);
    }

  release_thread (thread);
  g_assert_true (await_ping (fixture, BUS_RIG_TIMEOUT_MS));
}

/* Reads the whole answer, and pings meanwhile, as a manager does: a socket of notes that nobody
 * reads fills up, and whoever writes to it then waits. */
static gsize
read_answer (Fixture *fixture,
             int      fd)
{
  struct pollfd waits[] = {
    { .fd = fd, .events = POLLIN },
    { .fd = fixture->fd, .events = POLLIN },
  };
  char buffer[4096];
  gsize length = 0;

  for (;;)
    {
      ssize_t n;

      g_assert_cmpint (poll (waits, G_N_ELEMENTS (waits), BUS_RIG_TIMEOUT_MS), >, 0);
      if (waits[1].revents != 0)
        count_pings (fixture);
      if (waits[0].revents == 0)
        continue;
      n = read (fd, buffer, sizeof buffer);
      g_assert_cmpint (n, >=, 0);
      if (n == 0)
        return length;
      length += (gsize) n;
    }
}

/* A long answer, and an idle service, are alive. */
static void
test_long (Fixture      *fixture,
           gconstpointer data)
{
  g_autofree char *context = bus_create (fixture->app, bus_options ("{}"));
  g_autofree char *generation = NULL;
  g_autoptr(GError) error = NULL;
  int fd = -1;

  generation = bus_generate (fixture->app, context, "Tell me a long story.",
                             bus_options (BUS_LONG_ANSWER "}"), &fd, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (read_answer (fixture, fd), >, 0);
  close (fd);
  for (guint i = 0; i < 20; i++)
    g_assert_true (await_ping (fixture, SILENCE_MS));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/bus/watchdog/executor-hangs", Fixture, GINT_TO_POINTER (0), set_up, test_hanging,
              tear_down);
  g_test_add ("/bus/watchdog/main-hangs", Fixture, GINT_TO_POINTER (1), set_up, test_hanging,
              tear_down);
  g_test_add ("/bus/watchdog/alive", Fixture, NULL, set_up, test_long, tear_down);
  return g_test_run ();
}
