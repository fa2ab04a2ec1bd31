/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-channels.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "kernels/llk-channels.h"
#include "weights/llm-read-cost.h"
#include "weights/llm-repacked-private.h"

/* Above so many percent of active inputs, all are read in one piece instead. */
#define MOST_ACTIVE 75
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
  gboolean has_source;
  gboolean is_broken;      /* something could not be read: the whole weights are used */

  const LlmRepackedBundle *bundle;  /* (nullable): what is read, or being read */
  guint32 *codes_at;       /* (owned) [most inputs of a bundle]: by input, in memory */
  guint32 *active;         /* (owned) likewise: scratch */
  Request *requests;       /* (owned) likewise */
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
  LlmStreamFigures figures;
};

/* --- memory --- */

static void
count_heads (LlmChannels *self,
             gboolean     is_held)
{
  static const LlmHolder entries[] = { LLM_HOLDER_WEIGHTS, LLM_LEDGER_BACKED };

  for (guint i = 0; self->ledger != NULL && i < G_N_ELEMENTS (entries); i++)
    (is_held ? llm_ledger_add : llm_ledger_remove) (self->ledger, entries[i],
                                                    self->repacked->plan->matrix_bytes);
}

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

/* The records of inputs [@first, @end) of the bundle, of which @active are wanted. */
static void
read_records (LlmChannels   *self,
              guint          first,
              guint          end,
              const guint32 *active,
              guint          n_active)
{
  const LlmRepackedBundle *bundle = self->bundle;
  const guint64 records = self->repacked->plan->data_offset + bundle->offset;
  const guint64 from = records + (guint64) first * bundle->record_bytes;
  const guint64 behind = records + (guint64) end * bundle->record_bytes;
  const guint64 begin = from / LLM_DISK_SECTOR * LLM_DISK_SECTOR;
  const gsize length = (behind - begin + LLM_DISK_SECTOR - 1) / LLM_DISK_SECTOR * LLM_DISK_SECTOR;
  Request *request = &self->requests[self->n_requests++];

  for (guint i = 0; i < n_active; i++)
    self->codes_at[active[i]] =
      (guint32) (self->used_bytes + (records + (guint64) active[i] * bundle->record_bytes - begin));
  request->needed = behind - begin;
  self->n_reading++;
  self->source.read (self->source.data, self->fd, begin, self->memory + self->used_bytes, length,
                     on_read, request);
  use_memory (self, self->used_bytes + length);
}

static void
begin_reading (LlmChannels             *self,
               const LlmRepackedBundle *bundle,
               guint                    n_active)
{
  const guint gap = (guint) (llm_read_cost_get_gap (&self->cost) / bundle->record_bytes);
  const guint most = (guint) (MOST_BYTES / bundle->record_bytes);
  guint first = 0;

  self->bundle = bundle;
  self->code = 0;
  self->n_requests = 0;
  self->used_bytes = 0;
  self->is_new = TRUE;
  self->begun_us = llm_clock_now_us ();
  memset (self->codes_at, 0xff, bundle->in_count * sizeof *self->codes_at);
  for (guint i = 1; i <= n_active; i++)
    if (i == n_active || self->active[i] - self->active[i - 1] > 1 + gap
        || self->active[i] - self->active[first] >= most)
      {
        read_records (self, self->active[first], self->active[i - 1] + 1, self->active + first,
                      i - first);
        first = i;
      }
  self->figures.n_channels_read += n_active;
  self->figures.n_channels_left += bundle->in_count - n_active;
}

static void
give_up (LlmChannels *self,
         const char  *reason)
{
  self->is_broken = TRUE;
  self->bundle = NULL;
  g_message ("Weights are not read by channel any more: “%s”: %s", self->repacked->path, reason);
}

/* All of the bundle has arrived. */
static void
take_bundle (LlmChannels *self)
{
  const LlmRepackedBundle *bundle = self->bundle;
  const gint64 took_us = llm_clock_now_us () - self->begun_us;

  self->is_new = FALSE;
  if (!self->is_direct)
    (void) posix_fadvise (self->fd,
                          (off_t) (self->repacked->plan->data_offset + bundle->offset),
                          (off_t) bundle->in_count * bundle->record_bytes, POSIX_FADV_DONTNEED);
  if (self->code == ECANCELED)
    self->bundle = NULL;
  else if (self->code != 0)
    give_up (self, self->code == ENODATA ? "it is shorter than it was" : g_strerror (self->code));
  for (guint i = 0; self->bundle != NULL && i < bundle->in_count; i++)
    if (self->codes_at[i] != LLK_NO_CHANNEL
        && !llm_repacked_check_record (bundle, self->memory + self->codes_at[i]))
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
      if (n_active > bundle->in_count / 100.0 * MOST_ACTIVE || self->n_leases > 0
          || self->n_reading > 0)
        {
          self->figures.n_whole_bundles++;
          return LLM_READY;
        }
      begin_reading (self, bundle, n_active);
    }
  if (self->n_reading > 0)
    return LLM_PENDING;
  if (self->is_new)
    take_bundle (self);
  if (self->bundle == NULL)
    return LLM_READY;
  self->n_leases++;
  view->data = self->repacked->data + matrix->offset;
  view->layout = LLM_LAYOUT_CHANNELS;
  view->codes = self->memory + matrix->codes_at;
  view->codes_at = self->codes_at;
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

gboolean
llm_channels_check (LlmChannels  *self,
                    GError      **error)
{
  LlmFileMap *map = self->repacked->map;
  LlmFileIdentity mapped, now;

  if (self->has_source && llm_file_map_get_identity (map, &mapped)
      && llm_file_identity_read (llm_file_map_get_fd (map), &now)
      && (mapped.size != now.size || mapped.modified_s != now.modified_s
          || mapped.modified_ns != now.modified_ns))
    llm_file_map_set_damaged (map);
  return !llm_file_map_is_damaged (map)
         || llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                      "The prepared copy “%s” of the model was changed while it was in use: what was "
                      "computed with it since is worthless", self->repacked->path);
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
                         const LlmWeightSource *source)
{
  if (self->has_source)
    {
      stop_reading (self);
      llm_channels_trim (self);
      count_heads (self, FALSE);
    }
  self->has_source = source != NULL;
  if (source == NULL)
    {
      llm_file_map_drop (self->repacked->map, 0, llm_file_map_get_size (self->repacked->map));
      return;
    }
  self->source = *source;
  llm_file_map_prefetch (self->repacked->map, self->repacked->plan->data_offset,
                         self->repacked->plan->matrix_bytes);
  count_heads (self, TRUE);
}

guint64
llm_channels_get_head_bytes (LlmChannels *self)
{
  return self->has_source ? self->repacked->plan->matrix_bytes : 0;
}

/* Heads come from the mapping, whose pieces nobody else compares; codes have sums of their own. */
static gboolean
check_heads (LlmChannels *self)
{
  const LlmRepackedPlan *plan = self->repacked->plan;

  for (guint i = 0; self->repacked->checksums != NULL && i * LLM_REPACKED_PIECE < plan->matrix_bytes;
       i++)
    if (XXH3_64bits (self->repacked->data + i * LLM_REPACKED_PIECE,
                     llm_repacked_plan_get_piece (plan, i)) != self->repacked->checksums[i])
      return FALSE;
  return TRUE;
}

/* Memory for the largest bundle, with what is around each request; and for its inputs. */
static gboolean
make_room (LlmChannels *self)
{
  const GArray *bundles = self->repacked->plan->bundles;
  guint most = 0;

  for (guint i = 0; i < bundles->len; i++)
    {
      const LlmRepackedBundle *bundle = &g_array_index (bundles, LlmRepackedBundle, i);

      if (bundle->record_bytes > MOST_BYTES)
        return FALSE;
      most = MAX (most, bundle->in_count);
      self->reserved_bytes = MAX (self->reserved_bytes,
                                  (gsize) bundle->in_count
                                    * (bundle->record_bytes + 2 * LLM_DISK_SECTOR));
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
  self->requests = g_new (Request, most);
  for (guint i = 0; i < most; i++)
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
  if (!check_heads (self))
    {
      llm_repacked_set_damaged (self->repacked);
      return llm_fail_null (error, LLMSVC_ERROR_STORAGE,
                            "The prepared copy “%s” is damaged on the disk and was removed: it is "
                            "made anew with the next call", self->repacked->path);
    }
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
      llm_channels_set_source (self, NULL);
      llm_repacked_end (self->repacked, FALSE);
    }
  if (self->memory != NULL)
    munmap (self->memory, self->reserved_bytes);
  if (self->fd >= 0)
    close (self->fd);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self->codes_at);
  g_free (self->active);
  g_free (self->requests);
  g_free (self);
}
