/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls under way of an application, or of a user with all applications, and their limits; and the
 * token bucket of a rate. Nothing here locks: LlmBusGate does, any thread.
 */

#pragma once

#include "accounts/llm-app-account.h"
#include "accounts/llm-caller.h"

G_BEGIN_DECLS

typedef struct
{
  guint rate;         /* tokens a second; 0 for no limit */
  double most;        /* tokens that can be saved */
  double tokens;
  gint64 filled_us;   /* 0: never yet */
} LlmBusBucket;

/* The bucket is filled when it had no rate, or another one, before. */
void           llm_bus_bucket_set_rate   (LlmBusBucket       *self,
                                          guint               rate,
                                          guint               burst_s);
/* Takes @price tokens; FALSE when there are too few, unless @may_owe: the cost of a call shows only
 * in its reply, so the bucket may get negative, by as much as it can hold. */
gboolean       llm_bus_bucket_take       (LlmBusBucket       *self,
                                          double              price,
                                          gboolean            may_owe);

typedef struct
{
  GHashTable *table;   /* (unowned): the table that has it */
  char *key;
  guint n_refs;        /* connections, and delayed refusals */
  guint n_calls;       /* unanswered */
  guint64 n_bytes;     /* of these */
  guint n_withheld;    /* refusals that wait */
  guint max_calls;
  guint64 max_bytes;   /* of one call */
  LlmBusBucket bucket; /* of calls in a second */
} LlmBusAccount;

/* (element-type utf8 LlmBusAccount) (transfer full) */
GHashTable    *llm_bus_account_new_table (void);
/* (transfer full): made when it is not in @table yet. @key: (transfer full). */
LlmBusAccount *llm_bus_account_get       (GHashTable         *table,
                                          char               *key);
LlmBusAccount *llm_bus_account_ref       (LlmBusAccount      *self);
void           llm_bus_account_unref     (LlmBusAccount      *self);
/* Sets the limits of the accounts of an application and its user. */
void           llm_bus_account_limit     (LlmBusAccount      *app,
                                          LlmBusAccount      *user,
                                          const LlmAppLimits *limits);
/* Bytes that a call may have, of which @max_message are text. */
guint64        llm_bus_account_max_bytes (guint64             max_message);

G_END_DECLS
