/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/arm/llk-arm-tables.h"

#include "kernels/llk-panel.h"
#include "kernels/llk-run.h"

int8_t llk_arm_tables[LLK_N_ARM_TABLES][2][256][16] __attribute__ ((aligned (64)));

/* Before main(): threads only read. */
__attribute__ ((constructor)) static void
fill_tables (void)
{
  static const LlkType types[LLK_N_ARM_TABLES] = {
    LLK_Q4_0, LLK_Q4_K, LLK_Q5_0, LLK_Q5_K, LLK_IQ4_NL, LLK_IQ4_XS, LLK_MXFP4,
    LLK_IQ3_XXS, LLK_IQ3_S,
  };

  for (size_t t = 0; t < LLK_N_ARM_TABLES; t++)
    {
      const int16_t *base = llk_run_base (types[t]);
      const size_t n_codes = (size_t) 1 << llk_panel_shape (types[t]).bits;
      const int zero_point = types[t] == LLK_Q4_K || types[t] == LLK_Q5_K ? 128 : 0;

      for (size_t r = 0; r < 256; r++)
        for (size_t code = 0; code < n_codes; code++)
          llk_arm_tables[t][code / 16][r][code % 16] =
            (int8_t) (llk_run_weight (types[t], base[code], (int8_t) r) - zero_point);
    }
}
