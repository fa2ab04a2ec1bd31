/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fake-service.h"

#include <gio/gunixfdlist.h>
#include <glib-unix.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "support/llm-test-bus.h"
#include "support/llm-test-folder.h"

#define NAME "org.llm.Service"
#define ROOT "/org/llm/Service"

struct _FakeService
{
  GTestDBus *bus;
  GDBusConnection *connection;   /* (nullable) (owned): while started */
  GDBusNodeInfo *info;           /* (nullable) (owned) */
  char *folder;
  guint level;
  int endless;                   /* the writing end of the last Endless(), or -1 */
  gboolean is_hanging;
};

static const char interfaces[] =
  "<node>"
  "<interface name='org.llm.Service'>"
  "  <property name='Version' type='s' access='read'/>"
  "  <property name='Level' type='u' access='readwrite'/>"
  "  <property name='Sizes' type='a{st}' access='read'/>"
  "  <property name='Nasty' type='s' access='read'/>"
  "  <method name='Echo'><arg name='text' type='s' direction='in'/>"
  "    <arg name='options' type='a{sv}' direction='in'/>"
  "    <arg name='text' type='s' direction='out'/></method>"
  "  <method name='Say'><arg name='messages' type='a(ssa{sv})' direction='in'/>"
  "    <arg name='options' type='a{sv}' direction='in'/>"
  "    <arg name='seen' type='s' direction='out'/></method>"
  "  <method name='Numbers'><arg name='whole' type='i' direction='in'/>"
  "    <arg name='real' type='d' direction='in'/><arg name='flag' type='b' direction='in'/>"
  "    <arg name='list' type='as' direction='in'/><arg name='anything' type='v' direction='in'/>"
  "    <arg name='seen' type='s' direction='out'/><arg name='n' type='u' direction='out'/>"
  "  </method>"
  "  <method name='Stream'><arg name='about' type='s' direction='out'/>"
  "    <arg name='stream' type='h' direction='out'/></method>"
  "  <method name='Long'><arg name='stream' type='h' direction='out'/></method>"
  "  <method name='Late'/>"
  "  <method name='Endless'><arg name='stream' type='h' direction='out'/></method>"
  "  <method name='NoStream'><arg name='stream' type='h' direction='out'/></method>"
  "  <method name='Nothing'/>"
  "  <method name='Hang'/>"
  "  <method name='Fail'><arg name='error' type='s' direction='in'/></method>"
  "</interface>"
  "<interface name='org.llm.Service.New'>"
  "  <method name='Paint'><arg name='colour' type='s' direction='in'/>"
  "    <arg name='layers' type='u' direction='in'/>"
  "    <arg name='options' type='a{sv}' direction='in'/>"
  "    <arg name='seen' type='s' direction='out'/></method>"
  "  <method name='Nothing'/>"
  "</interface>"
  "</node>";

/* What an installed interface file says of it. */
static const char documentation[] =
  "<node>"
  "<!-- org.llm.Service: @short_description: none\n\n -->"
  "<interface name='org.llm.Service'>"
  "  <!-- Version: Which one it is. -->"
  "  <property name='Version' type='s' access='read'/>"
  "  <!-- Echo:\n    @text: What is said again.\n\n    Says it again. And more. -->"
  "  <method name='Echo'><arg name='text' type='s' direction='in'/>"
  "    <arg name='options' type='a{sv}' direction='in'/>"
  "    <arg name='text' type='s' direction='out'/></method>"
  "</interface>"
  "<!--\n org.llm.Service.New:\n @short_description: What came later\n -->"
  "<interface name='org.llm.Service.New'>"
  "  <!--\n Paint:\n @colour: The colour of it.\n @layers: How thick.\n"
  "    @options: `style` (s: `plain`, `wild`), how it is\n painted; `tags` (as), words for it;"
  "      `title` (s), its name.\n\n Paints a picture.\n -->"
  "  <method name='Paint'><arg name='colour' type='s' direction='in'/>"
  "    <arg name='layers' type='u' direction='in'/>"
  "    <arg name='options' type='a{sv}' direction='in'/>"
  "    <arg name='seen' type='s' direction='out'/></method>"
  "</interface>"
  "<interface name='org.llm.Service.Elsewhere'><method name='Hide'/></interface>"
  "</node>";

/* Introspection data of the hostile objects; NULL for a reply of another type. */
static const char *const hostile[] = {
  "",
  "<node",
  "<node><interface name='org.llm.Service'><method name='Nothing'><arg type='('/></method>"
  "</interface></node>",
  "<node><interface name='a b'/><interface/><interface name='org.ok.Ok'><method name='\033[2J'/>"
  "<method name='Fine'/></interface></node>",
  "<a><b><c><d><e><f><g><h><i><j><k><l><m><n><o><p><q><r/></q></p></o></n></m></l></k></j></i></h>"
  "</g></f></e></d></c></b></a>",
  "<node><node name='../..'/><node name=''/><node name='/'/><node name='a b'/><node/></node>",
  NULL,
};

guint
fake_service_count_hostile (void)
{
  return G_N_ELEMENTS (hostile);
}

/* --- the objects --- */

/* @about (nullable) comes before the stream. */
static void
answer_stream (GDBusMethodInvocation *invocation,
               const char            *about,
               const char            *text)
{
  g_autoptr(GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr(GError) error = NULL;
  gssize length = (gssize) strlen (text);
  int ends[2];

  g_assert_true (g_unix_open_pipe (ends, FD_CLOEXEC, &error));
  g_assert_cmpint (g_unix_fd_list_append (fds, ends[0], &error), ==, 0);
  close (ends[0]);
  g_assert_cmpint (write (ends[1], text, (gsize) length), ==, length);
  close (ends[1]);
  g_dbus_method_invocation_return_value_with_unix_fd_list (
    invocation, about != NULL ? g_variant_new ("(sh)", about, 0) : g_variant_new ("(h)", 0), fds);
}

/* A character of two bytes stands where a reader's buffer is likely to end. */
static void
answer_long (GDBusMethodInvocation *invocation)
{
  g_autofree char *text = g_strnfill (8191 + 2, 'x');

  memcpy (text + 8191, "ä", 2);
  answer_stream (invocation, NULL, text);
}

static gboolean
answer_late (gpointer user_data)
{
  g_dbus_method_invocation_return_value (user_data, NULL);
  return G_SOURCE_REMOVE;
}

/* Says something, and then nothing more, until the service ends. */
static void
answer_endless (FakeService           *self,
                GDBusMethodInvocation *invocation)
{
  g_autoptr(GUnixFDList) fds = g_unix_fd_list_new ();
  g_autoptr(GError) error = NULL;
  int ends[2];

  g_assert_true (g_unix_open_pipe (ends, FD_CLOEXEC, &error));
  g_assert_cmpint (g_unix_fd_list_append (fds, ends[0], &error), ==, 0);
  close (ends[0]);
  g_assert_cmpint (write (ends[1], "so far", 6), ==, 6);
  if (self->endless >= 0)
    close (self->endless);
  self->endless = ends[1];
  self->is_hanging = TRUE;
  g_dbus_method_invocation_return_value_with_unix_fd_list (invocation, g_variant_new ("(h)", 0),
                                                           fds);
}

static void
on_call (GDBusConnection       *connection,
         const char            *sender,
         const char            *path,
         const char            *interface,
         const char            *method,
         GVariant              *parameters,
         GDBusMethodInvocation *invocation,
         gpointer               user_data)
{
  FakeService *self = user_data;
  g_autofree char *seen = g_variant_print (parameters, TRUE);

  if (g_str_equal (method, "Echo"))
    {
      g_autoptr(GVariant) text = g_variant_get_child_value (parameters, 0);

      g_dbus_method_invocation_return_value (invocation, g_variant_new ("(@s)", text));
    }
  else if (g_str_equal (method, "Say") || g_str_equal (method, "Paint"))
    g_dbus_method_invocation_return_value (invocation, g_variant_new ("(s)", seen));
  else if (g_str_equal (method, "Numbers"))
    g_dbus_method_invocation_return_value (invocation, g_variant_new ("(su)", seen, 7));
  else if (g_str_equal (method, "Stream"))
    answer_stream (invocation, "about", "one\ntwoä\033[2J");
  else if (g_str_equal (method, "Long"))
    answer_long (invocation);
  else if (g_str_equal (method, "Late"))
    g_timeout_add_seconds (10, answer_late, invocation);
  else if (g_str_equal (method, "Endless"))
    answer_endless (self, invocation);
  else if (g_str_equal (method, "NoStream"))
    g_dbus_method_invocation_return_value (invocation, g_variant_new ("(h)", 5));
  else if (g_str_equal (method, "Nothing"))
    g_dbus_method_invocation_return_value (invocation, NULL);
  else if (g_str_equal (method, "Fail"))
    {
      const char *name;

      g_variant_get (parameters, "(&s)", &name);
      g_dbus_method_invocation_return_dbus_error (invocation, name, "It is \033[31mbroken");
    }
  else
    {
      g_assert_cmpstr (method, ==, "Hang");
      self->is_hanging = TRUE;
      /* No answer will follow. */
      g_object_unref (invocation);
    }
}

static GVariant *
on_get (GDBusConnection  *connection,
        const char       *sender,
        const char       *path,
        const char       *interface,
        const char       *property,
        GError          **error,
        gpointer          user_data)
{
  FakeService *self = user_data;

  if (g_str_equal (property, "Level"))
    return g_variant_new_uint32 (self->level);
  if (g_str_equal (property, "Sizes"))
    return g_variant_new_parsed ("{'small': uint64 1, 'large': 18446744073709551615}");
  return g_variant_new_string (g_str_equal (property, "Nasty") ? "\033[2J\xc2\x9b" "red" : "1.5");
}

static gboolean
on_set (GDBusConnection  *connection,
        const char       *sender,
        const char       *path,
        const char       *interface,
        const char       *property,
        GVariant         *value,
        GError          **error,
        gpointer          user_data)
{
  FakeService *self = user_data;

  self->level = g_variant_get_uint32 (value);
  return TRUE;
}

static const GDBusInterfaceVTable vtable = { on_call, on_get, on_set };

static void
register_object (FakeService *self,
                 const char  *path)
{
  for (guint i = 0; self->info->interfaces[i] != NULL; i++)
    {
      g_autoptr(GError) error = NULL;

      g_dbus_connection_register_object (self->connection, path, self->info->interfaces[i],
                                         &vtable, self, NULL, &error);
      g_assert_no_error (error);
    }
}

/* Answers introspection of the hostile objects before GDBus does. Its own thread. */
static GDBusMessage *
on_message (GDBusConnection *connection,
            GDBusMessage    *message,
            gboolean         is_incoming,
            gpointer         user_data)
{
  const char *path = g_dbus_message_get_path (message);
  g_autoptr(GDBusMessage) reply = NULL;
  guint64 i;

  if (!is_incoming || path == NULL || !g_str_has_prefix (path, ROOT "/hostile/") ||
      g_strcmp0 (g_dbus_message_get_member (message), "Introspect") != 0)
    return message;

  i = g_ascii_strtoull (path + strlen (ROOT "/hostile/"), NULL, 10);
  if (i >= G_N_ELEMENTS (hostile))
    return message;
  reply = g_dbus_message_new_method_reply (message);
  g_dbus_message_set_body (reply, hostile[i] != NULL ? g_variant_new ("(s)", hostile[i])
                                                     : g_variant_new ("(u)", 5));
  g_dbus_connection_send_message (connection, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, NULL);
  g_object_unref (message);
  return NULL;
}

/* --- the bus --- */

static void
write_file (FakeService *self,
            const char  *name,
            const char  *content)
{
  g_autofree char *path = g_build_filename (self->folder, name, NULL);
  g_autofree char *folder = g_path_get_dirname (path);
  g_autoptr(GError) error = NULL;

  g_assert_cmpint (g_mkdir_with_parents (folder, 0700), ==, 0);
  g_file_set_contents (path, content, -1, &error);
  g_assert_no_error (error);
}

FakeService *
fake_service_new (void)
{
  FakeService *self = g_new0 (FakeService, 1);
  g_autofree char *data = NULL;
  g_autofree char *activation = NULL;
  g_autofree char *services = NULL;

  self->folder = llm_test_folder_new ();
  self->level = 3;
  self->endless = -1;

  write_file (self, "data/dbus-1/interfaces/" NAME ".xml", documentation);
  activation = g_strdup_printf ("[D-BUS Service]\nName=" NAME "\n"
                                "Exec=/bin/sh -c 'touch %s/started; exit 1'\n", self->folder);
  write_file (self, "services/" NAME ".service", activation);
  services = g_build_filename (self->folder, "services", NULL);
  data = g_build_filename (self->folder, "data", NULL);
  g_setenv ("XDG_DATA_DIRS", data, TRUE);
  g_setenv ("XDG_DATA_HOME", "/nonexistent", TRUE);
  g_setenv ("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nonexistent/bus", TRUE);

  self->bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_add_service_dir (self->bus, services);
  llm_test_bus_up (self->bus);
  return self;
}

void
fake_service_start (FakeService *self)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = NULL;

  self->connection = llm_test_bus_connect (self->bus);
  self->info = g_dbus_node_info_new_for_xml (interfaces, &error);
  g_assert_no_error (error);
  register_object (self, ROOT);
  register_object (self, ROOT "/things/10");
  register_object (self, ROOT "/things/9");
  g_dbus_connection_add_filter (self->connection, on_message, NULL, NULL);

  reply = g_dbus_connection_call_sync (self->connection, "org.freedesktop.DBus",
                                       "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                       "RequestName", g_variant_new ("(su)", NAME, 0), NULL,
                                       G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
  g_assert_no_error (error);
}

void
fake_service_free (FakeService *self)
{
  if (self->connection != NULL)
    {
      g_dbus_connection_close_sync (self->connection, NULL, NULL);
      g_object_unref (self->connection);
      g_dbus_node_info_unref (self->info);
    }
  if (self->endless >= 0)
    close (self->endless);
  llm_test_bus_down (self->bus);
  g_object_unref (self->bus);
  llm_test_folder_remove (self->folder);
  g_free (self->folder);
  g_free (self);
}

gboolean
fake_service_was_started (FakeService *self)
{
  g_autofree char *path = g_build_filename (self->folder, "started", NULL);

  return g_file_test (path, G_FILE_TEST_EXISTS);
}

gboolean
fake_service_take_hanging (FakeService *self)
{
  gboolean is_hanging = self->is_hanging;

  self->is_hanging = FALSE;
  return is_hanging;
}
