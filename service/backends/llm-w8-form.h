/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A matrix in the form of W8A8 products (kernels/llk-w8.h), made from a view of its weights, and
 * those of its columns that were asked for as floats. Holds copies; outlives the view. Its owner's
 * thread.
 */

#pragma once

#include "kernels/llk.h"
#include "weights/llm-weights.h"

typedef struct
{
  LlkW8Matrix matrix;
  gsize n_panels;
  int8_t *panels;        /* (owned), as what follows */
  float *scales;
  float **columns;       /* [n_in]: (nullable): weights of an input, [n_out], as the view has
                          * them */
  guint64 bytes;
} LlmW8Form;

/* @factors (nullable): [n_in] of what each input's weights are multiplied by. */
LlmW8Form *llm_w8_form_new     (const LlkOps        *kernels,
                                const LlmWeightView *view,
                                const float         *factors);
void       llm_w8_form_free    (LlmW8Form           *self);
/* Makes the columns of @n channels, unless they exist. */
void       llm_w8_form_add_columns (LlmW8Form       *self,
                                const LlkOps        *kernels,
                                const LlmWeightView *view,
                                const guint         *channels,
                                guint                n);

/* One output's weights as the view has them: @dst has room for in_count and a block. */
const float *llm_w8_read_output (const LlkOps       *kernels,
                                const LlmWeightView *view,
                                guint                output,
                                float               *dst);
