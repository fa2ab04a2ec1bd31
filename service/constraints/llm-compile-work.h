/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What compiling one constraint may cost: processor time and memory, for all of its automata
 * together. The limits of a single one bound neither. Belongs to the thread that compiles: what
 * builds automata there asks by itself. Without one, nothing is limited.
 */

#pragma once

#include <gio/gio.h>

#include "memory/llm-ledger.h"

G_BEGIN_DECLS

#define LLM_COMPILE_MAX_S 2
#define LLM_COMPILE_MAX_MIB 64

typedef struct
{
  GCancellable *cancellable;  /* (nullable) (unowned): who wants it */
  gint64 end_us;              /* of the thread's processor time */
  guint64 n_steps;            /* since the clock was read */
  gint64 n_bytes;
  LlmLedger *ledger;          /* (nullable) (unowned) */
  guint64 counted_bytes;      /* of n_bytes there, in whole pieces */
  gint64 most_bytes;          /* so far */
  gboolean is_late;
  gboolean is_large;
  gboolean is_cancelled;
} LlmCompileWork;

/* From now on, in this thread. What it takes meanwhile is counted in @ledger (nullable). */
void     llm_compile_work_begin   (LlmCompileWork *self,
                                   LlmLedger      *ledger,
                                   GCancellable   *cancellable);
/* Returns FALSE with @error when it went over a limit. Returns freed memory to the system if it was
 * much. */
gboolean llm_compile_work_end     (LlmCompileWork *self,
                                   GError        **error);
/* Counts steps, some nanoseconds each, and bytes that came, or went. FALSE when it is over, and
 * from then on: what is small may still be finished, as its callers take it for granted. */
gboolean llm_compile_work_count   (guint64         n_steps,
                                   gint64          n_bytes);

G_END_DECLS
