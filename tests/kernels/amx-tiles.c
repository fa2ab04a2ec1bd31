/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kernels/amx-tiles.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_TILES 8
#define MAX_ROWS 16
#define MAX_ROW_BYTES 64
/* Of MXCSR: both zeros for denormals, all exceptions masked, round to nearest even. */
#define TILE_MXCSR 0x9fc0

typedef struct
{
  uint8_t palette;
  uint8_t first_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} Config;

typedef struct
{
  size_t rows;          /* 0: not configured */
  size_t row_bytes;
  uint8_t data[MAX_ROWS][MAX_ROW_BYTES] __attribute__ ((aligned (64)));
} Tile;

static _Thread_local Tile tiles[N_TILES];

static void
check (bool        is_right,
       const char *message,
       size_t      tile)
{
  if (is_right)
    return;
  fprintf (stderr, "AMX: tile %zu: %s\n", tile, message);
  abort ();
}

static Tile *
get_tile (size_t tile)
{
  check (tile < N_TILES, "there is none", tile);
  check (tiles[tile].rows > 0, "not configured", tile);
  return &tiles[tile];
}

void
amx_load_config (const void *src)
{
  Config config;

  memcpy (&config, src, sizeof config);
  check (config.palette == 1, "unknown palette", config.palette);
  check (config.first_row == 0, "begins in the middle", 0);
  for (size_t i = 0; i < sizeof config.reserved; i++)
    check (config.reserved[i] == 0, "reserved bytes are not zero", i);
  for (size_t i = 0; i < 16; i++)
    {
      check (i < N_TILES || (config.rows[i] == 0 && config.row_bytes[i] == 0), "there is none", i);
      check (config.rows[i] <= MAX_ROWS, "too many rows", i);
      check (config.row_bytes[i] <= MAX_ROW_BYTES, "rows are too long", i);
      check ((config.rows[i] == 0) == (config.row_bytes[i] == 0), "rows without bytes", i);
    }

  amx_release ();
  for (size_t i = 0; i < N_TILES; i++)
    {
      tiles[i].rows = config.rows[i];
      tiles[i].row_bytes = config.row_bytes[i];
    }
}

void
amx_release (void)
{
  memset (tiles, 0, sizeof tiles);
}

void
amx_zero (size_t index)
{
  Tile *tile = get_tile (index);

  memset (tile->data, 0, sizeof tile->data);
}

void
amx_load (size_t      index,
          const void *base,
          size_t      stride)
{
  Tile *tile = get_tile (index);

  check (stride >= tile->row_bytes || tile->rows == 1, "loads rows that overlap", index);
  memset (tile->data, 0, sizeof tile->data);
  for (size_t r = 0; r < tile->rows; r++)
    memcpy (tile->data[r], (const char *) base + r * stride, tile->row_bytes);
}

void
amx_store (size_t index,
           void  *base,
           size_t stride)
{
  const Tile *tile = get_tile (index);

  check (stride >= tile->row_bytes || tile->rows == 1, "stores rows that overlap", index);
  for (size_t r = 0; r < tile->rows; r++)
    memcpy ((char *) base + r * stride, tile->data[r], tile->row_bytes);
}

static void
check_shapes (size_t sums,
              size_t a,
              size_t b)
{
  const Tile *to = get_tile (sums), *left = get_tile (a), *right = get_tile (b);

  check (sums != a && sums != b && a != b, "is used twice", sums);
  check (to->row_bytes % 4 == 0 && left->row_bytes % 4 == 0 && right->row_bytes % 4 == 0,
         "rows are not of whole words", sums);
  check (left->rows == to->rows, "rows are not those of the sums", a);
  check (right->row_bytes == to->row_bytes, "columns are not those of the sums", b);
  check (left->row_bytes == 4 * right->rows, "columns are not the rows of the other", a);
}

/* What is behind the configured columns stays zero. */
static __mmask16
get_columns (const Tile *tile)
{
  return (__mmask16) ((1u << tile->row_bytes / 4) - 1);
}

static int32_t
get_byte (uint8_t byte,
          int     is_signed)
{
  return is_signed ? (int8_t) byte : byte;
}

void
amx_dot_bytes (size_t sums,
               size_t a,
               size_t b,
               int    a_is_signed,
               int    b_is_signed)
{
  Tile *to = &tiles[sums];
  const Tile *left = &tiles[a], *right = &tiles[b];

  check_shapes (sums, a, b);
  for (size_t k = 0; k < right->rows; k++)
    for (size_t i = 0; i < 4; i++)
      {
        __m512i bytes = _mm512_slli_epi32 (_mm512_load_si512 (right->data[k]),
                                           (unsigned) (24 - 8 * i));

        bytes = b_is_signed ? _mm512_srai_epi32 (bytes, 24) : _mm512_srli_epi32 (bytes, 24);
        for (size_t m = 0; m < to->rows; m++)
          {
            __m512i factor = _mm512_set1_epi32 (get_byte (left->data[m][4 * k + i], a_is_signed));
            __m512i sum = _mm512_add_epi32 (_mm512_load_si512 (to->data[m]),
                                            _mm512_mullo_epi32 (factor, bytes));

            _mm512_store_si512 (to->data[m], _mm512_maskz_mov_epi32 (get_columns (to), sum));
          }
      }
}

/* One bfloat16 of each pair as floats. */
static __m512
get_floats (__m512i pairs,
            bool    is_second)
{
  return _mm512_castsi512_ps (is_second
                                ? _mm512_and_si512 (pairs, _mm512_set1_epi32 ((int) 0xffff0000))
                                : _mm512_slli_epi32 (pairs, 16));
}

/* The sums of first and of second products each begin at zero; both together are added to what
 * the tile holds. Not inlined, so that nothing is computed before MXCSR is set. */
static __attribute__ ((noinline)) void
add_products (Tile       *to,
              const Tile *left,
              const Tile *right)
{
  for (size_t m = 0; m < to->rows; m++)
    {
      __m512 first = _mm512_setzero_ps (), second = _mm512_setzero_ps (), sum;

      for (size_t k = 0; k < right->rows; k++)
        {
          __m512i b = _mm512_load_si512 (right->data[k]);
          int32_t pair;
          __m512i factors;

          memcpy (&pair, left->data[m] + 4 * k, sizeof pair);
          factors = _mm512_set1_epi32 (pair);
          first = _mm512_fmadd_ps (get_floats (factors, false), get_floats (b, false), first);
          second = _mm512_fmadd_ps (get_floats (factors, true), get_floats (b, true), second);
        }
      sum = _mm512_add_ps (_mm512_load_ps (to->data[m]), _mm512_add_ps (first, second));
      _mm512_store_ps (to->data[m], _mm512_maskz_mov_ps (get_columns (to), sum));
    }
}

void
amx_dot_bfloats (size_t sums,
                 size_t a,
                 size_t b)
{
  const unsigned mxcsr = _mm_getcsr ();

  check_shapes (sums, a, b);
  _mm_setcsr (TILE_MXCSR);
  add_products (&tiles[sums], &tiles[a], &tiles[b]);
  _mm_setcsr (mxcsr);
}
