/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products with weights of 16 bits on tiles: weights and activations as bfloat16, sums in
 * float inside the tiles, a step of 32 inputs after the other. BF16 weights are as they are,
 * read from the panels; F16 ones are rounded to nearest. The unit counts what is below the
 * normal range of floats as zero. The order of work is that of llk-amx-int8.c, but the sums
 * of a block go from the tiles to memory and back between runs, since another pair of panels
 * comes in between. Tiles have as many rows as there are: a single one has the same bits.
 */

#include "kernels/x86/llk-amx.h"
#include "kernels/llk-panel-stored.h"

#include <stddef.h>

#define STEP_INPUTS 32
#define MAX_STEPS (LLK_RUN / STEP_INPUTS)
#define MAX_PAIRS 4
#define N_SLOTS 80                         /* of pairs of runs: what stays in the cache */
#define SUMS (BLOCK_ROWS * BLOCK_OUTPUTS)

typedef uint8_t RunTiles[MAX_STEPS * TILE_BYTES];

typedef struct
{
  float sums[MAX_PAIRS][SUMS];  /* [tile][row][output], of a block of rows */
  /* A run of each of two panels, where they aren't read directly: the first for runs that aren't
   * kept, which a single block's are. */
  RunTiles slots[1 + N_SLOTS][2];
} Scratch;

/* One call's work on a few pairs of panels. */
typedef struct
{
  const LlkMatrix *w;
  size_t first;             /* panel */
  size_t n_panels;
  size_t n_pairs;           /* of panels; the last may lack its second */
  size_t n_kept;            /* runs that stay in slots of their own until the last block */

  const uint8_t *rows;
  size_t n_rows;
  size_t row_bytes;

  float *y;
  size_t y_stride;
  bool is_added;

  Scratch *scratch;
} Job;

/* Up to 256 inputs of a piece. */
typedef struct
{
  size_t number;
  const uint8_t *data;      /* of the first panel */
  size_t panel_bytes;
  size_t n_inputs;
} Run;

/* What is in tiles 0…3. */
typedef struct
{
  float *sums;              /* where they go; NULL when there is nothing */
  float *y;                 /* and then, after the last run only */
  size_t n_y_rows;
  size_t n_outputs;
} Pending;

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

/* A run of a panel into tiles, filled up with zeros to a whole step. The next one is fetched. */
INLINE void
copy_run (bool           is_half,
          const uint8_t *panel,
          size_t         n_inputs,
          uint8_t       *tiles)
{
  const size_t n_filled = (n_inputs + STEP_INPUTS - 1) / STEP_INPUTS * STEP_INPUTS / 2;

  for (size_t i = 0; i < n_filled; i++, panel += 64, tiles += 64)
    {
      fetch (panel + 2 * LLK_RUN * N, 64);
      if (2 * i >= n_inputs)
        _mm512_store_si512 (tiles, _mm512_setzero_si512 ());
      else
        _mm512_store_si512 (tiles, is_half ? round_halves (panel) : _mm512_load_si512 (panel));
    }
}

/* Finds, or makes, the tiles of a run of a pair of panels. */
static void
get_tiles (const Job     *job,
           const Run     *run,
           size_t         pair,
           bool           is_first_block,
           const uint8_t *tiles[2])
{
  const bool is_half = job->w->type == LLK_F16;
  const bool is_copied = is_half || run->n_inputs % STEP_INPUTS != 0;
  const bool is_kept = run->number < job->n_kept;
  const size_t place = is_kept ? 1 + run->number * job->n_pairs + pair : 0;

  for (size_t i = 0; i < 2 && 2 * pair + i < job->n_panels; i++)
    {
      const uint8_t *panel = run->data + (job->first + 2 * pair + i) * run->panel_bytes;
      uint8_t *slot = job->scratch->slots[place][i];

      tiles[i] = is_copied ? slot : panel;
      if (is_first_block && !is_copied)
        fetch (panel + 2 * LLK_RUN * N, 2 * LLK_RUN * N);
      else if (is_half && (is_first_block || !is_kept))
        copy_run (true, panel, run->n_inputs, slot);
      else if (is_copied && (is_first_block || !is_kept))
        copy_run (false, panel, run->n_inputs, slot);
    }
  if (2 * pair + 1 == job->n_panels)
    tiles[1] = tiles[0];
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
            const Pending *pending)
{
  const bool is_streamed = can_stream (job->y, job->y_stride, job->n_rows) && !job->is_added &&
                           pending->n_outputs == BLOCK_OUTPUTS;

  for (size_t r = 0; r < pending->n_y_rows; r++)
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
               const uint8_t *first,
               const uint8_t *second,
               size_t         n_row_tiles)
{
  _tile_loadd (4, rows, row_bytes);
  _tile_loadd (6, first, 64);
  _tile_dpbf16ps (0, 4, 6);
  _tile_loadd (7, second, 64);
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
                     const uint8_t *first,
                     const uint8_t *second,
                     float         *old,
                     const float   *sums,
                     size_t         n_row_tiles)
{
  _tile_loadd (4, rows, row_bytes);
  _tile_loadd (6, first, 64);
  CHANGE_TILE (0, old, sums);
  _tile_dpbf16ps (0, 4, 6);
  _tile_loadd (7, second, 64);
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

/* A run of a block of @n_rows rows from @first on, times all pairs. */
INLINE void
multiply_run (const Job     *job,
              const Run     *run,
              bool           is_last,
              const uint8_t *rows,
              size_t         first,
              size_t         n_rows,
              size_t         n_row_tiles,
              Pending       *pending)
{
  const size_t first_output = job->first * N;

  for (size_t pair = 0; pair < job->n_pairs; pair++)
    {
      const size_t n_panels = 2 * pair + 1 < job->n_panels ? 2 : 1;
      const size_t n_outputs = job->w->n_out - first_output - pair * BLOCK_OUTPUTS;
      float *sums = job->scratch->sums[pair];
      const uint8_t *tiles[2];

      get_tiles (job, run, pair, first == 0, tiles);
      compile_barrier ();
      multiply_first_step (rows, job->row_bytes, tiles[0], tiles[1], pending->sums,
                           run->number > 0 ? sums : NULL, n_row_tiles);
      for (size_t s = 1; s * STEP_INPUTS < run->n_inputs; s++)
        multiply_step (rows + 64 * s, job->row_bytes, tiles[0] + TILE_BYTES * s,
                       tiles[1] + TILE_BYTES * s, n_row_tiles);
      compile_barrier ();
      if (pending->sums != NULL && pending->y != NULL)
        write_sums (job, pending);

      *pending = (Pending) {
        .sums = sums,
        .y = is_last ? job->y + first * job->y_stride + first_output + pair * BLOCK_OUTPUTS : NULL,
        .n_y_rows = n_rows,
        .n_outputs = n_outputs < n_panels * N ? n_outputs : n_panels * N,
      };
    }
}

/* A block of @n_rows rows from @first on, which go through the same pieces. */
INLINE void
multiply_block (const Job *job,
                size_t     first,
                size_t     n_rows,
                size_t     n_row_tiles,
                Pending   *pending)
{
  const LlkPiece *piece = job->w->pieces;
  const LlkPiece *end = piece + job->w->n_pieces;
  const uint8_t *rows = job->rows + first * job->row_bytes;
  size_t input = 0, n_inputs = 0;
  Run run = { 0 };

  for (; piece < end && piece->n_rows > first; piece++)
    n_inputs += piece->n_in;
  for (piece = job->w->pieces; input < n_inputs; piece++)
    {
      run.data = piece->panels;
      run.panel_bytes = llk_panel_bytes (job->w->type, input, piece->n_in);
      for (size_t i = 0; i < piece->n_in; i += run.n_inputs, run.number++)
        {
          run.n_inputs = piece->n_in - i < LLK_RUN ? piece->n_in - i : LLK_RUN;
          input += run.n_inputs;
          multiply_run (job, &run, input == n_inputs, rows, first, n_rows, n_row_tiles, pending);
          run.data += 2 * run.n_inputs * N;
          rows += 2 * run.n_inputs;
        }
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
  Pending pending = { 0 };

  configure_tiles (n_rows);
  for (; first < last; first += n_rows)
    multiply_block (job, first, n_rows, n_row_tiles, &pending);
  store_tiles (pending.sums, n_row_tiles);
  write_sums (job, &pending);
}

static void
multiply_panels (const Job *job)
{
  /* Rows of a block go through the same pieces: sums that go on would have other bits if
   * zeros were added. */
  for (size_t first = 0, n; first < job->n_rows; first += n)
    {
      size_t n_full, n_left;

      n = count_alike (job->w, first, job->n_rows - first);
      n_left = n % BLOCK_ROWS;
      n_full = n - n_left;
      if (n_full > 0)
        multiply_blocks (job, first, first + n_full, 2, BLOCK_ROWS);
      if (n_left > TILE_ROWS)
        multiply_blocks (job, first + n_full, first + n, 2, n_left);
      else if (n_left > 0)
        multiply_blocks (job, first + n_full, first + n, 1, n_left);
    }
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
  Job job = {
    .w = w,
    .rows = rows,
    .row_bytes = llk_activation_bytes (LLK_ACTIVATION_BF16, w->n_in),
    .y = y,
    .y_stride = y_stride,
    .is_added = is_added,
    .scratch = scratch,
  };
  size_t n_runs = 0, n_pairs;

  job.n_rows = write_rows_without_inputs (w, first, n_panels, n_rows, y, y_stride, is_added);
  if (job.n_rows == 0)
    return;

  for (size_t i = 0; i < w->n_pieces; i++)
    n_runs += (w->pieces[i].n_in + LLK_RUN - 1) / LLK_RUN;
  n_pairs = N_SLOTS / n_runs;
  n_pairs = n_pairs == 0 ? 1 : n_pairs < MAX_PAIRS ? n_pairs : MAX_PAIRS;
  if (job.n_rows > BLOCK_ROWS)
    job.n_kept = n_runs * n_pairs <= N_SLOTS ? n_runs : N_SLOTS;
  for (size_t done = 0; done < n_panels; done += job.n_panels)
    {
      job.first = first + done;
      job.n_panels = n_panels - done < 2 * n_pairs ? n_panels - done : 2 * n_pairs;
      job.n_pairs = (job.n_panels + 1) / 2;
      multiply_panels (&job);
    }
  _tile_release ();
  _mm_sfence ();
}

const LlkProduct llk_amx_bf16 = {
  .activation = LLK_ACTIVATION_BF16,
  .n_panels = 2 * MAX_PAIRS,
  .scratch = sizeof (Scratch),
  .few_scratch = offsetof (Scratch, slots) + sizeof (RunTiles[2]),
  .multiply = multiply,
};
