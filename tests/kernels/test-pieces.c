/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of matrices whose inputs were cut into pieces, for every set and type: the
 * bits are those of one piece, wherever the borders are, and a row has the bits of a
 * matrix that holds only the pieces that it is multiplied with.
 */

#include <math.h>

#include "products-rig.h"

/* Inputs that end in a run; of plain types at any input. */
static gsize
get_inputs (LlkType type)
{
  gsize block = llk_type_block_size (type);

  return block == 1 ? 1003 : block == 32 ? 1120 : 1280;
}

/* Borders at random multiples of 64, some of them at the same place or at an end. */
static void
make_cuts (gsize  n_in,
           gsize  n_pieces,
           gsize *sizes)
{
  gsize borders[RIG_MAX_PIECES + 1] = { 0 };

  for (gsize i = 1; i < n_pieces; i++)
    {
      gsize border = (gsize) g_test_rand_int_range (0, (gint) (n_in / LLK_PIECE_INPUTS) + 1);
      gsize j = i;

      for (; j > 1 && borders[j - 1] > border * LLK_PIECE_INPUTS; j--)
        borders[j] = borders[j - 1];
      borders[j] = border * LLK_PIECE_INPUTS;
    }
  borders[n_pieces] = n_in;
  for (gsize i = 0; i < n_pieces; i++)
    sizes[i] = borders[i + 1] - borders[i];
}

/* Levels of rows: pieces have fewer and fewer. */
static void
make_rows (gsize  n_rows,
           gsize  n_pieces,
           gsize *rows)
{
  gsize left = g_test_rand_bit () ? G_MAXSIZE : n_rows;

  for (gsize i = 0; i < n_pieces; i++)
    {
      rows[i] = left;
      if (g_test_rand_bit ())
        left = (gsize) g_test_rand_int_range (0, (gint) MIN (left, n_rows) + 1);
    }
}

static gsize
count_inputs (const Problem *p,
              gsize          row)
{
  gsize n = 0;

  for (gsize i = 0; i < p->w.n_pieces && p->pieces[i].n_rows > row; i++)
    n += p->pieces[i].n_in;
  return n;
}

/* Row @r of @p times its first @n inputs, which are a matrix of their own. */
static void
multiply_alone (const Problem *p,
                gsize          r,
                gsize          n,
                gfloat        *y)
{
  gsize bytes = llk_panel_bytes (p->w.type, 0, n);
  gpointer row = rig_alloc (llk_activation_bytes (p->product->activation, n));
  gpointer scratch = rig_alloc (p->product->few_scratch + 64);
  guint8 *panels = rig_alloc (p->n_panels * bytes);
  LlkPiece piece = { panels, n, G_MAXSIZE };
  LlkMatrix w = { p->w.type, n, p->w.n_out, &piece, 1 };

  for (gsize panel = 0; panel < p->n_panels; panel++)
    llk_panel_pack (p->w.type, p->blocks, p->file_row_bytes, p->w.n_in, p->w.n_out,
                    panel * LLK_PANEL_OUTPUTS, 0, n, panels + panel * bytes);
  p->ops->product->prepare (p->product->activation, p->x + r * p->w.n_in, n, n, row);
  p->product->multiply (&w, 0, p->n_panels, row, 1, y, p->w.n_out, FALSE, scratch);
  rig_free (panels);
  rig_free (row);
  rig_free (scratch);
}

/* Any cut: the bits of one piece, also for each row alone and when added. */
static void
check_cut (Problem      *p,
           const gfloat *expected,
           const gsize  *sizes,
           gsize         n_pieces)
{
  gsize n_out = p->w.n_out, n = p->n_rows * n_out;
  gsize n_rows[RIG_MAX_PIECES];
  g_autofree gfloat *y = NULL, *sums = g_new (gfloat, n);

  for (gsize i = 0; i < n_pieces; i++)
    n_rows[i] = G_MAXSIZE;
  cut_problem (p, sizes, n_rows, n_pieces);
  y = multiply_all (p);
  assert_same (y, expected, n);

  for (gsize r = 0; r < p->n_rows; r++)
    multiply (p, 0, p->n_panels, r, 1, y + r * n_out, n_out, FALSE);
  assert_same (y, expected, n);

  for (gsize i = 0; i < n; i++)
    {
      y[i] = (gfloat) i;
      sums[i] = (gfloat) i + expected[i];
    }
  multiply (p, 0, 1, 0, p->n_rows, y, n_out, TRUE);
  multiply (p, 1, p->n_panels - 1, 0, p->n_rows, y, n_out, TRUE);
  assert_same (y, sums, n);
}

static void
test_cuts (gconstpointer data)
{
  const ProductCase *of = data;
  gsize n_in = get_inputs (of->type);
  /* At the ends of runs, in runs, in a run's every quarter, and with nothing between. */
  const gsize fixed[][RIG_MAX_PIECES] = {
    { 256, 512, n_in - 768 },
    { 64, n_in - 64 },
    { 64, 64, 64, 64, 64, 64, 64, 64, n_in - 512 },
    { 0, 0, 320, 0, 448, 0, n_in - 768, 0, 0 },
    { n_in - 64 - n_in % 64, 64 + n_in % 64 },
  };
  gsize sizes[RIG_MAX_PIECES];

  for (guint weights = RIG_NORMAL; weights <= RIG_ANY; weights += RIG_ANY)
    {
      g_autofree gfloat *expected = NULL;
      Problem p;

      init_problem (&p, of, n_in, 83, 4);
      fill_problem (&p, weights, RIG_ROWS_NORMAL);
      expected = multiply_all (&p);
      for (guint i = 0; i < G_N_ELEMENTS (fixed); i++)
        check_cut (&p, expected, fixed[i], RIG_MAX_PIECES);
      for (gsize n_pieces = 2; n_pieces <= RIG_MAX_PIECES; n_pieces++)
        {
          make_cuts (n_in, n_pieces, sizes);
          check_cut (&p, expected, sizes, n_pieces);
        }
      clear_problem (&p);
    }
}

/* Makes an input of one output no number: only rows that are multiplied with it change. */
static void
check_bad_weight (Problem      *p,
                  const gfloat *expected)
{
  gsize unit = llk_panel_shape (p->w.type).bits != 0 ? LLK_RUN : 1;
  gsize n_in = p->w.n_in, n_out = p->w.n_out, output = n_out / 2;
  gsize first = (n_in - 1) / unit * unit; /* inputs that it spoils */
  g_autofree gfloat *y = NULL;

  if (p->w.type == LLK_MXFP4) /* has no NaN */
    return;

  rig_spoil_block (p->w.type, p->blocks + (output + 1) * p->file_row_bytes
                                - llk_type_block_bytes (p->w.type));
  pack_panels (p);
  y = multiply_all (p);
  for (gsize r = 0; r < p->n_rows; r++)
    if (count_inputs (p, r) > first)
      {
        g_assert_true (isnan (y[r * n_out + output]));
        y[r * n_out + output] = expected[r * n_out + output];
      }
  assert_same (y, expected, p->n_rows * n_out);
}

static void
check_rows (const ProductCase *of,
            gsize              n_out,
            gsize              n_rows,
            gsize              n_pieces)
{
  gsize n_in = get_inputs (of->type);
  gsize sizes[RIG_MAX_PIECES], rows[RIG_MAX_PIECES];
  g_autofree gfloat *y = NULL, *expected = g_new0 (gfloat, n_rows * n_out);
  Problem p;

  init_problem (&p, of, n_in, n_out, n_rows);
  fill_problem (&p, RIG_NORMAL, RIG_ROWS_NORMAL);
  make_cuts (n_in, n_pieces, sizes);
  make_rows (n_rows, n_pieces, rows);
  cut_problem (&p, sizes, rows, n_pieces);
  for (gsize r = 0; r < n_rows; r++)
    {
      gsize n = count_inputs (&p, r);

      prepare_row (&p, r, n);
      if (n > 0)
        multiply_alone (&p, r, n, expected + r * n_out);
    }
  y = multiply_all (&p);
  assert_same (y, expected, n_rows * n_out);
  check_bad_weight (&p, expected);
  clear_problem (&p);
}

/* Rows that only the first pieces are multiplied with. */
static void
test_rows (gconstpointer data)
{
  static const gsize n_rows[] = { 1, 2, 5, 9, 18 };

  for (guint i = 0; i < G_N_ELEMENTS (n_rows); i++)
    for (gsize n_pieces = 1; n_pieces <= RIG_MAX_PIECES; n_pieces += 4)
      check_rows (data, n_pieces == 9 ? 83 : 17, n_rows[i], n_pieces);
  check_rows (data, 17, 70, 5); /* more than go along the weights together */
}

int
main (int   argc,
      char *argv[])
{
  static const ProductTest tests[] = {
    { "cuts", test_cuts },
    { "rows", test_rows },
  };

  g_test_init (&argc, &argv, NULL);
  add_tests ("pieces", tests, G_N_ELEMENTS (tests));

  return g_test_run ();
}
