/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* W8A8 products of every set of instructions: the same bits as the definition, which is compared with
 * sums in double. */

#include <glib.h>
#include <math.h>
#include <string.h>

#include "kernels/llk.h"

typedef struct
{
  gsize n_in, n_out, n_rows;
  float *w, *x;
  LlkW8Matrix matrix;
  int8_t *panels;
  guint8 *rows;
  gsize row_bytes, n_panels;
} Problem;

static float
next_value (GRand *random)
{
  return (float) (g_rand_double (random) + g_rand_double (random) - 1);
}

static void
pack (Problem *p)
{
  gsize bytes = llk_w8_panel_bytes (p->n_in, p->matrix.n_hot);

  g_aligned_free (p->panels);
  p->matrix.panels = p->panels = g_aligned_alloc (p->n_panels, bytes, 64);
  for (gsize i = 0; i < p->n_panels; i++)
    llk_w8_pack (&p->matrix, p->w + i * LLK_W8_OUTPUTS * p->n_in, p->n_in,
                 MIN (p->n_out - i * LLK_W8_OUTPUTS, LLK_W8_OUTPUTS), p->panels + i * bytes);
}

static void
init_problem (Problem *p,
              gsize    n_in,
              gsize    n_out,
              gsize    n_rows,
              guint32  seed)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (seed);

  *p = (Problem) { .n_in = n_in, .n_out = n_out, .n_rows = n_rows };
  p->n_panels = (n_out + LLK_W8_OUTPUTS - 1) / LLK_W8_OUTPUTS;
  p->w = g_new (float, n_in * n_out);
  p->x = g_new (float, n_in * n_rows);
  for (gsize i = 0; i < n_in * n_out; i++)
    p->w[i] = next_value (random);
  for (gsize i = 0; i < n_in * n_rows; i++)
    p->x[i] = 3 * next_value (random);
  p->matrix = (LlkW8Matrix) { .n_in = n_in, .n_out = n_out };
  pack (p);
  p->row_bytes = llk_w8_row_bytes (n_in);
  p->rows = g_aligned_alloc (n_rows, p->row_bytes, 64);
  memset (p->rows, 0xff, n_rows * p->row_bytes);
}

static void
clear_problem (Problem *p)
{
  g_free (p->w);
  g_free (p->x);
  g_aligned_free (p->panels);
  g_aligned_free (p->rows);
}

static LlkW8Row *
get_row (const Problem *p,
         gsize          r)
{
  return (LlkW8Row *) (gpointer) (p->rows + r * p->row_bytes);
}

static gsize
quantize (const Problem *p,
          const LlkOps  *ops,
          float          scale)
{
  gsize n = 0;

  for (gsize r = 0; r < p->n_rows; r++)
    n += ops->w8->quantize (p->x + r * p->n_in, p->n_in, scale, get_row (p, r));
  return n;
}

static float *
multiply (const Problem *p,
          const LlkOps  *ops,
          gboolean       is_added)
{
  float *y = g_new (float, p->n_rows * p->n_out);

  for (gsize i = 0; i < p->n_rows * p->n_out; i++)
    y[i] = (float) i / 7;
  ops->w8->multiply (&p->matrix, 0, p->n_panels, get_row (p, 0), p->n_rows, y, p->n_out, is_added);
  return y;
}

/* The definition against sums in double, of what the bytes stand for. */
static void
test_definition (void)
{
  const LlkOps *ops = llk_ops_portable ();
  g_autofree float *y = NULL;
  gsize n_beyond = 0;
  Problem p;

  init_problem (&p, 200, 35, 5, 1);
  for (gsize i = 0; i < p.n_rows * p.n_in; i++)
    n_beyond += fabsf (p.x[i]) > 2;
  g_assert_cmpuint (n_beyond, >, 0);
  g_assert_cmpuint (quantize (&p, ops, 2 / 127.0f), ==, n_beyond);
  y = multiply (&p, ops, FALSE);
  for (gsize r = 0; r < p.n_rows; r++)
    for (gsize o = 0; o < p.n_out; o++)
      {
        double sum = 0, size = 0;

        for (gsize i = 0; i < p.n_in; i++)
          {
            double x = p.x[r * p.n_in + i], clamped = CLAMP (x, -2, 2);

            sum += clamped * (double) p.w[o * p.n_in + i];
            size += fabs (clamped) + 2 * fabs ((double) p.w[o * p.n_in + i]);
          }
        /* each factor is off by half a step at most */
        g_assert_cmpfloat (fabs (sum - (double) y[r * p.n_out + o]), <=, size / 254 + 0.1);
      }
  clear_problem (&p);
}

/* Exact: small integers with scales that are powers of two. */
static void
test_exact (void)
{
  const LlkOps *ops = llk_ops_portable ();
  g_autofree float *y = NULL;
  Problem p;

  init_problem (&p, 70, 17, 3, 2);
  for (gsize i = 0; i < p.n_in * p.n_out; i++)
    p.w[i] = (float) ((gint) (i * 37 % 255) - 127) / 4;
  for (gsize o = 0; o < p.n_out; o++)
    p.w[o * p.n_in] = 127 / 4.0f;
  for (gsize i = 0; i < p.n_in * p.n_rows; i++)
    p.x[i] = (float) ((gint) (i * 53 % 255) - 127) / 8;
  pack (&p);
  g_assert_cmpuint (quantize (&p, ops, 1 / 8.0f), ==, 0);
  y = multiply (&p, ops, FALSE);
  for (gsize r = 0; r < p.n_rows; r++)
    for (gsize o = 0; o < p.n_out; o++)
      {
        double sum = 0;

        for (gsize i = 0; i < p.n_in; i++)
          sum += (double) p.x[r * p.n_in + i] * (double) p.w[o * p.n_in + i];
        g_assert_cmpfloat (sum, ==, (double) y[r * p.n_out + o]);
      }
  clear_problem (&p);
}

static void
assert_same (const float *a,
             const float *b,
             gsize        n)
{
  for (gsize i = 0; i < n; i++)
    if (memcmp (&a[i], &b[i], sizeof *a) != 0 && !(isnan (a[i]) && isnan (b[i])))
      g_error ("value %zu of %zu: %a, %a expected", i, n, (double) a[i], (double) b[i]);
}

/* The same bits as the definition, whatever the shape. */
static void
test_same (gconstpointer data)
{
  static const gsize shapes[][3] = {
    { 64, 16, 1 }, { 4, 1, 2 }, { 256, 64, 6 }, { 704, 80, 13 }, { 100, 129, 7 }, { 2048, 17, 4 },
    { 192, 63, 5 }, { 67, 96, 3 },
  };
  const LlkOps *ops = data, *portable = llk_ops_portable ();

  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (guint is_added = 0; is_added < 2; is_added++)
      {
        g_autofree float *y = NULL, *expected = NULL;
        g_autofree guint8 *rows = NULL;
        gsize n_beyond;
        Problem p;

        init_problem (&p, shapes[i][0], shapes[i][1], shapes[i][2], 3 + i);
        n_beyond = quantize (&p, portable, 1.5f / 127);
        rows = g_memdup2 (p.rows, p.n_rows * p.row_bytes);
        g_assert_cmpuint (quantize (&p, ops, 1.5f / 127), ==, n_beyond);
        g_assert_cmpmem (p.rows, p.n_rows * p.row_bytes, rows, p.n_rows * p.row_bytes);
        y = multiply (&p, ops, is_added != 0);
        expected = multiply (&p, portable, is_added != 0);
        assert_same (y, expected, p.n_rows * p.n_out);
        clear_problem (&p);
      }
}

/* The largest sums there are, of both signs: nothing saturates on the way. */
static void
test_largest (gconstpointer data)
{
  const LlkOps *ops = data;

  for (int sign = -1; sign <= 1; sign += 2)
    {
      g_autofree float *y = NULL;
      Problem p;

      init_problem (&p, LLK_W8_MAX_INPUTS, 16, 1, 1);
      for (gsize i = 0; i < p.n_in * p.n_out; i++)
        p.w[i] = (float) sign * 127;
      for (gsize i = 0; i < p.n_in; i++)
        p.x[i] = 127;
      pack (&p);
      quantize (&p, ops, 1);
      y = multiply (&p, ops, FALSE);
      for (gsize o = 0; o < 16; o++)
        g_assert_cmpfloat ((double) y[o], ==, (double) (float) sign * 127 * 127 * LLK_W8_MAX_INPUTS);
      clear_problem (&p);
    }
}

/* A row that is no number gives none; the others are what they are. */
static void
test_not_a_number (gconstpointer data)
{
  const LlkOps *ops = data;
  static const float bad[] = { NAN, INFINITY, -INFINITY };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_autofree float *y = NULL, *expected = NULL;
      Problem p;

      init_problem (&p, 128, 40, 3, 9);
      quantize (&p, ops, 1.5f / 127);
      expected = multiply (&p, ops, FALSE);
      p.x[p.n_in + 77] = bad[i];
      quantize (&p, ops, 1.5f / 127);
      y = multiply (&p, ops, FALSE);
      for (gsize o = 0; o < p.n_out; o++)
        g_assert_true (isnan (y[p.n_out + o]));
      assert_same (y, expected, p.n_out);
      assert_same (y + 2 * p.n_out, expected + 2 * p.n_out, p.n_out);
      clear_problem (&p);
    }
}

/* What is beyond is found, and added to what multiply() gives it makes the products of whole rows:
 * with the same bits on all sets, and next to sums in double over the bytes' weights. */
static void
test_beyond (gconstpointer data)
{
  const LlkOps *ops = data, *portable = llk_ops_portable ();
  const float scale = 1.5f / 127;
  Problem p;

  init_problem (&p, 200, 83, 6, 31);
  for (gsize i = 0; i < p.n_in; i++)
    p.x[3 * p.n_in + i] = 0.01f;
  {
    g_autofree LlkW8Beyond *found = g_new (LlkW8Beyond, p.n_rows * p.n_in);
    g_autofree LlkW8Beyond *same = g_new (LlkW8Beyond, p.n_rows * p.n_in);
    const LlkW8Beyond *beyond[6];
    guint32 n_beyond[6];
    g_autofree float *y = NULL, *expected = NULL;

    quantize (&p, ops, scale);
    y = multiply (&p, ops, FALSE);
    expected = multiply (&p, portable, FALSE);
    for (gsize r = 0; r < p.n_rows; r++)
      {
        const float *x = p.x + r * p.n_in;
        LlkW8Beyond *to = found + r * p.n_in;
        gsize n = 0;

        n_beyond[r] = (guint32) ops->w8->find_beyond (x, p.n_in, scale, to);
        g_assert_cmpuint (portable->w8->find_beyond (x, p.n_in, scale, same), ==, n_beyond[r]);
        g_assert_cmpmem (to, n_beyond[r] * sizeof *to, same, n_beyond[r] * sizeof *same);
        for (gsize i = 0; i < p.n_in; i++)
          if (fabsf (x[i]) > 1.5f)
            {
              g_assert_cmpuint (to[n].input, ==, i);
              g_assert_cmpfloat_with_epsilon (to[n++].value, x[i] - copysignf (1.5f, x[i]), 1e-6);
            }
        g_assert_cmpuint (n, ==, n_beyond[r]);
        beyond[r] = to;
      }
    g_assert_cmpuint (n_beyond[0], >, 0);
    g_assert_cmpuint (n_beyond[3], ==, 0);
    /* in two parts, as workers share it out */
    ops->w8->add_beyond (&p.matrix, 0, 2, beyond, n_beyond, p.n_rows, y, p.n_out);
    ops->w8->add_beyond (&p.matrix, 2, p.n_panels - 2, beyond, n_beyond, p.n_rows, y, p.n_out);
    portable->w8->add_beyond (&p.matrix, 0, p.n_panels, beyond, n_beyond, p.n_rows, expected,
                              p.n_out);
    assert_same (y, expected, p.n_rows * p.n_out);
    for (gsize r = 0; r < p.n_rows; r++)
      for (gsize o = 0; o < p.n_out; o++)
        {
          const int8_t *panel = p.panels + o / 16 * llk_w8_panel_bytes (p.n_in, p.matrix.n_hot);
          const float *scales = llk_w8_panel_scales (panel, p.n_in);
          double sum = 0;

          for (gsize i = 0; i < p.n_in; i++)
            {
              double x = p.x[r * p.n_in + i], within = CLAMP (x, -1.5, 1.5);
              double w = (double) scales[o % 16] * panel[i / 4 * 64 + 4 * (o % 16) + i % 4];

              sum += within * w + (x - within) * w;
            }
          /* half a step of each activation */
          g_assert_cmpfloat_with_epsilon (sum, (double) y[r * p.n_out + o], 0.1);
        }
  }
  clear_problem (&p);
}

/* Hot inputs are multiplied as floats with floats, added to what multiply() gives: with the same bits on
 * all sets, for any number of rows. */
static void
test_hot (gconstpointer data)
{
  const LlkOps *ops = data, *portable = llk_ops_portable ();
  static const gsize row_counts[] = { 1, 3, 4, 6, 9 };

  for (gsize i = 0; i < G_N_ELEMENTS (row_counts); i++)
    {
      g_autofree guint16 *hot_of = g_new0 (guint16, 200);
      g_autofree float *hot = g_new (float, row_counts[i] * 67);
      g_autofree float *y = NULL, *before = NULL, *expected = NULL;
      Problem p;

      init_problem (&p, 200, 83, row_counts[i], 41);
      for (gsize k = 0; k < p.n_in; k++)
        hot_of[k] = k % 3 == 0 ? (guint16) (1 + k / 3) : 0;
      p.matrix.hot_of = hot_of;
      p.matrix.n_hot = 67;
      pack (&p);
      for (gsize k = 0; k < row_counts[i] * 67; k++)
        hot[k] = 30 * p.x[k % (p.n_in * p.n_rows)];
      quantize (&p, ops, 3 / 127.0f);
      y = multiply (&p, ops, FALSE);
      before = multiply (&p, portable, FALSE);
      expected = multiply (&p, portable, FALSE);
      assert_same (y, expected, p.n_rows * p.n_out);
      ops->w8->add_hot (&p.matrix, 0, 2, hot, p.n_rows, y, p.n_out);
      ops->w8->add_hot (&p.matrix, 2, p.n_panels - 2, hot, p.n_rows, y, p.n_out);
      portable->w8->add_hot (&p.matrix, 0, p.n_panels, hot, p.n_rows, expected, p.n_out);
      assert_same (y, expected, p.n_rows * p.n_out);
      for (gsize r = 0; r < p.n_rows; r++)
        for (gsize o = 0; o < p.n_out; o++)
          {
            double sum = (double) before[r * p.n_out + o];

            for (gsize k = 0; k < 67; k++)
              sum += (double) hot[r * 67 + k] * (double) p.w[o * p.n_in + 3 * k];
            g_assert_cmpfloat_with_epsilon (sum, (double) y[r * p.n_out + o], 0.01);
          }
      clear_problem (&p);
    }
}

/* In parts, of any length and begun anywhere, a row has the bytes of one that was quantized whole. */
static void
test_parts (gconstpointer data)
{
  const LlkOps *ops = data;
  const float scale = 0.7f / 127;
  gsize bytes;
  LlkW8Row *row;
  Problem p;

  init_problem (&p, 333, 16, 4, 20);
  p.x[5] = NAN;
  quantize (&p, llk_ops_portable (), scale);
  bytes = llk_w8_row_bytes (p.n_in);
  row = g_aligned_alloc (1, bytes, 64);
  for (gsize r = 0; r < p.n_rows; r++)
    {
      const float *x = p.x + r * p.n_in;
      gsize n_beyond = 0, n_expected = 0;

      memset (row, 0xff, bytes);
      row->scale = scale;
      for (gsize first = 0, n; first < p.n_in; first += n)
        {
          n = MIN (p.n_in - first, first % 64 + 37);
          n_beyond += ops->w8->quantize_part (x + first, n, scale, row->q + first);
        }
      ops->w8->finish (p.n_in, row);
      for (gsize i = 0; i < p.n_in; i++)
        n_expected += !(fabsf (x[i] * (1 / scale)) <= 127);
      g_assert_cmpuint (n_beyond, ==, n_expected);
      g_assert_cmpuint (n_beyond, >, 0);
      if (r > 0)
        g_assert_cmpmem (row, bytes, get_row (&p, r), bytes);
    }
  g_aligned_free (row);
  clear_problem (&p);
}

int
main (int    argc,
      char **argv)
{
  static const struct
  {
    const char *name;
    GTestDataFunc func;
  } tests[] = {
    { "same", test_same },
    { "largest", test_largest },
    { "not-a-number", test_not_a_number },
    { "parts", test_parts },
    { "beyond", test_beyond },
    { "hot", test_hot },
  };

  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/w8/definition", test_definition);
  g_test_add_func ("/w8/exact", test_exact);
  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
      {
        g_autofree char *path = g_strdup_printf ("/w8/%s/%s", *name, tests[i].name);

        g_test_add_data_func (path, llk_ops_find (*name), tests[i].func);
      }
  return g_test_run ();
}
