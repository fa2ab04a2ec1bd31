/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an object can do, as the bus or an interface file says it. Both are untrusted:
 * names, types and size are checked, and what is not understood is left out. Main thread.
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

/* A member of any kind; all belongs to its node. */
typedef struct
{
  LlmctlMemberKind kind;
  const GDBusInterfaceInfo *interface;
  const char *name;
  GDBusArgInfo **in;             /* of a method; ends with NULL */
  GDBusArgInfo **out;            /* of a method or signal; ends with NULL */
  const char *type;              /* (nullable): of a property, its signature */
  GDBusPropertyInfoFlags flags;  /* of a property */
  gboolean is_deprecated;
} LlmctlMember;

typedef struct
{
  GDBusNodeInfo *info;    /* (owned) */
  GPtrArray *interfaces;  /* (element-type GDBusInterfaceInfo) (owned), as they are shown */
  GArray *members;        /* (element-type LlmctlMember) (owned): of all of them, in this order */
} LlmctlNode;

/* (transfer full): what introspection data say; LLMSVC_ERROR_FAILED if they can't be read. */
LlmctlNode         *llmctl_node_parse     (const char        *xml,
                                           GError           **error);
void                llmctl_node_free      (LlmctlNode        *self);

#define llmctl_node_get_interface(self, i)                                                         \
  ((const GDBusInterfaceInfo *) g_ptr_array_index ((self)->interfaces, (i)))
/* All of them; ends with one without a name. */
#define llmctl_node_get_members(self) ((const LlmctlMember *) (gconstpointer) (self)->members->data)

/* (nullable): the member of the interface of this name. */
const LlmctlMember *llmctl_node_lookup    (const LlmctlNode  *self,
                                           const char        *interface,
                                           LlmctlMemberKind   kind,
                                           const char        *name);
/* (nullable): the interface called @name, or whose name ends so. */
const GDBusInterfaceInfo *llmctl_node_find_interface (const LlmctlNode *self,
                                                      const char       *name);

/* "Trim", "org.llm.Service.Memory.Trim", or with the end of the interface's name, "Memory.Trim".
 * LLMSVC_ERROR_INVALID_ARGUMENT if the object @path has none, with what may have been meant, or has
 * several. */
const LlmctlMember *llmctl_node_find_member (const LlmctlNode  *self,
                                             const char        *path,
                                             LlmctlMemberKind   kind,
                                             const char        *name,
                                             GError           **error);

/* Whether every object on every bus has it; such are shown only when asked for. */
gboolean            llmctl_interface_is_standard (const char *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlNode, llmctl_node_free)

G_END_DECLS
