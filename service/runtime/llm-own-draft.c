/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "runtime/llm-own-draft.h"

#include "runtime/llm-draft-rows.h"

typedef struct
{
  LlmDraftRows rows;        /* its sequence is a branch of the session's, (owned) */
  LlmInstance *instance;    /* (nullable) (unowned): NULL: it has no guesses */
  LlmSession *session;      /* (unowned) */
  LlmWorkerPool *pool;      /* (unowned) */
  guint n_text;             /* tokens of the text, slid ones included */
  gint32 last;              /* of them: its K and V are not computed yet */
} OwnSource;

void
llm_own_draft_bind (LlmDraftSource *source,
                    LlmInstance    *instance,
                    LlmSession     *session,
                    guint           sub_model,
                    LlmWorkerPool  *pool)
{
  OwnSource *self = (OwnSource *) source;
  const LlmSubModels *table = instance->weights->sub_models;

  if (table->percent[0] >= sub_model)
    return;
  self->instance = instance;
  self->session = session;
  self->pool = pool;
  self->rows.sub_model = table->percent[0];
}

static void
begin (LlmDraftSource *source,
       const gint32   *prompt,
       guint           n_prompt)
{
  OwnSource *self = (OwnSource *) source;

  if (source->record != NULL)
    source->step_us = source->record->step_us;
  self->n_text = n_prompt;
}

static void
accept_token (LlmDraftSource *source,
              gint32          token)
{
  OwnSource *self = (OwnSource *) source;

  self->n_text++;
  self->last = token;
}

static void
drop_branch (OwnSource *self)
{
  llm_draft_rows_forget (&self->rows);
  g_clear_pointer (&self->rows.seq, llm_kv_seq_free);
}

/* The chunks of the session may be evicted now, and the instance may go. */
static void
release (LlmDraftSource *source)
{
  OwnSource *self = (OwnSource *) source;

  drop_branch (self);
  g_clear_pointer (&self->rows.forward, llm_forward_free);
}

/* Computes the last token of the text behind the K and V that the model has computed of the others; rows
 * of a step that is under way are not among them. */
static LlmStatus
run_root (OwnSource *self)
{
  const LlmKvSeq *text = self->session->seq;
  guint n = self->n_text - 1 - text->n_slid;
  LlmStatus status;
  LlmRow row = {
    .token = self->last,
    .position = n + text->n_slid,
    .slot = n,
    .sub_model = self->rows.sub_model,
    .wants_logits = TRUE,
  };

  drop_branch (self);
  if (self->rows.forward == NULL)
    self->rows.forward = llm_forward_new (self->instance->plan, self->pool,
                                          self->instance->config.ledger);
  self->rows.seq = llm_kv_seq_branch (self->session->seq, n);
  self->rows.n_done = n;
  status = llm_draft_rows_run (&self->rows, &row, 1);
  if (status == LLM_READY)
    self->rows.n_done++;
  return status;
}

static LlmStatus
expand (LlmDraftSource       *source,
        const LlmDraftGrowth *growth,
        guint                 node,
        LlmDraftCandidate    *candidates,
        guint                *n)
{
  OwnSource *self = (OwnSource *) source;
  LlmStatus status;

  *n = 0;
  if (self->instance == NULL || !llm_weights_level_stays (self->instance->weights, 0)
      || self->n_text + LLM_TREE_MAX_NODES > self->instance->hparams->n_ctx
      || (node > 0 && (self->rows.seq == NULL || self->rows.n_nodes == LLM_TREE_MAX_NODES)))
    return LLM_READY;
  status = node == 0 ? run_root (self) : llm_draft_rows_run_node (&self->rows, growth, node);
  if (status == LLM_READY)
    *n = llm_draft_rows_find_best (llm_forward_get_logits (self->rows.forward, 0),
                                   self->instance->hparams->n_vocab, candidates);
  return status;
}

static void
source_free (LlmDraftSource *source)
{
  OwnSource *self = (OwnSource *) source;

  g_assert (self->rows.seq == NULL && self->rows.forward == NULL);
  g_free (self);
}

LlmDraftSource *
llm_own_draft_new (void)
{
  static const LlmDraftSourceClass class = {
    .begin = begin,
    .accept = accept_token,
    .keep = llm_draft_rows_keep,
    .expand = expand,
    .release = release,
    .free = source_free,
  };
  OwnSource *source = g_new0 (OwnSource, 1);

  source->rows.parent = (LlmDraftSource) { .class = &class };
  return &source->rows.parent;
}
