/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Experts of a file that memory has no room for: each is a range of its own, read past the page
 * cache when a row chose it, and kept in a slot of memory for the rows after it. A slot holds the
 * three matrices of one expert of one layer. What is kept are those chosen most often of late, of
 * equal ones those used last; counts fade, so that they are those of the text at hand. What a step
 * has chosen stays until it has used it, as far as there are slots.
 *
 * Nothing waits here, as in llm-weight-stream.h: an expert that has not arrived is PENDING, and one
 * that finds no slot for long is left to the mapping of the file. Slots can go and come back at any
 * time, also between the stages of a step; what is leased goes when it is released.
 *
 * One thread: that of the queue.
 */

#pragma once

#include "weights/llm-weight-stream.h"

/* Matrices of an expert: gate, up, down. */
#define LLM_EXPERT_PARTS 3

typedef struct _LlmExpertCache LlmExpertCache;

/* @ranges: (copied) [n_layers × n_experts × LLM_EXPERT_PARTS]. @n_used: experts of a row, and the
 * least number of slots while the cache has any. @fd is not closed, and outlives the cache; @name
 * (copied) is for messages. The cache starts without slots. Slots are counted in @ledger (nullable)
 * as LLM_HOLDER_WEIGHTS. NULL where the system has no addresses for them. */
LlmExpertCache *llm_expert_cache_new     (const LlmWeightSource *source,
                                          const LlmStreamConfig *config,
                                          int                    fd,
                                          const char            *name,
                                          const LlmStreamRange  *ranges,
                                          guint                  n_layers,
                                          guint                  n_experts,
                                          guint                  n_used,
                                          LlmLedger             *ledger);
/* Nothing is leased. Waits for what is being read. */
void            llm_expert_cache_free    (LlmExpertCache        *self);

/* Slots for @bytes from now on, or for the experts of a row where that is less; with @is_used FALSE
 * none. */
void            llm_expert_cache_set_limit (LlmExpertCache      *self,
                                          gboolean               is_used,
                                          guint64                bytes);
/* Releases the memory of slots, those used least first, until @bytes went or the rest is in use. It
 * comes back slot by slot as layers are computed. Returns the bytes that went. */
guint64         llm_expert_cache_drop    (LlmExpertCache        *self,
                                          guint64                bytes);

/* A step has chosen experts of @layer: @n_rows [n_experts], 0 for those it will not use. Begins to
 * read all that are missing, in their order, as far as there are slots. NULL: it is left. */
void            llm_expert_cache_choose  (LlmExpertCache        *self,
                                          guint                  layer,
                                          const guint           *n_rows);
/* As llm_weight_stream_acquire(), of all parts. @is_new: (out): it was not leased since it was
 * read. */
LlmStatus       llm_expert_cache_acquire (LlmExpertCache        *self,
                                          guint                  layer,
                                          guint                  expert,
                                          const guint8          *data[LLM_EXPERT_PARTS],
                                          gboolean              *is_new,
                                          GError               **error);
/* Of the expert whose part @data is. */
void            llm_expert_cache_release (LlmExpertCache        *self,
                                          gconstpointer          data);
/* Whether @data came from here. */
gboolean        llm_expert_cache_owns    (const LlmExpertCache  *self,
                                          gconstpointer          data);
/* Takes what has arrived. */
void            llm_expert_cache_poll    (LlmExpertCache        *self);
/* Adds its own to those of the stream. */
void            llm_expert_cache_add_figures (const LlmExpertCache *self,
                                          LlmStreamFigures      *figures);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmExpertCache, llm_expert_cache_free)
