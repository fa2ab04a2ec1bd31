/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-call.h"

#include <glib/gi18n-lib.h>

#include "common/llmsvc-error-private.h"
#include "common/llmsvc-names.h"

/* A bus drops a caller whose message is over its own limit, which for the system's is
 * 32 MiB. No service takes as much in one call. */
#define MAX_CALL_BYTES (30 * 1024 * 1024)

/* A call on its way: the data of its task. */
typedef struct
{
  LlmsvcPeer *peer;
  char *path;
  char *interface;
  char *method;
  GVariantType *reply_type;
  GVariant *arguments;  /* (nullable) (owned) */
  LlmsvcCallFlags flags;
  guint n_sent;
  gboolean is_gone;
} Call;

static void
call_free (Call *call)
{
  llmsvc_peer_unref (call->peer);
  g_free (call->path);
  g_free (call->interface);
  g_free (call->method);
  g_variant_type_free (call->reply_type);
  g_clear_pointer (&call->arguments, g_variant_unref);
  g_free (call);
}

/* --- the peer --- */

LlmsvcPeer *
llmsvc_peer_new (GDBusConnection *connection,
                 const char      *app_id)
{
  LlmsvcPeer *self = g_atomic_rc_box_new0 (LlmsvcPeer);

  self->connection = g_object_ref (connection);
  self->app_id = g_strdup (app_id);
  return self;
}

LlmsvcPeer *
llmsvc_peer_ref (LlmsvcPeer *self)
{
  return g_atomic_rc_box_acquire (self);
}

static void
peer_clear (gpointer data)
{
  LlmsvcPeer *self = data;

  g_object_unref (self->connection);
  g_free (self->app_id);
}

void
llmsvc_peer_unref (LlmsvcPeer *self)
{
  g_atomic_rc_box_release_full (self, peer_clear);
}

/* The service forgets the app's name when it ends, and nobody can see from here whether it
 * does so between two calls. Saying it each time is one small message, kept in order with the
 * call behind it; saying it again changes nothing. Refusals (a sandboxed app has its name
 * from the sandbox) are of no interest: llmsvc_client_refresh_async() asks for them. */
static void
introduce (LlmsvcPeer *self,
           gboolean    may_start)
{
  if (self->app_id[0] == '\0')
    return;

  g_dbus_connection_call (self->connection, LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE,
                          "Register", g_variant_new ("(sa{sv})", self->app_id, NULL), NULL,
                          may_start ? G_DBUS_CALL_FLAGS_NONE : G_DBUS_CALL_FLAGS_NO_AUTO_START,
                          -1, NULL, NULL, NULL);
}

/* --- errors --- */

/* @error: (transfer full); what the bus itself says is in its own words, for programmers. */
static GError *
rephrase (GError *error)
{
  g_autoptr(GError) owned = error;

  switch (owned->code)
    {
    case LLMSVC_ERROR_LOST:
      return g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_LOST,
                                  _("The language model service went away before it answered"));
    case LLMSVC_ERROR_NOT_AVAILABLE:
      return g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                          _("There is no language model service that can be used: %s"),
                          owned->message);
    default:
      return g_steal_pointer (&owned);
    }
}

void
llmsvc_call_convert_error (GError **error)
{
  gboolean is_from_bus, is_closed;

  if (error == NULL || *error == NULL)
    return;

  is_from_bus = (*error)->domain == G_DBUS_ERROR;
  is_closed = g_error_matches (*error, G_IO_ERROR, G_IO_ERROR_CLOSED);
  llmsvc_error_convert (error);
  if (is_closed)
    (*error)->code = LLMSVC_ERROR_NOT_AVAILABLE;
  if (is_from_bus || is_closed)
    *error = rephrase (*error);
}

void
llmsvc_task_fail (GTask  *task,
                  GError *error)
{
  llmsvc_call_convert_error (&error);
  g_task_return_error (task, error);
}

GTask *
llmsvc_task_new (gpointer            source,
                 GCancellable       *cancellable,
                 GAsyncReadyCallback callback,
                 gpointer            user_data,
                 gpointer            tag)
{
  GTask *task = g_task_new (source, cancellable, callback, user_data);

  /* a check by GTask would give GIO's error, and drop what is there already */
  g_task_set_check_cancellable (task, FALSE);
  g_task_set_source_tag (task, tag);
  return task;
}

/* --- the call --- */

void
llmsvc_reply_free (LlmsvcReply *self)
{
  if (self == NULL)
    return;

  g_clear_pointer (&self->body, g_variant_unref);
  g_clear_object (&self->fds);
  g_free (self->sender);
  g_free (self);
}

/* (nullable): NULL with @error set when the reply is an error or of another type. */
static LlmsvcReply *
read_reply (Call         *call,
            GDBusMessage *message,
            GError      **error)
{
  g_autoptr(LlmsvcReply) reply = NULL;
  GVariant *body;
  GUnixFDList *fds;

  if (g_dbus_message_to_gerror (message, error))
    return NULL;

  body = g_dbus_message_get_body (message);
  if (!g_variant_type_equal (call->reply_type,
                             body != NULL ? g_variant_get_type (body) : G_VARIANT_TYPE_UNIT))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                   _("The service has answered “%s” with something that can't be read"),
                   call->method);
      return NULL;
    }

  reply = g_new0 (LlmsvcReply, 1);
  reply->body = body != NULL ? g_variant_ref (body) : g_variant_ref_sink (g_variant_new ("()"));
  fds = g_dbus_message_get_unix_fd_list (message);
  reply->fds = fds != NULL ? g_object_ref (fds) : NULL;
  reply->sender = g_strdup (g_dbus_message_get_sender (message));
  return g_steal_pointer (&reply);
}

static void send (GTask *task);

static void
on_reply (GObject      *source,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(GDBusMessage) message = NULL;
  Call *call = g_task_get_task_data (task);
  LlmsvcReply *reply = NULL;
  GError *error = NULL;

  message = g_dbus_connection_send_message_with_reply_finish (G_DBUS_CONNECTION (source), result,
                                                              &error);
  if (message != NULL)
    reply = read_reply (call, message, &error);
  if (reply != NULL)
    {
      g_task_return_pointer (task, reply, (GDestroyNotify) llmsvc_reply_free);
      return;
    }

  call->is_gone = g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_UNKNOWN_OBJECT);
  llmsvc_call_convert_error (&error);
  if (error->code == LLMSVC_ERROR_LOST && (call->flags & LLMSVC_CALL_REPEAT) != 0 &&
      call->n_sent == 1)
    {
      g_debug ("The service went away under %s, which is repeated", call->method);
      g_error_free (error);
      send (g_steal_pointer (&task));
      return;
    }
  g_task_return_error (task, error);
}

/* @task: (transfer full) */
static void
send (GTask *task)
{
  g_autoptr(GDBusMessage) message = NULL;
  Call *call = g_task_get_task_data (task);
  GDBusMessageFlags flags = G_DBUS_MESSAGE_FLAGS_NONE;

  call->n_sent++;
  message = g_dbus_message_new_method_call (LLMSVC_BUS_NAME, call->path, call->interface,
                                            call->method);
  if ((call->flags & LLMSVC_CALL_NO_START) != 0)
    flags |= G_DBUS_MESSAGE_FLAGS_NO_AUTO_START;
  if ((call->flags & LLMSVC_CALL_INTERACTIVE) != 0)
    flags |= G_DBUS_MESSAGE_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION;
  g_dbus_message_set_flags (message, flags);
  if (call->arguments != NULL)
    g_dbus_message_set_body (message, call->arguments);

  introduce (call->peer, (call->flags & LLMSVC_CALL_NO_START) == 0);
  g_dbus_connection_send_message_with_reply (call->peer->connection, message,
                                             G_DBUS_SEND_MESSAGE_FLAGS_NONE, G_MAXINT, NULL,
                                             g_task_get_cancellable (task), on_reply, task);
}

void
llmsvc_call_async (LlmsvcPeer           *peer,
                   const LlmsvcCallInfo *info,
                   GVariant             *arguments,
                   GCancellable         *cancellable,
                   GAsyncReadyCallback   callback,
                   gpointer              user_data)
{
  GTask *task = llmsvc_task_new (NULL, cancellable, callback, user_data, llmsvc_call_async);
  Call *call = g_new0 (Call, 1);

  call->peer = llmsvc_peer_ref (peer);
  call->path = g_strdup (info->path);
  call->interface = g_strdup (info->interface);
  call->method = g_strdup (info->method);
  call->reply_type = g_variant_type_new (info->reply_type);
  call->arguments = arguments != NULL ? g_variant_ref_sink (arguments) : NULL;
  call->flags = info->flags;
  g_task_set_task_data (task, call, (GDestroyNotify) call_free);
  if (call->arguments != NULL && g_variant_get_size (call->arguments) > MAX_CALL_BYTES)
    {
      g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                               _("The text is too long for one call"));
      g_object_unref (task);
      return;
    }
  send (task);
}

LlmsvcReply *
llmsvc_call_finish (GAsyncResult  *result,
                    gboolean      *is_gone,
                    GError       **error)
{
  Call *call = g_task_get_task_data (G_TASK (result));

  if (is_gone != NULL)
    *is_gone = call->is_gone;
  return g_task_propagate_pointer (G_TASK (result), error);
}

void
llmsvc_call_send (LlmsvcPeer *peer,
                  const char *path,
                  const char *interface,
                  const char *method)
{
  if (g_dbus_connection_is_closed (peer->connection))
    return;

  g_dbus_connection_call (peer->connection, LLMSVC_BUS_NAME, path, interface, method,
                          g_variant_new ("(a{sv})", NULL), NULL, G_DBUS_CALL_FLAGS_NO_AUTO_START,
                          -1, NULL, NULL, NULL);
}
