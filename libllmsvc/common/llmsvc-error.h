/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The one error domain, on both sides of the bus. Any thread. */

#pragma once

#include <gio/gio.h>

#include "llmsvc-version.h"

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
 * @LLMSVC_ERROR_CONFLICT: the context has changed meanwhile, or the `request-id` is that of
 *   another request
 * @LLMSVC_ERROR_CANCELLED: the caller or a shutdown stopped it
 * @LLMSVC_ERROR_DEADLINE_EXCEEDED: the caller's own deadline passed
 * @LLMSVC_ERROR_MESSAGE_TOO_LARGE: one message is over the limit
 * @LLMSVC_ERROR_STORAGE: the turn could not be stored
 * @LLMSVC_ERROR_NOT_AVAILABLE: the service is on no bus and can't be started
 * @LLMSVC_ERROR_LOST: the service went away, and of what was asked for nothing is kept:
 *   it can be asked again
 * @LLMSVC_ERROR_LOST_KEPT: the service went away, but the turn is in the context: read it
 *   there instead of asking again
 * @LLMSVC_ERROR_LOST_UNKNOWN: the service went away and could not be asked whether the
 *   turn is kept: asking again with the same `request-id` does not do it twice
 *
 * What can go wrong. The last four are the client library's own.
 *
 * Since: 0.1
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
  LLMSVC_ERROR_NOT_AVAILABLE,
  LLMSVC_ERROR_LOST,
  LLMSVC_ERROR_LOST_KEPT,
  LLMSVC_ERROR_LOST_UNKNOWN,
} LlmsvcError;

/**
 * llmsvc_error_quark:
 *
 * The domain of all errors of the library. Registers their names on the bus,
 * `org.llm.Service.Error.*`, as a side effect.
 *
 * Returns: the domain, %LLMSVC_ERROR
 *
 * Since: 0.1
 */
LLMSVC_AVAILABLE_IN_0_1
GQuark      llmsvc_error_quark    (void);

/**
 * llmsvc_error_get_name:
 * @code: an error
 *
 * The name of an error, which is never translated: the last part of its name on the bus.
 *
 * Returns: (nullable): the name, such as `ContextFull`; %NULL for a code out of range
 *
 * Since: 0.1
 */
LLMSVC_AVAILABLE_IN_0_1
const char *llmsvc_error_get_name (LlmsvcError code);

/**
 * llmsvc_error_get_retry_after:
 * @error: (nullable): an error of any domain
 *
 * How long to wait before the same call is worth another try, as far as the service can tell. It
 * says so at the end of the message of %LLMSVC_ERROR_OVERLOADED, in a form that no
 * translation changes: `[retry-after-ms=250]`.
 *
 * Returns: milliseconds, at most a day; -1 when the error does not say
 *
 * Since: 0.1
 */
LLMSVC_AVAILABLE_IN_0_1
gint        llmsvc_error_get_retry_after (const GError *error);

G_END_DECLS
