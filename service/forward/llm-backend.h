/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What computes products and attention: the CPU (llm-backend-cpu.c), or a
 * device that finishes later, in any order, and may fail or disappear. The step
 * hands operations over and polls; the stage that they belong to waits. The
 * executor's thread calls all of it.
 */

#pragma once

#include "base/llm-status.h"
#include "forward/llm-attention.h"
#include "forward/llm-matmul.h"
#include "memory/llm-ledger.h"

typedef enum
{
  LLM_BACKEND_PRODUCT,
  LLM_BACKEND_ATTENTION,
  LLM_BACKEND_GATED,       /* two products and their gate: what comes of it stays with the backend, for
                            * the product behind, which is its next. Only asked of one that has not the
                            * CPU's bits: the CPU could not take over between the two */
  LLM_BACKEND_ADAPTERS,    /* what they add to a product that a device may have computed */
} LlmBackendKind;

/* What is known of an operation before its rows' values are. */
typedef struct
{
  LlmBackendKind kind;
  LlkType type;            /* of a product's weights */
  LlmWeightLayout layout;  /* likewise */
  guint n_in;              /* inputs of all pieces; of attention, values of a row's queries */
  guint n_out;             /* likewise; of attention, values of a row's keys */
  guint n_rows;
  LlmOperator op;          /* of a product with a matrix of the model; LLM_N_OPS for others */
  guint layer;             /* likewise */
} LlmOpShape;

typedef struct _LlmBackend LlmBackend;

/* One operation that was handed over. It, and all that it points to, stays as it is until poll()
 * says READY or FAILED, or cancel() returned; what it writes holds anything until READY. */
typedef struct
{
  LlmOpShape shape;
  LlmRows rows;            /* of a product; values NULL: what the backend kept of the gated one */
  LlmProduct product;      /* likewise, of a device's without adapters; of gated ones the gate's, which
                            * writes nothing; of adapters, these alone */
  LlmProduct up;           /* of gated ones: the other */
  gboolean is_gelu;        /* likewise: else SiLU */
  LlmAttention attention;
  const LlmHost *host;     /* threads and scratch memory for a backend that computes here, within
                            * submit() or poll() only */

  LlmBackend *backend;     /* (unowned): which one has it */
  gconstpointer prepared;  /* (unowned): by that one, for the shape */
  LlmStatus status;        /* READY: what it writes is there */
  guint64 fence;           /* the backend's own */
} LlmOp;

typedef struct
{
  /* Only kinds that it knows: there may be new ones. */
  gboolean      (*can_run) (LlmBackend       *self,
                            const LlmOpShape *shape);
  /* What can be made once for all operations of a shape: kept by the backend, which finds it
   * again. NULL with @error set. */
  gconstpointer (*prepare) (LlmBackend       *self,
                            const LlmOpShape *shape,
                            GError          **error);
  /* Takes operations that don't depend on each other, or none of them. Sets the status of each:
   * READY where it is done already. */
  gboolean      (*submit)  (LlmBackend       *self,
                            LlmOp *const     *ops,
                            guint             n_ops,
                            GError          **error);
  /* How far one is: READY, PENDING or FAILED. An operation that FAILED and adds to what was there
   * has added nothing. */
  LlmStatus     (*poll)    (LlmBackend       *self,
                            LlmOp            *op,
                            GError          **error);
  /* Returns when the operation touches nothing any more. */
  void          (*cancel)  (LlmBackend       *self,
                            LlmOp            *op);
  /* Estimate of an operation's time, with what it takes to get the rows there and back. */
  double        (*cost_us) (LlmBackend       *self,
                            const LlmOpShape *shape);
  /* Memory that it holds: of what was prepared. */
  guint64       (*bytes)   (LlmBackend       *self);
  void          (*free)    (LlmBackend       *self);
} LlmBackendClass;

/* What every backend starts with. */
struct _LlmBackend
{
  const LlmBackendClass *class;
  const char *name;        /* for people */
  gboolean has_cpu_bits;   /* its results are the CPU's, bit for bit: the CPU may take over in the
                            * middle of a step */
  gboolean is_lost;        /* it failed: nothing more is given to it */

  LlmLedger *ledger;       /* (nullable) (owned): of the first step that used it */
  guint64 counted_bytes;   /* there */
};

/* Everything, at once, in submit(). @kernels: (unowned). */
LlmBackend *llm_backend_cpu_new (const LlkOps *kernels);
void        llm_backend_free    (LlmBackend   *self);
/* Counts what it holds now as scratch memory in @ledger (nullable), always the same one, until it
 * is freed. */
void        llm_backend_count   (LlmBackend   *self,
                                 LlmLedger    *ledger);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmBackend, llm_backend_free)
