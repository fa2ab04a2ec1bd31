/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where an answer goes: a pipe, a D-Bus reply, the terminal of the in-process
 * tool. Bytes are whole UTF-8 characters. A sink that is full says so and the
 * answer is parked until it is drained; when its reader has left it is closed
 * and the answer is cancelled. Reference-counted; main thread.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct _LlmSink LlmSink;

typedef struct
{
  gboolean (*accept) (LlmSink      *self,
                      const char   *text,
                      gsize         length);
  void     (*finish) (LlmSink      *self,
                      GVariant     *results,
                      const GError *error);
  void     (*clear)  (LlmSink      *self);
  /* (nullable): as accept(), for reasoning, all of which comes before the text */
  gboolean (*accept_reasoning) (LlmSink    *self,
                                const char *text,
                                gsize       length);
  /* (nullable): takes log-probabilities as they come; without, they are among the results. */
  gboolean (*accept_logprobs) (LlmSink    *self,
                               const char *items);
  /* (nullable): of those that tell calls before the end */
  gboolean (*call)   (LlmSink      *self,
                      const char   *call);
  /* (nullable): of those that tell how far a request is that has no text yet */
  void     (*progress) (LlmSink    *self,
                        GVariant   *progress);
} LlmSinkClass;

typedef void (*LlmSinkFunc) (gpointer data);

/* The first member of an implementation. */
struct _LlmSink
{
  const LlmSinkClass *class;
  LlmSinkFunc on_drained;   /* (nullable) */
  LlmSinkFunc on_closed;    /* (nullable) */
  gpointer data;
};

/* An implementation of @size bytes, which are 0; its clear() is called before it is freed. */
gpointer llm_sink_new    (const LlmSinkClass *class,
                          gsize               size);
gpointer llm_sink_ref    (gpointer            self);
void     llm_sink_unref  (gpointer            self);

/* Takes all of @text. FALSE: no more until it is drained. */
gboolean llm_sink_accept (LlmSink            *self,
                          const char         *text,
                          gsize               length);

/* The same for the model's reasoning before the text. */
gboolean llm_sink_accept_reasoning (LlmSink    *self,
                                    const char *text,
                                    gsize       length);
/* Whether it takes log-probabilities; then likewise: some more members of a JSON array. */
gboolean llm_sink_takes_logprobs (LlmSink    *self);
gboolean llm_sink_accept_logprobs (LlmSink   *self,
                                   const char *items);
/* A call of a tool that is complete, as a JSON object. FALSE as above. */
gboolean llm_sink_call   (LlmSink            *self,
                          const char         *call);

/* How far a request is that has no text yet: what a full sink does not take is dropped. @progress
 * is an `a{sv}`; floating. */
void     llm_sink_progress (LlmSink         *self,
                          GVariant           *progress);

/* Called once, after the turn was committed or given up: @results (a{sv}) or
 * @error, the other NULL. */
void     llm_sink_finish (LlmSink            *self,
                          GVariant           *results,
                          const GError       *error);

/* Sets the listener, which replaces the one before; (nullable): no listener. */
void     llm_sink_listen (LlmSink            *self,
                          LlmSinkFunc         on_drained,
                          LlmSinkFunc         on_closed,
                          gpointer            data);
/* For implementations. */
void     llm_sink_drained (LlmSink           *self);
void     llm_sink_closed (LlmSink            *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmSink, llm_sink_unref)

G_END_DECLS
