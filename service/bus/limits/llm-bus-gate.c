/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-gate.h"

#include "bus/limits/llm-bus-accounts.h"
#include "bus/limits/llm-bus-refusals.h"
#include "bus/limits/llm-bus-relay.h"

#include "common/llmsvc-names.h"

#define BUS_NAME "org.freedesktop.DBus"

/* Atomically reference-counted, because the filter may run when it is freed. */
struct _LlmBusGate
{
  GDBusConnection *connection;  /* (owned) */
  LlmBusRelay *relay;           /* (nullable): the connection's: asks before GDBus reads */
  guint filter;

  GMutex mutex;                 /* for all below */
  LlmBusAccounts *accounts;     /* (owned) */
  LlmBusRefusals *refusals;     /* (owned) */
};

/* --- what comes in --- */

/* Under the mutex. A caller who wants no reply is owed one inside all the same, so that the end of
 * the call is seen; pass_reply() takes it off again. */
static gboolean
admit (LlmBusGate *self,
       LlmBusHead *head)
{
  LlmBusSender *sender = llm_bus_accounts_get_sender (self->accounts, head->sender);
  const char *error = NULL;
  gboolean is_silent;
  char *reason;

  if (head->type != G_DBUS_MESSAGE_TYPE_METHOD_CALL)
    return llm_bus_accounts_admit_other (self->accounts, sender, head->n_bytes);

  /* An answer to it, a refusal too, would be taken for the other one's: by its caller, and here. */
  if (llm_bus_sender_has_call (sender, head->serial))
    return FALSE;

  reason = llm_bus_accounts_check_call (self->accounts, sender, head->n_bytes, &error);
  /* no method takes descriptors, and they are few: whoever sends some must hear of it */
  if (reason == NULL && head->n_fds > 0)
    {
      error = LLMSVC_ERROR_PREFIX "InvalidArgument";
      reason = g_strdup ("The call brings file descriptors; no method takes any");
    }
  if (reason != NULL)
    {
      llm_bus_refusals_add (self->refusals, sender, head, error, reason);
      return FALSE;
    }

  is_silent = (head->flags & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED) != 0;
  head->flags &= (guint8) ~G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED;
  llm_bus_sender_begin_call (sender, head->serial, head->n_bytes, is_silent);
  return TRUE;
}

static guint64
get_body_bytes (GDBusMessage *message)
{
  GVariant *body = g_dbus_message_get_body (message);

  return body != NULL ? g_variant_get_size (body) : 0;
}

/* The same without a relay, for a message that GDBus has read. @message: (transfer full). */
static GDBusMessage *
take_call (LlmBusGate   *self,
           GDBusMessage *message)
{
  GDBusMessageFlags flags = g_dbus_message_get_flags (message);
  LlmBusHead head = {
    .type = G_DBUS_MESSAGE_TYPE_METHOD_CALL,
    .sender = g_dbus_message_get_sender (message),
    .serial = g_dbus_message_get_serial (message),
    .flags = (guint8) flags,
    .n_bytes = get_body_bytes (message),
  };

  if (!admit (self, &head))
    {
      g_object_unref (message);
      return NULL;
    }
  if (head.flags != (guint8) flags)
    {
      GDBusMessage *copy = g_dbus_message_copy (message, NULL);

      g_object_unref (message);
      if (copy == NULL)
        return NULL;
      message = copy;
      g_dbus_message_set_flags (message, head.flags);
    }
  return message;
}

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

static GDBusMessage *
take_incoming (LlmBusGate   *self,
               GDBusMessage *message)
{
  const char *sender = g_dbus_message_get_sender (message);
  GDBusMessageType type = g_dbus_message_get_message_type (message);

  if (sender == NULL)
    return message;
  if (type == G_DBUS_MESSAGE_TYPE_METHOD_CALL && sender[0] == ':' && self->relay == NULL)
    return take_call (self, message);
  if (type == G_DBUS_MESSAGE_TYPE_SIGNAL && g_str_equal (sender, BUS_NAME) &&
      g_strcmp0 (g_dbus_message_get_member (message), "NameOwnerChanged") == 0 &&
      !take_owner_change (self, message))
    g_clear_object (&message);
  return message;
}

/* --- what goes out --- */

static GDBusMessage *
pass_reply (LlmBusGate   *self,
            GDBusMessage *message)
{
  const char *name = g_dbus_message_get_destination (message);
  GDBusMessageType type = g_dbus_message_get_message_type (message);
  LlmBusSender *sender;
  gboolean is_silent;

  if (name == NULL ||
      (type != G_DBUS_MESSAGE_TYPE_METHOD_RETURN && type != G_DBUS_MESSAGE_TYPE_ERROR))
    return message;
  sender = llm_bus_accounts_find_sender (self->accounts, name);
  if (sender != NULL &&
      llm_bus_sender_end_call (sender, g_dbus_message_get_reply_serial (message),
                               get_body_bytes (message), &is_silent) &&
      is_silent)
    g_clear_object (&message);
  return message;
}

static GDBusMessage *
filter_message (GDBusConnection *connection,
                GDBusMessage    *message,
                gboolean         incoming,
                gpointer         data)
{
  LlmBusGate *self = data;

  g_mutex_lock (&self->mutex);
  message = incoming ? take_incoming (self, message) : pass_reply (self, message);
  g_mutex_unlock (&self->mutex);
  return message;
}

/* --- for the relay --- */

static gboolean
admit_head (LlmBusHead *head,
            gpointer    data)
{
  LlmBusGate *self = data;
  gboolean is_admitted;

  g_mutex_lock (&self->mutex);
  is_admitted = admit (self, head);
  g_mutex_unlock (&self->mutex);
  return is_admitted;
}

static void
note_spoilt (const LlmBusHead *head,
             gpointer          data)
{
  LlmBusGate *self = data;
  LlmBusSender *sender;
  gboolean is_silent;

  g_mutex_lock (&self->mutex);
  sender = llm_bus_accounts_find_sender (self->accounts, head->sender);
  if (sender != NULL && llm_bus_sender_end_call (sender, head->serial, 0, &is_silent))
    {
      LlmBusHead told = *head;

      told.flags = is_silent ? G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED : 0;
      llm_bus_refusals_add (self->refusals, sender, &told, LLMSVC_ERROR_PREFIX "InvalidArgument",
                            g_strdup ("The message can't be read: the service's D-Bus library "
                                      "takes it for damaged"));
    }
  g_mutex_unlock (&self->mutex);
}

static const LlmBusRelayGate relay_gate = { admit_head, note_spoilt };

/* --- for main --- */

static void
clear_gate (gpointer data)
{
  LlmBusGate *self = data;

  llm_bus_refusals_free (self->refusals);
  llm_bus_accounts_free (self->accounts);
  g_object_unref (self->connection);
  g_mutex_clear (&self->mutex);
}

static void
gate_unref (gpointer data)
{
  g_atomic_rc_box_release_full (data, clear_gate);
}

LlmBusGate *
llm_bus_gate_new (GDBusConnection  *connection,
                  LlmBusTranslator *translator,
                  guint64           max_message)
{
  LlmBusGate *self = g_atomic_rc_box_new0 (LlmBusGate);

  g_mutex_init (&self->mutex);
  self->connection = g_object_ref (connection);
  self->accounts = llm_bus_accounts_new (max_message);
  self->refusals = llm_bus_refusals_new (connection, translator, self->accounts, &self->mutex);
  self->filter = g_dbus_connection_add_filter (connection, filter_message,
                                               g_atomic_rc_box_acquire (self), gate_unref);
  self->relay = llm_bus_relay_get (connection);
  if (self->relay != NULL)
    llm_bus_relay_set_gate (self->relay, &relay_gate, self);
  return self;
}

void
llm_bus_gate_free (LlmBusGate *self)
{
  if (self->relay != NULL)
    llm_bus_relay_set_gate (self->relay, NULL, NULL);
  g_dbus_connection_remove_filter (self->connection, self->filter);
  g_mutex_lock (&self->mutex);
  llm_bus_refusals_close (self->refusals);
  g_mutex_unlock (&self->mutex);
  gate_unref (self);
}

gint64
llm_bus_gate_get_seen (LlmBusGate *self,
                       const char *sender)
{
  const LlmBusSender *found;
  gint64 seen_us;

  g_mutex_lock (&self->mutex);
  found = llm_bus_accounts_find_sender (self->accounts, sender);
  seen_us = found != NULL ? llm_bus_sender_get_seen (found) : 0;
  g_mutex_unlock (&self->mutex);
  return seen_us;
}

void
llm_bus_gate_set_caller (LlmBusGate         *self,
                         const LlmCaller    *caller,
                         const LlmAppLimits *limits)
{
  g_mutex_lock (&self->mutex);
  llm_bus_accounts_set_caller (self->accounts, caller, limits);
  g_mutex_unlock (&self->mutex);
}

guint64
llm_bus_gate_get_n_refused (LlmBusGate *self)
{
  guint64 n;

  g_mutex_lock (&self->mutex);
  n = llm_bus_refusals_get_n (self->refusals);
  g_mutex_unlock (&self->mutex);
  return n;
}
