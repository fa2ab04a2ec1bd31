/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-weight-stream.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gi18n.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "io/llm-file-map.h"

/* Size of a request: enough for the disk to read at full speed, and for the requests under way to
 * last while a stage computes. */
#define READ_BYTES ((gsize) 512 << 10)
/* Calls of acquire(). A range that was PENDING and was not asked for again for so long is not
 * waited for any more: the step that needed it has ended. A range that found no buffer so often is
 * used from the mapping. */
#define PATIENCE 64
#define POISON 0xa5
/* The read rate is measured over about this much waiting; a step that has not asked again for so
 * long did other work meanwhile. */
#define MEASURED_US (2.0 * G_USEC_PER_SEC)
#define MAX_GAP_US  50000

G_STATIC_ASSERT (READ_BYTES <= LLM_DISK_MAX_INTO);

typedef enum
{
  ABSENT,
  READING,
  ARRIVED,
} State;

typedef struct
{
  LlmWeightStream *stream;
  guint64 offset;        /* of the first block that holds it */
  gsize skipped;         /* bytes of that block before it */
  gsize needed;          /* bytes from offset on */
  gsize place;           /* of its buffer in the ring, unless absent */
  State state;
  int code;              /* errno of its read, until it is reported */
  guint n_reading;       /* requests that are not answered */
  gsize n_read;          /* bytes that came so far */
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
  LlmWeightSource source;
  LlmStreamConfig config;
  int fd;                /* (owned) */
  char *name;
  gboolean is_direct;    /* bytes that are read do not stay in the page cache */
  Range *ranges;         /* (owned), in the order of a pass */
  guint n_ranges;
  guint n_streaming;
  guint n_readers;
  guint n_leases;
  guint n_reading;       /* requests */
  guint next;            /* after the range that was asked for last: read-ahead begins there */
  guint64 n_asked;       /* calls of acquire() */
  guint64 n_granted;     /* of those, with a lease */

  guint8 *reserved;      /* (owned), while the ring exists: its addresses */
  guint8 *memory;        /* (nullable): the ring */
  gsize bytes;
  gsize cursor;          /* behind the buffer that was placed last */
  GPtrArray *placed;     /* (element-type Range): those with a buffer, by place */
  gboolean is_ending;    /* nothing more is read ahead */

  gint64 waited_us;      /* when a step last had to wait; 0: the last did not */
  guint64 waited_bytes;  /* bytes read until then */
  double measured_us;    /* sums of the time waited, and the bytes read in it; both decay */
  double measured_bytes;
  guint64 pass_bytes;    /* of all that streams */

  LlmLedger *ledger;     /* (nullable) (owned) */
  LlmStreamFigures figures;
};

/* --- the ring's memory --- */

static gsize
round_up (gsize n,
          gsize multiple)
{
  return (n + multiple - 1) / multiple * multiple;
}

static gsize
get_size (const Range *range)
{
  return round_up (range->needed, LLM_DISK_BLOCK);
}

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
  g_assert (range->n_leases == 0 && range->n_reading == 0);
  if (self->config.poisons)
    memset (self->memory + range->place, POISON, get_size (range));
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
  if (range->n_leases > 0 || range->n_reading > 0
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
  gsize size = get_size (range);

  *place = first;
  for (guint i = 0; i < self->placed->len; i++)
    {
      const Range *other = g_ptr_array_index (self->placed, i);
      gsize end = other->place + get_size (other);

      if (other->place >= *place + size)
        break;
      if (end > *place && !gives_way (self, other, range, is_needed))
        *place = end;
    }
  return *place + size <= self->bytes;
}

static void on_read (gssize        n,
                     const guint8 *buffer,
                     gpointer      data);

/* Gives @range a buffer and begins to read it. */
static gboolean
place_range (LlmWeightStream *self,
             Range           *range,
             gboolean         is_needed)
{
  gsize size = get_size (range), place;
  guint at = 0;

  if (!find_place (self, range, is_needed, self->cursor, &place)
      && !find_place (self, range, is_needed, 0, &place))
    return FALSE;
  while (at < self->placed->len)
    {
      Range *other = g_ptr_array_index (self->placed, at);

      if (other->place >= place + size)
        break;
      if (other->place + get_size (other) <= place)
        at++;
      else
        evict (self, other);
    }
  g_ptr_array_insert (self->placed, (gint) at, range);
  range->place = place;
  range->state = READING;
  range->code = 0;
  range->n_read = 0;
  range->n_uses = 0;
  self->cursor = place + size;
  range->n_reading = (guint) ((size + READ_BYTES - 1) / READ_BYTES);
  self->n_reading += range->n_reading;
  for (gsize done = 0; done < size; done += READ_BYTES)
    self->source.read (self->source.data, self->fd, range->offset + done,
                       self->memory + place + done, MIN (READ_BYTES, size - done), on_read, range);
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

      if (range->streams && !range->is_skipped && range->state == ABSENT && range->code == 0
          && get_size (range) <= self->bytes && !place_range (self, range, FALSE))
        break;
    }
}

static void
on_read (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  Range *range = data;
  LlmWeightStream *self = range->stream;

  self->n_reading--;
  self->figures.n_rests += self->n_reading == 0;
  range->n_reading--;
  if (n < 0)
    range->code = (int) -n;
  else
    range->n_read += (gsize) n;
  self->figures.read_bytes += n > 0 ? (guint64) n : 0;
  if (range->n_reading > 0)
    return;

  if (!self->is_direct)
    (void) posix_fadvise (self->fd, (off_t) range->offset, (off_t) get_size (range),
                          POSIX_FADV_DONTNEED);
  if (range->code == 0 && range->n_read >= range->needed)
    range->state = ARRIVED;
  else
    {
      /* the file was truncated */
      if (range->code == 0)
        range->code = ENODATA;
      evict (self, range);
      if (range->code == ECANCELED)
        range->code = 0;
    }
}

/* --- leases --- */

void
llm_weight_stream_poll (LlmWeightStream *self)
{
  if (self->n_reading > 0)
    self->source.poll (self->source.data, 0);
  read_ahead (self);
}

LlmStatus
llm_weight_stream_fail (const char  *name,
                        int          code,
                        GError     **error)
{
  llm_fail (error, LLMSVC_ERROR_FAILED,
            "The model's weights can't be read from “%s”: %s. Try again; if it fails each time, "
            "remove that file, which is made anew when the model is loaded", name,
            code == ENODATA ? N_("the file is shorter than it was") : g_strerror (code));
  return LLM_FAILED;
}

static LlmStatus
fail_reading (LlmWeightStream  *self,
              Range            *range,
              GError          **error)
{
  int code = range->code;

  range->code = 0;
  range->asked = 0;
  return llm_weight_stream_fail (self->name, code, error);
}

/* The read rate is measured only while a step waits. While a stage computes, arrived reads are not
 * taken, and the disk may be idle. */
static void
measure (LlmWeightStream *self,
         gboolean         waits)
{
  gint64 now_us = llm_clock_now_us ();

  if (self->waited_us > 0 && now_us - self->waited_us < MAX_GAP_US)
    {
      self->measured_us += (double) (now_us - self->waited_us);
      self->measured_bytes += (double) (self->figures.read_bytes - self->waited_bytes);
    }
  if (self->measured_us > MEASURED_US)
    {
      self->measured_us /= 2;
      self->measured_bytes /= 2;
    }
  self->waited_us = waits ? now_us : 0;
  self->waited_bytes = self->figures.read_bytes;
}

LlmStatus
llm_weight_stream_acquire (LlmWeightStream  *self,
                           guint             number,
                           const guint8    **data,
                           GError          **error)
{
  Range *range = &self->ranges[number];

  *data = NULL;
  if (get_size (range) > self->bytes || !make_ring (self))
    {
      self->figures.n_mapped++;
      return LLM_READY;
    }
  self->n_asked++;
  self->next = (number + 1) % self->n_ranges;
  if (self->n_reading > 0)
    self->source.poll (self->source.data, 0);
  if (range->state == ABSENT && range->code != 0)
    return fail_reading (self, range, error);
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
      *data = self->memory + range->place + range->skipped;
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
  range->code = 0;
  self->n_streaming += streams ? 1u : -1u;
  self->pass_bytes += streams ? get_size (range) : -get_size (range);
}

void
llm_weight_stream_skip (LlmWeightStream *self,
                        guint            number,
                        gboolean         skips)
{
  self->ranges[number].is_skipped = skips;
}

void
llm_weight_stream_set_readers (LlmWeightStream *self,
                               guint            n_readers)
{
  for (guint i = 0; n_readers > self->n_readers && i < self->placed->len; i++)
    ((Range *) g_ptr_array_index (self->placed, i))->n_uses = 0;
  self->n_readers = n_readers;
}

/* Requests that still wait in the queue come back as cancelled. */
static void
stop_reading (LlmWeightStream *self)
{
  self->is_ending = TRUE;
  for (guint i = 0; i < self->n_ranges; i++)
    if (self->ranges[i].n_reading > 0)
      self->source.cancel (self->source.data, &self->ranges[i]);
  while (self->n_reading > 0)
    self->source.poll (self->source.data, G_USEC_PER_SEC);
  self->is_ending = FALSE;
}

guint64
llm_weight_stream_trim (LlmWeightStream *self)
{
  guint64 bytes = self->figures.ring_bytes;

  if (self->memory == NULL || self->n_leases > 0)
    return 0;
  stop_reading (self);
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
  figures->pass_bytes = self->pass_bytes;
  if (self->measured_bytes > 0)
    figures->pass_us = (double) self->pass_bytes * self->measured_us / self->measured_bytes;
}

/* --- making --- */

LlmWeightStream *
llm_weight_stream_new (const LlmWeightSource *source,
                       const LlmStreamConfig *config,
                       int                    fd,
                       const char            *name,
                       const LlmStreamRange  *ranges,
                       guint                  n_ranges,
                       LlmLedger             *ledger)
{
  LlmWeightStream *self = g_new0 (LlmWeightStream, 1);

  self->source = *source;
  self->config = *config;
  self->fd = fd;
  self->name = g_strdup (name);
  self->is_direct = (fcntl (fd, F_GETFL) & O_DIRECT) != 0;
  self->ranges = g_new0 (Range, n_ranges);
  self->n_ranges = n_ranges;
  self->bytes = round_up (config->bytes, LLM_DISK_BLOCK);
  for (guint i = 0; i < n_ranges; i++)
    {
      Range *range = &self->ranges[i];

      range->stream = self;
      range->offset = ranges[i].offset / LLM_DISK_BLOCK * LLM_DISK_BLOCK;
      range->skipped = (gsize) (ranges[i].offset - range->offset);
      range->needed = range->skipped + (gsize) ranges[i].length;
      self->bytes = MAX (self->bytes, get_size (range));
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
  close (self->fd);
  g_free (self->name);
  g_free (self->ranges);
  g_free (self);
}
