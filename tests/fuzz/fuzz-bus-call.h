/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One random call: built from what the world knows, sent, and its reply judged. A reply must come,
 * have the type that introspection promised, or be an error of the service or of the bus. Main
 * thread.
 */

#pragma once

#include "fuzz/fuzz-bus-value.h"
#include "fuzz/fuzz-bus-world.h"

G_BEGIN_DECLS

typedef struct
{
  GDBusMessage *message;     /* (owned) */
  GDBusConnection *sender;   /* (owned) */
  char *expected;            /* (nullable): the type of a reply, when the call is a right one */
  gboolean wants_reply;
  gint64 sent;               /* µs, 0: not yet */
  gint64 ended;              /* µs, 0: not yet */
  GDBusMessage *reply;       /* (owned) (nullable) */
  GError *failure;           /* (owned) (nullable): there is no reply */
} FuzzBusCall;

FuzzBusCall *fuzz_bus_call_new     (FuzzBusHints       *hints,
                                    FuzzBusWorld       *world,
                                    GDBusConnection    *sender);
void         fuzz_bus_call_free    (FuzzBusCall        *self);
/* It must live until it has ended. */
void         fuzz_bus_call_send    (FuzzBusCall        *self);
/* Puts objects that the reply names into @world, adds the descriptors it brings to @fds (int), and
 * gives the name under which it is counted: "ok", "gone", or of an error. NULL with @error when no
 * service may answer so. */
const char  *fuzz_bus_call_judge   (FuzzBusCall        *self,
                                    FuzzBusWorld       *world,
                                    GArray             *fds,
                                    GError            **error);
/* (transfer full): for people, with long arguments cut. */
char        *fuzz_bus_call_print   (FuzzBusCall        *self);

G_END_DECLS
