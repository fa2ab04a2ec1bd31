/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* One message of a conversation: who said it, and what. Immutable; any thread. */

#pragma once

#include <glib-object.h>

#include "llmsvc-version.h"

G_BEGIN_DECLS

/**
 * LLMSVC_ROLE_SYSTEM:
 *
 * The role of a text that says how to answer.
 *
 * Since: 0.1
 */
#define LLMSVC_ROLE_SYSTEM    "system"

/**
 * LLMSVC_ROLE_USER:
 *
 * The role of what the user says.
 *
 * Since: 0.1
 */
#define LLMSVC_ROLE_USER      "user"

/**
 * LLMSVC_ROLE_ASSISTANT:
 *
 * The role of what the model answers.
 *
 * Since: 0.1
 */
#define LLMSVC_ROLE_ASSISTANT "assistant"

/**
 * LLMSVC_ROLE_TOOL:
 *
 * The role of what a tool has to say about the call that the model asked for.
 *
 * Since: 0.1
 */
#define LLMSVC_ROLE_TOOL      "tool"

#define LLMSVC_TYPE_MESSAGE (llmsvc_message_get_type ())
LLMSVC_AVAILABLE_IN_0_1
G_DECLARE_FINAL_TYPE (LlmsvcMessage, llmsvc_message, LLMSVC, MESSAGE, GObject)

/* Properties: "role" (string), "text" (string), "extras" (variant a{sv}, nullable), all
 * construct-only. */

LLMSVC_AVAILABLE_IN_0_1
LlmsvcMessage *llmsvc_message_new        (const char    *role,
                                          const char    *text);
/* What the function of a call, a JSON object, returned. */
LLMSVC_AVAILABLE_IN_0_1
LlmsvcMessage *llmsvc_message_new_tool_result (const char  *call,
                                               const char  *text,
                                               GError     **error) G_GNUC_WARN_UNUSED_RESULT;
LLMSVC_AVAILABLE_IN_0_1
const char    *llmsvc_message_get_role   (LlmsvcMessage *self);
LLMSVC_AVAILABLE_IN_0_1
const char    *llmsvc_message_get_text   (LlmsvcMessage *self);
LLMSVC_AVAILABLE_IN_0_1
GVariant      *llmsvc_message_get_extras (LlmsvcMessage *self);

G_END_DECLS
