/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "runtime/llm-draft-model.h"

#include <math.h>
#include <string.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "forward/llm-forward.h"

/* Rows of text in one step of the draft model, between two steps of the target model. */
#define MAX_ROWS 128
#define CHUNK_SLOTS 16

/* A step of a model with fewer bytes is computed by one thread: its products are so short that two
 * threads would mostly wait for each other, or for other programs. */
#define ALONE_BYTES ((guint64) 8 << 20)

struct _LlmDraftModel
{
  LlmModel *model;          /* (owned) */
  LlmWeights *weights;      /* (owned) */
  LlmPlan *plan;            /* (owned) */
  LlmWorkerPool *pool;      /* (owned) */
  LlmLedger *ledger;        /* (owned) */
};

static void
draft_model_clear (gpointer data)
{
  LlmDraftModel *self = data;

  llm_plan_unref (self->plan);
  llm_weights_free (self->weights);
  llm_model_unref (self->model);
  llm_worker_pool_free (self->pool);
  llm_ledger_unref (self->ledger);
}

LlmDraftModel *
llm_draft_model_new (LlmModel     *model,
                     LlmWeights   *weights,
                     const LlkOps *kernels,
                     guint         n_threads,
                     LlmLedger    *ledger)
{
  LlmDraftModel *self = g_atomic_rc_box_new0 (LlmDraftModel);
  const LlmPlanConfig config = { .kernels = kernels };

  self->model = llm_model_ref (model);
  self->weights = weights;
  self->plan = llm_plan_new (llm_model_get_hparams (model), weights, &config);
  self->pool = llm_worker_pool_new (weights->bytes < ALONE_BYTES ? 1 : n_threads);
  self->ledger = llm_ledger_ref (ledger);
  return self;
}

guint64
llm_draft_model_get_bytes (LlmDraftModel *self)
{
  return self->weights->bytes;
}

LlmDraftModel *
llm_draft_model_ref (LlmDraftModel *self)
{
  return g_atomic_rc_box_acquire (self);
}

void
llm_draft_model_unref (LlmDraftModel *self)
{
  g_atomic_rc_box_release_full (self, draft_model_clear);
}

gboolean
llm_draft_model_check (LlmDraftModel *self,
                       LlmModel      *target,
                       GError       **error)
{
  LlmTokenizer *own = llm_model_get_tokenizer (self->model);
  LlmTokenizer *other = llm_model_get_tokenizer (target);
  g_autoptr(GString) own_text = g_string_new (NULL), other_text = g_string_new (NULL);

  if (own->n_tokens != other->n_tokens || own->eos != other->eos)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "The draft model has %u tokens and ends answers with %d, the model %u and %d: "
                     "use a draft with the model's vocabulary",
                     own->n_tokens, own->eos, other->n_tokens, other->eos);
  for (gint32 id = 0; (guint) id < own->n_tokens; id++)
    {
      g_string_truncate (own_text, 0);
      g_string_truncate (other_text, 0);
      llm_tokenizer_decode_token (own, id, TRUE, own_text);
      llm_tokenizer_decode_token (other, id, TRUE, other_text);
      if (!g_string_equal (own_text, other_text)
          || llm_tokenizer_is_control (own, id) != llm_tokenizer_is_control (other, id))
        return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                         "Token %d of the draft model is another one than the model's: use a draft "
                         "with the model's vocabulary", id);
    }
  return TRUE;
}

/* --- a source --- */

typedef struct
{
  LlmDraftSource parent;
  LlmDraftModel *model;     /* (owned) */
  LlmForward *forward;      /* (owned) */
  LlmKvStore *store;        /* (nullable) (owned): NULL when the model's heads can't have one */
  LlmKvSeq *seq;            /* (nullable) (owned) */
  GArray *text;             /* of the text, with K and V; those of guesses follow */
  guint n_done;             /* of it, with K and V; behind them are those of guesses */
  guint n_nodes;            /* of the tree, computed */
  guint nodes[LLM_TREE_MAX_NODES];     /* node of the growth that each of them is */
  guint64 paths[LLM_GROWTH_MAX_NODES]; /* by node of the growth: bits of computed nodes; 0: not
                                        * computed */
} ModelSource;

static void
accept_token (LlmDraftSource *source,
              gint32          token)
{
  g_array_append_val (((ModelSource *) source)->text, token);
}

static void
begin (LlmDraftSource *source,
       const gint32   *prompt,
       guint           n_prompt)
{
  ModelSource *self = (ModelSource *) source;

  if (source->record != NULL)
    source->step_us = source->record->step_us;
  g_array_append_vals (self->text, prompt, n_prompt);
  if (self->store != NULL)
    self->seq = llm_kv_seq_new (self->store, NULL, NULL);
}

/* Computes one step with rows that follow what the sequence has. Unless it is READY, the rows are
 * removed again. */
static LlmStatus
run_step (ModelSource  *self,
          const LlmRow *rows,
          guint         n)
{
  const LlmBatch batch = { rows, n, &self->seq, 1 };
  g_autoptr(GError) error = NULL;
  guint length = self->seq->length;
  gint64 begin_us = llm_clock_now_us ();
  LlmStatus status = LLM_FAILED;

  if (llm_kv_seq_append (self->seq, n, &error)
      && llm_forward_begin (self->forward, &batch, &error))
    {
      status = llm_forward_resume (self->forward, &error);
      if (status == LLM_PENDING)
        llm_forward_abandon (self->forward);
    }
  if (status != LLM_READY)
    llm_kv_seq_truncate (self->seq, length);
  if (error != NULL)
    g_message ("A step of the draft model failed; answers stay as they are without its guesses, each of "
               "which the model checks: %s", error->message);
  else if (n > 1)
    {
      double us = (double) (llm_clock_now_us () - begin_us);

      self->parent.text_us += us;
      if (self->parent.record != NULL)
        self->parent.record->text_us = us / n;
    }
  else
    {
      double us = (double) (llm_clock_now_us () - begin_us);

      self->parent.spent_us += us;
      self->parent.step_us = llm_draft_usual_time (self->parent.step_us, us);
      if (self->parent.record != NULL)
        self->parent.record->step_us = self->parent.step_us;
    }
  return status;
}

/* Computes the text up to its end. PENDING while some of it is left. */
static LlmStatus
run_text (ModelSource *self)
{
  guint n = MIN (self->text->len - self->n_done, MAX_ROWS);
  gboolean is_last = self->n_done + n == self->text->len;
  LlmRow rows[MAX_ROWS];
  LlmStatus status;

  llm_kv_seq_truncate (self->seq, self->n_done);
  self->n_nodes = 0;
  memset (self->paths, 0, sizeof self->paths);
  for (guint i = 0; i < n; i++)
    rows[i] = (LlmRow) {
      .token = g_array_index (self->text, gint32, self->n_done + i),
      .position = self->n_done + i,
      .slot = self->n_done + i,
      .sub_model = 100,
      .wants_logits = is_last && i + 1 == n,
    };
  status = run_step (self, rows, n);
  if (status != LLM_READY)
    return status;
  self->n_done += n;
  return is_last ? LLM_READY : LLM_PENDING;
}

static LlmStatus
run_node (ModelSource          *self,
          const LlmDraftGrowth *growth,
          guint                 number)
{
  const LlmGrowthNode *node = &growth->nodes[number];
  guint64 path = (node->parent > 0 ? self->paths[node->parent] : 0)
                 | G_GUINT64_CONSTANT (1) << self->n_nodes;
  LlmRow row = {
    .token = node->token,
    .position = self->n_done + node->depth - 1,
    .slot = self->n_done + self->n_nodes,
    .sub_model = 100,
    .wants_logits = TRUE,
  };
  LlmStatus status;

  row.visibility = (LlmVisibility) {
    .kind = LLM_VISIBLE_TREE, .base = self->n_done, .ancestors = path
  };
  status = run_step (self, &row, 1);
  if (status == LLM_READY)
    {
      self->paths[number] = path;
      self->nodes[self->n_nodes++] = number;
    }
  return status;
}

/* K and V of the nodes on the path to @node become the text's; those below it stay after them. If
 * @node itself was not computed, its path ends with its parent. */
static void
keep (LlmDraftSource       *source,
      const LlmDraftGrowth *growth,
      guint                 node,
      const guint          *numbers)
{
  ModelSource *self = (ModelSource *) source;
  guint last = self->paths[node] != 0 ? node : growth->nodes[node].parent;
  guint64 path = last > 0 ? self->paths[last] : 0;
  guint n_path = (guint) __builtin_popcountll (path), n = 0;
  guint slots[LLM_TREE_MAX_NODES], nodes[LLM_TREE_MAX_NODES];
  guint64 paths[LLM_GROWTH_MAX_NODES] = { 0 };

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

/* The likeliest tokens by the softmax of @logits. */
static guint
find_candidates (const float       *logits,
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

static LlmStatus
expand (LlmDraftSource       *source,
        const LlmDraftGrowth *growth,
        guint                 node,
        LlmDraftCandidate    *candidates,
        guint                *n)
{
  ModelSource *self = (ModelSource *) source;
  const LlmHparams *hparams = llm_model_get_hparams (self->model->model);
  LlmStatus status;
  guint row = 0;

  *n = 0;
  if (self->seq == NULL || self->text->len + LLM_TREE_MAX_NODES > hparams->n_ctx
      || (node > 0 ? self->n_nodes == LLM_TREE_MAX_NODES : self->n_done == self->text->len))
    return LLM_READY;
  if (node == 0)
    {
      row = MIN (self->text->len - self->n_done, MAX_ROWS) - 1;
      status = run_text (self);
    }
  else
    status = run_node (self, growth, node);
  if (status == LLM_READY)
    *n = find_candidates (llm_forward_get_logits (self->forward, row), hparams->n_vocab,
                          candidates);
  return status;
}

static void
source_free (LlmDraftSource *source)
{
  ModelSource *self = (ModelSource *) source;

  llm_forward_free (self->forward);
  g_clear_pointer (&self->seq, llm_kv_seq_free);
  g_clear_pointer (&self->store, llm_kv_store_free);
  g_array_unref (self->text);
  llm_draft_model_unref (self->model);
  g_free (self);
}

LlmDraftSource *
llm_draft_model_new_source (LlmDraftModel *self)
{
  static const LlmDraftSourceClass class = {
    .begin = begin,
    .accept = accept_token,
    .keep = keep,
    .expand = expand,
    .free = source_free,
  };
  ModelSource *source = g_new0 (ModelSource, 1);
  LlmKvLayer layers[LLM_MAX_LAYERS];
  const LlmKvLayout layout = llm_forward_get_layout (llm_model_get_hparams (self->model), LLK_KV_F16,
                                                     CHUNK_SLOTS, layers);

  source->parent = (LlmDraftSource) { .class = &class };
  source->model = llm_draft_model_ref (self);
  source->forward = llm_forward_new (self->plan, self->pool, self->ledger);
  source->store = llm_kv_store_new (&layout, NULL, self->ledger, NULL);
  source->text = g_array_new (FALSE, FALSE, sizeof (gint32));
  return &source->parent;
}
