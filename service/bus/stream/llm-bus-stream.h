/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A sink over a pipe that the service makes: lines of JSON, or the text alone. It writes without
 * blocking and buffers what does not fit, at most one step of an answer. After the end it stays
 * until the reader has taken the rest, has left, or has stalled; then the pipe keeps the last line.
 * Of the streams of one application that wait so, and of all of a user's, only the latest are kept.
 * Main thread.
 */

#pragma once

#include "accounts/llm-caller.h"
#include "decoding/llm-sink.h"

G_BEGIN_DECLS

/* Finished streams of one application that may wait for their readers. */
#define LLM_BUS_STREAM_MAX_LINGERING 8
/* The same for all applications of a user: outside a sandbox, programs choose their names. */
#define LLM_BUS_STREAM_MAX_USER_LINGERING 64

/**
 * llm_bus_stream_new:
 * @owner: whose application's and user's streams are counted together
 * @is_text: write the text alone, not lines of JSON
 * @locale: (nullable): the reader's, for the error line
 * @linger_s: seconds for which the rest of a finished answer waits for its reader
 * @read_fd: (out): the reading end, the caller's to close
 * @error: return location for an error
 *
 * Returns: (transfer full): the sink, or %NULL when no pipe can be made
 */
LlmSink *llm_bus_stream_new (LlmCaller         *owner,
                             gboolean           is_text,
                             const char        *locale,
                             guint              linger_s,
                             int               *read_fd,
                             GError           **error) G_GNUC_WARN_UNUSED_RESULT;

G_END_DECLS
