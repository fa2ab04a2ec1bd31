/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-refusals.h"

#include "bus/limits/llm-bus-gate.h"

/* Refusals that wait, by user. */
#define MAX_WITHHELD 128

typedef struct
{
  gint64 due_us;
  char *sender;
  guint32 serial;
  char *user;             /* (nullable): key */
  const char *name;       /* of the error */
  char *text;
} Refusal;

struct _LlmBusRefusals
{
  GDBusConnection *connection;  /* (owned) */
  LlmBusTranslator *translator; /* (owned): main thread */

  GMutex *mutex;                /* (unowned): for all below */
  LlmBusAccounts *accounts;     /* (unowned) */
  GQueue waiting;               /* (element-type Refusal) (owned), the first due first */
  GSource *timer;               /* (nullable) (owned) */
  gboolean is_closed;
  guint64 n;
};

static void
refusal_free (Refusal *refusal)
{
  g_free (refusal->sender);
  g_free (refusal->user);
  g_free (refusal->text);
  g_free (refusal);
}

LlmBusRefusals *
llm_bus_refusals_new (GDBusConnection  *connection,
                      LlmBusTranslator *translator,
                      LlmBusAccounts   *accounts,
                      GMutex           *mutex)
{
  LlmBusRefusals *self = g_new0 (LlmBusRefusals, 1);

  self->connection = g_object_ref (connection);
  self->translator = llm_bus_translator_ref (translator);
  self->accounts = accounts;
  self->mutex = mutex;
  g_queue_init (&self->waiting);
  return self;
}

void
llm_bus_refusals_free (LlmBusRefusals *self)
{
  g_queue_clear_full (&self->waiting, (GDestroyNotify) refusal_free);
  llm_bus_translator_unref (self->translator);
  g_object_unref (self->connection);
  g_free (self);
}

void
llm_bus_refusals_close (LlmBusRefusals *self)
{
  if (self->timer != NULL)
    g_source_destroy (self->timer);
  g_clear_pointer (&self->timer, g_source_unref);
  /* what still comes in while the gate's filter goes must not set it again */
  self->is_closed = TRUE;
}

/* --- said --- */

static gboolean send_refusals (gpointer data);

/* Under the mutex, any thread. */
static void
start_timer (LlmBusRefusals *self)
{
  const Refusal *first = g_queue_peek_head (&self->waiting);

  if (first == NULL || self->timer != NULL)
    return;
  self->timer = g_timeout_source_new (LLM_BUS_GATE_REFUSAL_MS);
  g_source_set_ready_time (self->timer, first->due_us);
  g_source_set_callback (self->timer, send_refusals, self, NULL);
  g_source_attach (self->timer, NULL);
}

static void
send_refusal (LlmBusRefusals *self,
              Refusal        *refusal)
{
  g_autofree char *text =
    llm_bus_translator_translate (self->translator, NULL, refusal->text);
  g_autoptr(GDBusMessage) reply = g_dbus_message_new ();

  g_dbus_message_set_message_type (reply, G_DBUS_MESSAGE_TYPE_ERROR);
  g_dbus_message_set_flags (reply, G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED);
  g_dbus_message_set_reply_serial (reply, refusal->serial);
  g_dbus_message_set_destination (reply, refusal->sender);
  g_dbus_message_set_error_name (reply, refusal->name);
  g_dbus_message_set_body (reply, g_variant_new ("(s)", text));
  g_dbus_connection_send_message (self->connection, reply, G_DBUS_SEND_MESSAGE_FLAGS_NONE, NULL,
                                  NULL);
}

/* Main thread. */
static gboolean
send_refusals (gpointer data)
{
  LlmBusRefusals *self = data;
  GQueue due = G_QUEUE_INIT;
  gint64 now_us = g_get_monotonic_time ();
  Refusal *refusal;

  g_mutex_lock (self->mutex);
  g_source_destroy (self->timer);
  g_clear_pointer (&self->timer, g_source_unref);
  while ((refusal = g_queue_peek_head (&self->waiting)) != NULL && refusal->due_us <= now_us)
    {
      if (refusal->user != NULL)
        llm_bus_accounts_release (self->accounts, refusal->user);
      g_queue_push_tail (&due, g_queue_pop_head (&self->waiting));
    }
  start_timer (self);
  g_mutex_unlock (self->mutex);

  while ((refusal = g_queue_pop_head (&due)) != NULL)
    {
      send_refusal (self, refusal);
      refusal_free (refusal);
    }
  return G_SOURCE_REMOVE;
}

/* --- withheld --- */

void
llm_bus_refusals_add (LlmBusRefusals     *self,
                      const LlmBusSender *sender,
                      const LlmBusHead   *head,
                      const char         *name,
                      char               *text)
{
  g_autofree char *owned = text;
  const char *user = llm_bus_sender_get_user (sender);
  guint n_waiting;
  Refusal *refusal;

  self->n++;
  if (self->is_closed || (head->flags & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED) != 0)
    return;
  n_waiting = user != NULL ? llm_bus_accounts_get_withheld (self->accounts, user)
                           : self->waiting.length;
  if (n_waiting >= MAX_WITHHELD)
    return;

  /* not the message itself: it may be as large as the bus lets it be */
  refusal = g_new0 (Refusal, 1);
  refusal->due_us = g_get_monotonic_time () + LLM_BUS_GATE_REFUSAL_MS * 1000;
  refusal->sender = g_strdup (head->sender);
  refusal->serial = head->serial;
  refusal->name = name;
  refusal->text = g_steal_pointer (&owned);
  if (user != NULL)
    {
      refusal->user = g_strdup (user);
      llm_bus_accounts_withhold (self->accounts, user);
    }
  g_queue_push_tail (&self->waiting, refusal);
  start_timer (self);
}

guint64
llm_bus_refusals_get_n (LlmBusRefusals *self)
{
  return self->n;
}
