/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmsvc"

#include "config.h"

#include "calls/llmsvc-task.h"

#include <glib/gi18n-lib.h>

#include "common/llmsvc-error-private.h"

/* --- errors --- */

/* @error: (transfer full); what the bus itself says is in its own words, for programmers. */
static GError *
rephrase (GError *error)
{
  g_autoptr(GError) owned = error;

  switch (owned->code)
    {
    case LLMSVC_ERROR_LOST:
      return g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_LOST,
                                  _("The language model service went away before it answered"));
    case LLMSVC_ERROR_NOT_AVAILABLE:
      return g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                          _("There is no language model service that can be used: %s"),
                          owned->message);
    default:
      return g_steal_pointer (&owned);
    }
}

void
llmsvc_task_convert_error (GError **error)
{
  gboolean is_from_bus = (*error)->domain == G_DBUS_ERROR;
  gboolean is_closed = g_error_matches (*error, G_IO_ERROR, G_IO_ERROR_CLOSED);

  llmsvc_error_convert (error);
  if (is_closed)
    (*error)->code = LLMSVC_ERROR_NOT_AVAILABLE;
  if (is_from_bus || is_closed)
    *error = rephrase (*error);
}

GError *
llmsvc_task_make_absent (const char *no_session)
{
  if (no_session == NULL)
    return g_error_new_literal (LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                                _("The language model service is on no bus. Is llmsvc "
                                  "installed?"));

  return g_error_new (LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                      _("The language model service is not on the system bus, and the session bus "
                        "can't be reached: %s"), no_session);
}

/* --- tasks --- */

GTask *
llmsvc_task_new (gpointer            source,
                 GCancellable       *cancellable,
                 GAsyncReadyCallback callback,
                 gpointer            user_data,
                 gpointer            tag)
{
  GTask *task = g_task_new (source, cancellable, callback, user_data);

  /* a check by GTask would give GIO's error, and drop what is there already */
  g_task_set_check_cancellable (task, FALSE);
  g_task_set_source_tag (task, tag);
  return task;
}

void
llmsvc_task_fail (GTask  *task,
                  GError *error)
{
  llmsvc_task_convert_error (&error);
  g_task_return_error (task, error);
}

gpointer
llmsvc_task_finish (gpointer       source,
                    GAsyncResult  *result,
                    GError       **error)
{
  g_return_val_if_fail (G_IS_OBJECT (source), NULL);
  g_return_val_if_fail (g_task_is_valid (result, source), NULL);

  return g_task_propagate_pointer (G_TASK (result), error);
}

/* --- waiting --- */

static GPrivate outer_context = G_PRIVATE_INIT (NULL);

void
llmsvc_wait_begin (LlmsvcWait *self)
{
  self->outer = llmsvc_wait_ref_outer ();
  self->context = g_main_context_new ();
  g_private_set (&outer_context, self->outer);
  g_main_context_push_thread_default (self->context);
}

void
llmsvc_wait_on_ready (GObject      *source,
                      GAsyncResult *result,
                      gpointer      data)
{
  ((LlmsvcWait *) data)->result = g_object_ref (result);
}

GAsyncResult *
llmsvc_wait_for_result (LlmsvcWait *self)
{
  while (self->result == NULL)
    g_main_context_iteration (self->context, TRUE);
  return self->result;
}

void
llmsvc_wait_end (LlmsvcWait *self)
{
  if (self->context == NULL)
    return;

  g_clear_object (&self->result);

  /* What is queued still holds references, to the context as well. */
  while (g_main_context_iteration (self->context, FALSE))
    ;
  g_main_context_pop_thread_default (self->context);
  g_private_set (&outer_context, NULL);
  g_clear_pointer (&self->context, g_main_context_unref);
  g_clear_pointer (&self->outer, g_main_context_unref);
}

GMainContext *
llmsvc_wait_ref_outer (void)
{
  GMainContext *outer = g_private_get (&outer_context);

  return outer != NULL ? g_main_context_ref (outer) : g_main_context_ref_thread_default ();
}
