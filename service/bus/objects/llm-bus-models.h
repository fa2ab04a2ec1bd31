/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The installed models on the bus: org.llm.Service.Model below
 * /org/llm/Service/models, with an ObjectManager, the same for everyone, which
 * answers when the folders of models have been read. Main thread.
 */

#pragma once

#include "bus/llm-bus.h"

G_BEGIN_DECLS

#define LLM_TYPE_BUS_MODELS (llm_bus_models_get_type ())
G_DECLARE_FINAL_TYPE (LlmBusModels, llm_bus_models, LLM, BUS_MODELS, GObject)

/* Exports them and follows the engine's list. */
LlmBusModels *llm_bus_models_new      (GDBusConnection *connection,
                                       LlmEngine       *engine);

/* Takes them off the bus; without it they are never freed. */
void          llm_bus_models_unexport (LlmBusModels    *self);

/* (transfer full) */
char         *llm_bus_models_dup_path (LlmModelInfo    *model);

G_END_DECLS
