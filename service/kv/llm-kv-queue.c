/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-queue.h"

static guint
find_list (const LlmKvQueue *self,
           LlkKvFormat       format)
{
  if (!self->by_bits)
    return 0;
  switch (format)
    {
    case LLK_KV_Q8:
      return 0;
    case LLK_KV_Q4:
      return 1;
    case LLK_KV_Q2:
      return 2;
    case LLK_KV_F32:
    case LLK_KV_F16:
    case LLK_N_KV_FORMATS:
      break;
    }
  return LLM_KV_QUEUE_LISTS - 1;
}

/* @previous: (nullable): for the first place. */
static void
insert_after (LlmKvQueue      *self,
              LlmKvQueueEntry *entry,
              guint            list,
              LlmKvQueueEntry *previous)
{
  LlmKvQueueEntry *next = previous != NULL ? previous->next : self->first[list];

  entry->previous = previous;
  entry->next = next;
  entry->list = (guint8) (list + 1);
  if (previous != NULL)
    previous->next = entry;
  else
    self->first[list] = entry;
  if (next != NULL)
    next->previous = entry;
  else
    self->last[list] = entry;
  self->n_entries++;
}

void
llm_kv_queue_init (LlmKvQueue *self,
                   gboolean    by_bits)
{
  *self = (LlmKvQueue) { .by_bits = by_bits };
}

void
llm_kv_queue_touch (LlmKvQueue      *self,
                    LlmKvQueueEntry *entry,
                    LlkKvFormat      format)
{
  guint list = find_list (self, format);

  llm_kv_queue_remove (self, entry);
  entry->used = ++self->now;
  insert_after (self, entry, list, self->last[list]);
}

void
llm_kv_queue_set_format (LlmKvQueue      *self,
                         LlmKvQueueEntry *entry,
                         LlkKvFormat      format)
{
  guint list = find_list (self, format);

  if (entry->list == list + 1)
    return;
  llm_kv_queue_remove (self, entry);
  LlmKvQueueEntry *previous = self->last[list];
  while (previous != NULL && previous->used > entry->used)
    previous = previous->previous;
  insert_after (self, entry, list, previous);
}

void
llm_kv_queue_remove (LlmKvQueue      *self,
                     LlmKvQueueEntry *entry)
{
  if (entry->list == 0)
    return;
  guint list = entry->list - 1u;
  if (entry->previous != NULL)
    entry->previous->next = entry->next;
  else
    self->first[list] = entry->next;
  if (entry->next != NULL)
    entry->next->previous = entry->previous;
  else
    self->last[list] = entry->previous;
  entry->previous = NULL;
  entry->next = NULL;
  entry->list = 0;
  self->n_entries--;
}

gboolean
llm_kv_queue_has (const LlmKvQueueEntry *entry)
{
  return entry->list != 0;
}

guint
llm_kv_queue_get_length (const LlmKvQueue *self)
{
  return self->n_entries;
}

/* The first of the first list, from @list on, that is not empty. */
static LlmKvQueueEntry *
peek_from (const LlmKvQueue *self,
           guint             list)
{
  for (; list < LLM_KV_QUEUE_LISTS; list++)
    if (self->first[list] != NULL)
      return self->first[list];
  return NULL;
}

LlmKvQueueEntry *
llm_kv_queue_peek (const LlmKvQueue *self)
{
  return peek_from (self, 0);
}

LlmKvQueueEntry *
llm_kv_queue_peek_after (const LlmKvQueue      *self,
                         const LlmKvQueueEntry *entry)
{
  g_return_val_if_fail (entry->list != 0, NULL);

  return entry->next != NULL ? entry->next : peek_from (self, entry->list);
}
