/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "w8/llm-backend-q8.h"

#include <math.h>
#include <string.h>

#include "backends/llm-w8-form.h"
#include "model/llm-w8-site.h"

#define BLOCK 32

typedef struct
{
  LlmBackend parent;
  LlmBackend *cpu;           /* (owned) */
  const LlkOps *kernels;
  guint n_layers;
  LlmWeightView *views;      /* (owned) [n_layers × LLM_N_OPS]: in panels, whose data is owned; none
                              * yet where that is NULL */
  guint64 bytes;
} Q8Backend;

static gboolean
can_run (LlmBackend       *backend,
         const LlmOpShape *shape)
{
  return shape->kind == LLM_BACKEND_PRODUCT && llm_w8_kind_of (shape->op) != LLM_W8_N_KINDS
         && shape->n_in % BLOCK == 0;
}

static gconstpointer
prepare (LlmBackend       *backend,
         const LlmOpShape *shape,
         GError          **error)
{
  return backend;
}

static void
quantize_block (const LlkOps *kernels,
                const float  *w,
                guint8       *block)
{
  float largest = 0, scale;
  guint16 half;

  for (guint i = 0; i < BLOCK; i++)
    largest = MAX (largest, fabsf (w[i]));
  scale = largest / 127;
  kernels->vector->f32_to_f16 (&scale, &half, 1);
  memcpy (block, &half, sizeof half);
  for (guint i = 0; i < BLOCK; i++)
    block[sizeof half + i] = (guint8) (gint8) (scale > 0 ? lrintf (w[i] / scale) : 0);
}

static void
make_view (Q8Backend           *self,
           const LlmWeightView *view,
           LlmWeightView       *made)
{
  gsize row_bytes = view->in_count / BLOCK * llk_type_block_bytes (LLK_Q8_0);
  gsize panel_bytes = llk_panel_bytes (LLK_Q8_0, 0, view->in_count);
  gsize n_panels = (view->out_count + LLK_PANEL_OUTPUTS - 1) / LLK_PANEL_OUTPUTS;
  g_autofree guint8 *rows = g_malloc (view->out_count * row_bytes);
  g_autofree float *row = g_new (float, view->in_count);
  guint8 *panels = g_aligned_alloc (n_panels, panel_bytes, LLK_PANEL_ALIGNMENT);

  for (guint o = 0; o < view->out_count; o++)
    {
      llm_w8_read_output (self->kernels, view, o, row);
      for (guint i = 0; i < view->in_count; i += BLOCK)
        quantize_block (self->kernels, row + i,
                        rows + o * row_bytes + i / BLOCK * llk_type_block_bytes (LLK_Q8_0));
    }
  for (gsize p = 0; p < n_panels; p++)
    llk_panel_pack (LLK_Q8_0, rows, row_bytes, view->in_count, view->out_count,
                    p * LLK_PANEL_OUTPUTS, 0, view->in_count, panels + p * panel_bytes);
  *made = *view;
  made->data = panels;
  made->type = LLK_Q8_0;
  made->layout = LLM_LAYOUT_PANELS;
  self->bytes += n_panels * panel_bytes;
}

static gboolean
submit (LlmBackend   *backend,
        LlmOp *const *ops,
        guint         n_ops,
        GError      **error)
{
  Q8Backend *self = (Q8Backend *) backend;

  for (guint i = 0; i < n_ops; i++)
    {
      LlmOp op = *ops[i], *one = &op;
      LlmWeightView *view = &self->views[op.shape.layer * LLM_N_OPS + op.shape.op];

      if (op.product.n_pieces != 1)
        g_error ("Only whole models are compared");
      if (view->data == NULL)
        make_view (self, &op.product.pieces[0], view);
      op.product.pieces = view;
      if (!self->cpu->class->submit (self->cpu, &one, 1, error))
        return FALSE;
      ops[i]->status = op.status;
    }
  return TRUE;
}

static LlmStatus
poll_op (LlmBackend *backend,
         LlmOp      *op,
         GError    **error)
{
  return op->status;
}

static void
cancel (LlmBackend *backend,
        LlmOp      *op)
{
}

static double
get_cost_us (LlmBackend       *backend,
             const LlmOpShape *shape)
{
  Q8Backend *self = (Q8Backend *) backend;

  return self->cpu->class->cost_us (self->cpu, shape) / 2;
}

static guint64
get_bytes (LlmBackend *backend)
{
  return ((Q8Backend *) backend)->bytes;
}

static void
free_backend (LlmBackend *backend)
{
  Q8Backend *self = (Q8Backend *) backend;

  for (gsize i = 0; i < (gsize) self->n_layers * LLM_N_OPS; i++)
    g_aligned_free ((gpointer) self->views[i].data);
  g_free (self->views);
  llm_backend_free (self->cpu);
  g_free (self);
}

static const LlmBackendClass q8_class = {
  .can_run = can_run,
  .prepare = prepare,
  .submit = submit,
  .poll = poll_op,
  .cancel = cancel,
  .cost_us = get_cost_us,
  .bytes = get_bytes,
  .free = free_backend,
};

LlmBackend *
llm_backend_q8_new (const LlkOps     *kernels,
                    const LlmHparams *hparams)
{
  Q8Backend *self = g_new0 (Q8Backend, 1);

  self->parent = (LlmBackend) { .class = &q8_class, .name = "Q8_0" };
  self->cpu = llm_backend_cpu_new (kernels);
  self->kernels = kernels;
  self->n_layers = hparams->n_layers;
  self->views = g_new0 (LlmWeightView, (gsize) hparams->n_layers * LLM_N_OPS);
  return &self->parent;
}
