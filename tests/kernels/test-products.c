/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of every set and type. What computes by the definition has the portable
 * set's bits; the portable set, and what rounds in other ways (tiles of bfloat16), is
 * within a stated bound of sums in double. And no product writes where nothing belongs, nor
 * mixes rows, outputs or calls.
 */

#include <float.h>
#include <math.h>
#include <string.h>

#include "products-rig.h"

/* Integers, and floats unless a set has tiles for them. */
static gboolean
is_definition (const LlkProduct *product)
{
  return product->activation == LLK_ACTIVATION_Q8 || product->activation == LLK_ACTIVATION_F32;
}

/* What products see of one output: the weights, those that outliers meet, and their magnitudes,
 * those of both parts of a weight with a minimum added up. */
static void
unpack_output (const Problem *p,
               gsize          output,
               gfloat        *w,
               gdouble       *exact,
               gdouble       *magnitudes)
{
  LlkPanelShape shape = llk_panel_shape (p->w.type);
  const guint8 *panel = get_panel (p, output / LLK_PANEL_OUTPUTS);
  LlkRun run;

  llk_panel_unpack (p->w.type, panel, 0, p->w.n_in, output % LLK_PANEL_OUTPUTS, w);
  if (shape.bits == 0)
    for (gsize i = 0; i < p->w.n_in; i++)
      magnitudes[i] = fabs ((gdouble) w[i]);
  else
    for (gsize i = 0; i < p->w.n_in; i += LLK_RUN)
      {
        gsize n = MIN (LLK_RUN, p->w.n_in - i);

        llk_panel_get_run (p->w.type, panel, n, output % LLK_PANEL_OUTPUTS, &run);
        rig_get_magnitudes (p->w.type, &run, n, magnitudes + i);
        rig_get_exact (p->w.type, &run, n, exact + i);
        panel += llk_panel_run_bytes (shape, n);
      }
}

/* How far from a sum in double a product may be: each step of an accumulator rounds
 * what there is by then, at most all @magnitudes, and the lowest float is a limit too. */
static gdouble
get_tolerance (const Problem *p,
               const gdouble *x,
               const gdouble *magnitudes)
{
  gsize n = p->w.n_in, n_runs = (n + LLK_RUN - 1) / LLK_RUN;
  /* An F16 weight is rounded to the eight bits of a bfloat16: by half of the last of them. */
  const gdouble rounded = p->w.type == LLK_F16 ? 0x1p-8 : 0;
  gdouble sum = 0, tiles = 0;

  for (gsize i = 0; i < n; i++)
    {
      sum += magnitudes[i] * fabs (x[i]);
      tiles += magnitudes[i] * fabs (x[i]) * rounded + FLT_MIN * (magnitudes[i] + fabs (x[i]) + 1);
    }
  switch (p->product->activation)
    {
    case LLK_ACTIVATION_F32:
      return sum * 0x1p-24 * ((gdouble) n / 4 + 3) + 0x1p-149 * (gdouble) n;
    case LLK_ACTIVATION_BF16:
      /* Only normal numbers are known. */
      return sum * 0x1p-24 * ((gdouble) n / 32 + 20) + tiles;
    default:
      /* Two sums for each run, a product of scales, and what unpacking rounds; that
       * product, where it is denormal, times integers of up to 2^14. */
      return sum * 0x1p-24 * (2 * (gdouble) n_runs + 4) + 0x1p-136 * (gdouble) n;
    }
}

/* Marks the outliers of row @r; returns how far they may be from their sum besides: by
 * a rounding each of @magnitudes, and by steps that are denormal. */
static gdouble
mark_outliers (const Problem *p,
               gsize          r,
               gdouble        magnitudes,
               gboolean      *is_outlier)
{
  gsize row_bytes = llk_activation_bytes (p->product->activation, p->w.n_in);
  gdouble tolerance = 0;
  gconstpointer row = (guint8 *) p->rows + r * row_bytes;
  const LlkActivationRun *runs = row;
  const LlkOutlier *outliers = llk_activation_get_outliers (row, p->w.n_in);

  memset (is_outlier, 0, p->w.n_in * sizeof *is_outlier);
  for (gsize i = 0; i < p->w.n_in && p->product->activation == LLK_ACTIVATION_Q8; i += LLK_RUN)
    for (gsize k = 0; k < runs[i / LLK_RUN].n_outliers; k++, outliers++)
      {
        is_outlier[i + outliers->place] = TRUE;
        tolerance += magnitudes * 0x1p-24 + 0x1p-135 * fabs ((gdouble) outliers->x);
      }
  return tolerance;
}

static void
check_reference (const Problem *p,
                 const gfloat  *y)
{
  gsize n = p->w.n_in;
  gsize row_bytes = llk_activation_bytes (p->product->activation, n);
  g_autofree gfloat *w = g_new (gfloat, n);
  g_autofree gdouble *exact = g_new (gdouble, n);
  g_autofree gboolean *is_outlier = g_new (gboolean, n);
  g_autofree gdouble *magnitudes = g_new (gdouble, n);
  g_autofree gdouble *x = g_new (gdouble, n * p->n_rows);

  for (gsize r = 0; r < p->n_rows; r++)
    rig_restore_row (p->product->activation, (guint8 *) p->rows + r * row_bytes, n, x + r * n);

  for (gsize o = 0; o < p->w.n_out; o++)
    {
      unpack_output (p, o, w, exact, magnitudes);
      for (gsize r = 0; r < p->n_rows; r++)
        {
          gdouble found = (gdouble) y[r * p->w.n_out + o];
          gdouble tolerance = get_tolerance (p, x + r * n, magnitudes);
          gdouble sum = 0, all = 0;

          for (gsize i = 0; i < n; i++)
            all += magnitudes[i] * fabs (x[r * n + i]);
          tolerance += mark_outliers (p, r, all, is_outlier);
          for (gsize i = 0; i < n; i++)
            sum += (is_outlier[i] ? exact[i] : (gdouble) w[i]) * x[r * n + i];
          if (!(fabs (found - sum) <= tolerance))
            {
              g_test_message ("row %zu, output %zu of %zu inputs and %zu outputs: %g, "
                              "%g expected within %g", r, o, n, p->w.n_out, found, sum, tolerance);
              g_test_fail ();
              g_assert_not_reached ();
            }
        }
    }
}

/* The same bits as the portable product. */
static void
check_definition (const Problem *p,
                  const gfloat  *y)
{
  const LlkProduct *product = llk_ops_portable ()->product->find (p->w.type);
  g_autofree gfloat *expected = g_new (gfloat, p->n_rows * p->w.n_out);

  g_assert_cmpint (product->activation, ==, p->product->activation);
  product->multiply (&p->w, 0, p->n_panels, p->rows, p->n_rows, expected, p->w.n_out, FALSE,
                     NULL);
  assert_same (y, expected, p->n_rows * p->w.n_out);
}

/* Row by row, panel by panel, added, and among strangers: always the same. */
static void
check_parts (const Problem *p,
             const gfloat  *y)
{
  const gfloat guard = -1234.5f;
  gsize n_out = p->w.n_out, stride = n_out + 3;
  g_autofree gfloat *part = g_new (gfloat, p->n_rows * stride);
  g_autofree gfloat *expected = g_new (gfloat, p->n_rows * stride);

  for (gsize i = 0; i < p->n_rows * stride; i++)
    part[i] = expected[i] = guard;

  /* Each row alone. */
  for (gsize r = 0; r < p->n_rows; r++)
    {
      multiply (p, 0, p->n_panels, r, 1, part + r * stride, stride, FALSE);
      memcpy (expected + r * stride, y + r * n_out, n_out * sizeof *y);
    }
  assert_same (part, expected, p->n_rows * stride);

  /* Two calls for the rows, to be added. */
  for (gsize r = 0; r < p->n_rows; r++)
    for (gsize o = 0; o < n_out; o++)
      {
        part[r * stride + o] = (gfloat) (r + o);
        expected[r * stride + o] = (gfloat) (r + o) + y[r * n_out + o];
      }
  multiply (p, 0, p->n_panels, 0, p->n_rows / 3, part, stride, TRUE);
  multiply (p, 0, p->n_panels, p->n_rows / 3, p->n_rows - p->n_rows / 3,
            part + p->n_rows / 3 * stride, stride, TRUE);
  assert_same (part, expected, p->n_rows * stride);

  /* Some panels: outputs of others keep what they have. */
  for (gsize first = 0; first < p->n_panels; first++)
    {
      gsize n_panels = 1 + first % (p->n_panels - first);
      gsize end = MIN ((first + n_panels) * LLK_PANEL_OUTPUTS, n_out);

      for (gsize i = 0; i < p->n_rows * stride; i++)
        part[i] = expected[i] = guard;
      for (gsize r = 0; r < p->n_rows; r++)
        for (gsize o = first * LLK_PANEL_OUTPUTS; o < end; o++)
          expected[r * stride + o] = y[r * n_out + o];
      multiply (p, first, n_panels, 0, p->n_rows, part, stride, FALSE);
      assert_same (part, expected, p->n_rows * stride);
    }
}

static void
check_problem (const ProductCase *of,
               gsize              n_in,
               gsize              n_out,
               gsize              n_rows,
               RigFill            weights,
               RigRows            rows)
{
  gboolean is_finite = weights != RIG_ANY && rows != RIG_ROWS_OVERFLOW;
  g_autofree gfloat *y = NULL;
  Problem p;

  init_problem (&p, of, n_in, n_out, n_rows);
  fill_problem (&p, weights, rows);
  y = multiply_all (&p);
  if (is_definition (p.product) && of->ops != llk_ops_portable ())
    check_definition (&p, y);
  else if (is_finite)
    check_reference (&p, y);
  check_parts (&p, y);
  clear_problem (&p);
}

static void
test_values (gconstpointer data)
{
  const ProductCase *of = data;
  gsize block = llk_type_block_size (of->type);
  gsize n_in = block == 1 ? 99 : block == 32 ? 352 : 512;

  for (guint weights = 0; weights < RIG_N_FILLS; weights++)
    for (guint rows = 0; rows < RIG_N_ROWS; rows++)
      check_problem (of, n_in, 19, 5, weights, rows);
}

/* Ordinary values, so that a lost input shows; each row with a single value shows
 * one that is in a wrong place. */
static void
test_shapes (gconstpointer data)
{
  static const gsize outputs[] = { 1, 2, 15, 16, 17, 31, 33, 64, 70 };
  static const gsize rows[] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40 };
  const ProductCase *of = data;
  gsize block = llk_type_block_size (of->type);
  gsize sizes[] = { block, 2 * block, 3 * block, 7 * block, 33 * block };
  guint step = 0;

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    if (sizes[i] <= 2048)
      for (guint j = 0; j < G_N_ELEMENTS (outputs); j++, step++)
        check_problem (of, sizes[i], outputs[j], rows[step * 4 % G_N_ELEMENTS (rows)], RIG_NORMAL,
                       j % 2 == 0 ? RIG_ROWS_NORMAL : RIG_ROWS_SINGLE);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    check_problem (of, block == 1 ? 65 : MAX (block, 64), 21, rows[i], RIG_NORMAL, RIG_ROWS_SINGLE);
}

/* Inputs of a real model; for 7 B of Qwen 2.5 they are 18944. */
static void
test_long (gconstpointer data)
{
  const ProductCase *of = data;

  check_problem (of, 5632, 18, 3, RIG_NORMAL, RIG_ROWS_NORMAL);
  check_problem (of, 2048, 33, 34, RIG_NORMAL, RIG_ROWS_SINGLE);
  check_problem (of, 18944, 17, 2, RIG_MIXED, RIG_ROWS_MIXED);
}

/* A row that holds a NaN or an infinity is no number for every output, and the others
 * don't notice. */
static void
test_bad_rows (gconstpointer data)
{
  static const gfloat bad[] = { NAN, -NAN, INFINITY, -INFINITY };
  const ProductCase *of = data;
  gsize n_in = MAX (llk_type_block_size (of->type), 64) * 2, n_out = 35, n_rows = 20;

  for (guint i = 0; i < 4 * G_N_ELEMENTS (bad); i++)
    {
      gfloat value = bad[i % G_N_ELEMENTS (bad)];
      gsize row = (gsize) g_test_rand_int_range (0, (gint) n_rows);
      g_autofree gfloat *good = NULL, *y = NULL;
      gboolean is_float;
      Problem p;

      init_problem (&p, of, n_in, n_out, n_rows);
      fill_problem (&p, RIG_NORMAL, RIG_ROWS_NORMAL);
      good = multiply_all (&p);
      p.x[row * n_in + (gsize) g_test_rand_int_range (0, (gint) n_in)] = value;
      prepare_rows (&p);
      y = multiply_all (&p);

      is_float = p.product->activation == LLK_ACTIVATION_F32 ||
                 p.product->activation == LLK_ACTIVATION_BF16;
      for (gsize o = 0; o < n_out; o++)
        {
          if (is_float && isinf (value))
            g_assert_false (isfinite (y[row * n_out + o]));
          else
            g_assert_true (isnan (y[row * n_out + o]));
          y[row * n_out + o] = good[row * n_out + o];
        }
      assert_same (y, good, n_rows * n_out);
      clear_problem (&p);
    }
}

/* A weight's scale that is no number belongs to one output. */
static void
test_bad_weights (gconstpointer data)
{
  const ProductCase *of = data;
  gsize n_in = MAX (llk_type_block_size (of->type), 64) * 3, n_out = 35, n_rows = 18;
  gsize n_blocks = n_in / llk_type_block_size (of->type);

  if (of->type == LLK_MXFP4) /* has no NaN */
    return;

  for (guint i = 0; i < 12; i++)
    {
      gsize output = (gsize) g_test_rand_int_range (0, (gint) n_out);
      gsize block = (gsize) g_test_rand_int_range (0, (gint) n_blocks);
      g_autofree gfloat *good = NULL, *y = NULL;
      Problem p;

      init_problem (&p, of, n_in, n_out, n_rows);
      fill_problem (&p, RIG_NORMAL, RIG_ROWS_NORMAL);
      good = multiply_all (&p);
      rig_spoil_block (of->type, p.blocks + output * p.file_row_bytes +
                                 block * llk_type_block_bytes (of->type));
      pack_panels (&p);
      y = multiply_all (&p);

      for (gsize r = 0; r < n_rows; r++)
        {
          g_assert_true (isnan (y[r * n_out + output]));
          y[r * n_out + output] = good[r * n_out + output];
        }
      assert_same (y, good, n_rows * n_out);
      clear_problem (&p);
    }
}

/* The root mean square of how far products are from sums in double of the file's weights; and of
 * what outliers give of these sums. */
static gdouble
get_error (const Problem  *p,
           gboolean       (*is_outlier) (gsize input),
           gdouble        *outliers)
{
  gsize n = p->w.n_in, n_out = p->w.n_out;
  g_autofree gfloat *y = multiply_all (p);
  g_autofree gfloat *w = g_new (gfloat, n);
  gdouble errors = 0, parts = 0;

  for (gsize o = 0; o < n_out; o++)
    {
      llk_ops_portable ()->vector->unpack (p->w.type, p->blocks + o * p->file_row_bytes, w, n);
      for (gsize r = 0; r < p->n_rows; r++)
        {
          gdouble sum = 0, part = 0;

          for (gsize i = 0; i < n; i++)
            {
              sum += (gdouble) w[i] * p->x[r * n + i];
              part += is_outlier (i) ? (gdouble) w[i] * p->x[r * n + i] : 0;
            }
          errors += pow ((gdouble) y[r * n_out + o] - sum, 2);
          parts += pow (part, 2);
        }
    }
  *outliers = sqrt (parts / (gdouble) (p->n_rows * n_out));
  return sqrt (errors / (gdouble) (p->n_rows * n_out));
}

static gboolean
is_outlier (gsize input)
{
  return input % LLK_RUN == 17 || input % LLK_RUN == 130;
}

/* A few inputs that are a hundred times as large as the others take nothing from these: with one
 * scale for all of a run, errors would be five hundredths of what the outliers give. */
static void
test_outliers (gconstpointer data)
{
  const ProductCase *of = data;
  gdouble error, outliers;
  Problem p;

  init_problem (&p, of, 512, 40, 20);
  if (p.product->activation == LLK_ACTIVATION_Q8)
    {
      fill_problem (&p, RIG_NORMAL, RIG_ROWS_NORMAL);
      for (gsize i = 0; i < p.n_rows * p.w.n_in; i++)
        if (is_outlier (i % p.w.n_in))
          p.x[i] = copysignf (100 * (1 + fabsf (p.x[i])), p.x[i]);
      prepare_rows (&p);
      error = get_error (&p, is_outlier, &outliers);
      g_test_message ("%g of %g", error, outliers);
      g_assert_cmpfloat (error, <=, 0.012 * outliers);
    }
  clear_problem (&p);
}

/* More rows, runs and outliers than a product on tiles lists at once: the bits of a few rows. */
static void
test_many (gconstpointer data)
{
  const ProductCase *of = data;
  gsize n_in = 66 * LLK_RUN, n_out = 21, n_rows = 530;
  g_autofree gfloat *y = NULL, *few = g_new (gfloat, n_rows * n_out);
  Problem p;

  if (of->type != LLK_Q4_1 && of->type != LLK_Q8_0)
    return;
  init_problem (&p, of, n_in, n_out, n_rows);
  if (p.product->scratch > 0)
    {
      fill_problem (&p, RIG_NORMAL, RIG_ROWS_OUTLIERS);
      y = multiply_all (&p);
      for (gsize r = 0; r < n_rows; r += 7)
        multiply (&p, 0, p.n_panels, r, MIN (7, n_rows - r), few + r * n_out, n_out, FALSE);
      g_assert_cmpmem (y, n_rows * n_out * sizeof *y, few, n_rows * n_out * sizeof *few);
    }
  clear_problem (&p);
}

int
main (int   argc,
      char *argv[])
{
  static const ProductTest tests[] = {
    { "values", test_values },           { "shapes", test_shapes },
    { "long", test_long },               { "bad-rows", test_bad_rows },
    { "bad-weights", test_bad_weights },  { "outliers", test_outliers },
    { "many", test_many },
  };

  g_test_init (&argc, &argv, NULL);
  add_tests ("products", tests, G_N_ELEMENTS (tests));

  return g_test_run ();
}
