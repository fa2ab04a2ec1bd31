/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts as the commands use them: the library's calls, waited for. Each ends early as
 * llmctl_wait_begin() says. Main thread. */

#pragma once

#include "llmctl/bus/llmctl-wait.h"

G_BEGIN_DECLS

/* (element-type LlmsvcContext) (transfer full) */
#define llmctl_contexts_list(client, error)                                                        \
  llmsvc_client_list_contexts_sync (client, llmctl_wait_get_cancellable (), error)
/* (element-type LlmsvcMessage) (transfer full) */
#define llmctl_contexts_read(context, error)                                                       \
  llmsvc_context_list_messages_sync (context, llmctl_wait_get_cancellable (), error)

/* (transfer full): the one kept under @name; what is said when there is none names commands. */
LlmsvcContext *llmctl_contexts_open           (LlmsvcClient      *client,
                                               const char        *name,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same; LLMSVC_ERROR_INVALID_ARGUMENT when @options (nullable), which are those of a new context,
 * want it to be exact and it is not, or the other way round. */
LlmsvcContext *llmctl_contexts_open_as        (LlmsvcClient      *client,
                                               const char        *name,
                                               LlmsvcOptions     *options,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full): a new context. @name, @system, @messages (a(ssa{sv})) and @options are
 * nullable; @options is not changed. */
LlmsvcContext *llmctl_contexts_create         (LlmsvcClient      *client,
                                               const char        *name,
                                               const char        *system,
                                               GVariant          *messages,
                                               LlmsvcOptions     *options,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full): the one kept under @name, made if there is none. @system (nullable) is for a
 * new one only: LLMSVC_ERROR_INVALID_ARGUMENT otherwise; @options (nullable), too, but left out,
 * except as llmctl_contexts_open_as() says. */
LlmsvcContext *llmctl_contexts_open_or_create (LlmsvcClient      *client,
                                               const char        *name,
                                               const char        *system,
                                               LlmsvcOptions     *options,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
