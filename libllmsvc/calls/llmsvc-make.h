/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Calls that make a context. An unnamed one whose caller has lost interest would stay until
 * the app leaves the bus, so the reply is waited for in a thread of GLib's pool, which
 * outlives the call and closes what came too late. The call itself is sent at once, in order
 * with the others. The thread of the caller.
 */

#pragma once

#include "calls/llmsvc-call.h"

G_BEGIN_DECLS

/* @info: replies with "(o)"; @is_kept: whether a cancelled call leaves the context. */
void         llmsvc_make_async  (LlmsvcPeer           *peer,
                                 const LlmsvcCallInfo *info,
                                 GVariant             *arguments,
                                 gboolean              is_kept,
                                 GCancellable         *cancellable,
                                 GAsyncReadyCallback   callback,
                                 gpointer              user_data);
LlmsvcReply *llmsvc_make_finish (GAsyncResult         *result,
                                 gboolean             *is_gone,
                                 GError              **error);

G_END_DECLS
