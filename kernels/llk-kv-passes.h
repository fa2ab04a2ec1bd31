/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Packing and unpacking of keys and values, in vectors of sixteen.
 *
 * Who includes this defines before, for its vectors: Sixteen, INLINE, and the
 * functions splat_all(), load_all(), load_all_halves(), load_all_codes() (of 8, 4, 3 or 2
 * bits), store_all(), store_all_halves(), store_codes_8(), store_codes_4(), store_codes_3(),
 * store_codes_2(), add_all(), subtract_all(), multiply_all(), min_all(), max_all() (of
 * numbers), clear_infinite() (0 where it is not finite, no negative zeros), transpose()
 */

#include "kernels/llk-kv-layout.h"

#include <math.h>

#define GROUP LLK_KV_GROUP

#include "kernels/llk-kv-pack.h"

/* Steps and values of code 0 of all groups. */
INLINE void
read_coding (const uint8_t *src,
             LlkKvPart      part,
             size_t         n_groups,
             unsigned       bits,
             float         *steps,
             float         *lows)
{
  const float unit = llk_kv_get_unit (part, bits), origin = llk_kv_get_origin (part, bits);
  const uint8_t *places = src + LLK_KV_BASE_BYTES, *at = src + llk_kv_get_lows_at (n_groups);

  for (size_t i = 0; i < n_groups; i++)
    if (bits == 8)
      {
        steps[i] = llk_float_of_half (llk_load_u16 (src + 2 * i));
        lows[i] = 0;
      }
    else
      {
        int32_t below = llk_kv_get_below ((int32_t) llk_kv_get_half (places, i));
        int32_t low = part == LLK_KV_KEYS ? (int8_t) at[i] : (int32_t) llk_kv_get_half (at, i) - 8;

        steps[i] = llk_kv_get_step (src[0] - below);
        lows[i] = steps[i] * ((float) low * unit + origin);
      }
}

INLINE void
store_some (char   *dst,
            Sixteen values,
            size_t  n,
            bool    to_half)
{
  size_t value_bytes = to_half ? sizeof (uint16_t) : sizeof (float);
  float some[GROUP];
  void *whole = n < GROUP ? (void *) some : dst;

  if (to_half)
    store_all_halves (whole, values);
  else
    store_all (whole, values);
  if (n < GROUP)
    memcpy (dst, some, n * value_bytes);
}

INLINE void
unpack_bits (LlkKvFormat    format,
             LlkKvPart      part,
             size_t         head_dim,
             size_t         chunk_slots,
             const uint8_t *src,
             char          *dst,
             unsigned       bits,
             bool           to_half)
{
  size_t value_bytes = to_half ? sizeof (uint16_t) : sizeof (float);
  size_t n_groups = llk_kv_get_groups (format, part, head_dim, chunk_slots);
  size_t row_bytes = llk_kv_get_row (part, head_dim, chunk_slots) * bits / 8;
  size_t n_rows = part == LLK_KV_KEYS ? head_dim : chunk_slots;
  size_t row = part == LLK_KV_KEYS ? chunk_slots : head_dim;
  bool is_by_row = part == LLK_KV_VALUES || llk_kv_is_by_dimension (format, part);
  const uint8_t *codes = src + llk_kv_get_head_bytes (format, part, head_dim, chunk_slots);
  float steps[LLK_MAX_HEAD_DIM], lows[LLK_MAX_HEAD_DIM];

  read_coding (src, part, n_groups, bits, steps, lows);
  for (size_t r = 0; r < n_rows; r++)
    for (size_t at = 0; at < row; at += GROUP)
      {
        Sixteen step = is_by_row ? splat_all (steps[r]) : load_all (steps + at);
        Sixteen low = is_by_row ? splat_all (lows[r]) : load_all (lows + at);
        Sixteen code = load_all_codes (codes + r * row_bytes + at * bits / 8, bits);
        Sixteen value = multiply_all (code, step);

        store_some (dst + (r * row + at) * value_bytes, bits == 8 ? value : add_all (value, low),
                    row - at < GROUP ? row - at : GROUP, to_half);
      }
}

INLINE void
convert (LlkKvFormat format,
         size_t      n,
         const void *src,
         void       *dst,
         bool        to_half)
{
  bool is_half = format == LLK_KV_F16;
  size_t from = is_half ? sizeof (uint16_t) : sizeof (float);
  size_t to = to_half ? sizeof (uint16_t) : sizeof (float);

  for (size_t i = 0; i < n; i += GROUP)
    {
      const char *values = (const char *) src + i * from;
      Sixteen x = is_half ? load_all_halves (values)
                          : load_all ((const float *) (const void *) values);

      store_some ((char *) dst + i * to, x, GROUP, to_half);
    }
}

#define DEFINE_UNPACK(bits)                                                                        \
  static __attribute__ ((noinline)) void                                                           \
  unpack_##bits (LlkKvPart part, size_t head_dim, size_t chunk_slots, const void *src, void *dst,  \
                 bool to_half)                                                                     \
  {                                                                                                \
    if (to_half)                                                                                   \
      unpack_bits (LLK_KV_Q##bits, part, head_dim, chunk_slots, src, dst, bits, true);             \
    else                                                                                           \
      unpack_bits (LLK_KV_Q##bits, part, head_dim, chunk_slots, src, dst, bits, false);            \
  }

DEFINE_UNPACK (8)
DEFINE_UNPACK (4)
DEFINE_UNPACK (3)
DEFINE_UNPACK (2)

static void
unpack (LlkKvFormat format,
        LlkKvPart   part,
        size_t      head_dim,
        size_t      chunk_slots,
        const void *src,
        void       *dst,
        bool        to_half)
{
  if (format == LLK_KV_Q8)
    unpack_8 (part, head_dim, chunk_slots, src, dst, to_half);
  else if (format == LLK_KV_Q4)
    unpack_4 (part, head_dim, chunk_slots, src, dst, to_half);
  else if (format == LLK_KV_Q3)
    unpack_3 (part, head_dim, chunk_slots, src, dst, to_half);
  else if (format == LLK_KV_Q2)
    unpack_2 (part, head_dim, chunk_slots, src, dst, to_half);
  else
    convert (format, head_dim * chunk_slots, src, dst, to_half);
}
