/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "contexts/bench-trace.h"

#include <math.h>

#include "bench-random.h"

/* All figures here were fixed before any result was seen. */

/* Contexts are as long as this in table 3; with shorter ones deltas are shorter as well. */
#define TABLE_SLOTS 4096
/* A context that has no room for a call starts anew, with at least this part of its maximum;
 * 512 of 4096. */
#define LEAST_PART 8
/* The first part of a trace warms up and is not counted. */
#define WARM_UP_PART 8
/* Markov: a context is that much less likely to be called than the one called after it. */
#define MARKOV_DECAY 0.6
/* Gaussian: the deviation, in contexts, as a part of their number. */
#define GAUSSIAN_PART 4.0

const char *const bench_pattern_names[BENCH_N_PATTERNS] = { "random", "markov", "gaussian" };

/* Table 3: tokens by which a call lengthens its context, question and answer together. The paper
 * does not say what part of it the answer is: these shares are what such answers look like. */
static const struct
{
  guint least;
  guint most;
  double answer;
} tasks[] = {
  { 200, 500, 0.02 },    /* news classification, AGnews */
  { 1000, 2000, 0.03 },  /* document summary, Xsum */
  { 100, 300, 0.10 },    /* chat history summary, Samsum */
  { 500, 1000, 0.08 },   /* text comprehension, cnn dailymail */
  { 100, 500, 0.50 },    /* translation, WMT17-de-en */
  { 10, 100, 0.02 },     /* sentiment classification, SST-2 */
};

typedef struct
{
  BenchTrace *trace;
  BenchRandom random;
  guint *recent;      /* contexts, the one called last first */
  guint *by_work;     /* contexts by the tokens of a call */
  guint *lengths;
} Maker;

static guint
get_work (guint context)
{
  guint task = context % G_N_ELEMENTS (tasks);

  return tasks[task].least + tasks[task].most;
}

static int
compare_work (gconstpointer a,
              gconstpointer b)
{
  guint first = *(const guint *) a, second = *(const guint *) b;

  if (get_work (first) != get_work (second))
    return get_work (first) < get_work (second) ? -1 : 1;
  return first < second ? -1 : 1;
}

/* Two uniform numbers make a normal one (Box and Muller). */
static double
get_normal (BenchRandom *random)
{
  double radius = sqrt (-2 * log (1 - bench_random_get (random)));

  return radius * cos (2 * G_PI * bench_random_get (random));
}

static guint
choose_context (Maker *maker)
{
  const BenchTraceConfig *config = &maker->trace->config;
  guint n = config->n_contexts;
  double at;

  switch (config->pattern)
    {
    case BENCH_MARKOV:
      at = bench_random_get (&maker->random) * (1 - pow (MARKOV_DECAY, n));
      return maker->recent[MIN ((guint) (log1p (-at) / log (MARKOV_DECAY)), n - 1)];
    case BENCH_GAUSSIAN:
      do
        at = (n - 1) / 2.0 + n / GAUSSIAN_PART * get_normal (&maker->random);
      while (at < -0.5 || at >= n - 0.5);
      return maker->by_work[(guint) (at + 0.5)];
    case BENCH_RANDOM:
    case BENCH_N_PATTERNS:
    default:
      return bench_random_range (&maker->random, 0, n - 1);
    }
}

static void
move_to_front (Maker *maker,
               guint  context)
{
  guint at = 0;

  while (maker->recent[at] != context)
    at++;
  for (; at > 0; at--)
    maker->recent[at] = maker->recent[at - 1];
  maker->recent[0] = context;
}

static void
add_call (Maker   *maker,
          double   at_s,
          gboolean is_warm)
{
  const BenchTraceConfig *config = &maker->trace->config;
  guint context = choose_context (maker);
  guint task = context % G_N_ELEMENTS (tasks);
  double scale = MIN ((double) config->max_slots / TABLE_SLOTS, 1);
  guint delta = bench_random_range (&maker->random, tasks[task].least, tasks[task].most);
  BenchCall call = { .at_s = at_s, .context = context };

  delta = MAX ((guint) (delta * scale), 4);
  call.n_answer = MAX ((guint) (delta * tasks[task].answer), 1);
  call.n_prompt = delta - call.n_answer;
  call.n_before = maker->lengths[context];
  if (call.n_before + delta > config->max_slots)
    {
      call.n_before = 0;
      call.n_prompt = MAX (call.n_prompt, config->max_slots / LEAST_PART);
    }
  call.is_counted = is_warm && call.n_before > 0 && context != maker->recent[0];
  maker->lengths[context] = call.n_before + call.n_prompt + call.n_answer;
  move_to_front (maker, context);
  g_array_append_val (maker->trace->calls, call);
}

static double
get_sum (const guint *lengths,
         guint        n)
{
  double sum = 0;

  for (guint i = 0; i < n; i++)
    sum += lengths[i];
  return sum;
}

BenchTrace *
bench_trace_new (const BenchTraceConfig *config)
{
  BenchTrace *self = g_new0 (BenchTrace, 1);
  guint n = config->n_contexts;
  g_autofree guint *recent = g_new (guint, n);
  g_autofree guint *by_work = g_new (guint, n);
  g_autofree guint *lengths = g_new (guint, n);
  Maker maker = { self, bench_random_derive (config->seed, config->pattern), recent, by_work,
                  lengths };
  double end_s = config->hours * 3600;
  double at_s = 0;

  g_return_val_if_fail (n > 0 && config->max_slots >= LEAST_PART, NULL);

  self->config = *config;
  self->calls = g_array_new (FALSE, FALSE, sizeof (BenchCall));
  self->first_slots = g_new (guint, n);
  for (guint i = 0; i < n; i++)
    {
      recent[i] = n - 1 - i;
      by_work[i] = i;
      lengths[i] = bench_random_range (&maker.random, config->max_slots / LEAST_PART,
                                       config->max_slots);
      self->first_slots[i] = lengths[i];
    }
  qsort (by_work, n, sizeof (guint), compare_work);

  /* Poisson arrivals: the time between two is exponential. */
  for (;;)
    {
      at_s -= config->interval_s * log (1 - bench_random_get (&maker.random));
      if (at_s >= end_s)
        break;
      add_call (&maker, at_s, at_s >= end_s / WARM_UP_PART);
      self->mean_slots += get_sum (lengths, n);
    }
  self->mean_slots /= MAX (self->calls->len, 1);
  return self;
}

guint
bench_trace_find_call (const BenchTrace *self,
                       guint             index,
                       guint             context)
{
  while (index < self->calls->len
         && g_array_index (self->calls, BenchCall, index).context != context)
    index++;
  return index;
}

static double
get_normal_share (double at)
{
  return 0.5 * erfc (-at / sqrt (2));
}

/* Of those that were not called yet the one with the highest number was last. */
static void
get_markov_chances (const BenchTrace *self,
                    guint             index,
                    double           *chances)
{
  guint n = self->config.n_contexts;
  double chance = (1 - MARKOV_DECAY) / (1 - pow (MARKOV_DECAY, n));

  for (guint i = 0; i < n; i++)
    chances[i] = -1;
  while (index-- > 0)
    {
      double *one = &chances[g_array_index (self->calls, BenchCall, index).context];

      if (*one >= 0)
        continue;
      *one = chance;
      chance *= MARKOV_DECAY;
    }
  for (guint i = n; i-- > 0;)
    if (chances[i] < 0)
      {
        chances[i] = chance;
        chance *= MARKOV_DECAY;
      }
}

void
bench_trace_get_chances (const BenchTrace *self,
                         guint             index,
                         double           *chances)
{
  guint n = self->config.n_contexts;
  g_autofree guint *by_work = g_new (guint, n);
  double deviation = n / GAUSSIAN_PART;

  for (guint i = 0; i < n; i++)
    {
      chances[i] = 1.0 / n;
      by_work[i] = i;
    }
  if (self->config.pattern == BENCH_MARKOV)
    get_markov_chances (self, index, chances);
  if (self->config.pattern != BENCH_GAUSSIAN)
    return;
  qsort (by_work, n, sizeof (guint), compare_work);
  for (guint i = 0; i < n; i++)
    chances[by_work[i]] = (get_normal_share ((i + 0.5 - (n - 1) / 2.0) / deviation) -
                           get_normal_share ((i - 0.5 - (n - 1) / 2.0) / deviation)) /
                          (2 * get_normal_share (n / 2.0 / deviation) - 1);
}

void
bench_trace_free (BenchTrace *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->calls);
  g_free (self->first_slots);
  g_free (self);
}
