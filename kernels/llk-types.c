/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/llk-types.h"

typedef struct
{
  uint32_t type;
  const char *name;
  size_t block_size;
  size_t block_bytes;
} TypeInfo;

static const TypeInfo infos[] = {
  { LLK_F32,    "F32",    1,   4 },
  { LLK_F16,    "F16",    1,   2 },
  { LLK_Q4_0,   "Q4_0",   32,  2 + 16 },
  { LLK_Q4_1,   "Q4_1",   32,  2 + 2 + 16 },
  { LLK_Q5_0,   "Q5_0",   32,  2 + 4 + 16 },
  { LLK_Q5_1,   "Q5_1",   32,  2 + 2 + 4 + 16 },
  { LLK_Q8_0,   "Q8_0",   32,  2 + 32 },
  { LLK_Q2_K,   "Q2_K",   256, 16 + 64 + 2 + 2 },
  { LLK_Q3_K,   "Q3_K",   256, 32 + 64 + 12 + 2 },
  { LLK_Q4_K,   "Q4_K",   256, 2 + 2 + 12 + 128 },
  { LLK_Q5_K,   "Q5_K",   256, 2 + 2 + 12 + 32 + 128 },
  { LLK_Q6_K,   "Q6_K",   256, 128 + 64 + 16 + 2 },
  { LLK_IQ2_XXS, "IQ2_XXS", 256, 2 + 64 },
  { LLK_IQ2_XS, "IQ2_XS", 256, 2 + 64 + 8 },
  { LLK_IQ3_XXS, "IQ3_XXS", 256, 2 + 64 + 32 },
  { LLK_IQ3_S,  "IQ3_S",  256, 2 + 64 + 8 + 32 + 4 },
  { LLK_IQ2_S,  "IQ2_S",  256, 2 + 64 + 8 + 8 },
  { LLK_IQ4_NL, "IQ4_NL", 32,  2 + 16 },
  { LLK_IQ4_XS, "IQ4_XS", 256, 2 + 2 + 4 + 128 },
  { LLK_BF16,   "BF16",   1,   2 },
  { LLK_MXFP4,  "MXFP4",  32,  1 + 16 },
  { LLK_Q1_0,   "Q1_0",   128, 2 + 16 },
};

const int8_t llk_iq4_values[16] = {
  -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
};

const int8_t llk_mxfp4_values[16] = {
  0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12,
};

const int8_t llk_iq3_values[16] = {
  -62, -52, -44, -36, -28, -20, -12, -4, 4, 12, 20, 28, 36, 44, 52, 62,
};

const int8_t llk_iq2_values[16] = {
  -43, -25, -8, 8, 25, 43, 0, 0,
};

static const TypeInfo *
find_type (uint32_t type)
{
  for (size_t i = 0; i < sizeof infos / sizeof infos[0]; i++)
    if (infos[i].type == type)
      return &infos[i];

  return NULL;
}

bool
llk_type_is_known (uint32_t type)
{
  return find_type (type) != NULL;
}

const char *
llk_type_name (uint32_t type)
{
  const TypeInfo *info = find_type (type);

  return info != NULL ? info->name : NULL;
}

size_t
llk_type_block_size (uint32_t type)
{
  const TypeInfo *info = find_type (type);

  return info != NULL ? info->block_size : 0;
}

size_t
llk_type_block_bytes (uint32_t type)
{
  const TypeInfo *info = find_type (type);

  return info != NULL ? info->block_bytes : 0;
}
