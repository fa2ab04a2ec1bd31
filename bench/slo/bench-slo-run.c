/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "slo/bench-slo-run.h"

#include <sys/resource.h>

#define US 1e6

struct _BenchSloRun
{
  BenchSloServer *server;    /* (unowned) */
  guint64 seed;
  const GArray *trace;       /* (unowned) */
  const GArray *n_prompts;   /* (unowned) */
  guint max_calls;
  GPtrArray *calls;          /* (unowned): of the record */
  GMainLoop *loop;
  guint next;                /* of the trace */
  guint n_running;
  guint timer;               /* source */
  gint64 begin_us;
  gint64 ended_us;           /* of the last call so far */
};

static void begin_due (BenchSloRun *run);

static void
call_free (gpointer data)
{
  BenchSloCall *call = data;

  g_free (call->message);
  g_free (call);
}

void
bench_slo_call_note (BenchSloCall *call)
{
  call->last_us = g_get_monotonic_time ();
  if (call->first_us == 0)
    call->first_us = call->last_us;
}

void
bench_slo_call_end (BenchSloCall *call,
                    BenchSloEnd   end,
                    const char   *message)
{
  BenchSloRun *run = call->run;

  g_assert (run != NULL);
  call->end = end;
  call->message = g_strdup (message);
  call->run = NULL;
  run->n_running--;
  run->ended_us = g_get_monotonic_time ();
  begin_due (run);
}

static void
begin_call (BenchSloRun           *run,
            const BenchSloArrival *arrival)
{
  BenchSloCall *call = g_new0 (BenchSloCall, 1);
  g_autofree char *text = bench_slo_trace_make_text (run->seed, arrival);

  call->arrival = *arrival;
  call->n_prompt = g_array_index (run->n_prompts, guint, arrival->number);
  call->kept = 100;
  call->sub_model = 100;
  call->run = run;
  /* What the caller waits counts from the moment it wanted to call. */
  call->begin_us = run->max_calls > 0 ? g_get_monotonic_time ()
                                      : run->begin_us + (gint64) (arrival->at_s * US);
  g_ptr_array_add (run->calls, call);
  run->n_running++;
  run->server->begin (run->server, call, text);
}

static gboolean
on_due (gpointer data)
{
  BenchSloRun *run = data;

  run->timer = 0;
  begin_due (run);
  return G_SOURCE_REMOVE;
}

/* Begins what is due, and says when to look again. */
static void
begin_due (BenchSloRun *run)
{
  while (run->next < run->trace->len && (run->max_calls == 0 || run->n_running < run->max_calls))
    {
      const BenchSloArrival *arrival = &g_array_index (run->trace, BenchSloArrival, run->next);
      gint64 left_us = run->begin_us + (gint64) (arrival->at_s * US) - g_get_monotonic_time ();

      if (left_us > 0)
        {
          if (run->timer == 0)
            run->timer = g_timeout_add ((guint) ((left_us + 999) / 1000), on_due, run);
          return;
        }
      run->next++;
      begin_call (run, arrival);
    }
  if (run->next == run->trace->len && run->n_running == 0)
    g_main_loop_quit (run->loop);
}

static gboolean
on_time_over (gpointer data)
{
  BenchSloRun *run = data;

  g_main_loop_quit (run->loop);
  return G_SOURCE_CONTINUE;
}

/* Of this process. */
static double
get_cpu_seconds (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / US;
}

BenchSloRecord *
bench_slo_run (BenchSloServer *server,
               guint64         seed,
               const GArray   *trace,
               const GArray   *n_prompts,
               guint           max_calls,
               double          grace_s)
{
  BenchSloRecord *record = g_new0 (BenchSloRecord, 1);
  g_autoptr(GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  BenchSloRun run = {
    .server = server,
    .seed = seed,
    .trace = trace,
    .n_prompts = n_prompts,
    .max_calls = max_calls,
    .loop = loop,
  };
  double last_s = trace->len > 0 ? g_array_index (trace, BenchSloArrival, trace->len - 1).at_s : 0;
  double cpu_seconds = get_cpu_seconds ();
  guint limit = g_timeout_add ((guint) (1000 * (last_s + grace_s)), on_time_over, &run);

  record->calls = run.calls = g_ptr_array_new_with_free_func (call_free);
  run.begin_us = run.ended_us = g_get_monotonic_time ();
  if (trace->len > 0)
    {
      /* the first call may fail at once, before the loop runs */
      run.timer = g_timeout_add (0, on_due, &run);
      g_main_loop_run (loop);
    }
  g_source_remove (limit);
  g_clear_handle_id (&run.timer, g_source_remove);

  if (run.n_running > 0)
    {
      run.ended_us = g_get_monotonic_time ();
      for (guint i = 0; i < record->calls->len; i++)
        ((BenchSloCall *) g_ptr_array_index (record->calls, i))->run = NULL;
    }
  server->leave (server);
  record->cpu_seconds = get_cpu_seconds () - cpu_seconds;
  record->seconds = (double) (run.ended_us - run.begin_us) / US;
  return record;
}

void
bench_slo_record_free (BenchSloRecord *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->calls);
  g_free (self);
}

void
bench_slo_server_free (BenchSloServer *self)
{
  if (self != NULL)
    self->free (self);
}
