/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the other objects know of the client. Its signals and whatever goes on without a call
 * belong to its home, the main context that was the thread's default when it was made. The
 * client's thread.
 */

#pragma once

#include "calls/llmsvc-call.h"
#include "llmsvc-client.h"

G_BEGIN_DECLS

struct _LlmsvcClient
{
  GObject parent_instance;

  GMainContext *home;
  LlmsvcPeer *peer;
  GBusType bus_type;
  gboolean has_own_app_id;  /* the app has said it, it is not the application's */

  GArray *subscriptions;    /* (element-type guint) */
  gulong closed_handler;
  gboolean is_activatable;
  guint n_owners;           /* grows with every owner of the name that comes or goes */

  LlmsvcAvailability availability;
  char *reason;
  char *version;
  guint api_version;
  GStrv features;
  gboolean has_load_progress;  /* the last was not the end */
  char *active_path;        /* "/" for none */
  LlmsvcModel *active_model;  /* (nullable) (owned) */
  GListStore *models;       /* (owned) */

  GPtrArray *contexts;      /* (element-type LlmsvcContext) (unowned): all there are */
};

/* --- llmsvc-client-follow.c --- */

/* Subscribes to what the service and the bus tell, for the client's life. */
void          llmsvc_client_follow             (LlmsvcClient         *self);

/* --- llmsvc-client-state.c: values of a wrong type change nothing --- */

/* The service does not run. */
void          llmsvc_client_set_not_running    (LlmsvcClient         *self,
                                                gboolean              is_activatable);
/* @values: a{sv}. */
void          llmsvc_client_apply_properties   (LlmsvcClient         *self,
                                                GVariant             *values);
/* @interfaces: a{sa{sv}} of the object at @path. */
void          llmsvc_client_add_model          (LlmsvcClient         *self,
                                                const char           *path,
                                                GVariant             *interfaces);
void          llmsvc_client_update_model       (LlmsvcClient         *self,
                                                const char           *path,
                                                GVariant             *values);
void          llmsvc_client_remove_model       (LlmsvcClient         *self,
                                                const char           *path);
/* Reads the service's properties and models. */
void          llmsvc_client_read_async         (LlmsvcClient         *self,
                                                LlmsvcCallFlags       flags,
                                                GCancellable         *cancellable,
                                                GAsyncReadyCallback   callback,
                                                gpointer              user_data);
gboolean      llmsvc_client_read_finish        (GAsyncResult         *result,
                                                GError              **error);

G_END_DECLS
