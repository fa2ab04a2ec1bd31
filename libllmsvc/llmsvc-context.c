/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "llmsvc-context-private.h"

#include <glib/gi18n-lib.h>

#include "common/llmsvc-names.h"
#include "llmsvc-answer-private.h"
#include "llmsvc-client-private.h"
#include "llmsvc-error.h"

#define PROPERTIES_INTERFACE "org.freedesktop.DBus.Properties"

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
  char *closed_reason;   /* (nullable): NULL while it is open */
};

enum
{
  PROP_CLIENT = 1,
  PROP_NAME,
  PROP_PATH,
  PROP_TOKENS,
  PROP_REVISION,
  PROP_RESIDENCY,
  PROP_IS_CLOSED,
  N_PROPERTIES
};

enum
{
  SIGNAL_CLOSED,
  N_SIGNALS
};

static GParamSpec *properties[N_PROPERTIES];
static guint signals[N_SIGNALS];

G_DEFINE_FINAL_TYPE (LlmsvcContext, llmsvc_context, G_TYPE_OBJECT)

static void
llmsvc_context_get_property (GObject    *object,
                             guint       id,
                             GValue     *value,
                             GParamSpec *pspec)
{
  LlmsvcContext *self = LLMSVC_CONTEXT (object);

  switch (id)
    {
    case PROP_CLIENT:
      g_value_set_object (value, self->client);
      break;
    case PROP_NAME:
      g_value_set_string (value, self->name);
      break;
    case PROP_PATH:
      g_value_set_string (value, self->path);
      break;
    case PROP_TOKENS:
      g_value_set_uint (value, self->tokens);
      break;
    case PROP_REVISION:
      g_value_set_uint64 (value, self->revision);
      break;
    case PROP_RESIDENCY:
      g_value_set_string (value, self->residency);
      break;
    case PROP_IS_CLOSED:
      g_value_set_boolean (value, self->closed_reason != NULL);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

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
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;

  object_class->get_property = llmsvc_context_get_property;
  object_class->dispose = llmsvc_context_dispose;
  object_class->finalize = llmsvc_context_finalize;

  /**
   * LlmsvcContext:client:
   *
   * The client it belongs to.
   *
   * Since: 0.1
   */
  properties[PROP_CLIENT] =
    g_param_spec_object ("client", NULL, NULL, LLMSVC_TYPE_CLIENT, flags);
  /**
   * LlmsvcContext:name:
   *
   * The name under which it is kept; "" for an unnamed one.
   *
   * Since: 0.1
   */
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, "", flags);
  /**
   * LlmsvcContext:path:
   *
   * Its object on the bus.
   *
   * Since: 0.1
   */
  properties[PROP_PATH] = g_param_spec_string ("path", NULL, NULL, "", flags);
  /**
   * LlmsvcContext:tokens:
   *
   * The tokens that it holds, as of the last answer, call or refresh.
   *
   * Since: 0.1
   */
  properties[PROP_TOKENS] = g_param_spec_uint ("tokens", NULL, NULL, 0, G_MAXUINT, 0, flags);
  /**
   * LlmsvcContext:revision:
   *
   * Grows by one with every change, for the option `if-revision`; as of the last answer, call
   * or refresh.
   *
   * Since: 0.1
   */
  properties[PROP_REVISION] =
    g_param_spec_uint64 ("revision", NULL, NULL, 0, G_MAXUINT64, 0, flags);
  /**
   * LlmsvcContext:residency:
   *
   * Where its content is: `memory`, `compressed`, `storage` or `text`, which is to be computed
   * again; "" until it was read. Only the time to the next answer differs. Or `damaged`: what is
   * stored of it is damaged, and it can only be closed.
   *
   * Since: 0.1
   */
  properties[PROP_RESIDENCY] = g_param_spec_string ("residency", NULL, NULL, "", flags);
  /**
   * LlmsvcContext:is-closed:
   *
   * Whether it has ended.
   *
   * Since: 0.1
   */
  properties[PROP_IS_CLOSED] = g_param_spec_boolean ("is-closed", NULL, NULL, FALSE, flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);

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
  signals[SIGNAL_CLOSED] = g_signal_new ("closed", G_TYPE_FROM_CLASS (klass), G_SIGNAL_RUN_LAST, 0,
                                         NULL, NULL, NULL, G_TYPE_NONE, 1, G_TYPE_STRING);
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
  guint64 revision;
  guint32 tokens;

  if (g_thread_self () != self->thread)
    return;

  g_object_freeze_notify (G_OBJECT (self));
  if (g_variant_lookup (values, "Tokens", "u", &tokens) && tokens != self->tokens)
    {
      self->tokens = tokens;
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_TOKENS]);
    }
  if (g_variant_lookup (values, "Revision", "t", &revision) && revision != self->revision)
    {
      self->revision = revision;
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_REVISION]);
    }
  if (g_variant_lookup (values, "Residency", "&s", &residency) &&
      !g_str_equal (residency, self->residency))
    {
      g_free (self->residency);
      self->residency = g_strdup (residency);
      g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_RESIDENCY]);
    }
  g_object_thaw_notify (G_OBJECT (self));
}

typedef struct
{
  LlmsvcContext *context;  /* (owned) */
  char *reason;
} Ending;

static void
ending_free (gpointer data)
{
  Ending *ending = data;

  g_object_unref (ending->context);
  g_free (ending->reason);
  g_free (ending);
}

static gboolean
end_at_home (gpointer data)
{
  Ending *ending = data;

  llmsvc_context_mark_closed (ending->context, ending->reason);
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
      Ending *ending = g_new0 (Ending, 1);

      ending->context = g_object_ref (self);
      ending->reason = g_strdup (reason);
      g_source_set_callback (source, end_at_home, ending, ending_free);
      g_source_attach (source, self->client->home);
      return;
    }
  if (self->closed_reason != NULL)
    return;

  self->closed_reason = g_strdup (reason);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_IS_CLOSED]);
  g_signal_emit (self, signals[SIGNAL_CLOSED], 0, reason);
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
  g_autoptr(GError) error = NULL;

  if (!llmsvc_context_read_finish (LLMSVC_CONTEXT (source), result, &error))
    g_debug ("A context can't be read from the service that came: %s", error->message);
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
      llmsvc_call_async (self->client->peer, info, arguments, cancellable, on_call_reply, task);
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

LlmsvcReply *
llmsvc_context_call_finish (LlmsvcContext  *self,
                            GAsyncResult   *result,
                            GError        **error)
{
  return g_task_propagate_pointer (G_TASK (result), error);
}

static void
on_read (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  g_autoptr(GTask) task = data;
  LlmsvcContext *self = LLMSVC_CONTEXT (source);
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GVariant) values = NULL;
  GError *error = NULL;

  reply = llmsvc_context_call_finish (self, result, &error);
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
  const LlmsvcCallInfo info = { self->path, PROPERTIES_INTERFACE, "GetAll", "(a{sv})", flags };

  call_object (self, &info, g_variant_new ("(s)", LLMSVC_CONTEXT_INTERFACE), cancellable, on_read,
               task);
}

gboolean
llmsvc_context_read_finish (LlmsvcContext  *self,
                            GAsyncResult   *result,
                            GError        **error)
{
  return g_task_propagate_boolean (G_TASK (result), error);
}

/* --- getters --- */

/**
 * llmsvc_context_get_client:
 * @self: a context
 *
 * Gets the client it belongs to.
 *
 * Returns: (transfer none): the client
 *
 * Since: 0.1
 */
LlmsvcClient *
llmsvc_context_get_client (LlmsvcContext *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), NULL);

  return self->client;
}

/**
 * llmsvc_context_get_name:
 * @self: a context
 *
 * Gets the name under which it is kept.
 *
 * Returns: (transfer none): the name, "" for an unnamed one
 *
 * Since: 0.1
 */
const char *
llmsvc_context_get_name (LlmsvcContext *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), NULL);

  return self->name;
}

/**
 * llmsvc_context_get_path:
 * @self: a context
 *
 * Gets its object on the bus, for calls that the library has no function for.
 *
 * Returns: (transfer none): the object path
 *
 * Since: 0.1
 */
const char *
llmsvc_context_get_path (LlmsvcContext *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), NULL);

  return self->path;
}

/**
 * llmsvc_context_get_tokens:
 * @self: a context
 *
 * Gets how many tokens it holds, as of the last answer, call or refresh.
 *
 * Returns: tokens
 *
 * Since: 0.1
 */
guint
llmsvc_context_get_tokens (LlmsvcContext *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), 0);

  return self->tokens;
}

/**
 * llmsvc_context_get_revision:
 * @self: a context
 *
 * Gets its revision, which grows by one with every change, as of the last answer, call or
 * refresh.
 *
 * Returns: the revision
 *
 * Since: 0.1
 */
guint64
llmsvc_context_get_revision (LlmsvcContext *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), 0);

  return self->revision;
}

/**
 * llmsvc_context_get_residency:
 * @self: a context
 *
 * Gets where its content is.
 *
 * Returns: (transfer none): `memory`, `compressed`, `storage` or `text`; "" until it was read
 *
 * Since: 0.1
 */
const char *
llmsvc_context_get_residency (LlmsvcContext *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), NULL);

  return self->residency;
}

/**
 * llmsvc_context_get_is_closed:
 * @self: a context
 *
 * Gets whether it has ended.
 *
 * Returns: whether it has
 *
 * Since: 0.1
 */
gboolean
llmsvc_context_get_is_closed (LlmsvcContext *self)
{
  g_return_val_if_fail (LLMSVC_IS_CONTEXT (self), FALSE);

  return self->closed_reason != NULL;
}
