/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-gate.h"

#include <time.h>

#include "bus/llm-bus-relay.h"

#include "common/llmsvc-names.h"

#define BUS_NAME "org.freedesktop.DBus"

/* Connections to remember: buses have limits of their own far below. */
#define MAX_SENDERS 65536
/* Unanswered at a time, beside those that the quota of calls under way lets be: properties,
 * cancels, short calls. */
#define EXTRA_CALLS 32
/* Of all of one user's applications, as many as the main thread answers within some 30 ms. */
#define MAX_USER_CALLS 512
/* Of unanswered calls, by user, in the largest messages that are let in. */
#define MAX_USER_MESSAGES 32
/* Beside the text of a message: options, roles, names. */
#define EXTRA_BYTES (256 * 1024)
/* A call's bytes count like so many calls. */
#define BYTES_PER_CALL 1024
/* All of a user's applications may make so many times the calls of one. */
#define USER_RATE 2
/* Messages in a second of one connection that are no calls; they count like calls. */
#define MAX_OTHERS 1000
/* Refusals that wait, by user. */
#define MAX_WITHHELD 128

/* What an application, or a user with all of them, has under way. */
typedef struct
{
  char *key;
  guint n_senders;
  guint n_calls;       /* unanswered */
  guint64 n_bytes;     /* of these */
  guint n_withheld;
  guint max_calls;
  guint64 max_bytes;   /* of one call */
  guint rate;          /* calls a second; 0 for no limit */
  double tokens;
  gint64 filled_us;
} Account;

typedef struct
{
  gint64 seen_us;
  gboolean is_caller;
  gint64 other_second;
  guint n_others;      /* messages that are no calls, in that second */
  guint n_calls;
  GHashTable *calls;   /* (element-type guint Call) (nullable) (owned): unanswered, by serial */
  Account *app;        /* (nullable): until it is known */
  Account *user;       /* (nullable) */
} Sender;

typedef struct
{
  guint64 n_bytes;
  gboolean is_silent;  /* the caller wants no reply */
} Call;

typedef struct
{
  gint64 due_us;
  char *sender;
  guint32 serial;
  char *user;             /* (nullable): key */
  const char *name;       /* of the error */
  char *text;
} Refusal;

/* Atomically reference-counted, because the filter may run when it is freed. */
struct _LlmBusGate
{
  GDBusConnection *connection;  /* (owned) */
  LlmBusTranslator *translator; /* (owned): main thread */
  LlmBusRelay *relay;           /* (nullable): of the connection: asks before GDBus has read anything */
  guint64 max_bytes;            /* of a call, until it is known whose it is */
  guint filter;

  GMutex mutex;                 /* for all below */
  GHashTable *senders;          /* (element-type utf8 Sender) (owned) */
  GHashTable *accounts;         /* (element-type utf8 Account) (owned) */
  GQueue refusals;              /* (element-type Refusal) (owned), the first due first */
  GSource *timer;               /* (nullable) (owned) */
  gboolean is_closed;
  guint64 n_refused;
};

static gint64
get_boot_time (void)
{
  struct timespec now;

  if (clock_gettime (CLOCK_BOOTTIME, &now) != 0)
    return 0;
  return (gint64) now.tv_sec * G_USEC_PER_SEC + now.tv_nsec / 1000;
}

static void
account_free (gpointer data)
{
  Account *account = data;

  g_free (account->key);
  g_free (account);
}

static void
sender_free (gpointer data)
{
  Sender *sender = data;

  g_clear_pointer (&sender->calls, g_hash_table_unref);
  g_free (sender);
}

static void
refusal_free (Refusal *refusal)
{
  g_free (refusal->sender);
  g_free (refusal->user);
  g_free (refusal->text);
  g_free (refusal);
}

/* --- accounts --- */

static Account *
get_account (LlmBusGate *self,
             const char *key)
{
  Account *account = g_hash_table_lookup (self->accounts, key);

  if (account == NULL)
    {
      account = g_new0 (Account, 1);
      account->key = g_strdup (key);
      account->filled_us = -1;
      g_hash_table_insert (self->accounts, account->key, account);
    }
  return account;
}

/* An empty account is kept while a refusal of its is due, or it would be owed a new one. */
static void
drop_account (LlmBusGate *self,
              Account    *account)
{
  if (account->n_senders == 0 && account->n_withheld == 0)
    g_hash_table_remove (self->accounts, account->key);
}

static void
leave_account (LlmBusGate *self,
               Sender     *sender,
               Account   **account)
{
  GHashTableIter iter;
  Call *call;

  if (*account == NULL)
    return;
  (*account)->n_senders--;
  (*account)->n_calls -= sender->n_calls;
  if (sender->calls != NULL)
    {
      g_hash_table_iter_init (&iter, sender->calls);
      while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &call))
        (*account)->n_bytes -= call->n_bytes;
    }
  drop_account (self, *account);
  *account = NULL;
}

static void
join_account (LlmBusGate *self,
              Sender     *sender,
              Account   **account,
              const char *key)
{
  GHashTableIter iter;
  Call *call;

  if (*account != NULL && g_str_equal ((*account)->key, key))
    return;
  leave_account (self, sender, account);
  *account = get_account (self, key);
  (*account)->n_senders++;
  (*account)->n_calls += sender->n_calls;
  if (sender->calls == NULL)
    return;
  g_hash_table_iter_init (&iter, sender->calls);
  while (g_hash_table_iter_next (&iter, NULL, (gpointer *) &call))
    (*account)->n_bytes += call->n_bytes;
}

static void
set_rate (Account *account,
          guint    rate)
{
  if (account->filled_us < 0 || account->rate != rate)
    {
      account->tokens = (double) rate * LLM_BUS_GATE_BURST_S;
      account->filled_us = g_get_monotonic_time ();
    }
  account->rate = rate;
}

/* Takes @price of what @account has saved; FALSE when that is not enough. */
static gboolean
pay (Account *account,
     double   price)
{
  gint64 now_us = g_get_monotonic_time ();
  double most = (double) account->rate * LLM_BUS_GATE_BURST_S;

  if (account->rate == 0)
    return TRUE;
  account->tokens += (double) (now_us - account->filled_us) / G_USEC_PER_SEC * account->rate;
  account->tokens = MIN (account->tokens, most);
  account->filled_us = now_us;
  /* a message dearer than all that can be saved is let in when everything is saved */
  if (account->tokens < MIN (price, most))
    return FALSE;
  account->tokens -= price;
  return TRUE;
}

/* --- refusals --- */

static gboolean send_refusals (gpointer data);

/* Under the mutex, any thread. */
static void
start_timer (LlmBusGate *self)
{
  const Refusal *first = g_queue_peek_head (&self->refusals);

  if (first == NULL || self->timer != NULL)
    return;
  self->timer = g_timeout_source_new (LLM_BUS_GATE_REFUSAL_MS);
  g_source_set_ready_time (self->timer, first->due_us);
  g_source_set_callback (self->timer, send_refusals, self, NULL);
  g_source_attach (self->timer, NULL);
}

static void
send_refusal (LlmBusGate *self,
              Refusal    *refusal)
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
  LlmBusGate *self = data;
  GQueue due = G_QUEUE_INIT;
  gint64 now_us = g_get_monotonic_time ();
  Refusal *refusal;

  g_mutex_lock (&self->mutex);
  g_source_destroy (self->timer);
  g_clear_pointer (&self->timer, g_source_unref);
  while ((refusal = g_queue_peek_head (&self->refusals)) != NULL && refusal->due_us <= now_us)
    {
      Account *user =
        refusal->user != NULL ? g_hash_table_lookup (self->accounts, refusal->user) : NULL;

      if (user != NULL)
        {
          user->n_withheld--;
          drop_account (self, user);
        }
      g_queue_push_tail (&due, g_queue_pop_head (&self->refusals));
    }
  start_timer (self);
  g_mutex_unlock (&self->mutex);

  while ((refusal = g_queue_pop_head (&due)) != NULL)
    {
      send_refusal (self, refusal);
      refusal_free (refusal);
    }
  return G_SOURCE_REMOVE;
}

/* Under the mutex, not in main. @name: static; @text: (transfer full). */
static void
refuse (LlmBusGate       *self,
        Sender           *sender,
        const LlmBusHead *head,
        const char       *name,
        char             *text)
{
  g_autofree char *owned = text;
  Refusal *refusal;

  self->n_refused++;
  if (self->is_closed || (head->flags & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED) != 0)
    return;
  if (sender->user != NULL ? sender->user->n_withheld >= MAX_WITHHELD
                           : self->refusals.length >= MAX_WITHHELD)
    return;

  /* not the message itself: it may be as large as the bus lets it be */
  refusal = g_new0 (Refusal, 1);
  refusal->due_us = g_get_monotonic_time () + LLM_BUS_GATE_REFUSAL_MS * 1000;
  refusal->sender = g_strdup (head->sender);
  refusal->serial = head->serial;
  refusal->name = name;
  refusal->text = g_steal_pointer (&owned);
  if (sender->user != NULL)
    {
      refusal->user = g_strdup (sender->user->key);
      sender->user->n_withheld++;
    }
  g_queue_push_tail (&self->refusals, refusal);
  start_timer (self);
}

/* --- what comes in --- */

static Sender *
get_sender (LlmBusGate *self,
            const char *name)
{
  Sender *sender = g_hash_table_lookup (self->senders, name);

  if (sender == NULL)
    {
      sender = g_new0 (Sender, 1);
      sender->seen_us = get_boot_time ();
      g_hash_table_insert (self->senders, g_strdup (name), sender);
    }
  return sender;
}

/* (transfer full) (nullable): why a call of @bytes is not let in. @error: (out): the name of that. */
static char *
check_call (LlmBusGate  *self,
            Sender      *sender,
            guint64      bytes,
            const char **error)
{
  double price = 1 + (double) (bytes / BYTES_PER_CALL);
  guint64 max_bytes = sender->app != NULL ? sender->app->max_bytes : self->max_bytes;

  *error = LLMSVC_ERROR_PREFIX "MessageTooLarge";
  if (bytes > max_bytes)
    return g_strdup_printf ("The call has %ju bytes; this service takes at most %ju", bytes, max_bytes);

  *error = LLMSVC_ERROR_PREFIX "Overloaded";

  if (sender->app == NULL)
    return sender->n_calls < LLM_BUS_GATE_NEW_CALLS
             ? NULL
             : g_strdup_printf ("%u calls of this connection are unanswered and the service does not "
                                "know yet whose it is; wait for an answer [retry-after-ms=%u]",
                                sender->n_calls, LLM_BUS_GATE_REFUSAL_MS);
  if (sender->app->n_calls >= sender->app->max_calls)
    return g_strdup_printf ("%u calls of this application are unanswered; wait for some "
                            "[retry-after-ms=%u]", sender->app->n_calls, LLM_BUS_GATE_REFUSAL_MS);
  if (sender->user->n_calls >= sender->user->max_calls ||
      sender->user->n_bytes > MAX_USER_MESSAGES * max_bytes)
    return g_strdup_printf ("%u calls of this user's applications are unanswered; wait for some "
                            "[retry-after-ms=%u]", sender->user->n_calls, LLM_BUS_GATE_REFUSAL_MS);
  if (!pay (sender->app, price) || !pay (sender->user, price))
    return g_strdup_printf ("This application calls more often than %u times a second, or sends too "
                            "much; wait a second [retry-after-ms=%u]", sender->app->rate,
                            LLM_BUS_GATE_REFUSAL_MS);
  return NULL;
}

static void
count_call (Sender      *sender,
            guint        serial,
            const Call  *call)
{
  if (sender->calls == NULL)
    sender->calls = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  if (!g_hash_table_insert (sender->calls, GUINT_TO_POINTER (serial), g_memdup2 (call, sizeof *call)))
    return;
  sender->n_calls++;
  if (sender->app != NULL)
    {
      sender->app->n_calls++;
      sender->app->n_bytes += call->n_bytes;
      sender->user->n_calls++;
      sender->user->n_bytes += call->n_bytes;
    }
}

/* Signals and answers from others than the bus: few are ours, and small, and nobody counts them. */
static gboolean
admit_other (Sender *sender,
             guint64 bytes)
{
  guint price = 1 + (guint) MIN (bytes / BYTES_PER_CALL, MAX_OTHERS);
  gint64 second = g_get_monotonic_time () / G_USEC_PER_SEC;

  if (sender->other_second != second)
    sender->n_others = 0;
  sender->other_second = second;
  if (sender->n_others + price > MAX_OTHERS)
    return FALSE;
  sender->n_others += price;
  return TRUE;
}

/* Under the mutex. A caller who wants no reply is owed one inside all the same, so that the end of
 * the call is seen; pass_reply() takes it off again. */
static gboolean
admit (LlmBusGate *self,
       LlmBusHead *head)
{
  Sender *sender = get_sender (self, head->sender);
  const char *error = NULL;
  Call call = { .n_bytes = head->n_bytes };
  char *reason;

  if (head->type != G_DBUS_MESSAGE_TYPE_METHOD_CALL)
    return head->n_bytes <= self->max_bytes && admit_other (sender, head->n_bytes);

  sender->is_caller = TRUE;
  reason = check_call (self, sender, head->n_bytes, &error);
  /* no method takes descriptors, and they are few: whoever sends some must hear of it */
  if (reason == NULL && head->n_fds > 0)
    {
      error = LLMSVC_ERROR_PREFIX "InvalidArgument";
      reason = g_strdup ("The call brings file descriptors; no method takes any");
    }
  if (reason != NULL)
    {
      refuse (self, sender, head, error, reason);
      return FALSE;
    }

  call.is_silent = (head->flags & G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED) != 0;
  head->flags &= (guint8) ~G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED;
  count_call (sender, head->serial, &call);
  return TRUE;
}

/* The same without a relay, for a message that GDBus has read. @message: (transfer full). */
static GDBusMessage *
take_call (LlmBusGate   *self,
           GDBusMessage *message)
{
  GDBusMessageFlags flags = g_dbus_message_get_flags (message);
  GVariant *body = g_dbus_message_get_body (message);
  LlmBusHead head = {
    .type = G_DBUS_MESSAGE_TYPE_METHOD_CALL,
    .sender = g_dbus_message_get_sender (message),
    .serial = g_dbus_message_get_serial (message),
    .flags = (guint8) flags,
    .n_bytes = body != NULL ? g_variant_get_size (body) : 0,
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

static void
forget_sender (LlmBusGate *self,
               const char *name,
               Sender     *sender)
{
  leave_account (self, sender, &sender->app);
  leave_account (self, sender, &sender->user);
  g_hash_table_remove (self->senders, name);
}

/* Whether main has to know of it: not of connections that never called. */
static gboolean
take_owner_change (LlmBusGate   *self,
                   GDBusMessage *message)
{
  GVariant *body = g_dbus_message_get_body (message);
  const char *name, *owner;
  Sender *sender;
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
  if (sender == NULL)
    return TRUE;
  was_caller = sender->is_caller;
  forget_sender (self, name, sender);
  return was_caller;
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

static void
end_call (Sender  *sender,
          guint32  serial)
{
  const Call *call = g_hash_table_lookup (sender->calls, GUINT_TO_POINTER (serial));

  sender->n_calls--;
  if (sender->app != NULL)
    {
      sender->app->n_calls--;
      sender->app->n_bytes -= call->n_bytes;
      sender->user->n_calls--;
      sender->user->n_bytes -= call->n_bytes;
    }
  g_hash_table_remove (sender->calls, GUINT_TO_POINTER (serial));
}

static GDBusMessage *
pass_reply (LlmBusGate   *self,
            GDBusMessage *message)
{
  const char *name = g_dbus_message_get_destination (message);
  GDBusMessageType type = g_dbus_message_get_message_type (message);
  guint32 serial = g_dbus_message_get_reply_serial (message);
  Sender *sender;
  Call *call;

  if (name == NULL ||
      (type != G_DBUS_MESSAGE_TYPE_METHOD_RETURN && type != G_DBUS_MESSAGE_TYPE_ERROR))
    return message;
  sender = g_hash_table_lookup (self->senders, name);
  call = sender != NULL && sender->calls != NULL ? g_hash_table_lookup (sender->calls, GUINT_TO_POINTER (serial))
                                                : NULL;
  if (call == NULL)
    return message;

  if (call->is_silent)
    g_clear_object (&message);
  end_call (sender, serial);
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
  Sender *sender;
  const Call *call;

  g_mutex_lock (&self->mutex);
  sender = g_hash_table_lookup (self->senders, head->sender);
  call = sender != NULL && sender->calls != NULL
           ? g_hash_table_lookup (sender->calls, GUINT_TO_POINTER (head->serial))
           : NULL;
  if (call != NULL)
    {
      LlmBusHead told = *head;

      told.flags = call->is_silent ? G_DBUS_MESSAGE_FLAGS_NO_REPLY_EXPECTED : 0;
      end_call (sender, head->serial);
      refuse (self, sender, &told, LLMSVC_ERROR_PREFIX "InvalidArgument",
              g_strdup ("The message can't be read: the service's D-Bus library takes it for damaged"));
    }
  g_mutex_unlock (&self->mutex);
}

static const LlmBusRelayGate relay_gate = { admit_head, note_spoilt };

/* --- for main --- */

/* Options may hold text, too. */
static guint64
get_max_bytes (guint64 max_message)
{
  return 2 * MIN (max_message, G_MAXUINT64 / 8) + EXTRA_BYTES;
}

static void
clear_gate (gpointer data)
{
  LlmBusGate *self = data;

  g_queue_clear_full (&self->refusals, (GDestroyNotify) refusal_free);
  g_hash_table_unref (self->senders);
  g_hash_table_unref (self->accounts);
  llm_bus_translator_unref (self->translator);
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
  self->translator = llm_bus_translator_ref (translator);
  self->max_bytes = get_max_bytes (max_message);
  self->senders = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, sender_free);
  self->accounts = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, account_free);
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
  if (self->timer != NULL)
    g_source_destroy (self->timer);
  g_clear_pointer (&self->timer, g_source_unref);
  /* what still comes in while the filter goes must not set it again */
  self->is_closed = TRUE;
  g_mutex_unlock (&self->mutex);
  gate_unref (self);
}

gint64
llm_bus_gate_get_seen (LlmBusGate *self,
                       const char *sender)
{
  Sender *found;
  gint64 seen_us;

  g_mutex_lock (&self->mutex);
  found = g_hash_table_lookup (self->senders, sender);
  seen_us = found != NULL ? found->seen_us : 0;
  g_mutex_unlock (&self->mutex);
  return seen_us;
}

/* Whoever has no limit, or a high one, is not held back by that of the user. */
static guint
get_user_rate (const LlmAppLimits *limits)
{
  guint rate = MIN (limits->default_rate, G_MAXUINT / USER_RATE) * USER_RATE;

  return limits->rate == 0 || limits->default_rate == 0 ? 0 : MAX (rate, limits->rate);
}

void
llm_bus_gate_set_caller (LlmBusGate         *self,
                         const LlmCaller    *caller,
                         const LlmAppLimits *limits)
{
  g_autofree char *app_key = g_strdup_printf ("%u/%s", caller->uid, caller->app_id);
  g_autofree char *user_key = g_strdup_printf ("%u", caller->uid);
  Sender *sender;

  g_mutex_lock (&self->mutex);
  sender = g_hash_table_lookup (self->senders, caller->connection);
  if (sender != NULL)
    {
      join_account (self, sender, &sender->app, app_key);
      join_account (self, sender, &sender->user, user_key);
      set_rate (sender->app, limits->rate);
      set_rate (sender->user, get_user_rate (limits));
      sender->app->max_bytes = get_max_bytes (limits->message);
      sender->app->max_calls = EXTRA_CALLS + MIN (limits->calls, G_MAXUINT / 4);
      sender->user->max_calls = MAX_USER_CALLS + MIN (limits->queue, G_MAXUINT / 4);
    }
  g_mutex_unlock (&self->mutex);
}

guint64
llm_bus_gate_get_n_refused (LlmBusGate *self)
{
  guint64 n;

  g_mutex_lock (&self->mutex);
  n = self->n_refused;
  g_mutex_unlock (&self->mutex);
  return n;
}
