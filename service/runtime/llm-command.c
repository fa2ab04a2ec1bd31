/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-command.h"

#include "runtime/llm-executor-private.h"

gpointer
llm_command_alloc (gsize          size,
                   LlmExecutor   *executor,
                   LlmCommandFunc run,
                   LlmCommandFunc clear)
{
  LlmCommand *self = g_atomic_rc_box_alloc0 (size);

  self->executor = executor;
  self->run = run;
  self->clear = clear;
  return self;
}

static void
clear_command (gpointer data)
{
  LlmCommand *self = data;

  if (self->clear != NULL)
    self->clear (self);
}

LlmCommand *
llm_command_ref (LlmCommand *self)
{
  return g_atomic_rc_box_acquire (self);
}

void
llm_command_unref (LlmCommand *self)
{
  g_atomic_rc_box_release_full (self, clear_command);
}

static void
run_command (gpointer data)
{
  LlmCommand *self = data;

  self->run (self);
}

void
llm_command_send (LlmCommand *self)
{
  llm_mailbox_post (self->executor->inbox, run_command, self, (GDestroyNotify) llm_command_unref);
}

void
llm_command_reply (LlmCommand    *self,
                   LlmCommandFunc run)
{
  self->run = run;
  llm_mailbox_post (self->executor->news.main_box, run_command, self,
                    (GDestroyNotify) llm_command_unref);
}

void
llm_executor_send (LlmExecutor   *self,
                   LlmCommandFunc run)
{
  llm_command_send (llm_command_alloc (sizeof (LlmCommand), self, run, NULL));
}

void
llm_executor_send_reclaim (LlmExecutor   *self,
                           LlmCommandFunc run,
                           guint64        bytes,
                           gint64         until_us,
                           LlmReclaimDone done,
                           gpointer       data)
{
  LlmReclaim *reclaim = llm_command_new_of (LlmReclaim, self, run, NULL);

  reclaim->bytes = bytes;
  reclaim->until_us = until_us;
  reclaim->done = done;
  reclaim->data = data;
  llm_command_send (&reclaim->base);
}
