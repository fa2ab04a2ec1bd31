/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Number formats of weights. The numbers are those of GGUF's tensor types, so
 * that a type read from a file needs no translation, only a check.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum
{
  LLK_F32  = 0,
  LLK_F16  = 1,
  LLK_Q4_0 = 2, /* blocks of 32: one f16 scale, 32 × 4 bits, value (q - 8) × scale */
  LLK_Q8_0 = 8, /* blocks of 32: one f16 scale, 32 × int8 */
  LLK_BF16 = 30,
} LlkType;

/* Whether this code computes with @type; anything may be passed. */
bool        llk_type_is_known    (uint32_t type);
/* "Q8_0"; NULL for an unknown one. */
const char *llk_type_name        (uint32_t type);
/* Values in one block, 1 for plain formats; 0 for an unknown type. */
size_t      llk_type_block_size  (uint32_t type);
/* Bytes of one block; 0 for an unknown type. */
size_t      llk_type_block_bytes (uint32_t type);
