/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-weight-ranges.h"

#include <unistd.h>

/* Gaps of a file up to this size go with their ranges: the padding of tensors and segments. */
#define GAP_BYTES 4096

void
llm_weight_ranges_init (LlmWeightRanges *self)
{
  *self = (LlmWeightRanges) {
    .ranges = g_array_new (FALSE, FALSE, sizeof (LlmWeightRange)),
    .by_place = g_array_new (FALSE, FALSE, sizeof (guint)),
  };
}

void
llm_weight_ranges_clear (LlmWeightRanges *self)
{
  g_array_unref (self->ranges);
  g_array_unref (self->by_place);
}

guint
llm_weight_ranges_add (LlmWeightRanges *self,
                       LlmFileMap      *map,
                       guint64          offset,
                       guint64          length,
                       guint            segment)
{
  LlmWeightRange range = {
    .map = map,
    .offset = offset,
    .length = length,
    .start = self->bytes,
    .segment = segment,
  };
  guint i = self->ranges->len;

  g_array_append_val (self->ranges, range);
  g_array_append_val (self->by_place, i);
  self->bytes += length;
  return i;
}

/* If not all weights stay, pages that the kernel reads beyond a range would only take room. */
static void
set_random (const LlmWeightRanges *self)
{
  LlmFileMap *last = NULL;

  for (guint place = 0; place < self->by_place->len; place++)
    {
      LlmFileMap *map = llm_weight_ranges_get_at (self, place)->map;

      if (map != NULL && map != last)
        llm_file_map_set_random (map, map == self->sparse
                                        || MIN (self->kept, self->staying) < self->bytes);
      last = map;
    }
}

static gint
compare_places (gconstpointer a,
                gconstpointer b,
                gpointer      data)
{
  const LlmWeightRange *x = llm_weight_ranges_get (data, *(const guint *) a);
  const LlmWeightRange *y = llm_weight_ranges_get (data, *(const guint *) b);

  if (x->map != y->map)
    return x->map < y->map ? -1 : 1;
  return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void
llm_weight_ranges_end (LlmWeightRanges *self,
                       LlmFileMap      *sparse)
{
  g_array_sort_with_data (self->by_place, compare_places, self);
  for (guint place = 0; place < self->by_place->len; place++)
    llm_weight_ranges_get_at (self, place)->place = place;
  self->kept = self->staying = self->bytes;
  self->sparse = sparse;
  set_random (self);
}

/* --- what is needed --- */

/* How many bytes of its beginning are among the first @bytes of all. */
static guint64
get_first (const LlmWeightRange *range,
           guint64               bytes)
{
  return CLAMP (bytes, range->start, range->start + range->length) - range->start;
}

static guint64
get_needed (const LlmWeightRanges *self,
            const LlmWeightRange  *range)
{
  return range->n_leases > 0 ? range->length
                             : get_first (range, MIN (self->kept, self->staying));
}

static gboolean
is_file (const LlmWeightRange *range)
{
  return range->map != NULL && llm_file_map_get_fd (range->map) >= 0;
}

void
llm_weight_ranges_list (const LlmWeightRanges *self,
                        GArray                *pieces)
{
  for (guint i = 0; i < self->ranges->len; i++)
    {
      const LlmWeightRange *range = llm_weight_ranges_get (self, i);

      if (range->map != NULL)
        llm_weights_add_piece (pieces, range->map, range->offset,
                               range->n_leases > 0 ? range->length
                                                   : get_first (range, self->kept));
    }
}

/* --- reading ahead --- */

void
llm_weight_ranges_prefetch (const LlmWeightRanges *self,
                            guint64                begin,
                            guint64                end)
{
  g_autoptr(GArray) pieces = llm_weights_new_pieces ();

  for (guint i = 0; i < self->ranges->len; i++)
    {
      const LlmWeightRange *range = llm_weight_ranges_get (self, i);
      guint64 skipped = get_first (range, begin);

      if (range->map != NULL)
        llm_weights_add_piece (pieces, range->map, range->offset + skipped,
                               get_first (range, end) - skipped);
    }
  for (guint i = 0; i < pieces->len; i++)
    {
      const LlmWeightPiece *piece = &g_array_index (pieces, LlmWeightPiece, i);

      llm_file_map_prefetch (piece->map, piece->offset, piece->length);
    }
}

/* --- reclaiming --- */

/* Reclaims the unneeded bytes of neighbours by place, @first to @last: all of them but the
 * beginning of @first. Pages that they share with needed bytes stay; with @is_read_on, also those
 * shared with the next range, and then it must not take long. */
static void
reclaim (const LlmWeightRanges *self,
         guint                  first,
         guint                  last,
         gboolean               is_read_on)
{
  const guint64 page = (guint64) sysconf (_SC_PAGESIZE);
  const LlmWeightRange *range = llm_weight_ranges_get_at (self, first);
  const LlmWeightRange *end_range = llm_weight_ranges_get_at (self, last);
  guint64 needed = get_needed (self, range);
  guint64 begin = range->offset + needed;
  guint64 end = end_range->offset + end_range->length;
  guint64 begin_page = begin / page * page;
  guint64 end_page = (end + page - 1) / page * page;

  for (guint i = first; needed == 0 && i-- > 0;)
    {
      const LlmWeightRange *other = llm_weight_ranges_get_at (self, i);

      if (other->map != range->map || other->offset + other->length <= begin_page)
        break;
      needed = get_needed (self, other);
    }
  begin = needed == 0 ? begin_page : begin;

  needed = 0;
  for (guint i = last + 1; needed == 0 && i < self->by_place->len; i++)
    {
      const LlmWeightRange *other = llm_weight_ranges_get_at (self, i);

      if (other->map != range->map || other->offset >= end_page)
        break;
      needed = is_read_on ? other->length : get_needed (self, other);
    }
  end = needed == 0 ? end_page : end;
  if (is_read_on)
    llm_file_map_drop (range->map, begin, end - begin);
  else
    llm_file_map_drop_exactly (range->map, begin, end - begin);
}

/* Whether the gap between them is smaller than a page. */
static gboolean
touches (const LlmWeightRanges *self,
         guint                  place)
{
  const LlmWeightRange *range = llm_weight_ranges_get_at (self, place);
  const LlmWeightRange *next = llm_weight_ranges_get_at (self, place + 1);

  return next->map == range->map
         && next->offset < range->offset + range->length + GAP_BYTES;
}

/* Reclaims what is not needed any more in [@from, @to) of all: runs of the file at once. */
static void
reclaim_all (const LlmWeightRanges *self,
             guint64                from,
             guint64                to)
{
  for (guint first = 0, last; first < self->by_place->len; first = last + 1)
    {
      const LlmWeightRange *range = llm_weight_ranges_get_at (self, first);

      last = first;
      if (!is_file (range) || get_needed (self, range) == range->length
          || range->start + range->length <= from || range->start >= to)
        continue;
      while (last + 1 < self->by_place->len && touches (self, last)
             && get_needed (self, llm_weight_ranges_get_at (self, last + 1)) == 0)
        last++;
      reclaim (self, first, last, FALSE);
    }
}

guint64
llm_weight_ranges_find_tail (const LlmWeightRanges *self,
                             guint64                bytes,
                             guint64               *resident)
{
  guint64 kept = self->kept;

  *resident = 0;
  for (guint i = self->ranges->len; i-- > 0 && *resident < bytes;)
    {
      const LlmWeightRange *range = llm_weight_ranges_get (self, i);
      guint64 first, found;

      if (range->start >= kept)
        continue;
      if (!is_file (range))
        break;
      first = range->offset;
      if (range->n_leases == 0)
        {
          first = llm_file_map_find_resident_tail (range->map, first,
                                                   first + (kept - range->start),
                                                   bytes - *resident, &found);
          *resident += found;
        }
      kept = range->start + (first - range->offset);
    }
  return kept;
}

guint64
llm_weight_ranges_count_resident (const LlmWeightRanges *self,
                                  guint64                bytes)
{
  g_autoptr(GArray) pieces = llm_weights_new_pieces ();

  for (guint i = 0; i < self->ranges->len; i++)
    {
      const LlmWeightRange *range = llm_weight_ranges_get (self, i);
      guint64 first = get_first (range, bytes);

      if (is_file (range) && range->n_leases == 0)
        llm_weights_add_piece (pieces, range->map, range->offset + first, range->length - first);
    }
  return llm_weights_count_resident (pieces);
}

void
llm_weight_ranges_set_kept (LlmWeightRanges *self,
                            guint64          bytes)
{
  guint64 before = self->kept;

  self->kept = bytes;
  self->over = 0;
  for (guint i = 0; i < self->ranges->len; i++)
    {
      const LlmWeightRange *range = llm_weight_ranges_get (self, i);

      if (range->n_leases > 0)
        self->over += range->length - get_first (range, bytes);
    }
  set_random (self);
  if (bytes < before)
    reclaim_all (self, bytes, before);
}

void
llm_weight_ranges_set_staying (LlmWeightRanges *self,
                               guint64          bytes)
{
  guint64 before = self->staying;

  if (bytes == before)
    return;
  self->staying = bytes;
  set_random (self);
  if (bytes < before)
    reclaim_all (self, bytes, before);
}

/* --- leases --- */

void
llm_weight_ranges_lease (LlmWeightRanges *self,
                         LlmWeightRange  *range,
                         gboolean         is_read)
{
  if (range->n_leases++ == 0)
    self->over += range->length - get_first (range, self->kept);
  if (is_read && MIN (self->kept, self->staying) < self->bytes && range->map != NULL)
    llm_file_map_prefetch (range->map, range->offset, range->length);
}

/* When the next range is read on, the page that they share is reclaimed with that one; and the rest
 * of earlier ranges goes with it, because the kernel reclaims large folios only as a whole. */
void
llm_weight_ranges_unlease (LlmWeightRanges *self,
                           LlmWeightRange  *range)
{
  gboolean is_read_on = range->start + range->length <= self->kept;
  guint first = range->place;

  g_return_if_fail (range->n_leases > 0);
  if (--range->n_leases > 0)
    return;
  self->over -= range->length - get_first (range, self->kept);
  if (!is_file (range) || get_needed (self, range) == range->length)
    return;
  while (is_read_on && first > 0 && touches (self, first - 1)
         && get_needed (self, llm_weight_ranges_get_at (self, first)) == 0
         && get_needed (self, llm_weight_ranges_get_at (self, first - 1)) == 0
         && llm_weight_ranges_get_at (self, first - 1)->offset + LLM_FILE_MAP_HUGE > range->offset)
    first--;
  reclaim (self, first, range->place, is_read_on);
}
