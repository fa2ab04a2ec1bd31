/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The installed models on the bus: org.llm.Service.Model below
 * /org/llm/Service/models, with an ObjectManager, the same for everyone, which
 * answers when the folders of models have been read. Main thread.
 */

#pragma once

#include "bus/objects/llm-bus-call.h"

G_BEGIN_DECLS

typedef struct _LlmBusModels LlmBusModels;

extern const LlmBusInterface llm_bus_model_interface;

/* Exports them and follows the engine's list. NULL with an error when their path is taken. */
LlmBusModels *llm_bus_models_export   (LlmBus        *bus,
                                       GError       **error) G_GNUC_WARN_UNUSED_RESULT;
/* Takes them off the bus; calls under way may still be answered. */
void          llm_bus_models_unexport (LlmBusModels  *self);

/* (transfer full) */
char         *llm_bus_models_dup_path (LlmModelInfo  *model);

G_END_DECLS
