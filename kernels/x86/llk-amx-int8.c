/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of prompt rows in integers: activations and weights as int8 with a
 * scale for each 256 inputs, exact sums of 256 products in tiles, and from there
 *
 *   sum = fma (dot, weight scale × row scale, sum)
 *
 * in float, run after run. A few panels at a time are brought into int8, just
 * before the first rows meet them; they stay in the second cache for the other
 * rows. Rows are worked on in blocks of 32: a run of a block stays in the first
 * cache while the panels pass by. While tiles multiply one block, the vector unit
 * finishes the one before.
 */

#include "kernels/x86/llk-amx.h"

#define TILES_BYTES (4 * 2 * TILE_BYTES)   /* of a run of two panels */
#define MAX_PAIRS 4
#define CACHE_BYTES (5 * 256 * 1024)       /* of int8 weights that stay in the cache */
#define SUMS (BLOCK_ROWS * BLOCK_OUTPUTS)

/* One call's work on a few pairs of panels. */
typedef struct
{
  const LlkMatrix *w;
  LlkAmxRequantize requantize;
  size_t panel_bytes;
  size_t first;             /* panel */
  size_t n_panels;
  size_t n_pairs;           /* of panels; the last may lack its second */
  size_t n_runs;

  const uint8_t *rows;
  size_t n_rows;
  size_t row_bytes;
  size_t row_scales;        /* offset in a row */

  float *y;
  size_t y_stride;
  bool is_added;

  int8_t *tiles;            /* [run][pair] TILES_BYTES */
  float *scales;            /* [run][pair][BLOCK_OUTPUTS] */
  float *sums;              /* [pair][row][BLOCK_OUTPUTS], of a block of rows */
  int32_t *dots;            /* [tile][row][output], of a run of a block */
} Job;

/* A run of a block whose products are in tiles 0…3. */
typedef struct
{
  const float *scales;        /* of its outputs */
  const uint8_t *row_scales;  /* of the first row; others row_bytes apart */
  float *sums;                /* NULL when there is nothing in the tiles */
  float *y;                   /* where the sums go, after the last run only */
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
  const size_t n_pairs = count_pairs (n_in);
  const size_t run_bytes = n_pairs * (TILES_BYTES + BLOCK_OUTPUTS * sizeof (float));

  (void) type;
  return count_runs (n_in) * run_bytes + n_pairs * SUMS * sizeof (float) +
         SUMS * sizeof (int32_t);
}

/* A run of a pair of panels into tiles. */
static void
requantize_pair (const Job *job,
                 size_t     run,
                 size_t     pair,
                 size_t     n_inputs,
                 int8_t    *tiles,
                 float     *scales)
{
  const uint8_t *panel =
    (const uint8_t *) job->w->panels + (job->first + 2 * pair) * job->panel_bytes;

  job->requantize (panel, run, n_inputs, tiles, scales);
  if (2 * pair + 1 < job->n_panels)
    {
      job->requantize (panel + job->panel_bytes, run, n_inputs, tiles + TILE_BYTES,
                       scales + LLK_PANEL_OUTPUTS);
      return;
    }

  for (size_t i = 0; i < n_inputs; i += 64)
    memset (tiles + 32 * i + TILE_BYTES, 0, TILE_BYTES);
  memset (scales + LLK_PANEL_OUTPUTS, 0, LLK_PANEL_OUTPUTS * sizeof (float));
}

INLINE void
store_tiles (int32_t *dots,
             size_t   n_row_tiles)
{
  _tile_stored (0, dots, 64);
  _tile_stored (1, dots + 256, 64);
  if (n_row_tiles > 1)
    {
      _tile_stored (2, dots + 2 * 256, 64);
      _tile_stored (3, dots + 3 * 256, 64);
    }
}

/* Adds the products in @dots of rows [@first, @last) that exist to their sums. */
INLINE void
add_dots (const Job     *job,
          const Pending *pending,
          size_t         first,
          size_t         last,
          size_t         n_rows)
{
  const __m512 first_scales = _mm512_load_ps (pending->scales);
  const __m512 second_scales = _mm512_load_ps (pending->scales + LLK_PANEL_OUTPUTS);
  const uint8_t *row_scale = pending->row_scales + first * job->row_bytes;

#pragma GCC unroll 8
  for (size_t r = first; r < last; r++, row_scale += job->row_bytes)
    if (r < n_rows)
      {
        const int32_t *dots =
          job->dots + r / TILE_ROWS * (2 * 256) + r % TILE_ROWS * LLK_PANEL_OUTPUTS;
        float *sums = pending->sums + r * BLOCK_OUTPUTS;
        const __m512 scale = _mm512_set1_ps (*(const float *) (const void *) row_scale);
        const __m512 first_dots = _mm512_cvtepi32_ps (_mm512_load_si512 (dots));
        const __m512 second_dots = _mm512_cvtepi32_ps (_mm512_load_si512 (dots + 256));

        _mm512_store_ps (sums, _mm512_fmadd_ps (first_dots, _mm512_mul_ps (first_scales, scale),
                                                _mm512_load_ps (sums)));
        _mm512_store_ps (sums + 16,
                         _mm512_fmadd_ps (second_dots, _mm512_mul_ps (second_scales, scale),
                                          _mm512_load_ps (sums + 16)));
      }
}

/* The sums of a block to where they go; leaves zeros for the next. */
static void
write_sums (const Job     *job,
            const Pending *pending,
            size_t         n_rows)
{
  const bool is_streamed = can_stream (job->y, job->y_stride, job->n_rows) && !job->is_added &&
                           pending->n_outputs == BLOCK_OUTPUTS;

  for (size_t r = 0; r < n_rows; r++)
    {
      float *sums = pending->sums + r * BLOCK_OUTPUTS;
      float *y = pending->y + r * job->y_stride;

      if (is_streamed)
        stream_outputs (_mm512_load_ps (sums), _mm512_load_ps (sums + 16), y);
      else
        write_outputs (_mm512_load_ps (sums), _mm512_load_ps (sums + 16), pending->n_outputs, y,
                       job->is_added);
      _mm512_store_ps (sums, _mm512_setzero_ps ());
      _mm512_store_ps (sums + 16, _mm512_setzero_ps ());
    }
}

/* Sixty-four more inputs; @rows and @tiles are at them. */
INLINE void
multiply_step (const uint8_t *rows,
               size_t         row_bytes,
               const int8_t  *tiles,
               size_t         n_row_tiles)
{
  _tile_loadd (4, rows, row_bytes);
  _tile_loadd (6, tiles, 64);
  _tile_dpbssd (0, 4, 6);
  _tile_loadd (7, tiles + TILE_BYTES, 64);
  _tile_dpbssd (1, 4, 7);
  if (n_row_tiles > 1)
    {
      _tile_loadd (5, rows + TILE_ROWS * row_bytes, row_bytes);
      _tile_dpbssd (2, 5, 6);
      _tile_dpbssd (3, 5, 7);
    }
}

/* The first step of a run, which gets what the tiles hold out of the way: one
 * after the other, so that none waits for its product. */
INLINE void
multiply_first_step (const uint8_t *rows,
                     size_t         row_bytes,
                     const int8_t  *tiles,
                     int32_t       *dots,
                     bool           is_pending,
                     size_t         n_row_tiles)
{
  _tile_loadd (4, rows, row_bytes);
  _tile_loadd (6, tiles, 64);
  if (is_pending)
    _tile_stored (0, dots, 64);
  _tile_zero (0);
  _tile_dpbssd (0, 4, 6);
  _tile_loadd (7, tiles + TILE_BYTES, 64);
  if (is_pending)
    _tile_stored (1, dots + 256, 64);
  _tile_zero (1);
  _tile_dpbssd (1, 4, 7);
  if (n_row_tiles > 1)
    {
      _tile_loadd (5, rows + TILE_ROWS * row_bytes, row_bytes);
      if (is_pending)
        _tile_stored (2, dots + 2 * 256, 64);
      _tile_zero (2);
      _tile_dpbssd (2, 5, 6);
      if (is_pending)
        _tile_stored (3, dots + 3 * 256, 64);
      _tile_zero (3);
      _tile_dpbssd (3, 5, 7);
    }
}

/* A run of a block into the tiles, @n_steps × 64 inputs, while what is @pending
 * is added to its sums. */
INLINE void
multiply_run (const Job     *job,
              const uint8_t *rows,
              const int8_t  *tiles,
              size_t         n_steps,
              const Pending *pending,
              size_t         n_row_tiles,
              size_t         n_rows)
{
  const size_t quarter = n_row_tiles * TILE_ROWS / 4;
  const bool is_pending = pending->sums != NULL;

  multiply_first_step (rows, job->row_bytes, tiles, job->dots, is_pending, n_row_tiles);
  if (is_pending)
    add_dots (job, pending, 0, quarter, n_rows);
#pragma GCC unroll 3
  for (size_t s = 1; s < 4; s++)
    {
      if (s < n_steps)
        multiply_step (rows + 64 * s, job->row_bytes, tiles + 2 * TILE_BYTES * s, n_row_tiles);
      if (is_pending)
        add_dots (job, pending, s * quarter, (s + 1) * quarter, n_rows);
    }
  if (is_pending && pending->y != NULL)
    write_sums (job, pending, n_rows);
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
        const uint8_t *rows = job->rows + first * job->row_bytes;

        for (size_t pair = 0; pair < job->n_pairs; pair++)
          {
            const size_t place = run * run_stride + pair;
            int8_t *tiles = job->tiles + place * TILES_BYTES;
            float *scales = job->scales + (run * job->n_pairs + pair) * BLOCK_OUTPUTS;
            const size_t pair_outputs = n_outputs - pair * BLOCK_OUTPUTS;

            if (first == 0)
              requantize_pair (job, run, pair, n_inputs, tiles, scales);
            compile_barrier ();
            multiply_run (job, rows + run * RUN_INPUTS, tiles, (n_inputs + 63) / 64, &pending,
                          n_row_tiles, n_rows);

            pending.scales = scales;
            pending.row_scales = rows + job->row_scales + run * sizeof (float);
            pending.sums = job->sums + pair * SUMS;
            pending.n_outputs = pair_outputs < BLOCK_OUTPUTS ? pair_outputs : BLOCK_OUTPUTS;
            pending.y = NULL;
            if (run + 1 == job->n_runs)
              pending.y = job->y + first * job->y_stride + job->first * LLK_PANEL_OUTPUTS +
                          pair * BLOCK_OUTPUTS;
          }
      }

  store_tiles (job->dots, n_row_tiles);
  add_dots (job, &pending, 0, n_row_tiles * TILE_ROWS, n_rows);
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
    .requantize = llk_amx_find_requantize (w->type),
    .panel_bytes = llk_panel_bytes (w->type, w->n_in),
    .n_runs = count_runs (w->n_in),
    .rows = rows,
    .n_rows = n_rows,
    .row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8_256, w->n_in),
    .row_scales = llk_activation_scales (LLK_ACTIVATION_Q8_256, w->n_in),
    .y = y,
    .y_stride = y_stride,
    .is_added = is_added,
    .tiles = (int8_t *) memory,
  };

  if (n_rows == 0)
    return;

  memory += job.n_runs * n_pairs * TILES_BYTES;
  job.sums = (float *) (void *) memory;
  memory += n_pairs * SUMS * sizeof (float);
  job.dots = (int32_t *) (void *) memory;
  memory += SUMS * sizeof (int32_t);
  job.scales = (float *) (void *) memory;
  memset (job.sums, 0, n_pairs * SUMS * sizeof (float));

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

const LlkProduct llk_amx_int8 = {
  .activation = LLK_ACTIVATION_Q8_256,
  .n_panels = 2 * MAX_PAIRS,
  .get_scratch = get_scratch,
  .multiply = multiply,
};
