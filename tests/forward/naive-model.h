/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The transformer again, in double and with no cleverness: what the forward pass
 * is compared with. One pass over a whole sequence, no cache. One thread.
 */

#pragma once

#include "kernels/llk.h"
#include "model/architectures/llm-sub-models.h"
#include "model/llm-thresholds.h"

G_BEGIN_DECLS

typedef struct _NaiveModel NaiveModel;

/* Whether the row sees the other one. */
typedef gboolean (*NaiveSees) (guint    row,
                               guint    other,
                               gpointer data);

typedef struct
{
  const gint32 *tokens;
  const guint *positions;
  guint n_rows;
  NaiveSees sees;
  gpointer data;
  const LlmSubModels *sub_models;   /* (nullable): NULL for the whole model */
  guint level;           /* of them: no other heads and channels than its own are there */
  const LlmThresholds *thresholds;  /* (nullable) */
  const guint8 *sparsities;         /* by row: percent, 0 for a dense one */
  double *given;         /* (nullable): [n_rows × n_rows], of each row the share of attention that it
                          * gave to each, averaged over heads and layers */
  guint attention_bits;  /* queries, keys, values and weights of attention are rounded to so many; 0:
                          * not at all */
  GArray *inputs;        /* (nullable): of double, gets the magnitudes of sparse rows that are
                          * compared with the threshold of the next two */
  guint inputs_layer;
  LlmInput inputs_kind;
} NaiveRun;

NaiveModel *naive_model_new  (LlmGguf          *gguf,
                              const LlmHparams *hparams);
void        naive_model_free (NaiveModel       *self);
/* @logits: [n_rows × n_vocab]. @received (nullable): [n_rows], the share of attention
 * that each row's slot got from all rows, averaged over heads and layers. */
void        naive_model_run  (NaiveModel       *self,
                              const NaiveRun   *run,
                              double           *logits,
                              double           *received);

/* How far logits that @kernels compute in floats may be from @expected, those of @run. Logits of about
 * ±10 round by less than 1e-4. Where attention is on tiles, what it multiplies has 17 bits: eight times
 * what such rounding changes here, where other values are rounded up and down, is added. */
double      naive_model_get_tolerance (NaiveModel     *self,
                                       const NaiveRun *run,
                                       const LlkOps   *kernels,
                                       const double   *expected);

gboolean    naive_sees_causal (guint            row,
                               guint            other,
                               gpointer         data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (NaiveModel, naive_model_free)

G_END_DECLS
