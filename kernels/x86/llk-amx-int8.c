/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products in integers on tiles, for all types of blocks: exact sums over a run in tiles, and
 * from there in float as llk-product.h defines it, so that results have the same bits as
 * without tiles. A few panels at a time are brought into bytes, a run just before the first
 * rows meet it; they stay in the second cache for the other rows. Rows are worked on in
 * blocks of 32: a run of a block stays in the first cache while the panels pass by. While
 * tiles multiply one block, the vector unit finishes the one before.
 */

#include "kernels/x86/llk-amx.h"
#include "kernels/llk-panel-stored.h"

#include <stddef.h>

_Static_assert (BLOCK_ROWS == LLK_FEW_ROWS, "a single block needs few slots");

/* Fewer rows are multiplied without tiles. */
#define MIN_TILED_ROWS 8
#define MAX_PAIRS 4
#define N_SLOTS 160                        /* of pairs of runs: what stays in the cache */
#define MAX_OUTLIER_ROWS 512               /* whose outliers are multiplied together */
#define MAX_LISTS 64                       /* of these, of a run each */
#define MAX_VALUES (32 * MAX_OUTLIER_ROWS) /* of a run's at least LLK_MAX_OUTLIERS a row */
#define MAX_FEW_VALUES (16 * BLOCK_ROWS)
#define SUMS (BLOCK_ROWS * BLOCK_OUTPUTS)

/* A run of two panels. */
typedef struct
{
  StoredRun runs[2];
} Slot;

typedef struct
{
  float sums[MAX_PAIRS][SUMS];  /* [row][BLOCK_OUTPUTS], of a block of rows; zero between blocks */
  int32_t dots[SUMS];           /* [tile][row][output], of a run of a block */
  int32_t starts[BLOCK_ROWS * N]; /* [row][output], what the sums of such a run begin with */
  RowOutliers lists[MAX_LISTS];     /* of a run each */
  /* Of a single block; else the same at the end. */
  float few_sums[MAX_PAIRS][SUMS];
  RowOutlier few_values[MAX_FEW_VALUES];
  Slot slots[N_SLOTS];          /* of which a single block uses the first, one more than pairs */
  float outlier_sums[MAX_PAIRS][MAX_OUTLIER_ROWS * BLOCK_OUTPUTS];
  RowOutlier values[MAX_VALUES];
} Scratch;

typedef struct Pending Pending;

/* One call's work on a few pairs of panels. */
typedef struct
{
  const LlkMatrix *w;
  const TypeOps *ops;
  void (*add_dots) (const Pending *pending, size_t row_bytes, size_t first, size_t last);
  size_t first;             /* panel */
  size_t n_panels;
  size_t n_pairs;           /* of panels; the last may lack its second */
  size_t n_kept;            /* runs that stay in slots of their own until the last block */

  const uint8_t *rows;
  size_t n_rows;
  size_t row_bytes;
  RowOutlier *values;
  size_t n_values;          /* that there is room for: those of a run at least */
  size_t n_listed;          /* all runs, once the outliers of all rows are listed */
  float *outlier_sums;      /* [panel][row][N] */
  size_t n_outlier_rows;    /* MAX_OUTLIER_ROWS at most */

  float *y;
  size_t y_stride;
  bool is_added;

  Scratch *scratch;
} Job;

/* A run of a block whose products are in tiles 0…3. */
struct Pending
{
  const StoredRun *panels[2];
  const uint8_t *rows;      /* the first row's run; others row_bytes apart */
  size_t n_rows;            /* that are multiplied with it */
  const int32_t *dots;      /* where the tiles go */
  float *sums;              /* NULL when there is nothing in the tiles */
  float *y;                 /* where the sums go, after the last run only, */
  const float *outliers;    /* with these, of the first panel; NULL for none */
  size_t n_y_rows;
  size_t n_outputs;
};

/* --- weights --- */

/* A run of a pair of panels into bytes. */
static void
store_pair (const Job      *job,
            const RunParts *now,
            const RunParts *next,
            size_t          pair,
            Slot           *slot)
{
  for (size_t i = 0; i < 2 && 2 * pair + i < job->n_panels; i++)
    {
      const size_t panel = job->first + 2 * pair + i;
      const RunPart *ahead = &next->parts[0];

      store_run (job->ops, now, panel, ahead->data + panel * ahead->panel_bytes, &slot->runs[i]);
    }
}

static Slot *
get_slot (const Job *job,
          size_t     run,
          size_t     pair)
{
  const size_t place = run * job->n_pairs + pair;

  if (run < job->n_kept)
    return &job->scratch->slots[place];
  /* In turn, so that what is pending keeps its scales. */
  return &job->scratch->slots[job->n_kept * job->n_pairs + place % (job->n_pairs + 1)];
}

/* --- sums --- */

/* Adds the products of rows [@first, @last), all in one tile, that exist to their sums. */
INLINE void
add_dots (size_t         n_minima,
          size_t         block,
          const Pending *pending,
          size_t         row_bytes,
          size_t         first,
          size_t         last)
{
  const uint8_t *row = pending->rows + first * row_bytes;
  const int32_t *dots = pending->dots + first / TILE_ROWS * (2 * 256) + first % TILE_ROWS * N;
  float *sums = pending->sums + first * BLOCK_OUTPUTS;
  __m512 scales[2], min_scales[2];
  __m512i minima[2][MAX_MINIMA / 32];

#pragma GCC unroll 2
  for (size_t p = 0; p < 2; p++)
    {
      scales[p] = _mm512_load_ps (pending->panels[p]->scales);
      if (n_minima > 0)
        min_scales[p] = _mm512_load_ps (pending->panels[p]->min_scales);
#pragma GCC unroll 8
      for (size_t i = 0; i < n_minima; i++)
        minima[p][i] = _mm512_load_si512 (pending->panels[p]->minima + 32 * i);
    }

  last = last < pending->n_rows ? last : pending->n_rows;
#pragma GCC unroll 2
  for (size_t r = first; r < last; r++, row += row_bytes, dots += N, sums += BLOCK_OUTPUTS)
    {
      const LlkActivationRun *x = (const void *) row;
      const int16_t *block_sums = block == 16 ? x->sums : x->long_sums;
      const __m512 a = _mm512_set1_ps (x->scale);
      __m512i min_dots[2] = { _mm512_setzero_si512 (), _mm512_setzero_si512 () };

#pragma GCC unroll 8
      for (size_t i = 0; i < n_minima; i++)
        {
          int32_t two;
          __m512i two_sums;

          memcpy (&two, block_sums + 2 * i, sizeof two);
          two_sums = _mm512_set1_epi32 (two);
          min_dots[0] = _mm512_dpwssd_epi32 (min_dots[0], minima[0][i], two_sums);
          min_dots[1] = _mm512_dpwssd_epi32 (min_dots[1], minima[1][i], two_sums);
        }
#pragma GCC unroll 2
      for (size_t p = 0; p < 2; p++)
        {
          const __m512 run_dots = _mm512_cvtepi32_ps (_mm512_load_si512 (dots + 256 * p));
          __m512 v = _mm512_load_ps (sums + N * p);

          v = _mm512_fmadd_ps (run_dots, _mm512_mul_ps (scales[p], a), v);
          if (n_minima > 0)
            v = _mm512_fmadd_ps (_mm512_cvtepi32_ps (min_dots[p]),
                                 _mm512_mul_ps (min_scales[p], a), v);
          _mm512_store_ps (sums + N * p, v);
        }
    }
}

#define DEFINE_ADD_DOTS(name, n_minima, block)                                                 \
  static void                                                                                  \
  add_dots_##name (const Pending *pending, size_t row_bytes, size_t first, size_t last)        \
  {                                                                                            \
    add_dots (n_minima, block, pending, row_bytes, first, last);                               \
  }

DEFINE_ADD_DOTS (plain, 0, 32)
DEFINE_ADD_DOTS (minima, 4, 32)
DEFINE_ADD_DOTS (short_minima, 8, 16)

/* Lists outliers of @n_rows rows from @first on in runs from @run on, as many of MAX_LISTS
 * as there is room for; returns how many. Each row is far from the next, so that all its runs are
 * looked at together. */
static size_t
list_outliers (const Job *job,
               size_t     first,
               size_t     n_rows,
               size_t     run)
{
  const size_t n_runs = (job->w->n_in + LLK_RUN - 1) / LLK_RUN - run;
  const uint8_t *const begin = job->rows + first * job->row_bytes;
  RowOutliers *lists = job->scratch->lists;
  uint16_t totals[MAX_LISTS] __attribute__ ((aligned (64)));
  __m512i low = _mm512_setzero_si512 (), high = _mm512_setzero_si512 ();
  const __mmask64 are_there = n_runs < 64 ? (UINT64_C (1) << n_runs) - 1 : UINT64_MAX;
  size_t n = 0, n_values = 0;

  for (size_t r = 0; r < n_rows; r++)
    {
      const uint8_t *counts =
        llk_activation_get_counts (begin + r * job->row_bytes, job->w->n_in) + run;
      const __m512i all = _mm512_maskz_loadu_epi8 (are_there, counts);

      low = _mm512_add_epi16 (low, _mm512_cvtepu8_epi16 (_mm512_castsi512_si256 (all)));
      high = _mm512_add_epi16 (high, _mm512_cvtepu8_epi16 (_mm512_extracti64x4_epi64 (all, 1)));
    }
  _mm512_store_si512 (totals, low);
  _mm512_store_si512 (totals + 32, high);
  for (; n < MAX_LISTS && n < n_runs && n_values + totals[n] <= job->n_values; n++)
    {
      begin_outliers (&lists[n], job->values + n_values);
      n_values += totals[n];
    }
  if (n_values == 0)
    return n;

  for (size_t r = 0; r < n_rows; r++)
    {
      const uint8_t *row = begin + r * job->row_bytes;
      const uint8_t *counts = llk_activation_get_counts (row, job->w->n_in) + run;
      const __m512i all = _mm512_maskz_loadu_epi8 (UINT64_MAX >> (64 - n), counts);
      uint64_t left = _mm512_test_epi8_mask (all, all);
      const LlkOutlier *x = llk_activation_get_outliers (row, job->w->n_in);

      if (left != 0 && run > 0)
        x += ((const LlkActivationRun *) (const void *) row)[run].first_outlier;
      for (; left != 0; left &= left - 1)
        {
          const size_t i = (size_t) __builtin_ctzll (left);

          append_outliers (x, counts[i], r, &lists[i]);
          x += counts[i];
        }
    }
  return n;
}

/* Outliers of @n_rows rows from @first on to their sums; whether there are any. */
static bool
add_outliers (Job    *job,
              size_t  first,
              size_t  n_rows)
{
  const size_t panel_sums = job->n_outlier_rows * N;
  Walk walk = walk_begin (job->w);
  size_t n = 0, n_listed = job->n_listed;
  bool has_any = false;
  RunParts run;

  for (size_t i = 0; walk_on (&walk, &run) && run.n_rows > first; i++, n++)
    {
      const size_t n_left = run.n_rows - first;
      RowOutliers *values;

      if (n == n_listed)
        {
          n_listed = list_outliers (job, first, n_rows, i);
          n = 0;
          if (n_rows == job->n_rows && n_listed == (job->w->n_in + LLK_RUN - 1) / LLK_RUN)
            job->n_listed = n_listed;
        }
      values = &job->scratch->lists[n];
      /* rows that end before this run have zeros there */
      while (values->n > 0 && values->values[values->n - 1].row >= n_left)
        values->n--;
      if (values->n == 0)
        continue;
      if (!has_any)
        memset (job->outlier_sums, 0, job->n_panels * panel_sums * sizeof (float));
      has_any = true;
      for (size_t p = 0; p < job->n_panels; p += 2)
        {
          const RunPart *part = &run.parts[0];

          for (size_t next = 2; next < 4; next++)
            fetch (part->data + (job->first + p + next) * part->panel_bytes,
                   llk_panel_run_bytes (walk.shape, part->n));
          job->ops->add_outliers (&run, job->first + p, p + 1 < job->n_panels ? 2 : 1, values,
                                  job->outlier_sums + p * panel_sums, panel_sums);
        }
    }
  return has_any;
}

/* The sums of a block to where they go; leaves zeros for the next. */
static void
write_sums (const Job     *job,
            const Pending *pending)
{
  const bool is_streamed = can_stream (job->y, job->y_stride, job->n_rows) && !job->is_added &&
                           pending->n_outputs == BLOCK_OUTPUTS;

  for (size_t r = 0; r < pending->n_y_rows; r++)
    {
      float *sums = pending->sums + r * BLOCK_OUTPUTS;
      __m512 outliers[2] = { _mm512_setzero_ps (), _mm512_setzero_ps () };
      __m512 a, b;
      float *y = pending->y + r * job->y_stride;

      if (pending->outliers != NULL)
        for (size_t p = 0; p < 2; p++)
          outliers[p] = _mm512_load_ps (pending->outliers + (p * job->n_outlier_rows + r) * N);
      a = _mm512_add_ps (_mm512_load_ps (sums), outliers[0]);
      b = _mm512_add_ps (_mm512_load_ps (sums + N), outliers[1]);
      if (is_streamed)
        stream_outputs (a, b, y);
      else
        write_outputs (a, b, pending->n_outputs, y, job->is_added);
      _mm512_store_ps (sums, _mm512_setzero_ps ());
      _mm512_store_ps (sums + 16, _mm512_setzero_ps ());
    }
}

/* --- tiles --- */

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

/* Sixty-four more inputs; @rows and the panels' groups are at them. */
INLINE void
multiply_step (const uint8_t *rows,
               size_t         row_bytes,
               const int8_t  *first,
               const int8_t  *second,
               size_t         n_row_tiles)
{
  _tile_loadd (4, rows, row_bytes);
  _tile_loadd (6, first, 64);
  _tile_dpbssd (0, 4, 6);
  _tile_loadd (7, second, 64);
  _tile_dpbssd (1, 4, 7);
  if (n_row_tiles > 1)
    {
      _tile_loadd (5, rows + TILE_ROWS * row_bytes, row_bytes);
      _tile_dpbssd (2, 5, 6);
      _tile_dpbssd (3, 5, 7);
    }
}

/* What sums begin with: of weights that bytes are too small for, the rest. A macro, since
 * the number of a tile is part of the instruction. */
#define BEGIN_TILE(tile, starts)                                 \
  do                                                             \
    {                                                            \
      if ((starts) != NULL)                                      \
        _tile_loadd (tile, (starts) + tile / 2 * 256, 64);       \
      else                                                       \
        _tile_zero (tile);                                       \
    }                                                            \
  while (0)

/* The first step of a run, which gets what the tiles hold out of the way: one
 * after the other, so that none waits for its product. */
INLINE void
multiply_first_step (const uint8_t *rows,
                     size_t         row_bytes,
                     const int8_t  *first,
                     const int8_t  *second,
                     int32_t       *dots,
                     bool           is_pending,
                     const int32_t *starts,
                     size_t         n_row_tiles)
{
  _tile_loadd (4, rows, row_bytes);
  _tile_loadd (6, first, 64);
  if (is_pending)
    _tile_stored (0, dots, 64);
  BEGIN_TILE (0, starts);
  _tile_dpbssd (0, 4, 6);
  _tile_loadd (7, second, 64);
  if (is_pending)
    _tile_stored (1, dots + 256, 64);
  BEGIN_TILE (1, starts);
  _tile_dpbssd (1, 4, 7);
  if (n_row_tiles > 1)
    {
      _tile_loadd (5, rows + TILE_ROWS * row_bytes, row_bytes);
      if (is_pending)
        _tile_stored (2, dots + 2 * 256, 64);
      BEGIN_TILE (2, starts);
      _tile_dpbssd (2, 5, 6);
      if (is_pending)
        _tile_stored (3, dots + 3 * 256, 64);
      BEGIN_TILE (3, starts);
      _tile_dpbssd (3, 5, 7);
    }
}

/* A run of a block into the tiles, @n_steps × 64 inputs, while what is @pending
 * is added to its sums. */
INLINE void
multiply_run (const Job             *job,
              const uint8_t         *rows,
              const StoredRun *const panels[2],
              size_t                 n_steps,
              const Pending         *pending,
              size_t                 n_row_tiles)
{
  const size_t quarter = n_row_tiles * TILE_ROWS / 4;
  const bool is_pending = pending->sums != NULL;
  const int8_t *first = panels[0]->groups;
  const int8_t *second = panels[1]->groups;
  const int32_t *starts = job->ops->zero_point != 0 ? job->scratch->starts : NULL;

  multiply_first_step (rows, job->row_bytes, first, second, job->scratch->dots, is_pending,
                       starts, n_row_tiles);
  if (is_pending)
    job->add_dots (pending, job->row_bytes, 0, quarter);
#pragma GCC unroll 3
  for (size_t s = 1; s < 4; s++)
    {
      if (s < n_steps)
        multiply_step (rows + 64 * s, job->row_bytes, first + TILE_BYTES * s,
                       second + TILE_BYTES * s, n_row_tiles);
      if (is_pending)
        job->add_dots (pending, job->row_bytes, s * quarter, (s + 1) * quarter);
    }
  compile_barrier ();
  if (is_pending && pending->y != NULL)
    write_sums (job, pending);
}

/* --- a matrix --- */

static void
set_starts (const Job     *job,
            const uint8_t *rows,
            size_t         n_rows)
{
  for (size_t r = 0; r < n_rows && job->ops->zero_point != 0; r++)
    {
      const LlkActivationRun *x = (const void *) (rows + r * job->row_bytes);

      _mm512_store_si512 (job->scratch->starts + r * N,
                          _mm512_set1_epi32 (job->ops->zero_point * x->sum));
    }
}

/* A block of @n_rows rows from @first on. */
INLINE void
multiply_block (const Job *job,
                size_t     first,
                size_t     n_rows,
                size_t     n_row_tiles,
                bool       has_outliers,
                Pending   *pending)
{
  const size_t first_output = job->first * N;
  const size_t n_outputs = job->w->n_out - first_output;
  const uint8_t *rows = job->rows + first * job->row_bytes;
  Walk walk = walk_begin (job->w);
  RunParts now, next;
  bool has_more = walk_on (&walk, &now);

  for (size_t run = 0; has_more; run++, now = next, rows += sizeof (LlkActivationRun))
    {
      const size_t n_left = now.n_rows - first;

      has_more = walk_on (&walk, &next);
      if (!has_more)
        next = now;
      has_more = has_more && next.n_rows > first;
      set_starts (job, rows, n_rows);
      for (size_t pair = 0; pair < job->n_pairs; pair++)
        {
          Slot *slot = get_slot (job, run, pair);
          const size_t n_left_outputs = n_outputs - pair * BLOCK_OUTPUTS;
          /* A missing second is the first once more. */
          const StoredRun *const panels[2] = {
            &slot->runs[0], &slot->runs[2 * pair + 1 < job->n_panels ? 1 : 0],
          };

          if (first == 0 || run >= job->n_kept)
            store_pair (job, &now, &next, pair, slot);
          compile_barrier ();
          multiply_run (job, rows, panels, (now.n + 63) / 64, pending, n_row_tiles);
          *pending = (Pending) {
            .panels = { panels[0], panels[1] },
            .rows = rows,
            .n_rows = n_left < n_rows ? n_left : n_rows,
            .dots = job->scratch->dots,
            .sums = job->scratch->sums[pair],
            .n_y_rows = n_rows,
            .n_outputs = n_left_outputs < BLOCK_OUTPUTS ? n_left_outputs : BLOCK_OUTPUTS,
          };
          if (2 * pair + 1 == job->n_panels && pending->n_outputs > N)
            pending->n_outputs = N;
          if (has_more)
            continue;
          pending->y = job->y + first * job->y_stride + first_output + pair * BLOCK_OUTPUTS;
          if (has_outliers)
            pending->outliers =
              job->outlier_sums + (2 * pair * job->n_outlier_rows + first % MAX_OUTLIER_ROWS) * N;
        }
    }
}

/* What is in the tiles, if anything, to where it goes. */
INLINE void
finish (const Job *job,
        Pending   *pending,
        size_t     n_row_tiles)
{
  if (pending->sums == NULL)
    return;
  store_tiles (job->scratch->dots, n_row_tiles);
  for (size_t r = 0; r < n_row_tiles * TILE_ROWS; r += TILE_ROWS)
    job->add_dots (pending, job->row_bytes, r, r + TILE_ROWS);
  write_sums (job, pending);
  pending->sums = NULL;
}

/* Rows [@first, @last), in blocks of @n_rows. */
INLINE void
multiply_blocks (Job       *job,
                 size_t     first,
                 size_t     last,
                 size_t     n_row_tiles,
                 size_t     n_rows,
                 bool      *has_outliers)
{
  Pending pending = { 0 };

  configure_tiles (n_rows);
  for (; first < last; first += n_rows)
    {
      if (first % MAX_OUTLIER_ROWS == 0)
        {
          finish (job, &pending, n_row_tiles);
          *has_outliers = add_outliers (
            job, first,
            job->n_rows - first < MAX_OUTLIER_ROWS ? job->n_rows - first : MAX_OUTLIER_ROWS);
        }
      multiply_block (job, first, n_rows, n_row_tiles, *has_outliers, &pending);
    }
  finish (job, &pending, n_row_tiles);
}

static void
multiply_panels (Job *job)
{
  const size_t n_full = job->n_rows / BLOCK_ROWS * BLOCK_ROWS;
  const size_t n_left = job->n_rows - n_full;
  bool has_outliers = false;

  if (n_full > 0)
    multiply_blocks (job, 0, n_full, 2, BLOCK_ROWS, &has_outliers);
  if (n_left > TILE_ROWS)
    multiply_blocks (job, n_full, job->n_rows, 2, n_left, &has_outliers);
  else if (n_left > 0)
    multiply_blocks (job, n_full, job->n_rows, 1, n_left, &has_outliers);
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
  const size_t n_runs = (w->n_in + LLK_RUN - 1) / LLK_RUN;
  const TypeOps *ops = llk_avx512_find_ops (w->type);
  Job job = {
    .w = w,
    .ops = ops,
    .add_dots = ops->n_minima == 0 ? add_dots_plain
                : ops->block == 16 ? add_dots_short_minima
                                   : add_dots_minima,
    .rows = rows,
    .row_bytes = llk_activation_bytes (LLK_ACTIVATION_Q8, w->n_in),
    .y = y,
    .y_stride = y_stride,
    .is_added = is_added,
    .scratch = scratch,
  };
  size_t n_pairs;
  bool is_few;

  if (n_rows < MIN_TILED_ROWS)
    {
      llk_avx512_product.find (w->type)->multiply (w, first, n_panels, rows, n_rows, y, y_stride,
                                                   is_added, scratch);
      return;
    }
  job.n_rows = write_rows_without_inputs (w, first, n_panels, n_rows, y, y_stride, is_added);
  if (job.n_rows == 0)
    return;

  n_pairs = N_SLOTS / n_runs;
  n_pairs = n_pairs == 0 ? 1 : n_pairs < MAX_PAIRS ? n_pairs : MAX_PAIRS;
  /* A single block of rows uses all but once, and few slots stay nearer. */
  if (job.n_rows > BLOCK_ROWS)
    job.n_kept = n_runs * n_pairs <= N_SLOTS ? n_runs : N_SLOTS - 2;
  job.n_outlier_rows = job.n_rows < MAX_OUTLIER_ROWS ? job.n_rows : MAX_OUTLIER_ROWS;
  is_few = n_rows <= BLOCK_ROWS;
  job.values = is_few ? job.scratch->few_values : job.scratch->values;
  job.n_values = is_few ? MAX_FEW_VALUES : MAX_VALUES;
  job.outlier_sums = is_few ? job.scratch->few_sums[0] : job.scratch->outlier_sums[0];
  memset (job.scratch->sums, 0, n_pairs * sizeof job.scratch->sums[0]);
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

const LlkProduct llk_amx_int8 = {
  .activation = LLK_ACTIVATION_Q8,
  .n_panels = 2 * MAX_PAIRS,
  .scratch = sizeof (Scratch),
  .few_scratch = offsetof (Scratch, slots) + (MAX_PAIRS + 1) * sizeof (Slot),
  .multiply = multiply,
};
