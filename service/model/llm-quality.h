/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How good the sub-models of a model are, as `llmsvc-tool quality` measures it and its companion has
 * it; and its sparse answers, as levels of their own. Untrusted, as the file is. Immutable; any thread.
 */

#pragma once

#include "gguf/llm-gguf-writer.h"
#include "model/architectures/llm-sub-models.h"

/* Of keys in a companion: of sub-models; and of sparse answers, which go with their thresholds. */
#define LLM_QUALITY_OF_LEVELS "llmsvc.quality."
#define LLM_QUALITY_OF_SPARSITIES "llmsvc.active.quality."
/* Percent: what a call gets at least that leaves the choice to the service. */
#define LLM_QUALITY_DEFAULT 95

/* Of one level, the whole model with it. */
typedef struct
{
  double divergence;       /* from the whole model, mean of a token, in nats */
  double nll;              /* of that text: mean negative log-likelihood of a token */
  double valid_calls;      /* the part of the tasks that a call of a tool answers, which it answers with
                            * a call that is valid JSON */
  double exact_calls;      /* … with just the right call */
  double reply_nll;        /* of a token of the answers of the other tasks */
} LlmLevelQuality;

typedef struct
{
  guint n_levels;
  LlmLevelQuality levels[LLM_MAX_LEVELS];
  guint64 n_scored;        /* tokens of the text, at least 1 */
  guint64 n_calls;         /* tasks; 0: none was tried, as the next */
  guint64 n_replies;
} LlmQuality;

/* (nullable): of the companion @gguf, that with @prefix, of @n_levels; NULL without @error where it has
 * none. Fails with INVALID_MODEL where it is none of so many levels. */
LlmQuality *llm_quality_read  (LlmGguf           *gguf,
                               const char        *prefix,
                               guint              n_levels,
                               GError           **error);
void        llm_quality_write (const LlmQuality  *self,
                               const char        *prefix,
                               LlmGgufWriter     *to);
/* Adds what a description of @level has of it. */
void        llm_quality_describe (const LlmQuality *self,
                               guint              level,
                               GVariantDict      *dict);

/* Percent, 0 to 100, of the whole model: 100 without the points of valid calls that are lost, or without
 * 50 for each nat of divergence, whichever is more, and no more than any larger level has. 0 of what was
 * not measured (@self: (nullable)). Perplexity alone does not tell: a level that costs 6 % of it may
 * make no valid call. */
double      llm_quality_get   (const LlmQuality  *self,
                               guint              n_levels,
                               guint              level);
/* The smallest level that has @percent at least. */
guint       llm_quality_find  (const LlmQuality  *self,
                               guint              n_levels,
                               double             percent);
