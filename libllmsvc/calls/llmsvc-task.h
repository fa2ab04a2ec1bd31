/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tasks of which every error is of LLMSVC_ERROR, in words for the client's side of the bus, and
 * waiting for one without dispatching anything of the caller's. Any thread.
 */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

/* llmsvc_error_convert(), with messages that fit the client's side of the bus. */
void          llmsvc_task_convert_error (GError              **error);
/* Ends @task with @error (transfer full), converted. */
void          llmsvc_task_fail          (GTask                *task,
                                         GError               *error);
/* (transfer full) */
GTask        *llmsvc_task_new           (gpointer              source,
                                         GCancellable         *cancellable,
                                         GAsyncReadyCallback   callback,
                                         gpointer              user_data,
                                         gpointer              tag);
/* The pointer of a task of @source. */
gpointer      llmsvc_task_finish        (gpointer              source,
                                         GAsyncResult         *result,
                                         GError              **error);
/* (transfer full): an error that says that the service is nowhere. @no_session: (nullable): why
 * the session bus, where it may be, can't be reached */
GError       *llmsvc_task_make_absent   (const char           *no_session);

/* A call that is waited for. Its main context is private and the thread's default while it
 * runs, so its replies are dispatched here and nothing of the caller's is. */
typedef struct
{
  GMainContext *context;  /* (owned) */
  GMainContext *outer;    /* (owned): the default before it */
  GAsyncResult *result;   /* (owned) (nullable): until it is there */
} LlmsvcWait;

void          llmsvc_wait_begin         (LlmsvcWait           *self);
/* For the call; @data: the wait. */
void          llmsvc_wait_on_ready      (GObject              *source,
                                         GAsyncResult         *result,
                                         gpointer              data);
GAsyncResult *llmsvc_wait_for_result    (LlmsvcWait           *self);
void          llmsvc_wait_end           (LlmsvcWait           *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmsvcWait, llmsvc_wait_end)

/* (transfer full): the default main context, not counting that of a wait. */
GMainContext *llmsvc_wait_ref_outer     (void);

G_END_DECLS
