/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Out-of-order dispatch of a prompt over two processors (N6). All chunks of the prompt go through
 * the same stages; a stage belongs to one processor, which computes one at a time. Here it is
 * decided which chunk's stage a free processor takes next. Knows numbers only. One thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define LLM_DISPATCH_MAX_CHUNKS 64

typedef enum
{
  LLM_PROCESSOR_CPU,
  LLM_PROCESSOR_DEVICE,
  LLM_N_PROCESSORS,
} LlmProcessor;

/* A stage of a chunk needs the chunk's stage before it. */
typedef struct
{
  LlmProcessor processor;
  gboolean needs_earlier;   /* and that stage of all chunks before it: attention, which reads the
                             * keys and values that they wrote */
} LlmDispatchStage;

typedef struct
{
  const LlmDispatchStage *stages;   /* (unowned) [n_stages] */
  guint n_stages;                   /* at least 1 */
  guint n_chunks;                   /* 1 to LLM_DISPATCH_MAX_CHUNKS */
  const double *times_us;           /* (unowned) [n_chunks × n_stages]: what each takes */
  const double *driver_us;          /* (unowned) (nullable) likewise: of a stage of the device, the part that
                                     * the CPU takes to submit it and to read its result, on the thread
                                     * that also computes the CPU's stages. NULL: 0, and both
                                     * processors run on their own */
} LlmDispatchGraph;

/* Which of those that are ready; of equal ones the one that was ready first. */
typedef enum
{
  LLM_DISPATCH_STALLS,     /* the one behind which most work for the device becomes ready, or, on
                            * the device, least for the CPU (equation 6 of the paper) */
  LLM_DISPATCH_FIFO,       /* the one that was ready first */
  LLM_DISPATCH_CHUNKS,     /* the one of the earliest chunk */
  LLM_N_DISPATCH_RULES,
} LlmDispatchRule;

typedef struct
{
  double makespan_us;                  /* from the first stage's begin to the last one's end */
  double busy_us[LLM_N_PROCESSORS];
} LlmDispatchFigures;

typedef struct _LlmDispatch LlmDispatch;

/* @graph: (copied), what it points to is not. */
LlmDispatch    *llm_dispatch_new      (const LlmDispatchGraph *graph,
                                       LlmDispatchRule         rule);
void            llm_dispatch_free     (LlmDispatch            *self);
/* Begins a stage on @processor, which is free. FALSE where none is ready for it. */
gboolean        llm_dispatch_begin    (LlmDispatch            *self,
                                       LlmProcessor            processor,
                                       guint                  *chunk,
                                       guint                  *stage);
/* The stage of @chunk that began has ended. */
void            llm_dispatch_end      (LlmDispatch            *self,
                                       guint                   chunk);
/* Whether all stages of all chunks have ended. */
gboolean        llm_dispatch_is_done  (LlmDispatch            *self);

/* What @rule comes to if all takes what @graph says. */
LlmDispatchFigures
                llm_dispatch_simulate (const LlmDispatchGraph *graph,
                                       LlmDispatchRule         rule);
/* The rule of the least makespan: no rule is best for all prompts. Simulates each of them, once for
 * a prompt's length. */
LlmDispatchRule llm_dispatch_choose   (const LlmDispatchGraph *graph);

/* (not nullable): for people. */
const char     *llm_dispatch_rule_get_name (LlmDispatchRule    rule);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDispatch, llm_dispatch_free)

G_END_DECLS
