/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What LlmBusRelay lets through of the messages that come from the bus: the gate is asked about the
 * head of each that another connection sent, what it refuses is skipped, and what is let in is
 * parsed once for a trial, since GDBus ends a connection over what it can't parse.
 *
 * The relay's thread, but for what says otherwise.
 */

#pragma once

#include "bus/limits/llm-bus-bytes.h"
#include "bus/limits/llm-bus-relay.h"

G_BEGIN_DECLS

typedef struct _LlmBusSieve LlmBusSieve;

LlmBusSieve *llm_bus_sieve_new      (void);
void         llm_bus_sieve_free     (LlmBusSieve           *self);
/* As llm_bus_relay_set_gate(). Main thread. */
void         llm_bus_sieve_set_gate (LlmBusSieve           *self,
                                     const LlmBusRelayGate *gate,
                                     gpointer               data);
/* (transfer none) (element-type int): where descriptors from the bus go. */
GArray      *llm_bus_sieve_get_fds  (LlmBusSieve           *self);
/* Whole messages that may go on come @to. FALSE when what comes makes no sense any more. */
gboolean     llm_bus_sieve_take     (LlmBusSieve           *self,
                                     const guint8          *bytes,
                                     gsize                  length,
                                     LlmBusBytes           *to);

G_END_DECLS
