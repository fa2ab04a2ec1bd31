/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-scripted-sink.h"

#define LLM_TYPE_SCRIPTED_SINK (llm_scripted_sink_get_type ())
G_DECLARE_FINAL_TYPE (LlmScriptedSink, llm_scripted_sink, LLM, SCRIPTED_SINK, GObject)

struct _LlmScriptedSink
{
  GObject parent_instance;

  LlmSink *to;           /* (owned) */
  GSourceFunc exit;
  gpointer data;
};

static gboolean
scripted_sink_accept (LlmSink    *sink,
                      const char *text,
                      gsize       length)
{
  return llm_sink_accept (LLM_SCRIPTED_SINK (sink)->to, text, length);
}

static gboolean
on_idle (gpointer data)
{
  LlmScriptedSink *self = data;

  return self->exit (self->data);
}

/* The caller must not hear of the end before: the other sink stays until then. */
static void
scripted_sink_finish (LlmSink      *sink,
                      GVariant     *results,
                      const GError *error)
{
  LlmScriptedSink *self = LLM_SCRIPTED_SINK (sink);

  if (results != NULL)
    g_idle_add_full (G_PRIORITY_LOW, on_idle, g_object_ref (self), g_object_unref);
  else
    llm_sink_finish (self->to, NULL, error);
}

static void
scripted_sink_init_sink (LlmSinkInterface *iface)
{
  iface->accept = scripted_sink_accept;
  iface->finish = scripted_sink_finish;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (LlmScriptedSink, llm_scripted_sink, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (LLM_TYPE_SINK, scripted_sink_init_sink))

static void
llm_scripted_sink_finalize (GObject *object)
{
  LlmScriptedSink *self = LLM_SCRIPTED_SINK (object);

  g_signal_handlers_disconnect_by_data (self->to, self);
  g_object_unref (self->to);
  G_OBJECT_CLASS (llm_scripted_sink_parent_class)->finalize (object);
}

static void
llm_scripted_sink_class_init (LlmScriptedSinkClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_scripted_sink_finalize;
}

static void
llm_scripted_sink_init (LlmScriptedSink *self)
{
}

LlmSink *
llm_scripted_sink_new (LlmSink    *to,
                       GSourceFunc exit,
                       gpointer    data)
{
  LlmScriptedSink *self = g_object_new (LLM_TYPE_SCRIPTED_SINK, NULL);

  self->to = g_object_ref (to);
  self->exit = exit;
  self->data = data;
  g_signal_connect_swapped (to, "drained", G_CALLBACK (llm_sink_emit_drained), self);
  g_signal_connect_swapped (to, "closed", G_CALLBACK (llm_sink_emit_closed), self);
  return LLM_SINK (self);
}
