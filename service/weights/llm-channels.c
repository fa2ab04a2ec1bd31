/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-channels.h"

#include <errno.h>
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

struct _LlmChannels
{
  LlmRepacked *repacked;   /* (owned): of a file */
  LlmWeightReader *reader; /* (owned) */
  LlmLedger *ledger;       /* (nullable) (owned) */
  gboolean always;
  gboolean is_broken;      /* something could not be read: the whole weights are used */

  const LlmRepackedBundle *bundle;  /* (nullable): what is read, or being read */
  guint32 *codes_at;       /* (owned) [most inputs of a bundle]: by input, in memory */
  guint32 *heads_at;       /* (owned) [matrices of the plan]: those of this bundle, likewise */
  guint32 *active;         /* (owned) likewise: scratch */
  LlmReadPiece *pieces;  /* (owned) [most of a bundle] */
  guint n_pieces;
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

  if (self->memory == NULL || self->n_leases > 0 || llm_weight_reader_count (self->reader) > 0)
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
on_read (LlmReadPiece *piece)
{
  LlmChannels *self = piece->owner;

  if (piece->code != 0)
    self->code = piece->code;
}

/* Bytes of the matrices, counted as theirs are; where the first of them will be in memory. */
static guint32
read_bytes (LlmChannels *self,
            guint64      offset,
            guint64      length)
{
  LlmReadPiece *piece = &self->pieces[self->n_pieces++];
  const gsize place = self->used_bytes;

  llm_read_piece_init (piece, self->repacked->plan->data_offset + offset, length, LLM_DISK_SECTOR, self);
  use_memory (self, place + piece->bytes);
  llm_weight_reader_read (self->reader, piece, self->memory + place, on_read);
  return (guint32) (place + piece->skipped);
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
  self->n_pieces = 0;
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
  if (self->code == ECANCELED)
    self->bundle = NULL;
  else if (self->code != 0)
    give_up (self, self->code == ENODATA ? "it is shorter than it was" : g_strerror (self->code));
  else if (!is_intact (self))
    {
      unlink (self->repacked->path);
      give_up (self, "it is damaged on the disk, and was removed");
    }
  llm_read_cost_add (&self->cost, self->n_pieces, (double) self->used_bytes, (double) took_us);
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

  if (matrix == NULL || !llm_weight_reader_has_source (self->reader) || self->is_broken)
    return LLM_READY;
  llm_weight_reader_poll (self->reader);
  bundle = &g_array_index (plan->bundles, LlmRepackedBundle, matrix->bundle);
  n_active = find_active (self, bundle, activation);
  if (!has_active (self, bundle, n_active))
    {
      guint gap;

      /* whole weights are on their way: it is asked for again with each answer of the disk */
      if (self->refused == bundle && self->n_refused_active == n_active)
        return LLM_READY;
      if (self->n_leases > 0 || llm_weight_reader_count (self->reader) > 0 || !pays (self, bundle, n_active, &gap))
        {
          self->refused = bundle;
          self->n_refused_active = n_active;
          return LLM_READY;
        }
      begin_reading (self, bundle, n_active, gap);
    }
  self->refused = NULL;
  if (llm_weight_reader_count (self->reader) > 0)
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
  if (--self->n_leases == 0 && !llm_channels_are_used (self))
    llm_channels_trim (self);
}

void
llm_channels_add_figures (LlmChannels      *self,
                          LlmStreamFigures *figures)
{
  llm_stream_figures_add_counts (figures, &self->figures);
  figures->read_bytes += llm_weight_reader_get_bytes (self->reader);
  figures->channel_bytes += llm_weight_reader_get_bytes (self->reader);
}

/* --- making --- */

void
llm_channels_set_source (LlmChannels           *self,
                         const LlmWeightSource *source,
                         gboolean               always)
{
  self->always = always;
  llm_weight_reader_stop (self->reader);
  self->bundle = NULL;
  llm_channels_trim (self);
  llm_weight_reader_set_source (self->reader, source);
}

gboolean
llm_channels_are_used (LlmChannels *self)
{
  return llm_weight_reader_has_source (self->reader);
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
  guint most = 0, most_pieces = 0;

  for (guint i = 0; i < plan->bundles->len; i++)
    {
      const LlmRepackedBundle *bundle = &g_array_index (plan->bundles, LlmRepackedBundle, i);
      guint n_pieces = bundle->in_count;
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
          n_pieces += (guint) (heads / MOST_BYTES) + 2;
        }
      most = MAX (most, bundle->in_count);
      most_pieces = MAX (most_pieces, n_pieces);
      self->reserved_bytes =
        MAX (self->reserved_bytes, bytes + (gsize) n_pieces * 2 * LLM_DISK_SECTOR);
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
  self->pieces = g_new (LlmReadPiece, most_pieces);
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
  self->repacked = llm_repacked_cache_get_file (cache, plan, n_threads, &cause);
  if (self->repacked == NULL)
    return llm_fail_null (error, LLMSVC_ERROR_STORAGE,
                          "No prepared copy of the weights by channel could be kept: %s",
                          cause != NULL ? cause->message : "no folder is set for copies");
  self->reader =
    llm_weight_reader_new (llm_file_map_get_fd (self->repacked->map), self->repacked->path);
  if (self->reader == NULL)
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
  if (self->reader != NULL)
    llm_channels_set_source (self, NULL, FALSE);
  llm_weight_reader_free (self->reader);
  if (self->repacked != NULL)
    llm_repacked_end (self->repacked, FALSE);
  if (self->memory != NULL)
    munmap (self->memory, self->reserved_bytes);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_free (self->codes_at);
  g_free (self->heads_at);
  g_free (self->active);
  g_free (self->pieces);
  g_free (self);
}
