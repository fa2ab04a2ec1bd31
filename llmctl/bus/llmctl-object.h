/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The objects of the service, as the bus shows them to this caller, and what the
 * commands share that are told one on the command line. Main thread.
 */

#pragma once

#include "llmctl/bus/llmctl-introspection.h"
#include "llmctl/llmctl.h"

G_BEGIN_DECLS

#define LLMCTL_ROOT_PATH "/org/llm/Service"

typedef struct
{
  char *path;
  GPtrArray *interfaces;   /* (element-type utf8) (owned) */
} LlmctlObject;

/**
 * llmctl_object_list:
 * @bus: from llmctl_connect()
 * @root: where to begin
 * @is_complete: (out): FALSE when there are more than anybody would look at
 * @error: return location for an error
 *
 * Walks down from @root, by introspection and by what object managers say.
 *
 * Returns: (transfer full) (element-type LlmctlObject): @root and what is below it, in
 *   the order of their paths, or %NULL with @error set
 */
GPtrArray  *llmctl_object_list             (GDBusConnection   *bus,
                                            const char        *root,
                                            gboolean          *is_complete,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* The object that the first argument names, or the service's own; moves @argv on
 * when it is one. (nullable): NULL when it is no path, with @error set. */
const char *llmctl_object_take_path        (int               *argc,
                                            char            ***argv,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): all properties of one interface, a{sv}. */
GVariant   *llmctl_object_get_properties   (GDBusConnection   *bus,
                                            const char        *path,
                                            const char        *interface,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* For completion: the objects; and of one object, or of the interface file when the
 * service does not run, the members of one kind, which @accepts (nullable) likes. */
typedef gboolean (*LlmctlAccepts) (const LlmctlMember *member);
void        llmctl_object_complete_path    (LlmctlCompletion  *completion);
void        llmctl_object_complete_member  (LlmctlCompletion  *completion,
                                            const char        *path,
                                            LlmctlMemberKind   kind,
                                            LlmctlAccepts      accepts);
/* (nullable) (transfer full): what the bus or else the interface file says of @path,
 * with help, for completion. */
LlmctlNode *llmctl_object_peek             (const char        *path);

G_END_DECLS
