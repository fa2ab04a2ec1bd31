/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sampler: each option by its definition, draws by their distribution. */

#include <math.h>
#include <string.h>

#include "decoding/llm-sampler.h"

#define N_VOCAB 50
#define N_DRAWS 20000

static const LlmSamplerConfig plain = {
  .temperature = 1, .top_p = 1, .repeat_penalty = 1, .seed = 42
};
static const LlmSamplerConfig greedy = { .top_p = 1, .repeat_penalty = 1 };

static void
random_logits (float *logits,
               guint  n)
{
  for (guint i = 0; i < n; i++)
    logits[i] = (float) g_test_rand_double_range (-4, 4);
}

static gint32
sample_once (const LlmSamplerConfig *config,
             const float            *logits,
             guint                   n_vocab)
{
  g_autoptr (LlmSampler) sampler = llm_sampler_new (config, n_vocab);

  return llm_sampler_sample (sampler, logits);
}

/* How often each token was drawn. */
static void
count_draws (const LlmSamplerConfig *config,
             const float            *logits,
             guint                   n_vocab,
             guint                  *counts)
{
  g_autoptr (LlmSampler) sampler = llm_sampler_new (config, n_vocab);

  memset (counts, 0, n_vocab * sizeof *counts);
  for (guint i = 0; i < N_DRAWS; i++)
    {
      gint32 token = llm_sampler_sample (sampler, logits);

      g_assert_cmpint (token, >=, 0);
      g_assert_cmpint (token, <, n_vocab);
      counts[token]++;
    }
}

/* By the definitions, one after the other, with a full sort. */
static void
compute_probabilities (const LlmSamplerConfig *config,
                       const float            *logits,
                       guint                   n_vocab,
                       double                 *probabilities)
{
  guint order[N_VOCAB];
  guint n = 0, n_kept;
  double total = 0, below = 0, sum = 0, max;

  for (guint i = 0; i < n_vocab; i++)
    {
      guint at = n;

      probabilities[i] = 0;
      if (isnan (logits[i]) || logits[i] == -INFINITY)
        continue;
      while (at > 0 && logits[i] > logits[order[at - 1]])
        {
          order[at] = order[at - 1];
          at--;
        }
      order[at] = i;
      n++;
    }

  max = logits[order[0]];
  n = config->top_k > 0 ? MIN (config->top_k, n) : n;
  for (guint i = 0; i < n; i++)
    total += exp (logits[order[i]] - max);
  for (n_kept = 0; n_kept < n; n_kept++)
    {
      double share = exp (logits[order[n_kept]] - max) / total;

      if (n_kept > 0 && (below >= config->top_p || share < config->min_p / total))
        break;
      below += share;
    }
  for (guint i = 0; i < n_kept; i++)
    sum += exp ((logits[order[i]] - max) / config->temperature);
  for (guint i = 0; i < n_kept; i++)
    probabilities[order[i]] = exp ((logits[order[i]] - max) / config->temperature) / sum;
}

/* Five standard deviations for each token, none where there is no chance. */
static void
check_distribution (const LlmSamplerConfig *config,
                    const float            *logits,
                    guint                   n_vocab)
{
  guint counts[N_VOCAB];
  double probabilities[N_VOCAB];

  compute_probabilities (config, logits, n_vocab, probabilities);
  count_draws (config, logits, n_vocab, counts);
  for (guint i = 0; i < n_vocab; i++)
    {
      double expected = probabilities[i] * N_DRAWS;

      if (probabilities[i] == 0)
        g_assert_cmpuint (counts[i], ==, 0);
      else
        g_assert_cmpfloat_with_epsilon (counts[i], expected,
                                        5 * sqrt (expected * (1 - probabilities[i])) + 5);
    }
}

static void
test_distribution (void)
{
  static const struct { float temperature; guint top_k; float top_p, min_p; } options[] = {
    { 1, 0, 1, 0 },     { 0.5f, 0, 1, 0 },    { 2, 0, 1, 0 },        { 1, 1, 1, 0 },
    { 1, 7, 1, 0 },     { 1, 1000, 1, 0 },    { 1, 0, 0.5f, 0 },     { 1, 0, 0.9f, 0 },
    { 1, 0, 0, 0 },     { 1, 0, 1, 0.1f },    { 1, 0, 1, 1 },        { 1, 10, 0.8f, 0 },
    { 0.7f, 0, 0.9f, 0.05f }, { 1.3f, 12, 0.95f, 0.02f },
  };

  for (guint i = 0; i < G_N_ELEMENTS (options); i++)
    for (guint round = 0; round < 3; round++)
      {
        LlmSamplerConfig config = plain;
        float logits[N_VOCAB];

        config.temperature = options[i].temperature;
        config.top_k = options[i].top_k;
        config.top_p = options[i].top_p;
        config.min_p = options[i].min_p;
        config.seed = round;
        random_logits (logits, N_VOCAB);
        if (round == 1)
          for (guint t = 0; t < N_VOCAB; t += 3)
            logits[t] = t % 2 == 0 ? NAN : -INFINITY;
        check_distribution (&config, logits, N_VOCAB);
      }
}

/* Equal logits: each as often as the others; a limit takes the lower ids. */
static void
test_ties (void)
{
  float logits[N_VOCAB];
  LlmSamplerConfig config = plain;
  guint counts[N_VOCAB];

  for (guint i = 0; i < N_VOCAB; i++)
    logits[i] = 3;
  g_assert_cmpint (sample_once (&greedy, logits, N_VOCAB), ==, 0);
  check_distribution (&config, logits, N_VOCAB);

  config.top_k = 4;
  count_draws (&config, logits, N_VOCAB, counts);
  for (guint i = 0; i < N_VOCAB; i++)
    g_assert_cmpint (counts[i] > 0, ==, i < 4);
  config.top_k = 0;
  config.top_p = 0.09f;
  count_draws (&config, logits, N_VOCAB, counts);
  for (guint i = 0; i < N_VOCAB; i++)
    g_assert_cmpint (counts[i] > 0, ==, i < 5);
}

static void
test_greedy (void)
{
  for (guint round = 0; round < 100; round++)
    {
      float logits[N_VOCAB];
      gint32 best = g_test_rand_int_range (0, N_VOCAB);
      LlmSamplerConfig top_1 = plain;

      random_logits (logits, N_VOCAB);
      logits[best] = 5;
      logits[(best + 1) % N_VOCAB] = NAN;
      g_assert_cmpint (sample_once (&greedy, logits, N_VOCAB), ==, best);
      top_1.top_k = 1;
      g_assert_cmpint (sample_once (&top_1, logits, N_VOCAB), ==, best);
      top_1.top_k = 0;
      top_1.temperature = 1e-30f;
      g_assert_cmpint (sample_once (&top_1, logits, N_VOCAB), ==, best);
    }
}

static void
test_not_numbers (void)
{
  float logits[N_VOCAB];
  LlmLogitBias bias = { 7, 1 };
  LlmSamplerConfig biased = greedy;

  biased.bias = &bias;
  biased.n_bias = 1;
  for (guint i = 0; i < N_VOCAB; i++)
    logits[i] = i % 2 == 0 ? NAN : -INFINITY;
  g_assert_cmpint (sample_once (&greedy, logits, N_VOCAB), ==, -1);
  g_assert_cmpint (sample_once (&biased, logits, N_VOCAB), ==, -1);
  g_assert_cmpint (sample_once (&plain, logits, N_VOCAB), ==, -1);

  logits[30] = -1e38f;
  g_assert_cmpint (sample_once (&greedy, logits, N_VOCAB), ==, 30);
  g_assert_cmpint (sample_once (&plain, logits, N_VOCAB), ==, 30);
  logits[33] = INFINITY;
  g_assert_cmpint (sample_once (&greedy, logits, N_VOCAB), ==, 33);
  g_assert_cmpint (sample_once (&plain, logits, N_VOCAB), ==, 33);
}

static void
test_bias (void)
{
  float logits[4] = { 1, 2, 3, 4 };
  float before[4] = { 1, 2, 3, 4 };
  LlmLogitBias bias[] = { { 3, -INFINITY }, { 0, 5 }, { 9, 100 }, { -1, 100 }, { 0, -2.5f } };
  LlmSamplerConfig config = greedy;
  guint counts[4];

  config.bias = bias;
  config.n_bias = 2;
  g_assert_cmpint (sample_once (&config, logits, 4), ==, 0);
  config.n_bias = 5;
  g_assert_cmpint (sample_once (&config, logits, 4), ==, 0);
  bias[1].bias = 0;
  g_assert_cmpint (sample_once (&config, logits, 4), ==, 2);

  config.temperature = 1;
  config.seed = 1;
  count_draws (&config, logits, 4, counts);
  g_assert_cmpuint (counts[3], ==, 0);
  g_assert_cmpuint (counts[0], >, 0);
  g_assert_cmpmem (logits, sizeof logits, before, sizeof before);
}

static void
test_penalties (void)
{
  float logits[4] = { 4, 3.5f, -1, -1.5f };
  LlmSamplerConfig config = greedy;
  LlmSampler *sampler;

  /* Positive logits are divided, once however often the token came. */
  config.repeat_penalty = 1.1f;
  sampler = llm_sampler_new (&config, 4);
  llm_sampler_accept (sampler, 0);
  llm_sampler_accept (sampler, 0);
  g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, 0); /* 3.64 */
  llm_sampler_free (sampler);
  config.repeat_penalty = 1.2f;
  sampler = llm_sampler_new (&config, 4);
  llm_sampler_accept (sampler, 0);
  g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, 1); /* 3.33 */
  llm_sampler_free (sampler);

  /* Negative ones are multiplied. */
  config.repeat_penalty = 2;
  sampler = llm_sampler_new (&config, 2);
  llm_sampler_accept (sampler, 0);
  g_assert_cmpint (llm_sampler_sample (sampler, logits + 2), ==, 1);
  llm_sampler_free (sampler);

  /* The frequency penalty grows with the count. */
  config = greedy;
  config.frequency_penalty = 0.2f;
  sampler = llm_sampler_new (&config, 4);
  llm_sampler_accept (sampler, 0);
  llm_sampler_accept (sampler, 0);
  g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, 0); /* 3.6 */
  llm_sampler_accept (sampler, 0);
  g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, 1); /* 3.4 */
  llm_sampler_free (sampler);

  /* The presence penalty does not. */
  config = greedy;
  config.presence_penalty = 0.4f;
  sampler = llm_sampler_new (&config, 4);
  for (guint i = 0; i < 10; i++)
    llm_sampler_accept (sampler, 0);
  llm_sampler_accept (sampler, -5);
  llm_sampler_accept (sampler, 400);
  g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, 0);
  llm_sampler_free (sampler);
  config.presence_penalty = 0.6f;
  sampler = llm_sampler_new (&config, 4);
  llm_sampler_accept (sampler, 0);
  g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, 1);
  /* Behind the window it is forgotten. */
  for (guint i = 0; i < LLM_SAMPLER_PENALTY_WINDOW - 1; i++)
    llm_sampler_accept (sampler, 3);
  g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, 1);
  llm_sampler_accept (sampler, 3);
  g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, 0);
  llm_sampler_free (sampler);
}

/* The same seed gives the same tokens, another one others; what was accepted
 * between does not matter. */
static void
test_seed (void)
{
  float logits[N_VOCAB];
  guint n_same = 0;
  gint32 first[200];

  random_logits (logits, N_VOCAB);
  for (guint round = 0; round < 3; round++)
    {
      LlmSamplerConfig config = plain;
      g_autoptr (LlmSampler) sampler = NULL;

      config.seed = round == 2 ? 43 : 42;
      sampler = llm_sampler_new (&config, N_VOCAB);
      for (guint i = 0; i < G_N_ELEMENTS (first); i++)
        {
          gint32 token = llm_sampler_sample (sampler, logits);

          if (round == 0)
            first[i] = token;
          else if (round == 1)
            {
              g_assert_cmpint (token, ==, first[i]);
              llm_sampler_accept (sampler, token);
            }
          else
            n_same += token == first[i];
        }
    }
  g_assert_cmpuint (n_same, <, 60);
}

/* Draws of one seed on any platform; they may not change with a new version. */
static void
test_stable (void)
{
  float logits[N_VOCAB] = { 0 };
  static const gint32 expected[] = { 9, 0, 9, 3, 14, 3, 32, 26, 31, 18, 10, 34 };
  LlmSamplerConfig config = plain;
  g_autoptr (LlmSampler) sampler = NULL;

  config.seed = 2024;
  sampler = llm_sampler_new (&config, N_VOCAB);
  for (guint i = 0; i < G_N_ELEMENTS (expected); i++)
    g_assert_cmpint (llm_sampler_sample (sampler, logits), ==, expected[i]);
}

/* The largest vocabularies, every option: takes milliseconds, not seconds. */
static void
test_large (void)
{
  enum { N = 262144 };
  g_autofree float *logits = g_new (float, N);
  LlmSamplerConfig config = plain;
  g_autoptr (LlmSampler) sampler = NULL;

  random_logits (logits, N);
  config.top_k = 40;
  config.top_p = 0.95f;
  config.min_p = 0.05f;
  config.repeat_penalty = 1.1f;
  sampler = llm_sampler_new (&config, N);
  for (guint i = 0; i < 50; i++)
    {
      gint32 token = llm_sampler_sample (sampler, logits);

      g_assert_cmpfloat (logits[token], >, 3.9f);
      llm_sampler_accept (sampler, token);
    }
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/sampler/distribution", test_distribution);
  g_test_add_func ("/sampler/ties", test_ties);
  g_test_add_func ("/sampler/greedy", test_greedy);
  g_test_add_func ("/sampler/not-numbers", test_not_numbers);
  g_test_add_func ("/sampler/bias", test_bias);
  g_test_add_func ("/sampler/penalties", test_penalties);
  g_test_add_func ("/sampler/seed", test_seed);
  g_test_add_func ("/sampler/stable", test_stable);
  g_test_add_func ("/sampler/large", test_large);

  return g_test_run ();
}
