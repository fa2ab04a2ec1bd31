/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The help that interface files bring along: comments in the form of gtk-doc in
 * dbus-1/interfaces of the data folders. The files are untrusted. Main thread.
 */

#pragma once

#include "llmctl/bus/llmctl-introspection.h"

G_BEGIN_DECLS

/* One comment, taken apart. */
typedef struct
{
  char *name;          /* what it is about */
  char *body;          /* paragraphs, with an empty line between them; "" for none */
  GHashTable *params;  /* (element-type utf8 utf8) (owned): "@name:" to its text */
} LlmctlComment;

/* (nullable) (transfer full): NULL for a comment that is no documentation. */
LlmctlComment         *llmctl_comment_parse       (const char            *text);
void                   llmctl_comment_free        (LlmctlComment         *self);

/* (nullable) (transfer none): the interface as the installed files have it. */
const LlmctlInterface *llmctl_docs_find_interface (const char            *name);

/* (nullable) (transfer none): the files' interfaces that have a method of this name,
 * the first of them; for calls that name the wrong object. */
const LlmctlInterface *llmctl_docs_find_method    (const char            *method);

/* (transfer none): the service's own interface file; an empty node without one. */
const LlmctlNode      *llmctl_docs_get_node       (void);

/* Gives what has no help of its own that of the installed files. */
void                   llmctl_docs_add            (LlmctlNode            *node);

/* One key of an a{sv} argument, as the help of the argument lists it. */
typedef struct
{
  char *key;
  char *type;     /* signature */
  char *help;     /* "" for none */
  char **choices; /* (nullable): the values that the help lists */
} LlmctlKey;

/**
 * llmctl_docs_list_keys:
 * @interface: the interface of the method
 * @argument: one of its arguments, `a{sv}`
 *
 * Reads "`key` (type), help" out of the argument's help, and follows "As for Other()".
 *
 * Returns: (transfer full) (element-type LlmctlKey): the keys
 */
GPtrArray             *llmctl_docs_list_keys      (const LlmctlInterface *interface,
                                                   const LlmctlArgument  *argument);

/* (transfer full): the help of @argument without the list of its keys. */
char                  *llmctl_docs_get_lead       (const LlmctlArgument  *argument);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlComment, llmctl_comment_free)

G_END_DECLS
