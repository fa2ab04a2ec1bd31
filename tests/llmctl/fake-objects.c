/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A name on the session bus with objects that have the properties that a test gives:
 *
 *   fake-objects NAME [PATH INTERFACE PROPERTIES]…
 *
 * PROPERTIES is an a{sv} in GVariant's text format. “GetUnitByPID” and “LoadUnit” are answered,
 * too, with /unit, as the manager of systemd would, and a bus that asks for a unit to be started
 * is told that it is masked. Other methods fail with the error that FAKE_ERROR names, if it is set.
 * Prints a line when it is there, and stays until it is killed.
 */

#include <gio/gio.h>
#include <stdlib.h>

#define UNIT_PATH "/unit"

typedef struct
{
  const char *path;
  const char *interface;
  GVariant *properties;
} Object;

static GArray *objects;

static GVariant *
find_properties (const char *path,
                 const char *interface)
{
  for (guint i = 0; i < objects->len; i++)
    {
      const Object *object = &g_array_index (objects, Object, i);

      if (g_str_equal (object->path, path) && g_str_equal (object->interface, interface))
        return object->properties;
    }

  return NULL;
}

/* (transfer full) (nullable): the arguments of the reply. */
static GVariant *
answer (GDBusMessage *message)
{
  const char *member = g_dbus_message_get_member (message);
  GVariant *body = g_dbus_message_get_body (message);
  GVariant *properties = NULL;
  const char *interface;

  if (g_str_equal (member, "GetUnitByPID") || g_str_equal (member, "LoadUnit"))
    return g_variant_new ("(o)", UNIT_PATH);
  if (g_str_equal (member, "GetAll") && g_variant_is_of_type (body, G_VARIANT_TYPE ("(s)")))
    {
      g_variant_get (body, "(&s)", &interface);
      properties = find_properties (g_dbus_message_get_path (message), interface);
    }

  return properties != NULL ? g_variant_new ("(@a{sv})", properties) : NULL;
}

/* As systemd answers a dbus-daemon with --systemd-activation. */
static void
refuse_activation (GDBusConnection *bus,
                   GDBusMessage    *request)
{
  const char *unit = NULL;
  g_autofree char *text = NULL;

  g_variant_get (g_dbus_message_get_body (request), "(&s)", &unit);
  text = g_strdup_printf ("Unit %s is masked.", unit);
  g_dbus_connection_emit_signal (bus, "org.freedesktop.DBus", "/org/freedesktop/DBus",
                                 "org.freedesktop.systemd1.Activator", "ActivationFailure",
                                 g_variant_new ("(sss)", unit, "org.freedesktop.systemd1.UnitMasked",
                                                text), NULL);
}

static GDBusMessage *
on_message (GDBusConnection *bus,
            GDBusMessage    *message,
            gboolean         is_incoming,
            gpointer         data)
{
  g_autoptr(GDBusMessage) owned = message;
  g_autoptr(GDBusMessage) reply = NULL;
  const char *error = g_getenv ("FAKE_ERROR");
  GVariant *body;

  if (is_incoming && g_strcmp0 (g_dbus_message_get_member (message), "ActivationRequest") == 0)
    refuse_activation (bus, message);
  if (!is_incoming || g_dbus_message_get_message_type (message) != G_DBUS_MESSAGE_TYPE_METHOD_CALL)
    return g_steal_pointer (&owned);

  body = answer (message);
  if (body != NULL)
    {
      reply = g_dbus_message_new_method_reply (message);
      g_dbus_message_set_body (reply, body);
    }
  else
    {
      reply = g_dbus_message_new_method_error_literal (
          message, error != NULL ? error : "org.freedesktop.DBus.Error.UnknownMethod",
          error != NULL ? "It is refused" : "No such method");
    }
  g_dbus_connection_send_message (bus, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, NULL);
  return NULL;
}

static void
on_acquired (GDBusConnection *bus,
             const char      *name,
             gpointer         data)
{
  g_print ("%s is there\n", name);
}

static void
on_lost (GDBusConnection *bus,
         const char      *name,
         gpointer         data)
{
  g_printerr ("%s can't be owned\n", name);
  exit (EXIT_FAILURE);
}

int
main (int   argc,
      char *argv[])
{
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GError) error = NULL;

  objects = g_array_new (FALSE, FALSE, sizeof (Object));
  for (int i = 2; i + 2 < argc; i += 3)
    {
      Object object = { argv[i], argv[i + 1],
                        g_variant_parse (G_VARIANT_TYPE_VARDICT, argv[i + 2], NULL, NULL, &error) };

      if (object.properties == NULL)
        g_error ("%s: %s", argv[i + 2], error->message);
      g_array_append_val (objects, object);
    }

  bus = g_bus_get_sync (G_BUS_TYPE_SESSION, NULL, &error);
  if (bus == NULL)
    g_error ("%s", error->message);
  g_dbus_connection_add_filter (bus, on_message, NULL, NULL);
  g_bus_own_name_on_connection (bus, argv[1], G_BUS_NAME_OWNER_FLAGS_DO_NOT_QUEUE, on_acquired,
                                on_lost, NULL, NULL);
  g_main_loop_run (loop);
  return EXIT_SUCCESS;
}
