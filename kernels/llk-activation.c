/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/llk-product.h"

_Static_assert (sizeof (LlkActivationRun) == 320, "runs stay aligned to 64 bytes");

static size_t
round_up (size_t n,
          size_t unit)
{
  return (n + unit - 1) / unit * unit;
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
      return round_up (n, 256) / 256 * sizeof (LlkActivationRun);
    case LLK_ACTIVATION_BF16:
      return round_up (n, 64) * 2;
    case LLK_N_ACTIVATIONS:
      break;
    }

  return 0;
}
