/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The help that the service's interface file brings along: its comments, in
 * dbus-1/interfaces of the data folders. The file is untrusted. Main thread.
 */

#pragma once

#include "llmctl/bus/llmctl-introspection.h"

G_BEGIN_DECLS

/* (transfer none): the interface file; an empty node without one. */
const LlmctlNode *llmctl_docs_get_node  (void);

/* (nullable): what it says of @interface, its @member (nullable) or the @argument (nullable)
 * of this; "short_description" is an argument of an interface. */
const char       *llmctl_docs_get_help  (const char         *interface,
                                         const char         *member,
                                         const char         *argument);

/* One key of an a{sv} argument, as the help of the argument lists it. */
typedef struct
{
  char *key;
  char *type;     /* signature */
  char *help;     /* "" for none */
  char **choices; /* (nullable): the values that the help lists */
} LlmctlKey;

/* (transfer full) (element-type LlmctlKey): the keys of @argument, `a{sv}`: "`key` (type),
 * help" in its help, and in that of the method that "As for Other()" names. */
GPtrArray        *llmctl_docs_list_keys (const LlmctlMember *method,
                                         const char         *argument);
/* (nullable): the one of @keys that is called @name. */
const LlmctlKey  *llmctl_docs_find_key  (const GPtrArray    *keys,
                                         const char         *name);

/* (transfer full): the help of the argument without the list of its keys. */
char             *llmctl_docs_get_lead  (const LlmctlMember *method,
                                         const GDBusArgInfo *argument);

G_END_DECLS
