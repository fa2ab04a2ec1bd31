/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-buffer-sink.h"

struct _LlmBufferSink
{
  GObject parent_instance;

  GString *text;
  LlmBufferSinkText on_text; /* (nullable) */
  LlmBufferSinkDone done;
  gpointer data;
  GDestroyNotify destroy; /* (nullable) */
};

static void llm_buffer_sink_iface_init (LlmSinkInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (LlmBufferSink, llm_buffer_sink, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (LLM_TYPE_SINK, llm_buffer_sink_iface_init))

static gboolean
llm_buffer_sink_accept (LlmSink    *sink,
                        const char *text,
                        gsize       length)
{
  LlmBufferSink *self = LLM_BUFFER_SINK (sink);

  g_string_append_len (self->text, text, length);
  if (self->on_text != NULL)
    self->on_text (text, length);
  return TRUE;
}

static void
llm_buffer_sink_finish (LlmSink      *sink,
                        GVariant     *results,
                        const GError *error)
{
  LlmBufferSink *self = LLM_BUFFER_SINK (sink);

  self->done (self->text->str, results, error, self->data);
}

static void
llm_buffer_sink_finalize (GObject *object)
{
  LlmBufferSink *self = LLM_BUFFER_SINK (object);

  if (self->destroy != NULL)
    self->destroy (self->data);
  g_string_free (self->text, TRUE);
  G_OBJECT_CLASS (llm_buffer_sink_parent_class)->finalize (object);
}

static void
llm_buffer_sink_iface_init (LlmSinkInterface *iface)
{
  iface->accept = llm_buffer_sink_accept;
  iface->finish = llm_buffer_sink_finish;
}

static void
llm_buffer_sink_class_init (LlmBufferSinkClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = llm_buffer_sink_finalize;
}

static void
llm_buffer_sink_init (LlmBufferSink *self)
{
  self->text = g_string_new (NULL);
}

LlmSink *
llm_buffer_sink_new (LlmBufferSinkDone done,
                     gpointer          data,
                     GDestroyNotify    destroy)
{
  LlmBufferSink *self = g_object_new (LLM_TYPE_BUFFER_SINK, NULL);

  self->done = done;
  self->data = data;
  self->destroy = destroy;
  return LLM_SINK (self);
}

void
llm_buffer_sink_follow (LlmSink          *self,
                        LlmBufferSinkText on_text)
{
  LLM_BUFFER_SINK (self)->on_text = on_text;
}
