/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "dispatch/llm-paced.h"

#include <string.h>

/* What is made once for a shape. */
typedef struct
{
  LlmOpShape shape;
  GPtrArray *free;         /* (element-type Job) (owned): buffers that no operation uses */
} Prepared;

typedef struct
{
  Prepared *prepared;
  LlmOp *op;               /* (nullable) (unowned): NULL when cancelled */
  float *x;                /* (owned) [n_rows × n_in] */
  float *y;                /* (owned) [n_rows × n_out] */
  LlmProduct product;      /* that writes @y */
  double due_us;
  gboolean is_computed;
} Job;

typedef struct
{
  LlmBackend parent;
  LlmBackend *cpu;         /* (owned): computes, on the device's thread */
  const LlkOps *kernels;   /* (unowned) */
  LlmPacedConfig config;
  GPtrArray *shapes;       /* (element-type Prepared) (owned) */
  guint64 bytes;
  double free_us;          /* by its clock: when all that was submitted is done */

  GThread *thread;         /* (owned) */
  GMutex lock;             /* of all below */
  GCond changed;
  GQueue jobs;             /* (element-type Job): submitted, in order; those behind them wait */
  gboolean is_ending;
  LlmPacedFigures figures;
} PacedDevice;

static double
read_us (void)
{
  return (double) g_get_monotonic_time ();
}

/* --- its thread --- */

static void
compute (PacedDevice   *self,
         LlmWorkerPool *pool,
         Job           *job)
{
  const LlmOpShape *shape = &job->prepared->shape;
  gsize scratch_bytes = llm_matmul_get_scratch (self->kernels, shape->n_in, shape->n_rows);
  gsize row_bytes = llm_matmul_get_row_bytes (shape->n_in);
  g_autofree guint8 *scratch = g_malloc (scratch_bytes + 64);
  g_autofree guint8 *prepared = g_malloc (row_bytes * shape->n_rows + 64);
  const LlmHost host = {
    .pool = pool,
    .scratch = (guint8 *) (((guintptr) scratch + 63) / 64 * 64),
    .scratch_bytes = scratch_bytes,
    .prepared = (guint8 *) (((guintptr) prepared + 63) / 64 * 64),
    .row_bytes = row_bytes,
  };
  LlmOp op = {
    .shape = *shape, .rows = { job->x, shape->n_in }, .product = job->product, .host = &host,
  };
  LlmOp *const ops[] = { &op };

  (void) self->cpu->class->submit (self->cpu, ops, 1, NULL);
}

static Job *
find_uncomputed (PacedDevice *self)
{
  for (GList *l = self->jobs.head; l != NULL; l = l->next)
    {
      Job *job = l->data;

      if (!job->is_computed)
        return job;
    }
  return NULL;
}

static gpointer
run (gpointer data)
{
  PacedDevice *self = data;
  g_autoptr (LlmWorkerPool) pool = llm_worker_pool_new (1);

  g_mutex_lock (&self->lock);
  while (!self->is_ending)
    {
      Job *job = find_uncomputed (self);

      if (job == NULL)
        {
          g_cond_wait (&self->changed, &self->lock);
          continue;
        }
      g_mutex_unlock (&self->lock);
      compute (self, pool, job);
      g_mutex_lock (&self->lock);
      job->is_computed = TRUE;
      self->figures.n_late += read_us () > job->due_us;
      g_cond_broadcast (&self->changed);
    }
  g_mutex_unlock (&self->lock);
  return NULL;
}

/* --- the backend --- */

static gboolean
can_run (LlmBackend       *backend,
         const LlmOpShape *shape)
{
  return shape->kind == LLM_BACKEND_PRODUCT
         && shape->n_rows == ((PacedDevice *) backend)->config.n_rows;
}

static void
free_job (Job *job)
{
  g_free (job->x);
  g_free (job->y);
  g_free (job);
}

static void
free_prepared (Prepared *prepared)
{
  g_ptr_array_unref (prepared->free);
  g_free (prepared);
}

static void
add_job (PacedDevice *self,
         Prepared    *prepared)
{
  const LlmOpShape *shape = &prepared->shape;
  Job *job = g_new0 (Job, 1);

  job->prepared = prepared;
  job->x = g_new (float, (gsize) shape->n_rows * shape->n_in);
  job->y = g_new (float, (gsize) shape->n_rows * shape->n_out);
  self->bytes += (guint64) shape->n_rows * (shape->n_in + shape->n_out) * sizeof (float);
  self->figures.n_prepared++;
  g_ptr_array_add (prepared->free, job);
}

static gconstpointer
prepare (LlmBackend       *backend,
         const LlmOpShape *shape,
         GError          **error)
{
  PacedDevice *self = (PacedDevice *) backend;
  Prepared *prepared;

  for (guint i = 0; i < self->shapes->len; i++)
    {
      prepared = g_ptr_array_index (self->shapes, i);
      if (memcmp (&prepared->shape, shape, sizeof *shape) == 0)
        return prepared;
    }
  prepared = g_new0 (Prepared, 1);
  prepared->shape = *shape;
  prepared->free = g_ptr_array_new_with_free_func ((GDestroyNotify) free_job);
  add_job (self, prepared);
  g_ptr_array_add (self->shapes, prepared);
  return prepared;
}

static void
copy_rows (float       *to,
           gsize        to_stride,
           const float *from,
           gsize        from_stride,
           guint        n_rows,
           guint        n)
{
  for (guint r = 0; r < n_rows; r++)
    memcpy (to + r * to_stride, from + r * from_stride, n * sizeof (float));
}

static double
get_time_us (PacedDevice      *self,
             const LlmOpShape *shape)
{
  return self->config.submission_us
         + (double) shape->n_in * shape->n_out * shape->n_rows / self->config.operations_per_us;
}

static Job *
begin (PacedDevice *self,
       LlmOp       *op)
{
  Prepared *prepared = (Prepared *) op->prepared;
  const LlmOpShape *shape = &op->shape;
  double now_us = read_us ();
  Job *job;

  if (prepared->free->len == 0)
    add_job (self, prepared);
  job = g_ptr_array_steal_index_fast (prepared->free, prepared->free->len - 1);
  job->op = op;
  job->is_computed = FALSE;
  copy_rows (job->x, shape->n_in, op->rows.values, op->rows.stride, shape->n_rows, shape->n_in);
  /* what is added to, or not written by a piece, is there, too */
  copy_rows (job->y, shape->n_out, op->product.y, op->product.y_stride, shape->n_rows,
             shape->n_out);
  job->product = op->product;
  job->product.y = job->y;
  job->product.y_stride = shape->n_out;
  job->due_us = MAX (now_us, self->free_us) + get_time_us (self, shape);
  self->figures.busy_us += get_time_us (self, shape);
  self->free_us = job->due_us;
  return job;
}

static gboolean
submit (LlmBackend   *backend,
        LlmOp *const *ops,
        guint         n_ops,
        GError      **error)
{
  PacedDevice *self = (PacedDevice *) backend;

  g_mutex_lock (&self->lock);
  for (guint i = 0; i < n_ops; i++)
    {
      ops[i]->status = LLM_PENDING;
      g_queue_push_tail (&self->jobs, begin (self, ops[i]));
    }
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  return TRUE;
}

static Job *
find_job (PacedDevice *self,
          const LlmOp *op)
{
  for (GList *l = self->jobs.head; l != NULL; l = l->next)
    {
      Job *job = l->data;

      if (job->op == op)
        return job;
    }
  return NULL;
}

static void
end (PacedDevice *self,
     Job         *job)
{
  g_queue_remove (&self->jobs, job);
  job->op = NULL;
  g_ptr_array_add (job->prepared->free, job);
}

static LlmStatus
poll_op (LlmBackend *backend,
         LlmOp      *op,
         GError    **error)
{
  PacedDevice *self = (PacedDevice *) backend;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  Job *job = find_job (self, op);

  if (job == NULL)
    return op->status;
  if (!job->is_computed || read_us () < job->due_us)
    return LLM_PENDING;
  copy_rows (op->product.y, op->product.y_stride, job->y, op->shape.n_out, op->shape.n_rows,
             op->shape.n_out);
  self->figures.n_done++;
  end (self, job);
  return LLM_READY;
}

static void
cancel (LlmBackend *backend,
        LlmOp      *op)
{
  PacedDevice *self = (PacedDevice *) backend;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  Job *job = find_job (self, op);

  while (!job->is_computed)
    g_cond_wait (&self->changed, &self->lock);
  end (self, job);
}

static double
get_cost_us (LlmBackend       *backend,
             const LlmOpShape *shape)
{
  return get_time_us ((PacedDevice *) backend, shape);
}

static guint64
get_bytes (LlmBackend *backend)
{
  return ((PacedDevice *) backend)->bytes;
}

static void
free_device (LlmBackend *backend)
{
  PacedDevice *self = (PacedDevice *) backend;

  g_mutex_lock (&self->lock);
  g_assert (g_queue_is_empty (&self->jobs));
  self->is_ending = TRUE;
  g_cond_broadcast (&self->changed);
  g_mutex_unlock (&self->lock);
  g_thread_join (self->thread);
  llm_backend_free (self->cpu);
  g_ptr_array_unref (self->shapes);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->changed);
  g_free (self);
}

static const LlmBackendClass paced_class = {
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
llm_paced_new (const LlkOps         *kernels,
               const LlmPacedConfig *config)
{
  PacedDevice *self = g_new0 (PacedDevice, 1);

  self->parent = (LlmBackend) {
    .class = &paced_class, .name = "paced device", .has_cpu_bits = TRUE,
  };
  self->cpu = llm_backend_cpu_new (kernels);
  self->kernels = kernels;
  self->config = *config;
  self->shapes = g_ptr_array_new_with_free_func ((GDestroyNotify) free_prepared);
  g_mutex_init (&self->lock);
  g_cond_init (&self->changed);
  g_queue_init (&self->jobs);
  self->thread = g_thread_new ("paced-device", run, self);
  return &self->parent;
}

void
llm_paced_wait (LlmBackend *backend)
{
  PacedDevice *self = (PacedDevice *) backend;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);
  Job *job = g_queue_peek_head (&self->jobs);

  if (job == NULL)
    return;
  while (!job->is_computed)
    g_cond_wait (&self->changed, &self->lock);
  while (read_us () < job->due_us)
    g_cond_wait_until (&self->changed, &self->lock, (gint64) job->due_us);
}

LlmPacedFigures
llm_paced_get_figures (LlmBackend *backend)
{
  PacedDevice *self = (PacedDevice *) backend;
  g_autoptr (GMutexLocker) locker = g_mutex_locker_new (&self->lock);

  return self->figures;
}
