/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/top/llmctl-watch.h"

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

static void
set_running (LlmctlWatch *self,
             gboolean     is_running)
{
  self->is_running = is_running;
  self->changed (self);
}

static void
on_appeared (GDBusConnection *bus,
             const char      *name,
             const char      *owner,
             gpointer         data)
{
  set_running (data, TRUE);
}

static void
on_vanished (GDBusConnection *bus,
             const char      *name,
             gpointer         data)
{
  /* Without a bus nothing can be said of the service. */
  if (bus != NULL && !g_dbus_connection_is_closed (bus))
    set_running (data, FALSE);
}

static void
on_closed (GDBusConnection *bus,
           gboolean         remote_peer_vanished,
           GError          *error,
           gpointer         data)
{
  LlmctlWatch *self = data;

  self->is_bus_gone = TRUE;
  self->is_over = TRUE;
}

LlmctlExit
llmctl_watch_begin (LlmctlWatch *self,
                    void       (*changed) (LlmctlWatch *self))
{
  g_autoptr(GAsyncResult) result = NULL;
  g_autoptr(GError) error = NULL;

  llmctl_wait_begin (TRUE);
  llmsvc_bus_find_async (llmctl_globals.bus_type, llmctl_wait_get_cancellable (),
                         llmctl_wait_take, &result);
  self->bus = llmsvc_bus_find_finish (llmctl_wait (&result), &self->bus_type, NULL, &error);
  if (self->bus == NULL)
    return llmctl_fail (error);

  self->changed = changed;
  self->closed_handler = g_signal_connect (self->bus, "closed", G_CALLBACK (on_closed), self);
  self->name_watch = g_bus_watch_name_on_connection (self->bus, LLMCTL_SERVICE_NAME,
                                                     G_BUS_NAME_WATCHER_FLAGS_NONE, on_appeared,
                                                     on_vanished, self, NULL);
  return LLMCTL_EXIT_OK;
}

void
llmctl_watch_run (LlmctlWatch *self)
{
  while (!self->is_over && llmctl_wait_get_end () == LLMCTL_EXIT_OK)
    g_main_context_iteration (NULL, TRUE);
}

void
llmctl_watch_clear (LlmctlWatch *self)
{
  if (self->name_watch != 0)
    g_bus_unwatch_name (self->name_watch);
  if (self->closed_handler != 0)
    g_signal_handler_disconnect (self->bus, self->closed_handler);
  g_clear_object (&self->bus);
}
