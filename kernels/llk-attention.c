/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What is the same for every instruction set: both ends of an attention row,
 * and rotary embedding, which is a small part of the time. */

#include "kernels/llk.h"

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
llk_attention_end (const LlkAttentionState *state,
                   float                   *out,
                   size_t                   head_dim)
{
  float factor = state->sum != 0 ? 1 / state->sum : 0;

  for (size_t i = 0; i < head_dim; i++)
    out[i] = state->acc[i] * factor;
}

void
llk_rope_norm (float       *head,
               const float *cosine,
               const float *sine,
               size_t       rope_dim)
{
  for (size_t i = 0; i < rope_dim / 2; i++)
    {
      float a = head[2 * i];
      float b = head[2 * i + 1];

      head[2 * i] = a * cosine[i] - b * sine[i];
      head[2 * i + 1] = a * sine[i] + b * cosine[i];
    }
}

void
llk_rope_neox (float       *head,
               const float *cosine,
               const float *sine,
               size_t       rope_dim)
{
  size_t half = rope_dim / 2;

  for (size_t i = 0; i < half; i++)
    {
      float a = head[i];
      float b = head[i + half];

      head[i] = a * cosine[i] - b * sine[i];
      head[i + half] = a * sine[i] + b * cosine[i];
    }
}
