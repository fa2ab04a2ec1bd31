/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The one error domain that crosses the bus. Any thread. */

#pragma once

#include <gio/gio.h>

G_BEGIN_DECLS

#define LLMSVC_ERROR (llmsvc_error_quark ())

/**
 * LlmsvcError:
 * @LLMSVC_ERROR_FAILED: something that has no name of its own
 * @LLMSVC_ERROR_INVALID_OPTION: a known option of the wrong type or out of range
 * @LLMSVC_ERROR_INVALID_ARGUMENT: another argument is wrong
 * @LLMSVC_ERROR_UNSUPPORTED: this service or model can't do that
 * @LLMSVC_ERROR_NOT_FOUND: no such context, model or application
 * @LLMSVC_ERROR_ALREADY_EXISTS: the name is taken
 * @LLMSVC_ERROR_NOT_AUTHORIZED: the caller may not do that
 * @LLMSVC_ERROR_NO_MODEL: there is no model to answer with
 * @LLMSVC_ERROR_INVALID_MODEL: the model file is damaged or of an unknown kind
 * @LLMSVC_ERROR_CONTEXT_BUSY: another call of this context runs
 * @LLMSVC_ERROR_CONTEXT_FULL: the text does not fit into the context
 * @LLMSVC_ERROR_OVERLOADED: too much is queued already
 * @LLMSVC_ERROR_QUOTA_EXCEEDED: the application holds all it may
 * @LLMSVC_ERROR_NO_MEMORY: the budget has no room for it
 * @LLMSVC_ERROR_CONFLICT: the context has changed meanwhile
 * @LLMSVC_ERROR_CANCELLED: the caller or a shutdown stopped it
 * @LLMSVC_ERROR_DEADLINE_EXCEEDED: the caller's own deadline passed
 * @LLMSVC_ERROR_MESSAGE_TOO_LARGE: one message is over the limit
 * @LLMSVC_ERROR_STORAGE: the turn could not be stored
 */
typedef enum
{
  LLMSVC_ERROR_FAILED,
  LLMSVC_ERROR_INVALID_OPTION,
  LLMSVC_ERROR_INVALID_ARGUMENT,
  LLMSVC_ERROR_UNSUPPORTED,
  LLMSVC_ERROR_NOT_FOUND,
  LLMSVC_ERROR_ALREADY_EXISTS,
  LLMSVC_ERROR_NOT_AUTHORIZED,
  LLMSVC_ERROR_NO_MODEL,
  LLMSVC_ERROR_INVALID_MODEL,
  LLMSVC_ERROR_CONTEXT_BUSY,
  LLMSVC_ERROR_CONTEXT_FULL,
  LLMSVC_ERROR_OVERLOADED,
  LLMSVC_ERROR_QUOTA_EXCEEDED,
  LLMSVC_ERROR_NO_MEMORY,
  LLMSVC_ERROR_CONFLICT,
  LLMSVC_ERROR_CANCELLED,
  LLMSVC_ERROR_DEADLINE_EXCEEDED,
  LLMSVC_ERROR_MESSAGE_TOO_LARGE,
  LLMSVC_ERROR_STORAGE,
  LLMSVC_N_ERRORS
} LlmsvcError;

/* Registers the names on the bus, org.llm.Service.Error.*, as a side effect. */
GQuark      llmsvc_error_quark    (void);

/* The last part of the name on the bus, "ContextFull"; NULL for a code out of range. */
const char *llmsvc_error_get_name (LlmsvcError code);

/* Makes any error one of LLMSVC_ERROR, in place: the edge of the bus. GIO's and
 * the file functions' codes map to ours; others become FAILED with their message kept. */
void        llmsvc_error_convert  (GError **error);

G_END_DECLS
