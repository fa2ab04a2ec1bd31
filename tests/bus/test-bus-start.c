/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How the daemon starts: activated, without a model, on the system bus. */

#include <gio/gio.h>
#include <glib/gstdio.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bus-rig.h"
#include "support/llm-test-folder.h"

#define SHORT "{'max-tokens': <uint32 12>, 'temperature': <0.0>}"

/* --- activation --- */

typedef struct
{
  int fd;
  char *folder;
  char *path;
} Notify;

/* What a service manager listens on. */
static void
notify_open (Notify *notify)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };

  notify->folder = llm_test_folder_new ();
  notify->path = g_build_filename (notify->folder, "socket", NULL);
  g_strlcpy (address.sun_path, notify->path, sizeof address.sun_path);
  notify->fd = socket (AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  g_assert_cmpint (bind (notify->fd, (struct sockaddr *) &address, sizeof address), ==, 0);
}

static void
notify_close (Notify *notify)
{
  close (notify->fd);
  llm_test_folder_remove (notify->folder);
  g_free (notify->path);
  g_free (notify->folder);
}

/* Waits for a message, or only looks whether there is one. */
static char *
notify_read (Notify  *notify,
             gboolean waits)
{
  char buffer[256];
  ssize_t n = recv (notify->fd, buffer, sizeof buffer - 1, waits ? 0 : MSG_DONTWAIT);

  return n >= 0 ? g_strndup (buffer, (gsize) n) : NULL;
}

/* When the model is opened for the first time, the service manager has been told
 * that the service is ready, which follows the name. The kernel tells of the
 * opening, so there is no race to lose. */
static void
test_activation (void)
{
  g_autoptr(BusRig) rig = NULL;
  g_autoptr(GDBusConnection) app = NULL;
  g_autoptr(GVariant) availability = NULL;
  g_autoptr(GFile) shipped = NULL;
  g_autoptr(GFile) copy = NULL;
  g_autofree char *shipped_path = NULL;
  g_autofree char *ready = NULL;
  g_autofree char *model = NULL;
  g_autofree char *environment = NULL;
  Notify notify;
  struct pollfd wait;
  int watch;

  notify_open (&notify);
  shipped_path = g_build_filename (g_getenv ("LLM_MODEL_DIR"), "llmsvc-demo-8M-Q8_0.gguf", NULL);
  model = g_build_filename (notify.folder, "copy.gguf", NULL);
  shipped = g_file_new_for_path (shipped_path);
  copy = g_file_new_for_path (model);
  g_assert_true (g_file_copy (shipped, copy, G_FILE_COPY_NONE, NULL, NULL, NULL, NULL));
  watch = inotify_init1 (IN_CLOEXEC);
  g_assert_cmpint (inotify_add_watch (watch, model, IN_OPEN), >=, 0);

  environment = g_strdup_printf ("NOTIFY_SOCKET=%s WATCHDOG_USEC=100000", notify.path);
  rig = bus_rig_new_with_environment (model, NULL, environment);
  app = bus_rig_connect (rig);
  availability = bus_get (app, NULL, "", "Availability");
  wait = (struct pollfd) { .fd = watch, .events = POLLIN };
  g_assert_cmpint (poll (&wait, 1, BUS_RIG_TIMEOUT_MS), ==, 1);
  ready = notify_read (&notify, FALSE);
  g_assert_cmpstr (ready, ==, "READY=1");

  /* the watchdog is fed from the main loop, and the end is told */
  for (guint i = 0; i < 2; i++)
    {
      g_autofree char *ping = notify_read (&notify, TRUE);

      g_assert_cmpstr (ping, ==, "WATCHDOG=1");
    }
  bus_rig_end_daemon (rig, SIGTERM);
  for (;;)
    {
      g_autofree char *message = notify_read (&notify, FALSE);

      g_assert_nonnull (message);
      if (g_str_equal (message, "STOPPING=1"))
        break;
      g_assert_cmpstr (message, ==, "WATCHDOG=1");
    }

  close (watch);
  g_unlink (model);
  notify_close (&notify);
}

/* A model that is missing or broken leaves a service that runs and says so. */
static void
test_no_model (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *missing = g_build_filename (folder, "missing.gguf", NULL);
  g_autofree char *broken = g_build_filename (folder, "broken.gguf", NULL);
  const char *const models[] = { missing, broken };

  g_assert_true (g_file_set_contents (broken, "GGUF\3\0\0\0 and no more", 20, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autoptr(BusRig) rig = bus_rig_new (models[i], "[model]\nfolders=\n");
      g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
      g_autoptr(GVariant) availability = NULL;
      g_autoptr(GVariant) reason = NULL;
      g_autoptr(GVariant) reply = NULL;
      g_autoptr(GVariant) contexts = NULL;
      g_autoptr(GError) error = NULL;
      g_autofree char *basename = g_path_get_basename (models[i]);

      /* the first call activates; it waits until the models are known and then
       * fails with what is wrong */
      reply = bus_call (app, NULL, "", "Complete",
                        g_variant_new ("(s@a{sv})", "Hi", bus_options ("{}")), &error);
      g_assert_null (reply);
      bus_assert_error (error, i == 0 ? "NoModel" : "InvalidModel");
      g_assert_nonnull (strstr (error->message, basename));

      /* the service runs and says so */
      availability = bus_get (app, NULL, "", "Availability");
      reason = bus_get (app, NULL, "", "AvailabilityReason");
      g_test_message ("%s: %s", g_variant_get_string (availability, NULL),
                      g_variant_get_string (reason, NULL));
      g_assert_cmpstr (g_variant_get_string (availability, NULL), ==, "failed");
      g_assert_nonnull (strstr (g_variant_get_string (reason, NULL), basename));
      contexts = bus_call_ok (app, NULL, "", "ListContexts",
                              g_variant_new ("(@a{sv})", bus_options ("{}")));
    }

  llm_test_folder_remove (folder);
}

/* The same service for all users. There is no polkit on this bus, so only the
 * administrator may trim. */
static void
test_system (void)
{
  g_autoptr(BusRig) rig = bus_rig_new_system ();
  g_autoptr(GDBusConnection) app = bus_rig_connect (rig);
  g_autofree char *path = bus_open (app, "notes");
  g_autofree char *text = bus_ask (app, path, "Hello", bus_options (SHORT), NULL);
  g_autoptr(GVariant) trimmed = NULL;
  g_autoptr(GError) error = NULL;

  g_assert_cmpuint (strlen (text), >, 0);
  trimmed = bus_call (app, NULL, ".Memory", "Trim",
                      g_variant_new ("(s@a{sv})", "low", bus_options ("{}")), &error);
  if (getuid () == 0)
    g_assert_no_error (error);
  else
    bus_assert_error (error, "NotAuthorized");
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/bus/start/activation", test_activation);
  g_test_add_func ("/bus/start/no-model", test_no_model);
  g_test_add_func ("/bus/start/system", test_system);

  return g_test_run ();
}
