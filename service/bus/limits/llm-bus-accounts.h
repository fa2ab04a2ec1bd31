/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What connections, their applications and their users have under way, and what of it is too much.
 * LlmBusGate's, who locks it: any thread.
 */

#pragma once

#include "accounts/llm-app-account.h"
#include "accounts/llm-caller.h"

G_BEGIN_DECLS

/* Calls unanswered at a time of a connection whose application is not known yet. */
#define LLM_BUS_GATE_NEW_CALLS 32
/* A quota of so many calls a second may be overdrawn by so many seconds' worth. */
#define LLM_BUS_GATE_BURST_S 3
/* Refusals wait so long. */
#define LLM_BUS_GATE_REFUSAL_MS 1000

typedef struct _LlmBusAccounts LlmBusAccounts;
/* A connection, until it is forgotten. */
typedef struct _LlmBusSender LlmBusSender;

/* @max_message: bytes of text in one call, until it is known whose it is. */
LlmBusAccounts *llm_bus_accounts_new           (guint64             max_message);
void            llm_bus_accounts_free          (LlmBusAccounts     *self);

/* --- connections --- */

/* @name has come to the bus. */
void            llm_bus_accounts_add_sender    (LlmBusAccounts     *self,
                                                const char         *name);
/* FALSE when it was here and never called. */
gboolean        llm_bus_accounts_forget_sender (LlmBusAccounts     *self,
                                                const char         *name);
/* From now on on the bus, if it was not before. */
LlmBusSender   *llm_bus_accounts_get_sender    (LlmBusAccounts     *self,
                                                const char         *name);
/* (nullable) */
LlmBusSender   *llm_bus_accounts_find_sender   (LlmBusAccounts     *self,
                                                const char         *name);
/* @caller's connection belongs to its application from now on, which has @limits. */
void            llm_bus_accounts_set_caller    (LlmBusAccounts     *self,
                                                const LlmCaller    *caller,
                                                const LlmAppLimits *limits);
/* When it was seen first (CLOCK_BOOTTIME, µs); 0 when it is not on the bus any more. */
gint64          llm_bus_accounts_get_seen      (LlmBusAccounts     *self,
                                                const char         *name);

/* --- calls --- */

/* FALSE when a call of @bytes is not let in. */
gboolean        llm_bus_accounts_check_call    (LlmBusAccounts     *self,
                                                LlmBusSender       *sender,
                                                guint64             bytes,
                                                GError            **error);
/* Of messages that are no calls. */
gboolean        llm_bus_accounts_admit_other   (LlmBusAccounts     *self,
                                                LlmBusSender       *sender,
                                                guint64             bytes);
/* Whether a call of this number is unanswered. */
gboolean        llm_bus_sender_has_call        (const LlmBusSender *sender,
                                                guint32             serial);
/* A call is let in, and counts until it ends; no other one has its number. @is_silent: the caller
 * wants no reply. */
void            llm_bus_sender_begin_call      (LlmBusSender       *sender,
                                                guint32             serial,
                                                guint64             bytes,
                                                gboolean            is_silent);
/* FALSE when no such call is unanswered. @reply_bytes: of the answer; they count towards the rate
 * of calls. */
gboolean        llm_bus_sender_end_call        (LlmBusSender       *sender,
                                                guint32             serial,
                                                guint64             reply_bytes,
                                                gboolean           *is_silent);

/* --- refusals that wait --- */

/* One more of the user of @sender; the account is kept until it is released. FALSE when too many
 * wait. *@user: (transfer full) (nullable): its account, NULL while that is not known: these are
 * counted together. */
gboolean        llm_bus_accounts_withhold      (LlmBusAccounts     *self,
                                                const LlmBusSender *sender,
                                                char              **user);
void            llm_bus_accounts_release       (LlmBusAccounts     *self,
                                                const char         *user);

G_END_DECLS
