/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-stream-sums.h"

#include <xxhash.h>

typedef struct
{
  guint64 next;          /* end of the last bytes */
  gboolean is_whole;     /* the current piece arrived without a gap up to there */
  XXH3_state_t *state;   /* (owned) */
} Cursor;

struct _LlmStreamSums
{
  const LlmRepackedPlan *plan;
  const guint64 *checksums;
  Cursor *cursors;       /* (owned), by segment */
  guint8 *is_good;       /* (owned), by piece */
  guint n_left;
};

LlmStreamSums *
llm_stream_sums_new (const LlmRepackedPlan *plan,
                     const guint64         *checksums)
{
  LlmStreamSums *self = g_new0 (LlmStreamSums, 1);

  self->plan = plan;
  self->checksums = checksums;
  self->cursors = g_new0 (Cursor, plan->n_segments);
  for (guint i = 0; i < plan->n_segments; i++)
    {
      self->cursors[i].next = G_MAXUINT64;
      self->cursors[i].state = XXH3_createState ();
    }
  self->is_good = g_new0 (guint8, plan->n_pieces);
  self->n_left = plan->n_pieces;
  return self;
}

void
llm_stream_sums_free (LlmStreamSums *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->plan->n_segments; i++)
    XXH3_freeState (self->cursors[i].state);
  g_free (self->cursors);
  g_free (self->is_good);
  g_free (self);
}

static void
begin_at (LlmStreamSums *self,
          Cursor        *cursor,
          guint64        offset,
          const guint8  *mapped)
{
  guint64 first = offset / LLM_REPACKED_PIECE * LLM_REPACKED_PIECE;

  XXH3_64bits_reset (cursor->state);
  cursor->is_whole = offset == first || mapped != NULL;
  if (offset > first && mapped != NULL && !self->is_good[offset / LLM_REPACKED_PIECE])
    XXH3_64bits_update (cursor->state, mapped + first, offset - first);
  cursor->next = offset;
}

/* Adds @data up to @end, where pieces may end. FALSE when one of these is damaged. */
static gboolean
add (LlmStreamSums *self,
     Cursor        *cursor,
     const guint8  *data,
     guint64        end)
{
  while (cursor->next < end)
    {
      guint piece = (guint) (cursor->next / LLM_REPACKED_PIECE);
      guint64 piece_end =
        piece * LLM_REPACKED_PIECE + llm_repacked_plan_get_piece (self->plan, piece);
      guint64 to = MIN (end, piece_end);

      if (!self->is_good[piece] && cursor->is_whole)
        XXH3_64bits_update (cursor->state, data, to - cursor->next);
      data += to - cursor->next;
      cursor->next = to;
      if (to < piece_end)
        break;
      if (!self->is_good[piece] && cursor->is_whole)
        {
          if (XXH3_64bits_digest (cursor->state) != self->checksums[piece])
            return FALSE;
          self->is_good[piece] = TRUE;
          self->n_left--;
        }
      cursor->is_whole = TRUE;
      XXH3_64bits_reset (cursor->state);
    }
  return TRUE;
}

gboolean
llm_stream_sums_take (LlmStreamSums *self,
                      guint          segment,
                      guint64        offset,
                      const guint8  *data,
                      guint64        length,
                      const guint8  *before,
                      const guint8  *behind)
{
  Cursor *cursor = &self->cursors[segment];
  guint piece = (guint) ((offset + length) / LLM_REPACKED_PIECE);

  if (self->n_left == 0)
    return TRUE;
  if (cursor->next != offset)
    begin_at (self, cursor, offset, before);
  if (!add (self, cursor, data, offset + length))
    return FALSE;
  if (behind == NULL || cursor->next % LLM_REPACKED_PIECE == 0 || cursor->next == self->plan->bytes
      || !cursor->is_whole || self->is_good[piece])
    return TRUE;
  return add (self, cursor, behind + cursor->next,
              piece * LLM_REPACKED_PIECE + llm_repacked_plan_get_piece (self->plan, piece));
}

guint
llm_stream_sums_count (LlmStreamSums *self)
{
  return self->n_left;
}
