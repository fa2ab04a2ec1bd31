/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-buffer-sink.h"

typedef struct
{
  LlmSink parent;
  GString *text;
  LlmBufferSinkText on_text; /* (nullable) */
  LlmBufferSinkText on_reasoning; /* (nullable) */
  LlmBufferSinkDone done;
  gpointer data;
  GDestroyNotify destroy; /* (nullable) */
} BufferSink;

static gboolean
accept (LlmSink    *sink,
        const char *text,
        gsize       length)
{
  BufferSink *self = (BufferSink *) sink;

  g_string_append_len (self->text, text, (gssize) length);
  if (self->on_text != NULL)
    self->on_text (text, length);
  return TRUE;
}

static gboolean
accept_reasoning (LlmSink    *sink,
                  const char *text,
                  gsize       length)
{
  BufferSink *self = (BufferSink *) sink;

  if (self->on_reasoning != NULL)
    self->on_reasoning (text, length);
  return TRUE;
}

static void
finish (LlmSink      *sink,
        GVariant     *results,
        const GError *error)
{
  BufferSink *self = (BufferSink *) sink;

  self->done (self->text->str, results, error, self->data);
}

static void
clear (LlmSink *sink)
{
  BufferSink *self = (BufferSink *) sink;

  if (self->destroy != NULL)
    self->destroy (self->data);
  g_string_free (self->text, TRUE);
}

LlmSink *
llm_buffer_sink_new (LlmBufferSinkText on_text,
                     LlmBufferSinkDone done,
                     gpointer          data,
                     GDestroyNotify    destroy)
{
  static const LlmSinkClass class = { accept, finish, clear, accept_reasoning };
  BufferSink *self = llm_sink_new (&class, sizeof *self);

  self->text = g_string_new (NULL);
  self->on_text = on_text;
  self->done = done;
  self->data = data;
  self->destroy = destroy;
  return &self->parent;
}

void
llm_buffer_sink_set_reasoning (LlmSink          *sink,
                               LlmBufferSinkText on_reasoning)
{
  ((BufferSink *) sink)->on_reasoning = on_reasoning;
}
