/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Errors of other domains become ours where they leave a program's own code, and ours remember
 * what their messages were made of, so that they can be said in another language. Any thread. */

#pragma once

#include "common/llmsvc-error.h"

G_BEGIN_DECLS

#define LLMSVC_N_ERRORS (LLMSVC_ERROR_LOST_UNKNOWN + 1)

/* Makes any error one of LLMSVC_ERROR, in place: the edge of the bus. GIO's and
 * the file functions' codes map to ours; others become FAILED with their message kept. */
void          llmsvc_error_convert    (GError      **error);

typedef struct
{
  const char *format;   /* static */
  GStrv arguments;      /* each as it was printed */
  gsize unquoted;       /* bit by bit, whether it is a string that does not end in “”” */
  GError *cause;        /* (nullable): whose message is one of the arguments */
} LlmsvcErrorDetails;

/* Like g_error_new(), remembering the details. @format: static, with the conversions %c, %d, %s,
 * %u, %x, %g, %f and their kin, and no argument for a width. @cause: (nullable): copied. A prefix
 * put before the message later would be lost in translations: make an error of a cause instead. */
GError       *llmsvc_error_new        (int            code,
                                       const GError  *cause,
                                       const char    *format,
                                       ...) G_GNUC_PRINTF (3, 4);
GError       *llmsvc_error_new_valist (int            code,
                                       const GError  *cause,
                                       const char    *format,
                                       va_list        args) G_GNUC_PRINTF (3, 0);

/* (nullable): NULL when the error was made in another way. */
const LlmsvcErrorDetails *llmsvc_error_get_details (const GError *error);

G_END_DECLS
