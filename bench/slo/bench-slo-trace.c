/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "slo/bench-slo-trace.h"

#include <math.h>

#include "bench-random.h"

/* Calls come in blocks of ten in which the shares of the classes hold exactly, in random
 * order: less chance in small samples. */
#define BLOCK 10

/* What random numbers are for. */
enum
{
  PURPOSE_TIMES = 1,
  PURPOSE_BLOCK,
  PURPOSE_CALL,
  PURPOSE_TEXT,
  N_PURPOSES = 16,
};

/* Short chats, longer texts to be worked on at once, and long ones that wait. */
static const BenchSloLaw laws[LLM_N_SLO_CLASSES] = {
  [LLM_SLO_INTERACTIVE] = { 30, 8, 32, 8, 24 },
  [LLM_SLO_RESPONSIVE] = { 30, 32, 128, 16, 48 },
  [LLM_SLO_BACKGROUND] = { 40, 128, 512, 16, 64 },
};

static const char *const class_names[LLM_N_SLO_CLASSES] = { "interactive", "responsive",
                                                            "background" };

/* Two of each class, in their order. */
static const char *const apps[BENCH_SLO_N_APPS] = {
  "org.llm.bench.Chat", "org.llm.bench.Keyboard", "org.llm.bench.Mail",
  "org.llm.bench.Browser", "org.llm.bench.Indexer", "org.llm.bench.Archive",
};
#define APPS_OF_CLASS (BENCH_SLO_N_APPS / LLM_N_SLO_CLASSES)

const BenchSloLaw *
bench_slo_law_get (LlmSloClass slo_class)
{
  g_assert (slo_class < LLM_N_SLO_CLASSES);
  return &laws[slo_class];
}

const char *
bench_slo_class_get_name (LlmSloClass slo_class)
{
  g_assert (slo_class < LLM_N_SLO_CLASSES);
  return class_names[slo_class];
}

const char *
bench_slo_app_get_id (guint app)
{
  g_assert (app < BENCH_SLO_N_APPS);
  return apps[app];
}

static BenchRandom
derive (guint64 seed,
        guint   purpose,
        guint   number)
{
  return bench_random_derive (seed, (guint64) number * N_PURPOSES + purpose);
}

/* The class of a call: its place in the shuffled block. */
static LlmSloClass
choose_class (guint64 seed,
              guint   number)
{
  BenchRandom random = derive (seed, PURPOSE_BLOCK, number / BLOCK);
  LlmSloClass block[BLOCK];
  guint n = 0;

  for (guint i = 0; i < LLM_N_SLO_CLASSES; i++)
    for (guint k = 0; k < laws[i].share * BLOCK / 100; k++)
      block[n++] = i;
  g_assert (n == BLOCK);
  for (guint i = BLOCK - 1; i > 0; i--)
    {
      guint other = bench_random_range (&random, 0, i);
      LlmSloClass kept = block[i];

      block[i] = block[other];
      block[other] = kept;
    }
  return block[number % BLOCK];
}

static BenchSloArrival
make_arrival (guint64 seed,
              guint   number,
              guint   divisor)
{
  BenchRandom random = derive (seed, PURPOSE_CALL, number);
  BenchSloArrival arrival = { .number = number, .slo_class = choose_class (seed, number) };
  const BenchSloLaw *law = &laws[arrival.slo_class];

  arrival.app = arrival.slo_class * APPS_OF_CLASS
                + bench_random_range (&random, 0, APPS_OF_CLASS - 1);
  arrival.n_words = MAX (1, bench_random_range (&random, law->least_words, law->most_words)
                              / divisor);
  arrival.n_output = bench_random_range (&random, law->least_output, law->most_output);
  return arrival;
}

GArray *
bench_slo_trace_new (guint64 seed,
                     double  rate,
                     double  seconds,
                     guint   divisor)
{
  GArray *trace = g_array_new (FALSE, FALSE, sizeof (BenchSloArrival));
  BenchRandom random = derive (seed, PURPOSE_TIMES, 0);
  double at_s = -log (1 - bench_random_get (&random)) / rate;

  for (guint number = 0; at_s < seconds; number++)
    {
      BenchSloArrival arrival = make_arrival (seed, number, divisor);

      arrival.at_s = at_s;
      g_array_append_val (trace, arrival);
      at_s += -log (1 - bench_random_get (&random)) / rate;
    }
  return trace;
}

GArray *
bench_slo_trace_new_batch (guint64 seed,
                           guint   n,
                           guint   divisor)
{
  GArray *trace = g_array_new (FALSE, FALSE, sizeof (BenchSloArrival));

  for (guint number = 0; number < n; number++)
    {
      BenchSloArrival arrival = make_arrival (seed, number, divisor);

      g_array_append_val (trace, arrival);
    }
  return trace;
}

/* Nothing in it repeats, so that no program finds what it has computed before. */
char *
bench_slo_trace_make_text (guint64                seed,
                           const BenchSloArrival *arrival)
{
  BenchRandom random = derive (seed, PURPOSE_TEXT, arrival->number);
  GString *text = g_string_sized_new (3 * arrival->n_words);

  for (guint i = 0; i < arrival->n_words; i++)
    {
      if (i > 0)
        g_string_append_c (text, ' ');
      for (guint k = 0; k < 2; k++)
        g_string_append_c (text, (char) bench_random_range (&random, 'a', 'z'));
    }
  return g_string_free (text, FALSE);
}
