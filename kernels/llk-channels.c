/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/llk-channels.h"

#include <string.h>

#include "kernels/llk-run.h"

#define N LLK_PANEL_OUTPUTS
#define LOW_HALVES UINT64_C (0x0f0f0f0f0f0f0f0f)

typedef uint8_t Bytes __attribute__ ((vector_size (16)));
typedef uint16_t Pairs __attribute__ ((vector_size (16)));

static const uint8_t nothing[N];

bool
llk_channels_have (LlkType type)
{
  const unsigned bits = llk_panel_shape (type).bits;

  return bits == 4 || bits == 8;
}

size_t
llk_channel_bytes (LlkType type)
{
  return llk_panel_shape (type).bits * 2;
}

size_t
llk_channels_head_bytes (LlkType type,
                         size_t  in_first,
                         size_t  n)
{
  return llk_panel_bytes (type, in_first, n) - n * 2 * llk_panel_shape (type).bits;
}

/* Where the sixteen bytes of output @o are in 32 inputs of four bits. */
static size_t
find_lane (size_t o)
{
  return o % 4 * 64 + o / 4 * 16;
}

/* Rows to columns: each round brings together what is half of them apart. */
static inline __attribute__ ((always_inline)) void
turn (Bytes v[N])
{
  Bytes turned[N];

#pragma GCC unroll 4
  for (size_t round = 0; round < 4; round++)
    {
#pragma GCC unroll 8
      for (size_t k = 0; k < N / 2; k++)
        {
          turned[2 * k] = __builtin_shuffle (
            v[k], v[8 + k], (Bytes) { 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23 });
          turned[2 * k + 1] = __builtin_shuffle (
            v[k], v[8 + k], (Bytes) { 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31 });
        }
#pragma GCC unroll 16
      for (size_t k = 0; k < N; k++)
        v[k] = turned[k];
    }
}

static inline const uint8_t *
find_codes (const uint8_t  *codes,
            const uint32_t *codes_at,
            size_t          input)
{
  return codes_at[input] != LLK_NO_CHANNEL ? codes + codes_at[input] : nothing;
}

static bool
has_any (const uint32_t *codes_at,
         size_t          n)
{
  uint32_t all = LLK_NO_CHANNEL;

  for (size_t i = 0; i < n; i++)
    all &= codes_at[i];
  return all != LLK_NO_CHANNEL;
}

/* 32 inputs of four bits. */
static void
gather_nibbles (const uint8_t  *codes,
                const uint32_t *codes_at,
                uint8_t        *dst)
{
  Bytes v[N];

  for (size_t i = 0; i < N; i++)
    {
      uint64_t first, second, both[2];

      memcpy (&first, find_codes (codes, codes_at, i), sizeof first);
      memcpy (&second, find_codes (codes, codes_at, N + i), sizeof second);
      both[0] = (first & LOW_HALVES) | (second & LOW_HALVES) << 4;
      both[1] = (first >> 4 & LOW_HALVES) | (second & LOW_HALVES << 4);
      memcpy (&v[i], both, sizeof both);
    }
  turn (v);
  for (size_t o = 0; o < N; o++)
    memcpy (dst + find_lane (o), &v[o], sizeof v[o]);
}

/* Four inputs of eight bits. */
static void
gather_bytes (const uint8_t  *codes,
              const uint32_t *codes_at,
              uint8_t        *dst)
{
  const Bytes low = { 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23 };
  const Pairs low_pairs = { 0, 8, 1, 9, 2, 10, 3, 11 }, high_pairs = { 4, 12, 5, 13, 6, 14, 7, 15 };
  Bytes v[4];

  for (size_t i = 0; i < 4; i++)
    memcpy (&v[i], find_codes (codes, codes_at, i), sizeof v[i]);
  for (size_t half = 0; half < 2; half++)
    {
      const Pairs a = (Pairs) __builtin_shuffle (v[0], v[1], low + (uint8_t) (8 * half));
      const Pairs b = (Pairs) __builtin_shuffle (v[2], v[3], low + (uint8_t) (8 * half));
      const Pairs both[2] = { __builtin_shuffle (a, b, low_pairs), __builtin_shuffle (a, b, high_pairs) };

      memcpy (dst + 32 * half, both, sizeof both);
    }
}

void
llk_channels_gather (LlkType         type,
                     const void     *heads,
                     size_t          in_first,
                     size_t          n,
                     const uint8_t  *codes,
                     const uint32_t *codes_at,
                     void           *panel)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const size_t head_bytes = llk_panel_head_bytes (shape);
  const size_t step = shape.bits == 8 ? 4 : 32;
  const uint8_t *head = heads;
  uint8_t *dst = panel;

  for (size_t i = 0; i < n;)
    {
      const size_t left = LLK_RUN - (in_first + i) % LLK_RUN;
      const size_t end = left < n - i ? i + left : n;

      memcpy (dst, head, head_bytes);
      head += head_bytes;
      dst += head_bytes;
      for (; i < end; i += step, dst += step * 2 * shape.bits)
        if (!has_any (codes_at + i, step))
          memset (dst, 0, step * 2 * shape.bits);
        else if (shape.bits == 8)
          gather_bytes (codes, codes_at + i, dst);
        else
          gather_nibbles (codes, codes_at + i, dst);
    }
}

/* Of @n inputs of four bits, whole blocks of 32; or of eight. */
static void
split_codes (unsigned       bits,
             const uint8_t *src,
             size_t         n,
             uint8_t       *codes,
             size_t         stride)
{
  for (size_t i = 0; i < n; i++)
    for (size_t o = 0; o < (bits == 8 ? N : N / 2); o++)
      if (bits == 8)
        codes[i * stride + o] = src[i / 4 * 64 + 4 * o + i % 4];
      else
        {
          const uint8_t *block = src + i / 32 * 256 + i % 16;
          const unsigned shift = i % 32 < 16 ? 0 : 4;

          codes[i * stride + o] = (uint8_t) ((block[find_lane (o)] >> shift & 15)
                                             | (block[find_lane (o + 8)] >> shift & 15) << 4);
        }
}

void
llk_channels_split (LlkType     type,
                    const void *panel,
                    size_t      in_first,
                    size_t      n,
                    void       *heads,
                    uint8_t    *codes,
                    size_t      stride)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const size_t head_bytes = llk_panel_head_bytes (shape);
  const uint8_t *src = panel;
  uint8_t *head = heads;

  for (size_t i = 0; i < n;)
    {
      const size_t left = LLK_RUN - (in_first + i) % LLK_RUN;
      const size_t end = left < n - i ? i + left : n;

      if (head != NULL)
        {
          memcpy (head, src, head_bytes);
          head += head_bytes;
        }
      src += head_bytes;
      if (codes != NULL)
        split_codes (shape.bits, src, end - i, codes + i * stride, stride);
      src += (end - i) * 2 * shape.bits;
      i = end;
    }
}
