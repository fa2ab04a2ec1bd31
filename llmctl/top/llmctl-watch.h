/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Staying at a service that comes and goes, without starting or keeping it, until Ctrl-C, the time
 * limit or the end of the bus. Main thread.
 */

#pragma once

#include "llmctl/llmctl.h"

G_BEGIN_DECLS

typedef struct _LlmctlWatch LlmctlWatch;

struct _LlmctlWatch
{
  GDBusConnection *bus;       /* (owned): tells the default main context */
  GBusType bus_type;
  gboolean is_running;
  gboolean is_over;           /* set by anybody: llmctl_watch_run() returns */
  gboolean is_bus_gone;

  /* The service has appeared or vanished. */
  void (*changed) (LlmctlWatch *self);
  gulong closed_handler;
  guint name_watch;
};

/* LLMCTL_EXIT_OK, or what to end with when there is no bus. Not llmctl_connect(): the connection
 * has to tell this main loop when it closes. */
LlmctlExit llmctl_watch_begin (LlmctlWatch *self,
                               void       (*changed) (LlmctlWatch *self));
void       llmctl_watch_run   (LlmctlWatch *self);
void       llmctl_watch_clear (LlmctlWatch *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (LlmctlWatch, llmctl_watch_clear)

G_END_DECLS
