/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What restoring costs on this machine (L6): steps of the loaded model and reads of the disk are
 * timed once per machine, model and way of computing, in slices, when nothing else runs. The result
 * is in the cache folder, and is measured again when it is lost. A run belongs to the thread that
 * owns the weights and the disk.
 */

#pragma once

#include "forward/llm-plan.h"
#include "memory/llm-ledger.h"
#include "base/llm-status.h"
#include "base/llm-worker-pool.h"
#include "io/llm-key-file.h"
#include "io/llm-disk.h"
#include "kernels/llk.h"
#include "kv/llm-kv-plan.h"

G_BEGIN_DECLS

/* FALSE, and nothing set, where there is no valid one. @folder: (nullable): of the cache. */
gboolean       llm_profile_load     (const char          *folder,
                                     const LlmProfileKey *key,
                                     LlmKvProfile        *profile);
/* Replaces the saved profile of the model. @folder is made if it is missing. @is_shared: all users
 * may read it. */
gboolean       llm_profile_save     (const char          *folder,
                                     gboolean             is_shared,
                                     const LlmProfileKey *key,
                                     const LlmKvProfile  *profile,
                                     GError             **error);

typedef struct _LlmProfileRun LlmProfileRun;

/* Nothing is measured yet. Refers to @plan. Does not own its parts, which must live longer, but for
 * @disk, which may be freed before the run when it is not used any more. @ledger: (nullable):
 * counts the KV cache and scratch. @disk, @folder: (nullable): the queue, and a folder on the disk
 * to be timed; without them reads are left out (0), and the profile counts as not measured. */
LlmProfileRun *llm_profile_run_new  (LlmPlan             *plan,
                                     LlmWorkerPool       *pool,
                                     LlmLedger           *ledger,
                                     LlmDisk             *disk,
                                     const char          *folder);
void           llm_profile_run_free (LlmProfileRun       *self);
/* Continues until @until_us (a time of llm_clock_now_us()), at most one stage of a layer longer.
 * PENDING: call again; READY: @profile is set; FAILED: no memory, or the disk is full. */
LlmStatus      llm_profile_run_work (LlmProfileRun       *self,
                                     gint64               until_us,
                                     LlmKvProfile        *profile,
                                     GError             **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmProfileRun, llm_profile_run_free)

/* Speed of the disk under a folder: an unnamed file of some MiB is written and read through the
 * queue as chunks are. Belongs to the thread that owns the queue. */
typedef struct _LlmDiskProbe LlmDiskProbe;

/* @disk: (unowned). Fails with STORAGE. */
LlmDiskProbe *llm_disk_probe_new  (LlmDisk       *disk,
                                   const char    *folder,
                                   GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* Does not wait; what is under way ends later. @disk may be freed before when nothing is. */
void          llm_disk_probe_free (LlmDiskProbe  *self);
/* Goes on until @until_us. READY: the disk's part of @profile is set. FAILED: STORAGE. */
LlmStatus     llm_disk_probe_work (LlmDiskProbe  *self,
                                   gint64         until_us,
                                   LlmKvProfile  *profile,
                                   GError       **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDiskProbe, llm_disk_probe_free)

G_END_DECLS
