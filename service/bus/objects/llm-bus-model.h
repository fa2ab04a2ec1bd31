/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One model as org.llm.Service.Model, for LlmBusModels to export. Its properties
 * never change. Main thread.
 */

#pragma once

#include "bus/objects/llm-bus-interface.h"

G_BEGIN_DECLS

#define LLM_TYPE_BUS_MODEL (llm_bus_model_get_type ())
G_DECLARE_FINAL_TYPE (LlmBusModel, llm_bus_model, LLM, BUS_MODEL, GDBusInterfaceSkeleton)

extern const LlmBusInterface llm_bus_model_interface;

GDBusInterfaceSkeleton *llm_bus_model_new      (LlmModelInfo *info);

LlmModelInfo           *llm_bus_model_get_info (LlmBusModel  *self);

G_END_DECLS
