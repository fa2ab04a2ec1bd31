/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The interfaces and the calls of their methods. An interface is described by the XML compiled into
 * the program, the only source, and has a table that says which function answers which method, and
 * who may call it; a test compares the two.
 *
 * A method call goes through these steps: the caller is identified, the object looked up, the
 * options checked, the bouncer asked, the texts checked, and then the method's function called. It
 * answers with llm_bus_call_return() or llm_bus_call_return_error(), once; a call that is dropped
 * without an answer replies that the service is stopping. Reference-counted. Main thread.
 */

#pragma once

#include "bus/llm-bus.h"
#include "common/llm-call-options.h"
#include "decoding/llm-sink.h"

G_BEGIN_DECLS

/* --- interfaces --- */

typedef struct _LlmBusCall LlmBusCall;

/* Who may call a method. A method without a demand is refused. Whether the object is the caller's
 * was checked before. */
typedef enum
{
  LLM_BUS_NOBODY,
  LLM_BUS_EVERYONE,
  LLM_BUS_OUTSIDE_SANDBOXES, /* not applications that are in a sandbox, or may be */
  LLM_BUS_ACTION,            /* callers that polkit admits; never from a sandbox */
  LLM_BUS_SILENT_ACTION,     /* the same, but polkit never asks for a password */
} LlmBusDemand;

typedef struct
{
  const char *name;
  LlmsvcCall call;               /* whose options the last argument holds; 0: it has none */
  /* FALSE with an error, which becomes the reply; otherwise the call is answered, or will be. */
  gboolean (*handle) (LlmBusCall *call, GError **error);
  LlmBusDemand demand;
  const char *action;            /* (nullable): of polkit */
} LlmBusMethod;

typedef struct
{
  const char *name;
  const LlmBusMethod *methods;   /* (nullable): up to one without a name */
  /* (nullable): all properties that may be read, as a{sv}; @object: of the path, NULL for the
   * service's own. Answers from memory, at once. Returns: (transfer floating) */
  GVariant *(*list_properties) (LlmBus *bus, gpointer object);
} LlmBusInterface;

#define LLM_BUS_PROPERTIES "org.freedesktop.DBus.Properties"
#define LLM_BUS_INTROSPECTABLE "org.freedesktop.DBus.Introspectable"
#define LLM_BUS_OBJECT_MANAGER "org.freedesktop.DBus.ObjectManager"

/* (transfer none): of the XML; aborts for an unknown name. */
GDBusInterfaceInfo *llm_bus_interface_lookup_info (const char *name);

/* --- calls --- */

/* Objects below a path, of which each caller sees only its own. */
typedef struct
{
  const char *path;
  const LlmBusInterface *interface;
  gboolean is_contexts;  /* wait until the stored ones are known; a call holds its own */
  /* (transfer none) (nullable): the object of the last part of a path */
  gpointer (*lookup) (LlmEngine *engine, LlmCaller *caller, const char *id);
  /* (transfer container): those that @caller sees */
  GPtrArray *(*list) (LlmEngine *engine, LlmCaller *caller);
  const char *(*get_id) (gpointer object);
} LlmBusTreeKind;

struct _LlmBusCall
{
  LlmBus *bus;                 /* (owned) */
  GDBusMessage *message;       /* (owned) (nullable): NULL when answered */
  const LlmBusInterface *interface;
  const LlmBusMethod *method;
  char *locale;                /* (nullable): what the options say of it */

  /* for the method's function */
  const LlmBusTreeKind *tree;  /* (nullable): of the path */
  GVariant *arguments;         /* (owned) */
  const char *text;            /* (nullable): the first of them, when it is a text */
  GVariant *messages;          /* (owned) (nullable): the first of them, when it is messages */
  LlmCaller *caller;           /* (owned) */
  LlmCallOptions *options;     /* (owned) (nullable) */
  gpointer object;             /* (owned) (nullable): at the path; NULL for the tree's own */
  gboolean has_waited;         /* for stored data */
  gboolean has_no_object;      /* the path is valid, but no object is there */
  int fd;                      /* (owned): -1 for none */
};

/**
 * llm_bus_call_begin:
 * @message: from GDBus, which has checked its types
 * @interface: the table to use
 * @tree: (nullable): where the path is, if it is in one
 */
void        llm_bus_call_begin        (LlmBus                *bus,
                                       GDBusMessage          *message,
                                       const LlmBusInterface *interface,
                                       const LlmBusTreeKind  *tree);

LlmBusCall *llm_bus_call_ref          (LlmBusCall            *self);
void        llm_bus_call_unref        (LlmBusCall            *self);

/* @value: (nullable) (transfer floating): a tuple; NULL for an empty one */
void        llm_bus_call_return       (LlmBusCall            *self,
                                       GVariant              *value);
/* Sends @fd_list too. */
void        llm_bus_call_return_fds   (LlmBusCall            *self,
                                       GVariant              *value,
                                       GUnixFDList           *fd_list);
/* @error: (transfer full) */
void        llm_bus_call_return_error (LlmBusCall            *self,
                                       GError                *error);
/* The end of a call that waited for a GTask: replies with @error (transfer full) (nullable), or
 * else @value as above, and takes @self. */
void        llm_bus_call_finish       (LlmBusCall            *self,
                                       GVariant              *value,
                                       GError                *error);

/* (nullable) (transfer none): the caller's locale, from this call or from Register(). */
const char *llm_bus_call_get_locale   (LlmBusCall            *self);

/* Every role in @messages (`a(ssa{sv})`) and the options (both nullable) must be known, no message
 * may have content beside its text (UNSUPPORTED), and all text together be no longer than
 * @limit. */
gboolean    llm_bus_messages_check    (GVariant              *messages,
                                       const char            *prompt,
                                       const LlmCallOptions  *options,
                                       guint64                limit,
                                       GError               **error) G_GNUC_WARN_UNUSED_RESULT;
/* Checks a context's name in an argument, by the rule of the option `name`. */
gboolean    llm_bus_name_check        (const char            *name,
                                       GError               **error) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmBusCall, llm_bus_call_unref)

/* (transfer full): a sink whose end is the reply: the text and its results, or the error. */
LlmSink    *llm_bus_call_new_sink     (LlmBusCall            *self);

/* Replies to a call when a GTask of the engine is done, as #GAsyncReadyCallback; @data is a
 * reference to the call, which they take. */

/* The task returns a boolean: the reply is empty. */
void        llm_bus_call_on_done      (GObject               *source,
                                       GAsyncResult          *result,
                                       gpointer               data);
/* The task returns a number: likewise. */
void        llm_bus_call_on_count     (GObject               *source,
                                       GAsyncResult          *result,
                                       gpointer               data);
/* The task returns a GVariant: the only value of the reply. */
void        llm_bus_call_on_variant   (GObject               *source,
                                       GAsyncResult          *result,
                                       gpointer               data);
/* The task returns an LlmContext: the reply is its path, and the caller has it in use. */
void        llm_bus_call_on_context   (GObject               *source,
                                       GAsyncResult          *result,
                                       gpointer               data);
/* The task returns an LlmGeneration: the reply is the sink's, unless the answer is not admitted. */
void        llm_bus_call_on_admitted  (GObject               *source,
                                       GAsyncResult          *result,
                                       gpointer               data);

G_END_DECLS
