/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The control groups of this process, from its own up to the root, of either version: their limits,
 * and their usage. Plain data, of the thread that made it; reads small kernel files below a root
 * folder that tests replace.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmMemoryGroups LlmMemoryGroups;

/* One group with a limit. */
typedef struct
{
  guint64 limit;   /* bytes; 0 where no group limits us */
  guint64 usage;   /* bytes, page cache included */
  guint64 cache;   /* of these, file pages, which the kernel reclaims by itself */
} LlmGroupUsage;

/* @root: (nullable): NULL or "" for the real one. Never NULL; without control groups there is
 * just no limit. */
LlmMemoryGroups *llm_memory_groups_new      (const char      *root);
void             llm_memory_groups_free     (LlmMemoryGroups *self);

/* Of all groups with a limit, the one with the least room (limit - usage + cache). */
void             llm_memory_groups_read     (LlmMemoryGroups *self,
                                             LlmGroupUsage   *usage);
/* Bytes that fit beside the current usage: G_MAXUINT64 without a limit. */
guint64          llm_group_usage_get_room   (const LlmGroupUsage *self);
/* (nullable): the folder of our own group of version 2, with memory.pressure. */
const char      *llm_memory_groups_get_v2   (LlmMemoryGroups *self);
/* (nullable): the folder of the group that the last reading was of, and its version. */
const char      *llm_memory_groups_get_tightest (LlmMemoryGroups *self,
                                             gboolean        *is_v1);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmMemoryGroups, llm_memory_groups_free)

G_END_DECLS
