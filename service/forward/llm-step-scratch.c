/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-forward-private.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/llm-fail.h"

/* The bytes of a NaN. */
#define POISON 0xff

void
llm_step_describe_attention (LlmStep      *self,
                             guint         layer,
                             LlmAttention *attention)
{
  const LlmLayer *shape = &self->hparams->layers[layer];

  *attention = (LlmAttention) {
    .kernels = self->kernels,
    .pool = self->pool,
    .n_heads = shape->n_heads,
    .n_kv_heads = shape->n_kv_heads,
    .head_dim = shape->head_dim,
    .chunk_slots = self->batch->sequences[0]->store->layout.chunk_slots,
    .format = self->batch->sequences[0]->store->layout.format,
    .collects_density = self->collects_density,
    .rows = self->batch->rows,
    .order = self->rows.order,
    .n_groups = self->rows.n_groups,
    .n_rows = self->batch->n_rows,
    .first_view = (const guint *) (gconstpointer) self->first_view->data,
    .views = (const LlmKvView *) (gconstpointer) self->views->data,
    .n_views = self->views->len,
    .q = self->scratch.q,
    .out = self->scratch.attended,
    .received = self->scratch.received,
    .first_mass = self->rows.first_mass,
    .n_masses = self->rows.n_masses,
    .scratch = self->scratch.attention,
  };
}

/* What the attention of any layer needs. */
static gsize
measure_attention (LlmStep *self)
{
  const LlmLayer *layers = self->hparams->layers;
  gsize most = 0;

  for (guint i = 0; i < self->hparams->n_layers; i++)
    {
      LlmAttention attention;

      if (i > 0 && layers[i].n_heads == layers[i - 1].n_heads
          && layers[i].n_kv_heads == layers[i - 1].n_kv_heads
          && layers[i].head_dim == layers[i - 1].head_dim)
        continue;
      llm_step_describe_attention (self, i, &attention);
      most = MAX (most, llm_attention_get_scratch (&attention));
    }
  return most;
}

static gsize
lay_out (LlmStep *self,
         guint8  *block)
{
  const LlmHparams *h = self->hparams;
  LlmScratch *s = &self->scratch;
  gsize used = 0;
  gsize n_rows = self->batch->n_rows;
  gsize n_threads = llm_worker_pool_get_n_threads (self->pool);
  gsize worker_bytes =
    llm_matmul_get_scratch (self->kernels, self->plan->widest, (guint) n_rows);
  gsize gathered_bytes = self->rows.least_sparsity > 0 ? llm_matmul_get_gathered (self->plan->widest) : 0;
  gsize n_query = h->query_width, n_kv = h->kv_width;
  gsize n_others = h->n_streams - 1;

  s->x = llm_take (block, &used, n_rows * h->n_embd, sizeof (float));
  s->normed = llm_take (block, &used, n_rows * h->n_embd, sizeof (float));
  s->q = llm_take (block, &used, n_rows * n_query, sizeof (float));
  s->k = llm_take (block, &used, n_rows * n_kv, sizeof (float));
  s->v = llm_take (block, &used, n_rows * n_kv, sizeof (float));
  s->attended = llm_take (block, &used, n_rows * n_query, sizeof (float));
  s->gate = llm_take (block, &used, n_rows * h->n_ff, sizeof (float));
  s->up = llm_take (block, &used, n_rows * h->n_ff, sizeof (float));
  for (guint i = 0; i < LLM_STAGE_MAX_PRODUCTS; i++)
    s->adapted[i] = llm_take (block, &used, n_rows * self->plan->max_rank, sizeof (float));
  s->experts = llm_take (block, &used, n_rows * h->experts.n_used, sizeof (LlmExpertChoice));
  s->routed = llm_take (block, &used, n_rows * h->experts.n, sizeof (float));
  s->gathered = llm_take (block, &used, h->experts.n > 0 ? n_rows * h->n_embd : 0, sizeof (float));
  s->given = llm_take (block, &used, h->experts.n > 0 ? n_rows * h->n_embd : 0, sizeof (float));
  s->layer_inputs =
    llm_take (block, &used, n_rows * h->n_layers * h->n_layer_embd, sizeof (float));
  s->layer_gate = llm_take (block, &used, n_rows * h->n_layer_embd, sizeof (float));
  s->streams = llm_take (block, &used, n_others > 0 ? n_rows * h->n_streams * h->n_embd : 0,
                         sizeof (float));
  s->projected = llm_take (block, &used, n_rows * n_others * h->n_embd, sizeof (float));
  s->modes = llm_take (block, &used, n_others > 0 ? n_rows * h->n_streams : 0, sizeof (float));
  s->mixing = llm_take (block, &used, n_others > 0 ? n_rows * h->n_streams * h->n_streams : 0,
                        sizeof (float));
  s->laurel_low = llm_take (block, &used, n_rows * h->laurel_rank, sizeof (float));
  s->laurel = llm_take (block, &used, h->laurel_rank > 0 ? n_rows * h->n_embd : 0, sizeof (float));
  s->query_low = llm_take (block, &used, n_rows * h->latent.query_rank, sizeof (float));
  s->cosine = llm_take (block, &used, n_rows * h->n_ropes * (h->rope_dim / 2), sizeof (float));
  s->sine = llm_take (block, &used, n_rows * h->n_ropes * (h->rope_dim / 2), sizeof (float));
  s->hidden = llm_take (block, &used, (gsize) self->rows.n_logits * h->n_embd, sizeof (float));
  s->logits = llm_take (block, &used, (gsize) self->rows.n_logits * h->n_vocab, sizeof (float));
  s->workers = llm_take (block, &used, n_threads * worker_bytes, 1);
  s->panels = llm_take (block, &used, n_threads * gathered_bytes, 1);
  s->prepared = llm_take (block, &used, n_rows * self->plan->row_bytes, 1);
  s->received = llm_take (block, &used,
                          self->collects_density ? n_threads * self->rows.n_masses : 0,
                      sizeof (guint64));
  s->attention = llm_take (block, &used, measure_attention (self), 1);
  self->host = (LlmHost) {
    .n_multiplied = &self->n_multiplied,
    .pool = self->pool,
    .scratch = s->workers,
    .scratch_bytes = worker_bytes,
    .gathered = s->panels,
    .gathered_bytes = gathered_bytes,
    .prepared = s->prepared,
    .row_bytes = self->plan->row_bytes,
  };

  return used;
}

gboolean
llm_step_reserve (LlmStep *self,
                  GError **error)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);
  gsize needed = (lay_out (self, NULL) + page - 1) / page * page;
  gpointer block;

  if (needed > self->block_bytes)
    {
      gsize more = needed - self->block_bytes;

      /* Not the ceiling: the call found room for its KV cache there, and must not fail for
       * what it needs for a moment; the reserve has room for that. */
      if (self->ledger != NULL && !llm_ledger_has_budget (self->ledger, more))
        return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                         "No room for %zu more bytes to compute %u rows", more,
                         self->batch->n_rows);

      llm_step_free_scratch (self);
      block = mmap (NULL, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (block == MAP_FAILED)
        return llm_fail (error, LLMSVC_ERROR_NO_MEMORY,
                         "The system has no %zu bytes to compute %u rows", needed,
                         self->batch->n_rows);
      (void) madvise (block, needed, MADV_DONTDUMP);
      self->block = block;
      self->block_bytes = needed;
      if (self->ledger != NULL)
        llm_ledger_add (self->ledger, LLM_HOLDER_SCRATCH, needed);
    }

#ifdef LLM_POISON
  memset (self->block, POISON, needed);
#endif
  lay_out (self, self->block);
  return TRUE;
}

guint64
llm_step_free_scratch (LlmStep *self)
{
  guint64 freed = self->block_bytes;

  if (self->block == NULL)
    return 0;

  munmap (self->block, self->block_bytes);
  self->block = NULL;
  self->block_bytes = 0;
  memset (&self->scratch, 0, sizeof self->scratch);
  if (self->ledger != NULL)
    llm_ledger_remove (self->ledger, LLM_HOLDER_SCRATCH, freed);
  return freed;
}
