/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-expert-cache.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* As in llm-weight-stream.c. */
#define PATIENCE 64
#define POISON 0xa5
/* Passes after which the weight of a use is halved. */
#define HALF_LIFE 32

typedef struct _Expert Expert;

struct _Expert
{
  LlmExpertCache *cache;
  LlmReadPiece parts[LLM_EXPERT_PARTS];
  gsize places[LLM_EXPERT_PARTS]; /* of the parts in a slot */
  gint slot;             /* -1: none */
  gboolean has_arrived;
  gboolean is_new;
  gboolean is_wanted;    /* chosen by a step that has not used it yet */
  const LlmReadPiece *failed; /* (nullable): a part that could not be read, until it is reported */
  guint n_reading;       /* parts */
  guint n_leases;
  guint n_denied;        /* acquire() calls that found no slot */
  guint64 asked;         /* number of the acquire() call that found it missing; 0: no step waits for
                          * it */
  double score;          /* log2 of the number of rows that chose it, decayed, plus the time in
                          * half-lives */
  guint64 used_at;
};

struct _LlmExpertCache
{
  LlmWeightReader *reader; /* (owned) */
  gboolean poisons;
  Expert *experts;       /* (owned) [n_layers × n_experts] */
  guint n_layers, n_experts, n_used;
  guint *n_wanted;       /* (owned), by layer */

  guint8 *memory;        /* (owned) addresses for one slot per expert */
  gsize slot_bytes;
  Expert **slots;        /* (owned) (nullable) by slot: the expert in it */
  guint8 *is_held;       /* (owned), by slot: it has memory */
  guint n_held, n_limit, n_most;   /* slots; n_limit rises to n_most */
  guint64 n_choices, n_asked;
  gboolean is_ending;

  LlmLedger *ledger;     /* (nullable) (owned) */
  LlmStreamFigures figures;
};

static guint
count_all (const LlmExpertCache *self)
{
  return self->n_layers * self->n_experts;
}

/* --- slots --- */

static guint8 *
get_slot (const LlmExpertCache *self,
          guint                 slot)
{
  return self->memory + slot * self->slot_bytes;
}

static void
evict (LlmExpertCache *self,
       Expert         *expert)
{
  g_assert (expert->n_leases == 0 && expert->n_reading == 0);
  if (self->poisons)
    memset (get_slot (self, (guint) expert->slot), POISON, self->slot_bytes);
  self->slots[expert->slot] = NULL;
  expert->slot = -1;
  expert->has_arrived = FALSE;
}

static void
hold_slot (LlmExpertCache *self,
           guint           slot)
{
  self->is_held[slot] = TRUE;
  self->n_held++;
  if (self->ledger != NULL)
    llm_ledger_add (self->ledger, LLM_HOLDER_WEIGHTS, self->slot_bytes);
}

static void
free_slot (LlmExpertCache *self,
           guint           slot)
{
  if (self->slots[slot] != NULL)
    evict (self, self->slots[slot]);
  madvise (get_slot (self, slot), self->slot_bytes, MADV_DONTNEED);
  self->is_held[slot] = FALSE;
  self->n_held--;
  if (self->ledger != NULL)
    llm_ledger_remove (self->ledger, LLM_HOLDER_WEIGHTS, self->slot_bytes);
}

/* An expert that a step waits for stays until the step has used it, or has not asked for long. */
static gboolean
is_fixed (const LlmExpertCache *self,
          const Expert         *expert)
{
  return expert->n_leases > 0 || expert->n_reading > 0
         || (expert->asked > 0 && self->n_asked - expert->asked < PATIENCE);
}

/* Which of two is evicted first: one that no step has chosen, least used first; then the chosen one
 * that is used last. */
static gboolean
goes_before (const Expert *a,
             const Expert *b)
{
  if (a->is_wanted != b->is_wanted)
    return !a->is_wanted;
  if (a->is_wanted)
    return a > b;
  return a->score != b->score ? a->score < b->score : a->used_at < b->used_at;
}

/* A slot with memory that is free, or whose expert can be evicted; -1: none. */
static gint
find_slot (const LlmExpertCache *self,
           gboolean              takes_wanted)
{
  gint found = -1;

  for (guint i = 0; i < count_all (self); i++)
    {
      const Expert *expert = self->slots[i];

      if (!self->is_held[i])
        continue;
      if (expert == NULL)
        return (gint) i;
      if (!is_fixed (self, expert) && (takes_wanted || !expert->is_wanted)
          && (found < 0 || goes_before (expert, self->slots[found])))
        found = (gint) i;
    }
  return found;
}

static gint
take_slot (LlmExpertCache *self,
           gboolean        takes_wanted)
{
  gint slot;

  for (guint i = 0; self->n_held < self->n_limit && i < count_all (self); i++)
    if (!self->is_held[i])
      {
        hold_slot (self, i);
        return (gint) i;
      }
  slot = self->n_held <= self->n_limit ? find_slot (self, takes_wanted) : -1;
  if (slot >= 0 && self->slots[slot] != NULL)
    evict (self, self->slots[slot]);
  return slot;
}

static void
shrink (LlmExpertCache *self)
{
  while (self->n_held > self->n_limit)
    {
      gint slot = find_slot (self, TRUE);

      if (slot < 0)
        return;
      free_slot (self, (guint) slot);
    }
}

/* --- reading --- */

static void
on_read (LlmReadPiece *part)
{
  Expert *expert = part->owner;
  LlmExpertCache *self = expert->cache;

  if (part->code != 0)
    expert->failed = part;
  if (--expert->n_reading > 0)
    return;
  expert->has_arrived = expert->failed == NULL;
  if (!expert->has_arrived)
    evict (self, expert);
  if (expert->failed != NULL && expert->failed->code == ECANCELED)
    expert->failed = NULL;
  if (!self->is_ending)
    shrink (self);
}

/* Gives @expert a slot and begins to read it. */
static gboolean
begin_reading (LlmExpertCache *self,
               Expert         *expert,
               gboolean        takes_wanted)
{
  gint slot = take_slot (self, takes_wanted);

  if (slot < 0)
    return FALSE;
  self->slots[slot] = expert;
  expert->slot = slot;
  expert->is_new = TRUE;
  expert->failed = NULL;
  expert->n_reading = LLM_EXPERT_PARTS;
  self->figures.n_expert_reads++;
  for (guint p = 0; p < LLM_EXPERT_PARTS; p++)
    llm_weight_reader_read (self->reader, &expert->parts[p],
                            get_slot (self, (guint) slot) + expert->places[p], on_read);
  return TRUE;
}

/* Reads the missing experts that a step has chosen of @layer, as far as slots can be freed. */
static void
read_wanted (LlmExpertCache *self,
             guint           layer)
{
  for (guint e = 0; self->n_wanted[layer] > 0 && e < self->n_experts; e++)
    {
      Expert *expert = &self->experts[layer * self->n_experts + e];

      if (expert->is_wanted && expert->slot < 0 && expert->failed == NULL
          && !begin_reading (self, expert, FALSE))
        return;
    }
}

static void
set_wanted (LlmExpertCache *self,
            Expert         *expert,
            gboolean        is_wanted)
{
  if (expert->is_wanted == is_wanted)
    return;
  expert->is_wanted = is_wanted;
  self->n_wanted[(guint) (expert - self->experts) / self->n_experts] += is_wanted ? 1u : -1u;
}

void
llm_expert_cache_choose (LlmExpertCache *self,
                         guint           layer,
                         const guint    *n_rows)
{
  double now;

  if (n_rows != NULL)
    {
      self->n_choices++;
      self->n_limit = MIN (self->n_limit + 1, self->n_most);
    }
  now = (double) self->n_choices / ((double) self->n_layers * HALF_LIFE);
  for (guint e = 0; e < self->n_experts; e++)
    {
      Expert *expert = &self->experts[layer * self->n_experts + e];

      if (n_rows == NULL || n_rows[e] == 0)
        {
          if (n_rows == NULL)
            set_wanted (self, expert, FALSE);
          continue;
        }
      expert->score = log2 (exp2 (expert->score - now) + n_rows[e]) + now;
      if (expert->has_arrived)
        self->figures.n_expert_hits++;
      self->figures.n_expert_uses++;
      set_wanted (self, expert, TRUE);
    }
  if (n_rows != NULL)
    read_wanted (self, layer);
}

void
llm_expert_cache_poll (LlmExpertCache *self)
{
  llm_weight_reader_poll (self->reader);
}

/* --- leases --- */

LlmStatus
llm_expert_cache_acquire (LlmExpertCache  *self,
                          guint            layer,
                          guint            number,
                          const guint8    *data[LLM_EXPERT_PARTS],
                          gboolean        *is_new,
                          GError         **error)
{
  Expert *expert = &self->experts[layer * self->n_experts + number];

  for (guint p = 0; p < LLM_EXPERT_PARTS; p++)
    data[p] = NULL;
  if (self->n_most == 0 && expert->slot < 0)
    return LLM_READY;
  self->n_asked++;
  llm_expert_cache_poll (self);
  if (expert->slot < 0 && expert->failed != NULL)
    {
      LlmStatus status = llm_weight_reader_fail (self->reader, expert->failed, error);

      expert->failed = NULL;
      expert->asked = 0;
      return status;
    }
  if (expert->slot < 0 && !begin_reading (self, expert, TRUE))
    {
      if (++expert->n_denied < PATIENCE)
        return LLM_PENDING;
      expert->n_denied = 0;
      self->figures.n_mapped++;
      return LLM_READY;
    }
  expert->n_denied = 0;
  expert->asked = expert->has_arrived ? 0 : self->n_asked;
  if (!expert->has_arrived)
    return LLM_PENDING;
  expert->n_leases += LLM_EXPERT_PARTS;
  expert->used_at = self->n_asked;
  *is_new = expert->is_new;
  expert->is_new = FALSE;
  for (guint p = 0; p < LLM_EXPERT_PARTS; p++)
    data[p] = get_slot (self, (guint) expert->slot) + expert->places[p]
              + expert->parts[p].skipped;
  return LLM_READY;
}

void
llm_expert_cache_release (LlmExpertCache *self,
                          gconstpointer   data)
{
  Expert *expert =
    self->slots[(gsize) ((const guint8 *) data - self->memory) / self->slot_bytes];

  g_return_if_fail (expert != NULL && expert->n_leases > 0);
  if (--expert->n_leases > 0)
    return;
  set_wanted (self, expert, FALSE);
  shrink (self);
  read_wanted (self, (guint) (expert - self->experts) / self->n_experts);
}

gboolean
llm_expert_cache_owns (const LlmExpertCache *self,
                       gconstpointer         data)
{
  return (const guint8 *) data >= self->memory
         && (const guint8 *) data < self->memory + count_all (self) * self->slot_bytes;
}

/* --- how many --- */

void
llm_expert_cache_set_limit (LlmExpertCache *self,
                            gboolean        is_used,
                            guint64         bytes)
{
  guint64 n = is_used ? MAX (bytes / self->slot_bytes, self->n_used) : 0;

  self->n_limit = self->n_most = (guint) MIN (n, count_all (self));
  shrink (self);
}

guint64
llm_expert_cache_drop (LlmExpertCache *self,
                       guint64         bytes)
{
  guint n_before = self->n_held;
  guint64 n = MIN (bytes / self->slot_bytes + (bytes % self->slot_bytes > 0), n_before);

  self->n_limit = MIN (self->n_limit, n_before - (guint) n);
  shrink (self);
  /* without any slot, nothing would be read any more */
  self->n_limit = MAX (self->n_limit, MIN (self->n_used, self->n_most));
  return (guint64) (n_before - self->n_held) * self->slot_bytes;
}

void
llm_expert_cache_add_figures (const LlmExpertCache *self,
                              LlmStreamFigures     *figures)
{
  figures->read_bytes += llm_weight_reader_get_bytes (self->reader);
  figures->n_mapped += self->figures.n_mapped;
  figures->expert_bytes = (guint64) self->n_held * self->slot_bytes;
  figures->n_expert_uses = self->figures.n_expert_uses;
  figures->n_expert_hits = self->figures.n_expert_hits;
  figures->n_expert_reads = self->figures.n_expert_reads;
  figures->expert_share = (double) self->n_held / count_all (self);
}

/* --- making --- */

static void
lay_out (LlmExpertCache       *self,
         const LlmStreamRange *ranges)
{
  const gsize page = (gsize) sysconf (_SC_PAGESIZE);

  for (guint i = 0; i < count_all (self); i++)
    {
      Expert *expert = &self->experts[i];
      gsize bytes = 0;

      expert->cache = self;
      expert->slot = -1;
      expert->score = -INFINITY;
      for (guint p = 0; p < LLM_EXPERT_PARTS; p++)
        {
          const LlmStreamRange *range = &ranges[i * LLM_EXPERT_PARTS + p];

          llm_read_piece_init (&expert->parts[p], range->offset, range->length, LLM_DISK_BLOCK, expert);
          expert->places[p] = bytes;
          bytes += expert->parts[p].bytes;
        }
      self->slot_bytes = MAX (self->slot_bytes, bytes);
    }
  self->slot_bytes = (self->slot_bytes + page - 1) / page * page;
}

LlmExpertCache *
llm_expert_cache_new (LlmWeightReader       *reader,
                      const LlmStreamConfig *config,
                      const LlmStreamRange  *ranges,
                      guint                  n_layers,
                      guint                  n_experts,
                      guint                  n_used,
                      LlmLedger             *ledger)
{
  LlmExpertCache *self = g_new0 (LlmExpertCache, 1);
  gpointer memory;

  self->reader = reader;
  self->poisons = config->poisons;
  self->n_layers = n_layers;
  self->n_experts = n_experts;
  self->n_used = n_used;
  self->experts = g_new0 (Expert, count_all (self));
  self->n_wanted = g_new0 (guint, n_layers);
  self->slots = g_new0 (Expert *, count_all (self));
  self->is_held = g_new0 (guint8, count_all (self));
  lay_out (self, ranges);
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  memory = mmap (NULL, count_all (self) * self->slot_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    {
      llm_expert_cache_free (self);
      return NULL;
    }
  self->memory = memory;
  madvise (memory, count_all (self) * self->slot_bytes, MADV_DONTDUMP);
  return self;
}

void
llm_expert_cache_free (LlmExpertCache *self)
{
  if (self == NULL)
    return;
  self->is_ending = TRUE;
  llm_weight_reader_stop (self->reader);
  for (guint i = 0; i < count_all (self); i++)
    if (self->is_held[i])
      free_slot (self, i);
  if (self->memory != NULL)
    munmap (self->memory, count_all (self) * self->slot_bytes);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self->is_held);
  g_free (self->slots);
  g_free (self->n_wanted);
  g_free (self->experts);
  llm_weight_reader_free (self->reader);
  g_free (self);
}
