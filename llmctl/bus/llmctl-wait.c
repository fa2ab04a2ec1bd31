/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-wait.h"

#include <glib-unix.h>
#include <signal.h>

/* What ends the waiting; set in the thread, read and cleared with g_atomic_int. */
static gint is_interrupted;
static gint is_terminated;
static gint is_time_up;

static GMutex lock;
static GCancellable *current;    /* (nullable) (owned): under the lock */
static GSource *timeout_source;  /* (nullable) (owned) */
static gboolean has_signals;

static gboolean
on_end (gpointer flag)
{
  g_autoptr(GCancellable) cancellable = NULL;

  g_atomic_int_set ((gint *) flag, TRUE);
  g_mutex_lock (&lock);
  g_set_object (&cancellable, current);
  g_mutex_unlock (&lock);
  g_cancellable_cancel (cancellable);
  g_main_context_wakeup (NULL);
  return G_SOURCE_CONTINUE;
}

static gpointer
notice (gpointer context)
{
  for (;;)
    g_main_context_iteration (context, TRUE);

  return NULL;
}

/* Takes @source, which sets @flag and cancels. */
static GSource *
add_source (GSource *source,
            gint    *flag)
{
  static GMainContext *context;

  if (context == NULL)
    {
      context = g_main_context_new ();
      g_thread_unref (g_thread_new ("llmctl-wait", notice, context));
    }
  g_source_set_callback (source, on_end, flag, NULL);
  g_source_attach (source, context);
  return source;
}

static void
renew_cancellable (void)
{
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();

  g_mutex_lock (&lock);
  g_set_object (&current, cancellable);
  g_mutex_unlock (&lock);
}

GSource *
llmctl_wait_watch_interrupt (void)
{
  renew_cancellable ();
  return add_source (g_unix_signal_source_new (SIGINT), &is_interrupted);
}

void
llmctl_wait_begin (gboolean is_timed)
{
  if (timeout_source != NULL)
    g_source_destroy (timeout_source);
  g_clear_pointer (&timeout_source, g_source_unref);
  renew_cancellable ();
  g_atomic_int_set (&is_interrupted, FALSE);
  g_atomic_int_set (&is_time_up, FALSE);

  if (!has_signals)
    {
      g_source_unref (add_source (g_unix_signal_source_new (SIGINT), &is_interrupted));
      g_source_unref (add_source (g_unix_signal_source_new (SIGTERM), &is_terminated));
      g_source_unref (add_source (g_unix_signal_source_new (SIGHUP), &is_terminated));
      has_signals = TRUE;
    }
  if (llmctl_wait_is_terminated ())
    g_cancellable_cancel (current);
  if (is_timed && llmctl_globals.timeout_s > 0)
    timeout_source = add_source (g_timeout_source_new ((guint) llmctl_get_timeout_ms ()),
                                 &is_time_up);
}

GCancellable *
llmctl_wait_get_cancellable (void)
{
  return current;
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
  if (g_atomic_int_get (&is_interrupted) || llmctl_wait_is_terminated ())
    return LLMCTL_EXIT_INTERRUPTED;

  return g_atomic_int_get (&is_time_up) ? LLMCTL_EXIT_TIME_LIMIT : LLMCTL_EXIT_OK;
}

gboolean
llmctl_wait_is_terminated (void)
{
  return g_atomic_int_get (&is_terminated);
}

LlmsvcClient *
llmctl_wait_client (GError **error)
{
  llmctl_wait_begin (TRUE);
  /* No name of an application: llmctl speaks for the user who runs it. */
  return llmsvc_client_new_sync (llmctl_globals.bus_type, "", current, error);
}
