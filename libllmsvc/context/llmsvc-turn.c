/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "context/llmsvc-turn.h"

#include <glib/gi18n-lib.h>

#include "common/llmsvc-names.h"
#include "context/llmsvc-context-private.h"
#include "llmsvc-error.h"

/* --- asking for the revision --- */

static void
ask_revision (LlmsvcContext       *context,
              LlmsvcCallFlags      flags,
              GCancellable        *cancellable,
              GAsyncReadyCallback  callback,
              gpointer             user_data)
{
  const LlmsvcCallInfo info = {
    llmsvc_context_get_path (context), DBUS_PROPERTIES_INTERFACE, "Get", "(v)", flags,
  };

  llmsvc_call_async (llmsvc_context_get_peer (context), NULL, &info,
                     g_variant_new ("(ss)", LLMSVC_CONTEXT_INTERFACE, "Revision"), cancellable,
                     callback, user_data);
}

/* FALSE when the reply is something else. */
static gboolean
read_revision (LlmsvcReply *reply,
               guint64     *revision)
{
  g_autoptr(GVariant) value = NULL;

  g_variant_get (reply->body, "(v)", &value);
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    return FALSE;

  *revision = g_variant_get_uint64 (value);
  return TRUE;
}

/* --- judging --- */

typedef enum
{
  VERDICT_NOTHING,
  VERDICT_KEPT,
  VERDICT_UNKNOWN,
  VERDICT_ENDED,
} Verdict;

static const struct
{
  LlmsvcError code;
  const char *message;
} verdicts[] = {
  [VERDICT_NOTHING] = { LLMSVC_ERROR_LOST,
                        N_("The service broke off. Nothing of what was asked is kept: it "
                           "can be asked again") },
  [VERDICT_KEPT] = { LLMSVC_ERROR_LOST_KEPT,
                     N_("The service broke off, but what was asked is done and in the "
                        "context: read it there instead of asking again") },
  [VERDICT_UNKNOWN] = { LLMSVC_ERROR_LOST_UNKNOWN,
                        N_("The service broke off and can't be asked whether what was "
                           "asked is done: look into the context, or ask again with the "
                           "same “request-id”") },
  [VERDICT_ENDED] = { LLMSVC_ERROR_LOST,
                      N_("The service broke off, and the context ended with it. Nothing of "
                         "what was asked is kept: make a new one and ask again") },
};

typedef struct
{
  LlmsvcContext *context;  /* (owned) */
  LlmsvcTurn before;
} Judging;

static void
judging_free (gpointer data)
{
  Judging *judging = data;

  g_object_unref (judging->context);
  g_free (judging);
}

static Verdict
judge (Judging      *judging,
       LlmsvcReply  *reply,
       gboolean      is_gone)
{
  guint64 after;

  if (reply == NULL)
    {
      /* an unnamed context is nowhere but in the service that had it */
      if (!is_gone && llmsvc_context_is_named (judging->context))
        return VERDICT_UNKNOWN;
      g_error_free (llmsvc_context_take_gone (judging->context));
      return VERDICT_ENDED;
    }

  if (!read_revision (reply, &after))
    return VERDICT_UNKNOWN;
  if (judging->before.revision == after)
    return VERDICT_NOTHING;
  return judging->before.is_exact ? VERDICT_KEPT : VERDICT_UNKNOWN;
}

static void
on_revision_after (GObject      *source,
                   GAsyncResult *result,
                   gpointer      data)
{
  g_autoptr(GTask) task = data;
  g_autoptr(LlmsvcReply) reply = NULL;
  g_autoptr(GError) error = NULL;
  Verdict verdict;
  gboolean is_gone;

  reply = llmsvc_call_finish (result, &is_gone, &error);
  if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_CANCELLED))
    {
      g_task_return_error (task, g_steal_pointer (&error));
      return;
    }

  verdict = judge (g_task_get_task_data (task), reply, is_gone);
  g_task_return_error (task, g_error_new_literal (LLMSVC_ERROR, verdicts[verdict].code,
                                                  _(verdicts[verdict].message)));
}

void
llmsvc_turn_judge_async (LlmsvcContext       *context,
                         const LlmsvcTurn    *before,
                         GCancellable        *cancellable,
                         GAsyncReadyCallback  callback,
                         gpointer             user_data)
{
  GTask *task = llmsvc_task_new (NULL, cancellable, callback, user_data, llmsvc_turn_judge_async);
  Judging *judging = g_new0 (Judging, 1);
  LlmsvcCallFlags flags = LLMSVC_CALL_REPEAT;

  judging->context = g_object_ref (context);
  judging->before = *before;
  g_task_set_task_data (task, judging, judging_free);
  if (!llmsvc_context_is_named (context))
    flags |= LLMSVC_CALL_NO_START;
  ask_revision (context, flags, cancellable, on_revision_after, task);
}

GError *
llmsvc_turn_judge_finish (GAsyncResult *result)
{
  GError *error = NULL;

  g_task_propagate_boolean (G_TASK (result), &error);
  return error;
}

/* --- the call --- */

typedef struct
{
  LlmsvcContext *context;        /* (owned) */
  GCancellable *asking;          /* (owned): ends the question for the revision */
  LlmsvcTurn before;
  guint n_pending;
  LlmsvcReply *reply;            /* (nullable) (owned) */
  GError *error;                 /* (nullable) (owned) */
  gboolean is_gone;
} TurnCall;

static void
turn_call_free (gpointer data)
{
  TurnCall *call = data;

  g_object_unref (call->context);
  g_object_unref (call->asking);
  llmsvc_reply_free (call->reply);
  g_clear_error (&call->error);
  g_free (call);
}

static void
on_judged (GObject      *source,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GTask) task = data;

  g_task_return_error (task, llmsvc_turn_judge_finish (result));
}

/* One of the two replies is there. */
static void
end_call (GTask *task)
{
  TurnCall *call = g_task_get_task_data (task);

  if (--call->n_pending > 0)
    return;

  if (call->reply != NULL)
    g_task_return_pointer (task, g_steal_pointer (&call->reply),
                           (GDestroyNotify) llmsvc_reply_free);
  else if (call->is_gone)
    g_task_return_error (task, llmsvc_context_take_gone (call->context));
  else if (call->error->code == LLMSVC_ERROR_LOST)
    llmsvc_turn_judge_async (call->context, &call->before, g_task_get_cancellable (task), on_judged,
                             g_object_ref (task));
  else
    g_task_return_error (task, g_steal_pointer (&call->error));
}

static void
on_revision_before (GObject      *source,
                    GAsyncResult *result,
                    gpointer      data)
{
  g_autoptr(GTask) task = data;
  TurnCall *call = g_task_get_task_data (task);
  g_autoptr(LlmsvcReply) reply = llmsvc_call_finish (result, NULL, NULL);

  if (reply != NULL)
    call->before.is_exact = read_revision (reply, &call->before.revision);
  end_call (task);
}

static void
on_turn_reply (GObject      *source,
               GAsyncResult *result,
               gpointer      data)
{
  g_autoptr(GTask) task = data;
  TurnCall *call = g_task_get_task_data (task);

  call->reply = llmsvc_call_finish (result, &call->is_gone, &call->error);
  /* it was sent later: a service that answers in order has answered the question */
  g_cancellable_cancel (call->asking);
  end_call (task);
}

void
llmsvc_turn_call_async (LlmsvcContext       *context,
                        const char          *method,
                        const char          *reply_type,
                        GVariant            *arguments,
                        GCancellable        *cancellable,
                        GAsyncReadyCallback  callback,
                        gpointer             user_data)
{
  g_autoptr(GTask) task =
    llmsvc_task_new (NULL, cancellable, callback, user_data, llmsvc_turn_call_async);
  g_autoptr(GVariant) owned = g_variant_ref_sink (arguments);
  TurnCall *call = g_new0 (TurnCall, 1);
  GError *error = NULL;
  const LlmsvcCallInfo info = {
    llmsvc_context_get_path (context), LLMSVC_CONTEXT_INTERFACE, method, reply_type,
    LLMSVC_CALL_NONE,
  };

  call->context = g_object_ref (context);
  call->asking = g_cancellable_new ();
  call->before.revision = llmsvc_context_get_revision (context);
  call->n_pending = 2;
  g_task_set_task_data (task, call, turn_call_free);
  if (!llmsvc_context_check_open (context, &error))
    {
      g_task_return_error (task, error);
      return;
    }

  ask_revision (context, LLMSVC_CALL_NONE, call->asking, on_revision_before, g_object_ref (task));
  llmsvc_call_async (llmsvc_context_get_peer (context), NULL, &info, owned, cancellable, on_turn_reply,
                     g_object_ref (task));
}

LlmsvcReply *
llmsvc_turn_call_finish (GAsyncResult  *result,
                         LlmsvcTurn    *before,
                         GError       **error)
{
  TurnCall *call = g_task_get_task_data (G_TASK (result));

  if (before != NULL)
    *before = call->before;
  return g_task_propagate_pointer (G_TASK (result), error);
}
