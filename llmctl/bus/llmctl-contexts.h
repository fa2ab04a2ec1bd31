/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Contexts as the commands use them: the library's calls, waited for. Each ends early as
 * llmctl_wait() says. Main thread. */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* (transfer full): a new context. @name, @system, @messages (a(ssa{sv})) and @options are
 * nullable; @options is not changed. */
LlmsvcContext *llmctl_contexts_create         (LlmsvcClient      *client,
                                               const char        *name,
                                               const char        *system,
                                               GVariant          *messages,
                                               LlmsvcOptions     *options,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full): the one kept under @name. */
LlmsvcContext *llmctl_contexts_open           (LlmsvcClient      *client,
                                               const char        *name,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full): the same, made if there is none. @system (nullable) is for a new one
 * only: LLMSVC_ERROR_INVALID_ARGUMENT otherwise. */
LlmsvcContext *llmctl_contexts_open_or_create (LlmsvcClient      *client,
                                               const char        *name,
                                               const char        *system,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* (nullable) (transfer full): the one kept under @name that can't be opened, as what is stored of it
 * is damaged. */
LlmsvcContext *llmctl_contexts_find_damaged   (LlmsvcClient      *client,
                                               const char        *name);
/* (element-type LlmsvcContext) (transfer full) */
GPtrArray     *llmctl_contexts_list           (LlmsvcClient      *client,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* (element-type LlmsvcMessage) (transfer full) */
GPtrArray     *llmctl_contexts_read           (LlmsvcContext     *context,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* (transfer full): where it is kept; LLMSVC_ERROR_UNSUPPORTED of a service that can't say. */
LlmsvcContextMemory *llmctl_contexts_get_memory (LlmsvcContext   *context,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;
gboolean       llmctl_contexts_close          (LlmsvcContext     *context,
                                               GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* Offers the names. */
void           llmctl_contexts_complete       (LlmctlCompletion  *completion);

G_END_DECLS
