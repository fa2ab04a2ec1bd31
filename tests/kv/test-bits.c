/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* How many bits each chunk gets (L4), against every choice there is, and for many chunks against a
 * bound that none can be below. */

#include <float.h>
#include <math.h>

#include "kv/llm-kv-private.h"

#define MAX_CHUNKS 8
#define N_WIDTHS 3

static const LlkKvFormat widths[N_WIDTHS] = { LLK_KV_Q8, LLK_KV_Q4, LLK_KV_Q2 };

static gboolean
is_allowed (const LlmKvBitsChunk *chunk,
            LlkKvFormat           format)
{
  return format >= chunk->best;
}

static double
get_loss (const LlmKvBitsChunk *chunks,
          guint                 n,
          const LlmKvBitsCosts *costs,
          const LlkKvFormat    *formats)
{
  double loss = 0;

  for (guint i = 0; i < n; i++)
    loss += (double) chunks[i].density * costs->errors[formats[i]];

  return loss;
}

static guint64
get_bytes (guint                 n,
           const LlmKvBitsCosts *costs,
           const LlkKvFormat    *formats)
{
  guint64 bytes = 0;

  for (guint i = 0; i < n; i++)
    bytes += costs->bytes[formats[i]];

  return bytes;
}

/* Looks at all choices. Returns the least loss within @budget, or, where none fits, a negative
 * number. */
static double
search_all (const LlmKvBitsChunk *chunks,
            guint                 n,
            const LlmKvBitsCosts *costs,
            guint64               budget)
{
  double least = -1;
  guint n_choices = 1;

  for (guint i = 0; i < n; i++)
    n_choices *= N_WIDTHS;
  for (guint choice = 0; choice < n_choices; choice++)
    {
      LlkKvFormat formats[MAX_CHUNKS];
      gboolean is_good = TRUE;
      guint rest = choice;
      double loss;

      for (guint i = 0; i < n; i++)
        {
          formats[i] = widths[rest % N_WIDTHS];
          rest /= N_WIDTHS;
          is_good = is_good && is_allowed (&chunks[i], formats[i]);
        }
      if (!is_good || get_bytes (n, costs, formats) > budget)
        continue;
      loss = get_loss (chunks, n, costs, formats);
      if (least < 0 || loss < least)
        least = loss;
    }

  return least;
}

static void
make_costs (LlmKvBitsCosts *costs)
{
  guint64 q2 = (guint64) g_test_rand_int_range (1, 40);
  guint64 q4 = q2 + (guint64) g_test_rand_int_range (1, 40);

  *costs = (LlmKvBitsCosts) { 0 };
  costs->bytes[LLK_KV_Q2] = q2;
  costs->bytes[LLK_KV_Q4] = q4;
  costs->bytes[LLK_KV_Q8] = q4 + (guint64) g_test_rand_int_range (1, 80);
  costs->errors[LLK_KV_Q8] = g_test_rand_double_range (0, 0.001);
  costs->errors[LLK_KV_Q4] = costs->errors[LLK_KV_Q8] + g_test_rand_double_range (0, 0.05);
  costs->errors[LLK_KV_Q2] = costs->errors[LLK_KV_Q4] + g_test_rand_double_range (0, 0.5);
}

/* What one chunk can lose. */
static double
get_largest (const LlmKvBitsChunk *chunks,
             guint                 n,
             const LlmKvBitsCosts *costs)
{
  double largest = 0;

  for (guint i = 0; i < n; i++)
    largest = MAX (largest, (double) chunks[i].density
                              * (costs->errors[LLK_KV_Q2] - costs->errors[LLK_KV_Q8]));
  return largest;
}

static void
test_all_choices (void)
{
  guint n_tight = 0, n_best = 0, n_fit = 0;

  for (guint round = 0; round < 4000; round++)
    {
      LlmKvBitsChunk chunks[MAX_CHUNKS];
      LlkKvFormat formats[MAX_CHUNKS];
      LlmKvBitsCosts costs;
      guint n = (guint) g_test_rand_int_range (0, MAX_CHUNKS + 1);
      guint64 budget, bytes;
      double least, loss;

      make_costs (&costs);
      for (guint i = 0; i < n; i++)
        {
          /* Few different ones, now and then, so that some are equal. */
          chunks[i].density = round % 3 == 0 ? (float) g_test_rand_int_range (0, 3)
                                             : (float) exp (g_test_rand_double_range (-6, 3));
          chunks[i].best = LLK_KV_F16;
          if (round % 2 == 1)
            chunks[i].best = (LlkKvFormat) g_test_rand_int_range (0, LLK_N_KV_FORMATS);
        }
      budget = (guint64) g_test_rand_double_range (0, 1.1 * n * (double) costs.bytes[LLK_KV_Q8]
                                                        + 2);

      bytes = llm_kv_bits_choose (chunks, n, &costs, budget, formats);

      for (guint i = 0; i < n; i++)
        g_assert_true (is_allowed (&chunks[i], formats[i]));
      g_assert_cmpuint (bytes, ==, get_bytes (n, &costs, formats));
      loss = get_loss (chunks, n, &costs, formats);
      least = search_all (chunks, n, &costs, budget);
      if (least < 0)
        {
          /* Nothing fits: the fewest bits that are allowed. */
          n_tight++;
          for (guint i = 0; i < n; i++)
            g_assert_true (formats[i] == LLK_KV_Q2 || !is_allowed (&chunks[i], LLK_KV_Q2));
          continue;
        }
      g_assert_cmpuint (bytes, <=, budget);
      g_assert_cmpfloat (loss, <=, least + get_largest (chunks, n, &costs) + 1e-9);
      n_best += loss <= least + 1e-9;
      n_fit++;
    }
  g_assert_cmpuint (n_tight, >, 20);
  g_assert_cmpuint (n_best, >, n_fit / 2);
}

/* What the least loss of @budget bytes can't be below: with a price for each byte, every chunk has
 * the width that is best for it alone, whatever the price (Lagrange). */
static double
get_bound (const LlmKvBitsChunk *chunks,
           guint                 n,
           const LlmKvBitsCosts *costs,
           guint64               budget)
{
  double bound = 0;

  for (double price = 1e-9; price < 1e3; price *= 1.02)
    {
      double sum = -price * (double) budget;

      for (guint i = 0; i < n; i++)
        {
          double least = INFINITY;

          for (guint w = 0; w < N_WIDTHS; w++)
            if (is_allowed (&chunks[i], widths[w]))
              least = MIN (least, (double) chunks[i].density * costs->errors[widths[w]]
                                    + price * (double) costs->bytes[widths[w]]);
          sum += least;
        }
      bound = MAX (bound, sum);
    }
  return bound;
}

static void
test_many (void)
{
  enum { N = 300 };
  LlmKvBitsChunk chunks[N];
  LlkKvFormat formats[N];

  for (guint round = 0; round < 20; round++)
    {
      LlmKvBitsCosts costs;
      guint64 least, most, before = 0;

      make_costs (&costs);
      for (guint i = 0; i < N; i++)
        chunks[i] = (LlmKvBitsChunk) {
          .density = (float) exp (g_test_rand_double_range (-6, 3)),
          .best = (LlkKvFormat) g_test_rand_int_range (0, LLK_KV_Q8 + 1 + (int) round % 2),
        };
      least = N * costs.bytes[LLK_KV_Q2];
      most = N * costs.bytes[LLK_KV_Q8];
      for (guint64 budget = least; budget <= most; budget += 1 + (most - least) / 50)
        {
          guint64 bytes = llm_kv_bits_choose (chunks, N, &costs, budget, formats);
          double loss = get_loss (chunks, N, &costs, formats);

          g_assert_cmpuint (bytes, <=, budget);
          g_assert_cmpuint (bytes + costs.bytes[LLK_KV_Q8], >=, before);
          g_assert_cmpfloat (loss, <=, 1.001 * (get_bound (chunks, N, &costs, budget)
                                                + get_largest (chunks, N, &costs)) + 1e-9);
          before = bytes;
        }
    }
}

/* What the ratio of one half is for: at the bytes of all-4-bit it loses less. */
static void
test_beats_uniform (void)
{
  enum { N = 256 };
  const LlmKvBitsCosts costs = {
    .bytes = { [LLK_KV_Q8] = 1088, [LLK_KV_Q4] = 576, [LLK_KV_Q2] = 320 },
    .errors = { [LLK_KV_Q8] = 0.00003, [LLK_KV_Q4] = 0.008, [LLK_KV_Q2] = 0.12 },
  };
  LlmKvBitsChunk chunks[N], turned[N];
  LlkKvFormat formats[N];
  LlkKvFormat uniform[N];
  guint counts[LLK_N_KV_FORMATS] = { 0 };
  guint64 bytes;
  double all4, chosen, inverted;

  for (guint i = 0; i < N; i++)
    {
      /* As measured ones look: a few hold most. */
      chunks[i] = (LlmKvBitsChunk) {
        .density = (float) exp (g_test_rand_double_range (-8, 2)),
        .best = LLK_KV_F16,
      };
      uniform[i] = LLK_KV_Q4;
    }
  all4 = get_loss (chunks, N, &costs, uniform);
  bytes = llm_kv_bits_choose (chunks, N, &costs, N * costs.bytes[LLK_KV_Q4], formats);
  chosen = get_loss (chunks, N, &costs, formats);
  for (guint i = 0; i < N; i++)
    counts[formats[i]]++;

  g_assert_cmpuint (bytes, <=, N * costs.bytes[LLK_KV_Q4]);
  g_assert_cmpfloat (chosen, <, 0.9 * all4);
  g_assert_cmpuint (counts[LLK_KV_Q8], >, 0);
  g_assert_cmpuint (counts[LLK_KV_Q4], >, 0);
  g_assert_cmpuint (counts[LLK_KV_Q2], >, 0);

  /* The denser one never has fewer bits, and the other way round when it is turned round. */
  for (guint i = 0; i < N; i++)
    for (guint j = 0; j < N; j++)
      if (chunks[i].density > chunks[j].density)
        g_assert_cmpuint (formats[i], <=, formats[j]);
  for (guint i = 0; i < N; i++)
    {
      turned[i] = chunks[i];
      turned[i].density = 1 / turned[i].density;
    }
  bytes = llm_kv_bits_choose (turned, N, &costs, N * costs.bytes[LLK_KV_Q4], formats);
  inverted = get_loss (chunks, N, &costs, formats);
  g_assert_cmpuint (bytes, <=, N * costs.bytes[LLK_KV_Q4]);
  g_assert_cmpfloat (inverted, >, 2 * all4);
  for (guint i = 0; i < N; i++)
    for (guint j = 0; j < N; j++)
      if (chunks[i].density > chunks[j].density * 1.01f)
        g_assert_cmpuint (formats[i], >=, formats[j]);
}

/* Densities come from files, too. */
static void
test_nasty (void)
{
  const LlmKvBitsCosts costs = {
    .bytes = { [LLK_KV_Q8] = 100, [LLK_KV_Q4] = 50, [LLK_KV_Q2] = 30 },
    .errors = { [LLK_KV_Q8] = 0.1, [LLK_KV_Q4] = 0.2, [LLK_KV_Q2] = 0.4 },
  };
  const LlmKvBitsChunk chunks[] = {
    { .density = NAN, .best = LLK_KV_Q8 },       { .density = -1, .best = LLK_KV_F32 },
    { .density = INFINITY, .best = LLK_KV_Q8 },  { .density = FLT_MAX, .best = LLK_KV_Q4 },
    { .density = -INFINITY, .best = LLK_KV_Q2 }, { .density = 1, .best = LLK_KV_Q8 },
  };
  LlkKvFormat formats[G_N_ELEMENTS (chunks)];
  guint n = G_N_ELEMENTS (chunks);

  for (guint64 budget = 0; budget < 700; budget += 10)
    {
      guint64 bytes = llm_kv_bits_choose (chunks, n, &costs, budget, formats);

      g_assert_cmpuint (bytes, ==, get_bytes (n, &costs, formats));
      g_assert_true (bytes <= budget || bytes == n * costs.bytes[LLK_KV_Q2]);
      for (guint i = 0; i < n; i++)
        g_assert_true (is_allowed (&chunks[i], formats[i]));
      if (budget == 270)
        {
          g_assert_cmpuint (formats[2], ==, LLK_KV_Q8);
          g_assert_cmpuint (formats[0], ==, LLK_KV_Q2);
        }
    }
  g_assert_cmpuint (llm_kv_bits_choose (NULL, 0, &costs, 250, NULL), ==, 0);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/kv/bits/all-choices", test_all_choices);
  g_test_add_func ("/kv/bits/many", test_many);
  g_test_add_func ("/kv/bits/beats-uniform", test_beats_uniform);
  g_test_add_func ("/kv/bits/nasty", test_nasty);
  return g_test_run ();
}
