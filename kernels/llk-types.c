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
  { LLK_F32,  "F32",  1,  4 },
  { LLK_F16,  "F16",  1,  2 },
  { LLK_Q4_0, "Q4_0", 32, 2 + 16 },
  { LLK_Q8_0, "Q8_0", 32, 2 + 32 },
  { LLK_BF16, "BF16", 1,  2 },
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
