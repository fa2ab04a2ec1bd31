/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-accounts.h"

#include <time.h>

#include "base/llm-fail.h"

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
/* So many bytes of a call count like another call, and so many of a reply. */
#define BYTES_PER_CALL 1024
#define REPLY_BYTES_PER_CALL 4096
/* All of a user's applications may make so many times the calls of one. */
#define USER_RATE 2
/* Messages in a second of one connection that are no calls; they count like calls. */
#define MAX_OTHERS 1000
/* Refusals that wait, by user; those of connections that nobody knows yet count as one's. */
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

struct _LlmBusSender
{
  gint64 seen_us;
  gboolean is_caller;
  gint64 other_second;
  guint n_others;      /* messages that are no calls, in that second */
  GHashTable *calls;   /* (element-type guint Call) (owned): unanswered, by serial */
  guint64 n_bytes;     /* of these */
  Account *app;        /* (nullable): until it is known */
  Account *user;       /* (nullable) */
};

typedef struct
{
  guint64 n_bytes;
  gboolean is_silent;  /* the caller wants no reply */
} Call;

struct _LlmBusAccounts
{
  guint64 max_bytes;            /* of a call, until it is known whose it is */
  GHashTable *senders;          /* (element-type utf8 LlmBusSender) (owned) */
  GHashTable *accounts;         /* (element-type utf8 Account) (owned) */
  guint n_withheld;             /* of connections without an account */
};

static gint64
get_boot_time (void)
{
  struct timespec now;

  if (clock_gettime (CLOCK_BOOTTIME, &now) != 0)
    return 0;
  return (gint64) now.tv_sec * G_USEC_PER_SEC + now.tv_nsec / 1000;
}

/* Options may hold text, too. */
static guint64
get_max_bytes (guint64 max_message)
{
  return 2 * MIN (max_message, G_MAXUINT64 / 8) + EXTRA_BYTES;
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
  LlmBusSender *sender = data;

  g_hash_table_unref (sender->calls);
  g_free (sender);
}

LlmBusAccounts *
llm_bus_accounts_new (guint64 max_message)
{
  LlmBusAccounts *self = g_new0 (LlmBusAccounts, 1);

  self->max_bytes = get_max_bytes (max_message);
  self->senders = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, sender_free);
  self->accounts = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, account_free);
  return self;
}

void
llm_bus_accounts_free (LlmBusAccounts *self)
{
  g_hash_table_unref (self->senders);
  g_hash_table_unref (self->accounts);
  g_free (self);
}

/* --- accounts --- */

static Account *
get_account (LlmBusAccounts *self,
             const char     *key)
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
drop_account (LlmBusAccounts *self,
              Account        *account)
{
  if (account->n_senders == 0 && account->n_withheld == 0)
    g_hash_table_remove (self->accounts, account->key);
}

static void
leave_account (LlmBusAccounts *self,
               LlmBusSender   *sender,
               Account       **account)
{
  if (*account == NULL)
    return;
  (*account)->n_senders--;
  (*account)->n_calls -= g_hash_table_size (sender->calls);
  (*account)->n_bytes -= sender->n_bytes;
  drop_account (self, *account);
  *account = NULL;
}

/* @key: (transfer full) */
static void
join_account (LlmBusAccounts *self,
              LlmBusSender   *sender,
              Account       **account,
              char           *key)
{
  g_autofree char *owned = key;

  if (*account != NULL && g_str_equal ((*account)->key, key))
    return;
  leave_account (self, sender, account);
  *account = get_account (self, key);
  (*account)->n_senders++;
  (*account)->n_calls += g_hash_table_size (sender->calls);
  (*account)->n_bytes += sender->n_bytes;
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

/* Takes @price of what @account has saved; FALSE when that is not enough, unless it @may_owe: what
 * a call costs shows only in its reply, which leaves debts, up to what can be saved. */
static gboolean
pay (Account *account,
     double   price,
     gboolean may_owe)
{
  gint64 now_us = g_get_monotonic_time ();
  double most = (double) account->rate * LLM_BUS_GATE_BURST_S;

  if (account->rate == 0)
    return TRUE;
  account->tokens += (double) (now_us - account->filled_us) / G_USEC_PER_SEC * account->rate;
  account->tokens = MIN (account->tokens, most);
  account->filled_us = now_us;

  /* a message dearer than all that can be saved is let in when everything is saved */
  if (!may_owe && account->tokens < MIN (price, most))
    return FALSE;
  account->tokens -= price;
  if (may_owe)
    account->tokens = MAX (account->tokens, -most);
  return TRUE;
}

/* Whoever has no limit, or a high one, is not held back by that of the user. */
static guint
get_user_rate (const LlmAppLimits *limits)
{
  guint rate = MIN (limits->default_rate, G_MAXUINT / USER_RATE) * USER_RATE;

  return limits->rate == 0 || limits->default_rate == 0 ? 0 : MAX (rate, limits->rate);
}

/* --- connections --- */

void
llm_bus_accounts_add_sender (LlmBusAccounts *self,
                             const char     *name)
{
  if (g_hash_table_size (self->senders) < MAX_SENDERS)
    llm_bus_accounts_get_sender (self, name);
}

gboolean
llm_bus_accounts_forget_sender (LlmBusAccounts *self,
                                const char     *name)
{
  LlmBusSender *sender = g_hash_table_lookup (self->senders, name);
  gboolean was_caller;

  if (sender == NULL)
    return TRUE;
  was_caller = sender->is_caller;
  leave_account (self, sender, &sender->app);
  leave_account (self, sender, &sender->user);
  g_hash_table_remove (self->senders, name);
  return was_caller;
}

LlmBusSender *
llm_bus_accounts_get_sender (LlmBusAccounts *self,
                             const char     *name)
{
  LlmBusSender *sender = g_hash_table_lookup (self->senders, name);

  if (sender == NULL)
    {
      sender = g_new0 (LlmBusSender, 1);
      sender->seen_us = get_boot_time ();
      sender->calls = g_hash_table_new_full (NULL, NULL, NULL, g_free);
      g_hash_table_insert (self->senders, g_strdup (name), sender);
    }
  return sender;
}

LlmBusSender *
llm_bus_accounts_find_sender (LlmBusAccounts *self,
                              const char     *name)
{
  return g_hash_table_lookup (self->senders, name);
}

void
llm_bus_accounts_set_caller (LlmBusAccounts     *self,
                             const LlmCaller    *caller,
                             const LlmAppLimits *limits)
{
  LlmBusSender *sender = g_hash_table_lookup (self->senders, caller->connection);

  if (sender == NULL)
    return;
  join_account (self, sender, &sender->app,
                g_strdup_printf ("%u/%s", caller->app->uid, caller->app->id));
  join_account (self, sender, &sender->user, g_strdup_printf ("%u", caller->app->uid));
  set_rate (sender->app, limits->rate);
  set_rate (sender->user, get_user_rate (limits));
  sender->app->max_bytes = get_max_bytes (limits->message);
  sender->app->max_calls = EXTRA_CALLS + MIN (limits->calls, G_MAXUINT / 4);
  sender->user->max_calls = MAX_USER_CALLS + MIN (limits->queue, G_MAXUINT / 4);
}

gint64
llm_bus_accounts_get_seen (LlmBusAccounts *self,
                           const char     *name)
{
  const LlmBusSender *sender = g_hash_table_lookup (self->senders, name);

  return sender != NULL ? sender->seen_us : 0;
}

/* --- calls --- */

gboolean
llm_bus_accounts_check_call (LlmBusAccounts *self,
                             LlmBusSender   *sender,
                             guint64         bytes,
                             GError        **error)
{
  double price = 1 + (double) (bytes / BYTES_PER_CALL);
  guint64 max_bytes = sender->app != NULL ? sender->app->max_bytes : self->max_bytes;
  guint n_calls = g_hash_table_size (sender->calls);

  sender->is_caller = TRUE;
  if (bytes > max_bytes)
    return llm_fail (error, LLMSVC_ERROR_MESSAGE_TOO_LARGE,
                     "The call has %ju bytes; this service takes at most %ju", bytes, max_bytes);

  if (sender->app == NULL)
    return n_calls < LLM_BUS_GATE_NEW_CALLS ||
           llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "%u calls of this connection are unanswered and the service does not know yet "
                     "whose it is; wait for an answer [retry-after-ms=%u]",
                     n_calls, LLM_BUS_GATE_REFUSAL_MS);
  if (sender->app->n_calls >= sender->app->max_calls)
    return llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "%u calls of this application are unanswered; wait for some "
                     "[retry-after-ms=%u]", sender->app->n_calls, LLM_BUS_GATE_REFUSAL_MS);
  if (sender->user->n_calls >= sender->user->max_calls ||
      sender->user->n_bytes > MAX_USER_MESSAGES * max_bytes)
    return llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                     "%u calls of this user's applications are unanswered; wait for some "
                     "[retry-after-ms=%u]", sender->user->n_calls, LLM_BUS_GATE_REFUSAL_MS);
  return (pay (sender->app, price, FALSE) && pay (sender->user, price, FALSE)) ||
         llm_fail (error, LLMSVC_ERROR_OVERLOADED,
                   "This application calls more often than %u times a second, or sends too much; "
                   "wait a second [retry-after-ms=%u]", sender->app->rate, LLM_BUS_GATE_REFUSAL_MS);
}

/* Signals and answers from others than the bus: few are ours, and small, and nobody counts them. */
gboolean
llm_bus_accounts_admit_other (LlmBusAccounts *self,
                              LlmBusSender   *sender,
                              guint64         bytes)
{
  guint price = 1 + (guint) MIN (bytes / BYTES_PER_CALL, MAX_OTHERS);
  gint64 second = g_get_monotonic_time () / G_USEC_PER_SEC;

  if (bytes > self->max_bytes)
    return FALSE;
  if (sender->other_second != second)
    sender->n_others = 0;
  sender->other_second = second;
  if (sender->n_others + price > MAX_OTHERS)
    return FALSE;
  sender->n_others += price;
  return TRUE;
}

gboolean
llm_bus_sender_has_call (const LlmBusSender *sender,
                         guint32             serial)
{
  return g_hash_table_contains (sender->calls, GUINT_TO_POINTER (serial));
}

void
llm_bus_sender_begin_call (LlmBusSender *sender,
                           guint32       serial,
                           guint64       bytes,
                           gboolean      is_silent)
{
  const Call call = { .n_bytes = bytes, .is_silent = is_silent };
  Account *const accounts[] = { sender->app, sender->user };

  g_hash_table_insert (sender->calls, GUINT_TO_POINTER (serial), g_memdup2 (&call, sizeof call));
  sender->n_bytes += bytes;
  for (guint i = 0; i < G_N_ELEMENTS (accounts) && accounts[i] != NULL; i++)
    {
      accounts[i]->n_calls++;
      accounts[i]->n_bytes += bytes;
    }
}

gboolean
llm_bus_sender_end_call (LlmBusSender *sender,
                         guint32       serial,
                         guint64       reply_bytes,
                         gboolean     *is_silent)
{
  const Call *call = g_hash_table_lookup (sender->calls, GUINT_TO_POINTER (serial));
  Account *const accounts[] = { sender->app, sender->user };

  if (call == NULL)
    return FALSE;
  *is_silent = call->is_silent;
  sender->n_bytes -= call->n_bytes;
  for (guint i = 0; i < G_N_ELEMENTS (accounts) && accounts[i] != NULL; i++)
    {
      accounts[i]->n_calls--;
      accounts[i]->n_bytes -= call->n_bytes;
      pay (accounts[i], (double) (reply_bytes / REPLY_BYTES_PER_CALL), TRUE);
    }
  g_hash_table_remove (sender->calls, GUINT_TO_POINTER (serial));
  return TRUE;
}

/* --- refusals that wait --- */

gboolean
llm_bus_accounts_withhold (LlmBusAccounts     *self,
                           const LlmBusSender *sender,
                           char              **user)
{
  guint *n_withheld = sender->user != NULL ? &sender->user->n_withheld : &self->n_withheld;

  if (*n_withheld >= MAX_WITHHELD)
    return FALSE;
  ++*n_withheld;
  *user = sender->user != NULL ? g_strdup (sender->user->key) : NULL;
  return TRUE;
}

void
llm_bus_accounts_release (LlmBusAccounts *self,
                          const char     *user)
{
  Account *account = user != NULL ? g_hash_table_lookup (self->accounts, user) : NULL;

  if (user == NULL)
    self->n_withheld--;
  if (account == NULL)
    return;
  account->n_withheld--;
  drop_account (self, account);
}
