/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Models: where they are, which one is in use, and which sub-model answers. Main thread. */

#pragma once

#include "engine/llm-engine-private.h"

G_BEGIN_DECLS

/* llm-engine-folders.c */
/* Reads the folders, now or once more, and watches them. With a script no folder is read. */
void           llm_engine_models_start          (LlmEngine            *self);
void           llm_engine_models_stop           (LlmEngine            *self);
/* @models: (transfer full) (nullable): the known models; NULL while unknown */
void           llm_engine_take_models           (LlmEngine            *self,
                                                 GPtrArray            *models);

/* llm-engine-models.c */
/* Waits until a model is loaded, and loads one if needed. The result is the model, (transfer
 * full). */
void           llm_engine_await_model           (LlmEngine            *self,
                                                 GAsyncReadyCallback   callback,
                                                 gpointer              data);
/* Chooses the model in use once catalogue and index are known. */
void           llm_engine_models_settle         (LlmEngine            *self);
/* Unloads the model when no request runs; @done on the main thread with the bytes freed. */
void           llm_engine_unload                (LlmEngine            *self,
                                                 LlmReclaimDone        done,
                                                 gpointer              data);
void           llm_engine_fail_waiting          (LlmEngine            *self);
/* Whether contexts of a model can be quantized to @percent of their bytes with 8 bits (0: they are
 * not). Fails with INVALID_ARGUMENT. */
gboolean       llm_engine_check_ratio           (guint                 percent,
                                                 const LlmHparams     *hparams,
                                                 guint                 chunk_tokens,
                                                 GError              **error);

/* llm-engine-drafts.c */
/* Logs once the configured names that no model has. */
void           llm_engine_check_drafts          (LlmEngine            *self);
/* Begins to load the configured draft of the model in use, unless it is loaded or does not fit. */
void           llm_engine_load_draft            (LlmEngine            *self);
/* Returns the bytes that are freed, when the answers that use it have ended. */
guint64        llm_engine_drop_draft            (LlmEngine            *self);
guint64        llm_engine_get_draft_bytes       (LlmEngine            *self);
/* Registers the draft as reclaimable while no call runs. */
void           llm_engine_add_draft_reclaimer   (LlmEngine            *self);
/* Adds a draft to the request's decoder, if its call wants that. */
gboolean       llm_engine_add_draft             (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 GError              **error);

/* llm-engine-weights.c */
/* Registers the weights as reclaimable: pages first, then the model. */
void           llm_engine_add_weight_reclaimers (LlmEngine            *self);

/* llm-engine-sub-models.c */
/* Sets the sub-models of the loaded model. @levels: (nullable) (unowned); takes @error (nullable):
 * why its companion can't be used. */
void           llm_engine_take_levels           (LlmEngine            *self,
                                                 const LlmLevels      *levels,
                                                 GError               *error);
/* (nullable): of the loaded model. */
const LlmSubModels *llm_engine_get_sub_models   (const LlmEngine      *self);
/* By the option `active`; called after the next one. */
gboolean       llm_engine_choose_sparsity       (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 GError              **error);
/* Which sub-model answers (E9). Fails with UNSUPPORTED where the call names one that the model
 * lacks. */
gboolean       llm_engine_choose_sub_model      (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 GError              **error);
/* What of the weights stays in memory for the calls that are lowered, or all. */
void           llm_engine_keep_level            (LlmEngine            *self);
/* Called by the governor. */
void           llm_engine_set_lowered           (LlmEngine            *self,
                                                 LlmMemoryLowered      lowered);

/* llm-engine-prefill.c: prompts in W8A8 */
/* Prepares the weights for them, in a thread of its own, where the model is calibrated and memory has
 * room for them beside all else; unless that is done. */
void           llm_engine_prepare_prefill       (LlmEngine            *self);
/* The model in use is another one, whose weights are @weights: (nullable) (transfer full): prepared by
 * an earlier service, so that what it computed with them is not computed again in another way. */
void           llm_engine_take_prefill          (LlmEngine            *self,
                                                 LlmW8Weights         *weights);
/* No model is in use. */
void           llm_engine_forget_prefill        (LlmEngine            *self);
/* Registers these weights as reclaimable: first of all. */
void           llm_engine_add_prefill_reclaimer (LlmEngine            *self);
/* Whether a call that asks for W8A8 is to wait, as the weights are being prepared. */
gboolean       llm_engine_delays_prefill        (LlmEngine            *self,
                                                 const LlmCallOptions *options);
/* @callback is called when that has ended, or earlier by llm_engine_wake_prefill(), and asks again. */
void           llm_engine_await_prefill         (LlmEngine            *self,
                                                 GAsyncReadyCallback   callback,
                                                 gpointer              data);
/* A call that may wait was cancelled. */
void           llm_engine_wake_prefill          (LlmEngine            *self);
/* By the option `prefill`, or the configuration. Fails with UNSUPPORTED where the call asks for
 * W8A8 and the model is not calibrated. */
gboolean       llm_engine_choose_prefill        (LlmEngine            *self,
                                                 LlmRequest           *request,
                                                 LlmCallOptions       *options,
                                                 GError              **error);

/* llm-engine-channels.c: weights by channel */
/* Prepares them, in a thread of its own, where weights stream and there is a companion; unless that is
 * done. */
void           llm_engine_prepare_channels      (LlmEngine            *self);
/* The model in use is another one, or none. */
void           llm_engine_forget_channels       (LlmEngine            *self);

/* llm-engine-script.c: a script replies instead of a model */
void           llm_engine_script_start          (LlmEngine            *self);
void           llm_engine_script_stop           (LlmEngine            *self);

G_END_DECLS
