/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "soak/bench-soak-talk.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <gio/gunixfdlist.h>
#include <glib/gstdio.h>

#include "common/llmsvc-line.h"
#include "common/llmsvc-names.h"

GDBusConnection *
bench_talk_connect (const char *address,
                    const char *app_id,
                    GError    **error)
{
  g_autoptr(GDBusConnection) connection = g_dbus_connection_new_for_address_sync (
    address,
    G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT | G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
    NULL, NULL, error);
  g_autoptr(GVariant) reply = NULL;

  if (connection == NULL || app_id == NULL)
    return g_steal_pointer (&connection);
  reply = bench_talk_call (connection, LLMSVC_PATH, LLMSVC_INTERFACE, "Register",
                           g_variant_new ("(s@a{sv})", app_id, bench_talk_no_options ()), "()",
                           error);
  return reply != NULL ? g_steal_pointer (&connection) : NULL;
}

GVariant *
bench_talk_call (GDBusConnection *connection,
                 const char      *path,
                 const char      *interface,
                 const char      *method,
                 GVariant        *arguments,
                 const char      *type,
                 GError         **error)
{
  return g_dbus_connection_call_sync (connection, LLMSVC_BUS_NAME, path, interface, method,
                                      arguments, G_VARIANT_TYPE (type), G_DBUS_CALL_FLAGS_NONE,
                                      BENCH_TALK_TIMEOUT_MS, NULL, error);
}

GVariant *
bench_talk_get (GDBusConnection *connection,
                const char      *path,
                const char      *interface,
                const char      *property,
                GError         **error)
{
  g_autoptr(GVariant) reply =
    bench_talk_call (connection, path, "org.freedesktop.DBus.Properties", "Get",
                     g_variant_new ("(ss)", interface, property), "(v)", error);
  GVariant *value = NULL;

  if (reply != NULL)
    g_variant_get (reply, "(v)", &value);
  return value;
}

char *
bench_talk_error_name (const GError *error)
{
  g_autofree char *name = g_dbus_error_get_remote_error (error);

  if (name != NULL && g_str_has_prefix (name, LLMSVC_ERROR_PREFIX))
    return g_strdup (name + strlen (LLMSVC_ERROR_PREFIX));
  return name != NULL ? g_steal_pointer (&name)
                      : g_strdup_printf ("%s %d", g_quark_to_string (error->domain), error->code);
}

GVariant *
bench_talk_message (const char *text)
{
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a(ssa{sv})"));
  g_variant_builder_add (&builder, "(ss@a{sv})", "user", text, bench_talk_no_options ());
  return g_variant_builder_end (&builder);
}

GVariant *
bench_talk_no_options (void)
{
  return g_variant_new_array (G_VARIANT_TYPE ("{sv}"), NULL, 0);
}

/* --- answers that stream --- */

BenchStream *
bench_stream_new (GDBusConnection *connection,
                  const char      *context,
                  const char      *prompt,
                  GVariant        *options,
                  gboolean         is_text,
                  GError         **error)
{
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GVariant) reply = g_dbus_connection_call_with_unix_fd_list_sync (
    connection, LLMSVC_BUS_NAME, context, LLMSVC_CONTEXT_INTERFACE, "Generate",
    g_variant_new ("(@a(ssa{sv})@a{sv})", bench_talk_message (prompt), options),
    G_VARIANT_TYPE ("(oh)"), G_DBUS_CALL_FLAGS_NONE, BENCH_TALK_TIMEOUT_MS, NULL, &fds, NULL,
    error);
  BenchStream *self;

  if (reply == NULL)
    return NULL;
  self = g_new0 (BenchStream, 1);
  self->text = g_string_new (NULL);
  self->reader = is_text ? NULL : llmsvc_line_reader_new ();
  g_variant_get (reply, "(oh)", &self->generation, NULL);
  self->fd = fds != NULL ? g_unix_fd_list_get (fds, 0, error) : -1;
  if (self->fd < 0)
    {
      if (fds == NULL)
        g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_FAILED, "Generate gave no descriptor");
      g_clear_pointer (&self, bench_stream_free);
    }
  return self;
}

void
bench_stream_close (BenchStream *self)
{
  if (self->fd >= 0)
    g_close (self->fd, NULL);
  self->fd = -1;
}

void
bench_stream_free (BenchStream *self)
{
  bench_stream_close (self);
  g_clear_pointer ((LlmsvcLineReader **) &self->reader, llmsvc_line_reader_free);
  g_clear_pointer (&self->results, g_variant_unref);
  g_string_free (self->text, TRUE);
  g_free (self->generation);
  g_free (self->failure);
  g_free (self);
}

static gboolean
take_lines (BenchStream *self,
            GError     **error)
{
  g_autoptr(GError) local = NULL;
  LlmsvcLine line = { 0 };

  while (llmsvc_line_reader_next (self->reader, &line, &local))
    {
      if (line.kind == LLMSVC_LINE_TEXT)
        g_string_append (self->text, line.text);
      else if (line.kind == LLMSVC_LINE_DONE && self->results == NULL)
        self->results = g_variant_ref (line.results);
      else if (line.kind == LLMSVC_LINE_ERROR && self->failure == NULL)
        self->failure = g_strdup (g_str_has_prefix (line.name, LLMSVC_ERROR_PREFIX)
                                    ? line.name + strlen (LLMSVC_ERROR_PREFIX) : line.name);
      llmsvc_line_clear (&line);
    }
  if (local != NULL)
    g_propagate_error (error, g_steal_pointer (&local));
  return *error == NULL;
}

static gboolean
take_bytes (BenchStream *self,
            const char  *bytes,
            gsize        length,
            GError     **error)
{
  if (self->first_us == 0)
    self->first_us = g_get_monotonic_time ();
  if (self->reader == NULL)
    {
      g_string_append_len (self->text, bytes, (gssize) length);
      return TRUE;
    }
  return llmsvc_line_reader_push (self->reader, bytes, length, error) && take_lines (self, error);
}

gboolean
bench_stream_read (BenchStream *self,
                   gint64       until_us,
                   GError     **error)
{
  g_autoptr(GError) local = NULL;

  while (!self->has_ended && self->fd >= 0)
    {
      struct pollfd wanted = { self->fd, POLLIN, 0 };
      gint64 left_us = until_us - g_get_monotonic_time ();
      char buffer[4096];
      ssize_t n;

      if (left_us <= 0 || poll (&wanted, 1, (int) MIN (left_us / 1000 + 1, G_MAXINT)) == 0)
        break;
      n = read (self->fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        self->has_ended = TRUE;
      else if (!take_bytes (self, buffer, (gsize) n, &local))
        {
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
    }
  return TRUE;
}
