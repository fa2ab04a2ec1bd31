/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fuzz/fuzz-bus-call.h"

#include <fcntl.h>
#include <string.h>

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>

#include "common/llmsvc-names.h"

#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"
#define BUS_ERROR_PREFIX "org.freedesktop.DBus.Error."
#define MAX_PRINTED 400

static const char *
pick (const FuzzBusHints *hints,
      GPtrArray          *strings,
      const char         *fallback)
{
  return strings->len > 0 ? g_ptr_array_index (strings, fuzz_bus_below (hints, strings->len))
                          : fallback;
}

/* --- building --- */

/* Contexts and the manager more often than what has little to say. */
static FuzzBusKind
choose_kind (const FuzzBusHints *hints,
             FuzzBusWorld       *world)
{
  static const guint8 weights[FUZZ_BUS_N_KINDS] = {
    [FUZZ_BUS_MANAGER] = 34, [FUZZ_BUS_MODELS] = 2, [FUZZ_BUS_MODEL] = 3, [FUZZ_BUS_CONTEXTS] = 2,
    [FUZZ_BUS_CONTEXT] = 48, [FUZZ_BUS_GENERATIONS] = 1, [FUZZ_BUS_GENERATION] = 10,
  };
  guint dice = fuzz_bus_below (hints, 100);
  guint kind = 0;

  while (kind + 1 < FUZZ_BUS_N_KINDS && dice >= weights[kind])
    dice -= weights[kind++];
  if (world->paths[kind]->len == 0 || world->methods[kind]->len == 0)
    return FUZZ_BUS_MANAGER;
  return kind;
}

static GVariant *
make_property_arguments (const FuzzBusHints  *hints,
                         FuzzBusWorld        *world,
                         const FuzzBusMethod *method)
{
  const char *interface = pick (hints, world->interfaces, LLMSVC_INTERFACE);
  const char *property = pick (hints, world->properties, "Version");

  if (g_str_equal (method->name, "GetAll"))
    return g_variant_new ("(s)", interface);
  if (g_str_equal (method->name, "Set"))
    return g_variant_new ("(ssv)", interface, property, fuzz_bus_any_value (hints));
  return g_variant_new ("(ss)", interface, property);
}

static GVariant *
make_arguments (const FuzzBusHints  *hints,
                FuzzBusWorld        *world,
                const FuzzBusMethod *method)
{
  GVariantBuilder builder;

  if (g_str_equal (method->interface, PROPERTIES_INTERFACE) && fuzz_bus_chance (hints, 85))
    return make_property_arguments (hints, world, method);
  g_variant_builder_init (&builder, G_VARIANT_TYPE_TUPLE);
  for (guint i = 0; i < method->in->len; i++)
    g_variant_builder_add_value (
      &builder, fuzz_bus_value (hints, G_VARIANT_TYPE (g_ptr_array_index (method->in, i))));
  return g_variant_builder_end (&builder);
}

/* Of other types, or another number of them. */
static GVariant *
make_wrong_arguments (const FuzzBusHints  *hints,
                      const FuzzBusMethod *method)
{
  guint n = fuzz_bus_chance (hints, 50) ? method->in->len : fuzz_bus_below (hints, 6);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_TUPLE);
  for (guint i = 0; i < n; i++)
    {
      if (i < method->in->len && fuzz_bus_chance (hints, 60))
        g_variant_builder_add_value (
          &builder, fuzz_bus_value (hints, G_VARIANT_TYPE (g_ptr_array_index (method->in, i))));
      else
        g_variant_builder_add_value (&builder, fuzz_bus_any_value (hints));
    }
  return g_variant_builder_end (&builder);
}

/* A descriptor that nobody asked for. */
static void
add_descriptor (GDBusMessage *message)
{
  g_autoptr(GUnixFDList) fds = g_unix_fd_list_new ();
  int fd = g_open ("/dev/null", O_RDONLY | O_CLOEXEC, 0);

  if (fd < 0)
    return;
  g_unix_fd_list_append (fds, fd, NULL);
  g_close (fd, NULL);
  g_dbus_message_set_unix_fd_list (message, fds);
}

/* What no caller should send: replies and errors to calls the service made, or did not; signals
 * that look like the bus's. */
static GDBusMessage *
make_stray_message (const FuzzBusHints *hints,
                    FuzzBusWorld       *world)
{
  g_autofree char *path = fuzz_bus_path (hints);
  GDBusMessage *message = g_dbus_message_new ();
  GVariant *body = g_variant_new_tuple ((GVariant *[]) { fuzz_bus_any_value (hints) }, 1);

  g_dbus_message_set_destination (message, LLMSVC_BUS_NAME);
  switch (fuzz_bus_below (hints, 3))
    {
    case 0:
      g_dbus_message_set_message_type (message, G_DBUS_MESSAGE_TYPE_METHOD_RETURN);
      g_dbus_message_set_reply_serial (message, 1 + fuzz_bus_below (hints, 200));
      break;
    case 1:
      g_dbus_message_set_message_type (message, G_DBUS_MESSAGE_TYPE_ERROR);
      g_dbus_message_set_reply_serial (message, 1 + fuzz_bus_below (hints, 200));
      g_dbus_message_set_error_name (message, "org.freedesktop.DBus.Error.NoReply");
      break;
    default:
      g_dbus_message_set_message_type (message, G_DBUS_MESSAGE_TYPE_SIGNAL);
      g_dbus_message_set_path (message, path);
      g_dbus_message_set_interface (message, pick (hints, world->interfaces, LLMSVC_INTERFACE));
      g_dbus_message_set_member (message, fuzz_bus_chance (hints, 50) ? "NameOwnerChanged"
                                                                      : "PropertiesChanged");
      break;
    }
  g_dbus_message_set_body (message, body);
  return message;
}

/* A call of a method that is not there, on something that may be. */
static GDBusMessage *
make_unknown_call (const FuzzBusHints *hints,
                   FuzzBusWorld       *world)
{
  static const char *const members[] = { "Generate", "Ask", "NoSuchMethod", "Introspect", "Get",
                                         "Ping", "GetManagedObjects", "Quit" };
  g_autofree char *path = fuzz_bus_path (hints);
  GDBusMessage *message = g_dbus_message_new_method_call (
    LLMSVC_BUS_NAME, path,
    fuzz_bus_chance (hints, 20) ? NULL : pick (hints, world->interfaces, LLMSVC_INTERFACE),
    members[fuzz_bus_below (hints, G_N_ELEMENTS (members))]);

  if (fuzz_bus_chance (hints, 50))
    g_dbus_message_set_body (message,
                             g_variant_new_tuple ((GVariant *[]) { fuzz_bus_any_value (hints) }, 1));
  return message;
}

static void
make_known_call (FuzzBusCall        *self,
                 const FuzzBusHints *hints,
                 FuzzBusWorld       *world)
{
  FuzzBusKind kind = choose_kind (hints, world);
  GPtrArray *methods = world->methods[kind];
  const FuzzBusMethod *method = g_ptr_array_index (methods, fuzz_bus_below (hints, methods->len));
  g_autofree char *strange = fuzz_bus_path (hints);
  const char *path = hints->is_polite || fuzz_bus_chance (hints, 90)
                       ? pick (hints, world->paths[kind], strange) : strange;

  self->message = g_dbus_message_new_method_call (LLMSVC_BUS_NAME, path, method->interface,
                                                  method->name);
  if (hints->is_polite || fuzz_bus_chance (hints, 80))
    {
      g_dbus_message_set_body (self->message, make_arguments (hints, world, method));
      self->expected = g_strdup (method->out);
    }
  else
    {
      g_dbus_message_set_body (self->message, make_wrong_arguments (hints, method));
    }
  if (fuzz_bus_chance (hints, 2))
    add_descriptor (self->message);
  if (fuzz_bus_chance (hints, 3))
    {
      g_dbus_message_set_flags (self->message, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
      self->wants_reply = FALSE;
    }
}

FuzzBusCall *
fuzz_bus_call_new (FuzzBusHints    *hints,
                   FuzzBusWorld    *world,
                   GDBusConnection *sender)
{
  FuzzBusCall *self = g_new0 (FuzzBusCall, 1);

  self->sender = g_object_ref (sender);
  self->wants_reply = TRUE;
  hints->is_polite = fuzz_bus_chance (hints, 50);
  switch (fuzz_bus_below (hints, 50))
    {
    case 0:
      self->message = make_stray_message (hints, world);
      self->wants_reply = FALSE;
      break;
    case 1:
      self->message = make_unknown_call (hints, world);
      break;
    default:
      make_known_call (self, hints, world);
      break;
    }
  return self;
}

void
fuzz_bus_call_free (FuzzBusCall *self)
{
  g_object_unref (self->message);
  g_object_unref (self->sender);
  g_free (self->expected);
  g_clear_object (&self->reply);
  g_clear_error (&self->failure);
  g_free (self);
}

/* --- sending --- */

static void
on_replied (GObject      *source,
            GAsyncResult *result,
            gpointer      data)
{
  FuzzBusCall *self = data;

  self->reply = g_dbus_connection_send_message_with_reply_finish (G_DBUS_CONNECTION (source),
                                                                  result, &self->failure);
  self->ended = g_get_monotonic_time ();
}

void
fuzz_bus_call_send (FuzzBusCall *self)
{
  self->sent = g_get_monotonic_time ();
  if (self->wants_reply)
    {
      g_dbus_connection_send_message_with_reply (self->sender, self->message,
                                                 G_DBUS_SEND_MESSAGE_FLAGS_NONE, G_MAXINT, NULL,
                                                 NULL, on_replied, self);
      return;
    }
  g_dbus_connection_send_message (self->sender, self->message, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                  &self->failure);
  self->ended = self->sent;
}

/* --- judging --- */

static void
take_paths (GVariant     *value,
            FuzzBusWorld *world)
{
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_OBJECT_PATH))
    {
      fuzz_bus_world_add_path (world, g_variant_get_string (value, NULL));
      return;
    }
  if (!g_variant_is_container (value))
    return;
  for (gsize i = 0; i < g_variant_n_children (value); i++)
    {
      g_autoptr(GVariant) child = g_variant_get_child_value (value, i);

      take_paths (child, world);
    }
}

static void
take_descriptors (GDBusMessage *reply,
                  GArray       *fds)
{
  GUnixFDList *list = g_dbus_message_get_unix_fd_list (reply);
  gint n = 0;
  g_autofree int *stolen = list != NULL ? g_unix_fd_list_steal_fds (list, &n) : NULL;

  if (n > 0)
    g_array_append_vals (fds, stolen, (guint) n);
}

const char *
fuzz_bus_call_judge (FuzzBusCall  *self,
                     FuzzBusWorld *world,
                     GArray       *fds,
                     GError      **error)
{
  const char *name;
  GVariant *body;

  /* the connection was closed, by us or by the bus that did not like the message */
  if (self->reply == NULL)
    return self->failure != NULL ? "gone" : "no reply wanted";
  if (g_dbus_message_get_message_type (self->reply) == G_DBUS_MESSAGE_TYPE_ERROR)
    {
      name = g_dbus_message_get_error_name (self->reply);
      /* another caller may still see it; but not often */
      if (g_str_has_suffix (name, ".UnknownObject"))
        fuzz_bus_world_drop_path (world, g_dbus_message_get_path (self->message));
      if (g_str_has_prefix (name, LLMSVC_ERROR_PREFIX) ||
          (g_str_has_prefix (name, BUS_ERROR_PREFIX) &&
           !g_str_has_suffix (name, ".NoReply") && !g_str_has_suffix (name, ".ServiceUnknown")))
        return name;
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "An error of the name %s", name);
      return NULL;
    }

  body = g_dbus_message_get_body (self->reply);
  take_descriptors (self->reply, fds);
  if (body != NULL && g_variant_get_size (body) < 1024 * 1024)
    take_paths (body, world);
  if (self->expected != NULL &&
      g_strcmp0 (body != NULL ? g_variant_get_type_string (body) : "()", self->expected) != 0)
    {
      g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "A reply of type %s instead of %s",
                   body != NULL ? g_variant_get_type_string (body) : "()", self->expected);
      return NULL;
    }
  return "ok";
}

char *
fuzz_bus_call_print (FuzzBusCall *self)
{
  GVariant *body = g_dbus_message_get_body (self->message);
  g_autofree char *arguments = body != NULL ? g_variant_print (body, TRUE) : g_strdup ("()");
  const char *path = g_dbus_message_get_path (self->message);
  const char *interface = g_dbus_message_get_interface (self->message);
  const char *member = g_dbus_message_get_member (self->message);

  if (strlen (arguments) > MAX_PRINTED)
    memcpy (arguments + MAX_PRINTED, "…", sizeof "…");
  return g_strdup_printf ("%s %s.%s %s%s%s", path != NULL ? path : "-",
                          interface != NULL ? interface : "-", member != NULL ? member : "-",
                          arguments, self->wants_reply ? "" : " (no reply wanted)",
                          self->ended == 0 ? " UNANSWERED" : "");
}
