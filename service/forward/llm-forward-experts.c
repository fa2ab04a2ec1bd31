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
  LlmForward *self;
  guint n_rows;
  guint rows[LLM_BATCH_MAX_ROWS];
  float shares[LLM_BATCH_MAX_ROWS];
} ExpertWork;

/* The largest of @values that is not chosen yet, the first of equal ones. NaN is
 * never larger, and is chosen when nothing else is left. */
static guint
find_next (const LlmHparams      *h,
           const float           *values,
           const LlmExpertChoice *chosen,
           guint                  n_chosen)
{
  guint best = h->n_experts;

  for (guint i = 0; i < h->n_experts; i++)
    {
      gboolean is_free = TRUE;

      for (guint j = 0; j < n_chosen; j++)
        is_free = is_free && chosen[j].expert != i;
      if (is_free && (best == h->n_experts || values[i] > values[best]))
        best = i;
    }
  return best;
}

/* Shares are the softmax over the chosen. */
static void
choose_rows (guint    first,
             guint    end,
             guint    worker,
             gpointer data)
{
  LlmForward *self = data;
  const LlmHparams *h = self->hparams;

  for (guint r = first; r < end; r++)
    {
      const float *values = self->scratch.routed + (gsize) r * h->n_experts;
      LlmExpertChoice *chosen = self->scratch.experts + (gsize) r * h->n_used_experts;
      float sum = 0;

      for (guint i = 0; i < h->n_used_experts; i++)
        {
          chosen[i].expert = find_next (h, values, chosen, i);
          chosen[i].share = expf (values[chosen[i].expert] - values[chosen[0].expert]);
          sum += chosen[i].share;
        }
      for (guint i = 0; i < h->n_used_experts; i++)
        chosen[i].share /= sum;
    }
}

void
llm_forward_choose_experts (LlmForward *self)
{
  const LlmHparams *h = self->hparams;

  llm_worker_pool_run (self->pool, self->batch->n_rows,
                       llm_forward_get_grain (h->n_experts * h->n_used_experts * 4), choose_rows,
                       self);
}

/* One expert's part of weights that hold those of all. */
static LlmWeightView
cut_expert (const LlmWeightView *all,
            guint                expert,
            guint                n_out)
{
  LlmWeightView view = *all;
  gsize first = (gsize) expert * n_out;
  gsize bytes = all->layout == LLM_LAYOUT_PANELS
                  ? first / LLK_PANEL_OUTPUTS * llk_panel_bytes (all->type, all->in_count)
                  : first * all->row_bytes;

  view.data = (const guint8 *) all->data + bytes;
  view.out_count = n_out;
  return view;
}

/* Finds the rows of an expert; @n_kinds counts them by kind. */
static void
collect_rows (ExpertWork *work,
              guint       expert,
              guint       n_kinds[LLK_N_ROW_KINDS])
{
  LlmForward *self = work->self;
  guint n_used = self->hparams->n_used_experts;

  work->n_rows = 0;
  memset (n_kinds, 0, LLK_N_ROW_KINDS * sizeof *n_kinds);
  for (guint r = 0; r < self->batch->n_rows; r++)
    for (guint i = 0; i < n_used; i++)
      {
        const LlmExpertChoice *choice = &self->scratch.experts[(gsize) r * n_used + i];

        if (choice->expert != expert)
          continue;
        work->rows[work->n_rows] = r;
        work->shares[work->n_rows++] = choice->share;
        n_kinds[llm_forward_get_row (self, r)->kind]++;
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
      const float *given = work->self->scratch.given + i * n_embd;

      for (gsize j = 0; j < n_embd; j++)
        x[j] += work->shares[i] * given[j];
    }
}

static void
run_expert (ExpertWork *work,
            guint       expert)
{
  static const float *const no_bias[2] = { NULL, NULL };
  LlmForward *self = work->self;
  const LlmHparams *h = self->hparams;
  guint grain = llm_forward_get_grain (h->n_embd);
  LlmWeightView gate = cut_expert (&self->held[0], expert, h->n_ff);
  LlmWeightView up = cut_expert (&self->held[1], expert, h->n_ff);
  LlmWeightView down = cut_expert (&self->held[2], expert, h->n_embd);
  LlmProduct input[] = {
    { .view = &gate, .y = self->scratch.gate, .y_stride = h->n_ff },
    { .view = &up, .y = self->scratch.up, .y_stride = h->n_ff },
  };
  LlmProduct output = { .view = &down, .y = self->scratch.given, .y_stride = h->n_embd };
  LlmRows rows = { .values = self->scratch.gathered, .stride = h->n_embd };

  collect_rows (work, expert, output.n_rows);
  if (work->n_rows == 0)
    return;

  memcpy (input[0].n_rows, output.n_rows, sizeof output.n_rows);
  memcpy (input[1].n_rows, output.n_rows, sizeof output.n_rows);
  for (guint kind = 1; kind < LLK_N_ROW_KINDS; kind++)
    rows.first[kind] = rows.first[kind - 1] + output.n_rows[kind - 1];

  llm_worker_pool_run (self->pool, work->n_rows, grain, gather_rows, work);
  llm_forward_multiply_rows (self, &rows, input, G_N_ELEMENTS (input));
  llm_forward_gate (self, work->n_rows, no_bias);
  rows.values = self->scratch.gate;
  rows.stride = h->n_ff;
  llm_forward_multiply_rows (self, &rows, &output, 1);
  llm_worker_pool_run (self->pool, work->n_rows, grain, scatter_rows, work);
}

void
llm_forward_run_experts (LlmForward *self)
{
  ExpertWork work = { .self = self };

  for (guint expert = 0; expert < self->hparams->n_experts; expert++)
    run_expert (&work, expert);
}
