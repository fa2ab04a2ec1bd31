/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "dispatch/llm-chunk-run.h"

#include <string.h>

/* What a new time counts against what is known of a stage. */
#define WEIGHT_OF_NEW 0.25
#define NONE G_MAXUINT

typedef struct
{
  guint chunk;             /* NONE: free */
  guint node;
  gint64 begun_us;
  gint64 driver_us;        /* to hand over what the device has of it, and to take it back */
  guint64 n_ended;         /* of the CPU's stages, when it began */
  gboolean is_of_device;   /* that has got operations of it */
} Running;

struct _LlmChunkRun
{
  LlmPlan *plan;           /* (owned) */
  LlmWorkerPool *pool;     /* (unowned) */
  LlmLedger *ledger;       /* (nullable) (owned) */
  LlmStep *steps[LLM_DISPATCH_MAX_CHUNKS];   /* (owned), made when first needed */

  gboolean is_learned;
  LlmDispatchStage *learned;   /* (owned) [n_nodes of the plan]: by node */
  double *times_us;            /* (owned) [LLM_DISPATCH_MAX_CHUNKS × n_nodes of the plan]: 0:
                                * unknown */
  double *driver_us;           /* (owned) likewise */

  LlmDispatch *dispatch;   /* (nullable) (owned): NULL between runs */
  LlmDispatchStage *stages;    /* (owned) [n_nodes]: of the run */
  double *guesses_us;          /* (owned) [LLM_DISPATCH_MAX_CHUNKS × n_nodes], likewise */
  double *driver_guesses_us;   /* (owned) likewise */
  guint64 n_ended;             /* of the CPU's stages, of all runs */
  guint n_chunks;
  Running running[LLM_N_PROCESSORS];
};

LlmChunkRun *
llm_chunk_run_new (LlmPlan       *plan,
                   LlmWorkerPool *pool,
                   LlmLedger     *ledger)
{
  LlmChunkRun *self = g_new0 (LlmChunkRun, 1);

  self->plan = llm_plan_ref (plan);
  self->pool = pool;
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  self->learned = g_new0 (LlmDispatchStage, plan->n_nodes);
  self->stages = g_new0 (LlmDispatchStage, plan->n_nodes);
  self->times_us = g_new0 (double, LLM_DISPATCH_MAX_CHUNKS * plan->n_nodes);
  self->driver_us = g_new0 (double, LLM_DISPATCH_MAX_CHUNKS * plan->n_nodes);
  self->guesses_us = g_new0 (double, LLM_DISPATCH_MAX_CHUNKS * plan->n_nodes);
  self->driver_guesses_us = g_new0 (double, LLM_DISPATCH_MAX_CHUNKS * plan->n_nodes);
  return self;
}

void
llm_chunk_run_free (LlmChunkRun *self)
{
  if (self == NULL)
    return;

  llm_chunk_run_abandon (self);
  for (guint i = 0; i < LLM_DISPATCH_MAX_CHUNKS; i++)
    g_clear_pointer (&self->steps[i], llm_step_free);
  g_free (self->learned);
  g_free (self->stages);
  g_free (self->times_us);
  g_free (self->driver_us);
  g_free (self->guesses_us);
  g_free (self->driver_guesses_us);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  llm_plan_unref (self->plan);
  g_free (self);
}

/* --- what is known of stages --- */

/* Of a chunk that never ran, what the one before it takes. */
gboolean
llm_chunk_run_get_graph (LlmChunkRun      *self,
                         guint             n_chunks,
                         LlmDispatchGraph *graph)
{
  guint n_nodes = self->plan->n_nodes;

  *graph = (LlmDispatchGraph) { self->learned, n_nodes, n_chunks, self->guesses_us,
                                self->driver_guesses_us };
  for (guint c = 0; c < n_chunks; c++)
    for (guint i = 0; i < n_nodes; i++)
      {
        guint at = c * n_nodes + i, from = self->times_us[at] == 0 && c > 0 ? at - n_nodes : at;

        self->guesses_us[at] = from == at ? self->times_us[at] : self->guesses_us[from];
        self->driver_guesses_us[at] = from == at ? self->driver_us[at] : self->driver_guesses_us[from];
      }
  return self->is_learned;
}

static void
add_time (double *known_us,
          double  new_us)
{
  *known_us += (*known_us == 0 ? 1 : WEIGHT_OF_NEW) * (new_us - *known_us);
}

/* What the device had done before the CPU's stage beside it ended took less than it seems. */
static void
learn (LlmChunkRun   *self,
       const Running *running)
{
  guint at = running->chunk * self->plan->n_nodes + running->node;
  double new_us = (double) (g_get_monotonic_time () - running->begun_us);

  if (running->n_ended == self->n_ended || self->times_us[at] == 0 || new_us < self->times_us[at])
    add_time (&self->times_us[at], new_us);
  add_time (&self->driver_us[at], (double) running->driver_us);
  if (!self->is_learned)
    self->learned[running->node].processor =
      running->is_of_device ? LLM_PROCESSOR_DEVICE : LLM_PROCESSOR_CPU;
}

/* --- runs --- */

static gboolean
begin (LlmChunkRun     *self,
       const LlmBatch  *chunks,
       guint            n_chunks,
       LlmDispatchRule  rule,
       gboolean         is_by_rule,
       GError         **error)
{
  LlmDispatchGraph graph;

  g_return_val_if_fail (self->dispatch == NULL, FALSE);
  g_return_val_if_fail (n_chunks > 0 && n_chunks <= LLM_DISPATCH_MAX_CHUNKS, FALSE);

  for (self->n_chunks = 0; self->n_chunks < n_chunks; self->n_chunks++)
    {
      LlmStep **step = &self->steps[self->n_chunks];

      if (*step == NULL)
        *step = llm_step_new (self->plan, self->pool, self->ledger);
      if (!llm_step_begin (*step, &chunks[self->n_chunks], error))
        {
          llm_chunk_run_abandon (self);
          return FALSE;
        }
    }

  /* Until it is known which stages the device has, all go in order. */
  for (guint i = 0; i < self->plan->n_nodes; i++)
    self->learned[i].needs_earlier = (self->plan->nodes[i].reads & LLM_BUFFER_KV) != 0;
  llm_chunk_run_get_graph (self, n_chunks, &graph);
  memcpy (self->stages, self->learned, self->plan->n_nodes * sizeof *self->stages);
  graph.stages = self->stages;
  if (!self->is_learned)
    rule = LLM_DISPATCH_CHUNKS;
  else if (!is_by_rule)
    rule = llm_dispatch_choose (&graph);
  self->dispatch = llm_dispatch_new (&graph, rule);
  for (LlmProcessor p = 0; p < LLM_N_PROCESSORS; p++)
    self->running[p].chunk = NONE;
  return TRUE;
}

gboolean
llm_chunk_run_begin (LlmChunkRun     *self,
                     const LlmBatch  *chunks,
                     guint            n_chunks,
                     GError         **error)
{
  return begin (self, chunks, n_chunks, 0, FALSE, error);
}

gboolean
llm_chunk_run_begin_by (LlmChunkRun     *self,
                        const LlmBatch  *chunks,
                        guint            n_chunks,
                        LlmDispatchRule  rule,
                        GError         **error)
{
  return begin (self, chunks, n_chunks, rule, TRUE, error);
}

/* READY when it ended. Those behind the layers of a chunk that wants no logits have nothing to
 * do. */
static LlmStatus
run_stage (LlmChunkRun *self,
           Running     *running,
           GError     **error)
{
  LlmStep *step = self->steps[running->chunk];
  guint64 n_before;
  LlmStatus status;

  if (running->node >= llm_step_get_n_nodes (step))
    return LLM_READY;
  n_before = step->n_of_device;
  status = llm_step_run (step, &self->plan->nodes[running->node], error);
  running->is_of_device = running->is_of_device || step->n_of_device > n_before;
  return status;
}

/* Begins what @processor can, or goes on with it. READY: something ended. */
static LlmStatus
run_processor (LlmChunkRun  *self,
               LlmProcessor  processor,
               GError      **error)
{
  Running *running = &self->running[processor];
  LlmStatus status;
  gint64 begun_us;

  if (running->chunk == NONE)
    {
      guint chunk, node;

      if (!llm_dispatch_begin (self->dispatch, processor, &chunk, &node))
        return LLM_PENDING;
      *running = (Running) { chunk, node, g_get_monotonic_time (), 0, self->n_ended, FALSE };
    }
  begun_us = g_get_monotonic_time ();
  status = run_stage (self, running, error);
  running->driver_us += g_get_monotonic_time () - begun_us;
  if (status != LLM_READY)
    return status;
  learn (self, running);
  llm_dispatch_end (self->dispatch, running->chunk);
  self->n_ended += processor == LLM_PROCESSOR_CPU ? 1 : 0;
  running->chunk = NONE;
  return LLM_READY;
}

static gboolean
end (LlmChunkRun *self,
     GError     **error)
{
  gboolean is_intact = TRUE;

  for (guint i = 0; i < self->n_chunks && is_intact; i++)
    is_intact = llm_step_end (self->steps[i], error);
  if (!is_intact)
    return FALSE;
  self->is_learned = TRUE;
  g_clear_pointer (&self->dispatch, llm_dispatch_free);
  return TRUE;
}

/* The device first: it works while the CPU does. */
LlmStatus
llm_chunk_run_resume (LlmChunkRun *self,
                      GError     **error)
{
  gboolean has_ended = TRUE;

  g_return_val_if_fail (self->dispatch != NULL, LLM_FAILED);

  while (has_ended && !llm_dispatch_is_done (self->dispatch))
    {
      has_ended = FALSE;
      for (gint p = LLM_N_PROCESSORS - 1; p >= 0; p--)
        {
          LlmStatus status;

          /* the device gets its next before the CPU begins */
          do
            {
              status = run_processor (self, (LlmProcessor) p, error);
              has_ended = has_ended || status == LLM_READY;
            }
          while (status == LLM_READY && p == LLM_PROCESSOR_DEVICE);
          if (status == LLM_FAILED)
            {
              llm_chunk_run_abandon (self);
              return LLM_FAILED;
            }
        }
    }
  if (!llm_dispatch_is_done (self->dispatch))
    return LLM_PENDING;
  if (end (self, error))
    return LLM_READY;
  llm_chunk_run_abandon (self);
  return LLM_FAILED;
}

void
llm_chunk_run_abandon (LlmChunkRun *self)
{
  for (guint i = 0; i < LLM_DISPATCH_MAX_CHUNKS; i++)
    if (self->steps[i] != NULL)
      llm_step_abandon (self->steps[i]);
  g_clear_pointer (&self->dispatch, llm_dispatch_free);
}

const float *
llm_chunk_run_get_logits (LlmChunkRun *self,
                          guint        chunk,
                          guint        row)
{
  g_return_val_if_fail (chunk < self->n_chunks, NULL);

  return llm_step_get_logits (self->steps[chunk], row);
}
