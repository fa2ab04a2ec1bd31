/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows prepared for products: the same bytes in every set, by their definition. */

#include <math.h>
#include <string.h>

#include "weights-rig.h"

/* Outliers are beyond six times the root mean square of a row's others. */
static gfloat
find_limit (const gfloat *x,
            gsize         n)
{
  gfloat limit = INFINITY;

  for (guint pass = 0; pass < 3; pass++)
    {
      gfloat lanes[64] = { 0 };

      for (gsize i = 0; i < n; i++)
        if (fabsf (x[i]) <= limit)
          lanes[i % 64] = fmaf (x[i], x[i], lanes[i % 64]);
      for (gsize half = 32; half > 0; half /= 2)
        for (gsize i = 0; i < half; i++)
          lanes[i] += lanes[i + half];
      if (!(lanes[0] >= 1e-30f && lanes[0] <= FLT_MAX))
        break;
      limit = sqrtf (lanes[0] / (gfloat) n) * 6;
    }
  return limit;
}

/* Marks the outliers of a run. */
static void
mark_outliers (const gfloat *x,
               gsize         n,
               gfloat        limit,
               gboolean     *is_outlier)
{
  gsize n_outliers = 0;

  for (gsize i = 0; i < n; i++)
    {
      is_outlier[i] = fabsf (x[i]) > limit && n_outliers < LLK_MAX_OUTLIERS;
      n_outliers += (gsize) is_outlier[i];
    }
}

static gfloat
find_largest (const gfloat   *x,
              gsize           n,
              const gboolean *is_outlier)
{
  gfloat largest = 0;

  for (gsize i = 0; i < n; i++)
    if (!is_outlier[i])
      largest = fmaxf (largest, fabsf (x[i]));
  return largest;
}

/* A run of @n inputs by its definition. */
static void
check_run (const gfloat           *x,
           gsize                   n,
           gfloat                  limit,
           const LlkActivationRun *run,
           const LlkOutlier       *outliers)
{
  /* Where the sums are, of four blocks: the first and the third, then the others. */
  static const gsize places[] = { 0, 2, 1, 3 };
  gboolean is_outlier[LLK_RUN] = { 0 };
  gfloat magnitude = 0, inverse;
  gboolean is_bad = FALSE;
  gint32 sums[16] = { 0 }, sum = 0;
  gsize n_outliers = 0;

  for (gsize i = 0; i < n; i++)
    is_bad |= !isfinite (x[i]);
  if (!is_bad)
    {
      mark_outliers (x, n, limit, is_outlier);
      magnitude = find_largest (x, n, is_outlier);
    }
  inverse = magnitude < 1e-30f ? 0 : 127 / magnitude;
  for (gsize i = 0; i < LLK_RUN; i++)
    {
      gboolean is_whole = inverse != 0 && i < n && !is_outlier[i];

      g_assert_cmpint (run->q[i], ==, is_whole ? lrintf (x[i] * inverse) : 0);
      sums[i / 16] += run->q[i];
      sum += run->q[i];
      if (is_outlier[i])
        {
          g_assert_cmpint (outliers[n_outliers].place, ==, i);
          g_assert_cmpfloat (outliers[n_outliers].x, ==, x[i]);
          n_outliers++;
        }
    }
  g_assert_cmpint (run->n_outliers, ==, n_outliers);
  if (is_bad)
    {
      guint32 bits;

      memcpy (&bits, &run->scale, sizeof bits);
      g_assert_cmphex (bits, ==, 0x7fc00000);
    }
  else
    g_assert_cmpfloat (run->scale, ==, inverse != 0 ? magnitude / 127 : 0);

  g_assert_cmpint (run->sum, ==, sum);
  for (gsize b = 0; b < 16; b++)
    g_assert_cmpint (run->sums[b / 4 * 4 + places[b % 4]], ==, sums[b]);
  for (gsize b = 0; b < 8; b++)
    g_assert_cmpint (run->long_sums[b / 4 * 4 + places[b % 4]], ==, sums[2 * b] + sums[2 * b + 1]);
  for (gsize i = 0; i < sizeof run->unused; i++)
    g_assert_cmpint (run->unused[i], ==, 0);
}

static gboolean
is_near (LlkActivation form,
         gdouble       found,
         gfloat        x)
{
  if (isnan (x))
    return isnan (found);
  if (form == LLK_ACTIVATION_F32)
    return found == (gdouble) x;
  if (isinf (found))
    return fabsf (x) > 3.38e38f;
  return fabs (found - (gdouble) x) <= fabs ((gdouble) x) / 256 + 0x1p-134;
}

/* A row of @n values, with zeros up to @n_in and its end. */
static void
check_prepared (LlkActivation form,
                const gfloat *x,
                gsize         n,
                gsize         n_in,
                gconstpointer row)
{
  const LlkActivationRun *runs = row;
  const guint8 *bytes = row;
  gsize n_runs = (n_in + LLK_RUN - 1) / LLK_RUN;
  const guint8 *counts = bytes + n_runs * sizeof *runs;
  const LlkOutlier *outliers = (gconstpointer) (counts + (n_runs + 63) / 64 * 64);
  guint n_outliers = 0;
  gsize value_bytes = form == LLK_ACTIVATION_F32 ? 4 : 2;
  g_autofree gdouble *restored = g_new (gdouble, n);

  if (form == LLK_ACTIVATION_Q8)
    {
      for (gsize i = 0; i < n_in; i += LLK_RUN)
        {
          check_run (x + i, i < n ? MIN (LLK_RUN, n - i) : 0, find_limit (x, n),
                     &runs[i / LLK_RUN], outliers + n_outliers);
          g_assert_cmpuint (counts[i / LLK_RUN], ==, runs[i / LLK_RUN].n_outliers);
          g_assert_cmpuint (runs[i / LLK_RUN].first_outlier, ==, n_outliers);
          n_outliers += runs[i / LLK_RUN].n_outliers;
        }
      for (gsize i = n_runs; i % 64 != 0; i++)
        g_assert_cmpuint (counts[i], ==, 0);
      return;
    }
  rig_restore_row (form, row, n, restored);
  for (gsize i = 0; i < n; i++)
    g_assert_true (is_near (form, restored[i], x[i]));
  for (gsize i = n * value_bytes; i < llk_activation_bytes (form, n_in); i++)
    g_assert_cmphex (bytes[i], ==, 0);
}

static void
check_prepare (const LlkOps  *ops,
               LlkActivation  form,
               const gfloat  *x,
               gsize          n,
               gsize          n_in)
{
  gsize bytes = llk_activation_bytes (form, n_in);
  guint8 *row = rig_alloc (bytes + 64), *expected = rig_alloc (bytes);

  g_assert_cmpuint (bytes % 64, ==, 0);
  ops->product->prepare (form, x, n, n_in, row);
  llk_ops_portable ()->product->prepare (form, x, n, n_in, expected);
  if (form != LLK_ACTIVATION_Q8)
    g_assert_cmpmem (row, bytes, expected, bytes);
  for (guint i = 0; i < 64; i++)
    g_assert_cmphex (row[bytes + i], ==, 0xff);
  check_prepared (form, x, n, n_in, row);
  rig_free (row);
  rig_free (expected);
}

/* Prepared rows are the same bytes in every set, and what they should be. */
static void
test_prepare (gconstpointer data)
{
  static const gsize sizes[] = { 1, 15, 16, 31, 32, 33, 63, 64, 96, 100, 255, 256, 257, 288, 352,
                                 511, 512, 544, 2048 };
  static const gsize zeros[] = { 0, 0, 1, 64, 192, 300, 704 };
  const LlkOps *ops = data;

  for (guint form = 0; form < LLK_N_ACTIVATIONS; form++)
    for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
      for (guint fill = 0; fill < 4 * RIG_N_ROWS; fill++)
        {
          gsize n = sizes[i];
          g_autofree gfloat *x = g_new (gfloat, n);

          rig_fill_rows (fill % RIG_N_ROWS, x, 1, n);
          /* Values on the border between two integers, and no numbers. */
          if (fill >= RIG_N_ROWS)
            for (gsize j = 0; j < n; j++)
              if (g_test_rand_bit ())
                x[j] = j % 32 == 7 ? 127 : (gfloat) g_test_rand_int_range (-254, 255) / 2;
          if (fill >= 3 * RIG_N_ROWS)
            x[g_test_rand_int_range (0, (gint) n)] = fill % 2 == 0 ? NAN : -INFINITY;
          check_prepare (ops, form, x, n, n + zeros[fill % G_N_ELEMENTS (zeros)]);
        }
}

/* A row of zeros alone. */
static void
test_nothing (gconstpointer data)
{
  const gfloat x = NAN;

  for (guint form = 0; form < LLK_N_ACTIVATIONS; form++)
    check_prepare (data, form, &x, 0, 600);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    {
      const LlkOps *ops = llk_ops_find (*name);
      g_autofree gchar *prepare = g_strdup_printf ("/activations/%s/prepare", *name);
      g_autofree gchar *nothing = g_strdup_printf ("/activations/%s/nothing", *name);

      g_test_add_data_func (prepare, ops, test_prepare);
      g_test_add_data_func (nothing, ops, test_nothing);
    }

  return g_test_run ();
}
