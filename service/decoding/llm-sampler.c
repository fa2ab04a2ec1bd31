/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "decoding/llm-sampler.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct
{
  float logit;
  gint32 token;
} Candidate;

struct _LlmSampler
{
  LlmSamplerConfig config;   /* bias: (owned) */
  gboolean is_greedy;
  gboolean has_penalties;
  guint n_vocab;
  guint64 n_drawn;

  gint32 recent[LLM_SAMPLER_PENALTY_WINDOW];  /* ring */
  guint n_recent;
  guint next_recent;

  float *logits;             /* (nullable) (owned) [n_vocab]: after bias and penalties */
  Candidate *candidates;     /* (nullable) (owned) [n_vocab]: a heap, then sorted from its end */
};

LlmSampler *
llm_sampler_new (const LlmSamplerConfig *config,
                 guint                   n_vocab)
{
  LlmSampler *self = g_new0 (LlmSampler, 1);

  self->config = *config;
  self->config.bias = g_memdup2 (config->bias, config->n_bias * sizeof *config->bias);
  self->n_vocab = n_vocab;
  self->has_penalties = config->repeat_penalty != 1 || config->frequency_penalty != 0
                        || config->presence_penalty != 0;
  self->is_greedy = !(config->temperature > 0);
  if (!self->is_greedy || config->n_bias > 0 || self->has_penalties)
    self->logits = g_new (float, n_vocab);
  if (!self->is_greedy)
    self->candidates = g_new (Candidate, n_vocab);
  return self;
}

void
llm_sampler_free (LlmSampler *self)
{
  if (self == NULL)
    return;

  g_free ((gpointer) self->config.bias);
  g_free (self->logits);
  g_free (self->candidates);
  g_free (self);
}

void
llm_sampler_accept (LlmSampler *self,
                    gint32      token)
{
  self->recent[self->next_recent] = token;
  self->next_recent = (self->next_recent + 1) % LLM_SAMPLER_PENALTY_WINDOW;
  self->n_recent = MIN (self->n_recent + 1, LLM_SAMPLER_PENALTY_WINDOW);
}

static gboolean
has_token (LlmSampler *self,
           gint32      token)
{
  return token >= 0 && (guint) token < self->n_vocab;
}

static void
add_bias (LlmSampler *self)
{
  for (guint i = 0; i < self->config.n_bias; i++)
    if (has_token (self, self->config.bias[i].token))
      self->logits[self->config.bias[i].token] += self->config.bias[i].bias;
}

static void
penalize (LlmSampler *self)
{
  const LlmSamplerConfig *config = &self->config;

  for (guint i = 0; i < self->n_recent; i++)
    {
      gint32 token = self->recent[i];
      guint count = 0;
      gboolean is_first = TRUE;

      if (!has_token (self, token))
        continue;
      for (guint j = 0; j < self->n_recent; j++)
        if (self->recent[j] == token)
          {
            count++;
            is_first = is_first && j >= i;
          }
      if (!is_first)
        continue;

      if (self->logits[token] > 0)
        self->logits[token] /= config->repeat_penalty;
      else
        self->logits[token] *= config->repeat_penalty;
      self->logits[token] -= count * config->frequency_penalty + config->presence_penalty;
    }
}

static gint32
find_largest (const float *logits,
              guint        n_vocab)
{
  float largest = -INFINITY;
  gint32 token = -1;

  for (guint i = 0; i < n_vocab; i++)
    if (logits[i] > largest)
      {
        largest = logits[i];
        token = (gint32) i;
      }

  return token;
}

/* Whether @a is chosen before @b. */
static inline gboolean
comes_before (Candidate a,
              Candidate b)
{
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

static void
sift_down (Candidate *heap,
           guint      n,
           guint      at)
{
  Candidate moving = heap[at];

  for (;;)
    {
      guint child = 2 * at + 1;

      if (child >= n)
        break;
      if (child + 1 < n && comes_before (heap[child + 1], heap[child]))
        child++;
      if (!comes_before (heap[child], moving))
        break;
      heap[at] = heap[child];
      at = child;
    }
  heap[at] = moving;
}

/* Candidates as a heap, the best on top. Returns their number. */
static guint
collect (LlmSampler *self)
{
  guint n = 0;

  for (guint i = 0; i < self->n_vocab; i++)
    if (self->logits[i] > -INFINITY) /* NaN is not */
      self->candidates[n++] = (Candidate) { MIN (self->logits[i], FLT_MAX), (gint32) i };
  for (guint i = n / 2; i-- > 0;)
    sift_down (self->candidates, n, i);

  return n;
}

/* Sum of exp (logit - max), what probabilities are shares of. */
static double
sum_all (const Candidate *candidates,
         guint            n,
         float            max)
{
  double sum = 0;

  for (guint i = 0; i < n; i++)
    sum += exp ((double) candidates[i].logit - max);

  return sum;
}

/* Moves the best of a heap of @n to place n - 1 and mends the heap before it. */
static void
pop (Candidate *heap,
     guint      n)
{
  Candidate best = heap[0];

  heap[0] = heap[n - 1];
  heap[n - 1] = best;
  if (n > 1)
    sift_down (heap, n - 1, 0);
}

/* Takes candidates from the best on as long as top-k, top-p and min-p let them
 * in. They are then the last ones of the array, backwards; returns how many. */
static guint
choose_candidates (LlmSampler *self,
                   guint       n)
{
  const LlmSamplerConfig *config = &self->config;
  guint limit = config->top_k > 0 ? MIN (config->top_k, n) : n;
  float max = self->candidates[0].logit;
  gboolean has_top_p = config->top_p < 1;
  double total = 0;
  double below = 0;
  guint n_sorted = 0;
  guint n_taken;

  if (limit == n && !has_top_p && config->min_p <= 0)
    return n;

  /* Shares are those among the top k, which are then sorted first. */
  if (has_top_p && limit < n)
    {
      while (n_sorted < limit)
        pop (self->candidates, n - n_sorted++);
      total = sum_all (self->candidates + n - limit, limit, max);
    }
  else if (has_top_p)
    total = sum_all (self->candidates, n, max);

  for (n_taken = 0; n_taken < limit; n_taken++)
    {
      double share;

      if (n_taken > 0 && has_top_p && below >= config->top_p * total)
        break;
      if (n_taken == n_sorted)
        pop (self->candidates, n - n_sorted++);
      share = exp ((double) self->candidates[n - 1 - n_taken].logit - max);
      if (n_taken > 0 && share < config->min_p)
        break;
      below += share;
    }
  return n_taken;
}

/* SplitMix64's mixing function: each input gives another output, well spread. */
static guint64
mix (guint64 x)
{
  x = (x ^ x >> 30) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* In [0, 1), a function of the seed and of how many were drawn before. */
static double
draw_number (LlmSampler *self)
{
  guint64 bits = mix (mix (self->config.seed) + ++self->n_drawn
                                                    * G_GUINT64_CONSTANT (0x9e3779b97f4a7c15));

  return (double) (bits >> 11) * 0x1p-53;
}

/* One of @n candidates, each with the share of exp (logit / temperature), which
 * takes the place of its logit. */
static gint32
draw (LlmSampler *self,
      Candidate  *candidates,
      guint       n,
      float       max)
{
  double sum = 0;
  double target;

  for (guint i = 0; i < n; i++)
    {
      double exponent = ((double) candidates[i].logit - max) / self->config.temperature;

      candidates[i].logit = (float) exp (exponent);
      sum += candidates[i].logit;
    }

  target = draw_number (self) * sum;
  sum = 0;
  for (guint i = 0; i < n - 1; i++)
    {
      sum += candidates[i].logit;
      if (target < sum)
        return candidates[i].token;
    }

  return candidates[n - 1].token;
}

gint32
llm_sampler_sample (LlmSampler  *self,
                    const float *logits)
{
  guint n, n_chosen;
  float max;

  if (self->logits == NULL)
    return find_largest (logits, self->n_vocab);

  memcpy (self->logits, logits, self->n_vocab * sizeof *logits);
  add_bias (self);
  if (self->has_penalties)
    penalize (self);
  if (self->is_greedy)
    return find_largest (self->logits, self->n_vocab);

  n = collect (self);
  if (n == 0)
    return -1;

  max = self->candidates[0].logit;
  n_chosen = choose_candidates (self, n);
  return draw (self, self->candidates + n - n_chosen, n_chosen, max);
}
