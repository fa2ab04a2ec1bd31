/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A matrix in the form of W8A8 products (kernels/llk-w8.h), made from a view of its weights. Holds
 * copies; outlives the view. Its owner's thread.
 */

#pragma once

#include "kernels/llk.h"
#include "model/llm-w8-site.h"
#include "weights/llm-weights.h"

typedef struct
{
  LlkW8Matrix matrix;
  gsize n_panels;
  int8_t *panels;        /* (owned) */
  guint16 *hot_of;       /* (nullable) (owned) */
  guint64 bytes;
} LlmW8Form;

/* @factors (nullable): [in_count] of what each input's weights are multiplied by. @site: whose hot
 * channels they are. */
LlmW8Form *llm_w8_form_new     (const LlkOps        *kernels,
                                const LlmWeightView *view,
                                const float         *factors,
                                const LlmW8Site     *site);
void       llm_w8_form_free    (LlmW8Form           *self);

/* One output's weights as the view has them: @dst has room for in_count and a block. */
const float *llm_w8_read_output (const LlkOps       *kernels,
                                const LlmWeightView *view,
                                guint                output,
                                float               *dst);
