/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What a model needs to have its prompts computed in W8A8: the scales of its activations at each
 * site, which channels are hot, and what it costs in accuracy, as `llmsvc-tool calibrate` measures
 * it and its companion has it. Untrusted, as the file is. Immutable; any thread.
 */

#pragma once

#include "gguf/llm-gguf-writer.h"
#include "model/llm-w8-site.h"

/* Of all keys in a companion. */
#define LLM_CALIBRATION_PREFIX "llmsvc.prefill."
/* What prompts may lose without being asked for: perplexity grows by 1 % at most, and so much
 * divergence from the exact model in nats, on a text that calibration did not see. */
#define LLM_CALIBRATION_MAX_GROWTH 0.01
#define LLM_CALIBRATION_MAX_DIVERGENCE 0.007

/* Measured on another text than the scales. */
typedef struct
{
  double exact_nll;        /* mean negative log-likelihood of a token */
  double nll;
  double divergence;       /* mean, in nats */
  double shadow_share;     /* products of floats beside those of 8 bits */
  guint64 n_scored;        /* tokens */
} LlmCalibrationLoss;

typedef struct
{
  guint n_sites;
  LlmW8Site *sites;        /* (owned) [n_layers × LLM_W8_N_KINDS] */
  guint16 **hot;           /* (owned) [n_sites]: (nullable) (owned): what the sites have */
  LlmCalibrationLoss loss;
} LlmCalibration;

/* Of a model: sites without scales. */
LlmCalibration *llm_calibration_new    (const LlmHparams     *hparams);
/* (nullable): of the companion @gguf; NULL without @error where it has none. Fails with
 * INVALID_MODEL where it is none of a model of @hparams. */
LlmCalibration *llm_calibration_read   (LlmGguf              *gguf,
                                        const LlmHparams     *hparams,
                                        GError              **error) G_GNUC_WARN_UNUSED_RESULT;
void            llm_calibration_write  (const LlmCalibration *self,
                                        const LlmHparams     *hparams,
                                        LlmGgufWriter        *to);
void            llm_calibration_free   (LlmCalibration       *self);

/* 0.01: perplexity is larger by 1 %. */
double          llm_calibration_get_growth (const LlmCalibration *self);
/* Whether prompts may be computed so without being asked for. */
gboolean        llm_calibration_is_near (const LlmCalibration *self);
/* Of all that changes what rows compute. */
guint64         llm_calibration_hash   (const LlmCalibration *self,
                                        const LlmHparams     *hparams);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmCalibration, llm_calibration_free)
