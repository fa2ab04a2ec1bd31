/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The synchronous twins, for programs without a main loop. They block the thread that calls
 * them, so an app with a window has no use for them; nothing else is dispatched meanwhile.
 * Each does what the function of the same name with _async does.
 */

#pragma once

#include "llmsvc-bus.h"
#include "llmsvc-client.h"
#include "llmsvc-context.h"
#include "llmsvc-generation.h"

G_BEGIN_DECLS

LLMSVC_AVAILABLE_IN_0_1
GDBusConnection *llmsvc_bus_find_sync (GBusType      bus_type,
                                       GCancellable *cancellable,
                                       GBusType     *found_type,
                                       gboolean     *is_running,
                                       GError      **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
LlmsvcClient *llmsvc_client_new_sync (GBusType      bus_type,
                                      const char   *app_id,
                                      GCancellable *cancellable,
                                      GError      **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
LlmsvcClient *llmsvc_client_new_for_connection_sync (GDBusConnection *connection,
                                                     const char      *app_id,
                                                     GCancellable    *cancellable,
                                                     GError         **error)
                                                     G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_client_refresh_sync (LlmsvcClient *self,
                                     GCancellable *cancellable,
                                     GError      **error);
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_client_prewarm_sync (LlmsvcClient  *self,
                                     LlmsvcOptions *options,
                                     GCancellable  *cancellable,
                                     GError       **error);
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_client_count_tokens_sync (LlmsvcClient   *self,
                                          LlmsvcMessage **messages,
                                          gsize           n_messages,
                                          LlmsvcOptions  *options,
                                          GCancellable   *cancellable,
                                          guint          *tokens,
                                          GError        **error);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcAnswer *llmsvc_client_complete_sync (LlmsvcClient  *self,
                                           const char    *prompt,
                                           LlmsvcOptions *options,
                                           GCancellable  *cancellable,
                                           GError       **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
LlmsvcContext *llmsvc_client_create_context_sync (LlmsvcClient  *self,
                                                  LlmsvcOptions *options,
                                                  GCancellable  *cancellable,
                                                  GError       **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
LlmsvcContext *llmsvc_client_open_context_sync (LlmsvcClient  *self,
                                                const char    *name,
                                                LlmsvcOptions *options,
                                                GCancellable  *cancellable,
                                                GError       **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
GPtrArray *llmsvc_client_list_contexts_sync (LlmsvcClient *self,
                                             GCancellable *cancellable,
                                             GError      **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_client_select_model_sync (LlmsvcClient *self,
                                          const char   *model_id,
                                          GCancellable *cancellable,
                                          GError      **error);
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_context_refresh_sync (LlmsvcContext *self,
                                      GCancellable  *cancellable,
                                      GError       **error);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcContextMemory *llmsvc_context_get_memory_sync (LlmsvcContext  *self,
                                                     GCancellable   *cancellable,
                                                     GError        **error)
                                                     G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
LlmsvcGeneration *llmsvc_context_generate_sync (LlmsvcContext  *self,
                                                LlmsvcMessage **messages,
                                                gsize           n_messages,
                                                LlmsvcOptions  *options,
                                                GCancellable   *cancellable,
                                                GError        **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
LlmsvcGeneration *llmsvc_context_prompt_sync (LlmsvcContext *self,
                                              const char    *prompt,
                                              LlmsvcOptions *options,
                                              GCancellable  *cancellable,
                                              GError       **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
LlmsvcAnswer *llmsvc_context_ask_sync (LlmsvcContext *self,
                                       const char    *prompt,
                                       LlmsvcOptions *options,
                                       GCancellable  *cancellable,
                                       GError       **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_context_append_sync (LlmsvcContext  *self,
                                     LlmsvcMessage **messages,
                                     gsize           n_messages,
                                     LlmsvcOptions  *options,
                                     GCancellable   *cancellable,
                                     guint          *tokens,
                                     GError        **error);
LLMSVC_AVAILABLE_IN_0_1
LlmsvcContext *llmsvc_context_fork_sync (LlmsvcContext *self,
                                         LlmsvcOptions *options,
                                         GCancellable  *cancellable,
                                         GError       **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_context_rollback_sync (LlmsvcContext *self,
                                       guint          n_turns,
                                       LlmsvcOptions *options,
                                       GCancellable  *cancellable,
                                       GError       **error);
LLMSVC_AVAILABLE_IN_0_1
GPtrArray *llmsvc_context_list_messages_sync (LlmsvcContext *self,
                                              GCancellable  *cancellable,
                                              GError       **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_context_close_sync (LlmsvcContext *self,
                                    GCancellable  *cancellable,
                                    GError       **error);
LLMSVC_AVAILABLE_IN_0_1
char *llmsvc_generation_next_sync (LlmsvcGeneration *self,
                                   GCancellable     *cancellable,
                                   GError          **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
LlmsvcAnswer *llmsvc_generation_finish_sync (LlmsvcGeneration *self,
                                             GCancellable     *cancellable,
                                             GError          **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
gboolean llmsvc_generation_cancel_sync (LlmsvcGeneration *self,
                                        GCancellable     *cancellable,
                                        GError          **error);

G_END_DECLS
