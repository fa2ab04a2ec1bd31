/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/limits/llm-bus-account.h"

#include "bus/limits/llm-bus-gate.h"

/* Unanswered calls beyond the quota of calls under way: properties, cancels, short calls. */
#define EXTRA_CALLS 32
/* Of all of one user's applications: as many as the main thread answers within some 30 ms. */
#define MAX_USER_CALLS 512
/* Bytes of a message beside its text: options, roles, names. */
#define EXTRA_BYTES (256 * 1024)
/* All of a user's applications together may make this many times the calls of one. */
#define USER_RATE 2

void
llm_bus_bucket_set_rate (LlmBusBucket *self,
                         guint         rate,
                         guint         burst_s)
{
  if (self->filled_us != 0 && self->rate == rate)
    return;
  self->rate = rate;
  self->most = (double) rate * burst_s;
  self->tokens = self->most;
  self->filled_us = g_get_monotonic_time ();
}

gboolean
llm_bus_bucket_take (LlmBusBucket *self,
                     double        price,
                     gboolean      may_owe)
{
  gint64 now_us = g_get_monotonic_time ();

  if (self->rate == 0)
    return TRUE;
  self->tokens += (double) (now_us - self->filled_us) / G_USEC_PER_SEC * self->rate;
  self->tokens = MIN (self->tokens, self->most);
  self->filled_us = now_us;

  /* a call that costs more than the bucket holds is admitted when the bucket is full */
  if (!may_owe && self->tokens < MIN (price, self->most))
    return FALSE;
  self->tokens -= price;
  if (may_owe)
    self->tokens = MAX (self->tokens, -self->most);
  return TRUE;
}

static void
account_free (gpointer data)
{
  LlmBusAccount *self = data;

  g_free (self->key);
  g_free (self);
}

GHashTable *
llm_bus_account_new_table (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, NULL, account_free);
}

LlmBusAccount *
llm_bus_account_get (GHashTable *table,
                     char       *key)
{
  LlmBusAccount *self = g_hash_table_lookup (table, key);

  if (self != NULL)
    {
      g_free (key);
      return llm_bus_account_ref (self);
    }
  self = g_new0 (LlmBusAccount, 1);
  self->table = table;
  self->key = key;
  g_hash_table_insert (table, key, self);
  return llm_bus_account_ref (self);
}

LlmBusAccount *
llm_bus_account_ref (LlmBusAccount *self)
{
  self->n_refs++;
  return self;
}

void
llm_bus_account_unref (LlmBusAccount *self)
{
  if (--self->n_refs == 0)
    g_hash_table_remove (self->table, self->key);
}

void
llm_bus_account_limit (LlmBusAccount      *app,
                       LlmBusAccount      *user,
                       const LlmAppLimits *limits)
{
  guint user_rate = MIN (limits->default_rate, G_MAXUINT / USER_RATE) * USER_RATE;

  /* an application with no limit, or a high one, is not held back by that of the user */
  if (limits->rate == 0 || limits->default_rate == 0)
    user_rate = 0;
  else
    user_rate = MAX (user_rate, limits->rate);
  llm_bus_bucket_set_rate (&app->bucket, limits->rate, LLM_BUS_GATE_BURST_S);
  llm_bus_bucket_set_rate (&user->bucket, user_rate, LLM_BUS_GATE_BURST_S);
  app->max_bytes = llm_bus_account_max_bytes (limits->message);
  app->max_calls = EXTRA_CALLS + MIN (limits->calls, G_MAXUINT / 4);
  user->max_calls = MAX_USER_CALLS + MIN (limits->queue, G_MAXUINT / 4);
}

/* Options may have text, too. */
guint64
llm_bus_account_max_bytes (guint64 max_message)
{
  return 2 * MIN (max_message, G_MAXUINT64 / 8) + EXTRA_BYTES;
}
