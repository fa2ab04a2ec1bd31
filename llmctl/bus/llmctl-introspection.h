/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an object can do, as the bus or an interface file says it. Both are untrusted:
 * names and types are checked, size and depth are limited, and what is not understood
 * is left out. Main thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

typedef enum
{
  LLMCTL_MEMBER_METHOD,
  LLMCTL_MEMBER_PROPERTY,
  LLMCTL_MEMBER_SIGNAL,
} LlmctlMemberKind;

typedef struct
{
  char *name;   /* "" when the object doesn't say */
  char *type;   /* signature of one complete type */
  char *help;   /* (nullable) */
} LlmctlArgument;

typedef struct
{
  LlmctlMemberKind kind;
  char *name;
  char *help;         /* (nullable): paragraphs, with an empty line between them */
  GPtrArray *in;      /* (element-type LlmctlArgument) (owned): of a method */
  GPtrArray *out;     /* (element-type LlmctlArgument) (owned): of a method or signal */
  char *type;         /* (nullable): of a property */
  gboolean is_readable;
  gboolean is_writable;
  gboolean is_deprecated;
} LlmctlMember;

typedef struct
{
  char *name;
  char *summary;        /* (nullable): one line */
  char *help;           /* (nullable): as of LlmctlMember */
  GPtrArray *members;   /* (element-type LlmctlMember) (owned): methods, properties, signals */
} LlmctlInterface;

typedef struct
{
  GPtrArray *interfaces;   /* (element-type LlmctlInterface) (owned) */
  GPtrArray *children;     /* (element-type utf8) (owned): names below the object's path */
} LlmctlNode;

/**
 * llmctl_node_parse:
 * @xml: introspection data, with or without comments in the form of gtk-doc
 * @length: its bytes
 * @error: return location for an error
 *
 * Returns: (transfer full): what it says, or %NULL with %LLMSVC_ERROR_FAILED set
 */
LlmctlNode            *llmctl_node_parse           (const char       *xml,
                                                    gsize             length,
                                                    GError          **error);

/* (transfer full): asks the object at @path, as llmctl_call() does; see also
 * llmctl_docs_add(). */
LlmctlNode            *llmctl_node_fetch           (GDBusConnection  *bus,
                                                    const char       *path,
                                                    GError          **error);
void                   llmctl_node_free            (LlmctlNode       *self);

/* (nullable): the interface of this name. */
const LlmctlInterface *llmctl_node_find_interface  (const LlmctlNode *self,
                                                    const char       *name);
/* (nullable): the member of this kind and name. */
const LlmctlMember    *llmctl_interface_find       (const LlmctlInterface *self,
                                                    LlmctlMemberKind  kind,
                                                    const char       *name);

/**
 * llmctl_node_find_member:
 * @self: the object
 * @path: its path, for the error
 * @kind: what is looked for
 * @name: "Trim", "org.llm.Service.Memory.Trim", or with the end of the interface's
 *   name, "Memory.Trim"
 * @interface: (out): the interface that has it
 * @error: return location for an error
 *
 * Returns: the member, or %NULL with %LLMSVC_ERROR_INVALID_ARGUMENT set: there is none,
 *   with what may have been meant, or there are several
 */
const LlmctlMember    *llmctl_node_find_member     (const LlmctlNode       *self,
                                                    const char             *path,
                                                    LlmctlMemberKind        kind,
                                                    const char             *name,
                                                    const LlmctlInterface **interface,
                                                    GError                **error);

/* The order in which they are shown: those of the bus itself are the last. */
int                    llmctl_interface_compare    (const char       *left,
                                                    const char       *right);
/* Whether every object on every bus has it; such are shown only when asked for. */
gboolean               llmctl_interface_is_standard (const char      *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlNode, llmctl_node_free)

G_END_DECLS
