/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Products of every set, type and kind of rows. What computes by the definition
 * of generated rows has the portable set's bits; the portable set, and what rounds
 * in other ways (tiles), is within a stated bound of sums in double. And nobody
 * writes where nothing belongs, nor mixes rows, outputs or calls.
 */

#include <float.h>
#include <math.h>
#include <string.h>

#include "weights-rig.h"

typedef struct
{
  const LlkOps *ops;
  LlkType type;
  LlkRowKind kind;
} Case;

/* One matrix with rows for one set. */
typedef struct
{
  const Case *of;
  const LlkProduct *product;
  LlkMatrix w;
  gsize n_panels, n_rows;
  gsize row_bytes;       /* of a matrix row in the file */
  guint8 *blocks;        /* the file's */
  gpointer panels;
  gfloat *x;             /* [n_rows][n_in] */
  gpointer rows;         /* prepared */
} Problem;

static void
prepare_rows (Problem *p)
{
  gsize bytes = llk_activation_bytes (p->product->activation, p->w.n_in);

  for (gsize r = 0; r < p->n_rows; r++)
    p->of->ops->product->prepare (p->product->activation, p->x + r * p->w.n_in, p->w.n_in,
                                  (guint8 *) p->rows + r * bytes);
}

static void
pack_panels (Problem *p)
{
  gsize bytes = llk_panel_bytes (p->w.type, p->w.n_in);

  for (gsize i = 0; i < p->n_panels; i++)
    llk_panel_pack (p->w.type, p->blocks, p->row_bytes, p->w.n_in, p->w.n_out,
                    i * LLK_PANEL_OUTPUTS, (guint8 *) p->panels + i * bytes);
}

static void
init_problem (Problem    *p,
              const Case *of,
              gsize       n_in,
              gsize       n_out,
              gsize       n_rows)
{
  gsize n_blocks = n_in / llk_type_block_size (of->type);

  *p = (Problem) { .of = of, .n_rows = n_rows };
  p->product = of->ops->product->find (of->type, of->kind);
  g_assert_nonnull (p->product);
  p->n_panels = (n_out + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS;
  p->row_bytes = n_blocks * llk_type_block_bytes (of->type);
  p->blocks = g_malloc (p->row_bytes * n_out);
  p->panels = rig_alloc (p->n_panels * llk_panel_bytes (of->type, n_in));
  p->w = (LlkMatrix) { of->type, p->panels, n_in, n_out };
  p->x = g_new (gfloat, n_rows * n_in);
  p->rows = rig_alloc (n_rows * llk_activation_bytes (p->product->activation, n_in));
}

static void
fill_problem (Problem *p,
              RigFill  weights,
              RigRows  rows)
{
  rig_fill_weights (p->w.type, weights, p->blocks,
                    p->w.n_out * p->w.n_in / llk_type_block_size (p->w.type));
  pack_panels (p);
  rig_fill_rows (rows, p->x, p->n_rows, p->w.n_in);
  prepare_rows (p);
}

static void
clear_problem (Problem *p)
{
  g_free (p->blocks);
  g_free (p->x);
  rig_free (p->panels);
  rig_free (p->rows);
}

/* Some panels with some rows into @y, with garbage in the scratch memory and a
 * guard behind it. */
static void
multiply (const Problem *p,
          gsize          first_panel,
          gsize          n_panels,
          gsize          first_row,
          gsize          n_rows,
          gfloat        *y,
          gsize          y_stride,
          gboolean       is_added)
{
  gsize bytes = p->product->get_scratch (p->w.type, p->w.n_in);
  gsize row_bytes = llk_activation_bytes (p->product->activation, p->w.n_in);
  guint8 *scratch = rig_alloc (bytes + 64);

  p->product->multiply (&p->w, first_panel, n_panels, (guint8 *) p->rows + first_row * row_bytes,
                        n_rows, y, y_stride, is_added, bytes > 0 ? scratch : NULL);
  for (gsize i = 0; i < 64; i++)
    g_assert_cmphex (scratch[bytes + i], ==, 0xff);
  rig_free (scratch);
}

/* The whole product, rows n_out apart. */
static gfloat *
multiply_all (const Problem *p)
{
  gfloat *y = g_new (gfloat, p->n_rows * p->w.n_out);

  multiply (p, 0, p->n_panels, 0, p->n_rows, y, p->w.n_out, FALSE);
  return y;
}

static void
assert_same (const gfloat *a,
             const gfloat *b,
             gsize         n)
{
  for (gsize i = 0; i < n; i++)
    if (!rig_is_same (a[i], b[i]))
      {
        g_test_message ("value %zu of %zu: %a, %a expected", i, n, (gdouble) a[i], (gdouble) b[i]);
        g_test_fail ();
        g_assert_not_reached ();
      }
}

/* Whether a product computes by the definition of generated rows. */
static gboolean
is_definition (const LlkProduct *product)
{
  return product->activation == LLK_ACTIVATION_Q8 || product->activation == LLK_ACTIVATION_F32;
}

/* How far from exact one output's weights may be once they are rounded for tiles. With
 * bfloat16 ones each has 8 bits. Integers have one scale for 256 inputs: the largest value
 * that these could have with their own scales, / 127; they are within 0.8 steps, as
 * the factors between scales are rounded too. */
static void
get_weight_errors (const Problem *p,
                   gsize          output,
                   const gfloat  *w,
                   gdouble       *errors)
{
  gsize n = p->w.n_in;
  g_autofree gfloat *largest = g_new (gfloat, n);

  rig_get_largest (p->w.type, p->blocks + output * p->row_bytes, n, largest);
  for (gsize first = 0; first < n; first += 256)
    {
      gsize end = MIN (first + 256, n);
      gdouble magnitude = 0;

      for (gsize i = first; i < end; i++)
        magnitude = fmax (magnitude, (gdouble) largest[i]);
      for (gsize i = first; i < end; i++)
        if (p->product->activation == LLK_ACTIVATION_BF16)
          errors[i] = fabs ((gdouble) w[i]) / 256 + FLT_MIN;
        else
          errors[i] = magnitude / 127 * 0.8 + 1e-30;
    }
}

/* Against sums in double. @bound: the largest part of a weight. */
static void
check_reference (const Problem *p,
                 const gfloat  *y,
                 gdouble        bound)
{
  gsize n = p->w.n_in;
  gsize row_bytes = llk_activation_bytes (p->product->activation, n);
  gsize panel_bytes = llk_panel_bytes (p->w.type, n);
  g_autofree gfloat *w = g_new (gfloat, n);
  g_autofree gdouble *x = g_new (gdouble, n * p->n_rows);
  g_autofree gdouble *errors = g_new0 (gdouble, n);

  for (gsize r = 0; r < p->n_rows; r++)
    rig_restore_row (p->product->activation, (guint8 *) p->rows + r * row_bytes, n, x + r * n);

  for (gsize o = 0; o < p->w.n_out; o++)
    {
      llk_panel_unpack (p->w.type,
                        (guint8 *) p->panels + o / LLK_PANEL_OUTPUTS * panel_bytes, n,
                        o % LLK_PANEL_OUTPUTS, w);
      if (!is_definition (p->product))
        get_weight_errors (p, o, w, errors);

      for (gsize r = 0; r < p->n_rows; r++)
        {
          gdouble sum = 0, magnitude = 0, tolerance = 0;

          for (gsize i = 0; i < n; i++)
            {
              gdouble value = x[r * n + i];

              sum += w[i] * value;
              magnitude += fabs (value);
              tolerance += errors[i] * fabs (value);
            }
          /* Each step of an accumulator rounds what there is by then, products of
           * scales are rounded before, and the lowest float is a limit too; tiles of
           * bfloat16 know normal ones alone. */
          tolerance += magnitude * bound * 0x1p-24 * ((gdouble) n / 16 + 8);
          if (p->product->activation == LLK_ACTIVATION_BF16)
            tolerance += FLT_MIN * (gdouble) n * (bound + 1);
          else
            tolerance += 0x1p-148 * ((gdouble) n + 64);
          if (!(fabs (y[r * p->w.n_out + o] - sum) <= tolerance))
            {
              g_test_message ("row %zu, output %zu of %zu inputs and %zu outputs: %g, "
                              "%g expected within %g", r, o, n,
                              p->w.n_out, (gdouble) y[r * p->w.n_out + o], sum, tolerance);
              g_test_fail ();
              g_assert_not_reached ();
            }
        }
    }
}

/* The same bits as the portable product, which both kinds of rows have in common. */
static void
check_definition (const Problem *p,
                  const gfloat  *y)
{
  const LlkProductOps *portable = llk_ops_portable ()->product;
  const LlkProduct *product = portable->find (p->w.type, LLK_ROWS_GENERATED);
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
check_problem (const Case *of,
               gsize       n_in,
               gsize       n_out,
               gsize       n_rows,
               RigFill     weights,
               RigRows     rows)
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
    check_reference (&p, y, rig_get_bound (of->type, weights));
  check_parts (&p, y);
  clear_problem (&p);
}

static void
test_values (gconstpointer data)
{
  const Case *of = data;
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
  const Case *of = data;
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
  const Case *of = data;

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
  const Case *of = data;
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
  const Case *of = data;
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
      rig_spoil_block (of->type, p.blocks + output * p.row_bytes +
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

static void
add_case (const LlkOps *ops,
          LlkType       type,
          LlkRowKind    kind)
{
  static const struct { const gchar *name; GTestDataFunc func; } tests[] = {
    { "values", test_values },           { "shapes", test_shapes },
    { "long", test_long },               { "bad-rows", test_bad_rows },
    { "bad-weights", test_bad_weights },
  };
  Case *data = g_new (Case, 1);

  *data = (Case) { ops, type, kind };
  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/products/%s/%s/%s/%s", ops->name,
                                                llk_type_name (type),
                                                kind == LLK_ROWS_PROMPT ? "prompt" : "generated",
                                                tests[i].name);

      if (i + 1 == G_N_ELEMENTS (tests)) /* frees after it ran */
        g_test_add_data_func_full (path, data, tests[i].func, g_free);
      else
        g_test_add_data_func (path, data, tests[i].func);
    }
}

static void
add_set (const LlkOps *ops)
{
  for (guint i = 0; i < RIG_N_TYPES; i++)
    {
      const LlkProduct *generated = ops->product->find (rig_types[i], LLK_ROWS_GENERATED);
      const LlkProduct *prompt = ops->product->find (rig_types[i], LLK_ROWS_PROMPT);

      add_case (ops, rig_types[i], LLK_ROWS_GENERATED);
      /* Most sets have one function for both. */
      if (prompt->multiply != generated->multiply || prompt->activation != generated->activation)
        add_case (ops, rig_types[i], LLK_ROWS_PROMPT);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    add_set (llk_ops_find (*name));

  return g_test_run ();
}
