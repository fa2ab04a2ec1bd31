/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Fails in one statement: return llm_fail (error, LLMSVC_ERROR_…, "…"). Any thread. */

#pragma once

#include "common/llmsvc-error.h"

/* Sets an error of LLMSVC_ERROR. Returns FALSE. */
gboolean llm_fail (GError     **error,
                   int          code,
                   const char  *format,
                   ...) G_GNUC_PRINTF (3, 4);

/* The same for functions that return a pointer: NULL. */
#define llm_fail_null(...) ((void) llm_fail (__VA_ARGS__), NULL)
