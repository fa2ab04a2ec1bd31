/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Help for the members of interfaces, printed for people. Main thread. */

#pragma once

#include "llmctl/bus/llmctl-introspection.h"

G_BEGIN_DECLS

/* (transfer full): "prompt: string, options: {key: any, …}". */
char    *llmctl_arguments_describe (GDBusArgInfo       **arguments);

/* "Ask (prompt: string, options: {key: any, …}) → (text: string, …)", (transfer full). */
char    *llmctl_member_describe    (const LlmctlMember  *member);

/* One line, and the first sentence of its help; @value is nullable. */
void     llmctl_member_show_short  (const LlmctlMember  *member,
                                    GVariant            *value);

/* All that is known of it: arguments, keys of options, help. */
void     llmctl_member_show        (const LlmctlMember  *member,
                                    GVariant            *value);

/* How to call it: "Usage: llmctl call [PATH] …", (transfer full); @path is nullable. */
char    *llmctl_member_make_usage  (const char          *path,
                                    const LlmctlMember  *method);

/* (nullable) (transfer full): the first sentence of its help. */
char    *llmctl_member_get_sentence (const LlmctlMember *member);

G_END_DECLS
