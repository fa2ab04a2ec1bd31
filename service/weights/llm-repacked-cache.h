/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The cache of repacked weights: a folder of this user or, for the system's service, one that all
 * users may read, so that one copy in memory serves them all. Its files can be removed at any time.
 * Immutable once it is used; any thread.
 *
 * Provider: the matrices that products read are repacked into panels and come from there, all
 * others from the model file. See llm-weights.h for threads.
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

/* Progress of repacking a model: both atomic, 0 while none is repacked. */
typedef struct
{
  guint64 done_bytes;
  guint64 total_bytes;
} LlmRepackProgress;
/* Called before the cache is used. @progress: (unowned): updated while a model is repacked, and
 * outlives that. */
void              llm_repacked_cache_set_progress (LlmRepackedCache  *self,
                                             LlmRepackProgress *progress);

/* Called before the cache is used. If a model's copy can't be stored, it is repacked in memory,
 * provided that so many times its bytes fit; default: once. */
void              llm_repacked_cache_set_margin (LlmRepackedCache  *self,
                                             guint              times);

/* (transfer full): makes the whole model's file if it is missing, and waits until it is on the
 * disk: its path. @n_threads: for repacking, 0 for as many as the machine gives. */
char             *llm_repacked_cache_make   (LlmRepackedCache  *self,
                                             LlmGguf           *gguf,
                                             const LlmHparams  *hparams,
                                             guint              n_threads,
                                             GError           **error) G_GNUC_WARN_UNUSED_RESULT;

/* Waits until all new files of this process have their names: for a program that
 * is about to end. */
void              llm_repacked_wait_for_all (void);

/* Checks and life times are those of llm_weights_new_mapped(). Repacks the matrices now, on
 * @n_threads (0 for as many as the machine gives), unless @cache (nullable) has them; blocks
 * meanwhile. Counts all of it in @ledger (nullable) as LLM_HOLDER_WEIGHTS until freed; freeing
 * releases the memory of both files. If no copy can be stored, and @ledger has no room for the
 * matrices, fails with NO_MEMORY and both reasons. */
LlmWeights       *llm_weights_new_repacked  (LlmGguf           *gguf,
                                             const LlmHparams  *hparams,
                                             const LlmSubModels *sub_models,
                                             LlmRepackedCache  *cache,
                                             guint              n_threads,
                                             LlmLedger         *ledger,
                                             GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmRepackedCache, llm_repacked_cache_free)
