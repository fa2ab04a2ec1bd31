/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fake-service.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gunixfdlist.h>
#include <signal.h>
#include <unistd.h>

#define NAME "org.llm.Service"

struct _FakeService
{
  GTestDBus *bus;
  GDBusConnection *connection;
  guint filter;

  GMutex lock;
  GHashTable *replies;    /* (element-type utf8 utf8): method to the text of a tuple */
  GHashTable *errors;     /* (element-type utf8 utf8): method to the name of an error */
  GHashTable *arguments;  /* (element-type utf8 GVariant): method to its last ones */
  GBytes *pipe;
  guint64 revisions[2];
  guint n_revisions;
};

static const struct
{
  const char *method;
  const char *body;
} sensible[] = {
  { "Register", "()" },
  { "CreateContext", "(objectpath '/org/llm/Service/contexts/c1',)" },
  { "OpenContext", "(objectpath '/org/llm/Service/contexts/c1',)" },
  { "Fork", "(objectpath '/org/llm/Service/contexts/c2',)" },
  { "ListContexts", "(@a(oa{sv}) [],)" },
  { "CountTokens", "(uint32 7,)" },
  { "Complete", "('whole', @a{sv} {})" },
  { "Generate", "(objectpath '/org/llm/Service/generations/g1', handle 0)" },
  { "GetMessages", "(@a(ssa{sv}) [],)" },
  { "GetMemory", "(@a{sv} {},)" },
  { "Append", "(uint32 3,)" },
  { "GetAll", "({'Availability': <'ready'>, 'Version': <'1'>, 'ApiVersion': <uint32 1>, "
              "'Tokens': <uint32 5>, 'Revision': <uint64 1>, 'Residency': <'memory'>},)" },
  { "GetManagedObjects", "(@a{oa{sa{sv}}} {},)" },
};

/* (transfer full): what is set, or what is sensible, for a method without a reply "()". */
static char *
dup_reply (FakeService *self,
           const char  *method)
{
  const char *body;

  if (g_hash_table_lookup_extended (self->replies, method, NULL, (gpointer *) &body))
    return g_strdup (body);
  for (gsize i = 0; i < G_N_ELEMENTS (sensible); i++)
    if (g_str_equal (sensible[i].method, method))
      return g_strdup (sensible[i].body);

  return g_strdup ("()");
}

typedef struct
{
  int fd;
  GBytes *bytes;
} Writing;

/* The reader may leave at any time. */
static gpointer
write_pipe (gpointer data)
{
  Writing *writing = data;
  gsize length, done = 0;
  const char *bytes = g_bytes_get_data (writing->bytes, &length);
  ssize_t n = 0;

  while (done < length && (n >= 0 || errno == EINTR))
    {
      n = write (writing->fd, bytes + done, length - done);
      done += n > 0 ? (gsize) n : 0;
    }
  close (writing->fd);
  g_bytes_unref (writing->bytes);
  g_free (writing);
  return NULL;
}

static void
add_pipe (FakeService  *self,
          GDBusMessage *reply)
{
  g_autoptr(GUnixFDList) list = NULL;
  Writing *writing;
  int fds[2];

  if (self->pipe == NULL)
    return;

  g_assert_cmpint (pipe2 (fds, O_CLOEXEC), ==, 0);
  list = g_unix_fd_list_new_from_array (fds, 1);
  g_dbus_message_set_unix_fd_list (reply, list);
  writing = g_new (Writing, 1);
  *writing = (Writing) { fds[1], g_bytes_ref (self->pipe) };
  g_thread_unref (g_thread_new ("writer", write_pipe, writing));
}

static void
answer (FakeService  *self,
        GDBusMessage *call)
{
  const char *method = g_dbus_message_get_member (call);
  GVariant *arguments = g_dbus_message_get_body (call);
  g_autoptr(GDBusMessage) reply = NULL;
  g_autofree char *body = dup_reply (self, method);
  const char *error = g_hash_table_lookup (self->errors, method);

  g_hash_table_insert (self->arguments, g_strdup (method),
                       arguments != NULL ? g_variant_ref (arguments) : NULL);
  if (g_dbus_message_get_flags (call) & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED)
    return;

  if (error != NULL)
    {
      reply = g_dbus_message_new_method_error_literal (call, error, "It went wrong");
    }
  else if (g_str_equal (method, "Get") &&
           !g_hash_table_contains (self->replies, "Get"))
    {
      reply = g_dbus_message_new_method_reply (call);
      g_dbus_message_set_body (
        reply, g_variant_new ("(v)", g_variant_new_uint64 (
                                       self->revisions[self->n_revisions++ > 0 ? 1 : 0])));
    }
  else if (body != NULL)
    {
      reply = g_dbus_message_new_method_reply (call);
      g_dbus_message_set_body (reply, g_variant_new_parsed (body));
      if (g_str_equal (method, "Generate"))
        add_pipe (self, reply);
    }
  if (reply != NULL)
    g_dbus_connection_send_message (self->connection, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                    NULL);
}

/* In GDBus's thread. */
static GDBusMessage *
filter (GDBusConnection *connection,
        GDBusMessage    *message,
        gboolean         is_incoming,
        gpointer         data)
{
  FakeService *self = data;

  if (!is_incoming ||
      g_dbus_message_get_message_type (message) != G_DBUS_MESSAGE_TYPE_METHOD_CALL)
    return message;

  g_mutex_lock (&self->lock);
  answer (self, message);
  g_mutex_unlock (&self->lock);
  g_object_unref (message);
  return NULL;
}

static void
clear_variant (gpointer data)
{
  if (data != NULL)
    g_variant_unref (data);
}

FakeService *
fake_service_new (void)
{
  FakeService *self = g_new0 (FakeService, 1);
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;

  signal (SIGPIPE, SIG_IGN);
  g_mutex_init (&self->lock);
  self->replies = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->errors = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->arguments = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, clear_variant);
  self->revisions[0] = self->revisions[1] = 1;

  self->bus = g_test_dbus_new (G_TEST_DBUS_NONE);
  g_test_dbus_up (self->bus);
  self->connection = fake_service_connect (self);
  self->filter = g_dbus_connection_add_filter (self->connection, filter, self, NULL);
  reply = g_dbus_connection_call_sync (self->connection, "org.freedesktop.DBus",
                                       "/org/freedesktop/DBus", "org.freedesktop.DBus",
                                       "RequestName", g_variant_new ("(su)", NAME, 0), NULL,
                                       G_DBUS_CALL_FLAGS_NONE, -1, NULL, &error);
  g_assert_no_error (error);
  return self;
}

void
fake_service_free (FakeService *self)
{
  g_dbus_connection_remove_filter (self->connection, self->filter);
  g_dbus_connection_close_sync (self->connection, NULL, NULL);
  g_object_unref (self->connection);
  g_test_dbus_down (self->bus);
  g_object_unref (self->bus);
  g_hash_table_unref (self->replies);
  g_hash_table_unref (self->errors);
  g_hash_table_unref (self->arguments);
  g_clear_pointer (&self->pipe, g_bytes_unref);
  g_mutex_clear (&self->lock);
  g_free (self);
}

GDBusConnection *
fake_service_connect (FakeService *self)
{
  g_autoptr(GError) error = NULL;
  GDBusConnection *connection;

  connection = g_dbus_connection_new_for_address_sync (
    g_test_dbus_get_bus_address (self->bus),
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, &error);
  g_assert_no_error (error);
  return connection;
}

void
fake_service_set_reply (FakeService *self,
                        const char  *method,
                        const char  *body)
{
  g_mutex_lock (&self->lock);
  g_hash_table_insert (self->replies, g_strdup (method), g_strdup (body));
  g_mutex_unlock (&self->lock);
}

void
fake_service_unset_reply (FakeService *self,
                          const char  *method)
{
  g_mutex_lock (&self->lock);
  g_hash_table_remove (self->replies, method);
  g_mutex_unlock (&self->lock);
}

void
fake_service_set_error (FakeService *self,
                        const char  *method,
                        const char  *name)
{
  g_mutex_lock (&self->lock);
  if (name != NULL)
    g_hash_table_insert (self->errors, g_strdup (method), g_strdup (name));
  else
    g_hash_table_remove (self->errors, method);
  g_mutex_unlock (&self->lock);
}

void
fake_service_set_pipe (FakeService *self,
                       const char  *bytes,
                       gsize        length)
{
  g_mutex_lock (&self->lock);
  g_clear_pointer (&self->pipe, g_bytes_unref);
  self->pipe = bytes != NULL ? g_bytes_new (bytes, length) : NULL;
  g_mutex_unlock (&self->lock);
}

void
fake_service_set_revision (FakeService *self,
                           guint64      before,
                           guint64      after)
{
  g_mutex_lock (&self->lock);
  self->revisions[0] = before;
  self->revisions[1] = after;
  self->n_revisions = 0;
  g_mutex_unlock (&self->lock);
}

void
fake_service_emit (FakeService *self,
                   const char  *path,
                   const char  *interface,
                   const char  *signal,
                   const char  *body)
{
  g_autoptr(GError) error = NULL;

  g_dbus_connection_emit_signal (self->connection, NULL, path, interface, signal,
                                 g_variant_new_parsed (body), &error);
  g_assert_no_error (error);
}

GVariant *
fake_service_dup_arguments (FakeService *self,
                            const char  *method)
{
  GVariant *arguments;

  g_mutex_lock (&self->lock);
  arguments = g_hash_table_lookup (self->arguments, method);
  if (arguments != NULL)
    g_variant_ref (arguments);
  g_mutex_unlock (&self->lock);
  return arguments;
}
