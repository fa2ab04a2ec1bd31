/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Names on the bus, for both of its sides. */

#pragma once

#define LLMSVC_BUS_NAME                 "org.llm.Service"
#define LLMSVC_PATH                     "/org/llm/Service"
#define LLMSVC_MODELS_PATH              LLMSVC_PATH "/models"
#define LLMSVC_CONTEXTS_PATH            LLMSVC_PATH "/contexts"
#define LLMSVC_GENERATIONS_PATH         LLMSVC_PATH "/generations"

#define LLMSVC_INTERFACE                "org.llm.Service"
#define LLMSVC_MEMORY_INTERFACE         "org.llm.Service.Memory"
#define LLMSVC_ADMIN_INTERFACE          "org.llm.Service.Admin"
#define LLMSVC_MODEL_INTERFACE          "org.llm.Service.Model"
#define LLMSVC_CONTEXT_INTERFACE        "org.llm.Service.Context"
#define LLMSVC_GENERATION_INTERFACE     "org.llm.Service.Generation"

#define LLMSVC_ERROR_PREFIX             "org.llm.Service.Error."

/* Property ApiVersion: one more for each release that adds a method, property or option. */
#define LLMSVC_API_VERSION              8
