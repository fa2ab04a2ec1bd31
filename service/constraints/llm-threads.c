/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Stacks of a grammar's rules, and the ways to read a text. */

#include "constraints/llm-mask.h"

#include <string.h>

#define FIRST_BITS 8

void
llm_stacks_init (LlmStacks *self)
{
  self->frames = g_array_new (FALSE, FALSE, sizeof (LlmFrame));
  self->bits = FIRST_BITS;
  self->buckets = g_new (guint32, 1u << self->bits);
  memset (self->buckets, 0xff, sizeof (guint32) << self->bits);
}

void
llm_stacks_clear (LlmStacks *self)
{
  g_clear_pointer (&self->frames, g_array_unref);
  g_clear_pointer (&self->buckets, g_free);
}

static guint32 *
find_bucket (LlmStacks *self,
             guint32    state,
             guint32    below)
{
  guint32 hash = (state * 0x9e3779b1u) ^ (below * 0x85ebca77u);

  return &self->buckets[(hash ^ hash >> 15) & ((1u << self->bits) - 1)];
}

static void
link_frame (LlmStacks *self,
            guint32    id)
{
  LlmFrame *frame = &g_array_index (self->frames, LlmFrame, id);
  guint32 *bucket = find_bucket (self, frame->state, frame->below);

  frame->next = *bucket;
  *bucket = id;
}

guint32
llm_stacks_push (LlmStacks *self,
                 guint32    state,
                 guint32    below)
{
  LlmFrame frame = { state, below, 0 };

  for (guint32 id = *find_bucket (self, state, below); id != LLM_STACK_BOTTOM;)
    {
      const LlmFrame *known = &g_array_index (self->frames, LlmFrame, id);

      if (known->state == state && known->below == below)
        return id;
      id = known->next;
    }
  g_array_append_val (self->frames, frame);
  if (self->frames->len <= 1u << self->bits)
    {
      link_frame (self, self->frames->len - 1);
      return self->frames->len - 1;
    }
  /* ids rise along each row, so that frames can be forgotten from the end on */
  self->bits += 2;
  self->buckets = g_renew (guint32, self->buckets, 1u << self->bits);
  memset (self->buckets, 0xff, sizeof (guint32) << self->bits);
  for (guint32 id = 0; id < self->frames->len; id++)
    link_frame (self, id);
  return self->frames->len - 1;
}

void
llm_stacks_truncate (LlmStacks *self,
                     guint      n)
{
  while (self->frames->len > n)
    {
      const LlmFrame *frame = &g_array_index (self->frames, LlmFrame, self->frames->len - 1);

      *find_bucket (self, frame->state, frame->below) = frame->next;
      g_array_set_size (self->frames, self->frames->len - 1);
    }
}

static gboolean
is_known (const GArray *threads,
          guint         first,
          LlmThread     thread)
{
  for (guint i = first; i < threads->len; i++)
    {
      const LlmThread *known = &g_array_index (threads, LlmThread, i);

      if (known->state == thread.state && known->stack == thread.stack)
        return TRUE;
    }
  return FALSE;
}

/* All are added, each once, while what they lead to is looked for; what no byte leads on from is
 * then left out. */
gboolean
llm_threads_add (GArray           *threads,
                 guint             first,
                 const LlmGrammar *grammar,
                 LlmStacks        *stacks,
                 LlmThread         thread)
{
  const LlmGrammarState *state = &grammar->states[thread.state];
  gboolean has_left = FALSE;
  guint begin = threads->len;
  guint n;

  if (is_known (threads, first, thread))
    return FALSE;
  g_array_append_val (threads, thread);
  if (state->n_calls == 0 && !state->is_final)
    return FALSE;
  for (guint i = begin; i < threads->len && threads->len - first < LLM_MAX_THREADS; i++)
    {
      LlmThread from = g_array_index (threads, LlmThread, i);

      state = &grammar->states[from.state];
      for (guint c = 0; c < state->n_calls; c++)
        {
          const LlmGrammarCall *call = &grammar->calls[state->first_call + c];
          LlmThread to = { call->start, from.stack };

          if (!call->is_last)
            to.stack = llm_stacks_push (stacks, call->target, from.stack);
          if (!is_known (threads, first, to))
            g_array_append_val (threads, to);
        }
      if (state->is_final && from.stack != LLM_STACK_BOTTOM)
        {
          const LlmFrame *frame = &g_array_index (stacks->frames, LlmFrame, from.stack);
          LlmThread to = { frame->state, frame->below };

          if (!is_known (threads, first, to))
            g_array_append_val (threads, to);
        }
      has_left |= state->is_final && from.stack == LLM_STACK_BOTTOM;
    }
  n = begin;
  for (guint i = begin; i < threads->len; i++)
    {
      LlmThread from = g_array_index (threads, LlmThread, i);

      if (grammar->states[from.state].has_bytes)
        g_array_index (threads, LlmThread, n++) = from;
    }
  g_array_set_size (threads, n);
  return has_left;
}
