/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "support/llm-test-levels.h"

/* The level's part of @whole, as a multiple of @unit, or all. */
static guint
get_count (guint    whole,
           guint    level,
           guint    n_levels,
           guint    unit,
           gboolean is_late)
{
  guint n = whole * (level + 1) / n_levels;

  if (is_late)
    n = n * (level + 1) / n_levels;
  if (level + 1 == n_levels)
    return whole;
  return MIN (MAX (n / unit, 1) * unit, whole);
}

LlmSubModels *
llm_test_levels_new (const LlmHparams *hparams,
                     guint             n_levels,
                     guint             n_inputs,
                     gboolean          is_uneven)
{
  gsize n = (gsize) hparams->n_layers * n_levels;
  g_autofree guint *n_groups = g_new (guint, n);
  g_autofree guint *n_channels = g_new (guint, n);
  g_autofree guint8 *percent = g_new (guint8, n_levels);
  g_autoptr(GError) error = NULL;
  guint group_inputs = hparams->n_heads / hparams->n_kv_heads * hparams->head_dim;
  guint unit = 1;
  LlmSubModels *table;

  while (unit * group_inputs % n_inputs != 0)
    unit++;
  for (guint level = 0; level < n_levels; level++)
    {
      percent[level] = (guint8) (100 * (level + 1) / n_levels);
      for (guint layer = 0; layer < hparams->n_layers; layer++)
        {
          gboolean is_late = is_uneven && layer % 2 == 1;

          n_groups[layer * n_levels + level] =
            get_count (hparams->n_kv_heads, level, n_levels, unit, is_late);
          n_channels[layer * n_levels + level] =
            get_count (hparams->n_ff, level, n_levels, n_inputs, is_late);
        }
    }
  table = llm_sub_models_new (hparams, n_levels, percent, n_groups, n_channels, &error);
  g_assert_no_error (error);
  return table;
}
