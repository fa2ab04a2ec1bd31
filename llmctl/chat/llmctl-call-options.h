/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The options of a call that answers, as every command that asks takes them. Main thread. */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* Of LlmctlCommand. */
extern const GOptionEntry llmctl_call_options[];

/* (transfer full): what was given of them. */
LlmsvcOptions *llmctl_call_options_collect (GError        **error);
/* (transfer full): takes those out of @options that only a context that is made has. */
LlmsvcOptions *llmctl_call_options_split   (LlmsvcOptions  *options);

G_END_DECLS
