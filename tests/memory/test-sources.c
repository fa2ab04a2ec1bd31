/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sources of pressure, on FIFOs and files that stand for the kernel's. */

#include "memory/llm-pressure-source.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gio/gunixsocketaddress.h>

#include "support/llm-test-folder.h"

typedef struct
{
  char *folder;
  char *path;            /* of a FIFO there */
  guint n_stirred;
  LlmPressure hint;
} Fixture;

static void
set_up (Fixture      *fixture,
        gconstpointer data)
{
  fixture->folder = llm_test_folder_new ();
  fixture->path = g_build_filename (fixture->folder, "events", NULL);
  g_assert_cmpint (mkfifo (fixture->path, 0600), ==, 0);
}

static void
tear_down (Fixture      *fixture,
           gconstpointer data)
{
  llm_test_folder_remove (fixture->folder);
  g_free (fixture->folder);
  g_free (fixture->path);
}

static void
on_pressure (LlmPressure hint,
             gpointer    data)
{
  Fixture *fixture = data;

  fixture->n_stirred++;
  fixture->hint = hint;
}

static void
watch (Fixture           *fixture,
       LlmPressureSource *source)
{
  llm_pressure_source_set_func (source, on_pressure, fixture);
}

static void
signal_fifo (Fixture *fixture)
{
  int fd = open (fixture->path, O_WRONLY | O_NONBLOCK);

  g_assert_cmpint (fd, >=, 0);
  g_assert_cmpint (write (fd, "x", 1), ==, 1);
  close (fd);
}

static void
wait_for (Fixture *fixture,
          guint    n)
{
  while (fixture->n_stirred < n)
    g_main_context_iteration (NULL, TRUE);
  g_assert_cmpuint (fixture->n_stirred, ==, n);
}

typedef LlmPressureSource *(*Make) (const char *path);

static LlmPressureSource *
make_stalls (const char *path)
{
  return llm_psi_source_new (path, 150000, 2000000, NULL);
}

static LlmPressureSource *
make_watch (const char *path)
{
  return llm_watch_source_new (path, NULL, NULL);
}

static LlmPressureSource *
make_events (const char *path)
{
  return llm_events_source_new (path, NULL);
}

/* Each kind wakes, once for each event, and again afterwards. */
static void
test_wakes (Fixture      *fixture,
            gconstpointer data)
{
  static const struct
  {
    Make make;
    LlmPressure hint;
  } kinds[] = {
    { make_stalls, LLM_PRESSURE_NONE },
    { make_watch, LLM_PRESSURE_LOW },
    { make_events, LLM_PRESSURE_NONE },
  };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      /* as another end of the FIFO stays open in the real ones */
      int other = open (fixture->path, O_RDWR | O_NONBLOCK);
      g_autoptr(LlmPressureSource) source = kinds[i].make (fixture->path);

      g_assert_nonnull (source);
      fixture->n_stirred = 0;
      watch (fixture, source);
      signal_fifo (fixture);
      wait_for (fixture, 1);
      g_assert_cmpint (fixture->hint, ==, kinds[i].hint);
      signal_fifo (fixture);
      wait_for (fixture, 2);
      close (other);
    }
}

/* What can't be watched is said, and nothing else happens. */
static void
test_refused (Fixture      *fixture,
              gconstpointer data)
{
  g_autofree char *none = g_build_filename (fixture->folder, "none", NULL);
  g_autoptr(GError) error = NULL;

  g_assert_null (llm_psi_source_new (none, 1, 2000000, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_assert_null (llm_events_source_new (none, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_NOT_FOUND);
  g_clear_error (&error);
  g_assert_null (llm_usage_source_new (fixture->folder, 5, &error));
  g_assert_nonnull (error);
  g_clear_error (&error);
  g_assert_null (llm_watch_source_new (none, NULL, &error));
  g_assert_nonnull (error);
  g_clear_error (&error);
  /* switched off */
  g_assert_null (llm_watch_source_new ("/dev/null", NULL, &error));
  g_assert_no_error (error);
}

/* A manager's socket: what it asked to be written arrives there first. */
static void
test_socket (Fixture      *fixture,
             gconstpointer data)
{
  g_autofree char *path = g_build_filename (fixture->folder, "socket", NULL);
  g_autofree char *encoded = g_base64_encode ((const guchar *) "some 1 2", 8);
  g_autoptr(GSocketAddress) address = g_unix_socket_address_new (path);
  g_autoptr(GSocket) listener = g_socket_new (G_SOCKET_FAMILY_UNIX, G_SOCKET_TYPE_STREAM, 0, NULL);
  g_autoptr(GSocket) other = NULL;
  g_autoptr(LlmPressureSource) source = NULL;
  g_autoptr(GError) error = NULL;
  char text[16] = "";

  g_assert_true (g_socket_bind (listener, address, FALSE, NULL));
  g_assert_true (g_socket_listen (listener, NULL));
  source = llm_watch_source_new (path, encoded, &error);
  g_assert_no_error (error);
  watch (fixture, source);
  other = g_socket_accept (listener, NULL, NULL);
  g_assert_cmpint (g_socket_receive (other, text, sizeof text, NULL, NULL), ==, 8);
  g_assert_cmpstr (text, ==, "some 1 2");
  g_assert_cmpint (g_socket_send (other, "!", 1, NULL, NULL), ==, 1);
  wait_for (fixture, 1);
  /* its end is no event, and no loop */
  g_assert_true (g_socket_close (other, NULL));
  for (guint i = 0; i < 100; i++)
    {
      g_usleep (1000);
      g_main_context_iteration (NULL, FALSE);
    }
  g_assert_cmpuint (fixture->n_stirred, ==, 1);
}

/* The kernel's own file takes the trigger of a process without privileges, where there is PSI. */
static void
test_kernel (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmPressureSource) source = NULL;

  if (access ("/proc/pressure/memory", R_OK | W_OK) != 0)
    {
      g_test_skip ("no PSI here, or it can't be written");
      return;
    }
  source = llm_psi_source_new ("/proc/pressure/memory", 150000, 2000000, &error);
  if (source == NULL && g_error_matches (error, G_IO_ERROR, G_IO_ERROR_PERMISSION_DENIED))
    {
      g_test_skip ("PSI triggers are refused here");
      return;
    }
  g_assert_no_error (error);
  g_clear_pointer (&source, llm_pressure_source_free);
  /* a window that no kernel takes */
  g_assert_null (llm_psi_source_new ("/proc/pressure/memory", 2, 1, &error));
  g_assert_nonnull (error);
}

/* --- a desktop --- */

#define TEST_TYPE_MONITOR (test_monitor_get_type ())
G_DECLARE_FINAL_TYPE (TestMonitor, test_monitor, TEST, MONITOR, GObject)

struct _TestMonitor
{
  GObject parent_instance;
};

static gboolean
init_monitor (GInitable    *initable,
              GCancellable *cancellable,
              GError      **error)
{
  return TRUE;
}

static void
test_monitor_initable_init (GInitableIface *iface)
{
  iface->init = init_monitor;
}

static void
test_monitor_iface_init (GMemoryMonitorInterface *iface)
{
}

G_DEFINE_FINAL_TYPE_WITH_CODE (TestMonitor, test_monitor, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_INITABLE, test_monitor_initable_init)
                               G_IMPLEMENT_INTERFACE (G_TYPE_MEMORY_MONITOR,
                                                      test_monitor_iface_init))

static void
test_monitor_class_init (TestMonitorClass *klass)
{
}

static void
test_monitor_init (TestMonitor *self)
{
}

static void
test_desktop (void)
{
  static const struct
  {
    GMemoryMonitorWarningLevel level;
    LlmPressure hint;
  } cases[] = {
    { G_MEMORY_MONITOR_WARNING_LEVEL_LOW, LLM_PRESSURE_LOW },
    { G_MEMORY_MONITOR_WARNING_LEVEL_MEDIUM, LLM_PRESSURE_MEDIUM },
    { G_MEMORY_MONITOR_WARNING_LEVEL_CRITICAL, LLM_PRESSURE_CRITICAL },
  };
  g_autoptr(GMemoryMonitor) monitor = g_object_new (TEST_TYPE_MONITOR, NULL);
  g_autoptr(LlmPressureSource) source = llm_monitor_source_new (monitor);
  Fixture fixture = { 0 };

  watch (&fixture, source);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_signal_emit_by_name (monitor, "low-memory-warning", cases[i].level);
      g_assert_cmpint (fixture.hint, ==, cases[i].hint);
    }
  g_clear_pointer (&source, llm_pressure_source_free);
  g_signal_emit_by_name (monitor, "low-memory-warning", G_MEMORY_MONITOR_WARNING_LEVEL_LOW);
  g_assert_cmpuint (fixture.n_stirred, ==, 3);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add ("/sources/wake", Fixture, NULL, set_up, test_wakes, tear_down);
  g_test_add ("/sources/refused", Fixture, NULL, set_up, test_refused, tear_down);
  g_test_add ("/sources/socket", Fixture, NULL, set_up, test_socket, tear_down);
  g_test_add_func ("/sources/kernel", test_kernel);
  g_test_add_func ("/sources/desktop", test_desktop);
  return g_test_run ();
}
