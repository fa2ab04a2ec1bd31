/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-gate.h"

#include <time.h>

#include "base/llm-fail.h"
#include "bus/llm-bus-translate.h"
#include "common/llmsvc-error-private.h"

#define BUS_NAME "org.freedesktop.DBus"

/* Connections to remember: the limits of buses are far below. */
#define MAX_SENDERS 65536
/* Of unanswered calls, by user, in the largest messages that are let in. */
#define MAX_USER_MESSAGES 32
/* So many bytes of a call count like another call, and so many of a reply. */
#define BYTES_PER_CALL 1024
#define REPLY_BYTES_PER_CALL 4096
/* Messages in a second of one connection that are no calls; they count like calls. */
#define MAX_OTHERS 1000
/* Refusals that wait, by user; connections whose user is not known yet count as one user. */
#define MAX_WITHHELD 128

/* Atomically reference-counted, because the filter may run, and refusals wait, when it is freed. */
struct _LlmBusGate
{
  GDBusConnection *connection;  /* (owned) */
  guint filter;
  guint64 max_bytes;            /* of a call, until it is known whose it is */

  GMutex mutex;                 /* for all below */
  GHashTable *senders;          /* (element-type utf8 Sender) (owned): by unique name */
  GHashTable *accounts;         /* (element-type utf8 LlmBusAccount) (owned) */
  gboolean is_closed;
  guint64 n_refused;
};

/* A connection, until it is forgotten. */
typedef struct
{
  gint64 seen_us;
  gboolean is_caller;
  LlmBusBucket others;  /* messages that are no calls */
  GHashTable *calls;    /* (element-type guint Call) (owned): unanswered, by serial */
  guint64 n_bytes;      /* of these */
  LlmBusAccount *app;   /* (owned) (nullable): until it is known */
  LlmBusAccount *user;  /* (owned): until it is known, that of all unidentified connections */
} Sender;

typedef struct
{
  guint64 n_bytes;
  gboolean is_silent;   /* the caller wants no reply */
} Call;

/* --- connections: under the mutex --- */

/* @account: (transfer full) (nullable) */
static void
move (Sender         *sender,
      LlmBusAccount **place,
      LlmBusAccount  *account)
{
  if (*place != NULL)
    {
      (*place)->n_calls -= g_hash_table_size (sender->calls);
      (*place)->n_bytes -= sender->n_bytes;
      llm_bus_account_unref (*place);
    }
  *place = account;
  if (account != NULL)
    {
      account->n_calls += g_hash_table_size (sender->calls);
      account->n_bytes += sender->n_bytes;
    }
}

static void
sender_free (gpointer data)
{
  Sender *sender = data;

  move (sender, &sender->app, NULL);
  move (sender, &sender->user, NULL);
  g_hash_table_unref (sender->calls);
  g_free (sender);
}

/* From now on on the bus, if it was not before. */
static Sender *
get_sender (LlmBusGate *self,
            const char *name)
{
  Sender *sender = g_hash_table_lookup (self->senders, name);
  struct timespec now = { 0 };

  if (sender == NULL)
    {
      clock_gettime (CLOCK_BOOTTIME, &now);
      sender = g_new0 (Sender, 1);
      sender->seen_us = (gint64) now.tv_sec * G_USEC_PER_SEC + now.tv_nsec / 1000;
      sender->calls = g_hash_table_new_full (NULL, NULL, NULL, g_free);
      sender->user = llm_bus_account_get (self->accounts, g_strdup (""));
      llm_bus_bucket_set_rate (&sender->others, MAX_OTHERS, 1);
      g_hash_table_insert (self->senders, g_strdup (name), sender);
    }
  return sender;
}

/* FALSE when a call of @bytes is refused. */
static gboolean
check_call (LlmBusGate  *self,
            Sender      *sender,
            guint64      bytes,
            GError     **error)
{
  const LlmBusAccount *user = sender->user;
  const LlmBusAccount *app = sender->app;
  double price = 1 + (double) (bytes / BYTES_PER_CALL);
  guint64 max_bytes = app != NULL ? app->max_bytes : self->max_bytes;
  guint n_calls = g_hash_table_size (sender->calls);

  sender->is_caller = TRUE;
  if (bytes > max_bytes)
    return llm_fail (error, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                     "The call has %ju bytes; this service takes at most %ju", bytes, max_bytes);
  if (app == NULL)
    return n_calls < LLM_BUS_GATE_NEW_CALLS ||
           llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "%u calls of this connection are unanswered and the service does not know yet "
                     "whose it is; wait for an answer [retry-after-ms=%u]",
                     n_calls, LLM_BUS_GATE_REFUSAL_MS);
  if (app->n_calls >= app->max_calls)
    return llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "%u calls of this application are unanswered; wait for some "
                     "[retry-after-ms=%u]", app->n_calls, LLM_BUS_GATE_REFUSAL_MS);
  if (user->n_calls >= user->max_calls || user->n_bytes > MAX_USER_MESSAGES * max_bytes)
    return llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "%u calls of this user's applications are unanswered; wait for some "
                     "[retry-after-ms=%u]", user->n_calls, LLM_BUS_GATE_REFUSAL_MS);
  return (llm_bus_bucket_take (&sender->app->bucket, price, FALSE) &&
          llm_bus_bucket_take (&sender->user->bucket, price, FALSE)) ||
         llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                   "This application calls more often than %u times a second, or sends too much; "
                   "wait a second [retry-after-ms=%u]", app->bucket.rate, LLM_BUS_GATE_REFUSAL_MS);
}

/* Signals and answers from connections other than the bus. The service expects few and small ones,
 * so they have a rate limit of their own and count in no account. */
static gboolean
admit_other (LlmBusGate *self,
             Sender     *sender,
             guint64     bytes)
{
  return bytes <= self->max_bytes && bytes / BYTES_PER_CALL < MAX_OTHERS &&
         llm_bus_bucket_take (&sender->others, 1 + (double) (bytes / BYTES_PER_CALL), FALSE);
}

static void
count (Sender *sender,
       int     n_calls,
       gint64  n_bytes)
{
  LlmBusAccount *const accounts[] = { sender->user, sender->app };

  sender->n_bytes += (guint64) n_bytes;
  for (guint i = 0; i < G_N_ELEMENTS (accounts) && accounts[i] != NULL; i++)
    {
      accounts[i]->n_calls += (guint) n_calls;
      accounts[i]->n_bytes += (guint64) n_bytes;
    }
}

/* Admits a call, which counts until it ends; its serial is unique meanwhile. */
static void
begin_call (Sender           *sender,
            const LlmBusHead *head,
            gboolean          is_silent)
{
  const Call call = { .n_bytes = head->n_counted, .is_silent = is_silent };

  g_hash_table_insert (sender->calls, GUINT_TO_POINTER (head->serial),
                       g_memdup2 (&call, sizeof call));
  count (sender, 1, (gint64) call.n_bytes);
}

/* FALSE when no such call is unanswered. @sender: (nullable); @reply_bytes: of the answer; they
 * count towards the rate of calls. */
static gboolean
end_call (Sender   *sender,
          guint32   serial,
          guint64   reply_bytes,
          gboolean *is_silent)
{
  const Call *call =
    sender != NULL ? g_hash_table_lookup (sender->calls, GUINT_TO_POINTER (serial)) : NULL;
  double price = (double) (reply_bytes / REPLY_BYTES_PER_CALL);

  if (call == NULL)
    return FALSE;
  *is_silent = call->is_silent;
  count (sender, -1, -(gint64) call->n_bytes);
  llm_bus_bucket_take (&sender->user->bucket, price, TRUE);
  if (sender->app != NULL)
    llm_bus_bucket_take (&sender->app->bucket, price, TRUE);
  g_hash_table_remove (sender->calls, GUINT_TO_POINTER (serial));
  return TRUE;
}

static void
clear_gate (gpointer data)
{
  LlmBusGate *self = data;

  g_hash_table_unref (self->senders);
  g_hash_table_unref (self->accounts);
  g_object_unref (self->connection);
  g_mutex_clear (&self->mutex);
}

static void
gate_unref (gpointer data)
{
  g_atomic_rc_box_release_full (data, clear_gate);
}

/* --- refusals --- */

typedef struct
{
  LlmBusGate *gate;       /* (owned) */
  LlmBusAccount *user;    /* (owned): until it is sent */
  GDBusMessage *reply;    /* (owned): without its text */
  GError *error;          /* (owned) */
} Refusal;

/* Main thread, when it is due. */
static gboolean
send_refusal (gpointer data)
{
  Refusal *refusal = data;
  LlmBusGate *self = refusal->gate;
  g_autofree char *text = llm_bus_translate (NULL, refusal->error);
  gboolean is_closed;

  g_mutex_lock (&self->mutex);
  is_closed = self->is_closed;
  refusal->user->n_withheld--;
  llm_bus_account_unref (refusal->user);
  g_mutex_unlock (&self->mutex);

  g_dbus_message_set_body (refusal->reply, g_variant_new ("(s)", text));
  if (!is_closed)
    g_dbus_connection_send_message (self->connection, refusal->reply,
                                    G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL, NULL);
  return G_SOURCE_REMOVE;
}

static void
refusal_free (gpointer data)
{
  Refusal *refusal = data;

  gate_unref (refusal->gate);
  g_object_unref (refusal->reply);
  g_error_free (refusal->error);
  g_free (refusal);
}

/* Under the mutex, in the relay's thread. @error: (transfer full) */
static void
refuse (LlmBusGate       *self,
        const Sender     *sender,
        const LlmBusHead *head,
        gboolean          is_silent,
        GError           *error)
{
  g_autoptr(GError) owned = error;
  g_autoptr(GSource) source = NULL;
  g_autofree char *name = NULL;
  Refusal *refusal;

  self->n_refused++;
  if (self->is_closed || is_silent || sender->user->n_withheld >= MAX_WITHHELD)
    return;

  /* not the message itself, which may be as large as the bus allows */
  refusal = g_new0 (Refusal, 1);
  refusal->gate = g_atomic_rc_box_acquire (self);
  refusal->user = llm_bus_account_ref (sender->user);
  refusal->user->n_withheld++;
  refusal->error = g_steal_pointer (&owned);
  refusal->reply = g_dbus_message_new ();
  g_dbus_message_set_message_type (refusal->reply, G_DBUS_MESSAGE_TYPE_ERROR);
  g_dbus_message_set_flags (refusal->reply, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
  g_dbus_message_set_reply_serial (refusal->reply, head->serial);
  g_dbus_message_set_destination (refusal->reply, head->sender);
  name = g_dbus_error_encode_gerror (refusal->error);
  g_dbus_message_set_error_name (refusal->reply, name);
  source = g_timeout_source_new (LLM_BUS_GATE_REFUSAL_MS);
  g_source_set_callback (source, send_refusal, refusal, refusal_free);
  g_source_attach (source, NULL);
}

/* --- for the relay --- */

/* A call without reply gets one inside the service all the same, so that its end is seen;
 * pass_reply() drops it. */
gboolean
llm_bus_gate_admit (LlmBusGate *self,
                    LlmBusHead *head)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);
  Sender *sender = get_sender (self, head->sender);
  gboolean is_silent = (head->flags & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED) != 0;
  GError *error = NULL;

  if (head->type != G_DBUS_MESSAGE_TYPE_METHOD_CALL)
    return admit_other (self, sender, head->n_counted);

  /* An answer to it, a refusal too, would be taken for that of the other call: by its caller, and
   * here. */
  if (g_hash_table_contains (sender->calls, GUINT_TO_POINTER (head->serial)))
    return FALSE;

  /* no method takes descriptors, and a process may have few: the caller gets an error */
  if (check_call (self, sender, head->n_counted, &error) &&
      head->n_fds > 0)
    llm_fail (&error, LLMSVC_ERROR_INVALID_ARGUMENT,
              "The call brings file descriptors; no method takes any");
  if (error != NULL)
    {
      refuse (self, sender, head, is_silent, error);
      return FALSE;
    }

  head->flags &= (guint8) ~G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED;
  begin_call (sender, head, is_silent);
  return TRUE;
}

void
llm_bus_gate_take_spoilt (LlmBusGate       *self,
                          const LlmBusHead *head)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);
  Sender *sender = g_hash_table_lookup (self->senders, head->sender);
  gboolean is_silent;

  if (end_call (sender, head->serial, 0, &is_silent))
    refuse (self, sender, head, is_silent,
            llmsvc_error_new (LLMSVC_ERROR_INVALID_ARGUMENT, NULL,
                              "The message can't be read: the service's D-Bus library takes it for "
                              "damaged"));
}

/* --- the filter: GDBus's thread --- */

/* Whether main has to hear of it: not of connections that never called. */
static gboolean
take_owner_change (LlmBusGate   *self,
                   GDBusMessage *message)
{
  GVariant *body = g_dbus_message_get_body (message);
  const char *name, *owner;
  const Sender *sender;
  gboolean was_caller;

  if (body == NULL || !g_variant_is_of_type (body, G_VARIANT_TYPE ("(sss)")))
    return TRUE;
  g_variant_get (body, "(&s&s&s)", &name, NULL, &owner);
  if (name[0] != ':')
    return TRUE;

  if (owner[0] != '\0')
    {
      if (g_hash_table_size (self->senders) < MAX_SENDERS)
        get_sender (self, name);
      return FALSE;
    }
  sender = g_hash_table_lookup (self->senders, name);
  was_caller = sender == NULL || sender->is_caller;
  g_hash_table_remove (self->senders, name);
  return was_caller;
}

/* Whether a caller who wants no reply may have this one. */
static gboolean
pass_reply (LlmBusGate   *self,
            GDBusMessage *message)
{
  const char *name = g_dbus_message_get_destination (message);
  Sender *sender = name != NULL ? g_hash_table_lookup (self->senders, name) : NULL;
  GVariant *body = g_dbus_message_get_body (message);
  gboolean is_silent;

  return !end_call (sender, g_dbus_message_get_reply_serial (message),
                    body != NULL ? g_variant_get_size (body) : 0, &is_silent) ||
         !is_silent;
}

static GDBusMessage *
filter_message (GDBusConnection *connection,
                GDBusMessage    *message,
                gboolean         incoming,
                gpointer         data)
{
  LlmBusGate *self = data;
  GDBusMessageType type = g_dbus_message_get_message_type (message);
  gboolean may_pass = TRUE;

  g_mutex_lock (&self->mutex);
  if (incoming && type == G_DBUS_MESSAGE_TYPE_SIGNAL &&
      g_strcmp0 (g_dbus_message_get_sender (message), BUS_NAME) == 0 &&
      g_strcmp0 (g_dbus_message_get_member (message), "NameOwnerChanged") == 0)
    may_pass = take_owner_change (self, message);
  else if (!incoming &&
           (type == G_DBUS_MESSAGE_TYPE_METHOD_RETURN || type == G_DBUS_MESSAGE_TYPE_ERROR))
    may_pass = pass_reply (self, message);
  g_mutex_unlock (&self->mutex);

  if (!may_pass)
    g_clear_object (&message);
  return message;
}

/* --- for main --- */

LlmBusGate *
llm_bus_gate_new (GDBusConnection *connection,
                  guint64          max_message)
{
  LlmBusGate *self = g_atomic_rc_box_new0 (LlmBusGate);

  g_mutex_init (&self->mutex);
  self->connection = g_object_ref (connection);
  self->max_bytes = llm_bus_account_max_bytes (max_message);
  self->senders = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, sender_free);
  self->accounts = llm_bus_account_new_table ();
  self->filter = g_dbus_connection_add_filter (connection, filter_message,
                                               g_atomic_rc_box_acquire (self), gate_unref);
  return self;
}

void
llm_bus_gate_free (LlmBusGate *self)
{
  g_dbus_connection_remove_filter (self->connection, self->filter);
  g_mutex_lock (&self->mutex);
  /* delayed refusals, and messages that arrive while the filter is removed, are not answered */
  self->is_closed = TRUE;
  g_mutex_unlock (&self->mutex);
  gate_unref (self);
}

gint64
llm_bus_gate_get_seen (LlmBusGate *self,
                       const char *sender)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);
  const Sender *found = g_hash_table_lookup (self->senders, sender);

  return found != NULL ? found->seen_us : 0;
}

void
llm_bus_gate_set_caller (LlmBusGate         *self,
                         const LlmCaller    *caller,
                         const LlmAppLimits *limits)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);
  Sender *sender = g_hash_table_lookup (self->senders, caller->connection);
  const LlmApp *app = caller->app;

  if (sender == NULL)
    return;
  move (sender, &sender->app,
        llm_bus_account_get (self->accounts, g_strdup_printf ("%u/%s", app->uid, app->id)));
  move (sender, &sender->user,
        llm_bus_account_get (self->accounts, g_strdup_printf ("%u", app->uid)));
  llm_bus_account_limit (sender->app, sender->user, limits);
}

guint64
llm_bus_gate_get_n_refused (LlmBusGate *self)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  return self->n_refused;
}
