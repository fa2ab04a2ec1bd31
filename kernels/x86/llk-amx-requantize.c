/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Weights of any type of blocks as int8 with one scale for each output and 256
 * inputs. A weight is scale × (w - zero point) + min with a scale and a minimum
 * for each 16 or 32 inputs; its integer is that over the new scale, computed in
 * 16 bits with eight of them behind the point: w × factor + offset, where factor
 * and offset are made once for each 16 or 32 inputs. Weights of eight bits are
 * multiplied as signed fractions, since their factor needs more bits.
 */

#include "kernels/x86/llk-avx512-lanes.h"
#include "kernels/x86/llk-amx.h"
#include "kernels/llk-panel-runs.h"

#define N_RUNS (RUN_INPUTS / 32)
/* Below this the weights of a run count as zeros. */
#define MIN_MAGNITUDE 1e-30f
#define CACHE_LINE 64

INLINE bool
is_eight_bits (LlkType type)
{
  return get_zero_point (type) == 128;
}

/* What w - zero point can be, either way; for types with minima, the largest w. */
INLINE int
get_range (LlkType type)
{
  const int zero_point = get_zero_point (type);

  return zero_point != 0 ? zero_point : (int) get_largest (type);
}

INLINE bool
has_minima (LlkType type)
{
  return get_term (type) == TERM_MIN || get_term (type) == TERM_MIN_HALF;
}

/* The number of the block that run @j of the 32-input runs of 256-run @run lies in. */
INLINE size_t
find_block (LlkPanelShape shape,
            size_t        run,
            size_t        j)
{
  return shape.block == 32 ? N_RUNS * run + j : run;
}

INLINE void
load_run_scales (LlkType        type,
                 const uint8_t *panel,
                 size_t         run,
                 size_t         j,
                 Run           *w)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const size_t b = find_block (shape, run, j);
  BlockScales scales = load_block_scales (type, panel + llk_panel_header_offset (shape, b),
                                          b % shape.n_in_section, 0);

  load_scales (type, scales, panel + llk_panel_block_offset (shape, b),
               shape.block == 32 ? 0 : j, 0, w);
}

/* Largest magnitude as the bits of a float, among which NaN counts as the largest. */
INLINE __m512i
max_magnitude (__m512i bits,
               __m512  v)
{
  return _mm512_max_epu32 (bits, _mm512_castps_si512 (_mm512_abs_ps (v)));
}

/* The low half of each 32 bits in both halves. */
INLINE __m512i
repeat_halves (__m512i v)
{
  const __m512i order = _mm512_set1_epi32 (0x01000100);

  return _mm512_shuffle_epi8 (v, _mm512_or_si512 (order, _mm512_broadcast_i32x4 (
                                       _mm_setr_epi32 (0, 0x04040404, 0x08080808, 0x0c0c0c0c))));
}

/* The top byte of each 16 bits, those of @even before those of @odd. */
INLINE __m512i
join_bytes (__m512i even,
            __m512i odd)
{
  return select_bits (_mm512_set1_epi16 (0xff), _mm512_srli_epi16 (even, 8), odd);
}

/* w × factor + offset. */
INLINE __m512i
scale_bytes (__m512i w,
             __m512i factor,
             __m512i offset)
{
  __m512i even = _mm512_and_si512 (w, _mm512_set1_epi16 (0xff));
  __m512i odd = _mm512_srli_epi16 (w, 8);

  return join_bytes (_mm512_add_epi16 (_mm512_mullo_epi16 (even, factor), offset),
                     _mm512_add_epi16 (_mm512_mullo_epi16 (odd, factor), offset));
}

/* (w - 128) × factor, a fraction of 15 bits. */
INLINE __m512i
scale_eight_bits (__m512i w,
                  __m512i factor)
{
  const __m512i half = _mm512_set1_epi16 (128);
  __m512i q = xor_bits (w, splat_byte (-128));
  __m512i even = _mm512_slli_epi16 (q, 8);
  __m512i odd = _mm512_and_si512 (q, _mm512_set1_epi16 ((short) 0xff00));

  return join_bytes (_mm512_add_epi16 (_mm512_mulhrs_epi16 (even, factor), half),
                     _mm512_add_epi16 (_mm512_mulhrs_epi16 (odd, factor), half));
}

INLINE void
requantize (LlkType        type,
            const uint8_t *panel,
            size_t         run,
            size_t         n_inputs,
            int8_t        *tiles,
            float         *scales)
{
  const LlkPanelShape shape = llk_panel_shape (type);
  const size_t n_runs = n_inputs / 32;
  const size_t n_parts = has_half_scales (type) ? 2 : 1;
  const size_t n_groups = 8 / n_parts;
  const int zero_point = get_zero_point (type);
  const __m512 range = _mm512_set1_ps ((float) get_range (type));
  const size_t run_bytes = shape.block == 32
                             ? N_RUNS * shape.integers + N_RUNS / shape.n_in_section * shape.header
                             : llk_panel_block_bytes (shape) + shape.header / shape.n_in_section;
  __m512 scale[N_RUNS][2], min[N_RUNS][2];
  __m512i bits = _mm512_setzero_si512 ();
  __m512 magnitude, unit;
  __mmask16 is_large;

  for (size_t j = 0; j < n_runs; j++)
    {
      Run w;

      load_run_scales (type, panel, run, j, &w);
#pragma GCC unroll 2
      for (size_t part = 0; part < n_parts; part++)
        {
          scale[j][part] = w.scale[part];
          if (has_minima (type))
            {
              min[j][part] = w.min[part];
              bits = max_magnitude (bits, w.min[part]);
              bits = max_magnitude (bits, _mm512_fmadd_ps (w.scale[part], range, w.min[part]));
            }
          else
            bits = max_magnitude (bits, _mm512_mul_ps (w.scale[part], range));
        }
    }

  magnitude = _mm512_castsi512_ps (bits);
  is_large = _mm512_cmp_ps_mask (magnitude, _mm512_set1_ps (MIN_MAGNITUDE), _CMP_NLT_UQ);
  unit = _mm512_maskz_div_ps (is_large, _mm512_set1_ps (127), magnitude);
  unit = _mm512_mul_ps (unit, _mm512_set1_ps (is_eight_bits (type) ? 32768 : 256));
  magnitude = _mm512_maskz_mul_ps (is_large, magnitude, _mm512_set1_ps (1.0f / 127));
  /* Infinity less itself is NaN. */
  magnitude = _mm512_add_ps (magnitude, _mm512_sub_ps (magnitude, magnitude));
  _mm512_store_ps (scales, magnitude);

  for (size_t j = 0; j < n_runs; j++)
    {
      const size_t b = find_block (shape, run, j);
      const uint8_t *integers = panel + llk_panel_block_offset (shape, b) + shape.scales +
                                (shape.block == 32 ? 0 : j * shape.integers);
      __m512i w[8];
      int8_t *dst = tiles + j / 2 * (2 * TILE_BYTES) + j % 2 * (TILE_BYTES / 2);

      for (size_t i = 0; i < shape.integers; i += CACHE_LINE)
        _mm_prefetch ((const char *) integers + run_bytes + i, _MM_HINT_T1);
      unpack_integers (type, integers, w);
#pragma GCC unroll 2
      for (size_t part = 0; part < n_parts; part++)
        {
          __m512i factor =
            repeat_halves (_mm512_cvtps_epi32 (_mm512_mul_ps (scale[j][part], unit)));
          __m512i offset = _mm512_set1_epi16 (128);

          if (has_minima (type))
            offset = _mm512_add_epi16 (
              offset,
              repeat_halves (_mm512_cvtps_epi32 (_mm512_mul_ps (min[j][part], unit))));
          else
            offset = _mm512_sub_epi16 (
              offset, _mm512_mullo_epi16 (factor, _mm512_set1_epi16 ((short) zero_point)));

          for (size_t i = 0; i < n_groups; i++)
            {
              const size_t g = n_groups * part + i;

              _mm512_store_si512 (dst + 64 * g, is_eight_bits (type)
                                                  ? scale_eight_bits (w[g], factor)
                                                  : scale_bytes (w[g], factor, offset));
            }
        }
    }
}

#define DEFINE(name, type)                                                                      \
  static void                                                                                   \
  requantize_##name (const uint8_t *panel, size_t run, size_t n_inputs, int8_t *tiles,          \
                     float *scales)                                                             \
  {                                                                                             \
    requantize (type, panel, run, n_inputs, tiles, scales);                                     \
  }

DEFINE (q8_0, LLK_Q8_0)
DEFINE (q4_0, LLK_Q4_0)
DEFINE (q4_1, LLK_Q4_1)
DEFINE (q5_0, LLK_Q5_0)
DEFINE (q5_1, LLK_Q5_1)
DEFINE (q2_k, LLK_Q2_K)
DEFINE (q3_k, LLK_Q3_K)
DEFINE (q4_k, LLK_Q4_K)
DEFINE (q5_k, LLK_Q5_K)
DEFINE (q6_k, LLK_Q6_K)
DEFINE (iq4_nl, LLK_IQ4_NL)
DEFINE (iq4_xs, LLK_IQ4_XS)
DEFINE (mxfp4, LLK_MXFP4)

LlkAmxRequantize
llk_amx_find_requantize (LlkType type)
{
  switch (type)
    {
    case LLK_Q8_0:
      return requantize_q8_0;
    case LLK_Q4_0:
      return requantize_q4_0;
    case LLK_Q4_1:
      return requantize_q4_1;
    case LLK_Q5_0:
      return requantize_q5_0;
    case LLK_Q5_1:
      return requantize_q5_1;
    case LLK_Q2_K:
      return requantize_q2_k;
    case LLK_Q3_K:
      return requantize_q3_k;
    case LLK_Q4_K:
      return requantize_q4_k;
    case LLK_Q5_K:
      return requantize_q5_k;
    case LLK_Q6_K:
      return requantize_q6_k;
    case LLK_IQ4_NL:
      return requantize_iq4_nl;
    case LLK_IQ4_XS:
      return requantize_iq4_xs;
    case LLK_MXFP4:
      return requantize_mxfp4;
    case LLK_F32:
    case LLK_F16:
    case LLK_BF16:
      break;
    }

  return NULL;
}
