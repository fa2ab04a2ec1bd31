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
llk_w8_panel_bytes (size_t n_in,
                    size_t n_hot)
{
  return (count_padded (n_in) + (1 + n_hot) * sizeof (float)) * LLK_W8_OUTPUTS;
}

size_t
llk_w8_row_bytes (size_t n_in)
{
  return sizeof (LlkW8Row) + count_padded (n_in);
}

const float *
llk_w8_panel_scales (const int8_t *panel,
                     size_t        n_in)
{
  return (const void *) (panel + count_padded (n_in) * LLK_W8_OUTPUTS);
}

/* Returns its scale. */
static float
pack_output (const float *row,
             size_t       n_in,
             int8_t      *lines)
{
  float magnitude = 0;
  bool is_finite = true;

  for (size_t i = 0; i < n_in; i++)
    {
      is_finite = is_finite && isfinite (row[i]);
      magnitude = fabsf (row[i]) > magnitude ? fabsf (row[i]) : magnitude;
    }
  if (!is_finite)
    return llk_float_of_bits (0x7fc00000);
  if (magnitude < MIN_MAGNITUDE)
    return 0;
  for (size_t i = 0; i < n_in; i++)
    lines[i / 4 * 64 + i % 4] = (int8_t) lrintf (row[i] * (LLK_W8_LIMIT / magnitude));
  return magnitude / LLK_W8_LIMIT;
}

void
llk_w8_pack (const LlkW8Matrix *of,
             const float       *w,
             size_t             stride,
             size_t             n,
             int8_t            *to)
{
  float *scales = (void *) (to + count_padded (of->n_in) * LLK_W8_OUTPUTS);

  memset (to, 0, llk_w8_panel_bytes (of->n_in, of->n_hot));
  for (size_t o = 0; o < n; o++)
    {
      const float *row = w + o * stride;

      scales[o] = pack_output (row, of->n_in, to + 4 * o);
      for (size_t i = 0; of->hot_of != NULL && i < of->n_in; i++)
        if (of->hot_of[i] != 0)
          scales[of->hot_of[i] * LLK_W8_OUTPUTS + o] = row[i];
    }
}
