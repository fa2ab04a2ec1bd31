/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The way along the inputs of a matrix, run after run, whatever pieces it was cut into:
 * where each run's parts are. The same for all panels. */

#pragma once

#include "kernels/llk-run.h"

#define MAX_PARTS (LLK_RUN / LLK_PIECE_INPUTS)

/* The part of a run that is in one piece. */
typedef struct
{
  const uint8_t *data;     /* of the first panel */
  size_t panel_bytes;
  size_t first, n;         /* inputs, of the run */
} RunPart;

typedef struct
{
  RunPart parts[MAX_PARTS];
  size_t n_parts;
  size_t n;                /* inputs of all parts */
  size_t n_rows;           /* of the first part, which has the most */
  size_t n_runs;           /* so many alike, one behind the other */
} RunParts;

typedef struct
{
  const LlkMatrix *w;
  LlkPanelShape shape;
  size_t input;            /* where the next run begins */
  size_t piece;
  size_t in_piece;         /* inputs of it that are done */
  size_t panel_bytes;      /* of it */
  size_t offset;           /* bytes of a panel of it that are done */
} Walk;

static inline void
walk_enter (Walk *walk)
{
  const LlkMatrix *w = walk->w;

  walk->in_piece = walk->offset = 0;
  while (walk->piece < w->n_pieces && w->pieces[walk->piece].n_in == 0)
    walk->piece++;
  if (walk->piece < w->n_pieces)
    walk->panel_bytes = llk_panel_bytes (w->type, walk->input, w->pieces[walk->piece].n_in);
}

static inline Walk
walk_begin (const LlkMatrix *w)
{
  Walk walk = { .w = w, .shape = llk_panel_shape (w->type) };

  walk_enter (&walk);
  return walk;
}

/* The next run; false behind the last. */
static inline bool
walk_on (Walk     *walk,
         RunParts *run)
{
  run->n_parts = run->n = 0;
  run->n_runs = 1;
  while (walk->piece < walk->w->n_pieces && run->n < LLK_RUN)
    {
      const LlkPiece *piece = &walk->w->pieces[walk->piece];
      const size_t left = piece->n_in - walk->in_piece;
      const size_t n = left < LLK_RUN - run->n ? left : LLK_RUN - run->n;

      if (run->n_parts == 0)
        run->n_rows = piece->n_rows;
      run->parts[run->n_parts++] = (RunPart) {
        (const uint8_t *) piece->panels + walk->offset, walk->panel_bytes, run->n, n,
      };
      run->n += n;
      walk->input += n;
      walk->in_piece += n;
      walk->offset += llk_panel_run_bytes (walk->shape, n);
      if (walk->in_piece == piece->n_in)
        {
          walk->piece++;
          walk_enter (walk);
        }
    }
  return run->n_parts > 0;
}

/* The next run and those behind it that are as whole, in the same piece. */
static inline bool
walk_far (Walk     *walk,
          RunParts *run)
{
  const bool has_more = walk_on (walk, run);

  if (!has_more || run->n_parts > 1 || run->n < LLK_RUN || walk->in_piece == 0)
    return has_more;
  run->n_runs += (walk->w->pieces[walk->piece].n_in - walk->in_piece) / LLK_RUN;
  walk->input += (run->n_runs - 1) * LLK_RUN;
  walk->in_piece += (run->n_runs - 1) * LLK_RUN;
  walk->offset += (run->n_runs - 1) * llk_panel_run_bytes (walk->shape, LLK_RUN);
  if (walk->in_piece == walk->w->pieces[walk->piece].n_in)
    {
      walk->piece++;
      walk_enter (walk);
    }
  return true;
}

/* Rows from @r on that go through the same pieces, at most @n. */
static inline size_t
count_alike (const LlkMatrix *w,
             size_t           r,
             size_t           n)
{
  for (size_t i = w->n_pieces; i-- > 0;)
    if (w->pieces[i].n_rows > r)
      return w->pieces[i].n_rows - r < n ? w->pieces[i].n_rows - r : n;
  return n;
}
