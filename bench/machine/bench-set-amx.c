/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Four sums of two by two tiles, all operands loaded anew from the first-level
 * cache each time, as a product does. */

#include "bench-read.h"
#include "machine/bench-sets.h"

#include <immintrin.h>

#include "kernels/x86/llk-x86-features.h"

#define ROWS 16
#define ROW_BYTES 64
#define TILE_BYTES (ROWS * ROW_BYTES)
#define N_TILES 8
/* Steps along the inputs: operands are 16 KiB. */
#define N_STEPS 4

typedef struct
{
  guint8 palette;
  guint8 start_row;
  guint8 reserved[14];
  guint16 row_bytes[16];
  guint8 rows[16];
} TileConfig;

static gboolean
can_run (void)
{
  return llk_x86_has_amx ();
}

static void
begin_tiles (void)
{
  static const TileConfig config = {
    .palette = 1,
    .row_bytes = { [0 ... N_TILES - 1] = ROW_BYTES },
    .rows = { [0 ... N_TILES - 1] = ROWS },
  };

  _tile_loadconfig (&config);
  _tile_zero (0);
  _tile_zero (1);
  _tile_zero (2);
  _tile_zero (3);
}

/* Zeros: as fast as any other numbers, and never denormal. */
static const guint8 operands[4 * N_STEPS * TILE_BYTES] __attribute__ ((aligned (64)));

static void
multiply_bytes (guint64 n_rounds)
{
  begin_tiles ();
  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_STEPS; i++)
      {
        const guint8 *step = operands + i * 4 * TILE_BYTES;

        _tile_loadd (4, step, ROW_BYTES);
        _tile_loadd (5, step + TILE_BYTES, ROW_BYTES);
        _tile_loadd (6, step + 2 * TILE_BYTES, ROW_BYTES);
        _tile_loadd (7, step + 3 * TILE_BYTES, ROW_BYTES);
        _tile_dpbssd (0, 4, 6);
        _tile_dpbssd (1, 4, 7);
        _tile_dpbssd (2, 5, 6);
        _tile_dpbssd (3, 5, 7);
      }
  _tile_release ();
}

static void
multiply_bf16 (guint64 n_rounds)
{
  begin_tiles ();
  for (guint64 round = 0; round < n_rounds; round++)
    for (guint i = 0; i < N_STEPS; i++)
      {
        const guint8 *step = operands + i * 4 * TILE_BYTES;

        _tile_loadd (4, step, ROW_BYTES);
        _tile_loadd (5, step + TILE_BYTES, ROW_BYTES);
        _tile_loadd (6, step + 2 * TILE_BYTES, ROW_BYTES);
        _tile_loadd (7, step + 3 * TILE_BYTES, ROW_BYTES);
        _tile_dpbf16ps (0, 4, 6);
        _tile_dpbf16ps (1, 4, 7);
        _tile_dpbf16ps (2, 5, 6);
        _tile_dpbf16ps (3, 5, 7);
      }
  _tile_release ();
}

#define OPS(k) (2 * ROWS * ROWS * (k) * 4 * N_STEPS)

const BenchSet bench_set_amx = {
  .name = "amx",
  .can_run = can_run,
  .read = read_memory,
  .peaks = { { "int8", "tdpbssd", OPS (64), multiply_bytes },
             { "bf16", "tdpbf16ps", OPS (32), multiply_bf16 } },
};
