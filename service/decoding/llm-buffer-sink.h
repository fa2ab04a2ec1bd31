/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A sink that keeps the whole text until the end: for replies that carry it.
 * Main thread.
 */

#pragma once

#include "decoding/llm-sink.h"

G_BEGIN_DECLS

/* @results or @error, as llm_sink_finish() got them; @text is valid UTF-8. */
typedef void (*LlmBufferSinkDone) (const char   *text,
                                   GVariant     *results,
                                   const GError *error,
                                   gpointer      data);

/* A piece of the text, as it comes. */
typedef void (*LlmBufferSinkText) (const char   *text,
                                   gsize         length);

/* @on_text: (nullable): called with each piece, too. @destroy: (nullable) */
LlmSink *llm_buffer_sink_new (LlmBufferSinkText on_text,
                              LlmBufferSinkDone done,
                              gpointer          data,
                              GDestroyNotify    destroy);
/* @on_reasoning: called with each piece of the model's reasoning, which is no part of the text. */
void     llm_buffer_sink_set_reasoning (LlmSink          *sink,
                                        LlmBufferSinkText on_reasoning);

G_END_DECLS
