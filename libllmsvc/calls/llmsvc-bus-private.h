/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where the service is, also when it is nowhere. The thread of the caller. */

#pragma once

#include "llmsvc-bus.h"

G_BEGIN_DECLS

typedef struct
{
  GDBusConnection *connection;  /* (owned) */
  GBusType type;
  gboolean is_running;
  gboolean is_activatable;
  char *no_session;             /* (owned) (nullable): why the session bus, where the service may
                                 * be, can't be reached */
} LlmsvcPlace;

void         llmsvc_place_free       (LlmsvcPlace          *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmsvcPlace, llmsvc_place_free)

/* As llmsvc_bus_find_async(); finds the session bus, or the only one that can be reached,
 * when the service is on none. @connection: (nullable): look there and nowhere else. */
void         llmsvc_bus_look_async   (GBusType              bus_type,
                                      GDBusConnection      *connection,
                                      GCancellable         *cancellable,
                                      GAsyncReadyCallback   callback,
                                      gpointer              user_data);
LlmsvcPlace *llmsvc_bus_look_finish  (GAsyncResult         *result,
                                      GError              **error);

/* The shared connections that a search of @bus_type will use, made in the thread's own main
 * context before a search in another one. What fails here fails there again. */
typedef struct
{
  GDBusConnection *system;   /* (owned) (nullable) */
  GDBusConnection *session;  /* (owned) (nullable) */
} LlmsvcBuses;

void         llmsvc_buses_connect    (LlmsvcBuses          *self,
                                      GBusType              bus_type,
                                      GCancellable         *cancellable);
void         llmsvc_buses_clear      (LlmsvcBuses          *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmsvcBuses, llmsvc_buses_clear)

G_END_DECLS
