/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the kinds of pressure sources share. Main thread. */

#pragma once

#include "memory/llm-pressure-source.h"

G_BEGIN_DECLS

/* @name: static */
void llm_pressure_source_set_name (LlmPressureSource *self,
                                   const char        *name);
/* Emits `stirred`. */
void llm_pressure_source_stir     (LlmPressureSource *self,
                                   LlmPressure        hint);

G_END_DECLS
