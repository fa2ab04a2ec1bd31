/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs of panels taken apart for several rows, by what each type brings: for
 * llk-panel-product.h, and for tiles. */

#pragma once

#include "kernels/llk-walk.h"

#define N LLK_PANEL_OUTPUTS
#define RUN_BYTES (LLK_RUN * N)
#define MAX_MINIMA (16 * N)
#define CACHE_LINE 64

/* An outlier of one row of several. */
typedef struct
{
  float x;
  uint16_t row;
  uint16_t place;
} RowOutlier;

/* Those of several rows in a run, row after row, and where they are. */
typedef struct
{
  uint64_t places[LLK_RUN / 64];
  size_t n;
  RowOutlier *values;
} RowOutliers;

/* None, with room at @values. */
static inline void
begin_outliers (RowOutliers *outliers,
                RowOutlier  *values)
{
  memset (outliers->places, 0, sizeof outliers->places);
  outliers->n = 0;
  outliers->values = values;
}

static inline void
append_outliers (const LlkOutlier *x,
                 size_t            n,
                 size_t            row,
                 RowOutliers      *outliers)
{
  for (size_t k = 0; k < n; k++)
    {
      outliers->places[x[k].place / 64] |= UINT64_C (1) << x[k].place % 64;
      outliers->values[outliers->n++] =
        (RowOutlier) { x[k].x, (uint16_t) row, (uint16_t) x[k].place };
    }
}

/* What each type brings. */
typedef struct
{
  /* Adds a whole run of up to 256 inputs, in one part, times one row to a panel's
   * sixteen sums, and its outliers to those of outliers. */
  void (*add_row) (const uint8_t *run, const uint8_t *ahead, size_t n,
                   const LlkActivationRun *x, const LlkOutlier *values, float *sums,
                   float *outliers);
  /* The same of a run in several parts; NULL for types with minima. */
  void (*add_parts) (const RunParts *parts, size_t panel, const LlkActivationRun *x,
                     const LlkOutlier *values, float *sums, float *outliers);
  /* Adds outliers of rows times a run of one or two panels to their sums, those of the
   * second panel @panel_sums behind those of the first. */
  void (*add_outliers) (const RunParts *run, size_t panel, size_t n_panels,
                        const RowOutliers *outliers, float *sums, size_t panel_sums);
  /* Stores the bytes of a part of a run as put_sixteen() does. */
  void (*store) (const uint8_t *part, const uint8_t *ahead, size_t n, int8_t *groups);
  void (*load_scales) (const uint8_t *run, float *scales, float *min_scales);
  /* NULL for types without minima: those of a part as shorts, in the order of panels. */
  void (*store_minima) (const uint8_t *part, int16_t *minima);
  size_t n_minima;            /* vectors of 64 bytes of a run's minima */
  size_t block;               /* inputs of a minimum */
  int zero_point;             /* what bytes are too small by */
} TypeOps;

#ifdef LLK_X86
/* Those of AVX-512; NULL for plain types. */
const TypeOps *llk_avx512_find_ops (LlkType type);
#endif

INLINE void
fetch (const uint8_t *ahead,
       size_t         bytes)
{
#pragma GCC unroll 8
  for (size_t i = 0; i < bytes; i += CACHE_LINE)
    __builtin_prefetch (ahead + i, 0, 3);
}

/* A run of a panel for several rows. */
typedef struct
{
  int8_t groups[RUN_BYTES] __attribute__ ((aligned (64)));
  int16_t minima[MAX_MINIMA] __attribute__ ((aligned (64)));
  float scales[N] __attribute__ ((aligned (64)));
  float min_scales[N] __attribute__ ((aligned (64)));
} StoredRun;

/* The minima of a part to their places among those of the run. */
static inline void
move_minima (const int16_t *part,
             size_t         first,
             size_t         n,
             int16_t       *minima)
{
  for (size_t b = 0; b < n; b++)
    for (size_t o = 0; o < N; o++)
      minima[llk_panel_find_minimum (first + b, o)] = part[llk_panel_find_minimum (b, o)];
}

static inline void
store_run (const TypeOps  *ops,
           const RunParts *parts,
           size_t          panel,
           const uint8_t  *ahead,
           StoredRun      *run)
{
  for (size_t p = 0; p < parts->n_parts; p++)
    {
      const RunPart *part = &parts->parts[p];
      const uint8_t *data = part->data + panel * part->panel_bytes;
      int16_t minima[MAX_MINIMA] __attribute__ ((aligned (64)));

      if (p == 0)
        ops->load_scales (data, run->scales, run->min_scales);
      ops->store (data, ahead, part->n, run->groups + part->first * N);
      if (ops->n_minima > 0 && parts->n_parts == 1)
        ops->store_minima (data, run->minima);
      else if (ops->n_minima > 0)
        {
          ops->store_minima (data, minima);
          move_minima (minima, part->first / ops->block, part->n / ops->block, run->minima);
        }
    }
}
