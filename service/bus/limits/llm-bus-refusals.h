/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Replies to calls that LlmBusGate did not let in: each waits for LLM_BUS_GATE_REFUSAL_MS and is
 * then said in the caller's language. How many wait is limited by user; what is beyond is not
 * answered at all. LlmBusGate's.
 */

#pragma once

#include "bus/limits/llm-bus-accounts.h"
#include "bus/limits/llm-bus-relay.h"
#include "bus/llm-bus-translate.h"

G_BEGIN_DECLS

typedef struct _LlmBusRefusals LlmBusRefusals;

/* @accounts, @mutex: (unowned): outlive it; the mutex guards both the accounts and the refusals. */
LlmBusRefusals *llm_bus_refusals_new   (GDBusConnection    *connection,
                                        LlmBusTranslator   *translator,
                                        LlmBusAccounts     *accounts,
                                        GMutex             *mutex);
/* After llm_bus_refusals_close(); any thread. */
void            llm_bus_refusals_free  (LlmBusRefusals     *self);
/* Says nothing any more. Under the mutex, main thread. */
void            llm_bus_refusals_close (LlmBusRefusals     *self);

/* Refuses what @head begins. Under the mutex, not in main. @name: of the error, static; @text:
 * (transfer full). */
void            llm_bus_refusals_add   (LlmBusRefusals     *self,
                                        const LlmBusSender *sender,
                                        const LlmBusHead   *head,
                                        const char         *name,
                                        char               *text);
/* So far, those that get no answer included. Under the mutex. */
guint64         llm_bus_refusals_get_n (LlmBusRefusals     *self);

G_END_DECLS
