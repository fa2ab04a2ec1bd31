/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The objects of the service, as the bus shows them to this caller: what they can do, by introspection
 * or the interface file (dbus-1/interfaces of the data folders) with the help in its comments, and
 * values of any type as people write them. All from outside is untrusted: names, types and size are
 * checked, and what is not understood is left out. Main thread.
 */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

/* --- introspection --- */

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

/* --- objects --- */

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

/* --all of the commands that show interfaces, and whether @interface is to be shown. */
extern const GOptionEntry llmctl_object_options[];
gboolean    llmctl_object_shows            (const char        *interface);

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

/* --- values: plain words for what is simple, JSON for the rest --- */

#define LLMCTL_MESSAGES_TYPE "a(ssa{sv})"

/* (transfer full): a type as its values are written: "string", "[integer, …]",
 * "{key: any, …}". The words are those of JSON and not translated. */
char     *llmctl_type_describe     (const char  *type);
/* (transfer full): what could be typed for it, without the quotes of a shell. */
char     *llmctl_type_make_example (const char  *type);

/* (transfer full): @word as @type, not floating; LLMSVC_ERROR_INVALID_ARGUMENT if it is none, with
 * @name, what it is for. A plain word for what is simple, JSON for the rest; for a variant as
 * llmctl_value_guess(). */
GVariant *llmctl_value_parse       (const char  *name,
                                    const char  *type,
                                    const char  *word,
                                    GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* The same for @word, valid UTF-8, when nothing says what it is to be: JSON, or a word that is none
 * and stands for itself. */
GVariant *llmctl_value_guess       (const char  *name,
                                    const char  *word,
                                    GError     **error) G_GNUC_WARN_UNUSED_RESULT;

/* (transfer full): @value that llmctl_json_read() has read, as llmctl_value_parse(). */
GVariant *llmctl_value_convert     (const char          *name,
                                    const GVariantType  *type,
                                    GVariant            *value,
                                    GError             **error) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmctlNode, llmctl_node_free)

G_END_DECLS
