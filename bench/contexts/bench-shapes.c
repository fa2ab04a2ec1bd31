/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-contexts.h"

const BenchModelShape bench_model_shapes[] = {
  { "8m", "shipped model, 8 M", NULL, 8, 8, 32, 1024 },
  { "1.1b", "1.1 B, 4 KV heads", "1.1b", 22, 4, 64, 4096 },
  /* Short enough to compute long contexts again hundreds of times. */
  { "1.1b-2l", "1.1 B, 2 of 22 layers", "1.1b", 2, 4, 64, 1024 },
  { "1.3b-mha", "1.3 B, multi-head", "1.3b-mha", 24, 32, 64, 4096 },
  { NULL, NULL, NULL, 0, 0, 0, 0 },
};

LlmKvLayout
bench_model_shape_get_layout (const BenchModelShape *self,
                              guint                  chunk_slots,
                              gboolean               is_thin)
{
  return (LlmKvLayout) {
    .kind = LLM_KV_FULL,
    .format = LLK_KV_F16,
    .n_layers = is_thin ? 1 : self->n_layers,
    .n_kv_heads = is_thin ? 1 : self->n_kv_heads,
    .head_dim = self->head_dim,
    .chunk_slots = chunk_slots,
  };
}
