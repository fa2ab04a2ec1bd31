/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-wait.h"

#include <glib-unix.h>
#include <glib/gi18n.h>
#include <signal.h>

static struct
{
  GCancellable *cancellable;  /* (nullable) (owned) */
  guint timeout_source;
  gboolean has_signals;
  gboolean is_interrupted;
  gboolean is_terminated;
  gboolean is_time_up;
} state;

/* @data: what ends the waiting now */
static gboolean
on_end (gpointer data)
{
  *(gboolean *) data = TRUE;
  g_cancellable_cancel (state.cancellable);
  return G_SOURCE_CONTINUE;
}

void
llmctl_wait_begin (gboolean is_timed)
{
  if (!state.has_signals)
    {
      g_unix_signal_add (SIGINT, on_end, &state.is_interrupted);
      g_unix_signal_add (SIGTERM, on_end, &state.is_terminated);
      g_unix_signal_add (SIGHUP, on_end, &state.is_terminated);
      state.has_signals = TRUE;
    }

  g_clear_handle_id (&state.timeout_source, g_source_remove);
  g_clear_object (&state.cancellable);
  state.cancellable = g_cancellable_new ();
  state.is_interrupted = FALSE;
  state.is_time_up = FALSE;
  if (state.is_terminated)
    g_cancellable_cancel (state.cancellable);
  if (is_timed && llmctl_globals.timeout_s > 0)
    state.timeout_source = g_timeout_add ((guint) llmctl_get_timeout_ms (), on_end,
                                          &state.is_time_up);
}

GCancellable *
llmctl_wait_get_cancellable (void)
{
  return state.cancellable;
}

void
llmctl_wait_take (GObject      *source,
                  GAsyncResult *result,
                  gpointer      slot)
{
  GAsyncResult **place = slot;

  g_assert (*place == NULL);
  *place = g_object_ref (result);
}

GAsyncResult *
llmctl_wait (GAsyncResult **slot)
{
  while (*slot == NULL)
    g_main_context_iteration (NULL, TRUE);

  return *slot;
}

gboolean
llmctl_wait_or_end (GAsyncResult **slot)
{
  while (*slot == NULL && llmctl_wait_get_end () == LLMCTL_EXIT_OK)
    g_main_context_iteration (NULL, TRUE);

  return *slot != NULL;
}

LlmctlExit
llmctl_wait_get_end (void)
{
  if (state.is_interrupted || state.is_terminated)
    return LLMCTL_EXIT_INTERRUPTED;

  return state.is_time_up ? LLMCTL_EXIT_TIME_LIMIT : LLMCTL_EXIT_OK;
}

gboolean
llmctl_wait_is_terminated (void)
{
  return state.is_terminated;
}

LlmctlExit
llmctl_wait_fail (GError *error)
{
  LlmctlExit end = llmctl_wait_get_end ();

  if (end == LLMCTL_EXIT_OK)
    return llmctl_fail (error);

  if (end == LLMCTL_EXIT_TIME_LIMIT)
    llmctl_complain (_("The time limit has passed before the service was done"));
  return end;
}

LlmsvcClient *
llmctl_wait_client (GError **error)
{
  g_autoptr(GAsyncResult) result = NULL;

  llmctl_wait_begin (TRUE);
  /* No name of an application: llmctl speaks for the user who runs it. */
  llmsvc_client_new_async (llmctl_globals.bus_type, "", state.cancellable, llmctl_wait_take,
                           &result);
  return llmsvc_client_new_finish (llmctl_wait (&result), error);
}
