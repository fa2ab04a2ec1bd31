/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Rows prepared for products: the same bytes in every set, by their definition. */

#include <math.h>
#include <string.h>

#include "weights-rig.h"

/* One block of integers and its scale by their definition. */
static void
check_integers (const gfloat *x,
                gsize         n,
                const gint8  *q,
                gfloat        scale)
{
  gfloat magnitude = 0, inverse;
  gboolean is_bad = FALSE;

  for (gsize i = 0; i < n; i++)
    {
      is_bad |= !isfinite (x[i]);
      magnitude = fmaxf (magnitude, fabsf (x[i]));
    }
  inverse = is_bad || magnitude < 1e-30f ? 0 : 127 / magnitude;
  for (gsize i = 0; i < n; i++)
    g_assert_cmpint (q[i], ==, inverse != 0 ? lrintf (x[i] * inverse) : 0);
  if (is_bad)
    g_assert_true (isnan (scale));
  else
    g_assert_cmpfloat (scale, ==, inverse != 0 ? magnitude / 127 : 0);
}

static void
check_prepared (LlkActivation form,
                const gfloat *x,
                gsize         n,
                gconstpointer row)
{
  g_autofree gdouble *restored = g_new (gdouble, n);
  const gfloat *scales = (gconstpointer) ((const guint8 *) row + llk_activation_scales (form, n));
  gsize block = form == LLK_ACTIVATION_Q8 ? 32 : 256;

  rig_restore_row (form, row, n, restored);
  for (gsize i = 0; i < n; i++)
    if (form == LLK_ACTIVATION_F32)
      g_assert_true (restored[i] == x[i] || (isnan (restored[i]) && isnan (x[i])));
    else if (form == LLK_ACTIVATION_BF16 && isnan (x[i]))
      g_assert_true (isnan (restored[i]));
    else if (form == LLK_ACTIVATION_BF16)
      g_assert_true (isinf (restored[i]) ? fabsf (x[i]) > 3.38e38f
                                         : fabs (restored[i] - x[i]) <=
                                           fabs ((gdouble) x[i]) / 256 + 0x1p-134);
    else if (i % block == 0)
      check_integers (x + i, MIN (block, n - i), (const gint8 *) row + i, scales[i / block]);
}

/* Prepared rows are the same bytes in every set, and what they should be. */
static void
test_prepare (gconstpointer data)
{
  static const gsize sizes[] = { 1, 15, 16, 31, 32, 33, 63, 64, 96, 100, 255, 256, 257, 288, 352,
                                 511, 512, 544, 2048 };
  const LlkOps *ops = data;

  for (guint form = 0; form < LLK_N_ACTIVATIONS; form++)
    for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
      for (guint fill = 0; fill < 4 * RIG_N_ROWS; fill++)
        {
          gsize n = sizes[i], bytes = llk_activation_bytes (form, n);
          g_autofree gfloat *x = g_new (gfloat, n);
          guint8 *row = rig_alloc (bytes + 64), *expected = rig_alloc (bytes);

          g_assert_cmpuint (bytes % 64, ==, 0);
          rig_fill_rows (fill % RIG_N_ROWS, x, 1, n);
          /* Values on the border between two integers, and no numbers. */
          if (fill >= RIG_N_ROWS)
            for (gsize j = 0; j < n; j++)
              if (g_test_rand_bit ())
                x[j] = j % 32 == 7 ? 127 : (gfloat) g_test_rand_int_range (-254, 255) / 2;
          if (fill >= 3 * RIG_N_ROWS)
            x[g_test_rand_int_range (0, (gint) n)] = fill % 2 == 0 ? NAN : -INFINITY;

          ops->product->prepare (form, x, n, row);
          llk_ops_portable ()->product->prepare (form, x, n, expected);
          g_assert_cmpmem (row, bytes, expected, bytes);
          for (guint j = 0; j < 64; j++)
            g_assert_cmphex (row[bytes + j], ==, 0xff);
          check_prepared (form, x, n, row);
          rig_free (row);
          rig_free (expected);
        }
}

/* The parts of a row that restore_row() doesn't see. */
static void
test_prepared_sums (gconstpointer data)
{
  const LlkOps *ops = data;
  const gsize n = 5 * 32 + 20;
  guint8 *row = rig_alloc (llk_activation_bytes (LLK_ACTIVATION_Q8, n));
  const gint8 *q = (const gint8 *) row;
  const gint32 *sums = (gpointer) (row + llk_activation_sums (LLK_ACTIVATION_Q8, n));
  const gint32 *halves = (gpointer) (row + llk_activation_half_sums (LLK_ACTIVATION_Q8, n));
  gfloat x[5 * 32 + 20];

  rig_fill_rows (RIG_ROWS_NORMAL, x, 1, n);
  x[40] = NAN;
  ops->product->prepare (LLK_ACTIVATION_Q8, x, n, row);
  for (gsize b = 0; b < 16; b++)
    {
      gint32 sum = 0, half = 0;
      gint largest = 0;

      for (gsize i = 32 * b; i < 32 * (b + 1) && b < 6; i++)
        {
          sum += q[i];
          half += i % 32 < 16 ? q[i] : 0;
          largest = MAX (largest, ABS (q[i]));
        }
      g_assert_cmpint (sums[b], ==, sum);
      g_assert_cmpint (halves[b], ==, half);
      g_assert_cmpint (largest, ==, b == 1 || b > 5 ? 0 : 127);
    }
  for (gsize i = n; i < 192; i++)
    g_assert_cmpint (q[i], ==, 0);
  rig_free (row);
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
      g_autofree gchar *sums = g_strdup_printf ("/activations/%s/sums", *name);

      g_test_add_data_func (prepare, ops, test_prepare);
      g_test_add_data_func (sums, ops, test_prepared_sums);
    }

  return g_test_run ();
}
