/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Experts of a file that does not fit into memory: each is a range of its own, read past the page
 * cache when a row chose it, and kept in a slot of memory for later rows. A slot holds the three
 * matrices of one expert of one layer. The experts that were chosen most often are kept, of equal
 * ones the most recently used; counts decay, so that they follow the current text. An expert that a
 * step has chosen stays until it was used, as far as slots suffice.
 *
 * Nothing waits here, as in llm-weight-stream.h: an expert that has not arrived is PENDING, and one
 * that finds no slot for long is used from the mapping of the file. Slots can be released and added
 * at any time, also between the stages of a step; leased ones are released later.
 *
 * One thread: that of the queue.
 */

#pragma once

#include "weights/llm-weight-stream.h"

/* Matrices of an expert: gate, up, down. */
#define LLM_EXPERT_PARTS 3

typedef struct _LlmExpertCache LlmExpertCache;

/* Takes @reader, which has a source. @ranges: (copied) [n_layers × n_experts × LLM_EXPERT_PARTS].
 * @n_used: experts of a row, and the least number of slots while the cache has any. The cache starts
 * without slots. Slots are counted in @ledger (nullable) as LLM_HOLDER_WEIGHTS. NULL where the system
 * has no addresses for them. */
LlmExpertCache *llm_expert_cache_new     (LlmWeightReader       *reader,
                                          const LlmStreamConfig *config,
                                          const LlmStreamRange  *ranges,
                                          guint                  n_layers,
                                          guint                  n_experts,
                                          guint                  n_used,
                                          LlmLedger             *ledger);
/* No expert may be leased. Waits for reads under way. */
void            llm_expert_cache_free    (LlmExpertCache        *self);

/* Slots for @bytes from now on, or for the experts of one row if those take more; with @is_used
 * FALSE none. */
void            llm_expert_cache_set_limit (LlmExpertCache      *self,
                                          gboolean               is_used,
                                          guint64                bytes);
/* Releases the memory of slots, least used first, until @bytes are freed or the rest is in use.
 * Slots get memory again one by one as layers are computed. Returns the bytes freed. */
guint64         llm_expert_cache_drop    (LlmExpertCache        *self,
                                          guint64                bytes);

/* A step has chosen experts of @layer: @n_rows [n_experts], 0 for those it will not use. Begins to
 * read all missing ones, in order, as far as slots suffice. NULL: the step has left the layer. */
void            llm_expert_cache_choose  (LlmExpertCache        *self,
                                          guint                  layer,
                                          const guint           *n_rows);
/* As llm_weight_stream_acquire(), of all parts. @is_new: (out): this is its first lease since it
 * was read. */
LlmStatus       llm_expert_cache_acquire (LlmExpertCache        *self,
                                          guint                  layer,
                                          guint                  expert,
                                          const guint8          *data[LLM_EXPERT_PARTS],
                                          gboolean              *is_new,
                                          GError               **error);
/* Releases the expert whose part @data is. */
void            llm_expert_cache_release (LlmExpertCache        *self,
                                          gconstpointer          data);
/* Whether @data came from here. */
gboolean        llm_expert_cache_owns    (const LlmExpertCache  *self,
                                          gconstpointer          data);
/* Takes what the disk has read. */
void            llm_expert_cache_poll    (LlmExpertCache        *self);
/* Adds its figures to those of the stream. */
void            llm_expert_cache_add_figures (const LlmExpertCache *self,
                                          LlmStreamFigures      *figures);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmExpertCache, llm_expert_cache_free)
