/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sets of functions, which of them this processor can run, and the choice. */

#include "kernels/llk-internal.h"

#include <stdlib.h>

#ifdef LLK_X86
#include "kernels/x86/llk-x86-features.h"
#endif
#ifdef LLK_ARM
#include "kernels/arm/llk-arm-features.h"
#endif

typedef struct
{
  LlkOps ops;
  bool (*is_possible) (void);
} Set;

static bool
is_always_possible (void)
{
  return true;
}

#ifdef LLK_X86
/* The set "amx" on tiles in software, which only test programs link. */
extern const LlkProductOps llk_amx_emulated_product __attribute__ ((weak));
extern const LlkAttention llk_amx_emulated_attention __attribute__ ((weak));

static bool
has_emulated_amx (void)
{
  return &llk_amx_emulated_product != NULL && llk_x86_has_avx512 ();
}
#endif

/* Best first. */
static const Set sets[] = {
#ifdef LLK_X86
  { { "amx", &llk_avx512_vector, &llk_amx_product, &llk_amx_attention, &llk_avx512_kv,
      &llk_avx512_w8 },
    llk_x86_has_amx },
  { { "avx512", &llk_avx512_vector, &llk_avx512_product, &llk_avx512_attention, &llk_avx512_kv,
      &llk_avx512_w8 },
    llk_x86_has_avx512 },
  { { "avxvnni", &llk_avx2_vector, &llk_avxvnni_product, &llk_avx2_attention, &llk_avx2_kv,
      &llk_avxvnni_w8 },
    llk_x86_has_avxvnni },
  { { "avx2", &llk_avx2_vector, &llk_avx2_product, &llk_avx2_attention, &llk_avx2_kv,
      &llk_avx2_w8 },
    llk_x86_has_avx2 },
  { { "amx-emulated", &llk_avx512_vector, &llk_amx_emulated_product, &llk_amx_emulated_attention,
      &llk_avx512_kv, &llk_avx512_w8 },
    has_emulated_amx },
#endif
#ifdef LLK_ARM
  { { "i8mm", &llk_neon_vector, &llk_i8mm_product, &llk_neon_attention, &llk_neon_kv,
      &llk_dotprod_w8 },
    llk_arm_has_i8mm },
  { { "dotprod", &llk_neon_vector, &llk_dotprod_product, &llk_neon_attention, &llk_neon_kv,
      &llk_dotprod_w8 },
    llk_arm_has_dotprod },
  { { "neon", &llk_neon_vector, &llk_neon_product, &llk_neon_attention, &llk_neon_kv,
      &llk_neon_w8 },
    is_always_possible },
#endif
  { { "portable", &llk_portable_vector, &llk_portable_product, &llk_portable_attention,
      &llk_portable_kv, &llk_portable_w8 },
    is_always_possible },
};

#define N_SETS (sizeof sets / sizeof sets[0])

const LlkOps *
llk_ops_portable (void)
{
  return &sets[N_SETS - 1].ops;
}

const char *const *
llk_ops_list (void)
{
  static _Thread_local const char *names[N_SETS + 1];
  size_t n = 0;

  for (size_t i = 0; i < N_SETS; i++)
    if (sets[i].is_possible ())
      names[n++] = sets[i].ops.name;
  names[n] = NULL;
  return names;
}

const LlkOps *
llk_ops_find (const char *name)
{
  for (size_t i = 0; i < N_SETS; i++)
    if (strcmp (sets[i].ops.name, name) == 0)
      return sets[i].is_possible () ? &sets[i].ops : NULL;

  return NULL;
}

const LlkOps *
llk_ops_best (void)
{
  const char *wanted = getenv ("LLMSVC_KERNELS");
  const LlkOps *ops = wanted != NULL ? llk_ops_find (wanted) : NULL;

  return ops != NULL ? ops : llk_ops_find (llk_ops_list ()[0]);
}
