/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A caller on the bus for test-system-bus: takes the user, the control group and the root that it
 * is told, connects, and then calls what its input says. Started as root.
 *
 * A line of input is "PATH INTERFACE METHOD ARGUMENTS", the arguments as GVariant text; a line of
 * output is "+ REPLY", or "- ERROR" with the name that came over the bus. The first line of
 * output is the process id that connected and the unique name.
 */

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <grp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SERVICE "org.llm.Service"
#define TIMEOUT_MS 60000

static char *opt_socket;
static int opt_uid = -1;
static char *opt_group;
static char *opt_root;
static gboolean opt_sandbox;
static gboolean opt_leave;

static const GOptionEntry options[] = {
  { "socket", 0, 0, G_OPTION_ARG_FILENAME, &opt_socket, "The bus's", "PATH" },
  { "uid", 0, 0, G_OPTION_ARG_INT, &opt_uid, "The user", "N" },
  { "group", 0, 0, G_OPTION_ARG_FILENAME, &opt_group, "A control group's folder", "PATH" },
  { "root", 0, 0, G_OPTION_ARG_FILENAME, &opt_root, "The root, in a name space of mounts", "PATH" },
  { "sandbox", 0, 0, G_OPTION_ARG_NONE, &opt_sandbox, "A root as bwrap makes it, with the root's Flatpak info", NULL },
  { "leave", 0, 0, G_OPTION_ARG_NONE, &opt_leave, "Another process than that which connected calls",
    NULL },
  { NULL },
};

static void
fail (const char *what)
{
  fprintf (stderr, "system-caller: %s: %s\n", what, g_strerror (errno));
  _exit (1);
}

static void
join_group (const char *folder)
{
  g_autofree char *path = g_build_filename (folder, "cgroup.procs", NULL);
  int fd = open (path, O_WRONLY | O_CLOEXEC);

  if (fd < 0 || write (fd, "0", 1) != 1)
    fail (path);
  close (fd);
}

static void
enter_root (const char *folder)
{
  g_autofree char *new_root = g_build_filename (folder, opt_sandbox ? "newroot" : "", NULL);
  g_autofree char *info_path = g_build_filename (folder, ".flatpak-info", NULL);
  g_autofree char *new_info_path = g_build_filename (new_root, ".flatpak-info", NULL);
  g_autofree char *info = NULL;

  if (unshare (CLONE_NEWNS) != 0 || mount (NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
    fail (folder);
  if (opt_sandbox)
    {
      g_file_get_contents (info_path, &info, NULL, NULL);
      if (mount ("tmpfs", folder, "tmpfs", 0, "mode=755,size=1M") != 0 || mkdir (new_root, 0755) != 0)
        fail (folder);
      if (info != NULL && !g_file_set_contents (new_info_path, info, -1, NULL))
        fail (new_info_path);
    }
  if (mount (new_root, new_root, NULL, MS_BIND, NULL) != 0 || chroot (new_root) != 0 || chdir ("/") != 0)
    fail (new_root);
}

/* The kernel notes who connects here: user and process. */
static int
connect_socket (void)
{
  struct sockaddr_un address = { .sun_family = AF_UNIX };
  int fd = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  g_strlcpy (address.sun_path, opt_socket, sizeof address.sun_path);
  if (fd < 0 || connect (fd, (struct sockaddr *) &address, sizeof address) != 0)
    fail (opt_socket);
  return fd;
}

static GDBusConnection *
make_connection (int fd)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GSocket) socket = g_socket_new_from_fd (fd, &error);
  g_autoptr(GSocketConnection) stream = NULL;
  GDBusConnection *connection;

  g_assert_no_error (error);
  stream = g_socket_connection_factory_create_connection (socket);
  connection = g_dbus_connection_new_sync (G_IO_STREAM (stream), NULL,
                                           G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                             G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                           NULL, NULL, &error);
  g_assert_no_error (error);
  return connection;
}

static void
answer (GDBusConnection *connection,
        const char      *line)
{
  g_auto(GStrv) parts = g_strsplit (line, " ", 4);
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) arguments = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autofree char *text = NULL;

  g_assert_cmpuint (g_strv_length (parts), ==, 4);
  arguments = g_variant_parse (NULL, parts[3], NULL, NULL, &error);
  g_assert_no_error (error);
  reply = g_dbus_connection_call_sync (
    connection, g_str_has_prefix (parts[1], "org.freedesktop.DBus") && g_str_equal (parts[0], "/")
                  ? "org.freedesktop.DBus" : SERVICE,
    parts[0], parts[1], parts[2], g_steal_pointer (&arguments), NULL, G_DBUS_CALL_FLAGS_NONE,
    TIMEOUT_MS, NULL, &error);

  if (reply != NULL)
    text = g_variant_print (reply, FALSE);
  else
    text = g_dbus_error_get_remote_error (error);
  printf ("%c %s\n", reply != NULL ? '+' : '-', text != NULL ? text : error->message);
  fflush (stdout);
}

int
main (int   argc,
      char *argv[])
{
  g_autoptr(GOptionContext) context = g_option_context_new (NULL);
  g_autoptr(GDBusConnection) connection = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *line = NULL;
  size_t size = 0;
  int pid, fd;

  g_option_context_add_main_entries (context, options, NULL);
  g_option_context_parse (context, &argc, &argv, &error);
  g_assert_no_error (error);
  if (opt_group != NULL)
    join_group (opt_group);
  if (setgroups (0, NULL) != 0 ||
      setresgid ((gid_t) opt_uid, (gid_t) opt_uid, (gid_t) opt_uid) != 0)
    fail ("setresgid");

  /* the name space needs root, the connection the user */
  if (seteuid ((uid_t) opt_uid) != 0)
    fail ("seteuid");
  pid = getpid ();
  fd = connect_socket ();
  if (seteuid (0) != 0)
    fail ("seteuid");
  if (opt_root != NULL)
    enter_root (opt_root);
  if (setresuid ((uid_t) opt_uid, (uid_t) opt_uid, (uid_t) opt_uid) != 0)
    fail ("setresuid");
  /* as a program that its user started: the user may look at it */
  if (prctl (PR_SET_DUMPABLE, 1) != 0)
    fail ("prctl");

  if (opt_leave && fork () > 0)
    _exit (0);
  connection = make_connection (fd);
  printf ("%d %s\n", pid, g_dbus_connection_get_unique_name (connection));
  fflush (stdout);

  while (getline (&line, &size, stdin) > 0)
    {
      g_strchomp (line);
      answer (connection, line);
    }
  return 0;
}
