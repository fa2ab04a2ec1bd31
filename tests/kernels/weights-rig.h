/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Weights of every type made of random bytes, and rows of activations, for the tests of
 * formats and products. */

#pragma once

#include <glib.h>

#include "kernels/llk-run.h"

#define RIG_N_TYPES 22

extern const LlkType rig_types[RIG_N_TYPES];

typedef enum
{
  RIG_NORMAL,     /* values of a few units */
  RIG_ZERO,
  RIG_LARGE,      /* the largest scales */
  RIG_DENORMAL,   /* scales below the normal range */
  RIG_MIXED,      /* many orders of magnitude */
  RIG_ANY,        /* any bytes: NaN and infinity too */
  RIG_N_FILLS,
} RigFill;

/* @n_blocks blocks of a file: the type's block_bytes each. */
void     rig_fill_weights (LlkType type, RigFill fill, guint8 *dst, gsize n_blocks);
/* Makes a scale of the block NaN or infinite; the value of plain types NaN. */
void     rig_spoil_block  (LlkType type, guint8 *block);
/* A block's scale, and its minimum or the scale of its minima, 0 for types without. */
typedef struct
{
  gdouble d, min;
} RigScales;

RigScales rig_get_scales (LlkType type, const guint8 *block);
/* The magnitudes of @n weights of a run, the two parts of one with a minimum added up. */
void     rig_get_magnitudes (LlkType type, const LlkRun *run, gsize n, gdouble *dst);
/* The weights as outliers meet them. */
void     rig_get_exact      (LlkType type, const LlkRun *run, gsize n, gdouble *dst);

typedef enum
{
  RIG_ROWS_NORMAL,
  RIG_ROWS_ZERO,
  RIG_ROWS_OUTLIERS,   /* one of a hundred is a hundred times as large */
  RIG_ROWS_LARGE,      /* 1e25 */
  RIG_ROWS_DENORMAL,   /* below the normal range of floats */
  RIG_ROWS_MIXED,      /* many orders of magnitude */
  RIG_ROWS_SINGLE,     /* one value each, every row at another place */
  RIG_ROWS_OVERFLOW,   /* near the largest float */
  RIG_N_ROWS,
} RigRows;

/* @n_rows rows of @n_in values. */
void     rig_fill_rows    (RigRows fill, gfloat *x, gsize n_rows, gsize n_in);
/* What a prepared row stands for. */
void     rig_restore_row  (LlkActivation form, gconstpointer row, gsize n, gdouble *x);

/* The same bits, or both NaN. */
gboolean rig_is_same      (gfloat a, gfloat b);

/* Exactly @size bytes on a 64-byte boundary, filled with 0xff. */
gpointer rig_alloc        (gsize size);
void     rig_free         (gpointer mem);
