/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-queue.h"

static GQueue *
find_list (LlmKvQueue *self,
           LlkKvFormat format)
{
  guint list = self->by_bits ? LLM_KV_QUEUE_LISTS - 1 : 0;

  if (self->by_bits && llk_kv_is_packed (format))
    list = (guint) (format - LLK_KV_Q8);
  return &self->lists[list];
}

/* After @previous (nullable). */
static void
insert (LlmKvQueueEntry *entry,
        GQueue          *list,
        GList           *previous)
{
  entry->link.data = entry;
  entry->list = list;
  if (previous == NULL)
    g_queue_push_head_link (list, &entry->link);
  else
    g_queue_insert_after_link (list, previous, &entry->link);
}

void
llm_kv_queue_touch (LlmKvQueue      *self,
                    LlmKvQueueEntry *entry,
                    LlkKvFormat      format)
{
  GQueue *list = find_list (self, format);

  llm_kv_queue_remove (entry);
  entry->used = ++self->now;
  insert (entry, list, list->tail);
}

void
llm_kv_queue_set_format (LlmKvQueue      *self,
                         LlmKvQueueEntry *entry,
                         LlkKvFormat      format)
{
  GQueue *list = find_list (self, format);
  GList *previous = list->tail;

  if (entry->list == list)
    return;
  llm_kv_queue_remove (entry);
  while (previous != NULL && ((LlmKvQueueEntry *) previous->data)->used > entry->used)
    previous = previous->prev;
  insert (entry, list, previous);
}

void
llm_kv_queue_remove (LlmKvQueueEntry *entry)
{
  if (entry->list != NULL)
    g_queue_unlink (entry->list, &entry->link);
  entry->list = NULL;
}

LlmKvQueueEntry *
llm_kv_queue_peek (LlmKvQueue      *self,
                   LlmKvQueueEntry *entry)
{
  GQueue *list = self->lists;

  if (entry != NULL && entry->link.next != NULL)
    return entry->link.next->data;
  if (entry != NULL)
    list = entry->list + 1;
  for (; list < self->lists + LLM_KV_QUEUE_LISTS; list++)
    if (list->head != NULL)
      return list->head->data;
  return NULL;
}
