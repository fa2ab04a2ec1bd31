/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where an answer goes: a pipe, a D-Bus reply, the terminal of the in-process
 * tool. Bytes are whole UTF-8 characters. A sink that is full says so and the
 * answer is parked until it emits "drained"; when its reader has left it emits
 * "closed" and the answer is cancelled. Main thread.
 */

#pragma once

#include <glib-object.h>

G_BEGIN_DECLS

#define LLM_TYPE_SINK (llm_sink_get_type ())
G_DECLARE_INTERFACE (LlmSink, llm_sink, LLM, SINK, GObject)

struct _LlmSinkInterface
{
  GTypeInterface parent_iface;

  gboolean (*accept) (LlmSink      *self,
                      const char   *text,
                      gsize         length);
  void     (*finish) (LlmSink      *self,
                      GVariant     *results,
                      const GError *error);
};

/* Takes all of @text. FALSE: no more until "drained". */
gboolean llm_sink_accept       (LlmSink      *self,
                                const char   *text,
                                gsize         length);

/* Called once, after the turn was committed or given up: @results (a{sv}) or
 * @error, the other NULL. */
void     llm_sink_finish       (LlmSink      *self,
                                GVariant     *results,
                                const GError *error);

/* For implementations. */
void     llm_sink_emit_drained (LlmSink      *self);
void     llm_sink_emit_closed  (LlmSink      *self);

G_END_DECLS
