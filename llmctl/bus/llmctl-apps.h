/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The applications that use the service, for the commands about them. Main thread. */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* (transfer full): aa{sv} as ListApps has it. */
GVariant   *llmctl_apps_list      (GDBusConnection   *bus,
                                   GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* What people are shown of one: its id, or that it has none. */
const char *llmctl_apps_get_title (GVariant          *app);
/* Offers the ids. */
void        llmctl_apps_complete  (LlmctlCompletion  *completion);

G_END_DECLS
