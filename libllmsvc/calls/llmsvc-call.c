/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "calls/llmsvc-call.h"

#include <glib/gi18n-lib.h>

#include "common/llmsvc-error.h"
#include "common/llmsvc-names.h"

#define DBUS_NAME "org.freedesktop.DBus"

/* A bus drops a caller whose message is over its own limit, which for the system's is
 * 32 MiB. No service takes as much in one call. */
#define MAX_CALL_BYTES (30 * 1024 * 1024)

/* How often the process that is called may turn out to be another one. */
#define MAX_ATTEMPTS 4

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
  char *destination;    /* (nullable): where it was sent last */
  guint n_attempts;
  gboolean is_repeated;
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
  g_free (call->destination);
  g_free (call);
}

/* --- the peer --- */

LlmsvcPeer *
llmsvc_peer_new (GDBusConnection *connection,
                 const char      *app_id,
                 const char      *no_session)
{
  LlmsvcPeer *self = g_atomic_rc_box_new0 (LlmsvcPeer);

  self->connection = g_object_ref (connection);
  self->app_id = g_strdup (app_id);
  self->no_session = g_strdup (no_session);
  g_mutex_init (&self->lock);
  self->is_exempt = app_id[0] == '\0';
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
  g_free (self->no_session);
  g_mutex_clear (&self->lock);
  g_free (self->owner);
}

void
llmsvc_peer_unref (LlmsvcPeer *self)
{
  g_atomic_rc_box_release_full (self, peer_clear);
}

/* (transfer full) (nullable): where to send a call; NULL when the app is to be registered. */
static char *
dup_destination (LlmsvcPeer *self)
{
  char *destination;

  g_mutex_lock (&self->lock);
  destination = g_strdup (self->is_exempt ? LLMSVC_BUS_NAME : self->owner);
  g_mutex_unlock (&self->lock);
  return destination;
}

static void
set_registered (LlmsvcPeer *self,
                const char *owner,
                gboolean    is_exempt)
{
  g_mutex_lock (&self->lock);
  g_free (self->owner);
  self->owner = g_strdup (owner);
  self->is_exempt = is_exempt;
  g_mutex_unlock (&self->lock);
}

/* @owner is the service no more. */
static void
forget_owner (LlmsvcPeer *self,
              const char *owner)
{
  g_mutex_lock (&self->lock);
  if (g_strcmp0 (self->owner, owner) == 0)
    g_clear_pointer (&self->owner, g_free);
  g_mutex_unlock (&self->lock);
}

/* @error: (transfer full); a bus that the service may be on could not be looked at. */
static void
fail_call (GTask  *task,
           GError *error)
{
  const Call *call = g_task_get_task_data (task);

  if (call->peer->no_session != NULL && g_error_matches (error, G_DBUS_ERROR,
                                                         G_DBUS_ERROR_SERVICE_UNKNOWN))
    {
      g_error_free (error);
      error = llmsvc_task_make_absent (call->peer->no_session);
    }
  llmsvc_task_fail (task, error);
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

static void begin (GTask *task);

/* What the bus answers in the place of a process that is not there. */
static gboolean
is_undelivered (GDBusMessage *message,
                const GError *error)
{
  return message != NULL && g_strcmp0 (g_dbus_message_get_sender (message), DBUS_NAME) == 0 &&
         (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NAME_HAS_NO_OWNER) ||
          g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_SERVICE_UNKNOWN));
}

/* Whether the call is to be made once more. Of what was not delivered nothing was done. */
static gboolean
is_to_be_repeated (Call         *call,
                   GDBusMessage *message,
                   const GError *error)
{
  gboolean is_lost = g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY);

  if (call->n_attempts >= MAX_ATTEMPTS)
    return FALSE;
  if (call->destination[0] == ':' && is_undelivered (message, error))
    return TRUE;
  if (!is_lost || (call->flags & LLMSVC_CALL_REPEAT) == 0 || call->is_repeated)
    return FALSE;

  call->is_repeated = TRUE;
  return TRUE;
}

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

  if (is_undelivered (message, error) ||
      g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY))
    forget_owner (call->peer, call->destination);
  if (is_to_be_repeated (call, message, error))
    {
      g_debug ("The service went away under %s, which is repeated", call->method);
      g_error_free (error);
      begin (task);
      return;
    }

  call->is_gone = g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_UNKNOWN_OBJECT);
  fail_call (task, error);
}

static GDBusMessage *
new_message (const char     *destination,
             const char     *path,
             const char     *interface,
             const char     *method,
             LlmsvcCallFlags call_flags)
{
  GDBusMessage *message = g_dbus_message_new_method_call (destination, path, interface, method);
  GDBusMessageFlags flags = G_DBUS_MESSAGE_FLAGS_NONE;

  if ((call_flags & LLMSVC_CALL_NO_START) != 0 || destination[0] == ':')
    flags |= G_DBUS_MESSAGE_FLAGS_NO_AUTO_START;
  if ((call_flags & LLMSVC_CALL_INTERACTIVE) != 0)
    flags |= G_DBUS_MESSAGE_FLAGS_ALLOW_INTERACTIVE_AUTHORIZATION;
  g_dbus_message_set_flags (message, flags);
  return message;
}

static void
send (GTask      *task,
      const char *destination)
{
  g_autoptr(GDBusMessage) message = NULL;
  Call *call = g_task_get_task_data (task);

  g_free (call->destination);
  call->destination = g_strdup (destination);
  message = new_message (destination, call->path, call->interface, call->method, call->flags);
  if (call->arguments != NULL)
    g_dbus_message_set_body (message, call->arguments);
  g_dbus_connection_send_message_with_reply (call->peer->connection, message,
                                             G_DBUS_SEND_MESSAGE_FLAGS_NONE, G_MAXINT, NULL,
                                             g_task_get_cancellable (task), on_reply,
                                             g_object_ref (task));
}

/* What has answered is the service, also when it refuses: an app in a sandbox has its name
 * from there, and another refusal is told by llmsvc_client_refresh_async(). */
static void
on_registered (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(GDBusMessage) message = NULL;
  g_autoptr(GError) error = NULL;
  Call *call = g_task_get_task_data (task);
  const char *sender;
  gboolean is_exempt;

  message = g_dbus_connection_send_message_with_reply_finish (G_DBUS_CONNECTION (source), result,
                                                              &error);
  sender = message != NULL ? g_dbus_message_get_sender (message) : NULL;
  if (message != NULL)
    g_dbus_message_to_gerror (message, &error);
  if (sender == NULL || sender[0] != ':')
    {
      if (error == NULL)
        g_set_error (&error, LLMSVC_ERROR, LLMSVC_ERROR_FAILED,
                     _("The service has answered “%s” with something that can't be read"),
                     "Register");
      if (g_error_matches (error, G_DBUS_ERROR, G_DBUS_ERROR_NO_REPLY) &&
          call->n_attempts < MAX_ATTEMPTS)
        begin (task);
      else
        fail_call (task, g_steal_pointer (&error));
      return;
    }

  if (error != NULL)
    g_debug ("The app is not registered: %s", error->message);
  is_exempt = g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AUTHORIZED);
  set_registered (call->peer, sender, is_exempt);
  send (task, sender);
}

static void
begin (GTask *task)
{
  g_autoptr(GDBusMessage) message = NULL;
  g_autofree char *destination = NULL;
  Call *call = g_task_get_task_data (task);

  call->n_attempts++;
  destination = dup_destination (call->peer);
  if (destination != NULL)
    {
      send (task, destination);
      return;
    }

  message = new_message (LLMSVC_BUS_NAME, LLMSVC_PATH, LLMSVC_INTERFACE, "Register",
                         call->flags & LLMSVC_CALL_NO_START);
  g_dbus_message_set_body (message, g_variant_new ("(sa{sv})", call->peer->app_id, NULL));
  g_dbus_connection_send_message_with_reply (call->peer->connection, message,
                                             G_DBUS_SEND_MESSAGE_FLAGS_NONE, G_MAXINT, NULL,
                                             g_task_get_cancellable (task), on_registered,
                                             g_object_ref (task));
}

void
llmsvc_call_async (LlmsvcPeer           *peer,
                   gpointer              source,
                   const LlmsvcCallInfo *info,
                   GVariant             *arguments,
                   GCancellable         *cancellable,
                   GAsyncReadyCallback   callback,
                   gpointer              user_data)
{
  g_autoptr(GTask) task =
    llmsvc_task_new (source, cancellable, callback, user_data, llmsvc_call_async);
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
    g_task_return_new_error (task, LLMSVC_ERROR, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                             _("The text is too long for one call"));
  else
    begin (task);
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

gboolean
llmsvc_call_succeeded (gpointer       source,
                       GAsyncResult  *result,
                       GError       **error)
{
  g_autoptr(LlmsvcReply) reply = llmsvc_task_finish (source, result, error);

  return reply != NULL;
}

void
llmsvc_call_close (LlmsvcPeer *peer,
                   const char *owner,
                   const char *path)
{
  if (owner == NULL || g_dbus_connection_is_closed (peer->connection))
    return;

  g_dbus_connection_call (peer->connection, owner, path, LLMSVC_CONTEXT_INTERFACE, "Close",
                          g_variant_new ("(a{sv})", NULL), NULL, G_DBUS_CALL_FLAGS_NO_AUTO_START,
                          -1, NULL, NULL, NULL);
}
