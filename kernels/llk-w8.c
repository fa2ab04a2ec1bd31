/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/llk-internal.h"

#include <math.h>

/* Below this an output counts as zero. */
#define MIN_MAGNITUDE 1e-30f

static size_t
count_padded (size_t n_in)
{
  return (n_in + LLK_W8_INPUTS - 1) / LLK_W8_INPUTS * LLK_W8_INPUTS;
}

size_t
llk_w8_panel_bytes (size_t n_in)
{
  return count_padded (n_in) * LLK_W8_OUTPUTS;
}

size_t
llk_w8_row_bytes (size_t n_in)
{
  return sizeof (LlkW8Row) + count_padded (n_in);
}

void
llk_w8_pack (const float *w,
             size_t       stride,
             size_t       n_in,
             size_t       n,
             int8_t      *panel,
             float       *scales)
{
  memset (panel, 0, llk_w8_panel_bytes (n_in));
  for (size_t o = 0; o < LLK_W8_OUTPUTS; o++)
    {
      const float *row = w + o * stride;
      float magnitude = 0;
      bool is_finite = true;

      scales[o] = 0;
      for (size_t i = 0; i < n_in && o < n; i++)
        {
          is_finite = is_finite && isfinite (row[i]);
          magnitude = fabsf (row[i]) > magnitude ? fabsf (row[i]) : magnitude;
        }
      if (!is_finite)
        scales[o] = llk_float_of_bits (0x7fc00000);
      if (!is_finite || magnitude < MIN_MAGNITUDE)
        continue;
      scales[o] = magnitude / LLK_W8_LIMIT;
      for (size_t i = 0; i < n_in; i++)
        panel[i / 4 * 64 + 4 * o + i % 4] =
          (int8_t) lrintf (row[i] * (LLK_W8_LIMIT / magnitude));
    }
}
