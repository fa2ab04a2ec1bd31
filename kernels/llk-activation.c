/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Where things lie in a prepared row. */

#include "kernels/llk-product.h"

static size_t
round_up (size_t n,
          size_t unit)
{
  return (n + unit - 1) / unit * unit;
}

/* Bytes of one 32-bit number for each @block of @n values. */
static size_t
measure_numbers (size_t n,
                 size_t block)
{
  return round_up (round_up (n, block) / block, 16) * 4;
}

size_t
llk_activation_bytes (LlkActivation form,
                      size_t        n)
{
  switch (form)
    {
    case LLK_ACTIVATION_F32:
      return round_up (n, 16) * sizeof (float);
    case LLK_ACTIVATION_Q8:
      return llk_activation_half_sums (form, n) + measure_numbers (n, 32);
    case LLK_ACTIVATION_Q8_256:
      return llk_activation_scales (form, n) + measure_numbers (n, 256);
    case LLK_ACTIVATION_BF16:
      return round_up (n, 64) * 2;
    case LLK_N_ACTIVATIONS:
      break;
    }

  return 0;
}

size_t
llk_activation_scales (LlkActivation form,
                       size_t        n)
{
  return form == LLK_ACTIVATION_Q8 || form == LLK_ACTIVATION_Q8_256 ? round_up (n, 64) : 0;
}

size_t
llk_activation_sums (LlkActivation form,
                     size_t        n)
{
  return form == LLK_ACTIVATION_Q8 ? round_up (n, 64) + measure_numbers (n, 32) : 0;
}

size_t
llk_activation_half_sums (LlkActivation form,
                          size_t        n)
{
  return form == LLK_ACTIVATION_Q8 ? round_up (n, 64) + 2 * measure_numbers (n, 32) : 0;
}
