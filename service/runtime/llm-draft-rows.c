/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "runtime/llm-draft-rows.h"

#include <math.h>
#include <string.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"

/* Leaves the step of a node that is under way. */
static void
leave (LlmDraftRows *self)
{
  if (self->running == 0)
    return;
  llm_forward_abandon (self->forward);
  llm_kv_seq_truncate (self->seq, self->row.slot);
  self->running = 0;
}

void
llm_draft_rows_forget (LlmDraftRows *self)
{
  leave (self);
  self->n_nodes = 0;
  memset (self->paths, 0, sizeof self->paths);
}

static void
tell (const GError *error)
{
  /* memory is short again and again where weights stream */
  if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_NO_MEMORY))
    g_debug ("No room for a guess: %s", error->message);
  else if (error != NULL)
    g_message ("A step of the draft model failed; answers stay as they are without its guesses, each of "
               "which the model checks: %s", error->message);
}

/* What a draft step has taken. */
static void
note_step (LlmDraftRows *self,
           double        us)
{
  self->parent.spent_us += us;
  self->parent.step_us = llm_draft_usual_time (self->parent.step_us, us);
  if (self->parent.record == NULL)
    return;
  self->parent.record->step_us = self->parent.step_us;
  self->parent.record->has_stepped = TRUE;
}

LlmStatus
llm_draft_rows_run (LlmDraftRows *self,
                    const LlmRow *rows,
                    guint         n)
{
  const LlmBatch batch = { rows, n, &self->seq, 1 };
  g_autoptr(GError) error = NULL;
  guint length = self->seq->length;
  gint64 begin_us = llm_clock_now_us ();
  LlmStatus status = LLM_FAILED;
  double us;

  g_assert (self->running == 0);
  if (llm_kv_seq_append (self->seq, n, &error)
      && llm_forward_begin (self->forward, &batch, &error))
    {
      status = llm_forward_resume (self->forward, &error);
      if (status == LLM_PENDING)
        llm_forward_abandon (self->forward);
    }
  if (status != LLM_READY)
    llm_kv_seq_truncate (self->seq, length);
  tell (error);
  us = (double) (llm_clock_now_us () - begin_us);
  if (error == NULL && n == 1)
    note_step (self, us);
  else if (error == NULL)
    {
      self->parent.text_us += us;
      if (self->parent.record != NULL)
        {
          self->parent.record->text_us = us / n;
          self->parent.record->has_read = TRUE;
        }
    }
  return status;
}

static gboolean
begin_node (LlmDraftRows         *self,
            const LlmDraftGrowth *growth,
            guint                 number,
            GError              **error)
{
  const LlmGrowthNode *node = &growth->nodes[number];
  guint length = self->seq->length;

  self->row = (LlmRow) {
    .token = node->token,
    .position = self->seq->n_slid + self->n_done + node->depth - 1,
    .slot = self->n_done + self->n_nodes,
    .sub_model = self->sub_model,
    .wants_logits = TRUE,
  };
  self->row.visibility = (LlmVisibility) {
    .kind = LLM_VISIBLE_TREE,
    .base = self->n_done,
    .ancestors = (node->parent > 0 ? self->paths[node->parent] : 0)
                 | G_GUINT64_CONSTANT (1) << self->n_nodes,
  };
  self->batch = (LlmBatch) { &self->row, 1, &self->seq, 1 };
  self->running_us = 0;
  if (!llm_kv_seq_append (self->seq, 1, error))
    return FALSE;
  if (!llm_forward_begin (self->forward, &self->batch, error))
    {
      llm_kv_seq_truncate (self->seq, length);
      return FALSE;
    }
  self->running = number;
  return TRUE;
}

LlmStatus
llm_draft_rows_run_node (LlmDraftRows         *self,
                         const LlmDraftGrowth *growth,
                         guint                 number)
{
  g_autoptr(GError) error = NULL;
  gint64 begin_us = llm_clock_now_us ();
  gint64 until_us = self->parent.until_us > 0 ? self->parent.until_us : G_MAXINT64;
  LlmStatus status = LLM_PENDING;
  gboolean waits = FALSE;

  if (self->running != number)
    leave (self);
  if (self->running == 0 && !begin_node (self, growth, number, &error))
    {
      tell (error);
      return LLM_FAILED;
    }
  while (status == LLM_PENDING && !waits && llm_clock_now_us () < until_us)
    status = llm_forward_step (self->forward, &waits, &error);
  self->running_us += (double) (llm_clock_now_us () - begin_us);
  tell (error);
  if (status == LLM_PENDING && !waits)
    return status;
  if (status == LLM_READY)
    {
      self->running = 0;
      self->paths[number] = self->row.visibility.ancestors;
      self->nodes[self->n_nodes++] = number;
    }
  else
    leave (self);
  if (error == NULL)
    note_step (self, self->running_us);
  return status;
}

void
llm_draft_rows_keep (LlmDraftSource       *source,
                     const LlmDraftGrowth *growth,
                     guint                 node,
                     const guint          *numbers)
{
  LlmDraftRows *self = (LlmDraftRows *) source;
  guint last = self->paths[node] != 0 ? node : growth->nodes[node].parent;
  guint64 path = last > 0 ? self->paths[last] : 0;
  guint n_path = (guint) __builtin_popcountll (path), n = 0;
  guint slots[LLM_TREE_MAX_NODES], nodes[LLM_TREE_MAX_NODES];
  guint64 paths[LLM_GROWTH_MAX_NODES] = { 0 };

  leave (self);
  for (guint i = 0; i < self->n_nodes; i++)
    {
      guint old = self->nodes[i], parent = growth->nodes[old].parent;

      if ((path >> i & 1) != 0)
        slots[n++] = self->n_done + i;
      if ((path >> i & 1) != 0 || numbers[old] == LLM_DRAFT_NONE)
        continue;
      paths[numbers[old]] = (numbers[parent] > 0 ? paths[numbers[parent]] : 0)
                            | G_GUINT64_CONSTANT (1) << (n - n_path);
      nodes[n - n_path] = numbers[old];
      slots[n++] = self->n_done + i;
    }
  if (self->seq != NULL)
    llm_kv_seq_commit (self->seq, self->n_done, slots, n);
  self->n_done += n_path;
  self->n_nodes = n - n_path;
  memcpy (self->nodes, nodes, self->n_nodes * sizeof *nodes);
  memcpy (self->paths, paths, sizeof paths);
}

guint
llm_draft_rows_find_best (const float       *logits,
                          guint              n_vocab,
                          LlmDraftCandidate *candidates)
{
  double sum = 0;
  guint n = 0;

  /* confidence holds the logit at first */
  for (guint i = 0; i < n_vocab; i++)
    {
      guint place = n;

      if (!(logits[i] > -INFINITY)
          || (n == LLM_DRAFT_MAX_CANDIDATES && !(logits[i] > candidates[n - 1].confidence)))
        continue;
      if (n < LLM_DRAFT_MAX_CANDIDATES)
        n++;
      else
        place--;
      for (; place > 0 && candidates[place - 1].confidence < logits[i]; place--)
        candidates[place] = candidates[place - 1];
      candidates[place] = (LlmDraftCandidate) { (gint32) i, logits[i] };
    }
  for (guint i = 0; n > 0 && i < n_vocab; i++)
    if (logits[i] > -INFINITY)
      sum += exp ((double) logits[i] - candidates[0].confidence);
  for (guint i = n; i-- > 0;)
    candidates[i].confidence =
      (float) (exp ((double) candidates[i].confidence - candidates[0].confidence) / sum);
  return n;
}
