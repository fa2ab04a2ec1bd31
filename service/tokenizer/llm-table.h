/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A hash table of indices, by hashes that are made with its seed: another one each time, so that no
 * file can be made whose keys all meet in one slot. Who looks up compares the keys. Tables of
 * vocabularies are larger than a cache: who looks up very many says so a little ahead. Immutable
 * once filled; any thread.
 */

#pragma once

#include <glib.h>

typedef struct
{
  guint64 *slots;   /* (owned): the high half of a hash, and in the low one index + 1; 0 is free */
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

  while (n_slots < n_keys * 2)
    n_slots *= 2;
  self->slots = g_new0 (guint64, n_slots);
  self->mask = n_slots - 1;
  self->seed = ((guint64) g_random_int () << 32) | g_random_int ();
}

static inline void
llm_table_prefetch (const LlmTable *self,
                    guint64         hash)
{
  __builtin_prefetch (&self->slots[hash & self->mask]);
}

/* An index that may be that of @hash; -1 behind the last. @at: (inout): begins as the hash; then
 * one behind the index's slot, or where the first free slot is. */
static inline gint32
llm_table_next (const LlmTable *self,
                guint64         hash,
                gsize          *at)
{
  for (guint64 slot; (slot = self->slots[*at & self->mask]) != 0;)
    {
      ++*at;
      if (slot >> 32 == hash >> 32)
        return (gint32) (guint32) slot - 1;
    }
  return -1;
}

static inline void
llm_table_set (LlmTable *self,
               gsize     at,
               guint64   hash,
               guint32   index)
{
  self->slots[at & self->mask] = (hash & G_GUINT64_CONSTANT (0xffffffff00000000)) | (index + 1);
}
