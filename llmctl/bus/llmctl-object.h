/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The objects of the service, as the bus shows them to this caller, and what the
 * commands share that are told one on the command line. Main thread.
 */

#pragma once

#include "llmctl/bus/llmctl-introspection.h"
#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* Steps below the root: the service has two. */
#define LLMCTL_OBJECT_MAX_DEPTH 16

typedef struct
{
  char *path;         /* (owned) */
  guint depth;        /* steps below the root */
  const char *name;   /* the end of the path, below the object above; of the root the whole path */
  LlmctlNode *node;   /* (nullable) (owned): NULL when it does not say what it can do */
} LlmctlObject;

/* (transfer full) (element-type LlmctlObject): @root and what is below it by introspection, in the
 * order of their paths. @is_complete: (out): FALSE when there are too many to look at */
GPtrArray  *llmctl_object_list             (const char        *root,
                                            gboolean          *is_complete,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* (nullable): the object that the first argument names, or the service's own; moves @argv on
 * when it is one. NULL with @error set when it is no path, or the name after it no text. */
const char *llmctl_object_take_path        (int               *argc,
                                            char            ***argv,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): what the object says that it can do. */
LlmctlNode *llmctl_object_introspect       (const char        *path,
                                            GError           **error) G_GNUC_WARN_UNUSED_RESULT;
/* The same, and of it what llmctl_node_find_member() finds. @node: (out) (nullable) (transfer full):
 * NULL when the object says nothing */
const LlmctlMember *llmctl_object_find_member (const char       *path,
                                               LlmctlMemberKind  kind,
                                               const char       *name,
                                               LlmctlNode      **node,
                                               GError          **error) G_GNUC_WARN_UNUSED_RESULT;

/* For completion: @names from LLMCTL_NAMES_OBJECTS on, after the arguments @argv. */
void        llmctl_object_complete         (LlmctlCompletion  *completion,
                                            LlmctlNames        names,
                                            int                argc,
                                            char             **argv);

G_END_DECLS
