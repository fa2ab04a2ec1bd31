/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-shares.h"

#include <math.h>
#include <stdio.h>

struct _BenchShares
{
  GArray *prompt;   /* (element-type double): of rounds */
  GArray *decode;
};

BenchShares *
bench_shares_new (void)
{
  BenchShares *self = g_new0 (BenchShares, 1);

  self->prompt = g_array_new (FALSE, FALSE, sizeof (double));
  self->decode = g_array_new (FALSE, FALSE, sizeof (double));
  return self;
}

void
bench_shares_free (BenchShares *self)
{
  g_array_unref (self->prompt);
  g_array_unref (self->decode);
  g_free (self);
}

static void
add (GArray *shares,
     double  seconds,
     double  whole)
{
  double share = whole > 0 ? seconds / whole : 0;

  if (whole > 0)
    g_array_append_val (shares, share);
}

void
bench_shares_add (BenchShares *self,
                  double       prompt,
                  double       whole_prompt,
                  double       decode,
                  double       whole_decode)
{
  add (self->prompt, prompt, whole_prompt);
  add (self->decode, decode, whole_decode);
}

static int
compare (gconstpointer a,
         gconstpointer b)
{
  double left = *(const double *) a, right = *(const double *) b;

  return (left > right) - (left < right);
}

/* NaN of none. */
static double
find_median (GArray *values)
{
  g_array_sort (values, compare);
  return values->len > 0 ? g_array_index (values, double, values->len / 2) : (double) NAN;
}

void
bench_shares_print_head (void)
{
  printf ("\n| sub-model | operations of a prompt | time to the first token | more | bytes of a token "
          "| time per token | more |\n|---|---|---|---|---|---|---|\n");
}

/* Two cells: a part of the whole model's time, and how much more it is than @expected. */
static void
print_part (double part,
            double expected)
{
  if (isnan (part))
    printf (" not measured | |");
  else
    printf (" %.1f %% | %+.1f |", 100 * part, 100 * (part - expected));
}

void
bench_shares_print (BenchShares *self,
                    guint        percent,
                    double       ops,
                    double       bytes)
{
  double prompt = find_median (self->prompt), decode = find_median (self->decode);

  printf ("| %u %% | %.1f %% |", percent, 100 * ops);
  print_part (prompt, ops);
  printf (" %.1f %% |", 100 * bytes);
  print_part (decode, bytes);
  printf ("\n");
}

void
bench_shares_print_switches (BenchEngine *engine)
{
  printf ("\nA step begins in %.1f µs behind one of another sub-model, in %.1f µs behind one of its own "
          "(medians of %u and %u); %" G_GUINT64_FORMAT " bytes of weights were copied\n",
          find_median (engine->switches) * 1e6, find_median (engine->repeats) * 1e6,
          engine->switches->len, engine->repeats->len,
          llm_weights_count_copied (engine->weights));
}
