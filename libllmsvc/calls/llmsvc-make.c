/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "calls/llmsvc-make.h"

#include "llmsvc-error.h"

typedef struct
{
  LlmsvcPeer *peer;
  gboolean is_kept;
  gboolean is_gone;
  GMainContext *context;  /* (owned): where the reply comes */
  GAsyncResult *reply;    /* (nullable) (owned) */
} Make;

static void
make_free (Make *make)
{
  llmsvc_peer_unref (make->peer);
  g_main_context_unref (make->context);
  g_clear_object (&make->reply);
  g_free (make);
}

static void
on_made (GObject      *source,
         GAsyncResult *result,
         gpointer      data)
{
  Make *make = data;

  make->reply = g_object_ref (result);
}

static void
wait_for_reply (GTask        *task,
                gpointer      source,
                gpointer      data,
                GCancellable *cancellable)
{
  Make *make = data;
  g_autoptr(LlmsvcReply) made = NULL;
  const char *path;
  GError *error = NULL;

  g_main_context_push_thread_default (make->context);
  while (make->reply == NULL)
    g_main_context_iteration (make->context, TRUE);
  made = llmsvc_call_finish (make->reply, &make->is_gone, &error);
  g_clear_object (&make->reply);
  while (g_main_context_iteration (make->context, FALSE))
    ;
  g_main_context_pop_thread_default (make->context);

  if (!g_task_set_return_on_cancel (task, FALSE))
    {
      /* the caller has gone on */
      if (made != NULL && !make->is_kept)
        {
          g_variant_get (made->body, "(&o)", &path);
          llmsvc_call_close (make->peer, made->sender, path);
        }
      g_clear_error (&error);
      return;
    }
  /* what is there now is given out, cancelled or not */
  g_task_set_check_cancellable (task, FALSE);
  if (made == NULL)
    g_task_return_error (task, error);
  else
    g_task_return_pointer (task, g_steal_pointer (&made), (GDestroyNotify) llmsvc_reply_free);
}

void
llmsvc_make_async (LlmsvcPeer           *peer,
                   const LlmsvcCallInfo *info,
                   GVariant             *arguments,
                   gboolean              is_kept,
                   GCancellable         *cancellable,
                   GAsyncReadyCallback   callback,
                   gpointer              user_data)
{
  g_autoptr(GTask) task = g_task_new (NULL, cancellable, callback, user_data);
  Make *make = g_new0 (Make, 1);

  make->peer = llmsvc_peer_ref (peer);
  make->is_kept = is_kept;
  make->context = g_main_context_new ();
  g_task_set_source_tag (task, llmsvc_make_async);
  g_task_set_task_data (task, make, (GDestroyNotify) make_free);
  g_variant_take_ref (arguments);
  if (g_cancellable_is_cancelled (cancellable))
    {
      /* nothing is to be made at all */
      g_variant_unref (arguments);
      g_task_return_error_if_cancelled (task);
      return;
    }

  g_main_context_push_thread_default (make->context);
  llmsvc_call_async (peer, NULL, info, arguments, NULL, on_made, make);
  g_main_context_pop_thread_default (make->context);
  g_variant_unref (arguments);

  g_task_set_return_on_cancel (task, TRUE);
  g_task_run_in_thread (task, wait_for_reply);
}

LlmsvcReply *
llmsvc_make_finish (GAsyncResult  *result,
                    gboolean      *is_gone,
                    GError       **error)
{
  Make *make = g_task_get_task_data (G_TASK (result));
  GError *local = NULL;
  LlmsvcReply *made = g_task_propagate_pointer (G_TASK (result), &local);

  if (made == NULL)
    {
      llmsvc_task_convert_error (&local);
      /* of a call that was left the thread may still write */
      if (is_gone != NULL)
        *is_gone = local->code != LLMSVC_ERROR_CANCELLED && make->is_gone;
      g_propagate_error (error, local);
    }
  return made;
}
