/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sizes of what is stored of keys and values. */

#include "kernels/llk-kv-layout.h"

unsigned
llk_kv_bits (LlkKvFormat format)
{
  static const unsigned bits[LLK_N_KV_FORMATS] = {
    [LLK_KV_F32] = 32, [LLK_KV_F16] = 16, [LLK_KV_Q8] = 8, [LLK_KV_Q4] = 4,
    [LLK_KV_Q3] = 3, [LLK_KV_Q2] = 2,
  };

  return bits[format];
}

size_t
llk_kv_part_bytes (LlkKvFormat format,
                   LlkKvPart   part,
                   size_t      head_dim,
                   size_t      chunk_slots)
{
  size_t n_rows = part == LLK_KV_KEYS ? head_dim : chunk_slots;
  size_t n_row = part == LLK_KV_KEYS ? chunk_slots : head_dim;
  size_t n_head = 0;

  if (llk_kv_is_packed (format))
    {
      n_row = llk_kv_get_row (part, head_dim, chunk_slots);
      n_head = llk_kv_get_head_bytes (format, part, head_dim, chunk_slots);
    }
  n_head += n_rows * n_row * llk_kv_bits (format) / 8;
  if (format > LLK_KV_Q8)
    return n_head;
  return (n_head + 15) / 16 * 16;
}
