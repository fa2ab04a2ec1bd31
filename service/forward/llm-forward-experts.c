/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Mixtures of experts: each row goes through some of many feed-forward
 * networks, those that a product says most for, and takes of each according to
 * that. Experts come one after the other, each with all rows that chose it; so a
 * row's sum is in the order of its experts, whatever other rows choose.
 */

#include "forward/llm-forward-private.h"

#include <math.h>
#include <string.h>

/* The rows of one expert, in their order in the step. */
typedef struct
{
  LlmStep *self;
  guint n_rows;
  guint rows[LLM_BATCH_MAX_ROWS];
  float shares[LLM_BATCH_MAX_ROWS];
  const float *down_bias;   /* (nullable) */
} ExpertWork;

/* Of shares that are made to be 1 together: a row that no expert is for gets next to nothing. */
#define LEAST_SUM 6.103515625e-5f

/* Of all experts, (nullable) each. */
static const LlmOperator bias_ops[LLM_STAGE_MAX_VECTORS] = {
  LLM_OP_EXPERT_GATE_BIAS, LLM_OP_EXPERT_UP_BIAS, LLM_OP_EXPERT_DOWN_BIAS
};

/* The largest of @values that is not chosen yet, the first of equal ones. NaN is never larger, and
 * is chosen when no other value remains. */
static guint
find_next (const LlmHparams      *h,
           const float           *values,
           const LlmExpertChoice *chosen,
           guint                  n_chosen)
{
  guint best = h->experts.n;

  for (guint i = 0; i < h->experts.n; i++)
    {
      gboolean is_free = TRUE;

      for (guint j = 0; j < n_chosen; j++)
        is_free = is_free && chosen[j].expert != i;
      if (is_free && (best == h->experts.n || values[i] > values[best]))
        best = i;
    }
  return best;
}

typedef struct
{
  LlmStep *self;
  const float *bias;     /* (nullable) */
} ChoiceWork;

/* What a row's experts are chosen by and what each counts are the same, or differ by the bias.
 * @parts: [n_experts], the latter. */
static void
score (const LlmHparams *h,
       const float      *bias,
       float            *values,
       float            *parts)
{
  float max = values[0], sum = 0;

  for (guint i = 1; i < h->experts.n; i++)
    max = MAX (max, values[i]);
  for (guint i = 0; i < h->experts.n; i++)
    {
      parts[i] = h->experts.score == LLM_EXPERT_SIGMOID ? 1 / (1 + expf (-values[i]))
                                                       : expf (values[i] - max);
      sum += parts[i];
    }
  for (guint i = 0; i < h->experts.n; i++)
    {
      if (h->experts.score == LLM_EXPERT_SOFTMAX)
        parts[i] /= sum;
      values[i] = parts[i] + (bias != NULL ? bias[i] : 0);
    }
}

static void
choose_by_score (const LlmHparams *h,
                 const float      *bias,
                 float            *values,
                 float            *parts,
                 LlmExpertChoice  *chosen)
{
  float sum = 0;

  score (h, bias, values, parts);
  for (guint i = 0; i < h->experts.n_used; i++)
    {
      chosen[i].expert = find_next (h, values, chosen, i);
      chosen[i].share = parts[chosen[i].expert];
      sum += chosen[i].share;
    }
  for (guint i = 0; i < h->experts.n_used; i++)
    chosen[i].share = chosen[i].share / (h->experts.has_sum ? MAX (sum, LEAST_SUM) : 1)
                      * h->experts.scale;
}

/* Whether shares are the softmax over the chosen, which is that over all with the others left
 * out. */
static gboolean
has_plain_choice (const LlmHparams *h)
{
  return h->experts.score == LLM_EXPERT_SOFTMAX && h->experts.has_sum && !h->experts.has_choice_bias
         && h->experts.scale == 1;
}

static void
choose_rows (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  const ChoiceWork *work = data;
  LlmStep *self = work->self;
  const LlmHparams *h = self->hparams;
  g_autofree float *parts = has_plain_choice (h) ? NULL : g_new (float, h->experts.n);

  for (guint r = first; r < end; r++)
    {
      float *values = self->scratch.routed + (gsize) r * h->experts.n;
      LlmExpertChoice *chosen = self->scratch.experts + (gsize) r * h->experts.n_used;
      float sum = 0;

      if (parts != NULL)
        {
          choose_by_score (h, work->bias, values, parts, chosen);
          continue;
        }
      if (work->bias != NULL)
        self->kernels->vector->add (values, work->bias, h->experts.n);
      for (guint i = 0; i < h->experts.n_used; i++)
        {
          chosen[i].expert = find_next (h, values, chosen, i);
          chosen[i].share = expf (values[chosen[i].expert] - values[chosen[0].expert]);
          sum += chosen[i].share;
        }
      for (guint i = 0; i < h->experts.n_used; i++)
        chosen[i].share /= sum;
    }
}

void
llm_forward_choose_experts (LlmStep            *self,
                            const float *const *bias)
{
  const LlmHparams *h = self->hparams;
  ChoiceWork work = { self, bias[0] };

  llm_worker_pool_run (self->pool, self->batch->n_rows,
                       llm_step_get_grain (h->experts.n * h->experts.n_used * 4), choose_rows,
                       &work);
}

static void
collect_rows (ExpertWork *work,
              guint       expert)
{
  LlmStep *self = work->self;
  guint n_used = self->hparams->experts.n_used;

  work->n_rows = 0;
  for (guint r = 0; r < self->batch->n_rows; r++)
    for (guint i = 0; i < n_used; i++)
      {
        const LlmExpertChoice *choice = &self->scratch.experts[(gsize) r * n_used + i];

        if (choice->expert != expert)
          continue;
        work->rows[work->n_rows] = r;
        work->shares[work->n_rows++] = choice->share;
      }
}

static void
gather_rows (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  const ExpertWork *work = data;
  gsize n_embd = work->self->hparams->n_embd;

  for (guint i = first; i < end; i++)
    memcpy (work->self->scratch.gathered + i * n_embd,
            work->self->scratch.normed + work->rows[i] * n_embd, n_embd * sizeof (float));
}

static void
scatter_rows (guint    first,
              guint    end,
              guint    worker,
              gpointer data)
{
  const ExpertWork *work = data;
  gsize n_embd = work->self->hparams->n_embd;

  for (guint i = first; i < end; i++)
    {
      float *x = work->self->scratch.x + work->rows[i] * n_embd;
      float *given = work->self->scratch.given + i * n_embd;

      if (work->down_bias != NULL)
        work->self->kernels->vector->add (given, work->down_bias, n_embd);
      for (gsize j = 0; j < n_embd; j++)
        x[j] += work->shares[i] * given[j];
    }
}

/* The expert's part of the stage's operator @op, times @x. */
static void
add_product (ExpertWork  *work,
             guint        expert,
             guint        op,
             const float *x,
             guint        n_in,
             float       *y,
             guint        n_out)
{
  LlmStep *self = work->self;
  /* behind the views that are held: one is enough, as the products of a phase are of different
   * operators */
  LlmWeightView *view = &self->hold->views[3 + (op < 2 ? op : 0)];
  const LlmRows rows = { x, n_in };
  const LlmProduct product = {
    .pieces = view,
    .n_rows = &self->n_expert_rows,
    .n_pieces = 1,
    .y = y,
    .y_stride = n_out,
  };

  *view = self->hold->takes_experts ? self->hold->views[op]
                                    : llm_step_cut_view (&self->hold->views[op], expert, n_out);
  self->n_expert_rows = work->n_rows;
  llm_step_add_product (self, LLM_N_OPS, &rows, work->n_rows, &product);
}

/* --- where they come one by one --- */

gboolean
llm_forward_take_experts (LlmStep  *self,
                          gboolean  is_early)
{
  const LlmHparams *h = self->hparams;
  g_autofree guint *n_rows = g_new0 (guint, h->experts.n);

  for (guint i = 0; !is_early && i < self->batch->n_rows * h->experts.n_used; i++)
    n_rows[self->scratch.experts[i].expert]++;
  if (!llm_weights_choose_experts (self->weights, self->layer, is_early ? NULL : n_rows))
    return FALSE;
  self->hold->takes_experts = !is_early;
  return TRUE;
}

static LlmStatus
hold_expert (LlmStep   *self,
             guint      expert,
             GError   **error)
{
  LlmHold *hold = self->hold;
  LlmStatus status;

  if (!hold->takes_experts)
    return LLM_READY;
  status = llm_weights_acquire_expert (self->weights, self->layer, expert, hold->views, error);
  if (status == LLM_READY)
    hold->n_views = hold->node->n_ops;
  return status;
}

static void
release_expert (LlmStep *self)
{
  LlmHold *hold = self->hold;

  if (!hold->takes_experts)
    return;
  for (guint i = 0; i < hold->n_views; i++)
    llm_weights_release (self->weights, &hold->views[i]);
  hold->n_views = 0;
}

/* --- the stage --- */

/* (nullable): the expert's part of a bias. */
static const float *
get_bias (LlmStep *self,
          guint    place,
          guint    expert,
          guint    n)
{
  const float *bias = self->hold->vectors[place].data;

  return bias != NULL ? bias + (gsize) expert * n : NULL;
}

/* Each expert has three phases: its inputs are multiplied, then its outputs, then what they make of
 * the rows is added. */
LlmStatus
llm_forward_run_experts (LlmStep         *self,
                         const LlmStage  *stage,
                         GError         **error)
{
  const LlmHparams *h = self->hparams;
  LlmScratch *s = &self->scratch;
  guint grain = llm_step_get_grain (h->n_embd);
  guint n_ff = llm_step_get_layer (self)->n_expert_ff;
  ExpertWork work = { .self = self };

  for (guint i = 0; i < LLM_STAGE_MAX_VECTORS; i++)
    {
      LlmStatus status = llm_step_hold_vector (self, bias_ops[i], i, error);

      if (status != LLM_READY)
        return status;
    }
  for (guint phase = self->hold->phase; phase < 3 * h->experts.n; self->hold->phase = ++phase)
    {
      guint expert = phase / 3;
      LlmStatus status;

      collect_rows (&work, expert);
      if (work.n_rows == 0)
        continue;
      switch (phase % 3)
        {
        case 0:
          status = hold_expert (self, expert, error);
          if (status != LLM_READY)
            return status;
          llm_worker_pool_run (self->pool, work.n_rows, grain, gather_rows, &work);
          add_product (&work, expert, 0, s->gathered, h->n_embd, s->gate, n_ff);
          add_product (&work, expert, 1, s->gathered, h->n_embd, s->up, n_ff);
          return llm_step_submit (self, error);
        case 1:
          llm_forward_gate (self, work.n_rows, n_ff, FALSE,
                            (const float *[]) { get_bias (self, 0, expert, n_ff),
                                                get_bias (self, 1, expert, n_ff) });
          add_product (&work, expert, 2, s->gate, n_ff, s->given, h->n_embd);
          return llm_step_submit (self, error);
        default:
          work.down_bias = get_bias (self, 2, expert, h->n_embd);
          llm_worker_pool_run (self->pool, work.n_rows, grain, scatter_rows, &work);
          release_expert (self);
        }
    }
  return LLM_READY;
}
