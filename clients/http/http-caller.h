/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Those for whom the endpoint calls: an application of a user, with a connection to the bus of its
 * own, on which the service counts, orders and keeps apart what it asks for. A connection is made
 * by the first request, and closed a while after the last one. Main thread.
 */

#pragma once

#include <llmsvc.h>

#include "http-conversation.h"

G_BEGIN_DECLS

typedef struct _HttpCallers HttpCallers;

typedef struct
{
  guint32 uid;
  char *app;                /* (owned): what it is registered as */
  LlmsvcClient *client;     /* (nullable) (owned): NULL until it is connected */
  HttpConversations *conversations; /* (owned) */

  /*< private >*/
  HttpCallers *callers;     /* (unowned) (nullable): NULL when it is forgotten */
  guint watch;              /* of the service; 0: none */
  GPtrArray *waiting;       /* (nullable) (element-type GTask): for the connection */
  gint64 used_us;
} HttpCaller;

HttpCallers *http_callers_new     (GBusType     bus_type);
void         http_callers_free    (HttpCallers *self);

/* Ready when the caller is connected, and what it has of conversations is known. */
void         http_callers_get_async  (HttpCallers         *self,
                                      guint32              uid,
                                      const char          *app,
                                      GCancellable        *cancellable,
                                      GAsyncReadyCallback  callback,
                                      gpointer             data);
/* (transfer full) */
HttpCaller  *http_callers_get_finish (HttpCallers         *self,
                                      GAsyncResult        *result,
                                      GError             **error) G_GNUC_WARN_UNUSED_RESULT;
HttpCaller  *http_caller_ref         (HttpCaller          *self);
void         http_caller_unref       (HttpCaller          *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (HttpCaller, http_caller_unref)

G_END_DECLS
