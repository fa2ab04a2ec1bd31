/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A client of the real llmsvcd on a private bus, and the library's asynchronous functions
 * waited for in the test's own main loop, so that signals come as in an app. Each `rig_…`
 * function that takes no error asserts that there is none. One thread.
 */

#pragma once

#include "llmsvc.h"
#include "support/llm-test-daemon.h"

G_BEGIN_DECLS

typedef struct
{
  LlmTestDaemon *daemon;
  GDBusConnection *connection;  /* the client's own */
  LlmsvcClient *client;
} ClientRig;

ClientRig         *rig_new            (const LlmTestDaemonSetup *setup);
void               rig_free           (ClientRig         *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (ClientRig, rig_free)

/* A callback that keeps its result in the GAsyncResult * that its data points at. */
void               rig_on_ready       (GObject           *source,
                                       GAsyncResult      *result,
                                       gpointer           data);
/* Dispatches until the result is there. It is let go with the next call of this or of
 * rig_spin(). (transfer none) */
GAsyncResult      *rig_wait           (GAsyncResult     **result);
/* Dispatches until @is_so (data) is. */
typedef gboolean (*RigCondition)      (gpointer           data);
void               rig_wait_until     (RigCondition       is_so,
                                       gpointer           data);
/* Dispatches what is ready, and is sure that messages sent so far were answered. */
void               rig_settle         (ClientRig         *self);

LlmsvcClient      *rig_new_client     (GDBusConnection   *connection,
                                       const char        *app_id);
LlmsvcContext     *rig_create         (LlmsvcClient      *client,
                                       LlmsvcOptions     *options,
                                       GError           **error);
LlmsvcContext     *rig_open           (LlmsvcClient      *client,
                                       const char        *name,
                                       LlmsvcOptions     *options,
                                       GError           **error);
/* With the option `create`. */
LlmsvcContext     *rig_open_new       (LlmsvcClient      *client,
                                       const char        *name);
LlmsvcGeneration  *rig_prompt         (LlmsvcContext     *context,
                                       const char        *prompt,
                                       LlmsvcOptions     *options,
                                       GError           **error);
LlmsvcAnswer      *rig_ask            (LlmsvcContext     *context,
                                       const char        *prompt,
                                       LlmsvcOptions     *options,
                                       GError           **error);
LlmsvcAnswer      *rig_complete       (LlmsvcClient      *client,
                                       const char        *prompt,
                                       LlmsvcOptions     *options,
                                       GCancellable      *cancellable,
                                       GError           **error);
char              *rig_next           (LlmsvcGeneration  *generation,
                                       GCancellable      *cancellable,
                                       GError           **error);
LlmsvcAnswer      *rig_finish         (LlmsvcGeneration  *generation,
                                       GError           **error);
GPtrArray         *rig_list_messages  (LlmsvcContext     *context);
gboolean           rig_refresh        (LlmsvcClient      *client,
                                       GError           **error);
void               rig_refresh_context (LlmsvcContext    *context);
/* (transfer full) */
LlmsvcContextMemory *rig_get_memory   (LlmsvcContext     *context,
                                       GError           **error);
void               rig_close          (LlmsvcContext     *context);

/* How many contexts the service has for the app, asked on the rig's connection. */
guint              rig_count_contexts (ClientRig         *self);
/* Waits until there are @n: closing one that was dropped is waited for by nobody. */
void               rig_wait_n_contexts (ClientRig        *self,
                                        guint             n);

#define rig_assert_error(error, code) g_assert_error ((error), LLMSVC_ERROR, (int) (code))

G_END_DECLS
