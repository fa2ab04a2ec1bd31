/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a stage holds while it runs: views of weights, and the operations that
 * were handed to a backend. A device that fails is not asked again; where its
 * bits are the CPU's, the CPU does in its place what it failed at.
 */

#include "base/llm-fail.h"
#include "forward/llm-forward-private.h"

#include <string.h>

#include "common/llmsvc-error.h"

/* --- weights --- */

/* A provider's mistake must not become a read beyond its memory, or a product that lacks a part. */
static gboolean
check_view (LlmStep             *self,
            LlmOperator          op,
            guint                segment,
            const LlmWeightView *view,
            GError             **error)
{
  LlmSegmentShape shape = llm_sub_models_get_shape (self->sub_models, self->hparams, op, self->layer,
                                                    segment);
  gboolean is_empty = shape.in_count == 0 || shape.out_count == 0;
  gboolean is_right = view->out_first == shape.out_first && view->out_count == shape.out_count
                      && view->data != NULL;

  if (view->channels == NULL)
    is_right = is_right && view->in_first == shape.in_first && view->in_count == shape.in_count;
  else
    {
      is_right = is_right && view->layout == LLM_LAYOUT_ROWS && view->in_first == 0
                 && view->in_count <= shape.in_count;
      for (guint i = 0; is_right && i < view->in_count; i++)
        is_right = view->channels[i] >= shape.in_first
                   && view->channels[i] - shape.in_first < shape.in_count;
    }
  if (is_empty)
    is_right = view->in_count == 0 || view->out_count == 0;

  if (!is_right)
    llm_fail (error, LLMSVC_ERROR_FAILED,
              "The weights of operator %s, layer %u, segment %u, were given for %u inputs and %u "
              "outputs from %u and %u on%s; it has %u and %u from %u and %u on",
              llm_operator_get_name (op), self->layer, segment, view->in_count, view->out_count,
              view->in_first, view->out_first,
              view->channels != NULL && view->layout == LLM_LAYOUT_PANELS
                ? ", by channel but in panels" : "",
              shape.in_count, shape.out_count, shape.in_first, shape.out_first);
  return is_right;
}

LlmStatus
llm_step_hold (LlmStep  *self,
               gboolean  is_early,
               GError  **error)
{
  LlmHold *hold = self->hold;
  const LlmPlanNode *node = hold->node;
  const LlmStage *stage = node->stage;
  gboolean is_whole = stage->acquires != LLM_ACQUIRE_SEGMENTS;
  LlmActivation activation = { 0 };

  if (stage->acquires == LLM_ACQUIRE_EXPERTS && hold->n_views == 0 && !hold->takes_experts
      && llm_forward_take_experts (self, is_early))
    return LLM_READY;
  if (hold->takes_experts)
    return LLM_READY;
  if (!is_early && stage->acquires != LLM_ACQUIRE_VECTORS)
    {
      activation.values = llm_step_get_buffer (self, stage->x);
      activation.n_rows = llm_stage_is_exit (stage) ? self->rows.n_logits : self->batch->n_rows;
      activation.sparsity =
        stage->acquires == LLM_ACQUIRE_SEGMENTS ? self->rows.least_sparsity : 0;
    }
  hold->n_segments = is_whole ? 1 : self->rows.n_used_levels;
  while (hold->n_views < node->n_ops * hold->n_segments)
    {
      guint at = node->first_op + hold->n_views / hold->n_segments;
      LlmOperator op = stage->ops[at];
      guint segment = hold->n_views % hold->n_segments;
      LlmWeightView *view = &hold->views[hold->n_views];
      LlmStatus status;

      if ((node->used_ops & 1u << at) == 0)
        {
          view->data = NULL;
          hold->n_views++;
          continue;
        }
      memset (view, 0, sizeof *view);
      if (activation.sparsity > 0)
        {
          guint n_out;

          llm_operator_get_shape (self->hparams, op, self->layer, &activation.n_in, &n_out);
        }
      status = llm_weights_acquire (self->weights, op, self->layer, segment, &activation, view,
                                    error);
      if (status != LLM_READY)
        return status;

      hold->n_views++;
      if (!check_view (self, op, segment, view, error))
        return LLM_FAILED;
    }

  return LLM_READY;
}

LlmStatus
llm_step_hold_vector (LlmStep      *self,
                      LlmOperator   op,
                      guint         place,
                      GError      **error)
{
  const LlmActivation activation = { 0 };
  LlmHold *hold = self->hold;
  LlmWeightView *view = &hold->vectors[place];
  LlmStatus status = LLM_READY;

  g_assert (place < LLM_STAGE_MAX_VECTORS && place <= hold->n_vectors);
  if (place < hold->n_vectors)
    return LLM_READY;
  memset (view, 0, sizeof *view);
  if (llm_operator_is_in_layer (self->hparams, op, self->layer))
    status = llm_weights_acquire (self->weights, op, self->layer, 0, &activation, view, error);
  if (status != LLM_READY)
    return status;
  hold->n_vectors++;
  if (view->data != NULL && !check_view (self, op, 0, view, error))
    return LLM_FAILED;
  return LLM_READY;
}

LlmWeightView
llm_step_cut_view (const LlmWeightView *all,
                   guint                index,
                   guint                n_out)
{
  LlmWeightView view = *all;
  gsize first = (gsize) index * n_out;
  gsize bytes = all->layout == LLM_LAYOUT_PANELS
                  ? first / LLK_PANEL_OUTPUTS * llk_panel_bytes (all->type, 0, all->in_count)
                  : first * all->row_bytes;

  view.data = (const guint8 *) all->data + bytes;
  view.out_count = n_out;
  return view;
}

void
llm_step_release (LlmStep *self,
                  LlmHold *hold)
{
  for (guint i = 0; i < hold->n_ops; i++)
    if (hold->ops[i].status == LLM_PENDING)
      hold->ops[i].backend->class->cancel (hold->ops[i].backend, &hold->ops[i]);
  for (guint i = 0; i < hold->n_views; i++)
    if ((hold->node->used_ops & 1u << (hold->node->first_op + i / hold->n_segments)) != 0)
      llm_weights_release (self->weights, &hold->views[i]);
  for (guint i = 0; i < hold->n_vectors; i++)
    if (hold->vectors[i].data != NULL)
      llm_weights_release (self->weights, &hold->vectors[i]);
  if (hold->takes_experts)
    llm_weights_choose_experts (self->weights, hold->node->layer, NULL);
  hold->takes_experts = FALSE;
  hold->node = NULL;
  hold->n_views = hold->n_vectors = hold->n_ops = hold->phase = 0;
}

/* --- operations --- */

static LlmOp *
add_op (LlmHold *hold)
{
  LlmOp *op = &hold->ops[hold->n_ops++];

  g_assert (hold->n_ops <= LLM_STAGE_MAX_SUBMITTED);
  op->status = LLM_FAILED;   /* no backend has it */
  return op;
}

void
llm_step_add_product (LlmStep          *self,
                      LlmOperator       operator,
                      const LlmRows    *rows,
                      guint             n_rows,
                      const LlmProduct *product)
{
  LlmOp *op = add_op (self->hold);

  op->shape = (LlmOpShape) {
    .kind = LLM_BACKEND_PRODUCT,
    .type = product->pieces[0].type,
    .layout = product->pieces[0].layout,
    .n_rows = n_rows,
    .op = operator,
    .layer = self->layer,
  };
  for (guint i = 0; i < product->n_pieces; i++)
    {
      const LlmWeightView *view = &product->pieces[i];

      if (view->in_count == 0)
        continue;
      op->shape.n_in = MAX (op->shape.n_in, view->in_first + view->in_count);
      op->shape.n_out = MAX (op->shape.n_out, view->out_first + view->out_count);
    }
  op->rows = *rows;
  op->product = *product;
  op->host = &self->host;
}

void
llm_step_add_adapters (LlmStep          *self,
                       const LlmRows    *rows,
                       const LlmProduct *product)
{
  LlmOp *op = add_op (self->hold);

  op->shape = (LlmOpShape) { .kind = LLM_BACKEND_ADAPTERS, .op = LLM_N_OPS, .layer = self->layer };
  op->rows = *rows;
  op->product = *product;
  op->host = &self->host;
}

void
llm_step_gate_products (LlmStep *self,
                        gboolean is_gelu)
{
  LlmHold *hold = self->hold;
  LlmOp *op = &hold->ops[0];

  g_assert (hold->n_ops == 2);
  op->shape.kind = LLM_BACKEND_GATED;
  op->up = hold->ops[1].product;
  op->is_gelu = is_gelu;
  hold->n_ops = 1;
}

void
llm_step_add_attention (LlmStep            *self,
                        const LlmAttention *attention)
{
  LlmOp *op = add_op (self->hold);

  op->shape = (LlmOpShape) {
    .kind = LLM_BACKEND_ATTENTION,
    .n_in = attention->n_heads * attention->head_dim,
    .n_out = attention->n_kv_heads * attention->head_dim,
    .n_rows = attention->n_rows,
    .op = LLM_N_OPS,
    .layer = self->layer,
  };
  op->attention = *attention;
}

static LlmBackend *
choose_backend (LlmStep          *self,
                const LlmOpShape *shape)
{
  LlmBackend *cpu = self->plan->cpu, *device = llm_step_get_device (self);

  if (shape->kind == LLM_BACKEND_GATED)
    return device;
  /* the numbers are its own, whatever it costs */
  if (self->rows.is_w8)
    return device->class->can_run (device, shape) ? device : cpu;
  if (device == NULL || device->is_lost || !device->class->can_run (device, shape)
      || device->class->cost_us (device, shape) >= cpu->class->cost_us (cpu, shape))
    return cpu;
  return device;
}

static gboolean
give (LlmStep    *self,
      LlmBackend *backend,
      LlmOp     **ops,
      guint       n_ops,
      GError    **error)
{
  gboolean is_taken = TRUE;

  for (guint i = 0; i < n_ops; i++)
    {
      ops[i]->backend = backend;
      ops[i]->status = LLM_FAILED;
      if (is_taken)
        ops[i]->prepared = backend->class->prepare (backend, &ops[i]->shape, error);
      is_taken = is_taken && ops[i]->prepared != NULL;
    }
  is_taken = is_taken && backend->class->submit (backend, ops, n_ops, error);
  llm_backend_count (backend, self->ledger);
  if (backend != self->plan->cpu)
    self->n_of_device += n_ops;
  return is_taken;
}

/* The device failed at @ops: the CPU does them where that is the same; elsewhere that is an error,
 * and the next step runs without the device. */
static gboolean
take_over (LlmStep      *self,
           LlmOp       **ops,
           guint         n_ops,
           const GError *reason,
           GError      **error)
{
  LlmBackend *device = ops[0]->backend;
  gboolean is_news = !device->is_lost;

  device->is_lost = TRUE;
  if (!device->has_cpu_bits)
    return llm_fail (error, LLMSVC_ERROR_FAILED,
                     "The device %s failed: %s. It is not used any more: call again, and the "
                     "processor computes in its place", device->name, reason->message);

  if (is_news)
    g_message ("The device %s failed: %s. The processor computes in its place", device->name,
               reason->message);
  return give (self, self->plan->cpu, ops, n_ops, error);
}

/* The device first: it may work while the CPU does. */
LlmStatus
llm_step_submit (LlmStep *self,
                 GError **error)
{
  LlmHold *hold = self->hold;
  LlmOp *of_device[LLM_STAGE_MAX_SUBMITTED], *of_cpu[LLM_STAGE_MAX_SUBMITTED];
  guint n_device = 0, n_cpu = 0;
  g_autoptr(GError) reason = NULL;

  for (guint i = 0; i < hold->n_ops; i++)
    if (choose_backend (self, &hold->ops[i].shape) == self->plan->cpu)
      of_cpu[n_cpu++] = &hold->ops[i];
    else
      of_device[n_device++] = &hold->ops[i];

  hold->phase++;
  if (n_device > 0 && !give (self, llm_step_get_device (self), of_device, n_device, &reason)
      && !take_over (self, of_device, n_device, reason, error))
    return LLM_FAILED;
  if (n_cpu > 0 && !give (self, self->plan->cpu, of_cpu, n_cpu, error))
    return LLM_FAILED;
  return LLM_PENDING;
}

LlmStatus
llm_step_poll (LlmStep *self,
               GError **error)
{
  LlmHold *hold = self->hold;
  gboolean waits = FALSE;

  for (guint i = 0; i < hold->n_ops; i++)
    {
      LlmOp *op = &hold->ops[i];
      g_autoptr(GError) reason = NULL;

      if (op->status == LLM_PENDING)
        op->status = op->backend->class->poll (op->backend, op, &reason);
      if (op->status == LLM_FAILED && !take_over (self, &op, 1, reason, error))
        return LLM_FAILED;
      waits = waits || op->status == LLM_PENDING;
    }
  if (waits)
    return LLM_PENDING;
  hold->n_ops = 0;
  return LLM_READY;
}
