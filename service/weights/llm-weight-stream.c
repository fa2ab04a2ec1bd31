/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-weight-stream.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/llm-clock.h"
#include "io/llm-file-map.h"

/* Calls of acquire(). A range that was PENDING and was not asked for again for so long is not
 * waited for any more: the step that needed it has ended. A range that found no buffer so often is
 * used from the mapping. */
#define PATIENCE 64
#define POISON 0xa5
/* The read rate is measured over about this much waiting; a step that has not asked again for so
 * long did other work meanwhile. */
#define MEASURED_US (2.0 * G_USEC_PER_SEC)
#define MAX_GAP_US  50000

typedef enum
{
  ABSENT,
  READING,
  ARRIVED,
} State;

typedef struct
{
  LlmReadPiece piece;  /* of the stream; with the errno of its read, until it is reported */
  gsize place;           /* of its buffer in the ring, unless absent */
  State state;
  guint n_leases;
  guint n_uses;          /* leases since it was read, or since the pass began */
  guint n_denied;        /* acquire() calls that found no buffer */
  guint64 denied_at;     /* n_granted then */
  guint64 asked;         /* number of the acquire() call that found it PENDING; 0: no step waits for
                          * it */
  gboolean streams;
  gboolean is_skipped;   /* not read ahead */
} Range;

struct _LlmWeightStream
{
  LlmWeightReader *reader; /* (owned) */
  LlmStreamConfig config;
  Range *ranges;         /* (owned), in the order of a pass */
  guint n_ranges;
  guint n_streaming;
  guint n_readers;
  guint n_leases;
  guint next;            /* after the range that was asked for last: read-ahead begins there */
  guint64 n_asked;       /* calls of acquire() */
  guint64 n_granted;     /* of those, with a lease */

  guint8 *reserved;      /* (owned), while the ring exists: its addresses */
  guint8 *memory;        /* (nullable): the ring */
  gsize bytes;
  gsize cursor;          /* behind the buffer that was placed last */
  GPtrArray *placed;     /* (element-type Range): those with a buffer, by place */
  gboolean is_ending;    /* nothing more is read ahead */

  guint n_skipped;       /* ranges */
  gint64 waited_us;      /* when a step last had to wait; 0: the last did not */
  guint64 waited_bytes;  /* bytes read until then */
  double measured_us;    /* sums of the time waited, and the bytes read in it; both decay */
  double measured_bytes;
  guint64 pass_bytes;    /* of all that streams */

  LlmLedger *ledger;     /* (nullable) (owned) */
  LlmStreamFigures figures;
};

/* --- the ring's memory --- */

/* Pinned where that is allowed, in huge pages where possible; left out of core dumps, because it
 * can be read again. */
static gboolean
make_ring (LlmWeightStream *self)
{
  guint8 *reserved;
  gsize over;

  if (self->memory != NULL)
    return TRUE;
  reserved = mmap (NULL, self->bytes + LLM_FILE_MAP_HUGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED)
    return FALSE;
  self->reserved = reserved;
  over = (guintptr) reserved % LLM_FILE_MAP_HUGE;
  self->memory = reserved + (over > 0 ? LLM_FILE_MAP_HUGE - over : 0);
  madvise (self->memory, self->bytes, MADV_HUGEPAGE);
  madvise (self->memory, self->bytes, MADV_DONTDUMP);
  (void) !mlock (self->memory, self->bytes);
  self->cursor = 0;
  self->figures.ring_bytes = self->bytes;
  if (self->ledger != NULL)
    llm_ledger_add (self->ledger, LLM_HOLDER_WEIGHTS, self->bytes);
  return TRUE;
}

static void
free_ring (LlmWeightStream *self)
{
  if (self->memory == NULL)
    return;
  munmap (self->reserved, self->bytes + LLM_FILE_MAP_HUGE);
  self->memory = NULL;
  self->figures.ring_bytes = 0;
  if (self->ledger != NULL)
    llm_ledger_remove (self->ledger, LLM_HOLDER_WEIGHTS, self->bytes);
}

/* --- buffers --- */

static void
evict (LlmWeightStream *self,
       Range           *range)
{
  g_assert (range->n_leases == 0 && range->piece.n_reading == 0);
  if (self->config.poisons)
    memset (self->memory + range->place, POISON, range->piece.bytes);
  g_ptr_array_remove (self->placed, range);
  range->state = ABSENT;
}

/* Number of ranges that are used before this one, from the one asked for last on. */
static guint
get_distance (const LlmWeightStream *self,
              const Range           *range)
{
  guint i = (guint) (range - self->ranges);

  return range->streams && !range->is_skipped ? (i + self->n_ranges - self->next) % self->n_ranges : G_MAXUINT;
}

/* Whether @range is evicted for @other. A range that a step waits for stays until the step has it,
 * or has not asked for long, so that two steps don't take each other's buffers in turn. A range
 * that one step has used stays for those that are behind it, unless @other was asked for and waited
 * long enough. */
static gboolean
gives_way (const LlmWeightStream *self,
           const Range           *range,
           const Range           *other,
           gboolean               is_needed)
{
  if (range->n_leases > 0 || range->piece.n_reading > 0
      || (range->asked > 0 && self->n_asked - range->asked < PATIENCE))
    return FALSE;
  if (range->streams && range->n_uses > 0 && range->n_uses < self->n_readers
      && other->n_denied < PATIENCE / 2)
    return FALSE;
  return is_needed || get_distance (self, range) > get_distance (self, other);
}

/* A place for @range, from @first on. */
static gboolean
find_place (const LlmWeightStream *self,
            const Range           *range,
            gboolean               is_needed,
            gsize                  first,
            gsize                 *place)
{
  gsize size = range->piece.bytes;

  *place = first;
  for (guint i = 0; i < self->placed->len; i++)
    {
      const Range *other = g_ptr_array_index (self->placed, i);
      gsize end = other->place + other->piece.bytes;

      if (other->place >= *place + size)
        break;
      if (end > *place && !gives_way (self, other, range, is_needed))
        *place = end;
    }
  return *place + size <= self->bytes;
}

static void
on_read (LlmReadPiece *piece)
{
  LlmWeightStream *self = piece->owner;
  /* the piece is its first member */
  Range *range = (Range *) piece;

  self->figures.n_rests += llm_weight_reader_count (self->reader) == 0;
  if (piece->code == 0)
    range->state = ARRIVED;
  else
    {
      evict (self, range);
      if (piece->code == ECANCELED)
        piece->code = 0;
    }
}

/* Gives @range a buffer and begins to read it. */
static gboolean
place_range (LlmWeightStream *self,
             Range           *range,
             gboolean         is_needed)
{
  gsize size = range->piece.bytes, place;
  guint at = 0;

  if (!find_place (self, range, is_needed, self->cursor, &place)
      && !find_place (self, range, is_needed, 0, &place))
    return FALSE;
  while (at < self->placed->len)
    {
      Range *other = g_ptr_array_index (self->placed, at);

      if (other->place >= place + size)
        break;
      if (other->place + other->piece.bytes <= place)
        at++;
      else
        evict (self, other);
    }
  g_ptr_array_insert (self->placed, (gint) at, range);
  range->place = place;
  range->state = READING;
  range->n_uses = 0;
  self->cursor = place + size;
  llm_weight_reader_read (self->reader, &range->piece, self->memory + place, on_read);
  return TRUE;
}

/* Reads ahead in the order of a pass, while it finds buffers that are not needed earlier. */
static void
read_ahead (LlmWeightStream *self)
{
  if (self->memory == NULL || self->is_ending || self->n_streaming == 0)
    return;
  for (guint n = 0; n < self->n_ranges; n++)
    {
      Range *range = &self->ranges[(self->next + n) % self->n_ranges];

      if (range->streams && !range->is_skipped && range->state == ABSENT && range->piece.code == 0
          && range->piece.bytes <= self->bytes && !place_range (self, range, FALSE))
        break;
    }
}

/* --- leases --- */

void
llm_weight_stream_poll (LlmWeightStream *self)
{
  llm_weight_reader_poll (self->reader);
  read_ahead (self);
}

/* The read rate is measured only while a step waits. While a stage computes, arrived reads are not
 * taken, and the disk may be idle; and where ranges are skipped, it has others to serve. */
static void
measure (LlmWeightStream *self,
         gboolean         waits)
{
  const guint64 n_bytes = llm_weight_reader_get_bytes (self->reader);
  gint64 now_us = llm_clock_now_us ();

  if (self->waited_us > 0 && now_us - self->waited_us < MAX_GAP_US)
    {
      self->measured_us += (double) (now_us - self->waited_us);
      self->measured_bytes += (double) (n_bytes - self->waited_bytes);
    }
  if (self->measured_us > MEASURED_US)
    {
      self->measured_us /= 2;
      self->measured_bytes /= 2;
    }
  self->waited_us = waits && self->n_skipped == 0 ? now_us : 0;
  self->waited_bytes = n_bytes;
}

LlmStatus
llm_weight_stream_acquire (LlmWeightStream  *self,
                           guint             number,
                           const guint8    **data,
                           GError          **error)
{
  Range *range = &self->ranges[number];

  *data = NULL;
  if (range->piece.bytes > self->bytes || !make_ring (self))
    {
      self->figures.n_mapped++;
      return LLM_READY;
    }
  self->n_asked++;
  self->next = (number + 1) % self->n_ranges;
  llm_weight_reader_poll (self->reader);
  if (range->state == ABSENT && range->piece.code != 0)
    {
      LlmStatus status = llm_weight_reader_fail (self->reader, &range->piece, error);

      range->piece.code = 0;
      range->asked = 0;
      return status;
    }
  if (range->state == ABSENT && !place_range (self, range, TRUE))
    {
      /* steps that are behind in the same pass continue first */
      if (self->n_readers > 1 && range->denied_at != self->n_granted)
        range->n_denied = 0;
      range->denied_at = self->n_granted;
      if (++range->n_denied < PATIENCE)
        return LLM_PENDING;
      range->n_denied = 0;
      self->figures.n_mapped++;
      return LLM_READY;
    }
  range->n_denied = 0;
  range->asked = range->state == ARRIVED ? 0 : self->n_asked;
  if (range->state == ARRIVED)
    {
      range->n_leases++;
      range->n_uses++;
      self->n_leases++;
      self->n_granted++;
      *data = self->memory + range->place + range->piece.skipped;
    }
  read_ahead (self);
  measure (self, range->state != ARRIVED);
  return range->state == ARRIVED ? LLM_READY : LLM_PENDING;
}

void
llm_weight_stream_release (LlmWeightStream *self,
                           guint            number)
{
  Range *range = &self->ranges[number];

  g_return_if_fail (range->n_leases > 0);
  self->n_leases--;
  if (--range->n_leases > 0)
    return;
  if (self->config.poisons && range->n_uses >= self->n_readers)
    evict (self, range);
  if (self->n_streaming == 0)
    llm_weight_stream_settle (self);
  else
    llm_weight_stream_poll (self);
}

gboolean
llm_weight_stream_owns (LlmWeightStream *self,
                        gconstpointer    data)
{
  return self->memory != NULL && (const guint8 *) data >= self->memory
         && (const guint8 *) data < self->memory + self->bytes;
}

/* --- what streams --- */

void
llm_weight_stream_set (LlmWeightStream *self,
                       guint            number,
                       gboolean         streams)
{
  Range *range = &self->ranges[number];

  if (range->streams == streams)
    return;
  range->streams = streams;
  range->piece.code = 0;
  self->n_streaming += streams ? 1u : -1u;
  self->pass_bytes += streams ? range->piece.bytes : -range->piece.bytes;
}

void
llm_weight_stream_skip (LlmWeightStream *self,
                        guint            number,
                        gboolean         skips)
{
  gboolean *is_skipped = &self->ranges[number].is_skipped;

  if (*is_skipped == skips)
    return;
  *is_skipped = skips;
  self->n_skipped += skips ? 1u : -1u;
}

void
llm_weight_stream_set_readers (LlmWeightStream *self,
                               guint            n_readers)
{
  for (guint i = 0; n_readers > self->n_readers && i < self->placed->len; i++)
    ((Range *) g_ptr_array_index (self->placed, i))->n_uses = 0;
  self->n_readers = n_readers;
}

guint64
llm_weight_stream_trim (LlmWeightStream *self)
{
  guint64 bytes = self->figures.ring_bytes;

  if (self->memory == NULL || self->n_leases > 0)
    return 0;
  self->is_ending = TRUE;
  llm_weight_reader_stop (self->reader);
  self->is_ending = FALSE;
  while (self->placed->len > 0)
    evict (self, g_ptr_array_index (self->placed, self->placed->len - 1));
  for (guint i = 0; i < self->n_ranges; i++)
    self->ranges[i].asked = 0;
  free_ring (self);
  return bytes;
}

void
llm_weight_stream_settle (LlmWeightStream *self)
{
  if (self->n_streaming == 0)
    llm_weight_stream_trim (self);
}

void
llm_weight_stream_get_figures (LlmWeightStream  *self,
                               LlmStreamFigures *figures)
{
  *figures = self->figures;
  figures->read_bytes = llm_weight_reader_get_bytes (self->reader);
  figures->pass_bytes = self->pass_bytes;
  if (self->measured_bytes > 0)
    figures->pass_us = (double) self->pass_bytes * self->measured_us / self->measured_bytes;
}

/* --- making --- */

LlmWeightStream *
llm_weight_stream_new (LlmWeightReader       *reader,
                       const LlmStreamConfig *config,
                       const LlmStreamRange  *ranges,
                       guint                  n_ranges,
                       LlmLedger             *ledger)
{
  LlmWeightStream *self = g_new0 (LlmWeightStream, 1);

  self->reader = reader;
  self->config = *config;
  self->ranges = g_new0 (Range, n_ranges);
  self->n_ranges = n_ranges;
  self->bytes = (config->bytes + LLM_DISK_BLOCK - 1) / LLM_DISK_BLOCK * LLM_DISK_BLOCK;
  for (guint i = 0; i < n_ranges; i++)
    {
      llm_read_piece_init (&self->ranges[i].piece, ranges[i].offset, ranges[i].length, LLM_DISK_BLOCK,
                           self);
      self->bytes = MAX (self->bytes, self->ranges[i].piece.bytes);
    }
  self->placed = g_ptr_array_new ();
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  return self;
}

void
llm_weight_stream_free (LlmWeightStream *self)
{
  if (self == NULL)
    return;
  g_return_if_fail (self->n_leases == 0);
  llm_weight_stream_trim (self);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_ptr_array_unref (self->placed);
  llm_weight_reader_free (self->reader);
  g_free (self->ranges);
  g_free (self);
}
