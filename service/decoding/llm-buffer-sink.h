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

#define LLM_TYPE_BUFFER_SINK (llm_buffer_sink_get_type ())
G_DECLARE_FINAL_TYPE (LlmBufferSink, llm_buffer_sink, LLM, BUFFER_SINK, GObject)

LlmSink *llm_buffer_sink_new    (LlmBufferSinkDone done,
                                 gpointer          data,
                                 GDestroyNotify    destroy);
/* @on_text: called with each piece, too. */
void     llm_buffer_sink_follow (LlmSink          *self,
                                 LlmBufferSinkText on_text);

G_END_DECLS
