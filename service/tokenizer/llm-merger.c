/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tokenizer/llm-tokenizer-private.h"

typedef struct
{
  guint64 order;    /* rank in the high half, index of the left symbol in the low one */
  guint32 length;   /* of both symbols: another one tells that the pair is gone */
  gint32 id;
} MergePair;

static LlmSymbol *
get_symbol (LlmMerger *self,
            gint32     index)
{
  return &g_array_index (self->symbols, LlmSymbol, index);
}

static void
push_pair (LlmMerger *self,
           MergePair  pair)
{
  MergePair *heap;
  guint at = self->pairs->len;

  g_array_set_size (self->pairs, at + 1);
  heap = (MergePair *) (void *) self->pairs->data;
  while (at > 0 && heap[(at - 1) / 2].order > pair.order)
    {
      heap[at] = heap[(at - 1) / 2];
      at = (at - 1) / 2;
      self->n_steps++;
    }
  heap[at] = pair;
}

static MergePair
pop_pair (LlmMerger *self)
{
  MergePair *heap = (MergePair *) (void *) self->pairs->data;
  MergePair first = heap[0];
  guint n = self->pairs->len - 1;
  MergePair last = heap[n];
  guint at = 0;

  for (guint child = 1; child < n; child = at * 2 + 1)
    {
      if (child + 1 < n && heap[child + 1].order < heap[child].order)
        child++;
      if (heap[child].order >= last.order)
        break;
      heap[at] = heap[child];
      at = child;
      self->n_steps++;
    }
  heap[at] = last;
  g_array_set_size (self->pairs, n);
  return first;
}

static void
try_pair (LlmMerger *self,
          gint32     left,
          gint32     right)
{
  MergePair pair;
  guint32 rank;

  if (left < 0 || right < 0)
    return;
  self->n_steps++;
  if (!self->can_merge (self, get_symbol (self, left), get_symbol (self, right), &rank, &pair.id))
    return;
  pair.order = ((guint64) rank << 32) | (guint32) left;
  pair.length = get_symbol (self, left)->length + get_symbol (self, right)->length;
  push_pair (self, pair);
}

void
llm_merger_init (LlmMerger    *self,
                 LlmMergeFunc  can_merge,
                 gconstpointer data)
{
  self->can_merge = can_merge;
  self->data = data;
  self->text = NULL;
  self->symbols = g_array_new (FALSE, FALSE, sizeof (LlmSymbol));
  self->pairs = g_array_new (FALSE, FALSE, sizeof (MergePair));
  self->n_steps = 0;
}

void
llm_merger_clear (LlmMerger *self)
{
  g_clear_pointer (&self->symbols, g_array_unref);
  g_clear_pointer (&self->pairs, g_array_unref);
}

void
llm_merger_begin (LlmMerger  *self,
                  const char *text)
{
  self->text = text;
  g_array_set_size (self->symbols, 0);
  g_array_set_size (self->pairs, 0);
}

void
llm_merger_add (LlmMerger *self,
                guint32    start,
                guint32    length,
                gint32     id)
{
  gint32 index = (gint32) self->symbols->len;
  LlmSymbol symbol = { start, length, id, index - 1, -1 };

  if (index > 0)
    get_symbol (self, index - 1)->next = index;
  g_array_append_val (self->symbols, symbol);
  self->n_steps++;
}

void
llm_merger_run (LlmMerger *self)
{
  for (gint32 i = 1; i < (gint32) self->symbols->len; i++)
    try_pair (self, i - 1, i);

  while (self->pairs->len > 0)
    {
      MergePair pair = pop_pair (self);
      gint32 at = (gint32) (guint32) pair.order;
      LlmSymbol *left = get_symbol (self, at);
      LlmSymbol *right;

      /* A symbol only grows by eating its right neighbour, so equal lengths mean
       * that both are what they were. */
      if (left->length == 0 || left->next < 0)
        continue;
      right = get_symbol (self, left->next);
      if (left->length + right->length != pair.length)
        continue;

      left->length = pair.length;
      left->id = pair.id;
      left->next = right->next;
      right->length = 0;
      if (left->next >= 0)
        get_symbol (self, left->next)->prev = at;

      try_pair (self, left->prev, at);
      try_pair (self, at, left->next);
    }
}
