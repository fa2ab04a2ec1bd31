/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-channels.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "kernels/llk-channels.h"
#include "weights/llm-read-cost.h"
#include "weights/llm-repacked-private.h"

/* Of a bundle, that may be read in pieces: else all of it is used whole. */
#define MOST_SHARE 0.95
/* One bundle in so many is read in as many pieces as it has, whatever is known of the storage: where all are
 * read alike, nothing is learned, and what is known may be wrong by now. */
#define TRY_BUNDLES 32
/* Of a request, in whole blocks and with what is around it. */
#define MOST_BYTES ((gsize) LLM_DISK_MAX_BYTES - 2 * LLM_DISK_BLOCK)

typedef struct
{
  LlmChannels *channels;
  gsize needed;            /* bytes */
} Request;

struct _LlmChannels
{
  LlmRepacked *repacked;   /* (owned): of a file */
  int fd;                  /* (owned), past the page cache where that can be */
  gboolean is_direct;
  LlmLedger *ledger;       /* (nullable) (owned) */
  LlmWeightSource source;
  gboolean has_source, always;
  gboolean is_broken;      /* something could not be read: the whole weights are used */

  const LlmRepackedBundle *bundle;  /* (nullable): what is read, or being read */
  guint32 *codes_at;       /* (owned) [most inputs of a bundle]: by input, in memory */
  guint32 *heads_at;       /* (owned) [matrices of the plan]: those of this bundle, likewise */
  guint32 *active;         /* (owned) likewise: scratch */
  Request *requests;       /* (owned) [most of a bundle] */
  guint n_requests, n_reading;
  guint n_leases;
  gboolean is_new;         /* arrived, and not looked at */
  int code;                /* errno of a read */

  guint8 *memory;          /* (nullable): reserved addresses */
  gsize reserved_bytes;
  gsize used_bytes;        /* of this bundle */
  gsize held_bytes;        /* that bundles have used */
  gint64 begun_us;
  LlmReadCost cost;
  guint n_asked;           /* bundles so far */
  const LlmRepackedBundle *refused; /* (nullable): the last one that was not worth it, and its active inputs */
  guint n_refused_active;
  LlmStreamFigures figures;
};

/* --- memory --- */

static void
use_memory (LlmChannels *self,
            gsize        bytes)
{
  self->used_bytes = bytes;
  if (bytes <= self->held_bytes)
    return;
  if (self->ledger != NULL)
    llm_ledger_add (self->ledger, LLM_HOLDER_WEIGHTS, bytes - self->held_bytes);
  self->held_bytes = bytes;
}

guint64
llm_channels_trim (LlmChannels *self)
{
  guint64 freed = self->held_bytes;

  if (self->memory == NULL || self->n_leases > 0 || self->n_reading > 0)
    return 0;
  self->bundle = NULL;
  madvise (self->memory, self->held_bytes, MADV_DONTNEED);
  if (self->ledger != NULL)
    llm_ledger_remove (self->ledger, LLM_HOLDER_WEIGHTS, self->held_bytes);
  self->held_bytes = 0;
  return freed;
}

/* --- reading --- */

static void
on_read (gssize        n,
         const guint8 *buffer,
         gpointer      data)
{
  Request *request = data;
  LlmChannels *self = request->channels;

  self->n_reading--;
  if (n < 0)
    self->code = (int) -n;
  else if ((gsize) n < request->needed)
    self->code = ENODATA;
  self->figures.read_bytes += n > 0 ? (guint64) n : 0;
  self->figures.channel_bytes += n > 0 ? (guint64) n : 0;
}

/* Bytes of the matrices, counted as theirs are; where the first of them will be in memory. */
static guint32
read_bytes (LlmChannels *self,
            guint64      offset,
            guint64      length)
{
  const guint64 from = self->repacked->plan->data_offset + offset;
  const guint64 begin = from / LLM_DISK_SECTOR * LLM_DISK_SECTOR;
  const gsize whole =
    (from + length - begin + LLM_DISK_SECTOR - 1) / LLM_DISK_SECTOR * LLM_DISK_SECTOR;
  const gsize place = self->used_bytes;
  Request *request = &self->requests[self->n_requests++];

  request->needed = from + length - begin;
  self->n_reading++;
  use_memory (self, place + whole);
  self->source.read (self->source.data, self->fd, begin, self->memory + place, whole, on_read, request);
  return (guint32) (place + (from - begin));
}

/* One behind the other in memory, so that pieces meet where blocks of the file do. */
static guint32
read_heads (LlmChannels             *self,
            const LlmRepackedMatrix *matrix)
{
  const guint64 data = self->repacked->plan->data_offset;
  const guint64 end = matrix->offset + (guint64) matrix->n_panels * matrix->panel_bytes;
  guint32 first = 0;
  guint64 next;

  for (guint64 at = matrix->offset; at < end; at = next)
    {
      guint32 place;

      next = MIN (end, (data + at) / MOST_BYTES * MOST_BYTES + MOST_BYTES - data);
      place = read_bytes (self, at, next - at);
      if (at == matrix->offset)
        first = place;
    }
  return first;
}

/* Active inputs that are read together, from number @first of them on, with at most @gap others between
 * two: the first behind them. */
static guint
find_run (const LlmChannels       *self,
          const LlmRepackedBundle *bundle,
          guint                    first,
          guint                    n_active,
          guint                    gap)
{
  const guint most = (guint) (MOST_BYTES / bundle->record_bytes);
  guint end = first + 1;

  while (end < n_active && self->active[end] - self->active[end - 1] <= 1 + gap
         && self->active[end] - self->active[first] < most)
    end++;
  return end;
}

/* Whether reading these is worth it; (out) @gap: of find_run(). */
static gboolean
pays (LlmChannels             *self,
      const LlmRepackedBundle *bundle,
      guint                    n_active,
      guint                   *gap)
{
  guint n = 0, next;

  *gap = 0;
  if (self->always)
    return TRUE;
  if (++self->n_asked % TRY_BUNDLES != 0)
    *gap = (guint) (llm_read_cost_get_gap (&self->cost) / bundle->record_bytes);
  for (guint i = 0; i < n_active; i = next)
    {
      next = find_run (self, bundle, i, n_active, *gap);
      n += self->active[next - 1] + 1 - self->active[i];
    }
  return n < MOST_SHARE * bundle->in_count;
}

static void
begin_reading (LlmChannels             *self,
               const LlmRepackedBundle *bundle,
               guint                    n_active,
               guint                    gap)
{
  const LlmRepackedPlan *plan = self->repacked->plan;
  guint next;

  self->bundle = bundle;
  self->code = 0;
  self->n_requests = 0;
  self->used_bytes = 0;
  self->is_new = TRUE;
  self->begun_us = llm_clock_now_us ();
  memset (self->codes_at, 0xff, bundle->in_count * sizeof *self->codes_at);
  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmRepackedMatrix *matrix = &g_array_index (plan->matrices, LlmRepackedMatrix, i);

      if (&g_array_index (plan->bundles, LlmRepackedBundle, matrix->bundle) == bundle)
        self->heads_at[i] = read_heads (self, matrix);
    }
  for (guint i = 0; i < n_active; i = next)
    {
      const guint32 first = self->active[i];
      guint32 place;

      next = find_run (self, bundle, i, n_active, gap);
      place = read_bytes (self, bundle->offset + (guint64) first * bundle->record_bytes,
                          (guint64) (self->active[next - 1] + 1 - first) * bundle->record_bytes);
      for (guint k = i; k < next; k++)
        self->codes_at[self->active[k]] = place + (self->active[k] - first) * bundle->record_bytes;
    }
  self->figures.n_channels_read += n_active;
  self->figures.n_channels_left += bundle->in_count - n_active;
}

static void
give_up (LlmChannels *self,
         const char  *reason)
{
  self->is_broken = TRUE;
  llm_channels_trim (self);
  self->bundle = NULL;
  g_message ("Weights are not read by channel any more: “%s”: %s", self->repacked->path, reason);
}

static gboolean
is_intact (const LlmChannels *self)
{
  const LlmRepackedPlan *plan = self->repacked->plan;
  const LlmRepackedBundle *bundle = self->bundle;

  for (guint i = 0; i < bundle->in_count; i++)
    if (self->codes_at[i] != LLK_NO_CHANNEL
        && !llm_repacked_check_record (bundle, self->memory + self->codes_at[i]))
      return FALSE;
  for (guint i = 0; i < plan->matrices->len; i++)
    {
      const LlmRepackedMatrix *matrix = &g_array_index (plan->matrices, LlmRepackedMatrix, i);

      for (guint p = 0;
           &g_array_index (plan->bundles, LlmRepackedBundle, matrix->bundle) == bundle
           && p < matrix->n_panels;
           p++)
        if (!llm_repacked_check_heads (matrix, self->memory + self->heads_at[i]
                                                 + p * matrix->panel_bytes))
          return FALSE;
    }
  return TRUE;
}

/* All of the bundle has arrived. */
static void
take_bundle (LlmChannels *self)
{
  const gint64 took_us = llm_clock_now_us () - self->begun_us;

  self->is_new = FALSE;
  if (!self->is_direct)
    (void) posix_fadvise (self->fd, 0, 0, POSIX_FADV_DONTNEED);
  if (self->code == ECANCELED)
    self->bundle = NULL;
  else if (self->code != 0)
    give_up (self, self->code == ENODATA ? "it is shorter than it was" : g_strerror (self->code));
  else if (!is_intact (self))
    {
      unlink (self->repacked->path);
      give_up (self, "it is damaged on the disk, and was removed");
    }
  llm_read_cost_add (&self->cost, self->n_requests, (double) self->used_bytes, (double) took_us);
}

/* --- what is active --- */

static guint
find_active (LlmChannels             *self,
             const LlmRepackedBundle *bundle,
             const LlmActivation     *activation)
{
  guint n = 0;

  for (guint i = 0; i < bundle->in_count; i++)
    {
      gboolean is_active = FALSE;

      for (guint r = 0; !is_active && r < activation->n_rows; r++)
        is_active = activation->values[(gsize) r * activation->n_in + bundle->in_first + i] != 0;
      self->active[n] = i;
      n += is_active;
    }
  return n;
}

/* Whether all that is active is read, or being read. */
static gboolean
has_active (const LlmChannels       *self,
            const LlmRepackedBundle *bundle,
            guint                    n_active)
{
  if (self->bundle != bundle)
    return FALSE;
  for (guint i = 0; i < n_active; i++)
    if (self->codes_at[self->active[i]] == LLK_NO_CHANNEL)
      return FALSE;
  return TRUE;
}

/* --- leases --- */

LlmStatus
llm_channels_acquire (LlmChannels         *self,
                      LlmOperator          op,
                      guint                layer,
                      guint                segment,
                      const LlmActivation *activation,
                      LlmWeightView       *view)
{
  const LlmRepackedPlan *plan = self->repacked->plan;
  const LlmRepackedMatrix *matrix = llm_repacked_plan_find (plan, op, layer, segment);
  const LlmRepackedBundle *bundle;
  guint n_active;

  if (matrix == NULL || !self->has_source || self->is_broken)
    return LLM_READY;
  if (self->n_reading > 0)
    self->source.poll (self->source.data, 0);
  bundle = &g_array_index (plan->bundles, LlmRepackedBundle, matrix->bundle);
  n_active = find_active (self, bundle, activation);
  if (!has_active (self, bundle, n_active))
    {
      guint gap;

      /* whole weights are on their way: it is asked for again with each answer of the disk */
      if (self->refused == bundle && self->n_refused_active == n_active)
        return LLM_READY;
      if (self->n_leases > 0 || self->n_reading > 0 || !pays (self, bundle, n_active, &gap))
        {
          self->refused = bundle;
          self->n_refused_active = n_active;
          return LLM_READY;
        }
      begin_reading (self, bundle, n_active, gap);
    }
  self->refused = NULL;
  if (self->n_reading > 0)
    return LLM_PENDING;
  if (self->is_new)
    take_bundle (self);
  if (self->bundle == NULL)
    return LLM_READY;
  self->n_leases++;
  view->data = self->memory
               + self->heads_at[matrix - (const LlmRepackedMatrix *) (gpointer) plan->matrices->data];
  view->row_bytes = matrix->panel_bytes;
  view->layout = LLM_LAYOUT_CHANNELS;
  view->codes = self->memory + matrix->codes_at;
  view->codes_at = self->codes_at + (matrix->shape.in_first - bundle->in_first);
  return LLM_READY;
}

void
llm_channels_release (LlmChannels *self)
{
  g_return_if_fail (self->n_leases > 0);
  if (--self->n_leases == 0 && !self->has_source)
    llm_channels_trim (self);
}

void
llm_channels_add_figures (LlmChannels      *self,
                          LlmStreamFigures *figures)
{
  llm_stream_figures_add_counts (figures, &self->figures);
}

/* --- making --- */

/* Requests that still wait in the queue come back as cancelled. */
static void
stop_reading (LlmChannels *self)
{
  for (guint i = 0; self->n_reading > 0 && i < self->n_requests; i++)
    self->source.cancel (self->source.data, &self->requests[i]);
  while (self->n_reading > 0)
    self->source.poll (self->source.data, G_USEC_PER_SEC);
  self->bundle = NULL;
}

void
llm_channels_set_source (LlmChannels           *self,
                         const LlmWeightSource *source,
                         gboolean               always)
{
  self->always = always;
  if (self->has_source)
    {
      stop_reading (self);
      llm_channels_trim (self);
    }
  self->has_source = source != NULL;
  if (source != NULL)
    self->source = *source;
}

gboolean
llm_channels_are_used (LlmChannels *self)
{
  return self->has_source;
}

gboolean
llm_channels_are_broken (LlmChannels *self)
{
  return self->is_broken;
}

gboolean
llm_channels_have (LlmChannels *self,
                   LlmOperator  op,
                   guint        layer,
                   guint        segment)
{
  return !self->is_broken
         && llm_repacked_plan_find (self->repacked->plan, op, layer, segment) != NULL;
}

/* Memory for the largest bundle, with what is around each request; and for its inputs. */
static gboolean
make_room (LlmChannels *self)
{
  const LlmRepackedPlan *plan = self->repacked->plan;
  guint most = 0, most_requests = 0;

  for (guint i = 0; i < plan->bundles->len; i++)
    {
      const LlmRepackedBundle *bundle = &g_array_index (plan->bundles, LlmRepackedBundle, i);
      guint n_requests = bundle->in_count;
      gsize bytes = (gsize) bundle->in_count * bundle->record_bytes;

      if (bundle->record_bytes > MOST_BYTES)
        return FALSE;
      for (guint k = 0; k < plan->matrices->len; k++)
        {
          const LlmRepackedMatrix *matrix = &g_array_index (plan->matrices, LlmRepackedMatrix, k);
          gsize heads = (gsize) matrix->n_panels * matrix->panel_bytes;

          if (matrix->bundle != i)
            continue;
          bytes += heads;
          n_requests += (guint) (heads / MOST_BYTES) + 2;
        }
      most = MAX (most, bundle->in_count);
      most_requests = MAX (most_requests, n_requests);
      self->reserved_bytes =
        MAX (self->reserved_bytes, bytes + (gsize) n_requests * 2 * LLM_DISK_SECTOR);
    }
  if (self->reserved_bytes >= LLK_NO_CHANNEL)
    return FALSE;
  self->memory = mmap (NULL, self->reserved_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (self->memory == MAP_FAILED)
    self->memory = NULL;
  else
    madvise (self->memory, self->reserved_bytes, MADV_DONTDUMP);
  self->codes_at = g_new (guint32, most);
  self->active = g_new (guint32, most + 1);
  self->heads_at = g_new (guint32, plan->matrices->len);
  self->requests = g_new (Request, most_requests);
  for (guint i = 0; i < most_requests; i++)
    self->requests[i].channels = self;
  return self->memory != NULL;
}

LlmChannels *
llm_channels_new (LlmGguf             *gguf,
                  const LlmHparams    *hparams,
                  const LlmSubModels  *sub_models,
                  LlmRepackedCache    *cache,
                  guint                n_threads,
                  LlmLedger           *ledger,
                  GError             **error)
{
  g_autoptr(LlmRepackedPlan) plan =
    llm_repacked_plan_new_channels (gguf, hparams, sub_models, error);
  g_autoptr(LlmRepackedPlan) main = NULL;
  g_autoptr(LlmChannels) self = NULL;
  g_autofree char *path = NULL;
  g_autoptr(GError) cause = NULL;

  if (plan == NULL)
    return NULL;
  if (plan->matrices->len == 0)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "This model has no weights that can be read by channel");
  main = llm_repacked_plan_new (gguf, hparams, sub_models, NULL, error);
  if (main == NULL)
    return NULL;
  /* the model's own copy matters more */
  llm_repacked_cache_spare (cache, main);
  self = g_new0 (LlmChannels, 1);
  self->fd = -1;
  self->repacked = llm_repacked_cache_get_file (cache, plan, n_threads, &cause);
  if (self->repacked == NULL)
    return llm_fail_null (error, LLMSVC_ERROR_STORAGE,
                          "No prepared copy of the weights by channel could be kept: %s",
                          cause != NULL ? cause->message : "no folder is set for copies");
  path = g_strdup_printf ("/proc/self/fd/%d", llm_file_map_get_fd (self->repacked->map));
  self->fd = open (path, O_RDONLY | O_CLOEXEC | O_DIRECT);
  self->is_direct = self->fd >= 0;
  if (self->fd < 0)
    self->fd = open (path, O_RDONLY | O_CLOEXEC);
  if (self->fd < 0)
    return llm_fail_null (error, LLMSVC_ERROR_STORAGE, "“%s” can't be opened: %s",
                          self->repacked->path, g_strerror (errno));
  if (!make_room (self))
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "The model's matrices are too large to be read by channel");
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  return g_steal_pointer (&self);
}

void
llm_channels_free (LlmChannels *self)
{
  if (self == NULL)
    return;
  g_return_if_fail (self->n_leases == 0);
  if (self->repacked != NULL)
    {
      llm_channels_set_source (self, NULL, FALSE);
      llm_repacked_end (self->repacked, FALSE);
    }
  if (self->memory != NULL)
    munmap (self->memory, self->reserved_bytes);
  if (self->fd >= 0)
    close (self->fd);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self->codes_at);
  g_free (self->heads_at);
  g_free (self->active);
  g_free (self->requests);
  g_free (self);
}
