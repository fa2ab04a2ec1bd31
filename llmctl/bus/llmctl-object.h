/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The objects of the service, as the bus shows them to this caller, and what the
 * commands share that are told one on the command line. Main thread.
 */

#pragma once

#include "llmctl/bus/llmctl-introspection.h"
#include "llmctl/llmctl.h"

G_BEGIN_DECLS

typedef struct
{
  char *path;
  LlmctlNode *node;   /* (nullable) (owned): NULL when it does not say what it can do */
} LlmctlObject;

/* (transfer full) (element-type LlmctlObject): @root and what is below it by introspection, in the
 * order of their paths. @is_complete: (out): FALSE when there are too many to look at */
GPtrArray  *llmctl_object_list             (GDBusConnection   *bus,
                                            const char        *root,
                                            gboolean          *is_complete,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* (nullable): the object that the first argument names, or the service's own; moves @argv on
 * when it is one. NULL with @error set when it is no path, or the name after it no text. */
const char *llmctl_object_take_path        (int               *argc,
                                            char            ***argv,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): what the object says that it can do. */
LlmctlNode *llmctl_object_introspect       (GDBusConnection   *bus,
                                            const char        *path,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* For completion: the objects. */
void        llmctl_object_complete_path    (LlmctlCompletion  *completion);

#define LLMCTL_ANY_MEMBER (-1)

/* For completion of an object's path, if the word begins with “/”, or else of the members of
 * @kind that have all @flags, after the arguments @argv; of any kind of the interfaces as well. */
void        llmctl_object_complete_member  (LlmctlCompletion  *completion,
                                            int                argc,
                                            char             **argv,
                                            int                kind,
                                            GDBusPropertyInfoFlags flags);
/* For completion of the argument after @n_given others of the method @name. */
void        llmctl_object_complete_argument (LlmctlCompletion *completion,
                                            const char        *path,
                                            const char        *name,
                                            guint              n_given);

G_END_DECLS
