/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Messages between the executor's thread and main. Each kind of message is a struct that begins
 * with an LlmCommand and has only what its function needs. One thread has it at a time.
 */

#pragma once

#include "memory/llm-reclaimer.h"
#include "runtime/llm-executor.h"

G_BEGIN_DECLS

typedef struct _LlmCommand LlmCommand;
typedef void (*LlmCommandFunc) (LlmCommand *command);

struct _LlmCommand
{
  LlmExecutor *executor;    /* (unowned): freed after both mailboxes */
  LlmCommandFunc run;
  LlmCommandFunc clear;     /* (nullable): frees what its kind owns */
};

/* Asks for memory, or releases it; @done (nullable) is told the result on the main thread. Other
 * kinds that end with such a report begin with it. */
typedef struct
{
  LlmCommand base;
  guint64 bytes;            /* wanted */
  guint64 freed;
  gint64 until_us;
  gboolean has_begun;
  LlmReclaimDone done;
  gpointer data;
} LlmReclaim;

/* (transfer full): of @size bytes, zero behind the LlmCommand. @clear: (nullable). */
gpointer    llm_command_alloc      (gsize           size,
                                    LlmExecutor    *executor,
                                    LlmCommandFunc  run,
                                    LlmCommandFunc  clear);
#define llm_command_new_of(Kind, executor, run, clear)                                         \
  ((Kind *) llm_command_alloc (sizeof (Kind), executor, run, clear))
/* For code that keeps a command while it runs, or answers with it. */
LlmCommand *llm_command_ref        (LlmCommand     *self);
void        llm_command_unref      (LlmCommand     *self);
/* Sends it to the executor's thread; or to main, for @run. Both take ownership. */
void        llm_command_send       (LlmCommand     *self);
void        llm_command_reply      (LlmCommand     *self,
                                    LlmCommandFunc  run);
/* Sends a command that has nothing but @run. */
void        llm_executor_send      (LlmExecutor    *self,
                                    LlmCommandFunc  run);
/* @done: (nullable). */
void        llm_executor_send_reclaim (LlmExecutor *self,
                                    LlmCommandFunc  run,
                                    guint64         bytes,
                                    gint64          until_us,
                                    LlmReclaimDone  done,
                                    gpointer        data);

G_END_DECLS
