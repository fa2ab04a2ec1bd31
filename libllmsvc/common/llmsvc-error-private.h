/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Errors of other domains become ours where they leave a program's own code. Any thread. */

#pragma once

#include "common/llmsvc-error.h"

G_BEGIN_DECLS

#define LLMSVC_N_ERRORS (LLMSVC_ERROR_LOST_UNKNOWN + 1)

/* Makes any error one of LLMSVC_ERROR, in place: the edge of the bus. GIO's and
 * the file functions' codes map to ours; others become FAILED with their message kept. */
void llmsvc_error_convert (GError **error);

G_END_DECLS
