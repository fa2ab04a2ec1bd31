/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "pressure/bench-pressure-trace.h"

#include <string.h>

#include "support/llm-test-memory.h"

#define MIB (1024.0 * 1024)
#define GIB (1024.0 * MIB)
#define N_COLUMNS 10
/* More lines than a day of readings, ten a second. */
#define MAX_LINES 1000000
/* Moments that are kept for plots: two a second. */
#define MOMENT_US 500000

typedef struct
{
  LlmTestMemory memory;
  gboolean is_recorded;
  GArray *rows;          /* (element-type double): N_COLUMNS each, or 2 */
} Trace;

static gboolean
fail (GError    **error,
      const char *path,
      guint       line,
      const char *what)
{
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_INVALID_DATA, "%s:%u: %s", path, line, what);
  return FALSE;
}

/* FALSE for a name that there is not. */
static gboolean
set_number (Trace      *self,
            const char *name,
            double      number)
{
  struct
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
    if (g_str_equal (name, sizes[i].name))
      {
        *sizes[i].field = (guint64) (number * MIB);
        return TRUE;
      }
  if (g_str_equal (name, "busy"))
    self->memory.is_busy = number > 0;
  else if (g_str_equal (name, "recorded"))
    self->is_recorded = number > 0;
  else
    return FALSE;
  return TRUE;
}

static gboolean
parse_number (const char *text,
              double     *number)
{
  char *end;

  *number = g_ascii_strtod (text, &end);
  return end != text && *end == '\0' && *number >= 0 && *number < 1e18;
}

static gboolean
parse_row (Trace      *self,
           char      **fields,
           const char *path,
           guint       line,
           GError    **error)
{
  guint n = self->is_recorded ? N_COLUMNS : 2;
  double time;

  if (g_strv_length (fields) != n)
    return fail (error, path, line, "a line of this trace has another number of columns");
  for (guint i = 0; i < n; i++)
    {
      double number;

      if (!parse_number (fields[i], &number))
        return fail (error, path, line, "that is no number of bytes or time");
      g_array_append_val (self->rows, number);
    }
  time = g_array_index (self->rows, double, self->rows->len - n);
  if (self->rows->len > n && time <= g_array_index (self->rows, double, self->rows->len - 2 * n))
    return fail (error, path, line, "time does not go on");
  return TRUE;
}

static gboolean
parse_line (Trace      *self,
            char       *text,
            const char *path,
            guint       line,
            GError    **error)
{
  g_auto(GStrv) split = NULL;
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_auto(GStrv) fields = NULL;
  char *comment = strchr (text, '#');
  double number;

  if (comment != NULL)
    *comment = '\0';
  split = g_strsplit_set (g_strstrip (text), " \t", -1);
  for (guint i = 0; split[i] != NULL; i++)
    if (*split[i] != '\0')
      g_strv_builder_add (builder, split[i]);
  fields = g_strv_builder_end (builder);
  if (fields[0] == NULL)
    return TRUE;
  if (!g_ascii_isalpha (*fields[0]))
    return parse_row (self, fields, path, line, error);
  if (g_strv_length (fields) != 2 || !parse_number (fields[1], &number) || self->rows->len > 0
      || !set_number (self, fields[0], number))
    return fail (error, path, line, "that is no description of a machine or service");
  return TRUE;
}

static gboolean
read_trace (Trace      *self,
            const char *path,
            GError    **error)
{
  g_autofree char *text = NULL;
  g_auto(GStrv) lines = NULL;

  if (!g_file_get_contents (path, &text, NULL, error))
    return FALSE;
  lines = g_strsplit (text, "\n", MAX_LINES);
  self->memory.allowed = 0;
  for (guint i = 0; lines[i] != NULL; i++)
    if (!parse_line (self, lines[i], path, i + 1, error))
      return FALSE;
  if (self->rows->len < 2 * (self->is_recorded ? N_COLUMNS : 2))
    return fail (error, path, 1, "a trace needs two lines at least");
  if (self->memory.allowed == 0)
    self->memory.allowed = self->memory.total / 4 * 3;
  self->memory.action.budget = self->memory.allowed;
  return TRUE;
}

static void
note_moment (BenchPressure       *result,
             const LlmTestMemory *memory,
             double               seconds)
{
  double budget = (double) memory->action.budget / GIB;
  BenchMoment moment = {
    .seconds = seconds,
    .others = (double) memory->others / GIB,
    .budget = budget,
    .contexts = (double) memory->anonymous / GIB,
    .weights = (double) memory->backed / GIB,
    .level = memory->action.level,
  };

  result->least = result->moments->len > 0 ? MIN (result->least, budget) : budget;
  g_array_append_val (result->moments, moment);
}

/* Closed: what the service gives, others find. */
static void
play_made_up (Trace         *self,
              BenchPressure *result)
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
          note_moment (result, &self->memory, seconds);
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
play_recorded (Trace         *self,
               BenchPressure *result)
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
      note_moment (result, memory, (row[0] - rows[0]) / 1000);
    }
  memory->stalled_us = (guint64) (rows[(n - 1) * N_COLUMNS + 1] - rows[1]);
}

BenchPressure *
bench_pressure_play (const char *path,
                     gboolean    is_deaf,
                     GError    **error)
{
  g_autoptr(BenchPressure) self = g_new0 (BenchPressure, 1);
  g_autoptr(GArray) rows = g_array_new (FALSE, FALSE, sizeof (double));
  Trace trace = { .rows = rows };
  char *dot;

  self->moments = g_array_new (FALSE, FALSE, sizeof (BenchMoment));
  self->name = g_path_get_basename (path);
  dot = strrchr (self->name, '.');
  if (dot != NULL)
    *dot = '\0';
  llm_test_memory_init (&trace.memory);
  trace.memory.is_deaf = is_deaf;
  if (!read_trace (&trace, path, error))
    return NULL;

  if (trace.is_recorded)
    play_recorded (&trace, self);
  else
    play_made_up (&trace, self);
  self->bound = (double) (trace.memory.limit > 0 ? trace.memory.limit : trace.memory.total) / GIB;
  self->n_cuts = trace.memory.policy.anonymous.n_cuts;
  self->n_relapses = trace.memory.n_relapses;
  self->n_killed = trace.memory.n_killed;
  self->given = (double) trace.memory.given / GIB;
  self->stalled = (double) trace.memory.stalled_us / G_USEC_PER_SEC;
  self->calm_period = (double) trace.memory.policy.anonymous.period_us / G_USEC_PER_SEC;
  return g_steal_pointer (&self);
}

void
bench_pressure_free (BenchPressure *self)
{
  g_array_unref (self->moments);
  g_free (self->name);
  g_free (self);
}
