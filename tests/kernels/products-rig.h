/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A matrix with rows of activations for one set of kernels, for the tests of products. */

#pragma once

#include "weights-rig.h"

#define RIG_MAX_PIECES 9

typedef struct
{
  const LlkOps *ops;
  LlkType type;
} ProductCase;

typedef struct
{
  const LlkOps *ops;
  const LlkProduct *product;
  LlkMatrix w;
  LlkPiece pieces[RIG_MAX_PIECES];
  gsize n_panels, n_rows;
  gsize file_row_bytes;
  guint8 *blocks;        /* the file's */
  gfloat *x;             /* [n_rows][n_in] */
  gpointer rows;         /* prepared */
} Problem;

/* One piece, for all rows; the weights and rows of fill_problem(). */
void      init_problem  (Problem *p, const ProductCase *of, gsize n_in, gsize n_out, gsize n_rows);
void      fill_problem  (Problem *p, RigFill weights, RigRows rows);
void      clear_problem (Problem *p);

/* After a change of x: row @r has @n inputs, and zeros behind them. */
void      prepare_row   (Problem *p, gsize r, gsize n);
void      prepare_rows  (Problem *p);
/* Inputs of each piece, and how many rows are multiplied with it: packs the panels. */
void      cut_problem   (Problem *p, const gsize *n_in, const gsize *n_rows, gsize n_pieces);
/* After a change of blocks. */
void      pack_panels   (Problem *p);
/* A panel of the first piece. */
guint8   *get_panel     (const Problem *p, gsize i);

/* Some panels with some rows into @y, with garbage in the scratch memory and a
 * guard behind it. */
void      multiply      (const Problem *p, gsize first_panel, gsize n_panels, gsize first_row,
                         gsize n_rows, gfloat *y, gsize y_stride, gboolean is_added);
/* The whole product, rows n_out apart. */
gfloat   *multiply_all  (const Problem *p);

/* The same bits, or NaN in both. */
void      assert_same   (const gfloat *a, const gfloat *b, gsize n);

typedef struct
{
  const gchar *name;
  GTestDataFunc func;    /* gets a ProductCase */
} ProductTest;

/* Every test with every type of every set: /@prefix/set/type/name. */
void      add_tests     (const gchar *prefix, const ProductTest *tests, gsize n_tests);
