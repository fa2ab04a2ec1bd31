/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Into panels and out of them again, by way of LlkBlock. */

#include "kernels/llk-block.h"

#define INLINE static inline __attribute__ ((always_inline))
#define N LLK_PANEL_OUTPUTS

/* The four bytes of one output in a group of four inputs: what is shifted stays
 * inside each byte, so that the byte order does not matter. */
static uint32_t
load_group (const uint8_t *src)
{
  uint32_t group;

  memcpy (&group, src, sizeof group);
  return group;
}

static void
store_group (uint8_t *dst,
             uint32_t group)
{
  memcpy (dst, &group, sizeof group);
}

/* Every byte of a group: the @n_bits bits from @bit on. */
static uint32_t
select_bits (uint32_t group,
             unsigned bit,
             unsigned n_bits)
{
  return group >> bit & ((1u << n_bits) - 1) * 0x01010101u;
}

/* Bits from @bit on of 32 integers into vectors of 64 bytes in which each byte
 * has room for 8 / @n_bits groups; @dst is the output's place in the first. Returns
 * the place behind them. */
static uint8_t *
put_bits (const uint8_t *q,
          unsigned       bit,
          unsigned       n_bits,
          uint8_t       *dst)
{
  unsigned n_vectors = n_bits;
  /* A vector of nibbles has group g and g + 4, others neighbours. */
  unsigned step = n_bits == 4 ? 4 : 1;

  for (unsigned v = 0; v < n_vectors; v++, dst += 4 * N)
    {
      unsigned first = n_bits == 4 ? v : v * (8 / n_bits);
      uint32_t packed = 0;

      for (unsigned i = 0; i < 8 / n_bits; i++)
        packed |= select_bits (load_group (q + 4 * (first + i * step)), bit, n_bits)
                  << i * n_bits;
      store_group (dst, packed);
    }

  return dst;
}

/* The reverse of put_bits(); adds the bits to @q. */
static const uint8_t *
get_bits (const uint8_t *src,
          unsigned       bit,
          unsigned       n_bits,
          uint8_t       *q)
{
  unsigned step = n_bits == 4 ? 4 : 1;

  for (unsigned v = 0; v < n_bits; v++, src += 4 * N)
    {
      unsigned first = n_bits == 4 ? v : v * (8 / n_bits);

      for (unsigned i = 0; i < 8 / n_bits; i++)
        {
          uint8_t *group = q + 4 * (first + i * step);

          store_group (group, load_group (group) |
                              select_bits (load_group (src), i * n_bits, n_bits) << bit);
        }
    }

  return src;
}

/* The parts of a type's integers, least significant first. */
typedef struct
{
  unsigned low, high; /* bits */
} Parts;

static Parts
get_parts (LlkType type)
{
  switch (type)
    {
    case LLK_Q8_0:
      return (Parts) { 8, 0 };
    case LLK_Q5_0:
    case LLK_Q5_1:
    case LLK_Q5_K:
      return (Parts) { 4, 1 };
    case LLK_Q6_K:
      return (Parts) { 4, 2 };
    case LLK_Q3_K:
      return (Parts) { 2, 1 };
    case LLK_Q2_K:
      return (Parts) { 2, 0 };
    default:
      return (Parts) { 4, 0 };
    }
}

/* Where one output of one block lies in a panel. */
typedef struct
{
  size_t d, min, scales, integers; /* offsets; that of min is 0 for types without */
  size_t d_bytes;
} Place;

static Place
find_place (LlkType       type,
            LlkPanelShape shape,
            size_t        block,
            size_t        output)
{
  size_t d_bytes = type == LLK_MXFP4 ? 1 : 2;
  size_t fields = shape.n_in_section * N * d_bytes; /* bytes of d of a section */
  Place place = { .d_bytes = d_bytes };

  place.d = llk_panel_header_offset (shape, block) +
            (block % shape.n_in_section * N + output) * d_bytes;
  if (shape.header > fields)
    place.min = place.d + fields;
  place.scales = llk_panel_block_offset (shape, block) + output;
  place.integers = llk_panel_block_offset (shape, block) + shape.scales + 4 * output;
  return place;
}

static void
put_block (LlkType         type,
           LlkPanelShape   shape,
           const LlkBlock *block,
           size_t          b,
           size_t          output,
           uint8_t        *panel)
{
  Place place = find_place (type, shape, b, output);
  Parts parts = get_parts (type);
  uint8_t *dst = panel + place.integers;

  memcpy (panel + place.d, block->d, place.d_bytes);
  if (place.min != 0)
    memcpy (panel + place.min, block->min, 2);
  for (size_t j = 0; j < shape.scales / N; j++)
    panel[place.scales + N * j] = block->scales[j];
  for (size_t i = 0; i < shape.block; i += 32)
    {
      dst = put_bits (block->q + i, 0, parts.low, dst);
      dst = put_bits (block->q + i, parts.low, parts.high, dst);
    }
}

static void
get_block (LlkType        type,
           LlkPanelShape  shape,
           const uint8_t *panel,
           size_t         b,
           size_t         output,
           LlkBlock      *block)
{
  Place place = find_place (type, shape, b, output);
  Parts parts = get_parts (type);
  const uint8_t *src = panel + place.integers;

  *block = (LlkBlock) { 0 };
  memcpy (block->d, panel + place.d, place.d_bytes);
  if (place.min != 0)
    memcpy (block->min, panel + place.min, 2);
  for (size_t j = 0; j < shape.scales / N; j++)
    block->scales[j] = panel[place.scales + N * j];
  for (size_t i = 0; i < shape.block; i += 32)
    {
      src = get_bits (src, 0, parts.low, block->q + i);
      src = get_bits (src, parts.low, parts.high, block->q + i);
    }
}

/* The place of one value of a plain type. */
INLINE size_t
find_plain (LlkType type,
            size_t  input,
            size_t  output)
{
  switch (type)
    {
    case LLK_F32:
      return (input * N + output) * 4;
    case LLK_BF16:
      return (input / 2 * N + output) * 4 + input % 2 * 2;
    default:
      return (input * N + output) * 2;
    }
}

/* @n rows of a plain type of @bytes bytes. */
INLINE void
pack_plain (LlkType        type,
            size_t         bytes,
            const uint8_t *src,
            size_t         row_bytes,
            size_t         n_in,
            size_t         n,
            uint8_t       *panel)
{
  for (size_t i = 0; i < n_in; i++)
    for (size_t o = 0; o < n; o++)
      memcpy (panel + find_plain (type, i, o), src + o * row_bytes + i * bytes, bytes);
}

size_t
llk_panel_bytes (LlkType type,
                 size_t  n_in)
{
  LlkPanelShape shape = llk_panel_shape (type);
  size_t n_blocks, bytes;

  if (shape.block == 0)
    {
      bytes = n_in * llk_type_block_bytes (type) * N;
      return (bytes + LLK_PANEL_ALIGNMENT - 1) / LLK_PANEL_ALIGNMENT * LLK_PANEL_ALIGNMENT;
    }

  n_blocks = n_in / shape.block;
  return (n_blocks + shape.n_in_section - 1) / shape.n_in_section * shape.header +
         n_blocks * llk_panel_block_bytes (shape);
}

void
llk_panel_pack (LlkType     type,
                const void *rows,
                size_t      row_bytes,
                size_t      n_in,
                size_t      n_out,
                size_t      first,
                void       *panel)
{
  LlkPanelShape shape = llk_panel_shape (type);
  size_t bytes = llk_type_block_bytes (type);
  size_t n = first + N <= n_out ? N : n_out - first;
  const uint8_t *src = (const uint8_t *) rows + first * row_bytes;
  size_t n_blocks = shape.block != 0 ? n_in / shape.block : 0;
  LlkBlock block = { 0 };

  memset (panel, 0, llk_panel_bytes (type, n_in));
  if (shape.block == 0)
    {
      if (type == LLK_F32)
        pack_plain (LLK_F32, 4, src, row_bytes, n_in, n, panel);
      else if (type == LLK_F16)
        pack_plain (LLK_F16, 2, src, row_bytes, n_in, n, panel);
      else
        pack_plain (LLK_BF16, 2, src, row_bytes, n_in, n, panel);
      return;
    }

  for (size_t b = 0; b < n_blocks; b++)
    for (size_t o = 0; o < n; o++)
      {
        llk_block_read (type, src + o * row_bytes + b * bytes, &block);
        put_block (type, shape, &block, b, o, panel);
      }
}

void
llk_panel_unpack (LlkType     type,
                  const void *panel,
                  size_t      n_in,
                  size_t      output,
                  float      *dst)
{
  const uint8_t *bytes = panel;
  LlkPanelShape shape = llk_panel_shape (type);
  LlkBlock block;

  if (shape.block == 0)
    for (size_t i = 0; i < n_in; i++)
      {
        const uint8_t *src = bytes + find_plain (type, i, output);

        if (type == LLK_F32)
          memcpy (dst + i, src, sizeof *dst);
        else
          dst[i] = type == LLK_F16 ? llk_float_of_half (llk_load_u16 (src))
                                   : llk_float_of_bf16 (llk_load_u16 (src));
      }
  else
    for (size_t b = 0; b < n_in / shape.block; b++)
      {
        get_block (type, shape, bytes, b, output, &block);
        llk_block_unpack (type, &block, dst + b * shape.block);
      }
}
