/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * From a block's scores to its weights: what is not seen is hidden, the largest
 * score of each query found, and the weights written over the scores as bfloat16
 * pairs, high and low parts, as the product with the values reads them. Scores come in
 * units of ln 2 unless they are to be capped.
 */

#pragma once

#include "kernels/x86/llk-amx-attention-run.h"

#include <math.h>

#define LN2 0.693147181f

/* 2^x for x ≤ 0 within 2^-18, 2^-126 below that: |r| ≤ 1/2, 2^r by a polynomial
 * of the least error, exact at 0. */
INLINE __m512
exp2_vector (__m512 x)
{
  const __m512 rounder = _mm512_set1_ps (LLK_ROUNDER);
  __m512 rounded, r, p;

  x = _mm512_max_ps (_mm512_set1_ps (-126), x);
  rounded = _mm512_add_ps (x, rounder);
  r = _mm512_sub_ps (x, _mm512_sub_ps (rounded, rounder));
  p = _mm512_set1_ps (0.00958287535f);
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (0.0559064827f));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (0.240240986f));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (0.693124187f));
  p = _mm512_fmadd_ps (p, r, _mm512_set1_ps (1));
  return _mm512_castsi512_ps (
    _mm512_add_epi32 (_mm512_castps_si512 (p),
                      _mm512_slli_epi32 (_mm512_castps_si512 (rounded), 23)));
}

INLINE __m512
cap (__m512 score,
     float  softcap)
{
  __m512 e = exp_vector (_mm512_mul_ps (score, _mm512_set1_ps (2 / softcap)));
  __m512 t = _mm512_div_ps (_mm512_set1_ps (2), _mm512_add_ps (e, _mm512_set1_ps (1)));

  return _mm512_mul_ps (_mm512_set1_ps (softcap * LLK_LOG2_E),
                        _mm512_sub_ps (_mm512_set1_ps (1), t));
}

/* Caps and hides what has to be, so that what follows is the same for all; the
 * largest score, in units of ln 2. */
INLINE float
mask_scores (const Run *run,
             float     *scores,
             bool       sees_all)
{
  const __m512 hidden = _mm512_set1_ps (-INFINITY);
  float softcap = run->shape->softcap;
  __m512 max = hidden;
  __m512 second_max = hidden;

  for (size_t i = 0; i < run->n_pairs; i++, scores += 2 * GROUP)
    {
      __m512 first = _mm512_load_ps (scores);
      __m512 second = _mm512_load_ps (scores + GROUP);

      if (softcap != 0)
        {
          first = cap (first, softcap);
          second = cap (second, softcap);
        }
      if (!sees_all || softcap != 0)
        {
          first = _mm512_mask_mov_ps (hidden, (__mmask16) run->bits[i], first);
          second = _mm512_mask_mov_ps (hidden, (__mmask16) (run->bits[i] >> 16), second);
          _mm512_store_ps (scores, first);
          _mm512_store_ps (scores + GROUP, second);
        }
      /* In this order a NaN leaves the maximum alone. */
      max = _mm512_max_ps (first, max);
      second_max = _mm512_max_ps (second, second_max);
    }

  return _mm512_reduce_max_ps (_mm512_max_ps (max, second_max));
}

/* Scores to weights, 0 where nothing is seen, as bfloat16 pairs of slots; the
 * sum of the weights before they are cut to 17 bits. */
INLINE float
weigh (const Run         *run,
       LlkAttentionQuery *query,
       float             *scores,
       float              max,
       bool               sees_all,
       bool               has_mass)
{
  __m512 maxima = _mm512_set1_ps (max);
  __m512 sums[2] = { _mm512_setzero_ps (), _mm512_setzero_ps () };
  __m512i *weights = (__m512i *) (void *) scores;

  for (size_t i = 0; i < run->n_pairs; i++, scores += 2 * GROUP)
    {
      __m512 pair[2], rest[2];

      for (size_t j = 0; j < 2; j++)
        {
          __m512 score = _mm512_load_ps (scores + j * GROUP);

          pair[j] = exp2_vector (_mm512_sub_ps (score, maxima));
          if (!sees_all)
            pair[j] = _mm512_maskz_mov_ps ((__mmask16) (run->bits[i] >> 16 * j), pair[j]);
          sums[j] = _mm512_add_ps (sums[j], pair[j]);
          if (has_mass)
            {
              size_t group = 2 * run->pairs[i] + j;

              if (group < run->n_groups)
                query->received[run->groups[group].chunk] += sum_vector (pair[j]);
            }
          pair[j] = split (pair[j], &rest[j]);
        }
      _mm512_store_si512 (&weights[2 * i], interleave (pair[0], pair[1]));
      _mm512_store_si512 (&weights[2 * i + 1], interleave (rest[0], rest[1]));
    }

  return sum_vector (_mm512_add_ps (sums[0], sums[1]));
}

/* Heads of one row see the same, and are neighbours. */
INLINE void
find_bits (Run   *run,
           size_t query)
{
  const uint64_t *masks = run->queries[query].masks;

  if (query > 0 && masks == run->queries[query - 1].masks)
    return;

  run->sees_all = true;
  for (size_t i = 0; i < run->n_pairs; i++)
    {
      run->bits[i] = get_bits (run, masks, run->pairs[i]);
      run->sees_all &= run->bits[i] == UINT32_MAX;
    }
}

/* Scores to weights, and their sums. All queries' maxima come first: what one
 * query does would otherwise wait for its own. */
INLINE void
soften (Run   *run,
        float *sums)
{
  float maxima[BLOCK];

  for (size_t j = 0; j < run->n_queries; j++)
    {
      float *scores = run->parts.scores + j * STRIDE;

      find_bits (run, j);
      maxima[j] = run->sees_all ? mask_scores (run, scores, true)
                                : mask_scores (run, scores, false);
    }
  for (size_t j = 0; j < run->n_queries; j++)
    {
      LlkAttentionQuery *query = &run->queries[j];
      float *scores = run->parts.scores + j * STRIDE;

      find_bits (run, j);
      query->max = maxima[j] * LN2;
      if (query->received != NULL)
        {
          memset (query->received, 0, run->n_chunks * sizeof (float));
          sums[j] = weigh (run, query, scores, maxima[j], false, true);
        }
      else if (run->sees_all)
        sums[j] = weigh (run, query, scores, maxima[j], true, false);
      else
        sums[j] = weigh (run, query, scores, maxima[j], false, false);
    }
}
