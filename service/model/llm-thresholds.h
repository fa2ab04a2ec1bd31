/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Activation thresholds of a model (A1), as llmsvc-active(1) calibrates them and its companion has
 * them: a row of some sparsity leaves out each input of a product whose magnitude is below that of
 * the layer and the products. So what a row computes depends on the row alone, not on which weights
 * are in memory. Untrusted, as the file is. Immutable; any thread.
 */

#pragma once

#include "model/architectures/llm-operator.h"

/* Percent of the layers' weights that a row leaves out, at most; and how many such figures. */
#define LLM_MAX_SPARSITY 80
#define LLM_MAX_SPARSITIES 8

/* What is the input of which products. */
typedef enum
{
  LLM_INPUT_NONE,
  LLM_INPUT_ATTENTION,      /* QUERY, KEY, VALUE */
  LLM_INPUT_ATTENTION_OUT,
  LLM_INPUT_FFN,            /* FFN_GATE, FFN_UP */
  LLM_INPUT_FFN_DOWN,
} LlmInput;

#define LLM_N_INPUTS 4

/* That of the operator, NONE for others. */
static inline LlmInput
llm_input_of (LlmOperator op)
{
  switch (op)
    {
    case LLM_OP_QUERY:
    case LLM_OP_KEY:
    case LLM_OP_VALUE:
      return LLM_INPUT_ATTENTION;
    case LLM_OP_ATTENTION_OUT:
      return LLM_INPUT_ATTENTION_OUT;
    case LLM_OP_FFN_GATE:
    case LLM_OP_FFN_UP:
      return LLM_INPUT_FFN;
    case LLM_OP_FFN_DOWN:
      return LLM_INPUT_FFN_DOWN;
    default:
      return LLM_INPUT_NONE;
    }
}

typedef struct
{
  guint n_sparsities;                                /* at least 1 */
  guint8 percent[LLM_MAX_SPARSITIES];                /* rising, from 1 to LLM_MAX_SPARSITY */
  float kept[LLM_MAX_SPARSITIES][LLM_N_INPUTS];      /* the part of the inputs that calibration
                                                      * found active, from 0 to 1 */
  float losses[LLM_MAX_SPARSITIES];                  /* what it measured with all rows so: mean
                                                      * negative log-likelihood of a token */
  float dense_loss;                                  /* the same without thresholds */
  guint n_layers;
  float *values;                                     /* (owned) [n_sparsities × n_layers ×
                                                      * N_INPUTS] */
} LlmThresholds;

/* (nullable): of the companion @gguf; NULL without @error where it has none. Fails with
 * INVALID_MODEL where they are none of a model of @hparams, and with UNSUPPORTED for one with
 * experts. */
LlmThresholds *llm_thresholds_read (LlmGguf             *gguf,
                                    const LlmHparams    *hparams,
                                    GError             **error) G_GNUC_WARN_UNUSED_RESULT;
void           llm_thresholds_free (LlmThresholds       *self);

/* The largest sparsity that is not above @percent; 0 where all are. */
guint          llm_thresholds_choose (const LlmThresholds *self,
                                    guint                percent);
/* The place of the sparsity @percent; n_sparsities when it is unknown. */
guint          llm_thresholds_find (const LlmThresholds *self,
                                    guint                percent);
/* Of all that changes what rows compute. */
guint64        llm_thresholds_hash (const LlmThresholds *self);

/* (transfer floating): the sparsity at @place as a dictionary: “active”; “growth”, of perplexity, in
 * percent; and what inputs keep, in percent. */
GVariant      *llm_thresholds_describe (const LlmThresholds *self,
                                    guint                place);

static inline float
llm_thresholds_get (const LlmThresholds *self,
                    guint                place,
                    guint                layer,
                    LlmInput             input)
{
  return self->values[((gsize) place * self->n_layers + layer) * LLM_N_INPUTS + input - 1];
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmThresholds, llm_thresholds_free)
