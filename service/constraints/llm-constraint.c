/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "constraints/llm-constraint.h"

#include <string.h>

/* The state behind a token. */
typedef struct
{
  guint first;           /* of its threads, which go up to those of the next */
  gboolean can_end;
} Position;

struct _LlmConstraint
{
  LlmMaskTable *table;   /* (owned) */
  LlmStacks stacks;
  GArray *threads;       /* (element-type LlmThread): of all positions */
  GArray *positions;     /* (element-type Position): at least one, that before the first token */
  gboolean skips_space;
};

LlmConstraint *
llm_constraint_new (LlmMaskTable *table,
                    gboolean      skips_space)
{
  LlmConstraint *self = g_new0 (LlmConstraint, 1);
  LlmGrammar *grammar = llm_mask_table_get_grammar (table);
  LlmThread start = { grammar->start, LLM_STACK_BOTTOM };
  Position position = { 0, FALSE };

  self->table = llm_mask_table_ref (table);
  self->skips_space = skips_space;
  llm_stacks_init (&self->stacks);
  self->threads = g_array_new (FALSE, FALSE, sizeof (LlmThread));
  self->positions = g_array_new (FALSE, FALSE, sizeof (Position));
  position.can_end = llm_threads_add (self->threads, 0, grammar, &self->stacks, start);
  g_array_append_val (self->positions, position);
  return self;
}

LlmConstraint *
llm_constraint_copy (const LlmConstraint *self)
{
  LlmConstraint *copy = g_new0 (LlmConstraint, 1);

  *copy = *self;
  copy->table = llm_mask_table_ref (self->table);
  copy->threads = g_array_copy (self->threads);
  copy->positions = g_array_copy (self->positions);
  copy->stacks.frames = g_array_copy (self->stacks.frames);
  copy->stacks.buckets =
    g_memdup2 (self->stacks.buckets, sizeof (guint32) << self->stacks.bits);
  return copy;
}

void
llm_constraint_free (LlmConstraint *self)
{
  if (self == NULL)
    return;
  llm_mask_table_unref (self->table);
  llm_stacks_clear (&self->stacks);
  g_array_unref (self->threads);
  g_array_unref (self->positions);
  g_free (self);
}

guint
llm_constraint_get_n_words (const LlmConstraint *self)
{
  return (llm_mask_table_get_tokens (self->table)->n_tokens + 63) / 64;
}

static const Position *
get_last (const LlmConstraint *self)
{
  return &g_array_index (self->positions, Position, self->positions->len - 1);
}

static gboolean
is_at_space (const LlmConstraint *self)
{
  return self->skips_space && self->positions->len == 1;
}

void
llm_constraint_compute_mask (LlmConstraint *self,
                             guint64       *bits)
{
  const GArray *endings = llm_mask_table_get_tokens (self->table)->endings;
  const Position *last = get_last (self);
  guint n_frames = self->stacks.frames->len;

  memset (bits, 0, llm_constraint_get_n_words (self) * sizeof *bits);
  for (guint i = last->first; i < self->threads->len; i++)
    llm_mask_table_add (self->table, &self->stacks, g_array_index (self->threads, LlmThread, i),
                        bits);
  if (is_at_space (self))
    llm_mask_table_add_behind (self->table, &self->stacks, ' ', self->threads, bits);
  for (guint i = 0; last->can_end && i < endings->len; i++)
    {
      guint32 token = g_array_index (endings, guint32, i);

      bits[token / 64] |= G_GUINT64_CONSTANT (1) << token % 64;
    }
  /* what was only looked at */
  llm_stacks_truncate (&self->stacks, n_frames);
}

/* Adds the set that the threads from @first up to @end lead to. */
static gboolean
step (LlmConstraint *self,
      guint          first,
      guint          end,
      guint8         byte)
{
  LlmGrammar *grammar = llm_mask_table_get_grammar (self->table);
  gboolean has_left = FALSE;

  for (guint i = first; i < end; i++)
    {
      LlmThread thread = g_array_index (self->threads, LlmThread, i);

      thread.state = llm_grammar_step (grammar, thread.state, byte);
      if (thread.state != LLM_DEAD)
        has_left |= llm_threads_add (self->threads, end, grammar, &self->stacks, thread);
    }
  return has_left;
}

static gboolean
accept_end (LlmConstraint *self,
            gint32         token)
{
  const GArray *endings = llm_mask_table_get_tokens (self->table)->endings;
  Position position = { self->threads->len, FALSE };
  gboolean is_ending = FALSE;

  for (guint i = 0; i < endings->len; i++)
    is_ending |= g_array_index (endings, guint32, i) == (guint32) token;
  if (!is_ending || !get_last (self)->can_end)
    return FALSE;
  g_array_append_val (self->positions, position);
  return TRUE;
}

gboolean
llm_constraint_accept (LlmConstraint *self,
                       gint32         token)
{
  const LlmTokenTrie *tokens = llm_mask_table_get_tokens (self->table);
  guint before = self->threads->len;
  guint first = get_last (self)->first;
  Position position = { before, get_last (self)->can_end };
  guint32 at, end;

  if (token < 0 || (guint) token >= tokens->n_tokens)
    return FALSE;
  at = tokens->offsets[token];
  end = tokens->offsets[token + 1];
  if (at == end)
    return accept_end (self, token);

  if (is_at_space (self) && tokens->text[at] == ' ')
    {
      g_array_set_size (self->threads, before * 2);
      memcpy (&g_array_index (self->threads, LlmThread, before), self->threads->data,
              before * sizeof (LlmThread));
      at++;
    }
  else
    {
      position.can_end = step (self, first, before, (guint8) tokens->text[at++]);
    }
  for (; at < end; at++)
    {
      guint n = self->threads->len;

      position.can_end = step (self, before, n, (guint8) tokens->text[at]);
      g_array_remove_range (self->threads, before, n - before);
    }
  if (self->threads->len == before && !position.can_end)
    return FALSE;
  g_array_append_val (self->positions, position);
  return TRUE;
}

void
llm_constraint_rollback (LlmConstraint *self,
                         guint          n)
{
  g_return_if_fail (n < self->positions->len);

  if (n == 0)
    return;
  g_array_set_size (self->threads,
                    g_array_index (self->positions, Position, self->positions->len - n).first);
  g_array_set_size (self->positions, self->positions->len - n);
}

guint
llm_constraint_get_n (const LlmConstraint *self)
{
  return self->positions->len - 1;
}

gboolean
llm_constraint_can_end (const LlmConstraint *self)
{
  return get_last (self)->can_end;
}

guint
llm_constraint_get_min_bytes (const LlmConstraint *self)
{
  const LlmGrammar *grammar = llm_mask_table_get_grammar (self->table);
  const Position *last = get_last (self);
  guint64 min = G_MAXUINT;

  if (last->can_end || last->first == self->threads->len)
    return 0;
  for (guint i = last->first; i < self->threads->len; i++)
    {
      const LlmThread *thread = &g_array_index (self->threads, LlmThread, i);
      guint64 n = grammar->states[thread->state].min_bytes;

      for (guint32 id = thread->stack; id != LLM_STACK_BOTTOM;)
        {
          const LlmFrame *frame = &g_array_index (self->stacks.frames, LlmFrame, id);

          n += grammar->states[frame->state].min_bytes;
          id = frame->below;
        }
      min = MIN (min, n);
    }
  return (guint) min;
}

gboolean
llm_constraint_limit_mask (LlmConstraint *self,
                           guint64       *bits,
                           guint          max_bytes)
{
  guint n_words = llm_constraint_get_n_words (self);
  guint n_frames = self->stacks.frames->len;
  g_autofree guint64 *left = g_new0 (guint64, n_words);
  gboolean has_one = FALSE;

  for (guint i = 0; i < n_words; i++)
    for (guint64 word = bits[i]; word != 0; word &= word - 1)
      {
        if (!llm_constraint_accept (self, (gint32) (i * 64) + __builtin_ctzll (word)))
          continue;
        if (llm_constraint_get_min_bytes (self) <= max_bytes)
          {
            left[i] |= word & -word;
            has_one = TRUE;
          }
        llm_constraint_rollback (self, 1);
        llm_stacks_truncate (&self->stacks, n_frames);
      }
  if (has_one)
    memcpy (bits, left, n_words * sizeof *bits);
  return has_one;
}
