/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of prompt rows with weights of 16 bits: weights and activations as
 * bfloat16, sums in float inside the tiles. BF16 weights are as they are, F16
 * ones are rounded to nearest. The unit counts what is below the normal range of
 * floats as zero. The order of work is that of llk-amx-int8.c, but the sums of a
 * block go from the tiles to memory and back between runs, since another pair of
 * panels comes in between.
 */

#include "kernels/x86/llk-amx.h"

#define STEP_INPUTS 32
#define N_STEPS (RUN_INPUTS / STEP_INPUTS)
#define TILES_BYTES (N_STEPS * 2 * TILE_BYTES)   /* of a run of two panels */
#define MAX_PAIRS 4
#define CACHE_BYTES (5 * 256 * 1024)
#define SUMS (BLOCK_ROWS * BLOCK_OUTPUTS)

/* One call's work on a few pairs of panels. */
typedef struct
{
  const LlkMatrix *w;
  size_t panel_bytes;
  size_t first;             /* panel */
  size_t n_panels;
  size_t n_pairs;           /* of panels; the last may lack its second */
  size_t n_runs;

  const uint8_t *rows;
  size_t n_rows;
  size_t row_bytes;

  float *y;
  size_t y_stride;
  bool is_added;

  uint8_t *tiles;           /* [run][pair] TILES_BYTES */
  float *sums;              /* [pair][tile][row][output], of a block of rows */
} Job;

/* What is in tiles 0…3. */
typedef struct
{
  float *sums;              /* where they go; NULL when there is nothing */
  float *y;                 /* and then, after the last run only */
  size_t n_outputs;
} Pending;

static size_t
count_runs (size_t n_in)
{
  return (n_in + RUN_INPUTS - 1) / RUN_INPUTS;
}

static size_t
count_pairs (size_t n_in)
{
  const size_t n_pairs = CACHE_BYTES / (count_runs (n_in) * TILES_BYTES);

  return n_pairs == 0 ? 1 : n_pairs < MAX_PAIRS ? n_pairs : MAX_PAIRS;
}

static size_t
get_scratch (LlkType type,
             size_t  n_in)
{
  (void) type;
  return count_pairs (n_in) * (count_runs (n_in) * TILES_BYTES + SUMS * sizeof (float));
}

/* Sixteen pairs of halves, the firsts before the seconds, as pairs of bfloat16. */
INLINE __m512i
round_halves (const void *src)
{
  const __m512i top = _mm512_set1_epi32 ((int32_t) 0xffff0000);
  __m512i halves = _mm512_load_si512 (src);
  __m512 v[2] = { _mm512_cvtph_ps (_mm512_castsi512_si256 (halves)),
                  _mm512_cvtph_ps (_mm512_extracti64x4_epi64 (halves, 1)) };
  __m512i rounded[2];

#pragma GCC unroll 2
  for (size_t i = 0; i < 2; i++)
    {
      __mmask16 is_number = _mm512_cmp_ps_mask (v[i], v[i], _CMP_ORD_Q);
      __m512i bits = _mm512_castps_si512 (v[i]);
      __m512i odd = _mm512_and_si512 (_mm512_srli_epi32 (bits, 16), _mm512_set1_epi32 (1));

      rounded[i] = _mm512_mask_add_epi32 (bits, is_number, bits,
                                          _mm512_add_epi32 (odd, _mm512_set1_epi32 (0x7fff)));
    }

  return _mm512_ternarylogic_epi32 (top, rounded[1], _mm512_srli_epi32 (rounded[0], 16), 0xca);
}

/* A run of a panel into tiles, filled up with zeros to a whole step. */
INLINE void
copy_run (bool           is_half,
          const uint8_t *panel,
          size_t         n_inputs,
          uint8_t       *tiles)
{
  const size_t n_pairs = (n_inputs + 1) / 2;
  const size_t n_filled = (n_inputs + STEP_INPUTS - 1) / STEP_INPUTS * STEP_INPUTS / 2;

  for (size_t i = 0; i < n_filled; i++)
    {
      uint8_t *dst = tiles + i / 16 * (2 * TILE_BYTES) + i % 16 * 64;

      _mm_prefetch ((const char *) panel + (RUN_INPUTS * 2 * LLK_PANEL_OUTPUTS + 64 * i),
                    _MM_HINT_T1);
      if (i >= n_pairs)
        _mm512_store_si512 (dst, _mm512_setzero_si512 ());
      else if (is_half)
        _mm512_store_si512 (dst, round_halves (panel + 64 * i));
      else
        _mm512_store_si512 (dst, _mm512_load_si512 (panel + 64 * i));
    }
}

static void
copy_pair (const Job *job,
           size_t     run,
           size_t     pair,
           size_t     n_inputs,
           uint8_t   *tiles)
{
  const uint8_t *panel = (const uint8_t *) job->w->panels +
                         (job->first + 2 * pair) * job->panel_bytes +
                         run * RUN_INPUTS * 2 * LLK_PANEL_OUTPUTS;

  for (size_t i = 0; i < 2; i++, panel += job->panel_bytes, tiles += TILE_BYTES)
    if (2 * pair + i >= job->n_panels)
      for (size_t s = 0; s * STEP_INPUTS < n_inputs; s++)
        memset (tiles + 2 * TILE_BYTES * s, 0, TILE_BYTES);
    else if (job->w->type == LLK_F16)
      copy_run (true, panel, n_inputs, tiles);
    else
      copy_run (false, panel, n_inputs, tiles);
}

INLINE void
store_tiles (float *sums,
             size_t n_row_tiles)
{
  _tile_stored (0, sums, 64);
  _tile_stored (1, sums + 256, 64);
  if (n_row_tiles > 1)
    {
      _tile_stored (2, sums + 2 * 256, 64);
      _tile_stored (3, sums + 3 * 256, 64);
    }
}

static void
write_sums (const Job     *job,
            const Pending *pending,
            size_t         n_rows)
{
  const bool is_streamed = can_stream (job->y, job->y_stride, job->n_rows) && !job->is_added &&
                           pending->n_outputs == BLOCK_OUTPUTS;

  for (size_t r = 0; r < n_rows; r++)
    {
      const float *sums =
        pending->sums + r / TILE_ROWS * (2 * 256) + r % TILE_ROWS * LLK_PANEL_OUTPUTS;
      float *y = pending->y + r * job->y_stride;

      if (is_streamed)
        stream_outputs (_mm512_load_ps (sums), _mm512_load_ps (sums + 256), y);
      else
        write_outputs (_mm512_load_ps (sums), _mm512_load_ps (sums + 256), pending->n_outputs, y,
                       job->is_added);
    }
}

INLINE void
multiply_step (const uint8_t *rows,
               size_t         row_bytes,
               const uint8_t *tiles,
               size_t         n_row_tiles)
{
  _tile_loadd (4, rows, row_bytes);
  _tile_loadd (6, tiles, 64);
  _tile_dpbf16ps (0, 4, 6);
  _tile_loadd (7, tiles + TILE_BYTES, 64);
  _tile_dpbf16ps (1, 4, 7);
  if (n_row_tiles > 1)
    {
      _tile_loadd (5, rows + TILE_ROWS * row_bytes, row_bytes);
      _tile_dpbf16ps (2, 5, 6);
      _tile_dpbf16ps (3, 5, 7);
    }
}

/* What is in a tile to its place, unless @old is NULL, and the sums so far into it, zeros
 * when @sums is NULL. A macro, since the number of a tile is part of the instruction. */
#define CHANGE_TILE(tile, old, sums)                   \
  do                                                   \
    {                                                  \
      if ((old) != NULL)                               \
        _tile_stored (tile, (old) + tile * 256, 64);   \
      if ((sums) != NULL)                              \
        _tile_loadd (tile, (sums) + tile * 256, 64);   \
      else                                             \
        _tile_zero (tile);                             \
    }                                                  \
  while (0)

/* The first step of a run: changes the sums, one tile after the other, so that none
 * waits for its product. */
INLINE void
multiply_first_step (const uint8_t *rows,
                     size_t         row_bytes,
                     const uint8_t *tiles,
                     float         *old,
                     const float   *sums,
                     size_t         n_row_tiles)
{
  _tile_loadd (4, rows, row_bytes);
  _tile_loadd (6, tiles, 64);
  CHANGE_TILE (0, old, sums);
  _tile_dpbf16ps (0, 4, 6);
  _tile_loadd (7, tiles + TILE_BYTES, 64);
  CHANGE_TILE (1, old, sums);
  _tile_dpbf16ps (1, 4, 7);
  if (n_row_tiles > 1)
    {
      _tile_loadd (5, rows + TILE_ROWS * row_bytes, row_bytes);
      CHANGE_TILE (2, old, sums);
      _tile_dpbf16ps (2, 5, 6);
      CHANGE_TILE (3, old, sums);
      _tile_dpbf16ps (3, 5, 7);
    }
}

/* Rows [@first, @last), in blocks of @n_rows. */
INLINE void
multiply_blocks (const Job *job,
                 size_t     first,
                 size_t     last,
                 size_t     n_row_tiles,
                 size_t     n_rows)
{
  /* With one block of rows only, tiles are used once and stay where they are made. */
  const size_t run_stride = job->n_rows > BLOCK_ROWS ? job->n_pairs : 0;
  const size_t n_left = job->w->n_out - job->first * LLK_PANEL_OUTPUTS;
  const size_t n_all = job->n_panels * LLK_PANEL_OUTPUTS;
  const size_t n_outputs = n_left < n_all ? n_left : n_all;
  Pending pending = { 0 };

  for (; first < last; first += n_rows)
    for (size_t run = 0; run < job->n_runs; run++)
      {
        const size_t left = job->w->n_in - run * RUN_INPUTS;
        const size_t n_inputs = left < RUN_INPUTS ? left : RUN_INPUTS;
        const uint8_t *rows = job->rows + first * job->row_bytes + run * RUN_INPUTS * 2;

        for (size_t pair = 0; pair < job->n_pairs; pair++)
          {
            uint8_t *tiles = job->tiles + (run * run_stride + pair) * TILES_BYTES;
            float *sums = job->sums + pair * SUMS;
            const size_t pair_outputs = n_outputs - pair * BLOCK_OUTPUTS;

            if (first == 0)
              copy_pair (job, run, pair, n_inputs, tiles);
            compile_barrier ();
            multiply_first_step (rows, job->row_bytes, tiles, pending.sums,
                                 run > 0 ? sums : NULL, n_row_tiles);
            for (size_t s = 1; s * STEP_INPUTS < n_inputs; s++)
              multiply_step (rows + 64 * s, job->row_bytes, tiles + 2 * TILE_BYTES * s,
                             n_row_tiles);
            if (pending.sums != NULL && pending.y != NULL)
              write_sums (job, &pending, n_rows);

            pending.sums = sums;
            pending.n_outputs = pair_outputs < BLOCK_OUTPUTS ? pair_outputs : BLOCK_OUTPUTS;
            pending.y = NULL;
            if (run + 1 == job->n_runs)
              pending.y = job->y + first * job->y_stride + job->first * LLK_PANEL_OUTPUTS +
                          pair * BLOCK_OUTPUTS;
          }
      }

  store_tiles (pending.sums, n_row_tiles);
  write_sums (job, &pending, n_rows);
}

static void
multiply_full_blocks (const Job *job,
                      size_t     n_rows)
{
  configure_tiles (BLOCK_ROWS);
  multiply_blocks (job, 0, n_rows, 2, BLOCK_ROWS);
}

/* What is left: less than a block. */
static void
multiply_last_block (const Job *job,
                     size_t     first)
{
  const size_t n_rows = job->n_rows - first;

  configure_tiles (n_rows);
  if (n_rows > TILE_ROWS)
    multiply_blocks (job, first, job->n_rows, 2, n_rows);
  else
    multiply_blocks (job, first, job->n_rows, 1, n_rows);
}

static void
multiply (const LlkMatrix *w,
          size_t           first,
          size_t           n_panels,
          const void      *rows,
          size_t           n_rows,
          float           *y,
          size_t           y_stride,
          bool             is_added,
          void            *scratch)
{
  const size_t n_pairs = count_pairs (w->n_in);
  const size_t n_full = n_rows / BLOCK_ROWS * BLOCK_ROWS;
  uint8_t *memory = scratch;
  Job job = {
    .w = w,
    .panel_bytes = llk_panel_bytes (w->type, w->n_in),
    .n_runs = count_runs (w->n_in),
    .rows = rows,
    .n_rows = n_rows,
    .row_bytes = llk_activation_bytes (LLK_ACTIVATION_BF16, w->n_in),
    .y = y,
    .y_stride = y_stride,
    .is_added = is_added,
    .tiles = memory,
  };

  if (n_rows == 0)
    return;

  job.sums = (float *) (void *) (memory + job.n_runs * n_pairs * TILES_BYTES);
  for (size_t done = 0; done < n_panels; done += job.n_panels)
    {
      job.first = first + done;
      job.n_panels = n_panels - done < 2 * n_pairs ? n_panels - done : 2 * n_pairs;
      job.n_pairs = (job.n_panels + 1) / 2;
      if (n_full > 0)
        multiply_full_blocks (&job, n_full);
      if (n_full < n_rows)
        multiply_last_block (&job, n_full);
    }
  _tile_release ();
  _mm_sfence ();
}

const LlkProduct llk_amx_bf16 = {
  .activation = LLK_ACTIVATION_BF16,
  .n_panels = 2 * MAX_PAIRS,
  .get_scratch = get_scratch,
  .multiply = multiply,
};
