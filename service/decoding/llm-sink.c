/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/llm-sink.h"

gpointer
llm_sink_new (const LlmSinkClass *class,
              gsize               size)
{
  LlmSink *self = g_atomic_rc_box_alloc0 (size);

  self->class = class;
  return self;
}

gpointer
llm_sink_ref (gpointer self)
{
  return g_atomic_rc_box_acquire (self);
}

static void
clear (gpointer data)
{
  LlmSink *self = data;

  self->class->clear (self);
}

void
llm_sink_unref (gpointer self)
{
  g_atomic_rc_box_release_full (self, clear);
}

gboolean
llm_sink_accept (LlmSink    *self,
                 const char *text,
                 gsize       length)
{
  return self->class->accept (self, text, length);
}

gboolean
llm_sink_accept_reasoning (LlmSink    *self,
                           const char *text,
                           gsize       length)
{
  return self->class->accept_reasoning == NULL
         || self->class->accept_reasoning (self, text, length);
}

gboolean
llm_sink_takes_logprobs (LlmSink *self)
{
  return self->class->accept_logprobs != NULL;
}

gboolean
llm_sink_accept_logprobs (LlmSink    *self,
                          const char *items)
{
  return self->class->accept_logprobs (self, items);
}

gboolean
llm_sink_call (LlmSink    *self,
               const char *call)
{
  return self->class->call == NULL || self->class->call (self, call);
}

void
llm_sink_progress (LlmSink  *self,
                   GVariant *progress)
{
  g_autoptr(GVariant) owned = g_variant_ref_sink (progress);

  if (self->class->progress != NULL)
    self->class->progress (self, owned);
}

void
llm_sink_finish (LlmSink      *self,
                 GVariant     *results,
                 const GError *error)
{
  self->class->finish (self, results, error);
}

void
llm_sink_listen (LlmSink    *self,
                 LlmSinkFunc on_drained,
                 LlmSinkFunc on_closed,
                 gpointer    data)
{
  self->on_drained = on_drained;
  self->on_closed = on_closed;
  self->data = data;
}

void
llm_sink_drained (LlmSink *self)
{
  if (self->on_drained != NULL)
    self->on_drained (self->data);
}

void
llm_sink_closed (LlmSink *self)
{
  if (self->on_closed != NULL)
    self->on_closed (self->data);
}
