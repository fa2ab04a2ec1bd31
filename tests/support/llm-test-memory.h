/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A machine, or a control group, in which others take memory beside a service that does what the
 * policy says: in steps of simulated time, without a clock. For tests of the policy and for
 * `llmsvc-bench pressure`. One thread.
 */

#pragma once

#include "memory/llm-memory-policy.h"

G_BEGIN_DECLS

#define LLM_TEST_MEMORY_STEP_US 20000

typedef struct
{
  /* how it is; set by the user */
  guint64 total;         /* bytes of the machine */
  guint64 limit;         /* bytes of a group that all are in, 0 for none */
  guint64 allowed;       /* the service's budget */
  guint64 model;         /* file pages that a call uses */
  guint64 wanted;        /* bytes of contexts that it would hold, if it could */
  guint64 overhead;      /* bytes that it never gives */
  guint64 growth;        /* bytes a second that contexts grow by while calls run */
  gboolean is_busy;
  gboolean is_deaf;      /* does nothing of what the policy says */
  double machine_stall;  /* share of time that others wait, for reasons of their own */

  /* what came of it */
  gint64 now_us;
  guint64 others;        /* bytes they hold */
  guint64 anonymous;     /* the service's */
  guint64 backed;
  guint64 to_give;
  guint64 given;         /* bytes in all */
  guint64 stalled_us;    /* of others, in all */
  guint64 n_killed;      /* how often somebody asked for what nobody had */
  guint64 n_relapses;    /* cuts after growth */
  gboolean has_grown;
  gint64 looked_us;
  guint64 stalled_then_us; /* when it last looked */
  LlmMemoryPolicy policy;
  LlmMemoryAction action;
} LlmTestMemory;

/* A machine of 16 GiB with nothing in it. */
void llm_test_memory_init (LlmTestMemory *self);
/* A step, at the end of which others hold so much. */
void llm_test_memory_step (LlmTestMemory *self,
                           guint64        others);

G_END_DECLS
