/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "dispatch/llm-dispatch.h"

typedef struct
{
  guint n_done;          /* stages that have ended; the number of the one that runs or comes next */
  gboolean is_running;
  guint ready_at;        /* a number that rises, from 1; 0: not ready, or running */
} Chunk;

struct _LlmDispatch
{
  LlmDispatchGraph graph;
  LlmDispatchRule rule;
  guint n_ready;         /* that ever were */
  Chunk chunks[LLM_DISPATCH_MAX_CHUNKS];
};

/* Whether @stage of @chunk could run if the chunk's stages before it, and @ended of @other, had
 * ended. */
static gboolean
has_needed (const LlmDispatch *self,
            guint              chunk,
            guint              stage,
            guint              other)
{
  if (stage >= self->graph.n_stages)
    return FALSE;
  for (guint i = 0; self->graph.stages[stage].needs_earlier && i < chunk; i++)
    if (self->chunks[i].n_done + (i == other ? 1 : 0) < stage)
      return FALSE;
  return TRUE;
}

static void
find_ready (LlmDispatch *self)
{
  for (guint i = 0; i < self->graph.n_chunks; i++)
    {
      Chunk *chunk = &self->chunks[i];

      if (chunk->ready_at == 0 && !chunk->is_running
          && has_needed (self, i, chunk->n_done, G_MAXUINT))
        chunk->ready_at = ++self->n_ready;
    }
}

LlmDispatch *
llm_dispatch_new (const LlmDispatchGraph *graph,
                  LlmDispatchRule         rule)
{
  LlmDispatch *self = g_new0 (LlmDispatch, 1);

  g_assert (graph->n_stages > 0 && graph->n_chunks > 0
            && graph->n_chunks <= LLM_DISPATCH_MAX_CHUNKS);
  self->graph = *graph;
  self->rule = rule;
  find_ready (self);
  return self;
}

void
llm_dispatch_free (LlmDispatch *self)
{
  g_free (self);
}

/* How long the other processor has work with what becomes ready behind the next stage of @chunk. */
static double
get_work_behind (const LlmDispatch *self,
                 guint              chunk)
{
  const LlmDispatchGraph *graph = &self->graph;
  guint stage = self->chunks[chunk].n_done;
  double work_us = 0;

  if (stage + 1 >= graph->n_stages
      || graph->stages[stage + 1].processor == graph->stages[stage].processor)
    return 0;
  for (guint i = chunk; i < graph->n_chunks; i++)
    {
      gboolean waits = i == chunk || (self->chunks[i].n_done == stage + 1
                                      && !self->chunks[i].is_running
                                      && self->chunks[i].ready_at == 0);

      if (waits && has_needed (self, i, stage + 1, chunk))
        work_us += graph->times_us[i * graph->n_stages + stage + 1];
    }
  return work_us;
}

/* More is better. */
static double
get_merit (const LlmDispatch *self,
           guint              chunk,
           LlmProcessor       processor)
{
  switch (self->rule)
    {
    case LLM_DISPATCH_STALLS:
      return processor == LLM_PROCESSOR_CPU ? get_work_behind (self, chunk)
                                            : -get_work_behind (self, chunk);
    case LLM_DISPATCH_CHUNKS:
      return -(double) chunk;
    case LLM_DISPATCH_FIFO:
    default:
      return 0;
    }
}

gboolean
llm_dispatch_begin (LlmDispatch  *self,
                    LlmProcessor  processor,
                    guint        *chunk,
                    guint        *stage)
{
  double most = 0;
  Chunk *best = NULL;

  for (guint i = 0; i < self->graph.n_chunks; i++)
    {
      Chunk *candidate = &self->chunks[i];
      double merit;

      if (candidate->ready_at == 0
          || self->graph.stages[candidate->n_done].processor != processor)
        continue;
      merit = get_merit (self, i, processor);
      if (best != NULL
          && (merit < most || (merit == most && candidate->ready_at > best->ready_at)))
        continue;
      best = candidate;
      most = merit;
    }
  if (best == NULL)
    return FALSE;

  best->is_running = TRUE;
  best->ready_at = 0;
  *chunk = (guint) (best - self->chunks);
  *stage = best->n_done;
  return TRUE;
}

void
llm_dispatch_end (LlmDispatch *self,
                  guint        chunk)
{
  g_assert (self->chunks[chunk].is_running);

  self->chunks[chunk].is_running = FALSE;
  self->chunks[chunk].n_done++;
  find_ready (self);
}

gboolean
llm_dispatch_is_done (LlmDispatch *self)
{
  for (guint i = 0; i < self->graph.n_chunks; i++)
    if (self->chunks[i].n_done < self->graph.n_stages)
      return FALSE;
  return TRUE;
}

/* --- simulation --- */

/* As one thread drives both: it hands over to the device what it can, computes a stage of the CPU, and
 * sees only then what the device has done. */
static LlmDispatchFigures
simulate_driven (LlmDispatch *self)
{
  const LlmDispatchGraph *graph = &self->graph;
  LlmDispatchFigures figures = { 0 };
  double now_us = 0, device_end_us = 0, driver_us = 0;
  guint of_device = G_MAXUINT, chunk, stage;

  while (!llm_dispatch_is_done (self))
    {
      if (of_device != G_MAXUINT && device_end_us <= now_us)
        {
          now_us += driver_us / 2;
          llm_dispatch_end (self, of_device);
          of_device = G_MAXUINT;
        }
      if (of_device == G_MAXUINT && llm_dispatch_begin (self, LLM_PROCESSOR_DEVICE, &of_device, &stage))
        {
          gsize at = (gsize) of_device * graph->n_stages + stage;

          driver_us = MIN (graph->driver_us[at], graph->times_us[at]);
          device_end_us = now_us + graph->times_us[at] - driver_us / 2;
          figures.busy_us[LLM_PROCESSOR_DEVICE] += graph->times_us[at];
          now_us += driver_us / 2;
        }
      if (llm_dispatch_begin (self, LLM_PROCESSOR_CPU, &chunk, &stage))
        {
          double time_us = graph->times_us[(gsize) chunk * graph->n_stages + stage];

          figures.busy_us[LLM_PROCESSOR_CPU] += time_us;
          now_us += time_us;
          llm_dispatch_end (self, chunk);
        }
      else if (of_device != G_MAXUINT)
        now_us = MAX (now_us, device_end_us);
    }
  figures.makespan_us = now_us;
  return figures;
}

LlmDispatchFigures
llm_dispatch_simulate (const LlmDispatchGraph *graph,
                       LlmDispatchRule         rule)
{
  g_autoptr (LlmDispatch) self = llm_dispatch_new (graph, rule);
  LlmDispatchFigures figures = { 0 };
  double ends_us[LLM_N_PROCESSORS] = { G_MAXDOUBLE, G_MAXDOUBLE };
  guint chunks[LLM_N_PROCESSORS] = { 0 };

  if (graph->driver_us != NULL)
    return simulate_driven (self);
  while (!llm_dispatch_is_done (self))
    {
      LlmProcessor first = LLM_PROCESSOR_CPU;

      for (LlmProcessor p = 0; p < LLM_N_PROCESSORS; p++)
        {
          guint stage;

          if (ends_us[p] == G_MAXDOUBLE && llm_dispatch_begin (self, p, &chunks[p], &stage))
            {
              double time_us = graph->times_us[chunks[p] * graph->n_stages + stage];

              figures.busy_us[p] += time_us;
              ends_us[p] = figures.makespan_us + time_us;
            }
        }
      if (ends_us[LLM_PROCESSOR_DEVICE] < ends_us[LLM_PROCESSOR_CPU])
        first = LLM_PROCESSOR_DEVICE;
      figures.makespan_us = ends_us[first];
      ends_us[first] = G_MAXDOUBLE;
      llm_dispatch_end (self, chunks[first]);
    }
  return figures;
}

LlmDispatchRule
llm_dispatch_choose (const LlmDispatchGraph *graph)
{
  LlmDispatchRule best = 0;
  double least_us = G_MAXDOUBLE;

  for (LlmDispatchRule rule = 0; rule < LLM_N_DISPATCH_RULES; rule++)
    {
      double makespan_us = llm_dispatch_simulate (graph, rule).makespan_us;

      if (makespan_us < least_us)
        {
          least_us = makespan_us;
          best = rule;
        }
    }
  return best;
}

const char *
llm_dispatch_rule_get_name (LlmDispatchRule rule)
{
  static const char *const names[] = { "stalls", "fifo", "chunks" };

  G_STATIC_ASSERT (G_N_ELEMENTS (names) == LLM_N_DISPATCH_RULES);
  return names[rule];
}
