/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The gate in front of a service of one object, against a bus that the test plays itself at the
 * other end of a connection: it says what the bus says, and who sends. Main thread, but for the
 * answers of the bus.
 */

#pragma once

#include "bus/limits/llm-bus-gate.h"

G_BEGIN_DECLS

/* Who calls. */
#define SENDER ":1.5"
#define OTHER ":1.6"

typedef struct
{
  GDBusConnection *service;
  GDBusConnection *bus;
  LlmBusGate *gate;
  GDBusNodeInfo *info;
  GQueue calls;          /* (element-type GDBusMethodInvocation): that reached main */
  gboolean answers;
  guint n_reached;
  GPtrArray *replies;    /* (element-type GDBusMessage): what the bus got */
  GMutex mutex;
  GString *gone;
  int pidfd;             /* -1 for none */
  guint n_asked;         /* for a process id */
  int raw;               /* the bus's socket */
} GateRig;

/* Names that begin so are connections of process 1 of another user, all others of this process. */
#define GATE_RIG_OTHER_USER ":9."

/* Of a g_test_add(). @data: not NULL when the service has a relay. */
void          gate_rig_set_up            (GateRig      *rig,
                                          gconstpointer data);
void          gate_rig_tear_down         (GateRig      *rig,
                                          gconstpointer data);

/* A call of the object's method; its serial. @is_silent: @sender wants no reply. */
guint32       gate_rig_send_call         (GateRig      *rig,
                                          const char   *sender,
                                          const char   *text,
                                          gboolean      is_silent);
/* Another one, with a serial that was used. */
void          gate_rig_send_again        (GateRig      *rig,
                                          const char   *sender,
                                          guint32       serial,
                                          const char   *text);
void          gate_rig_send_owner_change (GateRig      *rig,
                                          const char   *name,
                                          const char   *before,
                                          const char   *after);
/* @sender is an application of its own from now on, with these quotas. */
void          gate_rig_set_caller        (GateRig      *rig,
                                          const char   *sender,
                                          guint         calls,
                                          guint         rate);

/* Of all calls that reached main. */
void          gate_rig_answer_all        (GateRig      *rig);
/* Of the first of them, at length. */
void          gate_rig_answer_with       (GateRig      *rig,
                                          gsize         n_bytes);
guint         gate_rig_count_replies     (GateRig      *rig);
/* What the bus got with this serial. (transfer none) (nullable) */
GDBusMessage *gate_rig_find_reply        (GateRig      *rig,
                                          guint32       serial);
/* Goes on for a moment, for a call that is refused does not wake the main thread. */
void          gate_rig_look_again        (void);
/* Until so many calls have reached main, so many were refused, and so many answers came back. */
void          gate_rig_wait_for          (GateRig      *rig,
                                          guint         n_reached,
                                          guint         n_refused,
                                          guint         n_replies);

G_END_DECLS
