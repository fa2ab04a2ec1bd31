/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A hash table whose keys are hashes themselves, made with its seed: another one each
 * time, so that no file can be made whose keys all meet in one slot. Tables of vocabularies
 * are larger than a cache: who looks up very many says so a little ahead.
 * Immutable once filled; any thread.
 */

#pragma once

#include <glib.h>

typedef struct
{
  guint64 key;      /* 0: free */
  guint64 value;
} LlmTableSlot;

typedef struct
{
  LlmTableSlot *slots;    /* (owned) */
  gsize mask;
  guint64 seed;
} LlmTable;

/* How many look-ups ahead llm_table_prefetch() is best called. */
#define LLM_TABLE_AHEAD 8

static inline void
llm_table_init (LlmTable *self,
                gsize     n_keys)
{
  gsize n_slots = 16;

  while (n_slots < n_keys + n_keys / 2)
    n_slots *= 2;
  self->slots = g_new0 (LlmTableSlot, n_slots);
  self->mask = n_slots - 1;
  self->seed = ((guint64) g_random_int () << 32) | g_random_int ();
}

static inline void
llm_table_prefetch (const LlmTable *self,
                    guint64         key)
{
  __builtin_prefetch (&self->slots[key & self->mask], 1);
}

/* The slot of @key, or the free one where it belongs. */
static inline LlmTableSlot *
llm_table_find (const LlmTable *self,
                guint64         key)
{
  gsize at = key & self->mask;

  while (self->slots[at].key != 0 && self->slots[at].key != key)
    at = (at + 1) & self->mask;
  return &self->slots[at];
}
