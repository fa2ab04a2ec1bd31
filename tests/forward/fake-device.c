/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "fake-device.h"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"

typedef struct
{
  LlmBackend parent;
  LlmBackend *cpu;       /* (owned) */
  FakeConfig config;
  FakeCounts *counts;
  GPtrArray *waiting;    /* (element-type LlmOp), of (unowned): in the order of submission */
  guint n_begun;         /* all that were ever submitted; the fence of the last */
  guint last_done;       /* fence */
  GArray *shapes;        /* (element-type LlmOpShape) (owned): for which something was made */
  gboolean is_gone;
} FakeDevice;

static gboolean
can_run (LlmBackend       *backend,
         const LlmOpShape *shape)
{
  FakeDevice *self = (FakeDevice *) backend;

  return shape->kind == LLM_BACKEND_PRODUCT
         || (shape->kind == LLM_BACKEND_ATTENTION && !self->config.refuses_attention);
}

/* What is made is the same for every layer. */
static gboolean
has_shape (FakeDevice       *self,
           const LlmOpShape *shape)
{
  LlmOpShape wanted = *shape;

  for (guint i = 0; i < self->shapes->len; i++)
    {
      const LlmOpShape *has = &g_array_index (self->shapes, LlmOpShape, i);

      wanted.op = has->op;
      wanted.layer = has->layer;
      if (memcmp (has, &wanted, sizeof wanted) == 0)
        return TRUE;
    }
  return FALSE;
}

static gconstpointer
prepare (LlmBackend       *backend,
         const LlmOpShape *shape,
         GError          **error)
{
  FakeDevice *self = (FakeDevice *) backend;

  g_assert_cmpuint (shape->n_in, >, 0);
  g_assert_cmpuint (shape->n_out, >, 0);
  g_assert_cmpuint (shape->n_rows, >, 0);
  if (self->is_gone)
    llm_fail (error, LLMSVC_ERROR_FAILED, "it was unplugged");
  else if (!has_shape (self, shape))
    g_array_append_val (self->shapes, *shape);
  return self->is_gone ? NULL : self;
}

static void
count (FakeCounts  *counts,
       const LlmOp *op)
{
  const LlmProduct *product = &op->product;
  const LlmAttention *attention = &op->attention;

  counts->n_submitted++;
  if (op->shape.kind == LLM_BACKEND_PRODUCT)
    for (guint i = 0; i < product->n_pieces; i++)
      counts->n_products += (guint64) product->pieces[i].in_count * product->pieces[i].out_count
                            * product->n_rows[i];
  else
    for (guint i = 0; i < attention->n_rows; i++)
      counts->n_queries += attention->n_groups[i] * attention->n_heads / attention->n_kv_heads;
}

/* What it would have written is anything; what it would have added to is left alone. */
static void
spoil (const LlmOp *op)
{
  for (guint i = 0; op->shape.kind == LLM_BACKEND_PRODUCT && i < op->product.n_pieces; i++)
    for (guint r = 0; !op->product.is_added && r < op->product.n_rows[i]; r++)
      for (guint o = 0; o < op->product.pieces[i].out_count; o++)
        op->product.y[r * op->product.y_stride + op->product.pieces[i].out_first + o] = NAN;
}

static void
finish (FakeDevice *self,
        LlmOp      *op)
{
  g_assert_true (self->cpu->class->submit (self->cpu, &op, 1, NULL));
  g_assert_cmpint (op->status, ==, LLM_READY);
  self->counts->n_done++;
  self->counts->n_overtaken += op->fence < self->last_done;
  self->last_done = (guint) op->fence;
}

static gboolean
submit (LlmBackend   *backend,
        LlmOp *const *ops,
        guint         n_ops,
        GError      **error)
{
  FakeDevice *self = (FakeDevice *) backend;

  self->counts->n_refused += backend->is_lost;
  self->is_gone = self->is_gone || (self->config.refused_at > 0
                                    && self->n_begun + n_ops >= self->config.refused_at);
  if (self->is_gone)
    return llm_fail (error, LLMSVC_ERROR_FAILED, "it was unplugged");
  for (guint i = 0; i < n_ops; i++)
    {
      g_assert_true (ops[i]->backend == backend && ops[i]->prepared == self);
      count (self->counts, ops[i]);
      ops[i]->fence = ++self->n_begun;
      if (self->config.n_polls == 0)
        finish (self, ops[i]);
      else
        {
          ops[i]->status = LLM_PENDING;
          spoil (ops[i]);
          g_ptr_array_add (self->waiting, ops[i]);
        }
    }
  return TRUE;
}

/* Polls that an operation has seen are kept in the upper half of its fence. */
static LlmStatus
poll_op (LlmBackend *backend,
         LlmOp      *op,
         GError    **error)
{
  FakeDevice *self = (FakeDevice *) backend;
  guint number = (guint32) op->fence;

  if (!g_ptr_array_find (self->waiting, op, NULL))
    return op->status;
  if (self->config.lost_at > 0 && number >= self->config.lost_at)
    self->is_gone = TRUE;
  if (self->is_gone || number == self->config.fails_at)
    {
      g_ptr_array_remove (self->waiting, op);
      llm_fail (error, LLMSVC_ERROR_FAILED, self->is_gone ? "it was unplugged"
                                                          : "it is out of memory");
      return LLM_FAILED;
    }
  op->fence += G_GUINT64_CONSTANT (1) << 32;
  if (op->fence >> 32 < self->config.n_polls
      || (self->config.is_reversed
          && g_ptr_array_index (self->waiting, self->waiting->len - 1) != op))
    return LLM_PENDING;
  op->fence = number;
  g_ptr_array_remove (self->waiting, op);
  finish (self, op);
  return LLM_READY;
}

static void
cancel (LlmBackend *backend,
        LlmOp      *op)
{
  FakeDevice *self = (FakeDevice *) backend;

  g_assert_true (g_ptr_array_remove (self->waiting, op));
  self->counts->n_cancelled++;
}

static double
get_cost_us (LlmBackend       *backend,
             const LlmOpShape *shape)
{
  FakeDevice *self = (FakeDevice *) backend;
  double cost_us = self->cpu->class->cost_us (self->cpu, shape);

  g_assert_cmpfloat (cost_us, >, 0);
  return self->config.is_costly ? 2 * cost_us : cost_us / 2;
}

static guint64
get_bytes (LlmBackend *backend)
{
  FakeDevice *self = (FakeDevice *) backend;

  return self->shapes->len * self->config.shape_bytes;
}

static void
free_device (LlmBackend *backend)
{
  FakeDevice *self = (FakeDevice *) backend;

  g_assert_cmpuint (self->waiting->len, ==, 0);
  llm_backend_free (self->cpu);
  g_ptr_array_unref (self->waiting);
  g_array_unref (self->shapes);
  g_free (self);
}

static const LlmBackendClass fake_class = {
  .can_run = can_run,
  .prepare = prepare,
  .submit = submit,
  .poll = poll_op,
  .cancel = cancel,
  .cost_us = get_cost_us,
  .bytes = get_bytes,
  .free = free_device,
};

LlmBackend *
fake_device_new (const LlkOps     *kernels,
                 const FakeConfig *config,
                 FakeCounts       *counts)
{
  FakeDevice *self = g_new0 (FakeDevice, 1);

  self->parent = (LlmBackend) {
    .class = &fake_class, .name = "Fake NPU", .has_cpu_bits = config->has_cpu_bits,
  };
  self->cpu = llm_backend_cpu_new (kernels);
  self->config = *config;
  self->counts = counts;
  self->waiting = g_ptr_array_new ();
  self->shapes = g_array_new (FALSE, FALSE, sizeof (LlmOpShape));
  return &self->parent;
}
