/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The tiles in software that other tests compute with: what they sum, and what they refuse. */

#include "kernels/amx-tiles.h"

#include <float.h>
#include <glib.h>
#include <math.h>
#include <string.h>

#include "kernels/llk.h"

typedef struct
{
  guint8 palette;
  guint8 first_row;
  guint8 reserved[14];
  guint16 row_bytes[16];
  guint8 rows[16];
} Config;

/* A product of m × k words with k × n words. */
typedef struct
{
  guint m, n, k;
  guint8 a[16][64];
  guint8 b[16][64];
  guint8 sums[16][64];
} Product;

static void
configure (const Product *p)
{
  amx_load_config (&(Config) {
    .palette = 1,
    .row_bytes = { (guint16) (4 * p->n), (guint16) (4 * p->k), (guint16) (4 * p->n) },
    .rows = { (guint8) p->m, (guint8) p->m, (guint8) p->k },
  });
}

static void
load (const Product *p)
{
  configure (p);
  amx_load (0, p->sums, 64);
  amx_load (1, p->a, 64);
  amx_load (2, p->b, 64);
}

static void
make_shape (Product *p)
{
  p->m = (guint) g_test_rand_int_range (1, 17);
  p->n = (guint) g_test_rand_int_range (1, 17);
  p->k = (guint) g_test_rand_int_range (1, 17);
}

static void
check_sums (const Product *p,
            guint8         expected[16][64])
{
  guint8 found[16][64];

  memset (found, 0x55, sizeof found);
  amx_store (0, found, 64);
  for (guint r = 0; r < p->m; r++)
    g_assert_cmpmem (found[r], 4 * p->n, expected[r], 4 * p->n);
  /* Nothing behind the rows and columns that there are. */
  for (guint i = 0; i < 16 * 64; i++)
    if (i / 64 >= p->m || i % 64 >= 4 * p->n)
      g_assert_cmphex (found[i / 64][i % 64], ==, 0x55);
  amx_release ();
}

static gint32
get_byte (guint8 byte,
          guint  is_signed)
{
  return is_signed ? (gint8) byte : byte;
}

static void
test_bytes (void)
{
  for (guint round = 0; round < 400; round++)
    {
      guint a_is_signed = round & 1, b_is_signed = round >> 1 & 1;
      guint8 expected[16][64];
      Product p;

      make_shape (&p);
      for (guint i = 0; i < 16 * 64; i++)
        {
          p.a[i / 64][i % 64] = (guint8) g_test_rand_int ();
          p.b[i / 64][i % 64] = (guint8) g_test_rand_int ();
          p.sums[i / 64][i % 64] = (guint8) g_test_rand_int ();
        }
      memcpy (expected, p.sums, sizeof expected);
      for (guint m = 0; m < p.m; m++)
        for (guint n = 0; n < p.n; n++)
          {
            guint32 sum;

            memcpy (&sum, &expected[m][4 * n], sizeof sum);
            for (guint i = 0; i < 4 * p.k; i++)
              sum += (guint32) (get_byte (p.a[m][i], a_is_signed)
                                * get_byte (p.b[i / 4][4 * n + i % 4], b_is_signed));
            memcpy (&expected[m][4 * n], &sum, sizeof sum);
          }
      load (&p);
      amx_dot_bytes (0, 1, 2, (gint) a_is_signed, (gint) b_is_signed);
      check_sums (&p, expected);
    }
}

static float
flush (float value)
{
  return fabsf (value) < FLT_MIN ? copysignf (0, value) : value;
}

static float
get_bfloat (const guint8 *src)
{
  guint32 bits = (guint32) src[0] << 16 | (guint32) src[1] << 24;
  float value;

  memcpy (&value, &bits, sizeof value);
  return flush (value);
}

/* Any bits but those of NaN and infinities; every other round small ones, whose products and sums
 * are below the normal range. */
static void
fill_bfloats (guint8   values[16][64],
              gboolean is_small)
{
  for (guint i = 0; i < 16 * 32; i++)
    {
      guint exponent = is_small ? (guint) g_test_rand_int_range (0, 130)
                                : (guint) g_test_rand_int_range (110, 140);
      guint bits = (guint) g_test_rand_int_range (0, 2) << 15 | exponent << 7
                   | (guint) g_test_rand_int_range (0, 128);

      values[i / 32][2 * (i % 32)] = (guint8) bits;
      values[i / 32][2 * (i % 32) + 1] = (guint8) (bits >> 8);
    }
}

static void
test_bfloats (void)
{
  for (guint round = 0; round < 400; round++)
    {
      guint8 expected[16][64];
      Product p;
      guint mxcsr;

      make_shape (&p);
      fill_bfloats (p.a, round % 2);
      fill_bfloats (p.b, round % 2);
      fill_bfloats (p.sums, round % 2);
      memcpy (expected, p.sums, sizeof expected);
      for (guint m = 0; m < p.m; m++)
        for (guint n = 0; n < p.n; n++)
          {
            float sums[2] = { 0, 0 }, sum;

            for (guint i = 0; i < 2 * p.k; i++)
              sums[i % 2] = flush (fmaf (get_bfloat (&p.a[m][2 * i]),
                                         get_bfloat (&p.b[i / 2][4 * n + 2 * (i % 2)]),
                                         sums[i % 2]));
            memcpy (&sum, &expected[m][4 * n], sizeof sum);
            sum = flush (flush (sum) + flush (sums[0] + sums[1]));
            memcpy (&expected[m][4 * n], &sum, sizeof sum);
          }
      load (&p);
      mxcsr = _mm_getcsr ();
      amx_dot_bfloats (0, 1, 2);
      g_assert_cmphex (_mm_getcsr (), ==, mxcsr);
      check_sums (&p, expected);
    }
}

static void
use_unconfigured (void)
{
  amx_zero (3);
}

static void
use_ninth (void)
{
  amx_zero (8);
}

static void
use_twice (void)
{
  configure (&(Product) { .m = 8, .n = 8, .k = 8 });
  amx_dot_bytes (0, 1, 1, 1, 1);
}

static void
use_shapes (void)
{
  amx_dot_bfloats (0, 2, 1);
}

static void
load_overlapping (void)
{
  static const guint8 memory[1024];

  amx_load (1, memory, 8);
}

static void
use_released (void)
{
  amx_release ();
  amx_zero (0);
}

static void
configure_long_rows (void)
{
  amx_load_config (&(Config) { .palette = 1, .row_bytes = { 68 }, .rows = { 16 } });
}

static void
configure_without_rows (void)
{
  amx_load_config (&(Config) { .palette = 1, .row_bytes = { 64 } });
}

static void
test_refused (gconstpointer data)
{
  /* The function itself is in a table of constants. */
  void (*const *misuse) (void) = data;

  if (g_test_subprocess ())
    {
      configure (&(Product) { .m = 5, .n = 6, .k = 7 });
      (*misuse) ();
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_failed ();
  g_test_trap_assert_stderr ("*AMX: tile*");
}

int
main (int   argc,
      char *argv[])
{
  static const struct { const char *name; void (*misuse) (void); } refused[] = {
    { "unconfigured", use_unconfigured },  { "ninth", use_ninth },
    { "twice", use_twice },                { "shapes", use_shapes },
    { "overlapping", load_overlapping },   { "released", use_released },
    { "long-rows", configure_long_rows },  { "no-rows", configure_without_rows },
  };

  g_test_init (&argc, &argv, NULL);

  if (llk_ops_find ("amx-emulated") == NULL)
    g_test_message ("The tiles in software need AVX-512: nothing to test here.");
  else
    {
      g_test_add_func ("/amx-tiles/bytes", test_bytes);
      g_test_add_func ("/amx-tiles/bfloats", test_bfloats);
      for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
        {
          g_autofree char *path = g_strdup_printf ("/amx-tiles/refused/%s", refused[i].name);

          g_test_add_data_func (path, &refused[i].misuse, test_refused);
        }
    }

  return g_test_run ();
}
