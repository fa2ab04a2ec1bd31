/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A trace of pressure, recorded or made up, played through the policy beside a model of what the
 * service holds: for pressure/main.py, which reads and checks the trace, and sums up what this
 * prints. On the standard input come lines "NAME NUMBER", then rows of numbers, as the head of
 * pressure/main.py tells.
 */

#include "bench.h"

#include <stdio.h>
#include <string.h>

#include "support/llm-test-memory.h"

#define MIB (1024.0 * 1024)
#define GIB (1024.0 * MIB)
#define N_COLUMNS 10
/* Moments that are printed: two a second. */
#define MOMENT_US 500000

typedef struct
{
  LlmTestMemory memory;
  gboolean is_recorded;
  GArray *rows;          /* (element-type double): N_COLUMNS each, or 2 */
} Trace;

static void
set_number (Trace      *self,
            const char *name,
            double      number)
{
  const struct
  {
    const char *name;
    guint64 *field;
  } sizes[] = {
    { "machine-mib", &self->memory.total },     { "group-mib", &self->memory.limit },
    { "budget-mib", &self->memory.allowed },    { "model-mib", &self->memory.model },
    { "contexts-mib", &self->memory.wanted },   { "overhead-mib", &self->memory.overhead },
    { "growth-mib", &self->memory.growth },
  };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    if (strcmp (name, sizes[i].name) == 0)
      *sizes[i].field = (guint64) (number * MIB);
  if (strcmp (name, "busy") == 0)
    self->memory.is_busy = number > 0;
  else if (strcmp (name, "recorded") == 0)
    self->is_recorded = number > 0;
  else if (strcmp (name, "deaf") == 0)
    self->memory.is_deaf = number > 0;
}

static void
read_trace (Trace *self)
{
  char name[32], line[512];
  double number;

  self->memory.allowed = 0;
  while (fgets (line, sizeof line, stdin) != NULL)
    {
      char *end = line;

      if (g_ascii_isalpha (*line) && sscanf (line, "%31s %lf", name, &number) == 2)
        set_number (self, name, number);
      else
        for (char *at = line; number = g_ascii_strtod (at, &end), end != at; at = end)
          g_array_append_val (self->rows, number);
    }
  if (self->memory.allowed == 0)
    self->memory.allowed = self->memory.total / 4 * 3;
  self->memory.action.budget = self->memory.allowed;
}

static void
print_moment (const LlmTestMemory *memory,
              double               seconds)
{
  printf ("%.6f %.9f %.9f %.9f %.9f %d\n", seconds, (double) memory->others / GIB,
          (double) memory->action.budget / GIB, (double) memory->anonymous / GIB,
          (double) memory->backed / GIB, (int) memory->action.level);
}

/* Closed: what the service gives, others find. */
static void
play_made_up (Trace *self)
{
  const double *rows = (const double *) self->rows->data;
  guint n = self->rows->len / 2;
  gint64 start_us = self->memory.now_us;
  gint64 noted_us = 0;
  guint at = 0;

  for (;;)
    {
      double seconds = (double) (self->memory.now_us - start_us) / G_USEC_PER_SEC;
      double part;

      while (at + 1 < n && seconds >= rows[2 * (at + 1)])
        at++;
      if (at + 1 >= n)
        return;
      part = (seconds - rows[2 * at]) / (rows[2 * (at + 1)] - rows[2 * at]);
      part = rows[2 * at + 1] + CLAMP (part, 0, 1) * (rows[2 * (at + 1) + 1] - rows[2 * at + 1]);
      llm_test_memory_step (&self->memory, (guint64) (part * MIB));
      if (self->memory.now_us - noted_us >= MOMENT_US)
        {
          print_moment (&self->memory, seconds);
          noted_us = self->memory.now_us;
        }
    }
}

static double
get_share (const double *row,
           const double *before,
           guint         column)
{
  double window_us = (row[0] - before[0]) * 1000;

  return CLAMP ((row[column] - before[column]) / window_us, 0, 1);
}

/* Open: the readings are what they were, and the service follows. */
static void
play_recorded (Trace *self)
{
  const double *rows = (const double *) self->rows->data;
  guint n = self->rows->len / N_COLUMNS;
  LlmTestMemory *memory = &self->memory;

  memory->anonymous = memory->wanted;
  memory->backed = memory->model;
  for (guint i = 1; i < n; i++)
    {
      const double *row = rows + i * N_COLUMNS;
      const double *before = row - N_COLUMNS;
      guint64 relapse = memory->policy.anonymous.n_cuts;
      LlmMemoryHeld held = {
        .anonymous = memory->anonymous,
        .backed = memory->backed,
        .used = memory->is_busy ? memory->model : memory->backed,
        .allowed = memory->allowed,
        .is_busy = memory->is_busy,
      };
      LlmMemoryReading reading = {
        .time_us = (gint64) (row[0] * 1000) + G_USEC_PER_SEC,
        .total = (guint64) row[6],
        .available = (guint64) row[5],
        .group = { (guint64) row[7], (guint64) row[8], (guint64) row[9] },
        .machine = { get_share (row, before, 1), get_share (row, before, 2) },
        .own = { get_share (row, before, 3), get_share (row, before, 4) },
        .stalled_us = (guint64) row[1],
      };

      llm_memory_policy_decide (&memory->policy, &reading, &held, &memory->action);
      memory->given += memory->action.give_anonymous + memory->action.give_backed;
      memory->anonymous -= MIN (memory->action.give_anonymous, memory->anonymous);
      memory->backed -= MIN (memory->action.give_backed, memory->backed);
      if (memory->is_busy)
        {
          memory->backed = memory->model;
          memory->anonymous = MAX (memory->anonymous, MIN (memory->wanted, memory->action.budget));
        }
      memory->n_relapses += memory->policy.anonymous.n_cuts > relapse
                            && memory->policy.anonymous.grown_us > 0 && memory->has_grown;
      memory->has_grown = memory->policy.anonymous.grown_us == reading.time_us;
      memory->others = (guint64) MAX (row[8] - row[9], 0);
      print_moment (memory, (row[0] - rows[0]) / 1000);
    }
  memory->stalled_us = (guint64) (rows[(n - 1) * N_COLUMNS + 1] - rows[1]);
}

/* Prints moments (seconds; GiB of others, budget, contexts, weights; level), and what came of it
 * behind them. */
int
bench_pressure_play (int    argc,
                     char **argv)
{
  g_autoptr(GArray) rows = g_array_new (FALSE, FALSE, sizeof (double));
  Trace trace = { .rows = rows };
  LlmTestMemory *memory = &trace.memory;

  llm_test_memory_init (memory);
  read_trace (&trace);
  if (rows->len < 2 * (trace.is_recorded ? N_COLUMNS : 2))
    return 2;
  if (trace.is_recorded)
    play_recorded (&trace);
  else
    play_made_up (&trace);
  printf ("bound-gib %.9f\ngiven-gib %.9f\ncuts %" G_GUINT64_FORMAT "\nrelapses %" G_GUINT64_FORMAT
          "\ncalm-period-s %.6f\nothers-stalled-s %.6f\nkilled %" G_GUINT64_FORMAT "\n",
          (double) (memory->limit > 0 ? memory->limit : memory->total) / GIB,
          (double) memory->given / GIB, (guint64) memory->policy.anonymous.n_cuts,
          memory->n_relapses, (double) memory->policy.anonymous.period_us / G_USEC_PER_SEC,
          (double) memory->stalled_us / G_USEC_PER_SEC, memory->n_killed);
  return 0;
}
