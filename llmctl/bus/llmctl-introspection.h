/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What an object can do, as the bus or an interface file says it, the help that the service's
 * interface file (dbus-1/interfaces of the data folders) brings along in its comments, and both for
 * people. All is untrusted: names, types and size are checked, and what is not understood is left
 * out. Main thread.
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

/* --- help --- */

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

/* --- for people --- */

/* (transfer full): "prompt: string, options: {key: any, …}". */
char    *llmctl_arguments_describe (GDBusArgInfo       **arguments);

/* "Ask (prompt: string, options: {key: any, …}) → (text: string, …)", (transfer full). */
char    *llmctl_member_describe    (const LlmctlMember  *member);

/* One line, and the first sentence of its help; @value is nullable. */
void     llmctl_member_show_short  (const LlmctlMember  *member,
                                    GVariant            *value);

/* All that is known of it: arguments, keys of options, help. */
void     llmctl_member_show        (const LlmctlMember  *member,
                                    GVariant            *value);

/* How to call it: "Usage: llmctl call [PATH] …", (transfer full); @path is nullable. */
char    *llmctl_member_make_usage  (const char          *path,
                                    const LlmctlMember  *method);

/* (nullable) (transfer full): the first sentence of its help. */
char    *llmctl_member_get_sentence (const LlmctlMember *member);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlNode, llmctl_node_free)

G_END_DECLS
