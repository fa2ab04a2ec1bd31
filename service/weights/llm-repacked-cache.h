/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where repacked weights of models are kept: a folder of this user or, for the
 * system's service, one that all users may read, so that one copy in memory serves
 * them all. Everything in them can be removed at any time. Immutable once it is used; any thread.
 *
 * Provider: the matrices that products read come packed into panels from there, all
 * else from the model file. See llm-weights.h for threads.
 */

#pragma once

#include <sys/types.h>

#include "weights/llm-weights.h"

typedef struct _LlmRepackedCache LlmRepackedCache;

/* @folder: (nullable): where new files go, made when it is needed; NULL keeps none. @is_shared: all
 * users may read it. @system_folder: (nullable): one that is filled from outside, searched first.
 * @limit: bytes that @folder may hold, 0 for half of what the disk has free. */
LlmRepackedCache *llm_repacked_cache_new    (const char        *folder,
                                             gboolean           is_shared,
                                             const char        *system_folder,
                                             guint64            limit);
void              llm_repacked_cache_free   (LlmRepackedCache  *self);

/* How much of a model is repacked: both atomic, 0 while nothing is. */
typedef struct
{
  guint64 done_bytes;
  guint64 total_bytes;
} LlmRepackProgress;
/* Before the cache is used. @progress: (unowned): is kept up to date while a model is repacked, and
 * outlives that. */
void              llm_repacked_cache_set_progress (LlmRepackedCache  *self,
                                             LlmRepackProgress *progress);

/* Before the cache is used. Where a model's copy can't be kept it is prepared in memory if that has room
 * for so many times its bytes; once, where nothing is said. */
void              llm_repacked_cache_set_margin (LlmRepackedCache  *self,
                                             guint              times);

/* (transfer full): makes the whole model's file if there is none, and waits until it is on the
 * disk: its path. @n_threads: for packing, 0 for as many as the machine gives. */
char             *llm_repacked_cache_make   (LlmRepackedCache  *self,
                                             LlmGguf           *gguf,
                                             const LlmHparams  *hparams,
                                             guint              n_threads,
                                             GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* Waits until all new files of this process have their names: for a program that
 * is about to end. */
void              llm_repacked_wait_for_all (void);

/* Checks and life times are those of llm_weights_new_mapped(). Packs the matrices now, on
 * @n_threads (0 for as many as the machine gives), unless @cache (nullable) has
 * them; blocks meanwhile. Counts all of it in @ledger (nullable) as
 * LLM_HOLDER_WEIGHTS until freed; freeing gives the memory of both files back. Where no copy can be
 * kept, and @ledger has no room for the matrices, fails with NO_MEMORY, which says both. */
LlmWeights       *llm_weights_new_repacked  (LlmGguf           *gguf,
                                             const LlmHparams  *hparams,
                                             const LlmSubModels *sub_models,
                                             LlmRepackedCache  *cache,
                                             guint              n_threads,
                                             LlmLedger         *ledger,
                                             GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmRepackedCache, llm_repacked_cache_free)
