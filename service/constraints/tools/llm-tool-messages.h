/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Messages about tools for chat templates that do not know these: tools become part of the system
 * text, calls part of the answer's text, written in the general way (see LlmCallFormat), and
 * results messages of the user where there is no role for them. Any thread.
 */

#pragma once

#include "template/llm-template.h"

G_BEGIN_DECLS

typedef struct
{
  GArray *messages;      /* (element-type LlmMessage) (owned): copies */
  guint n_settled;
  guint n_system;
  gboolean has_tools;    /* they are part of the text */
} LlmToolMessages;

/* (transfer full) (nullable): @messages, of which the first @n_settled are settled and the first
 * @n_system system messages, with @tools (nullable, JSON); NULL: the template takes them as they
 * are. */
LlmToolMessages *llm_tool_messages_new  (const LlmTemplateFeatures *features,
                                         const GArray              *messages,
                                         guint                      n_settled,
                                         guint                      n_system,
                                         const char                *tools);
void             llm_tool_messages_free (LlmToolMessages           *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmToolMessages, llm_tool_messages_free)

G_END_DECLS
