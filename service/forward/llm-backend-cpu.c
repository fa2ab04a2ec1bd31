/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "forward/llm-backend.h"

/* Multiplications with additions that the CPU does in a microsecond, for estimates only: what a
 * machine really does is measured where a device is to be compared. */
#define OPERATIONS_PER_US 20000.0

typedef struct
{
  LlmBackend parent;
  const LlkOps *kernels;   /* (unowned) */
} CpuBackend;

static gboolean
can_run (LlmBackend       *self,
         const LlmOpShape *shape)
{
  return shape->kind != LLM_BACKEND_GATED;
}

/* The kernels that fit are found with each call. */
static gconstpointer
prepare (LlmBackend       *self,
         const LlmOpShape *shape,
         GError          **error)
{
  return ((CpuBackend *) self)->kernels;
}

/* Products go together: all workers have work until the last product ends. */
static gboolean
submit (LlmBackend   *self,
        LlmOp *const *ops,
        guint         n_ops,
        GError      **error)
{
  const LlkOps *kernels = ((CpuBackend *) self)->kernels;
  guint end;

  for (guint first = 0; first < n_ops; first = end)
    {
      const LlmProduct *products[LLM_MATMUL_MAX_PRODUCTS];
      const LlmRows *rows[LLM_MATMUL_MAX_PRODUCTS];
      guint n = 0;

      for (end = first; end < n_ops && n < LLM_MATMUL_MAX_PRODUCTS
                        && ops[end]->shape.kind != LLM_BACKEND_ATTENTION; end++)
        {
          rows[n] = &ops[end]->rows;
          products[n++] = &ops[end]->product;
        }
      if (n > 0)
        llm_matmul_run (kernels, ops[first]->host, rows, products, n);
      else
        llm_attention_run (&ops[end++]->attention);
    }
  for (guint i = 0; i < n_ops; i++)
    ops[i]->status = LLM_READY;
  return TRUE;
}

static LlmStatus
poll_op (LlmBackend *self,
         LlmOp      *op,
         GError    **error)
{
  return op->status;
}

static void
cancel (LlmBackend *self,
        LlmOp      *op)
{
}

static double
get_cost_us (LlmBackend       *self,
             const LlmOpShape *shape)
{
  return (double) shape->n_in * shape->n_out * shape->n_rows / OPERATIONS_PER_US;
}

static guint64
get_bytes (LlmBackend *self)
{
  return 0;
}

static const LlmBackendClass cpu_class = {
  .can_run = can_run,
  .prepare = prepare,
  .submit = submit,
  .poll = poll_op,
  .cancel = cancel,
  .cost_us = get_cost_us,
  .bytes = get_bytes,
  .free = (void (*) (LlmBackend *)) g_free,
};

LlmBackend *
llm_backend_cpu_new (const LlkOps *kernels)
{
  CpuBackend *self = g_new0 (CpuBackend, 1);

  self->parent = (LlmBackend) { .class = &cpu_class, .name = "CPU", .has_cpu_bits = TRUE };
  self->kernels = kernels;
  return &self->parent;
}
