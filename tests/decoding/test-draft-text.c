/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Guesses and the text: a small made-up model whose logits follow from the last two tokens, decoded
 * with and without them. The tokens must be the same ones, at every temperature; and what they are
 * drawn from is the model's distribution, which a verifier with a bias does not reach (C1, C5).
 */

#include "decoding/draft/llm-draft-decoder.h"
#include "decoding/draft/llm-lookup-source.h"
#include "policies/bench-growths.h"

#include <math.h>
#include <string.h>

#define N_VOCAB 24
#define N_TOKENS 400

/* --- the model --- */

static void
compute_logits (const gint32 *text,
                guint         n,
                float        *logits)
{
  guint32 before = n > 1 ? (guint32) text[n - 2] % 3 : 0;
  g_autoptr(GRand) random = g_rand_new_with_seed ((guint32) text[n - 1] * 3 + before + 1);

  for (guint i = 0; i < N_VOCAB; i++)
    logits[i] = (float) (g_rand_double (random) * 5);
}

/* --- a source that is right, wrong or late as it comes --- */

typedef struct
{
  LlmDraftSource parent;
  GArray *text;       /* (element-type gint32) (owned) */
  GRand *random;      /* (owned) */
  double late;
  guint n_root;       /* of the text, that the tree's root stands for */
} ModelSource;

static void
source_accept (LlmDraftSource *source,
               gint32          token)
{
  g_array_append_val (((ModelSource *) source)->text, token);
}

static void
source_begin (LlmDraftSource *source,
              const gint32   *prompt,
              guint           n_prompt)
{
  for (guint i = 0; i < n_prompt; i++)
    source_accept (source, prompt[i]);
}

/* It has nothing of nodes, but their path is how the text went on. */
static void
source_keep (LlmDraftSource       *source,
             const LlmDraftGrowth *growth,
             guint                 node,
             const guint          *numbers)
{
  ModelSource *self = (ModelSource *) source;
  GArray *text = self->text;
  gint32 path[LLM_GROWTH_MAX_NODES];
  guint n = llm_draft_growth_get_path (growth, node, path);

  g_assert_cmpmem (path, n * sizeof *path, &g_array_index (text, gint32, text->len - n),
                   n * sizeof *path);
  g_assert_cmpuint (numbers[node], ==, 0);
  g_assert_cmpuint (self->n_root + n, ==, text->len);
  self->n_root = text->len;
}

static LlmStatus
source_expand (LlmDraftSource       *source,
               const LlmDraftGrowth *growth,
               guint                 node,
               LlmDraftCandidate    *candidates,
               guint                *n)
{
  ModelSource *self = (ModelSource *) source;
  gint32 path[LLM_GROWTH_MAX_NODES];
  guint n_path = llm_draft_growth_get_path (growth, node, path);
  guint n_text = self->text->len;
  float logits[N_VOCAB];

  if (g_rand_double (self->random) < self->late)
    return LLM_PENDING;
  if (node == 0)
    self->n_root = n_text;
  g_array_append_vals (self->text, path, n_path);
  compute_logits ((const gint32 *) self->text->data, self->text->len, logits);
  g_array_set_size (self->text, n_text);

  /* the model's best three, or some others */
  *n = 3;
  for (guint i = 0; i < *n; i++)
    {
      guint best = 0;

      for (guint j = 0; j < N_VOCAB; j++)
        if (logits[j] > logits[best])
          best = j;
      logits[best] = -INFINITY;
      candidates[i] = (LlmDraftCandidate) {
        (gint32) (best + (g_rand_int_range (self->random, 0, 8) == 0 ? 3 : 0)) % N_VOCAB,
        i == 0 ? 0.5f : 0.2f,
      };
      for (guint j = 0; j < i; j++)
        if (candidates[j].token == candidates[i].token)
          *n = i;
    }
  return LLM_READY;
}

static void
source_free (LlmDraftSource *source)
{
  ModelSource *self = (ModelSource *) source;

  g_array_unref (self->text);
  g_rand_free (self->random);
  g_free (self);
}

static LlmDraftSource *
new_source (double late)
{
  static const LlmDraftSourceClass class = {
    .begin = source_begin, .accept = source_accept, .keep = source_keep, .expand = source_expand,
    .free = source_free,
  };
  ModelSource *self = g_new0 (ModelSource, 1);

  self->parent = (LlmDraftSource) { .class = &class, .step_us = 1 };
  self->text = g_array_new (FALSE, FALSE, sizeof (gint32));
  self->random = g_rand_new_with_seed (4);
  self->late = late;
  return &self->parent;
}

/* --- decoding --- */

typedef struct
{
  guint n_steps, n_drafted, n_kept;
} Count;

/* As the runtime does it: verifies the decoder's next tree. */
static void
verify (LlmDecoder *decoder,
        GArray     *text,
        guint       n_max,
        Count      *count)
{
  LlmDraftCosts costs = { .read_us = 100 };
  LlmDraftTree tree = { .n_max = n_max, .max_depth = 1000 };
  guint node = 0;

  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 90 + n;
  if (decoder->class->draft != NULL)
    decoder->class->draft (decoder, &costs);
  tree.n_max = MIN (n_max, decoder->n_rows);
  decoder->class->propose (decoder, &tree);
  g_assert_cmpint (tree.tokens[0], ==, g_array_index (text, gint32, text->len - 1));
  count->n_kept += decoder->n_kept;
  /* as it comes, the step waits for a while */
  for (guint i = text->len % 40; decoder->class->draft_ahead != NULL && i > 0; i--)
    {
      decoder->class->draft_ahead (decoder, 2);
      g_assert_false (decoder->class->draft_ahead (decoder, 2.1));
    }
  while (node != LLM_DRAFT_NONE)
    {
      float logits[N_VOCAB];
      gint32 token;

      compute_logits ((const gint32 *) text->data, text->len, logits);
      token = decoder->class->consume (decoder, logits, NULL);
      g_array_append_val (text, token);
      node = llm_draft_tree_find_child (&tree, node, token);
    }
  count->n_steps++;
  count->n_drafted += tree.n - 1;
}

/* (transfer full): prompt and answer. @decoder: (transfer full) */
static GArray *
generate (LlmDecoder *decoder,
          guint       n_max,
          Count      *count)
{
  const gint32 prompt[] = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5 };
  GArray *text = g_array_new (FALSE, FALSE, sizeof (gint32));
  float logits[N_VOCAB];
  gint32 token;

  *count = (Count) { 0 };
  g_array_append_vals (text, prompt, G_N_ELEMENTS (prompt));
  decoder->class->begin (decoder, prompt, G_N_ELEMENTS (prompt));
  compute_logits ((const gint32 *) text->data, text->len, logits);
  token = decoder->class->consume (decoder, logits, NULL);
  g_array_append_val (text, token);
  while (text->len < N_TOKENS)
    verify (decoder, text, n_max, count);
  g_array_set_size (text, N_TOKENS);
  llm_decoder_free (decoder);
  return text;
}

static void
test_same_text (void)
{
  const LlmSamplerConfig samplers[] = {
    { .temperature = 0, .top_p = 1, .repeat_penalty = 1 },
    { .temperature = 0.8f, .top_k = 10, .top_p = 0.95f, .repeat_penalty = 1, .seed = 1 },
    { .temperature = 1.2f, .top_p = 1, .min_p = 0.05f, .repeat_penalty = 1, .seed = 2 },
    { .temperature = 0.8f, .top_p = 1, .repeat_penalty = 1.3f, .frequency_penalty = 0.5f,
      .presence_penalty = 0.3f, .seed = 3 },
    { .temperature = 0, .top_p = 1, .repeat_penalty = 1.5f },
  };
  LlmGrowthConfig modes[] = {
    LLM_GROWTH_CONFIG_BEST,
    BENCH_GROWTH_PAPER,
    BENCH_GROWTH_CHAIN (6),
    BENCH_GROWTH_FIXED (3, 2, 2, 1, 1),
    { .by_cost = TRUE, .due = 1 },
  };
  const struct { gboolean looks_up; double late; guint n_max; } sources[] = {
    { TRUE, 0, 64 }, { FALSE, 0, 64 }, { FALSE, 0.2, 64 }, { FALSE, 1, 64 }, { FALSE, 0, 2 },
  };

  guint n_kept[G_N_ELEMENTS (modes)] = { 0 };

  modes[2].goes_ahead = TRUE;
  for (guint s = 0; s < G_N_ELEMENTS (samplers); s++)
    {
      Count plain;
      g_autoptr(GArray) expected =
        generate (llm_decoder_new_plain (&samplers[s], N_VOCAB), 1, &plain);

      for (guint m = 0; m < G_N_ELEMENTS (modes); m++)
        for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
          {
            LlmDraftSource *source =
              sources[i].looks_up ? llm_lookup_source_new () : new_source (sources[i].late);
            Count count;
            g_autoptr(GArray) found = generate (
              llm_decoder_new_drafting (llm_decoder_new_plain (&samplers[s], N_VOCAB), source,
                                        &modes[m], NULL), sources[i].n_max, &count);

            g_assert_cmpmem (found->data, N_TOKENS * sizeof (gint32), expected->data,
                             N_TOKENS * sizeof (gint32));
            g_test_message ("sampler %u, mode %u, source %u: %u steps, %u guesses, %u of them ahead",
                            s, m, i, count.n_steps, count.n_drafted, count.n_kept);
            /* one that is late is not asked for more */
            if (m >= 3 || sources[i].looks_up || sources[i].late == 1)
              g_assert_cmpuint (count.n_kept, ==, 0);
            n_kept[m] += count.n_kept;
            /* a guess that is right saves a step; where all is late there is none */
            if (sources[i].late == 1)
              {
                g_assert_cmpuint (count.n_drafted, ==, 0);
                g_assert_cmpuint (count.n_steps, ==, plain.n_steps);
              }
            else if (!sources[i].looks_up)
              /* by cost there may be pauses */
              g_assert_cmpuint (count.n_steps, <, plain.n_steps * (modes[m].by_cost ? 100 : 90) / 100);
          }
    }
  for (guint m = 0; m < 3; m++)
    g_assert_cmpuint (n_kept[m], >, 100);
}

/* --- the distribution --- */

#define N_DRAWS 4000
#define N_CELLS (N_VOCAB * N_VOCAB)
#define TEMPERATURE 0.8

static void
compute_probabilities (const gint32 *text,
                       guint         n,
                       double       *p)
{
  float logits[N_VOCAB];
  double sum = 0;

  compute_logits (text, n, logits);
  for (guint i = 0; i < N_VOCAB; i++)
    sum += p[i] = exp (logits[i] / TEMPERATURE);
  for (guint i = 0; i < N_VOCAB; i++)
    p[i] /= sum;
}

/* A verifier as they are written wrongly: it accepts a guess with the probability that the model
 * gives it, and else draws from all of the distribution, the guess included. */
static gint32
draw_biased (const double *p,
             gint32        guess,
             GRand        *random)
{
  double left = g_rand_double (random);
  gint32 token = 0;

  if (g_rand_double (random) < p[guess])
    return guess;
  while (token + 1 < N_VOCAB && (left -= p[token]) >= 0)
    token++;
  return token;
}

/* χ² of pairs of tokens; cells that are expected less than five times are one. @excess: χ² that is
 * added to it on average where the probabilities are @q. */
static double
compare (const guint  *counts,
         const double *p,
         const double *q,
         guint        *n_free,
         double       *excess)
{
  double chi = 0, rest = 0, rest_q = 0, rest_count = 0;

  *n_free = 0;
  *excess = 0;
  for (guint i = 0; i <= N_CELLS; i++)
    {
      double expected = i < N_CELLS ? p[i] * N_DRAWS : rest;
      double other = i < N_CELLS ? q[i] * N_DRAWS : rest_q;
      double count = i < N_CELLS ? counts[i] : rest_count;

      if (i < N_CELLS && expected < 5)
        {
          rest += expected;
          rest_q += other;
          rest_count += count;
          continue;
        }
      chi += (count - expected) * (count - expected) / expected;
      *excess += (other - expected) * (other - expected) / expected;
      *n_free += i < N_CELLS;
    }
  return chi;
}

static gint32
find_best (const double *p)
{
  gint32 best = 0;

  for (gint32 i = 1; i < N_VOCAB; i++)
    if (p[i] > p[best])
      best = i;
  return best;
}

static void
test_distribution (void)
{
  const LlmSamplerConfig base = { .temperature = TEMPERATURE, .top_p = 1, .repeat_penalty = 1 };
  const gint32 prompt[] = { 5, 7 };
  const LlmGrowthConfig config = BENCH_GROWTH_FIXED (2, 2);
  g_autofree guint *drawn = g_new0 (guint, N_CELLS), *biased = g_new0 (guint, N_CELLS);
  g_autofree double *p = g_new0 (double, N_CELLS), *q = g_new0 (double, N_CELLS);
  g_autoptr(GRand) random = g_rand_new_with_seed (5);
  double first[N_VOCAB], excess, limit, chi, power;
  guint n_free;

  compute_probabilities (prompt, 2, first);
  for (gint32 a = 0; a < N_VOCAB; a++)
    {
      const gint32 text[] = { 7, a };
      double second[N_VOCAB], first_q = first[a] * (1 - first[find_best (first)]);
      gint32 guess;

      compute_probabilities (text, 2, second);
      guess = find_best (second);
      if (a == find_best (first))
        first_q += first[a];
      for (gint32 b = 0; b < N_VOCAB; b++)
        {
          p[a * N_VOCAB + b] = first[a] * second[b];
          q[a * N_VOCAB + b] = first_q
                               * (second[b] * (1 - second[guess]) + (b == guess ? second[b] : 0));
        }
    }

  for (guint i = 0; i < N_DRAWS; i++)
    {
      LlmSamplerConfig sampler = base;
      g_autoptr(LlmDecoder) decoder = NULL;
      g_autoptr(GArray) text = g_array_new (FALSE, FALSE, sizeof (gint32));
      float logits[N_VOCAB] = { 0 };
      double second[N_VOCAB];
      gint32 pair[] = { 7, 0 }, token;
      Count count = { 0 };

      sampler.seed = i;
      decoder = llm_decoder_new_drafting (llm_decoder_new_plain (&sampler, N_VOCAB),
                                          new_source (0), &config, NULL);
      decoder->class->begin (decoder, prompt, 1);
      g_array_append_vals (text, prompt, 2);
      logits[prompt[1]] = 1000;
      decoder->class->consume (decoder, logits, NULL);
      while (text->len < 4)
        verify (decoder, text, LLM_DRAFT_MAX_NODES, &count);
      drawn[g_array_index (text, gint32, 2) * N_VOCAB + g_array_index (text, gint32, 3)]++;

      pair[1] = draw_biased (first, find_best (first), random);
      compute_probabilities (pair, 2, second);
      token = draw_biased (second, find_best (second), random);
      biased[pair[1] * N_VOCAB + token]++;
    }

  /* one in a thousand is above the limit by chance (Wilson and Hilferty); the bias is far above it,
   * by how many standard deviations of a noncentral χ² */
  chi = compare (drawn, p, q, &n_free, &excess);
  limit = n_free * pow (1 - 2.0 / (9 * n_free) + 3.09 * sqrt (2.0 / (9 * n_free)), 3);
  power = (n_free + excess - limit) / sqrt (2 * (n_free + 2 * excess));
  g_test_message ("chi-square %.1f, limit %.1f with %u degrees of freedom; bias %.1f, found with a "
                  "power of %.1f standard deviations", chi, limit, n_free,
                  compare (biased, p, q, &n_free, &excess), power);
  g_assert_cmpuint (n_free, >, 30);
  g_assert_cmpfloat (chi, <, limit);
  g_assert_cmpfloat (power, >, 5);
  g_assert_cmpfloat (compare (biased, p, q, &n_free, &excess), >, limit);
  /* and it is that bias */
  g_assert_cmpfloat (compare (biased, q, q, &n_free, &excess), <, limit);
}

/* --- the context's own text --- */

typedef struct
{
  LlmDraftSource *source;
  LlmDraftGrowth growth;
  LlmDraftCandidate found[LLM_DRAFT_MAX_CANDIDATES];
  guint n;
} Lookup;

static void
lookup_init (Lookup     *lookup,
             const char *text)
{
  const LlmGrowthConfig config = BENCH_GROWTH_CHAIN (0);
  const LlmDraftCosts costs = { .read_us = 0 };

  lookup->source = llm_lookup_source_new ();
  lookup->source->class->begin (lookup->source, NULL, 0);
  for (; *text != '\0'; text++)
    lookup->source->class->accept (lookup->source, *text);
  llm_draft_growth_init (&lookup->growth, &config);
  llm_draft_growth_begin (&lookup->growth, &costs);
}

static void
look (Lookup *lookup)
{
  guint node = llm_draft_growth_next (&lookup->growth);

  g_assert_cmpint (lookup->source->class->expand (lookup->source, &lookup->growth, node,
                                                  lookup->found, &lookup->n), ==, LLM_READY);
  llm_draft_growth_expand (&lookup->growth, node, lookup->found, lookup->n);
}

static void
test_lookup (void)
{
  Lookup lookup;
  float once;

  lookup_init (&lookup, "");
  look (&lookup);
  g_assert_cmpuint (lookup.n, ==, 0);
  lookup.source->class->free (lookup.source);
  lookup_init (&lookup, "abcde");
  look (&lookup);
  g_assert_cmpuint (lookup.n, ==, 0);
  lookup.source->class->free (lookup.source);

  /* on from "the ", guess by guess, over the end of the text */
  lookup_init (&lookup, "say the word: the");
  for (const char *c = " word: the w"; *c != '\0'; c++)
    {
      look (&lookup);
      g_assert_cmpuint (lookup.n, >=, 1);
      g_assert_cmpint (lookup.found[0].token, ==, *c);
    }
  lookup.source->class->free (lookup.source);

  /* of matches of two tokens two go on with y; a longer one counts as much as four of them */
  lookup_init (&lookup, "pxay qxay rxaz sxa");
  look (&lookup);
  g_assert_cmpuint (lookup.n, ==, 2);
  g_assert_cmpint (lookup.found[0].token, ==, 'y');
  g_assert_cmpint (lookup.found[1].token, ==, 'z');
  g_assert_cmpfloat_with_epsilon (lookup.found[0].confidence / lookup.found[1].confidence, 2, 1e-5);
  g_assert_cmpfloat (lookup.found[0].confidence + lookup.found[1].confidence, <, 1);
  lookup.source->class->free (lookup.source);
  lookup_init (&lookup, "pxay qxay sxaz tsxa");
  look (&lookup);
  g_assert_cmpint (lookup.found[0].token, ==, 'z');
  g_assert_cmpfloat_with_epsilon (lookup.found[0].confidence / lookup.found[1].confidence, 2, 1e-5);
  lookup.source->class->free (lookup.source);

  /* what was right is believed more, what was wrong less */
  lookup_init (&lookup, "ab.ab");
  look (&lookup);
  g_assert_cmpint (lookup.found[0].token, ==, '.');
  once = lookup.found[0].confidence;
  lookup.source->class->free (lookup.source);
  for (guint i = 0; i < 2; i++)
    {
      lookup_init (&lookup, i == 0 ? "ab.ab.cab.dab.gab.fab" : "ab.cab-dab+gab*fab/jab");
      look (&lookup);
      if (i == 0)
        g_assert_cmpfloat (lookup.found[0].confidence, >, once);
      else
        g_assert_cmpfloat (lookup.found[0].confidence * (float) lookup.n, <, once);
      lookup.source->class->free (lookup.source);
    }
}

/* Guesses that are not there yet are no work that a step could be left for. */
static void
test_late_ahead (void)
{
  const LlmSamplerConfig sampler = { .temperature = 0, .top_p = 1, .repeat_penalty = 1 };
  const gint32 prompt[] = { 3, 1, 4, 1, 5, 9 };
  LlmDraftSource *source = new_source (0);
  g_autoptr(LlmDecoder) decoder = llm_decoder_new_drafting (
    llm_decoder_new_plain (&sampler, N_VOCAB), source, &LLM_GROWTH_CONFIG_BEST, NULL);
  LlmDraftTree tree = { .n_max = LLM_DRAFT_MAX_NODES, .max_depth = 100 };
  LlmDraftCosts costs = { .read_us = 100 };
  float logits[N_VOCAB];

  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 90 + n;
  decoder->class->begin (decoder, prompt, G_N_ELEMENTS (prompt));
  compute_logits (prompt, G_N_ELEMENTS (prompt), logits);
  decoder->class->consume (decoder, logits, NULL);
  decoder->class->draft (decoder, &costs);
  decoder->class->propose (decoder, &tree);
  g_assert_cmpuint (tree.n, >, 1);
  ((ModelSource *) source)->late = 1;
  g_assert_false (decoder->class->draft_ahead (decoder, 0));
  ((ModelSource *) source)->late = 0;
  g_assert_true (decoder->class->draft_ahead (decoder, 0));
}

/* What is known of a source holds for the answers after it: one that has lost too much is left out
 * of some, and one that would read the prompt for too long. */
static void
test_record (void)
{
  const LlmSamplerConfig sampler = { .temperature = 0, .repeat_penalty = 1 };
  const gint32 prompt[] = { 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3 };
  const guint n_skipped[] = { 4, 8, 16 };
  g_autoptr(LlmDraftRecord) record = llm_draft_record_new ();
  LlmDraftCosts costs = { .read_us = 0 };
  guint n_off = 0;

  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 100;
  for (guint i = 0; i <= G_N_ELEMENTS (n_skipped) + 1; i++)
    {
      gboolean drafts;

      n_off = 0;
      do
        {
          LlmDecoder *decoder = llm_decoder_new_drafting (
            llm_decoder_new_plain (&sampler, N_VOCAB), llm_lookup_source_new (),
            &LLM_GROWTH_CONFIG_BEST, record);

          decoder->class->begin (decoder, prompt, G_N_ELEMENTS (prompt));
          decoder->class->draft (decoder, &costs);
          drafts = decoder->n_rows > 1;
          n_off += !drafts;
          llm_decoder_free (decoder);
        }
      while (!drafts && n_off < 100 && i <= G_N_ELEMENTS (n_skipped));
      if (i <= G_N_ELEMENTS (n_skipped))
        g_assert_cmpuint (n_off, ==, i == 0 ? 0 : n_skipped[i - 1]);
      record->account.balance = -8;
      if (i == G_N_ELEMENTS (n_skipped))
        {
          record->account = (LlmDraftAccount) { .balance = 2 };
          /* 11 tokens take 6.6 steps; 1.5 may be spent */
          record->text_us = 60;
        }
    }
  g_assert_cmpuint (n_off, ==, 1);
  /* until that is long ago */
  record->account = (LlmDraftAccount) { .balance = 2 };
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(LlmDecoder) decoder = llm_decoder_new_drafting (
        llm_decoder_new_plain (&sampler, N_VOCAB), llm_lookup_source_new (),
        &LLM_GROWTH_CONFIG_BEST, record);

      record->has_stepped = TRUE;
      record->step_us = 10;
      decoder->class->begin (decoder, prompt, G_N_ELEMENTS (prompt));
      decoder->class->draft (decoder, &costs);
      g_assert_cmpint (decoder->n_rows > 1, ==, i == 1);
      g_assert_cmpfloat (record->step_us, ==, 10);
    }
}

/* While it is not known what steps cost nothing is guessed, and nothing learned: the answer has its
 * guesses as soon as it is known, and so has the one after it. */
static void
test_unknown_costs (void)
{
  const LlmSamplerConfig sampler = { .temperature = 0, .repeat_penalty = 1 };
  const gint32 prompt[] = { 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3 };
  g_autoptr(LlmDraftRecord) record = llm_draft_record_new ();
  LlmDraftCosts costs = { .read_us = 0 };

  for (guint n = 1; n <= LLM_DRAFT_MAX_NODES; n++)
    costs.verify_us[n] = 100;
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr(LlmDecoder) decoder = llm_decoder_new_drafting (
        llm_decoder_new_plain (&sampler, N_VOCAB), llm_lookup_source_new (),
        &LLM_GROWTH_CONFIG_BEST, record);

      decoder->class->begin (decoder, prompt, G_N_ELEMENTS (prompt));
      for (guint n = 0; n < 6; n++)
        {
          LlmDraftTree tree = { .n_max = LLM_DRAFT_MAX_NODES, .max_depth = 100 };
          float logits[N_VOCAB] = { 0 };

          logits[prompt[(3 + n) % 4]] = 9;
          if (n > 0)
            decoder->class->propose (decoder, &tree);
          g_assert_cmpint (decoder->class->consume (decoder, logits, NULL), ==,
                           prompt[(3 + n) % 4]);
        }
      decoder->class->draft (decoder, &costs);
      g_assert_cmpuint (decoder->n_rows, >, 1);
      g_assert_cmpfloat (record->account.balance, ==, 0);
    }
}

/* A step that was held up is forgotten soon, also where it was the first; one that takes longer for
 * good is believed. */
static void
test_usual_time (void)
{
  double us = llm_draft_usual_time (0, 20000);

  g_assert_cmpfloat (us, ==, 20000);
  for (guint i = 0; i < 12; i++)
    us = llm_draft_usual_time (us, 100);
  g_assert_cmpfloat (us, <, 110);
  us = llm_draft_usual_time (100, 50000);
  g_assert_cmpfloat_with_epsilon (us, 112.5, 1e-9);
  for (guint i = 0; i < 40; i++)
    us = llm_draft_usual_time (us, 1000);
  g_assert_cmpfloat (us, >, 900);
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/draft/same-text", test_same_text);
  g_test_add_func ("/draft/distribution", test_distribution);
  g_test_add_func ("/draft/lookup", test_lookup);
  g_test_add_func ("/draft/late-ahead", test_late_ahead);
  g_test_add_func ("/draft/record", test_record);
  g_test_add_func ("/draft/unknown-costs", test_unknown_costs);
  g_test_add_func ("/draft/usual-time", test_usual_time);
  return g_test_run ();
}
