/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-context-private.h"

#include <glib/gi18n-lib.h>

#include "client/llmsvc-client-private.h"
#include "common/llmsvc-names.h"
#include "llmsvc-error.h"
#include "values/llmsvc-answer-private.h"

/* Reasons of the signal that are not the service's. */
#define REASON_CLOSED "closed"
#define REASON_LOST "lost"

/**
 * LlmsvcContext:
 *
 * One conversation.
 *
 * A context with a name is kept by the service until it is closed, over restarts of the app,
 * the service and the machine, and its object goes on after a restart of the service as if
 * nothing had been. A context without a name ends with the service, with the app's connection
 * to the bus, or when the last reference to the object is dropped that
 * [method@Llmsvc.Client.create_context_async] or [method@Llmsvc.Context.fork_async] has made;
 * objects of [method@Llmsvc.Client.list_contexts_async] only look on. What is done with a
 * context that has ended fails with %LLMSVC_ERROR_NOT_FOUND.
 *
 * A context does one thing at a time: while it answers, another call that would change it
 * fails with %LLMSVC_ERROR_CONTEXT_BUSY. The same context opened twice gives two objects.
 *
 * When the service goes away during a call that would have changed the context, the library
 * asks the next service whether it did, and the call fails with %LLMSVC_ERROR_LOST (nothing is
 * kept: ask again), %LLMSVC_ERROR_LOST_KEPT (it is done, and the context has it: read it
 * there), or %LLMSVC_ERROR_LOST_UNKNOWN (no service could be asked). After the last one an
 * answer is asked for again with the option `request-id` of the first time
 * ([method@Llmsvc.Generation.get_request_id]): when the service has answered that request
 * already, it gives that answer and does nothing twice.
 *
 * Used in the thread of its [class@Llmsvc.Client].
 *
 * Since: 0.1
 */
struct _LlmsvcContext
{
  GObject parent_instance;

  LlmsvcClient *client;  /* (owned) */
  GThread *thread;       /* (unowned): where it was made */
  char *path;
  char *name;
  char *owner;
  gboolean is_ours;

  guint tokens;
  guint64 revision;
  char *residency;
  gboolean is_exact;
  char *closed_reason;   /* (nullable): NULL while it is open */
  const char *ending;    /* (atomic): the reason of an end that another thread has found */
};

static guint closed_signal;

G_DEFINE_FINAL_TYPE (LlmsvcContext, llmsvc_context, G_TYPE_OBJECT)

#include "llmsvc-context-properties.h"

static void
llmsvc_context_dispose (GObject *object)
{
  LlmsvcContext *self = LLMSVC_CONTEXT (object);

  if (self->client != NULL)
    {
      g_ptr_array_remove_fast (self->client->contexts, self);
      if (self->is_ours && !llmsvc_context_is_named (self) && self->closed_reason == NULL)
        llmsvc_call_close (self->client->peer, self->owner, self->path);
    }
  g_clear_object (&self->client);

  G_OBJECT_CLASS (llmsvc_context_parent_class)->dispose (object);
}

static void
llmsvc_context_finalize (GObject *object)
{
  LlmsvcContext *self = LLMSVC_CONTEXT (object);

  g_free (self->path);
  g_free (self->name);
  g_free (self->owner);
  g_free (self->residency);
  g_free (self->closed_reason);

  G_OBJECT_CLASS (llmsvc_context_parent_class)->finalize (object);
}

static void
llmsvc_context_class_init (LlmsvcContextClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->dispose = llmsvc_context_dispose;
  object_class->finalize = llmsvc_context_finalize;
  install_properties (object_class);

  /**
   * LlmsvcContext::closed:
   * @self: the context
   * @reason: `closed`, `disconnected` (an unnamed one whose app has left the bus),
   *   `administrator`, or `lost`: the service went away with an unnamed one
   *
   * The context has ended. Emitted once.
   *
   * Since: 0.1
   */
  closed_signal = g_signal_new ("closed", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0, NULL,
                                NULL, NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
}

static void
llmsvc_context_init (LlmsvcContext *self)
{
  self->path = g_strdup ("");
  self->name = g_strdup ("");
  self->residency = g_strdup ("");
  self->thread = g_thread_self ();
}

LlmsvcContext *
llmsvc_context_new (LlmsvcClient *client,
                    const char   *path,
                    const char   *name,
                    const char   *owner,
                    gboolean      is_ours)
{
  LlmsvcContext *self = g_object_new (LLMSVC_TYPE_CONTEXT, NULL);

  self->client = g_object_ref (client);
  g_free (self->path);
  self->path = g_strdup (path);
  g_free (self->name);
  self->name = g_strdup (name);
  self->owner = g_strdup (owner);
  self->is_ours = is_ours;
  g_ptr_array_add (client->contexts, self);
  return self;
}

LlmsvcContext *
llmsvc_context_new_made (LlmsvcClient *client,
                         LlmsvcReply  *reply,
                         const char   *name)
{
  const char *path;

  g_variant_get (reply->body, "(&o)", &path);
  return llmsvc_context_new (client, path, name != NULL ? name : "", reply->sender, TRUE);
}

LlmsvcPeer *
llmsvc_context_get_peer (LlmsvcContext *self)
{
  return self->client->peer;
}

gboolean
llmsvc_context_is_named (LlmsvcContext *self)
{
  return self->name[0] != '\0';
}

/* --- its state --- */

void
llmsvc_context_apply (LlmsvcContext *self,
                      GVariant      *values)
{
  const char *residency;
  gboolean is_exact;
  guint64 revision;
  guint32 tokens;

  if (g_thread_self () != self->thread)
    return;

  g_object_freeze_notify (G_OBJECT (self));
  if (g_variant_lookup (values, "Tokens", "u", &tokens) && tokens != self->tokens)
    {
      self->tokens = tokens;
      g_object_notify (G_OBJECT (self), "tokens");
    }
  if (g_variant_lookup (values, "Revision", "t", &revision) && revision != self->revision)
    {
      self->revision = revision;
      g_object_notify (G_OBJECT (self), "revision");
    }
  if (g_variant_lookup (values, "Residency", "&s", &residency) &&
      !g_str_equal (residency, self->residency))
    {
      g_free (self->residency);
      self->residency = g_strdup (residency);
      g_object_notify (G_OBJECT (self), "residency");
    }
  if (g_variant_lookup (values, "Exact", "b", &is_exact) && is_exact != self->is_exact)
    {
      self->is_exact = is_exact;
      g_object_notify (G_OBJECT (self), "is-exact");
    }
  g_object_thaw_notify (G_OBJECT (self));
}

static gboolean
end_at_home (gpointer data)
{
  LlmsvcContext *self = data;

  llmsvc_context_mark_closed (self, g_atomic_pointer_get (&self->ending));
  return G_SOURCE_REMOVE;
}

void
llmsvc_context_mark_closed (LlmsvcContext *self,
                            const char    *reason)
{
  g_autoptr(LlmsvcContext) hold = g_object_ref (self);

  if (g_thread_self () != self->thread)
    {
      g_autoptr(GSource) source = g_idle_source_new ();

      g_atomic_pointer_set (&self->ending, g_intern_string (reason));
      g_source_set_callback (source, end_at_home, g_object_ref (self), g_object_unref);
      g_source_attach (source, self->client->home);
      return;
    }
  if (self->closed_reason != NULL)
    return;

  self->closed_reason = g_strdup (reason);
  g_object_notify (G_OBJECT (self), "is-closed");
  g_signal_emit (self, closed_signal, 0, reason);
}

static GError *
make_closed_error (LlmsvcContext *self,
                   const char    *reason)
{
  if (g_str_equal (reason, REASON_LOST))
    return g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND,
                                _("The service was restarted, and this context, which has no name, "
                                  "ended with it. Make a new one"));

  return g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND,
                              _("This context has been closed. Make or open another one"));
}

gboolean
llmsvc_context_check_open (LlmsvcContext  *self,
                           GError        **error)
{
  if (self->closed_reason == NULL)
    return TRUE;

  g_propagate_error (error, make_closed_error (self, self->closed_reason));
  return FALSE;
}

GError *
llmsvc_context_take_gone (LlmsvcContext *self)
{
  const char *reason = llmsvc_context_is_named (self) ? REASON_CLOSED : REASON_LOST;

  llmsvc_context_mark_closed (self, reason);
  return make_closed_error (self, reason);
}

void
llmsvc_context_service_gone (LlmsvcContext *self,
                             const char    *owner)
{
  if (!llmsvc_context_is_named (self) && (owner == NULL || g_strcmp0 (owner, self->owner) == 0))
    llmsvc_context_mark_closed (self, REASON_LOST);
}

static void
on_reopened (GObject      *source,
             GAsyncResult *result,
             gpointer      data)
{
  llmsvc_context_read_done (result, "after the service has come");
}

void
llmsvc_context_reopen (LlmsvcContext *self)
{
  if (llmsvc_context_is_named (self) && self->closed_reason == NULL)
    llmsvc_context_read_async (self, LLMSVC_CALL_NO_START, NULL, on_reopened, NULL);
}

/* --- calls --- */

static void
on_call_reply (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcContext *self = g_task_get_source_object (task);
  LlmsvcReply *reply;
  GError *error = NULL;
  gboolean is_gone;

  reply = llmsvc_call_finish (result, &is_gone, &error);
  if (reply != NULL)
    {
      g_task_return_pointer (task, reply, (GDestroyNotify) llmsvc_reply_free);
      return;
    }
  if (is_gone)
    {
      g_error_free (error);
      error = llmsvc_context_take_gone (self);
    }
  g_task_return_error (task, error);
}

static void
call_object (LlmsvcContext        *self,
             const LlmsvcCallInfo *info,
             GVariant             *arguments,
             GCancellable         *cancellable,
             GAsyncReadyCallback   callback,
             gpointer              user_data)
{
  GTask *task =
    llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_call_async);
  GError *error = NULL;

  g_variant_take_ref (arguments);
  if (llmsvc_context_check_open (self, &error))
    {
      llmsvc_call_async (self->client->peer, NULL, info, arguments, cancellable, on_call_reply, task);
    }
  else
    {
      g_task_return_error (task, error);
      g_object_unref (task);
    }
  g_variant_unref (arguments);
}

void
llmsvc_context_call_async (LlmsvcContext       *self,
                           const char          *method,
                           const char          *reply_type,
                           LlmsvcCallFlags      flags,
                           GVariant            *arguments,
                           GCancellable        *cancellable,
                           GAsyncReadyCallback  callback,
                           gpointer             user_data)
{
  const LlmsvcCallInfo info = { self->path, LLMSVC_CONTEXT_INTERFACE, method, reply_type, flags };

  call_object (self, &info, arguments, cancellable, callback, user_data);
}

static void
on_read (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcContext *self = LLMSVC_CONTEXT (source);
  GError *error = NULL;
  g_autoptr(LlmsvcReply) reply = llmsvc_task_finish (self, result, &error);
  g_autoptr(GVariant) values = NULL;

  if (reply == NULL)
    {
      g_task_return_error (task, error);
      return;
    }

  values = g_variant_get_child_value (reply->body, 0);
  llmsvc_context_apply (self, values);
  g_task_return_boolean (task, TRUE);
}

void
llmsvc_context_read_async (LlmsvcContext       *self,
                           LlmsvcCallFlags      flags,
                           GCancellable        *cancellable,
                           GAsyncReadyCallback  callback,
                           gpointer             user_data)
{
  GTask *task =
    llmsvc_task_new (self, cancellable, callback, user_data, llmsvc_context_read_async);
  const LlmsvcCallInfo info = { self->path, DBUS_PROPERTIES_INTERFACE, "GetAll", "(a{sv})", flags };

  call_object (self, &info, g_variant_new ("(s)", LLMSVC_CONTEXT_INTERFACE), cancellable, on_read,
               task);
}

void
llmsvc_context_read_done (GAsyncResult *result,
                          const char   *when)
{
  g_autoptr(GError) error = NULL;

  if (!g_task_propagate_boolean (G_TASK (result), &error))
    g_debug ("The context can't be read %s: %s", when, error->message);
}

/* A new object has its properties before the app gets it; without them it works as well. */
static void
on_first_read (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GTask) task = data;

  llmsvc_context_read_done (result, "when it is made");
  g_task_return_pointer (task, g_object_ref (source), g_object_unref);
}

void
llmsvc_context_return (GTask        *task,
                       LlmsvcClient *client,
                       LlmsvcReply  *reply,
                       const char   *name)
{
  g_autoptr(LlmsvcContext) context = llmsvc_context_new_made (client, reply, name);

  llmsvc_context_read_async (context, LLMSVC_CALL_NO_START, g_task_get_cancellable (task),
                             on_first_read, g_object_ref (task));
}
