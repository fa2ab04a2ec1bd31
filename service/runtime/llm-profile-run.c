/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-engine"

#include "runtime/llm-profile.h"

#include "base/llm-clock.h"
#include "forward/llm-forward.h"

/* Slots before the rows of the step that is timed with a deep context: those of the longest
 * step. */
#define DEEP_SLOTS 512
#define DEEP_ROWS 256
/* Any number that has no factor in common with a vocabulary spreads tokens over it. */
#define SPREAD 7919

/* The fastest of each size counts, because disturbances only slow steps down. A small model needs
 * few rounds for that; with a large one a disturbance is a smaller part. */
#define MIN_ROUNDS 2
#define MAX_ROUNDS 8
#define ENOUGH_US 3000000

/* The steps of a round, and whether each follows the one before in the context. The shortest are
 * disturbed most. */
static const struct
{
  guint n_rows;
  gboolean is_deep;
} steps[] = {
  { 1, FALSE },  { 1, FALSE },   { 16, FALSE },        { 16, FALSE },
  { 64, FALSE }, { 128, FALSE }, { DEEP_ROWS, FALSE }, { DEEP_SLOTS, FALSE },
  { DEEP_ROWS, TRUE },
};

G_STATIC_ASSERT (DEEP_SLOTS <= LLM_BATCH_MAX_ROWS);

struct _LlmProfileRun
{
  const LlmHparams *hparams;
  LlmLedger *ledger;        /* (nullable) (owned) */
  LlmForward *forward;      /* (owned) */
  LlmKvStore *store;        /* (nullable) (owned): made with the first step */
  LlmKvSeq *seq;            /* (nullable) (owned) */
  LlmRow *rows;             /* (owned) (array length=LLM_BATCH_MAX_ROWS) */
  LlmBatch batch;

  guint round;              /* round 0 finds cold memory, and does not count */
  guint step;
  gboolean is_running;      /* the step has begun */
  gint64 elapsed_us;        /* of it */
  gint64 all_us;            /* of all that count */
  LlmKvProfile profile;
  double deep_us;

  LlmDisk *disk;            /* (nullable) (unowned) */
  char *folder;             /* (nullable) (owned) */
  LlmDiskProbe *probe;      /* (nullable) (owned) */
};

LlmProfileRun *
llm_profile_run_new (LlmPlan       *plan,
                     LlmWorkerPool *pool,
                     LlmLedger     *ledger,
                     LlmDisk       *disk,
                     const char    *folder)
{
  LlmProfileRun *self = g_new0 (LlmProfileRun, 1);

  self->hparams = plan->hparams;
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  self->forward = llm_forward_new (plan, pool, ledger);
  self->rows = g_new0 (LlmRow, LLM_BATCH_MAX_ROWS);
  self->disk = folder != NULL ? disk : NULL;
  self->folder = g_strdup (folder);
  self->profile = (LlmKvProfile) { 0 };
  return self;
}

static void
forget_memory (LlmProfileRun *self)
{
  g_clear_pointer (&self->forward, llm_forward_free);
  g_clear_pointer (&self->seq, llm_kv_seq_free);
  g_clear_pointer (&self->store, llm_kv_store_free);
}

void
llm_profile_run_free (LlmProfileRun *self)
{
  if (self == NULL)
    return;

  forget_memory (self);
  g_clear_pointer (&self->probe, llm_disk_probe_free);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self->rows);
  g_free (self->folder);
  g_free (self);
}

/* It has a KV cache of its own: sessions and what they hold are not touched. */
static gboolean
make_memory (LlmProfileRun *self,
             GError       **error)
{
  LlmKvLayer layers[LLM_MAX_LAYERS];
  const LlmKvLayout layout =
    llm_forward_get_layout (self->hparams, LLK_KV_F16, LLM_KV_CHUNK_SLOTS, layers);

  self->store = llm_kv_store_new (&layout, NULL, self->ledger, error);
  if (self->store == NULL)
    return FALSE;
  self->seq = llm_kv_seq_new (self->store, NULL, NULL);
  return TRUE;
}

static gboolean
begin_step (LlmProfileRun *self,
            GError       **error)
{
  guint n = steps[self->step].n_rows;
  guint first;

  if (self->store == NULL && !make_memory (self, error))
    return FALSE;
  if (!steps[self->step].is_deep)
    llm_kv_seq_truncate (self->seq, 0);
  first = self->seq->length;
  if (!llm_kv_seq_append (self->seq, n, error))
    return FALSE;

  for (guint i = 0; i < n; i++)
    self->rows[i] = (LlmRow) {
      .token = (gint32) (((guint64) first + i) * SPREAD % self->hparams->n_vocab),
      .position = first + i,
      .slot = first + i,
      .sub_model = 100,
      .wants_logits = i + 1 == n,
    };
  self->batch = (LlmBatch) { self->rows, n, &self->seq, 1 };
  self->elapsed_us = 0;
  self->is_running = llm_forward_begin (self->forward, &self->batch, error);
  return self->is_running;
}

/* Keeps the smallest; 0: none yet. */
static void
note_time (double *least,
           double  us)
{
  *least = *least > 0 ? MIN (*least, us) : us;
}

static gboolean
has_enough (LlmProfileRun *self)
{
  return self->round > MAX_ROUNDS || (self->round > MIN_ROUNDS && self->all_us >= ENOUGH_US);
}

static void
end_step (LlmProfileRun *self)
{
  double us = (double) MAX (self->elapsed_us, 1);

  self->is_running = FALSE;
  if (self->round == 0)
    {
      self->round++;
      return;
    }

  self->all_us += self->elapsed_us;
  if (steps[self->step].is_deep)
    note_time (&self->deep_us, us);
  for (guint i = 0; i < LLM_KV_PROFILE_POINTS && !steps[self->step].is_deep; i++)
    if (llm_kv_profile_rows[i] == steps[self->step].n_rows)
      note_time (&self->profile.prompt_us[i], us);
  if (++self->step < G_N_ELEMENTS (steps))
    return;
  self->step = 0;
  self->round++;
}

static double
get_depth_us (LlmProfileRun *self)
{
  double shallow_us = llm_kv_profile_get_prompt_us (&self->profile, DEEP_ROWS, 0);

  return MAX (self->deep_us - shallow_us, 0) / (DEEP_ROWS * (DEEP_SLOTS / 1000.0));
}

/* Stage by stage, so that a request that arrives does not wait for a whole step. */
static LlmStatus
run_steps (LlmProfileRun *self,
           gint64         until_us,
           GError       **error)
{
  while (!has_enough (self))
    {
      gboolean waits = FALSE;
      LlmStatus status;
      gint64 before_us;

      if (!self->is_running && !begin_step (self, error))
        return LLM_FAILED;
      before_us = llm_clock_now_us ();
      status = llm_forward_step (self->forward, &waits, error);
      self->elapsed_us += llm_clock_now_us () - before_us;
      if (status == LLM_FAILED)
        return LLM_FAILED;
      if (status == LLM_READY)
        end_step (self);
      if (waits || llm_clock_now_us () >= until_us)
        return LLM_PENDING;
    }

  if (self->forward != NULL)
    {
      self->profile.depth_us = get_depth_us (self);
      forget_memory (self);
    }
  return LLM_READY;
}

LlmStatus
llm_profile_run_work (LlmProfileRun *self,
                      gint64         until_us,
                      LlmKvProfile  *profile,
                      GError       **error)
{
  LlmStatus status = run_steps (self, until_us, error);

  if (status == LLM_READY && self->disk != NULL)
    {
      if (self->probe == NULL)
        self->probe = llm_disk_probe_new (self->disk, self->folder, error);
      if (self->probe == NULL)
        return LLM_FAILED;
      status = llm_disk_probe_work (self->probe, until_us, &self->profile, error);
    }
  if (status == LLM_READY)
    *profile = self->profile;
  return status;
}
