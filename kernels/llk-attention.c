/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* States of attention, the same for every set of instructions. */

#include "kernels/llk-internal.h"

#include <math.h>

void
llk_attention_begin (LlkAttentionState *state,
                     size_t             head_dim)
{
  state->max = -INFINITY;
  state->sum = 0;
  for (size_t i = 0; i < head_dim; i++)
    state->acc[i] = 0;
}

void
llk_attention_fold (LlkAttentionState       *state,
                    const LlkAttentionState *other,
                    size_t                   head_dim)
{
  float *restrict acc = state->acc;
  const float *restrict added = other->acc;
  float max = other->max > state->max ? other->max : state->max;
  float factor, added_factor;

  /* NaN in a score leaves max alone and shows in sum and acc. */
  if (other->sum == 0)
    return;

  factor = llk_exp (state->max - max);
  added_factor = llk_exp (other->max - max);
  for (size_t i = 0; i < head_dim; i++)
    acc[i] = acc[i] * factor + (added[i] + 0.0f) * added_factor;
  state->sum = state->sum * factor + other->sum * added_factor;
  state->max = max;
}

void
llk_attention_end (const LlkAttentionState *state,
                   float                   *out,
                   size_t                   head_dim)
{
  float factor = state->sum != 0 ? 1 / state->sum : 0;

  for (size_t i = 0; i < head_dim; i++)
    out[i] = state->acc[i] * factor;
}
