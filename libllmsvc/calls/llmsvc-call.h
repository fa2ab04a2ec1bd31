/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One call to the service. Replies are checked against the type that was expected, errors
 * are of LLMSVC_ERROR, and there is no time limit. A call is dispatched in the main context
 * that is the thread's default when it begins, and leaves nothing behind there: a late reply
 * to a cancelled call is dropped with the descriptors it carries. Any thread.
 *
 * An app that has a name is registered with each process that is the service, before its
 * first call there. Calls go to the process that has registered it, not to the one that has the
 * service's name by then: one that comes too late is not delivered, and made again.
 */

#pragma once

#include <gio/gio.h>
#include <gio/gunixfdlist.h>

#include "calls/llmsvc-task.h"

G_BEGIN_DECLS

/* Of every bus. */
#define DBUS_PROPERTIES_INTERFACE     "org.freedesktop.DBus.Properties"
#define DBUS_OBJECT_MANAGER_INTERFACE "org.freedesktop.DBus.ObjectManager"

/* The service as one app sees it. Counted atomically. */
typedef struct
{
  GDBusConnection *connection;  /* (owned) */
  char *app_id;                 /* "" for none */
  char *no_session;             /* (nullable): why there is no session bus to look on */

  GMutex lock;                  /* guards what follows */
  char *owner;                  /* (nullable): the unique name that has registered the app */
  gboolean is_exempt;           /* the app's name is from its sandbox */
} LlmsvcPeer;

LlmsvcPeer *llmsvc_peer_new      (GDBusConnection *connection,
                                  const char      *app_id,
                                  const char      *no_session);
LlmsvcPeer *llmsvc_peer_ref      (LlmsvcPeer      *self);
void        llmsvc_peer_unref    (LlmsvcPeer      *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmsvcPeer, llmsvc_peer_unref)

typedef enum
{
  LLMSVC_CALL_NONE = 0,
  /* Done once more when the service went away under it: only what may be done twice. */
  LLMSVC_CALL_REPEAT = 1 << 0,
  /* Fails with NOT_AVAILABLE when the service does not run. */
  LLMSVC_CALL_NO_START = 1 << 1,
  /* May ask the user for permission. */
  LLMSVC_CALL_INTERACTIVE = 1 << 2,
} LlmsvcCallFlags;

/* Of which object, which method. The strings are copied where they are kept. */
typedef struct
{
  const char *path;
  const char *interface;
  const char *method;
  const char *reply_type;  /* of the reply's tuple, "()" for nothing */
  LlmsvcCallFlags flags;
} LlmsvcCallInfo;

typedef struct
{
  GVariant *body;      /* (owned): of the expected type */
  GUnixFDList *fds;    /* (nullable) (owned) */
  char *sender;        /* the unique name of the process that answered */
} LlmsvcReply;

void         llmsvc_reply_free  (LlmsvcReply *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmsvcReply, llmsvc_reply_free)

/* @source: (nullable): of the task. @arguments: (transfer floating) (nullable): a tuple. */
void         llmsvc_call_async  (LlmsvcPeer           *peer,
                                 gpointer              source,
                                 const LlmsvcCallInfo *info,
                                 GVariant             *arguments,
                                 GCancellable         *cancellable,
                                 GAsyncReadyCallback   callback,
                                 gpointer              user_data);
/* @is_gone: (out) (optional): whether it failed because there is no such object (any more). */
LlmsvcReply *llmsvc_call_finish (GAsyncResult         *result,
                                 gboolean             *is_gone,
                                 GError              **error);
/* Of a call with @source, whose reply says nothing: FALSE with @error set when it failed. */
gboolean     llmsvc_call_succeeded (gpointer           source,
                                    GAsyncResult      *result,
                                    GError           **error);

/* Closes the context at @path of the process @owner; without waiting for the reply. */
void         llmsvc_call_close  (LlmsvcPeer           *peer,
                                 const char           *owner,
                                 const char           *path);

G_END_DECLS
