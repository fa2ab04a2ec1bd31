/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-sink.h"

enum
{
  DRAINED,
  CLOSED,
  N_SIGNALS
};

static guint signals[N_SIGNALS];

G_DEFINE_INTERFACE (LlmSink, llm_sink, G_TYPE_OBJECT)

static void
llm_sink_default_init (LlmSinkInterface *iface)
{
  signals[DRAINED] = g_signal_new ("drained", LLM_TYPE_SINK, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                   G_TYPE_NONE, 0);
  signals[CLOSED] = g_signal_new ("closed", LLM_TYPE_SINK, G_SIGNAL_RUN_LAST, 0, NULL, NULL, NULL,
                                  G_TYPE_NONE, 0);
}

gboolean
llm_sink_accept (LlmSink    *self,
                 const char *text,
                 gsize       length)
{
  return LLM_SINK_GET_IFACE (self)->accept (self, text, length);
}

void
llm_sink_finish (LlmSink      *self,
                 GVariant     *results,
                 const GError *error)
{
  LLM_SINK_GET_IFACE (self)->finish (self, results, error);
}

void
llm_sink_emit_drained (LlmSink *self)
{
  g_signal_emit (self, signals[DRAINED], 0);
}

void
llm_sink_emit_closed (LlmSink *self)
{
  g_signal_emit (self, signals[CLOSED], 0);
}
