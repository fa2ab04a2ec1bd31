/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How the keys and values of one KV head are stored for the slots of a chunk: as
 * floats while the chunk is written, packed to 8, 4, 3 or 2 bits afterwards (L5). A
 * part is the keys, by dimension, or the values, by slot. All sets pack and unpack
 * to the same bits.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum
{
  LLK_KV_F32,
  LLK_KV_F16,
  LLK_KV_Q8,
  LLK_KV_Q4,
  LLK_KV_Q3,
  LLK_KV_Q2,
  LLK_N_KV_FORMATS,
} LlkKvFormat;

typedef enum
{
  LLK_KV_KEYS,    /* [head_dim × chunk_slots] */
  LLK_KV_VALUES,  /* [chunk_slots × head_dim] */
} LlkKvPart;

/* Dimensions of a value that are rounded one after the other: so many from each multiple on. */
#define LLK_KV_FEEDBACK 32

typedef struct
{
  /* Floats, laid out as the part says, to a packed format; @dst has
   * llk_kv_part_bytes(). What is not finite counts as 0, magnitudes beyond 57344 as that.
   * All slots are used: what lies in others would make the keys coarser.
   * @feedback: (nullable), for values of less than 8 bits: [head_dim × LLK_KV_FEEDBACK], finite;
   * in row d the share that dimension d, when it is rounded, takes off for each error of the
   * dimensions before it since the last multiple of LLK_KV_FEEDBACK; the rest of the row is read,
   * and counts for nothing. */
  void (*pack)   (LlkKvFormat format, LlkKvPart part, size_t head_dim, size_t chunk_slots,
                  const float *src, const float *feedback, void *dst);
  /* Any format to floats, or with @to_half to halves, rounded to nearest. */
  void (*unpack) (LlkKvFormat format, LlkKvPart part, size_t head_dim, size_t chunk_slots,
                  const void *src, void *dst, bool to_half);
} LlkKvOps;

static inline bool
llk_kv_is_packed (LlkKvFormat format)
{
  return format >= LLK_KV_Q8;
}

/* Bits of a value: 32, 16, 8, 4, 3 or 2. */
unsigned llk_kv_bits       (LlkKvFormat format);
/* Bytes of a part, scales included: a multiple of 16, with less than 8 bits of 2. */
size_t   llk_kv_part_bytes (LlkKvFormat format, LlkKvPart part, size_t head_dim,
                            size_t chunk_slots);
