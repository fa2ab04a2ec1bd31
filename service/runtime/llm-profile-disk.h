/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How fast the disk under a folder is: a file of some MiB, which has no name, is written and
 * read through the queue as chunks are. Belongs to the thread that owns the queue.
 */

#pragma once

#include "base/llm-status.h"
#include "io/llm-disk.h"
#include "kv/llm-kv-plan.h"

G_BEGIN_DECLS

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
