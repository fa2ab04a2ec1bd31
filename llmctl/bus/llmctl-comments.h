/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The comments of introspection data, which GDBus's parser leaves out, in the form of
 * gtk-doc. Untrusted. Any thread. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* (transfer full): of an interface, its member (nullable), and the argument (nullable) of
 * this; "short_description" is an argument of an interface. */
char    *llmctl_comments_make_key (const char  *interface,
                                   const char  *member,
                                   const char  *argument);
/* Adds to @help, (element-type utf8 GString), what the comments say. FALSE for what is no
 * description of an object, or nested too deeply. */
gboolean llmctl_comments_read     (GHashTable  *help,
                                   const char  *xml,
                                   gsize        length,
                                   GError     **error);

G_END_DECLS
