/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Which chunk is evicted next (L8, "least compression-tolerable and recently used"): a list per
 * width, the widest quantized ones first, since they free most and had the highest density; within
 * a list the least recently used first. Floats come last: they are few, and have no copy elsewhere.
 * Entries are embedded in the queued objects; nothing is allocated. Chunks that may not be evicted
 * are not queued. Owned by a store; the executor's thread.
 */

#pragma once

#include <glib.h>

#include "kernels/llk-kv.h"

G_BEGIN_DECLS

/* Q8, Q4, Q3, Q2, floats. */
#define LLM_KV_QUEUE_LISTS 5

/* Zeroed: not queued. */
typedef struct
{
  GList link;
  GQueue *list;        /* (nullable): the list that it is in */
  guint64 used;        /* rises with each use; kept while it is not queued; 0: never */
} LlmKvQueueEntry;

typedef struct
{
  GQueue lists[LLM_KV_QUEUE_LISTS];
  guint64 now;         /* uses so far */
  gboolean by_bits;    /* FALSE: one list, whatever the formats */
} LlmKvQueue;

/* The object that embeds the entry: LLM_KV_QUEUE_OWNER (entry, LlmKvChunk, queue_entry). */
#define LLM_KV_QUEUE_OWNER(entry, Type, member)                                                  \
  ((Type *) (void *) ((char *) (entry) - G_STRUCT_OFFSET (Type, member)))

/* The entry was used now: it is the last of its width to be evicted. Queues it, or moves it.
 * O(1). */
void             llm_kv_queue_touch      (LlmKvQueue      *self,
                                          LlmKvQueueEntry *entry,
                                          LlkKvFormat      format);
/* Queues it, or moves it to another width, at the place of its last use: after quantization, and
 * when a lock ends that was no use. O(1) when few were used since. */
void             llm_kv_queue_set_format (LlmKvQueue      *self,
                                          LlmKvQueueEntry *entry,
                                          LlkKvFormat      format);
/* Does nothing when it is not queued. O(1). */
void             llm_kv_queue_remove     (LlmKvQueueEntry *entry);
/* (nullable): the one to evict first, or after @entry (nullable): call it before @entry is removed.
 * O(1). */
LlmKvQueueEntry *llm_kv_queue_peek       (LlmKvQueue      *self,
                                          LlmKvQueueEntry *entry);

G_END_DECLS
