/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An app's connection to the service: whether it answers, its models, contexts and
 * single questions. It follows the service over restarts. Used from the thread whose
 * main context was the default when it was made.
 */

#pragma once

#include <gio/gio.h>

#include "llmsvc-answer.h"
#include "llmsvc-enums.h"
#include "llmsvc-message.h"
#include "llmsvc-model.h"
#include "llmsvc-options.h"
#include "llmsvc-version.h"

G_BEGIN_DECLS

typedef struct _LlmsvcContext LlmsvcContext;

#define LLMSVC_TYPE_CLIENT (llmsvc_client_get_type ())
LLMSVC_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (LlmsvcClient, llmsvc_client, LLMSVC, CLIENT, GObject)

/* Properties, all readable with notify: "availability", "availability-reason", "version",
 * "api-version", "features" (GStrv), "active-model" (LlmsvcModel, nullable), "models"
 * (GListModel of LlmsvcModel), "bus-type", "connection", "app-id". */

/* --- making one --- */

/* @bus_type: G_BUS_TYPE_NONE for the system bus first, then the session bus.
 * @app_id: (nullable): registers an app outside a sandbox under the name of its desktop
 * file (again after each restart); NULL for g_application_get_default()'s id if there is
 * an application, "" for none. Does not start the service: that is the first call's. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_new_async  (GBusType             bus_type,
                                              const char          *app_id,
                                              GCancellable        *cancellable,
                                              GAsyncReadyCallback  callback,
                                              gpointer             user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcClient       *llmsvc_client_new_finish (GAsyncResult        *result,
                                              GError             **error) G_GNUC_WARN_UNUSED_RESULT;
/* On a connection of the app's own, such as a private bus; app_id as above. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_new_for_connection_async  (GDBusConnection     *connection,
                                                             const char          *app_id,
                                                             GCancellable        *cancellable,
                                                             GAsyncReadyCallback  callback,
                                                             gpointer             user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcClient       *llmsvc_client_new_for_connection_finish (GAsyncResult        *result,
                                                             GError             **error)
                                                             G_GNUC_WARN_UNUSED_RESULT;

/* --- the service as it is --- */

LLMSVC_AVAILABLE_IN_0_1
LlmsvcAvailability  llmsvc_client_get_availability        (LlmsvcClient *self);
LLMSVC_AVAILABLE_IN_0_1
const char         *llmsvc_client_get_availability_reason (LlmsvcClient *self);
LLMSVC_AVAILABLE_IN_0_1
const char         *llmsvc_client_get_version             (LlmsvcClient *self);
LLMSVC_AVAILABLE_IN_0_1
guint               llmsvc_client_get_api_version         (LlmsvcClient *self);
LLMSVC_AVAILABLE_IN_0_1
const char *const  *llmsvc_client_get_features            (LlmsvcClient *self);
LLMSVC_AVAILABLE_IN_0_1
gboolean            llmsvc_client_has_feature             (LlmsvcClient *self,
                                                           const char   *feature);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcModel        *llmsvc_client_get_active_model        (LlmsvcClient *self);
/* (transfer none): GListModel of LlmsvcModel, the same object for the client's life,
 * which follows what is installed, also files that can't be used (`usable` of their info is false).
 * Filled when the service runs. */
LLMSVC_AVAILABLE_IN_0_1
GListModel         *llmsvc_client_get_models              (LlmsvcClient *self);
LLMSVC_AVAILABLE_IN_0_1
GDBusConnection    *llmsvc_client_get_connection          (LlmsvcClient *self);
LLMSVC_AVAILABLE_IN_0_1
GBusType            llmsvc_client_get_bus_type            (LlmsvcClient *self);

/* --- calls; @options are nullable everywhere --- */

/* Starts the service if it is not running and reads its properties and models. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_refresh_async         (LlmsvcClient         *self,
                                                         GCancellable         *cancellable,
                                                         GAsyncReadyCallback   callback,
                                                         gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
gboolean            llmsvc_client_refresh_finish        (LlmsvcClient         *self,
                                                         GAsyncResult         *result,
                                                         GError              **error);
/* Loads the model now, because a question is about to come. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_prewarm_async         (LlmsvcClient         *self,
                                                         LlmsvcOptions        *options,
                                                         GCancellable         *cancellable,
                                                         GAsyncReadyCallback   callback,
                                                         gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
gboolean            llmsvc_client_prewarm_finish        (LlmsvcClient         *self,
                                                         GAsyncResult         *result,
                                                         GError              **error);
/* What messages cost. @messages: (array length=n_messages). */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_count_tokens_async    (LlmsvcClient         *self,
                                                         LlmsvcMessage       **messages,
                                                         gsize                 n_messages,
                                                         LlmsvcOptions        *options,
                                                         GCancellable         *cancellable,
                                                         GAsyncReadyCallback   callback,
                                                         gpointer              user_data);
/* @tokens: (out). */
LLMSVC_AVAILABLE_IN_0_1
gboolean            llmsvc_client_count_tokens_finish   (LlmsvcClient         *self,
                                                         GAsyncResult         *result,
                                                         guint                *tokens,
                                                         GError              **error);
/* One question, one answer, no context kept. A cancelled one stops at the service, too. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_complete_async        (LlmsvcClient         *self,
                                                         const char           *prompt,
                                                         LlmsvcOptions        *options,
                                                         GCancellable         *cancellable,
                                                         GAsyncReadyCallback   callback,
                                                         gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcAnswer       *llmsvc_client_complete_finish       (LlmsvcClient         *self,
                                                         GAsyncResult         *result,
                                                         GError              **error)
                                                         G_GNUC_WARN_UNUSED_RESULT;
/* A new context; with the option "name" it is kept until it is closed. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_create_context_async  (LlmsvcClient         *self,
                                                         LlmsvcOptions        *options,
                                                         GCancellable         *cancellable,
                                                         GAsyncReadyCallback   callback,
                                                         gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcContext      *llmsvc_client_create_context_finish (LlmsvcClient         *self,
                                                         GAsyncResult         *result,
                                                         GError              **error)
                                                         G_GNUC_WARN_UNUSED_RESULT;
/* A context kept under @name; with the option "create" it is made if there is none, with
 * the other options that contexts are made with. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_open_context_async    (LlmsvcClient         *self,
                                                         const char           *name,
                                                         LlmsvcOptions        *options,
                                                         GCancellable         *cancellable,
                                                         GAsyncReadyCallback   callback,
                                                         gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcContext      *llmsvc_client_open_context_finish   (LlmsvcClient         *self,
                                                         GAsyncResult         *result,
                                                         GError              **error)
                                                         G_GNUC_WARN_UNUSED_RESULT;
/* (element-type LlmsvcContext) (transfer container): the app's contexts, named or not. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_list_contexts_async   (LlmsvcClient         *self,
                                                         GCancellable         *cancellable,
                                                         GAsyncReadyCallback   callback,
                                                         gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
GPtrArray          *llmsvc_client_list_contexts_finish  (LlmsvcClient         *self,
                                                         GAsyncResult         *result,
                                                         GError              **error)
                                                         G_GNUC_WARN_UNUSED_RESULT;
/* Changes the model for everyone; may ask the user for permission. */
LLMSVC_AVAILABLE_IN_0_1
void                llmsvc_client_select_model_async    (LlmsvcClient         *self,
                                                         const char           *model_id,
                                                         GCancellable         *cancellable,
                                                         GAsyncReadyCallback   callback,
                                                         gpointer              user_data);
LLMSVC_AVAILABLE_IN_0_1
gboolean            llmsvc_client_select_model_finish   (LlmsvcClient         *self,
                                                         GAsyncResult         *result,
                                                         GError              **error);

G_END_DECLS
