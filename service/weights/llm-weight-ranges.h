/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The memory of weights as ranges, in the order in which they stay (llm-weights.h). A leased range
 * is needed, whole; of the others the first bytes in that order are, and the pages of all other
 * bytes are reclaimed. The provider owns all of it, and knows what the ranges hold. The executor's
 * thread.
 */

#pragma once

#include "weights/llm-weights.h"

typedef struct
{
  LlmFileMap *map;   /* (nullable) (unowned): NULL for memory of this process */
  guint64 offset;    /* in it */
  guint64 length;
  guint64 start;     /* bytes of all ranges before it */
  guint segment;
  guint place;       /* index in by_place */
  guint in_pass;     /* place in the order of a pass + 1; 0: it can't stream */
  guint n_leases;
} LlmWeightRange;

typedef struct
{
  GArray *ranges;      /* (element-type LlmWeightRange), in order */
  GArray *by_place;    /* (element-type guint): the same by map and offset */
  guint64 bytes;       /* of all ranges */
  guint64 kept;        /* bytes from the beginning on that were not dropped */
  guint64 staying;     /* bytes from the beginning on that stay after their use */
  guint64 over;        /* of leased ranges, after the kept ones */
  LlmFileMap *sparse;  /* (nullable) (unowned): only small, scattered parts of this are used */
} LlmWeightRanges;

void            llm_weight_ranges_init    (LlmWeightRanges *self);
void            llm_weight_ranges_clear   (LlmWeightRanges *self);
/* Adds a range after the others; returns its number, from 0. */
guint           llm_weight_ranges_add     (LlmWeightRanges *self,
                                           LlmFileMap      *map,
                                           guint64          offset,
                                           guint64          length,
                                           guint            segment);
/* Called after the last: all is kept, and stays. @sparse: (nullable). */
void            llm_weight_ranges_end     (LlmWeightRanges *self,
                                           LlmFileMap      *sparse);

static inline LlmWeightRange *
llm_weight_ranges_get (const LlmWeightRanges *self,
                       guint                  i)
{
  return &g_array_index (self->ranges, LlmWeightRange, i);
}

/* The @place-th by map and offset. */
static inline LlmWeightRange *
llm_weight_ranges_get_at (const LlmWeightRanges *self,
                          guint                  place)
{
  return llm_weight_ranges_get (self, g_array_index (self->by_place, guint, place));
}

/* Bytes that count as held: kept, or leased. */
static inline guint64
llm_weight_ranges_get_held (const LlmWeightRanges *self)
{
  return self->kept + self->over;
}

/* Appends the held parts of files to @pieces, of LlmWeightPiece. */
void            llm_weight_ranges_list    (const LlmWeightRanges *self,
                                           GArray          *pieces);

/* Has the kernel read [@begin, @end) ahead, counted in the order of the ranges. */
void            llm_weight_ranges_prefetch (const LlmWeightRanges *self,
                                           guint64          begin,
                                           guint64          end);
/* The range is needed until as many calls of unlease(). With @is_read all of it is used, from its
 * mapping: if not all weights stay, the kernel is asked to read it at once. */
void            llm_weight_ranges_lease   (LlmWeightRanges *self,
                                           LlmWeightRange  *range,
                                           gboolean         is_read);
void            llm_weight_ranges_unlease (LlmWeightRanges *self,
                                           LlmWeightRange  *range);

/* Of which the kernel has the last @bytes that are in memory, or a little more, of files and not
 * leased, behind as many kept bytes: those. @resident: (out): bytes in memory behind them. */
guint64         llm_weight_ranges_find_tail (const LlmWeightRanges *self,
                                           guint64          bytes,
                                           guint64         *resident);
/* Bytes in memory of files behind the first @bytes, and not leased. Takes some milliseconds. */
guint64         llm_weight_ranges_count_resident (const LlmWeightRanges *self,
                                           guint64          bytes);
/* Keeps the first @bytes; reclaims those after them that are of files, or counts them again. */
void            llm_weight_ranges_set_kept (LlmWeightRanges *self,
                                           guint64          bytes);
/* The same of what stays after use. */
void            llm_weight_ranges_set_staying (LlmWeightRanges *self,
                                           guint64          bytes);
