/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/llk-rope.h"

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
