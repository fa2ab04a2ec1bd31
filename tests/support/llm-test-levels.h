/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tables of sub-models for tests, as real models get them with their levels. One thread. */

#pragma once

#include "model/architectures/llm-sub-models.h"

G_BEGIN_DECLS

/* Levels that rise evenly; where there are fewer groups of heads or channels than levels, some add
 * none. Borders are multiples of @n_inputs inputs, itself one of LLM_SEGMENT_INPUTS. With
 * @is_uneven every other layer rises late. */
LlmSubModels *llm_test_levels_new (const LlmHparams *hparams,
                                   guint             n_levels,
                                   guint             n_inputs,
                                   gboolean          is_uneven);

G_END_DECLS
