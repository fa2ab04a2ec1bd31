/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-footprint.h"

/* Of the ring that weights stream through: a matrix of each kind of a model with 7 billion weights,
 * and what is read while a pass begins with those that stay; of smaller models a part. */
#define RING_BYTES ((guint64) 128 << 20)
#define RING_PARTS 8
/* Rows of the steps that read a prompt, and of those that write answers beside them. */
#define READ_ROWS 64
#define WRITE_ROWS 4
/* Tokens of a context that is worth a call. */
#define TOKENS 256
/* Text, compiled schemas, the answer. */
#define OTHER_BYTES ((guint64) 1 << 20)

guint64
llm_footprint_get_ring (guint64 weight_bytes)
{
  return MIN (RING_BYTES, weight_bytes / RING_PARTS);
}

/* As llm-step-scratch.c lays it out, with what products prepare of each row: its integers, their
 * scales and sums. */
guint64
llm_footprint_get_row (const LlmHparams *h)
{
  guint64 n_query = h->query_width, n_kv = h->kv_width;
  guint64 widest = MAX (MAX (h->n_embd, h->n_ff), n_query);
  guint64 n_experts = h->experts.n > 0 ? 2 * (guint64) h->n_embd + h->experts.n : 0;
  guint64 floats = 2 * (guint64) h->n_embd + 2 * n_query + 2 * n_kv + 2 * (guint64) h->n_ff
                   + n_experts + (guint64) h->n_ropes * h->rope_dim
                   + (guint64) (h->n_layers + 1) * h->n_layer_embd
                   + h->latent.query_rank
                   + (h->n_streams > 1 ? 2 * (guint64) h->n_streams * h->n_embd : 0)
                   + (h->laurel_rank > 0 ? (guint64) h->n_embd + h->laurel_rank : 0);

  return floats * sizeof (float) + 2 * widest;
}

LlmFootprint
llm_footprint_find (LlmGguf          *gguf,
                    const LlmHparams *hparams)
{
  guint64 weights = 0, largest = 0, position = 0, work;

  for (guint i = 0; i < gguf->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (gguf, i);

      weights += tensor->bytes;
      /* experts come one by one */
      largest = MAX (largest, tensor->bytes / tensor->dims[2]);
    }
  for (guint i = 0; i < hparams->n_kv_layers; i++)
    position += (guint64) 2 * hparams->layers[i].n_kv_heads * hparams->layers[i].head_dim;
  /* panels take a little more than rows */
  largest += largest / 16;
  work = MAX (llm_footprint_get_ring (weights), largest)
         + (READ_ROWS + WRITE_ROWS) * llm_footprint_get_row (hparams)
         + (1 + WRITE_ROWS) * (guint64) hparams->n_vocab * sizeof (float)
         + MIN (TOKENS, hparams->n_ctx) * position * sizeof (guint16)
         + OTHER_BYTES;
  /* of a budget that is too small for all, weights get half
   * (llm_memory_policy_leave_for_weights) */
  return (LlmFootprint) { work, work + MIN (work, weights) };
}
