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
  size_t n_runs;

  switch (form)
    {
    case LLK_ACTIVATION_F32:
      return round_up (n, 16) * sizeof (float);
    case LLK_ACTIVATION_Q8:
      n_runs = round_up (n, 256) / 256;
      return n_runs * sizeof (LlkActivationRun) + round_up (n_runs, 64)
             + round_up (n_runs * LLK_MAX_OUTLIERS * sizeof (LlkOutlier), 64);
    case LLK_ACTIVATION_BF16:
      return round_up (n, 64) * 2;
    case LLK_N_ACTIVATIONS:
      break;
    }

  return 0;
}
