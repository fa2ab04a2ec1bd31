/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Graphs of stages to dispatch: random ones, and the one of the paper on mllm-NPU. Plain data.
 */

#pragma once

#include "dispatch/llm-dispatch.h"

G_BEGIN_DECLS

#define LLM_TEST_DISPATCH_STAGES 160

typedef struct
{
  LlmDispatchGraph graph;
  LlmDispatchStage stages[LLM_TEST_DISPATCH_STAGES];
  double times_us[LLM_DISPATCH_MAX_CHUNKS * LLM_TEST_DISPATCH_STAGES];
} LlmTestDispatch;

/* Stages of the CPU that take nothing. */
void   llm_test_dispatch_init       (LlmTestDispatch       *self,
                                     guint                  n_chunks,
                                     guint                  n_stages);
/* Attention of later chunks takes longer: they see more. */
void   llm_test_dispatch_randomize  (LlmTestDispatch       *self,
                                     GRand                 *random);
/* 24 layers of six subgraphs, 315 ms of the device and 157 ms of the CPU for the first chunk.
 * @growth: of attention from chunk to chunk. */
void   llm_test_dispatch_paper      (LlmTestDispatch       *self,
                                     guint                  n_chunks,
                                     double                 growth);
/* What it takes with one stage after the other. */
double llm_test_dispatch_get_serial (const LlmTestDispatch *self);

G_END_DECLS
