/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Packed keys and values: what they keep, how much they take, and that all sets
 * make the same of them and touch nothing else. */

#include <glib.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels/llk.h"

/* So many that what chance adds to a mean error is small beside a tenth of it. */
#define N_ROUNDS 100

static const gsize dims[] = { 1, 5, 16, 31, 32, 64, 80, 128, 200, 576 };
static const gsize chunk_sizes[] = { 16, 32, 48, 64 };

typedef enum
{
  FILL_GAUSS,
  FILL_OUTLIERS,   /* some dimensions a hundred times larger, with a mean of their own */
  FILL_CONSTANT,
  FILL_ZERO,
  FILL_DENORMAL,
  FILL_LARGE,      /* more than a half can hold */
  FILL_INFINITE,   /* some are infinite or not a number */
  N_FILLS,
} Fill;

/* --- memory whose ends are watched --- */

typedef struct
{
  guint8 *pages;
  gsize n_pages;      /* bytes, the page behind not included */
  guint8 *start;      /* the bytes asked for end where the page begins that can't be touched */
} Watched;

static void
watch_new (Watched *self,
           gsize    n)
{
  gsize page = (gsize) sysconf (_SC_PAGESIZE);

  self->n_pages = (n + 64 + page - 1) / page * page;
  self->pages = mmap (NULL, self->n_pages + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_assert_true (self->pages != MAP_FAILED);
  g_assert_cmpint (mprotect (self->pages + self->n_pages, page, PROT_NONE), ==, 0);
  memset (self->pages, 0x5a, self->n_pages);
  self->start = self->pages + self->n_pages - n;
}

static void
watch_free (Watched *self)
{
  for (const guint8 *at = self->pages; at < self->start; at++)
    g_assert_cmphex (*at, ==, 0x5a);
  munmap (self->pages, self->n_pages + (gsize) sysconf (_SC_PAGESIZE));
}

/* --- values --- */

static double
random_gauss (void)
{
  double a = 1 - g_test_rand_double (), b = g_test_rand_double ();

  return sqrt (-2 * log (a)) * cos (2 * G_PI * b);
}

static gsize
get_index (LlkKvPart part,
           gsize     head_dim,
           gsize     chunk_slots,
           gsize     slot,
           gsize     dimension)
{
  return part == LLK_KV_KEYS ? dimension * chunk_slots + slot : slot * head_dim + dimension;
}

static float
make_value (Fill   fill,
            double value,
            gsize  dimension)
{
  static const float wrong[] = { NAN, INFINITY, -INFINITY };

  switch (fill)
    {
    case FILL_OUTLIERS:
      return (float) (dimension % 16 == 3 ? 100 * value + 500 : value);
    case FILL_CONSTANT:
      return 3.14159f;
    case FILL_ZERO:
      return value < 0 ? -0.0f : 0.0f;
    case FILL_DENORMAL:
      return (float) (value * 1e-39);
    case FILL_LARGE:
      return (float) (value * 1e37);
    case FILL_INFINITE:
      return value > 0.5 ? wrong[g_test_rand_int_range (0, 3)] : (float) value;
    default:
      return (float) value;
    }
}

static void
fill_values (float    *x,
             LlkKvPart part,
             gsize     head_dim,
             gsize     chunk_slots,
             Fill      fill)
{
  for (gsize s = 0; s < chunk_slots; s++)
    for (gsize d = 0; d < head_dim; d++)
      x[get_index (part, head_dim, chunk_slots, s, d)] = make_value (fill, random_gauss (), d);
}

/* --- tests --- */

static void
test_sizes (void)
{
  static const struct
  {
    LlkKvFormat format;
    LlkKvPart part;
    gsize head_dim, chunk_slots, bytes;
  } sizes[] = {
    { LLK_KV_F32, LLK_KV_KEYS, 64, 16, 4096 },   { LLK_KV_F16, LLK_KV_VALUES, 64, 16, 2048 },
    { LLK_KV_F16, LLK_KV_VALUES, 5, 16, 160 },   { LLK_KV_Q8, LLK_KV_KEYS, 64, 16, 1056 },
    { LLK_KV_Q8, LLK_KV_VALUES, 64, 16, 1056 },  { LLK_KV_Q4, LLK_KV_KEYS, 64, 16, 610 },
    { LLK_KV_Q4, LLK_KV_VALUES, 64, 16, 530 },   { LLK_KV_Q3, LLK_KV_KEYS, 64, 16, 482 },
    { LLK_KV_Q3, LLK_KV_VALUES, 64, 16, 402 },   { LLK_KV_Q2, LLK_KV_KEYS, 64, 16, 354 },
    { LLK_KV_Q2, LLK_KV_VALUES, 64, 16, 274 },   { LLK_KV_Q2, LLK_KV_KEYS, 128, 64, 2242 },
    { LLK_KV_Q2, LLK_KV_VALUES, 128, 64, 2114 }, { LLK_KV_Q2, LLK_KV_KEYS, 1, 16, 30 },
    { LLK_KV_Q4, LLK_KV_VALUES, 5, 16, 146 },
  };
  static const guint bits[] = { 32, 16, 8, 4, 3, 2 };

  for (LlkKvFormat format = 0; format < LLK_N_KV_FORMATS; format++)
    {
      g_assert_cmpuint (llk_kv_bits (format), ==, bits[format]);
      g_assert_cmpint (llk_kv_is_packed (format), ==, bits[format] < 16);
    }
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    g_assert_cmpuint (llk_kv_part_bytes (sizes[i].format, sizes[i].part, sizes[i].head_dim,
                                         sizes[i].chunk_slots),
                      ==, sizes[i].bytes);
  for (guint d = 0; d < G_N_ELEMENTS (dims); d++)
    for (guint s = 0; s < G_N_ELEMENTS (chunk_sizes); s++)
      for (LlkKvFormat format = 0; format < LLK_N_KV_FORMATS; format++)
        for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
          g_assert_cmpuint (llk_kv_part_bytes (format, part, dims[d], chunk_sizes[s])
                              % (format > LLK_KV_Q8 ? 2 : 16), ==, 0);
}

/* Squared errors, relative to the squared deviation of each dimension's values from their
 * mean, which is 1 but for outliers. */
static double
get_error (const LlkOps *ops,
           LlkKvFormat   format,
           LlkKvPart     part,
           gsize         head_dim,
           gsize         chunk_slots,
           Fill          fill)
{
  gsize n = head_dim * chunk_slots;
  g_autofree float *x = g_new (float, n);
  g_autofree float *y = g_new (float, n);
  g_autofree guint8 *packed = g_malloc (llk_kv_part_bytes (format, part, head_dim, chunk_slots));
  double sum = 0;

  for (guint round = 0; round < N_ROUNDS; round++)
    {
      fill_values (x, part, head_dim, chunk_slots, fill);
      ops->kv->pack (format, part, head_dim, chunk_slots, x, NULL, packed);
      ops->kv->unpack (format, part, head_dim, chunk_slots, packed, y, false);
      for (gsize s = 0; s < chunk_slots; s++)
        for (gsize d = 0; d < head_dim; d++)
          {
            gsize i = get_index (part, head_dim, chunk_slots, s, d);
            double deviation = fill == FILL_OUTLIERS && d % 16 == 3 ? 100 : 1;
            double error = ((double) y[i] - x[i]) / deviation;

            sum += error * error;
          }
    }
  return sum / (N_ROUNDS * (double) n);
}

/* Near to what the best linear codes of so many Gaussian values lose: of sixteen, of 64 and of
 * many, with 2 bits 0.077, 0.11 and 0.12; a tenth more is allowed. */
static void
test_error (gconstpointer data)
{
  static const struct
  {
    LlkKvFormat format;
    LlkKvPart part;
    gsize head_dim, chunk_slots;
    Fill fill;
    double most;
  } cases[] = {
    { LLK_KV_Q8, LLK_KV_KEYS, 64, 16, FILL_GAUSS, 4e-5 },
    { LLK_KV_Q8, LLK_KV_VALUES, 64, 16, FILL_GAUSS, 4e-5 },
    { LLK_KV_Q8, LLK_KV_VALUES, 128, 64, FILL_GAUSS, 5e-5 },
    { LLK_KV_Q4, LLK_KV_KEYS, 64, 16, FILL_GAUSS, 0.0056 },
    { LLK_KV_Q4, LLK_KV_KEYS, 64, 16, FILL_OUTLIERS, 0.0075 },
    { LLK_KV_Q4, LLK_KV_KEYS, 80, 64, FILL_OUTLIERS, 0.0125 },
    { LLK_KV_Q4, LLK_KV_VALUES, 64, 16, FILL_GAUSS, 0.0090 },
    { LLK_KV_Q4, LLK_KV_VALUES, 128, 32, FILL_GAUSS, 0.0106 },
    { LLK_KV_Q3, LLK_KV_KEYS, 64, 16, FILL_GAUSS, 0.0212 },
    { LLK_KV_Q3, LLK_KV_VALUES, 64, 16, FILL_GAUSS, 0.0355 },
    { LLK_KV_Q2, LLK_KV_KEYS, 64, 16, FILL_GAUSS, 0.087 },
    { LLK_KV_Q2, LLK_KV_KEYS, 64, 16, FILL_OUTLIERS, 0.106 },
    { LLK_KV_Q2, LLK_KV_KEYS, 128, 64, FILL_GAUSS, 0.130 },
    { LLK_KV_Q2, LLK_KV_VALUES, 32, 16, FILL_GAUSS, 0.114 },
    { LLK_KV_Q2, LLK_KV_VALUES, 64, 16, FILL_GAUSS, 0.124 },
    { LLK_KV_Q2, LLK_KV_VALUES, 200, 16, FILL_GAUSS, 0.137 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      double error = get_error (data, cases[i].format, cases[i].part, cases[i].head_dim,
                                cases[i].chunk_slots, cases[i].fill);

      if (!(error <= cases[i].most))
        g_error ("Case %u: %g is more than %g", i, error, cases[i].most);
      /* Nothing is that good: a test that compares x with itself would be. */
      g_assert_cmpfloat (error, >, cases[i].most / 2);
    }
}

/* What the values of a group can have in common, and what is no number. */
static void
test_special (gconstpointer data)
{
  const LlkOps *ops = data;
  const gsize head_dim = 40, chunk_slots = 32, n = 40 * 32;
  g_autofree float *x = g_new (float, n);
  g_autofree float *y = g_new (float, n);
  g_autofree guint16 *halves = g_new (guint16, n);
  g_autofree guint8 *packed = g_malloc (2 * n);
  g_autofree guint8 *again = g_malloc (2 * n);

  for (LlkKvFormat format = LLK_KV_Q8; format <= LLK_KV_Q2; format++)
    for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
      {
        gsize bytes = llk_kv_part_bytes (format, part, head_dim, chunk_slots);

        fill_values (x, part, head_dim, chunk_slots, FILL_CONSTANT);
        ops->kv->pack (format, part, head_dim, chunk_slots, x, NULL, packed);
        ops->kv->unpack (format, part, head_dim, chunk_slots, packed, y, false);
        for (gsize i = 0; i < n; i++)
          g_assert_cmpfloat_with_epsilon (y[i], x[i], 0.08 * x[i]);

        fill_values (x, part, head_dim, chunk_slots, FILL_ZERO);
        ops->kv->pack (format, part, head_dim, chunk_slots, x, NULL, packed);
        ops->kv->unpack (format, part, head_dim, chunk_slots, packed, y, false);
        for (gsize i = 0; i < n; i++)
          g_assert_true (y[i] == 0);

        fill_values (x, part, head_dim, chunk_slots, FILL_DENORMAL);
        ops->kv->pack (format, part, head_dim, chunk_slots, x, NULL, packed);
        ops->kv->unpack (format, part, head_dim, chunk_slots, packed, y, false);
        for (gsize i = 0; i < n; i++)
          g_assert_cmpfloat_with_epsilon (y[i], 0, 0x1p-18);

        /* Not finite ones are zeros. */
        fill_values (x, part, head_dim, chunk_slots, FILL_INFINITE);
        ops->kv->pack (format, part, head_dim, chunk_slots, x, NULL, packed);
        for (gsize i = 0; i < n; i++)
          x[i] = isfinite (x[i]) ? x[i] : 0;
        ops->kv->pack (format, part, head_dim, chunk_slots, x, NULL, again);
        g_assert_cmpmem (packed, bytes, again, bytes);

        /* Those that no half could hold are clipped, and still are halves. */
        fill_values (x, part, head_dim, chunk_slots, FILL_LARGE);
        ops->kv->pack (format, part, head_dim, chunk_slots, x, NULL, packed);
        ops->kv->unpack (format, part, head_dim, chunk_slots, packed, halves, true);
        ops->vector->f16_to_f32 (halves, y, n);
        for (gsize i = 0; i < n; i++)
          g_assert_true (isfinite (y[i]));
        for (gsize i = 0; i < n; i++)
          x[i] = CLAMP (x[i], -57344.0f, 57344.0f);
        ops->kv->pack (format, part, head_dim, chunk_slots, x, NULL, again);
        g_assert_cmpmem (packed, bytes, again, bytes);
      }
}

/* Q8: each value within half a scale. */
static void
test_nearest (gconstpointer data)
{
  const LlkOps *ops = data;
  float x[64 * 16], y[64 * 16];
  guint8 packed[64 * 16 + 32];

  for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
    {
      fill_values (x, part, 64, 16, FILL_OUTLIERS);
      ops->kv->pack (LLK_KV_Q8, part, 64, 16, x, NULL, packed);
      ops->kv->unpack (LLK_KV_Q8, part, 64, 16, packed, y, false);
      for (gsize s = 0; s < 16; s++)
        {
          double largest = 0;

          for (gsize d = 0; d < 64; d++)
            largest = MAX (largest, fabsf (x[get_index (part, 64, 16, s, d)]));
          for (gsize d = 0; d < 64; d++)
            {
              gsize i = get_index (part, 64, 16, s, d);

              g_assert_cmpfloat (fabs ((double) x[i] - y[i]), <=, largest / 127 * 0.55);
            }
        }
    }
}

static void
check_same (const LlkOps *ops,
            LlkKvFormat   format,
            LlkKvPart     part,
            gsize         head_dim,
            gsize         chunk_slots,
            Fill          fill,
            const float  *feedback)
{
  const LlkOps *portable = llk_ops_portable ();
  gsize n = head_dim * chunk_slots;
  gsize bytes = llk_kv_part_bytes (format, part, head_dim, chunk_slots);
  g_autofree guint8 *packed = g_malloc (bytes);
  g_autofree float *floats = g_new (float, n);
  g_autofree guint16 *halves = g_new (guint16, n);
  Watched x, out, y, h;

  watch_new (&x, n * sizeof (float));
  watch_new (&out, bytes);
  watch_new (&y, n * sizeof (float));
  watch_new (&h, n * sizeof (guint16));
  fill_values ((float *) (gpointer) x.start, part, head_dim, chunk_slots, fill);
  memset (packed, 0xff, bytes);

  portable->kv->pack (format, part, head_dim, chunk_slots, (float *) (gpointer) x.start, feedback,
                      packed);
  ops->kv->pack (format, part, head_dim, chunk_slots, (float *) (gpointer) x.start, feedback,
                 out.start);
  g_assert_cmpmem (packed, bytes, out.start, bytes);

  portable->kv->unpack (format, part, head_dim, chunk_slots, packed, floats, false);
  ops->kv->unpack (format, part, head_dim, chunk_slots, out.start, y.start, false);
  g_assert_cmpmem (floats, n * sizeof (float), y.start, n * sizeof (float));
  portable->kv->unpack (format, part, head_dim, chunk_slots, packed, halves, true);
  ops->kv->unpack (format, part, head_dim, chunk_slots, out.start, h.start, true);
  g_assert_cmpmem (halves, n * sizeof (guint16), h.start, n * sizeof (guint16));

  watch_free (&x);
  watch_free (&out);
  watch_free (&y);
  watch_free (&h);
}

/* Shares as a head's weights would give them, some as large as they can be. */
static float *
make_feedback (gsize head_dim)
{
  float *feedback = g_new (float, head_dim * LLK_KV_FEEDBACK);

  for (gsize i = 0; i < head_dim * LLK_KV_FEEDBACK; i++)
    feedback[i] = (float) (i % 37 == 0 ? 4 : g_test_rand_double_range (-0.5, 0.5));
  return feedback;
}

static void
test_same (gconstpointer data)
{
  for (guint d = 0; d < G_N_ELEMENTS (dims); d++)
    {
      g_autofree float *feedback = make_feedback (dims[d]);

      for (guint s = 0; s < G_N_ELEMENTS (chunk_sizes); s++)
        for (LlkKvFormat format = LLK_KV_Q8; format <= LLK_KV_Q2; format++)
          for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
            for (Fill fill = 0; fill < N_FILLS; fill++)
              {
                check_same (data, format, part, dims[d], chunk_sizes[s], fill, NULL);
                check_same (data, format, part, dims[d], chunk_sizes[s], fill, feedback);
              }
    }
}

/* What comes from a storage may be anything. */
static void
test_any_bytes (gconstpointer data)
{
  const LlkOps *ops = data;
  const gsize head_dim = 80, chunk_slots = 48, n = 80 * 48;
  g_autofree guint8 *packed = g_malloc (2 * n);
  g_autofree float *x = g_new (float, n);
  g_autofree float *y = g_new (float, n);

  for (guint round = 0; round < 10; round++)
    {
      for (gsize i = 0; i < 2 * n; i++)
        packed[i] = (guint8) g_test_rand_int ();
      for (LlkKvFormat format = LLK_KV_Q8; format <= LLK_KV_Q2; format++)
        for (LlkKvPart part = LLK_KV_KEYS; part <= LLK_KV_VALUES; part++)
          {
            llk_ops_portable ()->kv->unpack (format, part, head_dim, chunk_slots, packed, x, false);
            ops->kv->unpack (format, part, head_dim, chunk_slots, packed, y, false);
            for (gsize i = 0; i < n; i++)
              g_assert_true (isnan (x[i]) ? isnan (y[i]) : x[i] == y[i]);
          }
    }
}

/* Floats too can be asked for in either form. */
static void
test_floats (gconstpointer data)
{
  const LlkOps *ops = data;
  float x[5 * 16], y[5 * 16];
  guint16 halves[5 * 16], found[5 * 16];

  fill_values (x, LLK_KV_VALUES, 5, 16, FILL_GAUSS);
  ops->vector->f32_to_f16 (x, halves, 5 * 16);
  ops->kv->unpack (LLK_KV_F32, LLK_KV_VALUES, 5, 16, x, found, true);
  g_assert_cmpmem (found, sizeof found, halves, sizeof halves);
  ops->kv->unpack (LLK_KV_F16, LLK_KV_VALUES, 5, 16, halves, found, true);
  g_assert_cmpmem (found, sizeof found, halves, sizeof halves);
  ops->kv->unpack (LLK_KV_F32, LLK_KV_VALUES, 5, 16, x, y, false);
  g_assert_cmpmem (y, sizeof y, x, sizeof x);
  ops->vector->f16_to_f32 (halves, x, 5 * 16);
  ops->kv->unpack (LLK_KV_F16, LLK_KV_VALUES, 5, 16, halves, y, false);
  g_assert_cmpmem (y, sizeof y, x, sizeof x);
}

/* Sets have the functions of another one where they are no faster. */
static gboolean
is_first_with_its_own (const LlkOps *ops)
{
  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    if (llk_ops_find (*name)->kv == ops->kv)
      return llk_ops_find (*name) == ops;
  g_assert_not_reached ();
}

int
main (int   argc,
      char *argv[])
{
  static const struct { const char *name; GTestDataFunc func; } tests[] = {
    { "error", test_error }, { "special", test_special },     { "nearest", test_nearest },
    { "same", test_same },   { "any-bytes", test_any_bytes }, { "floats", test_floats },
  };

  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/kv/sizes", test_sizes);
  for (const char *const *name = llk_ops_list (); *name != NULL; name++)
    {
      const LlkOps *ops = llk_ops_find (*name);

      for (guint i = 0; i < G_N_ELEMENTS (tests) && is_first_with_its_own (ops); i++)
        if (ops != llk_ops_portable () || tests[i].func != test_same)
          {
            g_autofree char *path = g_strdup_printf ("/kv/%s/%s", *name, tests[i].name);

            g_test_add_data_func (path, ops, tests[i].func);
          }
    }

  return g_test_run ();
}
