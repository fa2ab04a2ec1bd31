/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-bus.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>

#include "common/llmsvc-names.h"
#include "support/llm-test-folder.h"

#define WAIT_STEP_US 2000
#define MAX_STEPS 5000

GVariant *
bench_bus_call (BenchBus   *self,
                const char *path,
                const char *interface,
                const char *method,
                GVariant   *arguments,
                const char *type)
{
  g_autoptr(GError) error = NULL;
  GVariant *reply = g_dbus_connection_call_sync (self->connection, LLMSVC_BUS_NAME, path,
                                                 interface, method, arguments,
                                                 G_VARIANT_TYPE (type), G_DBUS_CALL_FLAGS_NONE,
                                                 G_MAXINT, NULL, &error);

  if (reply == NULL)
    g_error ("%s failed: %s", method, error->message);
  return reply;
}

GVariant *
bench_bus_get (BenchBus   *self,
               const char *interface,
               const char *property)
{
  return bench_bus_call (self, LLMSVC_PATH, "org.freedesktop.DBus.Properties", "Get",
                         g_variant_new ("(ss)", interface, property), "(v)");
}

guint
bench_bus_find_pid (BenchBus   *self,
                    const char *name)
{
  g_autoptr(GVariant) reply =
    g_dbus_connection_call_sync (self->connection, "org.freedesktop.DBus",
                                 "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                 "GetConnectionUnixProcessID", g_variant_new ("(s)", name),
                                 G_VARIANT_TYPE ("(u)"), G_DBUS_CALL_FLAGS_NONE, -1, NULL, NULL);
  guint pid = 0;

  if (reply != NULL)
    g_variant_get (reply, "(u)", &pid);
  return pid;
}

static void
write_service (BenchBus   *self,
               const char *daemon,
               const char *model,
               const char *cache)
{
  g_autofree char *service = g_build_filename (self->folder, LLMSVC_BUS_NAME ".service", NULL);
  g_autofree char *own_cache = g_build_filename (self->folder, "cache", NULL);
  g_autofree char *text = NULL;
  g_autoptr(GError) error = NULL;

  text = g_strdup_printf ("[D-BUS Service]\nName=" LLMSVC_BUS_NAME
                          "\nExec=/usr/bin/env \"CACHE_DIRECTORY=%s\" \"%s\" --model \"%s\" "
                          "--state-dir \"%s/state\"\n",
                          cache != NULL ? cache : own_cache, daemon, model, self->folder);
  if (!g_file_set_contents (service, text, -1, &error))
    g_error ("%s", error->message);
}

BenchBus *
bench_bus_new (const char *daemon,
               const char *model,
               const char *cache)
{
  BenchBus *self = g_new0 (BenchBus, 1);
  g_autoptr(GError) error = NULL;

  self->folder = llm_test_folder_new ();
  write_service (self, daemon, model, cache);
  self->dbus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_add_service_dir (self->dbus, self->folder);
  g_test_dbus_up (self->dbus);
  self->connection = g_dbus_connection_new_for_address_sync (
    g_test_dbus_get_bus_address (self->dbus),
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, &error);
  if (self->connection == NULL)
    g_error ("%s", error->message);
  self->bus_pid = bench_bus_find_pid (self, "org.freedesktop.DBus");
  return self;
}

/* Gone, or dead and not yet taken note of: whose child it is may take its time. */
static gboolean
has_ended (guint pid)
{
  g_autofree char *path = g_strdup_printf ("/proc/%u/stat", pid);
  g_autofree char *text = NULL;
  const char *state;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return TRUE;
  /* "PID (name) STATE …"; a name may hold anything. */
  state = strrchr (text, ')');
  return state == NULL || strncmp (state, ") Z", 3) == 0;
}

void
bench_stop_service (guint pid)
{
  if (pid <= 1)
    return;
  kill ((pid_t) pid, SIGTERM);
  for (guint i = 0; i < MAX_STEPS && !has_ended (pid); i++)
    g_usleep (WAIT_STEP_US);
}

void
bench_bus_free (BenchBus *self)
{
  bench_stop_service (self->daemon_pid);
  g_dbus_connection_close_sync (self->connection, NULL, NULL);
  g_object_unref (self->connection);
  g_test_dbus_down (self->dbus);
  g_object_unref (self->dbus);
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_free (self);
}

GVariant *
bench_bus_make_options (guint n_tokens)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "temperature", "d", 0.0);
  g_variant_dict_insert (&dict, "max-tokens", "u", n_tokens);
  return g_variant_dict_end (&dict);
}

double
bench_bus_time_first_byte (BenchBus   *self,
                           const char *prompt,
                           guint       n_tokens)
{
  gint64 begin = g_get_monotonic_time ();
  g_autoptr(GVariant) created = bench_bus_call (self, LLMSVC_PATH, LLMSVC_INTERFACE,
                                                "CreateContext", g_variant_new ("(a{sv})", NULL),
                                                "(o)");
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GError) error = NULL;
  GVariantBuilder messages;
  const char *path;
  char byte;
  gint64 end;
  int fd;

  g_variant_get (created, "(&o)", &path);
  g_variant_builder_init (&messages, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&messages, "(ssa{sv})", "user", prompt, NULL);
  reply = g_dbus_connection_call_with_unix_fd_list_sync (
    self->connection, LLMSVC_BUS_NAME, path, LLMSVC_CONTEXT_INTERFACE, "Generate",
    g_variant_new ("(a(ssa{sv})@a{sv})", &messages, bench_bus_make_options (n_tokens)),
    G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_NONE, G_MAXINT, NULL, &fds, NULL, &error);
  if (reply == NULL)
    g_error ("Generate failed: %s", error->message);
  fd = g_unix_fd_list_get (fds, 0, &error);
  if (read (fd, &byte, 1) != 1)
    g_error ("The stream ended without text");
  end = g_get_monotonic_time ();
  while (read (fd, &byte, 1) == 1)
    ;
  close (fd);
  self->daemon_pid = bench_bus_find_pid (self, LLMSVC_BUS_NAME);
  return (double) (end - begin) / 1000.0;
}

void
bench_drop_from_cache (const char *path)
{
  g_autoptr(GDir) folder = g_dir_open (path, 0, NULL);
  const char *name;
  int fd;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree char *inner = g_build_filename (path, name, NULL);

      bench_drop_from_cache (inner);
    }
  if (folder != NULL)
    return;

  fd = open (path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  /* What is not on the disk yet would stay. */
  fdatasync (fd);
  posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
  close (fd);
}

double
bench_read_proc_mib (guint       pid,
                     const char *file,
                     const char *key)
{
  g_autofree char *path = g_strdup_printf ("/proc/%u/%s", pid, file);
  g_autofree char *text = NULL;
  const char *line;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return 0;
  line = strstr (text, key);
  return line != NULL ? g_ascii_strtoull (line + strlen (key), NULL, 10) / 1024.0 : 0;
}
