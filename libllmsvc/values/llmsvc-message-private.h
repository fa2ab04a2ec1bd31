/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Messages as they go over the bus, a(ssa{sv}). Any thread. */

#pragma once

#include "llmsvc-message.h"
#include "llmsvc-options.h"

G_BEGIN_DECLS

/* (transfer floating): NULL with @error set when a text is no UTF-8. @messages: (nullable)
 * when @n_messages is 0. */
GVariant  *llmsvc_messages_to_variant   (LlmsvcMessage *const *messages,
                                         gsize                 n_messages,
                                         GError              **error);
/* (transfer floating): the same, with options, as the arguments of a method. */
GVariant  *llmsvc_messages_to_arguments (LlmsvcMessage *const *messages,
                                         gsize                 n_messages,
                                         LlmsvcOptions        *options,
                                         GError              **error);
/* Adds those of @variant, an a(ssa{sv}), to @messages. */
void       llmsvc_messages_add_variant  (GPtrArray            *messages,
                                         GVariant             *variant);
/* Whether @text can go over the bus; @what names it in the message of @error. */
gboolean   llmsvc_text_check            (const char           *text,
                                         const char           *what,
                                         GError              **error);

G_END_DECLS
