/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A device for tests: the CPU, but it finishes later, in another order, fails,
 * or disappears. What it did not finish holds nonsense. One thread.
 */

#pragma once

#include "forward/llm-backend.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_polls;         /* before an operation is done; 0: it is when submit() returns */
  gboolean is_reversed;  /* operations are done in the reverse order of their submission */
  guint fails_at;        /* number of the operation that fails when it is polled, from 1; 0: none */
  guint lost_at;         /* of the one that the device disappears with: all calls fail from then on */
  guint refused_at;      /* of the first that it does not take any more: it disappears */
  gboolean refuses_attention;
  gboolean is_costly;    /* more than the CPU */
  gboolean has_cpu_bits;
  guint64 shape_bytes;   /* that it holds for each shape of operations */
} FakeConfig;

typedef struct
{
  guint n_submitted;
  guint n_done;
  guint n_cancelled;
  guint n_overtaken;     /* done when one submitted later was done already */
  guint n_refused;       /* calls after it failed, which should not be */
  guint64 n_products;    /* multiplications in products */
  guint64 n_queries;     /* heads of rows in attention */
} FakeCounts;

/* @kernels, @counts: (unowned). */
LlmBackend *fake_device_new (const LlkOps     *kernels,
                             const FakeConfig *config,
                             FakeCounts       *counts);

G_END_DECLS
