/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-exec"

#include "runtime/llm-draft-model.h"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "runtime/llm-draft-rows.h"

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
  LlmDraftRows rows;
  LlmDraftModel *model;     /* (owned) */
  LlmKvStore *store;        /* (nullable) (owned): NULL when the model's heads can't have one */
  GArray *text;             /* of the text, with K and V; those of guesses follow */
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
    self->rows.seq = llm_kv_seq_new (self->store, NULL, NULL);
}

/* Computes the text up to its end. PENDING while some of it is left. */
static LlmStatus
run_text (ModelSource *self)
{
  guint n_done = self->rows.n_done;
  guint n = MIN (self->text->len - n_done, MAX_ROWS);
  gboolean is_last = n_done + n == self->text->len;
  LlmRow rows[MAX_ROWS];
  LlmStatus status;

  llm_draft_rows_forget (&self->rows);
  llm_kv_seq_truncate (self->rows.seq, n_done);
  for (guint i = 0; i < n; i++)
    rows[i] = (LlmRow) {
      .token = g_array_index (self->text, gint32, n_done + i),
      .position = n_done + i,
      .slot = n_done + i,
      .sub_model = self->rows.sub_model,
      .wants_logits = is_last && i + 1 == n,
    };
  status = llm_draft_rows_run (&self->rows, rows, n);
  if (status != LLM_READY)
    return status;
  self->rows.n_done += n;
  return is_last ? LLM_READY : LLM_PENDING;
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
  if (self->rows.seq == NULL || self->text->len + LLM_TREE_MAX_NODES > hparams->n_ctx
      || (node > 0 ? self->rows.n_nodes == LLM_TREE_MAX_NODES : self->rows.n_done == self->text->len))
    return LLM_READY;
  if (node == 0)
    {
      row = MIN (self->text->len - self->rows.n_done, MAX_ROWS) - 1;
      status = run_text (self);
    }
  else
    status = llm_draft_rows_run_node (&self->rows, growth, node);
  if (status == LLM_READY)
    *n = llm_draft_rows_find_best (llm_forward_get_logits (self->rows.forward, row),
                                   hparams->n_vocab, candidates);
  return status;
}

static void
source_free (LlmDraftSource *source)
{
  ModelSource *self = (ModelSource *) source;

  llm_draft_rows_forget (&self->rows);
  llm_forward_free (self->rows.forward);
  g_clear_pointer (&self->rows.seq, llm_kv_seq_free);
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
    .keep = llm_draft_rows_keep,
    .expand = expand,
    .free = source_free,
  };
  ModelSource *source = g_new0 (ModelSource, 1);
  LlmKvLayer layers[LLM_MAX_LAYERS];
  const LlmKvLayout layout = llm_forward_get_layout (llm_model_get_hparams (self->model), LLK_KV_F16,
                                                     CHUNK_SLOTS, layers);

  source->rows.parent = (LlmDraftSource) { .class = &class };
  source->rows.sub_model = 100;
  source->model = llm_draft_model_ref (self);
  source->rows.forward = llm_forward_new (self->plan, self->pool, self->ledger);
  source->store = llm_kv_store_new (&layout, NULL, self->ledger, NULL);
  source->text = g_array_new (FALSE, FALSE, sizeof (gint32));
  return &source->rows.parent;
}
