/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-kv"

#include "kv/llm-kv-private.h"

#include <math.h>
#include <string.h>

#include "base/llm-clock.h"

/* A lower bound, so that errors count where no density was collected. */
#define LEAST_DENSITY 1e-6f
/* A context may always have so many slots with 4 bits, whatever the ratio is: the tail of a short
 * one alone takes more than its part, and little would be saved. Contexts from some 350 slots on
 * keep to a ratio of 50 %. */
#define LEAST_SLOTS 256

/* --- bits (L4) --- */

/* Budget of the context's full chunks, after the tail. */
static guint64
get_budget (LlmKvSeq *self,
            guint     n_chunks)
{
  LlmKvStore *store = self->store;
  gboolean has_tail = llm_kv_seq_n_full (self) < self->holds->len;
  guint64 all = store->arenas[LLM_KV_FORM (LLK_KV_Q8, FALSE)].bytes
                * ((guint64) n_chunks + (has_tail ? 1 : 0));
  guint64 tail = has_tail ? store->arenas[llm_kv_store_float_form (store)].bytes : 0;
  guint64 budget = (guint64) (store->policy.ratio * (double) all);
  guint64 least = store->arenas[LLM_KV_FORM (LLK_KV_Q4, FALSE)].bytes
                  * MIN (n_chunks, LEAST_SLOTS / store->layout.chunk_slots);

  return MAX (budget - MIN (tail, budget), least);
}

static void
get_costs (LlmKvStore     *store,
           LlmKvBitsCosts *costs)
{
  *costs = (LlmKvBitsCosts) { 0 };
  for (LlkKvFormat format = LLK_KV_F32; format < LLK_N_KV_FORMATS; format++)
    {
      if (llm_kv_store_has_form (store, LLM_KV_FORM (format, FALSE)))
        costs->bytes[format] = store->arenas[LLM_KV_FORM (format, FALSE)].bytes;
      if (llk_kv_is_packed (format))
        costs->errors[format] = MAX (store->errors[format], costs->errors[format - 1]);
    }
}

static void
choose_by_density (LlmKvSeq *self)
{
  LlmKvStore *store = self->store;
  g_autofree LlmKvBitsChunk *chunks = g_new0 (LlmKvBitsChunk, self->n_formats + 1);
  g_autofree LlkKvFormat *chosen = g_new (LlkKvFormat, self->n_formats + 1);
  g_autofree guint *indices = g_new (guint, self->n_formats + 1);
  LlmKvBitsCosts costs;
  guint n = 0;

  for (guint i = 0; i < self->n_formats; i++)
    {
      LlmKvHold *hold = llm_kv_seq_hold (self, i);
      gboolean is_there = hold->chunk->state == LLM_KV_PRESENT;

      if (!is_there && hold->slot.extent == 0)
        continue;

      chunks[n].density = (float) pow (MAX (llm_kv_seq_get_density (self, i), LEAST_DENSITY),
                                       store->policy.density);
      chunks[n].best = LLM_KV_FORM_FORMAT (is_there && !llm_kv_hold_has_wide (hold)
                                             ? hold->chunk->form : hold->slot_form);
      indices[n++] = i;
    }

  get_costs (store, &costs);
  llm_kv_bits_choose (chunks, n, &costs, get_budget (self, n), chosen);
  for (guint i = 0; i < n; i++)
    self->formats[indices[i]] = (guint8) chosen[i];
  for (guint i = 0; i < self->n_formats; i++)
    {
      LlmKvChunk *chunk = llm_kv_seq_hold (self, i)->chunk;

      /* the chosen format has no more bits than the chunk has, in memory and on storage */
      if (chunk->is_narrow && self->formats[i] >= LLM_KV_FORM_FORMAT (chunk->form))
        llm_kv_chunk_set_narrow (store, chunk, FALSE);
    }
}

static void
choose_formats (LlmKvSeq *self)
{
  const LlmKvPolicy *policy = &self->store->policy;

  LlkKvFormat format = self->store->layout.format;

  if (policy->compression == LLM_KV_UNIFORM)
    format = MAX (policy->uniform, format);
  self->n_formats = llm_kv_seq_n_full (self);
  self->formats = g_malloc (self->n_formats + 1);
  memset (self->formats, (int) format, self->n_formats + 1);
  if (policy->compression == LLM_KV_TOLERANCE)
    choose_by_density (self);
}

/* --- quantization (L5) --- */

/* Never more bits than the chunk has, never layers that it lacks. */
static LlmKvForm
get_wanted_form (LlmKvSeq *self,
                 guint     chunk)
{
  LlmKvForm form = llm_kv_seq_hold (self, chunk)->chunk->form;

  return LLM_KV_FORM (MAX (self->formats[chunk], LLM_KV_FORM_FORMAT (form)),
                      LLM_KV_FORM_IS_BEHIND (form)
                        || llm_kv_seq_is_behind (self, chunk, self->length));
}

/* A chunk that another sequence's call uses stays as it is for that call. */
static gboolean
is_to_pack (LlmKvSeq *self,
            guint     chunk)
{
  LlmKvChunk *held = llm_kv_seq_hold (self, chunk)->chunk;

  return held->state == LLM_KV_PRESENT && get_wanted_form (self, chunk) != held->form;
}

/* Handles one chunk, or goes on to the next stage. */
static void
pack_next (LlmKvSeq *self)
{
  if (self->formats == NULL)
    choose_formats (self);

  while (self->at < self->n_formats)
    {
      guint chunk = self->at++;

      if (is_to_pack (self, chunk))
        {
          llm_kv_seq_pack (self, chunk, get_wanted_form (self, chunk));
          return;
        }
    }

  llm_kv_work_set_stage (self, LLM_KV_TO_WRITE);
}

/* --- all of it --- */

void
llm_kv_store_set_ratio (LlmKvStore *self,
                        double      ratio)
{
  self->policy.ratio = ratio;
  for (GList *l = self->sequences.head; l != NULL; l = l->next)
    if (!((LlmKvSeq *) l->data)->is_locked)
      llm_kv_work_begin (l->data);
}

static gboolean
is_tidy (LlmKvStore *self)
{
  return self->storage == NULL || llm_kv_storage_is_tidy (self->storage);
}

gboolean
llm_kv_store_work (LlmKvStore *self,
                   gint64      until_us)
{
  do
    {
      llm_kv_store_wait (self, 0);
      llm_kv_refill_work (self);
      if (self->n_batches < LLM_KV_MAX_BATCHES && self->stages[LLM_KV_TO_WRITE].length > 0)
        {
          LlmKvSeq *seq = g_queue_peek_head (&self->stages[LLM_KV_TO_WRITE]);

          if (!llm_kv_work_write (seq))
            llm_kv_work_stop (seq);
        }
      else if (self->stages[LLM_KV_TO_PACK].length > 0)
        {
          pack_next (g_queue_peek_head (&self->stages[LLM_KV_TO_PACK]));
        }
      else if (!is_tidy (self))
        {
          llm_kv_storage_tidy (self->storage);
        }
      else if (!llm_kv_narrow_widen_next (self))
        {
          return FALSE;
        }
    }
  while (llm_clock_now_us () < until_us);

  return self->stages[LLM_KV_TO_PACK].length > 0 || !is_tidy (self)
         || (self->n_batches < LLM_KV_MAX_BATCHES && self->stages[LLM_KV_TO_WRITE].length > 0);
}

gboolean
llm_kv_store_is_settled (LlmKvStore *self)
{
  return self->stages[LLM_KV_IDLE].length == self->sequences.length && self->n_batches == 0
         && !self->widens && self->refilled == NULL && is_tidy (self);
}
