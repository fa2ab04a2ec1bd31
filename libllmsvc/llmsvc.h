/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* libllmsvc: the language model of the system, for apps. The only header to include. */

#pragma once

#define LLMSVC_INSIDE

#include "llmsvc-answer.h"
#include "llmsvc-bus.h"
#include "llmsvc-client.h"
#include "llmsvc-context-memory.h"
#include "llmsvc-context.h"
#include "llmsvc-enums.h"
#include "llmsvc-enum-types.h"
#include "llmsvc-error.h"
#include "llmsvc-generation.h"
#include "llmsvc-message.h"
#include "llmsvc-model.h"
#include "llmsvc-options.h"
#include "llmsvc-sync.h"
#include "llmsvc-version.h"

#undef LLMSVC_INSIDE
