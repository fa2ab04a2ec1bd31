/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-gate.h"

#include "base/llm-fail.h"
#include "bus/llm-bus-translate.h"
#include "common/llmsvc-error-private.h"

#define BUS_NAME "org.freedesktop.DBus"

/* Atomically reference-counted, because the filter may run, and refusals wait, when it is freed. */
struct _LlmBusGate
{
  GDBusConnection *connection;  /* (owned) */
  guint filter;

  GMutex mutex;                 /* for all below */
  LlmBusAccounts *accounts;     /* (owned) */
  gboolean is_closed;
  guint64 n_refused;
};

static void
clear_gate (gpointer data)
{
  LlmBusGate *self = data;

  llm_bus_accounts_free (self->accounts);
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
  char *sender;
  guint32 serial;
  char *user;             /* (nullable): its account */
  GError *error;          /* (owned) */
} Refusal;

static void
refusal_free (gpointer data)
{
  Refusal *refusal = data;

  gate_unref (refusal->gate);
  g_free (refusal->sender);
  g_free (refusal->user);
  g_error_free (refusal->error);
  g_free (refusal);
}

/* Main thread, when it is due. */
static gboolean
send_refusal (gpointer data)
{
  Refusal *refusal = data;
  LlmBusGate *self = refusal->gate;
  g_autofree char *name = g_dbus_error_encode_gerror (refusal->error);
  g_autofree char *text = llm_bus_translate (NULL, refusal->error);
  g_autoptr(GDBusMessage) reply = g_dbus_message_new ();
  gboolean is_closed;

  g_mutex_lock (&self->mutex);
  is_closed = self->is_closed;
  llm_bus_accounts_release (self->accounts, refusal->user);
  g_mutex_unlock (&self->mutex);
  if (is_closed)
    return G_SOURCE_REMOVE;

  g_dbus_message_set_message_type (reply, G_DBUS_MESSAGE_TYPE_ERROR);
  g_dbus_message_set_flags (reply, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
  g_dbus_message_set_reply_serial (reply, refusal->serial);
  g_dbus_message_set_destination (reply, refusal->sender);
  g_dbus_message_set_error_name (reply, name);
  g_dbus_message_set_body (reply, g_variant_new ("(s)", text));
  g_dbus_connection_send_message (self->connection, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                  NULL);
  return G_SOURCE_REMOVE;
}

/* Under the mutex, in the relay's thread. @error: (transfer full) */
static void
refuse (LlmBusGate         *self,
        const LlmBusSender *sender,
        const LlmBusHead   *head,
        gboolean            is_silent,
        GError             *error)
{
  g_autoptr(GError) owned = error;
  g_autoptr(GSource) source = NULL;
  char *user = NULL;
  Refusal *refusal;

  self->n_refused++;
  if (self->is_closed || is_silent || !llm_bus_accounts_withhold (self->accounts, sender, &user))
    return;

  /* not the message itself: it may be as large as the bus lets it be */
  refusal = g_new0 (Refusal, 1);
  refusal->gate = g_atomic_rc_box_acquire (self);
  refusal->sender = g_strdup (head->sender);
  refusal->serial = head->serial;
  refusal->error = g_steal_pointer (&owned);
  refusal->user = user;
  source = g_timeout_source_new (LLM_BUS_GATE_REFUSAL_MS);
  g_source_set_callback (source, send_refusal, refusal, refusal_free);
  g_source_attach (source, NULL);
}

/* --- for the relay --- */

/* A caller who wants no reply is owed one inside all the same, so that the end of the call is seen;
 * pass_reply() takes it off again. */
gboolean
llm_bus_gate_admit (LlmBusGate *self,
                    LlmBusHead *head)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);
  LlmBusSender *sender = llm_bus_accounts_get_sender (self->accounts, head->sender);
  gboolean is_silent = (head->flags & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED) != 0;
  GError *error = NULL;

  if (head->type != G_DBUS_MESSAGE_TYPE_METHOD_CALL)
    return llm_bus_accounts_admit_other (self->accounts, sender, head->n_counted);

  /* An answer to it, a refusal too, would be taken for the other one's: by its caller, and here. */
  if (llm_bus_sender_has_call (sender, head->serial))
    return FALSE;

  /* no method takes descriptors, and they are few: whoever sends some must hear of it */
  if (llm_bus_accounts_check_call (self->accounts, sender, head->n_counted, &error) &&
      head->n_fds > 0)
    llm_fail (&error, LLMSVC_ERROR_INVALID_ARGUMENT,
              "The call brings file descriptors; no method takes any");
  if (error != NULL)
    {
      refuse (self, sender, head, is_silent, error);
      return FALSE;
    }

  head->flags &= (guint8) ~G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED;
  llm_bus_sender_begin_call (sender, head->serial, head->n_counted, is_silent);
  return TRUE;
}

void
llm_bus_gate_take_spoilt (LlmBusGate       *self,
                          const LlmBusHead *head)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);
  LlmBusSender *sender = llm_bus_accounts_find_sender (self->accounts, head->sender);
  gboolean is_silent;

  if (sender != NULL && llm_bus_sender_end_call (sender, head->serial, 0, &is_silent))
    refuse (self, sender, head, is_silent,
            llmsvc_error_new (LLMSVC_ERROR_INVALID_ARGUMENT, NULL,
                              "The message can't be read: the service's D-Bus library takes it for "
                              "damaged"));
}

/* --- the filter: GDBus's thread --- */

/* Whether main has to know of it: not of connections that never called. */
static gboolean
take_owner_change (LlmBusGate   *self,
                   GDBusMessage *message)
{
  GVariant *body = g_dbus_message_get_body (message);
  const char *name, *owner;

  if (body == NULL || !g_variant_is_of_type (body, G_VARIANT_TYPE ("(sss)")))
    return TRUE;
  g_variant_get (body, "(&s&s&s)", &name, NULL, &owner);
  if (name[0] != ':')
    return TRUE;

  if (owner[0] == '\0')
    return llm_bus_accounts_forget_sender (self->accounts, name);
  llm_bus_accounts_add_sender (self->accounts, name);
  return FALSE;
}

/* Whether a caller who wants no reply may have this one. */
static gboolean
pass_reply (LlmBusGate   *self,
            GDBusMessage *message)
{
  const char *name = g_dbus_message_get_destination (message);
  LlmBusSender *sender =
    name != NULL ? llm_bus_accounts_find_sender (self->accounts, name) : NULL;
  GVariant *body = g_dbus_message_get_body (message);
  gboolean is_silent;

  return sender == NULL ||
         !llm_bus_sender_end_call (sender, g_dbus_message_get_reply_serial (message),
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
  self->accounts = llm_bus_accounts_new (max_message);
  self->filter = g_dbus_connection_add_filter (connection, filter_message,
                                               g_atomic_rc_box_acquire (self), gate_unref);
  return self;
}

void
llm_bus_gate_free (LlmBusGate *self)
{
  g_dbus_connection_remove_filter (self->connection, self->filter);
  g_mutex_lock (&self->mutex);
  /* refusals that wait, and what still comes in while the filter goes, are not answered */
  self->is_closed = TRUE;
  g_mutex_unlock (&self->mutex);
  gate_unref (self);
}

gint64
llm_bus_gate_get_seen (LlmBusGate *self,
                       const char *sender)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  return llm_bus_accounts_get_seen (self->accounts, sender);
}

void
llm_bus_gate_set_caller (LlmBusGate         *self,
                         const LlmCaller    *caller,
                         const LlmAppLimits *limits)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  llm_bus_accounts_set_caller (self->accounts, caller, limits);
}

guint64
llm_bus_gate_get_n_refused (LlmBusGate *self)
{
  g_autoptr(GMutexLocker) locker = g_mutex_locker_new (&self->mutex);

  return self->n_refused;
}
