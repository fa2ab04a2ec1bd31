/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-fail.h"

#include "common/llmsvc-error-private.h"

gboolean
llm_fail (GError     **error,
          int          code,
          const char  *format,
          ...)
{
  va_list args;

  va_start (args, format);
  if (error != NULL)
    *error = llmsvc_error_new_valist (code, NULL, format, args);
  va_end (args);
  return FALSE;
}
