/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The states and reasons that the bus has as words. Words of a later version are
 * the OTHER or UNKNOWN of their enumeration. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * LlmsvcAvailability:
 * @LLMSVC_AVAILABILITY_UNKNOWN: the service has not been asked, or says something new
 * @LLMSVC_AVAILABILITY_ABSENT: the service is not on the bus and can't be started there
 * @LLMSVC_AVAILABILITY_IDLE: the service is not running; the next call starts it
 * @LLMSVC_AVAILABILITY_LOADING: it is getting ready; calls wait
 * @LLMSVC_AVAILABILITY_READY: it answers
 * @LLMSVC_AVAILABILITY_NO_MODEL: there is no model installed
 * @LLMSVC_AVAILABILITY_DISABLED: the administrator has switched it off
 * @LLMSVC_AVAILABILITY_FAILED: the model can't be used
 *
 * Whether questions can be asked.
 *
 * Since: 0.1
 */
typedef enum
{
  LLMSVC_AVAILABILITY_UNKNOWN,
  LLMSVC_AVAILABILITY_ABSENT,
  LLMSVC_AVAILABILITY_IDLE,
  LLMSVC_AVAILABILITY_LOADING,
  LLMSVC_AVAILABILITY_READY,
  LLMSVC_AVAILABILITY_NO_MODEL,
  LLMSVC_AVAILABILITY_DISABLED,
  LLMSVC_AVAILABILITY_FAILED,
} LlmsvcAvailability;

/**
 * LlmsvcFinishReason:
 * @LLMSVC_FINISH_REASON_OTHER: a reason that this version of the library does not know
 * @LLMSVC_FINISH_REASON_STOP: the model ended its answer, or a stop string came
 * @LLMSVC_FINISH_REASON_LENGTH: `max-tokens` was reached
 * @LLMSVC_FINISH_REASON_CONTEXT_FULL: the context has no room left
 * @LLMSVC_FINISH_REASON_CANCELLED: cancelled, and kept because of `on-cancel`
 * @LLMSVC_FINISH_REASON_REPEATS: it said the same again and again, see `end-repeats`
 * @LLMSVC_FINISH_REASON_STALLED: its reader did not read, and kept because of `on-cancel`
 *
 * Why an answer ended.
 *
 * Since: 0.1
 */
typedef enum
{
  LLMSVC_FINISH_REASON_OTHER,
  LLMSVC_FINISH_REASON_STOP,
  LLMSVC_FINISH_REASON_LENGTH,
  LLMSVC_FINISH_REASON_CONTEXT_FULL,
  LLMSVC_FINISH_REASON_CANCELLED,
  LLMSVC_FINISH_REASON_STALLED,
  LLMSVC_FINISH_REASON_REPEATS,
} LlmsvcFinishReason;

/**
 * LlmsvcChunkPlace:
 * @LLMSVC_CHUNK_PLACE_UNKNOWN: a place that this version of the library does not know
 * @LLMSVC_CHUNK_PLACE_TEXT: nowhere but in the text: it is computed again when it is needed
 * @LLMSVC_CHUNK_PLACE_MEMORY: in memory
 * @LLMSVC_CHUNK_PLACE_STORAGE: on storage: it is read when it is needed
 * @LLMSVC_CHUNK_PLACE_BOTH: in memory, and on storage already
 *
 * Where a chunk of a context's memory is.
 *
 * Since: 0.1
 */
typedef enum
{
  LLMSVC_CHUNK_PLACE_UNKNOWN,
  LLMSVC_CHUNK_PLACE_TEXT,
  LLMSVC_CHUNK_PLACE_MEMORY,
  LLMSVC_CHUNK_PLACE_STORAGE,
  LLMSVC_CHUNK_PLACE_BOTH,
} LlmsvcChunkPlace;

G_END_DECLS
