/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Every set of functions against a reference in double, against the portable
 * set, and against itself with another number of rows. */

#include <glib.h>
#include <math.h>
#include <string.h>

#include "kernels/llk.h"

/* Sizes around the widths of vectors, and some that no width divides. */
static const gsize sizes[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 95, 96, 100,
                               127, 128, 256, 257, 352, 704, 1000 };

typedef enum
{
  FILL_NORMAL,    /* about 1 */
  FILL_ZERO,
  FILL_LARGE,     /* about 1e15: squares are still floats */
  FILL_DENORMAL,
  FILL_MIXED,     /* sixteen orders of magnitude */
  N_FILLS,
} Fill;

static float
random_value (Fill fill)
{
  double value = g_test_rand_double_range (-1, 1);

  switch (fill)
    {
    case FILL_NORMAL:
      return (float) value;
    case FILL_ZERO:
      return g_test_rand_bit () ? 0.0f : -0.0f;
    case FILL_LARGE:
      return (float) (value * 1e15);
    case FILL_DENORMAL:
      return (float) (value * 1e-39);
    case FILL_MIXED:
      return (float) (value * pow (10, g_test_rand_double_range (-8, 8)));
    default:
      g_assert_not_reached ();
    }
}

static float *
random_values (Fill  fill,
               gsize n)
{
  float *values = g_new (float, n + 1);

  for (gsize i = 0; i < n; i++)
    values[i] = random_value (fill);
  return values;
}

static gboolean
is_same (float a,
         float b)
{
  return memcmp (&a, &b, sizeof a) == 0;
}

static void
assert_near (double found,
             double expected,
             double tolerance)
{
  if (!(fabs (found - expected) <= tolerance))
    g_error ("%.9g instead of %.9g, more than %g away", found, expected, tolerance);
}

static void
test_list (void)
{
  const char *const *names = llk_ops_list ();
  guint n = g_strv_length ((char **) names);

  g_assert_cmpuint (n, >=, 1);
  g_assert_cmpstr (names[n - 1], ==, "portable");
  for (guint i = 0; i < n; i++)
    g_assert_cmpstr (llk_ops_find (names[i])->name, ==, names[i]);
  g_assert_null (llk_ops_find ("abacus"));
  if (llk_ops_find ("amx-emulated") == NULL)
    g_test_message ("Tests run without the set amx-emulated, which needs AVX-512.");

  g_setenv ("LLMSVC_KERNELS", "portable", TRUE);
  g_assert_cmpstr (llk_ops_best ()->name, ==, "portable");
  g_setenv ("LLMSVC_KERNELS", "abacus", TRUE);
  g_assert_cmpstr (llk_ops_best ()->name, ==, names[0]);
  g_unsetenv ("LLMSVC_KERNELS");
  g_assert_cmpstr (llk_ops_best ()->name, ==, names[0]);
}

/* All halves there are, by the definition of the format. */
static void
test_halves (gconstpointer data)
{
  const LlkOps *ops = data;
  g_autofree guint16 *halves = g_new (guint16, 65536);
  g_autofree guint16 *back = g_new (guint16, 65536);
  g_autofree float *values = g_new (float, 65536);
  g_autofree float *unpacked = g_new (float, 65536);

  for (guint i = 0; i < 65536; i++)
    halves[i] = (guint16) i;
  ops->vector->f16_to_f32 (halves, values, 65536);
  ops->vector->unpack (LLK_F16, halves, unpacked, 65536);
  ops->vector->f32_to_f16 (values, back, 65536);

  for (guint i = 0; i < 65536; i++)
    {
      guint exponent = i >> 10 & 31;
      guint fraction = i & 1023;
      double sign = i & 0x8000 ? -1 : 1;

      if (exponent == 31 && fraction != 0)
        {
          g_assert_true (isnan (values[i]) && isnan (unpacked[i]));
          g_assert_cmpuint (back[i] & 0x7c00, ==, 0x7c00);
          g_assert_cmpuint (back[i] & 0x3ff, !=, 0);
          continue;
        }
      if (exponent == 31)
        g_assert_true (is_same (values[i], (float) (sign * INFINITY)));
      else if (exponent == 0)
        g_assert_true (is_same (values[i], (float) (sign * fraction * 0x1p-24)));
      else
        g_assert_true (is_same (values[i],
                                (float) (sign * ldexp (1024 + fraction, (int) exponent - 25))));
      g_assert_true (is_same (values[i], unpacked[i]));
      g_assert_cmpuint (back[i], ==, i);
    }
}

/* Halfway between two halves goes to the even one, the rest to the nearest. */
static void
test_rounding_to_half (gconstpointer data)
{
  const LlkOps *ops = data;
  float edges[] = { 65504, 65519.996f, 65520, 1e30f, INFINITY, 0x1p-25f, 0x1.000002p-25f,
                    0x1p-26f, 6.1e-5f, -65520, 0x1.ffbffep-15f, 0x1.ffcp-15f };
  guint16 expected[] = { 0x7bff, 0x7bff, 0x7c00, 0x7c00, 0x7c00, 0, 1, 0, 0x03ff, 0xfc00, 0x03ff,
                         0x0400 };
  guint16 found[G_N_ELEMENTS (edges)];

  ops->vector->f32_to_f16 (edges, found, G_N_ELEMENTS (edges));
  for (guint i = 0; i < G_N_ELEMENTS (edges); i++)
    g_assert_cmphex (found[i], ==, expected[i]);

  for (guint16 half = 0; half < 0x7bff; half++)
    {
      guint16 pair[2] = { half, half + 1 };
      float values[2];
      float tested[8] = { 0 };
      guint16 rounded[8];

      ops->vector->f16_to_f32 (pair, values, 2);
      tested[0] = (values[0] + values[1]) / 2;
      tested[1] = nextafterf (tested[0], 0);
      tested[2] = nextafterf (tested[0], INFINITY);
      ops->vector->f32_to_f16 (tested, rounded, 8);
      g_assert_cmphex (rounded[0], ==, half + half % 2);
      g_assert_cmphex (rounded[1], ==, half);
      g_assert_cmphex (rounded[2], ==, half + 1);
    }
}

/* Blocks of every byte; exact, so that all sets agree to the bit. */
static void
test_unpack (gconstpointer data)
{
  const LlkOps *ops = data;
  static const guint16 scales[] = { 0, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x7bff, 0x2e66 };

  for (guint s = 0; s < G_N_ELEMENTS (scales); s++)
    for (guint round = 0; round < 64; round++)
      {
        guint8 bytes[3 * 34 + 1];
        float values[96], expected;
        float scale;
        guint8 *blocks = bytes + 1; /* at an odd address */

        ops->vector->f16_to_f32 (&scales[s], &scale, 1);
        for (guint i = 0; i < 3 * 34; i++)
          blocks[i] = (guint8) g_test_rand_int ();
        for (guint b = 0; b < 3; b++)
          memcpy (blocks + 34 * b, &scales[s], 2);
        ops->vector->unpack (LLK_Q8_0, blocks, values, 96);
        for (guint i = 0; i < 96; i++)
          {
            expected = scale * (gint8) blocks[34 * (i / 32) + 2 + i % 32];
            g_assert_true (is_same (values[i], expected));
          }

        for (guint b = 0; b < 3; b++)
          memcpy (blocks + 18 * b, &scales[s], 2);
        ops->vector->unpack (LLK_Q4_0, blocks, values, 96);
        for (guint i = 0; i < 96; i++)
          {
            guint8 byte = blocks[18 * (i / 32) + 2 + i % 16];

            expected = scale * (float) ((i % 32 < 16 ? byte & 15 : byte >> 4) - 8);
            g_assert_true (is_same (values[i], expected));
          }

        ops->vector->unpack (LLK_BF16, blocks, values, 45);
        for (guint i = 0; i < 45; i++)
          {
            guint32 bits = (guint32) (blocks[2 * i] | blocks[2 * i + 1] << 8) << 16;

            g_assert_cmpint (memcmp (&values[i], &bits, 4), ==, 0);
          }

        ops->vector->unpack (LLK_F32, blocks, values, 25);
        g_assert_cmpint (memcmp (values, blocks, 100), ==, 0);
      }
}

/* The bound of summing n products in any order. */
static void
test_dot (gconstpointer data)
{
  const LlkOps *ops = data;
  const gsize n_rows = 14;

  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    for (Fill fill = 0; fill < N_FILLS; fill++)
      {
        gsize n = sizes[s];
        gsize stride = n + 3;
        g_autofree float *w = random_values (fill, n);
        g_autofree float *x = random_values (fill, n_rows * stride);
        float y[14 * 2];

        ops->vector->dot_rows (w, x, stride, n_rows, n, y, 2);
        for (gsize r = 0; r < n_rows; r++)
          {
            double sum = 0, magnitude = 0;

            for (gsize i = 0; i < n; i++)
              {
                double product = (double) w[i] * x[r * stride + i];

                sum += product;
                magnitude += fabs (product);
              }
            assert_near (y[2 * r], sum, magnitude * (n / 16.0 + 8) * 6e-8 + n * 1e-45);
          }

        /* Any number of rows, from any of them on: the same bits. */
        for (gsize first = 0; first < n_rows; first++)
          for (gsize count = 1; first + count <= n_rows; count++)
            {
              float part[14];

              ops->vector->dot_rows (w, x + first * stride, stride, count, n, part, 1);
              for (gsize r = 0; r < count; r++)
                g_assert_true (is_same (part[r], y[2 * (first + r)]));
            }
      }
}

/* As of one output after the other; and any number of rows. */
static void
test_narrow (gconstpointer data)
{
  const LlkOps *ops = data;
  const gsize n_rows = 5, n_out = LLK_NARROW_OUTPUTS;

  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    for (Fill fill = 0; fill < N_FILLS; fill++)
      {
        gsize n = sizes[s], stride = n + 3;
        g_autofree float *w = random_values (fill, n_out * n);
        g_autofree float *x = random_values (fill, n_rows * stride);
        float y[5 * 9], alone[LLK_NARROW_OUTPUTS];

        ops->vector->dot_narrow (w, x, stride, n_rows, n, y, 9);
        for (gsize r = 0; r < n_rows; r++)
          {
            ops->vector->dot_narrow (w, x + r * stride, stride, 1, n, alone, n_out);
            for (gsize o = 0; o < n_out; o++)
              {
                double sum = 0, magnitude = 0;

                for (gsize i = 0; i < n; i++)
                  {
                    double product = (double) w[o * n + i] * x[r * stride + i];

                    sum += product;
                    magnitude += fabs (product);
                  }
                assert_near (y[9 * r + o], sum, magnitude * (n / 4.0 + 8) * 6e-8 + n * 1e-45);
                g_assert_true (is_same (y[9 * r + o], alone[o]));
              }
          }
      }
}

/* One product after the other: the bits of fmaf(). */
static void
test_thin (gconstpointer data)
{
  const LlkOps *ops = data;
  const gsize x_stride = 70, y_stride = 67;

  for (gsize n_in = 1, n_rows = 1; n_in <= 64; n_in += n_in < 9 ? 1 : 11, n_rows = n_rows % 6 + 1)
    for (gsize n_out = 1; n_out <= LLK_THIN_OUTPUTS; n_out++)
      for (Fill fill = 0; fill < N_FILLS; fill++)
        {
          g_autofree float *w = random_values (fill, n_in * n_out);
          g_autofree float *x = random_values (fill, n_rows * x_stride);
          g_autofree float *y = random_values (fill, n_rows * y_stride);
          g_autofree float *found = g_memdup2 (y, n_rows * y_stride * sizeof *y);

          ops->vector->add_thin (w, x, x_stride, n_rows, n_in, n_out, found, y_stride);
          for (gsize r = 0; r < n_rows; r++)
            for (gsize o = 0; o < y_stride; o++)
              {
                float wanted = y[r * y_stride + o];

                for (gsize i = 0; i < n_in && o < n_out; i++)
                  wanted = fmaf (w[o * n_in + i], x[r * x_stride + i], wanted);
                g_assert_true (is_same (found[r * y_stride + o], wanted));
              }
        }
}

static void
test_norm (gconstpointer data)
{
  const LlkOps *ops = data;

  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    for (Fill fill = 0; fill < N_FILLS; fill++)
      {
        gsize n = sizes[s];
        g_autofree float *x = random_values (fill, n);
        g_autofree float *weight = random_values (FILL_NORMAL, n);
        g_autofree float *y = g_new (float, n);
        double squares = 0;

        for (gsize i = 0; i < n; i++)
          squares += (double) x[i] * x[i];
        ops->vector->rms_norm (x, weight, 1e-5f, y, n);
        for (gsize i = 0; i < n; i++)
          {
            double expected = x[i] / sqrt (squares / n + (double) 1e-5f) * weight[i];

            assert_near (y[i], expected, fabs (expected) * (n / 16.0 + 16) * 6e-8 + 1e-44);
          }
      }
}

static void
test_silu (gconstpointer data)
{
  const LlkOps *ops = data;
  float gate[4001], up[4001], found[4001];

  for (guint i = 0; i < 4001; i++)
    {
      gate[i] = ((float) i - 2000) / 10;
      up[i] = random_value (FILL_NORMAL);
    }
  gate[0] = -0.0f;
  gate[1] = 1e-40f;
  gate[2] = -1e30f;
  gate[3] = 1e30f;

  for (gsize n = 4001; n > 3990; n--)
    {
      memcpy (found, gate, sizeof gate);
      ops->vector->silu_mul (found, up, n);
      for (gsize i = 0; i < n; i++)
        {
          double expected = gate[i] / (1 + exp (-(double) gate[i])) * up[i];

          /* e^88 is as far as it goes: behind it -x/e^88 stands for 0. */
          assert_near (found[i], expected,
                       fabs (expected) * 1e-6 + fabs (gate[i] * 1.7e-38) + 1e-44);
        }
    }

  gate[5] = NAN;
  gate[4000] = NAN;
  ops->vector->silu_mul (gate, up, 4001);
  g_assert_true (isnan (gate[5]) && isnan (gate[4000]) && !isnan (gate[6]));
}

static void
test_gelu (gconstpointer data)
{
  const LlkOps *ops = data;
  float gate[2001], up[2001], found[2001];

  for (guint i = 0; i < 2001; i++)
    {
      gate[i] = ((float) i - 1000) / 100;
      up[i] = random_value (FILL_NORMAL);
    }
  gate[0] = -0.0f;
  gate[1] = 1e-40f;
  gate[2] = -1e10f;
  gate[3] = 1e10f;

  for (gsize n = 2001; n > 1980; n--)
    {
      memcpy (found, gate, sizeof gate);
      ops->vector->gelu_mul (found, up, n);
      for (gsize i = 0; i < n; i++)
        {
          double x = gate[i];
          double twice = 2 * sqrt (2 / G_PI) * (x + 0.044715 * x * x * x);
          double expected = x / (1 + exp (-twice)) * up[i];

          /* The exponent is rounded, too. */
          assert_near (found[i], expected,
                       fabs (expected) * (1e-6 + 4e-7 * CLAMP (fabs (twice), 0, 90)) +
                       fabs (x * 1.7e-38) + 1e-44);
        }
    }

  gate[5] = NAN;
  gate[2000] = NAN;
  ops->vector->gelu_mul (gate, up, 2001);
  g_assert_true (isnan (gate[5]) && isnan (gate[2000]) && !isnan (gate[6]));
}

static void
test_add (gconstpointer data)
{
  const LlkOps *ops = data;

  for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
    {
      gsize n = sizes[s];
      g_autofree float *x = random_values (FILL_MIXED, n);
      g_autofree float *y = random_values (FILL_MIXED, n);
      g_autofree float *found = g_memdup2 (y, n * sizeof (float));

      ops->vector->add (found, x, n);
      for (gsize i = 0; i < n; i++)
        g_assert_true (is_same (found[i], y[i] + x[i]));
    }
}

static void
test_rope (void)
{
  float head[10], other[10], cosine[4], sine[4], start[10];

  for (guint i = 0; i < 4; i++)
    {
      cosine[i] = cosf (0.3f * (float) (i + 1));
      sine[i] = sinf (0.3f * (float) (i + 1));
    }
  for (guint i = 0; i < 10; i++)
    start[i] = random_value (FILL_NORMAL);
  memcpy (head, start, sizeof start);
  memcpy (other, start, sizeof start);
  llk_rope_norm (head, cosine, sine, 8);
  llk_rope_neox (other, cosine, sine, 8);

  for (guint i = 0; i < 4; i++)
    {
      assert_near (head[2 * i], start[2 * i] * cosine[i] - start[2 * i + 1] * sine[i], 1e-6);
      assert_near (head[2 * i + 1], start[2 * i] * sine[i] + start[2 * i + 1] * cosine[i], 1e-6);
      assert_near (other[i], start[i] * cosine[i] - start[i + 4] * sine[i], 1e-6);
      assert_near (other[i + 4], start[i] * sine[i] + start[i + 4] * cosine[i], 1e-6);
    }
  for (guint i = 8; i < 10; i++)
    g_assert_true (is_same (head[i], start[i]) && is_same (other[i], start[i]));
}

static void
add_for_ops (const LlkOps *ops)
{
  static const struct { const char *name; GTestDataFunc func; } tests[] = {
    { "halves", test_halves },
    { "rounding-to-half", test_rounding_to_half },
    { "unpack", test_unpack },
    { "dot", test_dot },
    { "narrow", test_narrow },
    { "thin", test_thin },
    { "norm", test_norm },
    { "silu", test_silu },
    { "gelu", test_gelu },
    { "add", test_add },
  };

  for (guint i = 0; i < G_N_ELEMENTS (tests); i++)
    {
      g_autofree char *path = g_strdup_printf ("/kernels/%s/%s", ops->name, tests[i].name);

      g_test_add_data_func (path, ops, tests[i].func);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/kernels/list", test_list);
  g_test_add_func ("/kernels/rope", test_rope);
  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    add_for_ops (llk_ops_find (*name));

  return g_test_run ();
}
