/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-read-forecast.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "base/llm-clock.h"
#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "weights/llm-weight-reader.h"
#include "weights/llm-weights-file-private.h"

/* The reads of a probe: so many at once of each size, by turns for so long; then many large ones. */
#define LARGE_BYTES ((guint64) 4 << 20)
#define N_LARGE 8
#define N_STREAM 96
#define N_SMALL 1024
#define ROUND_US (G_USEC_PER_SEC / 4)
#define N_ROUNDS 4
/* As in a bundle half of whose inputs are active. */
#define SMALL_STEP 2
/* Any number that has no factor in common with a number of places spreads batches over them. */
#define SPREAD 7919

/* --- what reads cost --- */

typedef struct
{
  LlmWeightReader *reader;
  guint8 *memory;
  gsize bytes;             /* of it */
  LlmReadPiece pieces[MAX (N_STREAM, N_SMALL)];
  int code;
} Probe;

static void
on_read (LlmReadPiece *piece)
{
  Probe *self = piece->owner;

  if (piece->code != 0)
    self->code = piece->code;
}

/* @n pieces of @bytes, from number @at of @n_places behind @first on, by @step of them, in whole blocks of
 * @block. Microseconds until all are there. What is read is not looked at, and may overwrite itself. */
static double
read_batch (Probe    *self,
            guint     n,
            guint64   bytes,
            gsize     block,
            guint64   first,
            guint64   n_places,
            guint64   at,
            guint64   step)
{
  const gsize room = ((gsize) bytes / block + 2) * block;
  const gint64 begun_us = llm_clock_now_us ();

  for (guint i = 0; i < n; i++)
    {
      llm_read_piece_init (&self->pieces[i], first + (at + i * step) % n_places * bytes, bytes, block,
                           self);
      llm_weight_reader_read (self->reader, &self->pieces[i],
                              self->memory + i % (self->bytes / room) * room, on_read);
    }
  while (llm_weight_reader_count (self->reader) > 0)
    llm_weight_reader_wait (self->reader);
  return (double) (llm_clock_now_us () - begun_us);
}

/* Of the channels' records, by the bytes that a pass reads of them. */
static guint64
get_record_bytes (const LlmRepackedPlan *plan)
{
  double sum = 0, n = 0;

  for (guint i = 0; i < plan->bundles->len; i++)
    {
      const LlmRepackedBundle *bundle = &g_array_index (plan->bundles, LlmRepackedBundle, i);

      sum += (double) bundle->in_count * bundle->record_bytes;
      n += bundle->in_count;
    }
  return n > 0 ? (guint64) (sum / n) : LLM_DISK_BLOCK;
}

static LlmRepackedPlan *
plan_channels (const LlmFileWeights *self,
               GError              **error)
{
  return llm_repacked_plan_new_channels (self->gguf, self->hparams, self->parent.sub_models, error);
}

/* @small: bytes of a record; @first, @end: where weights are in the file. */
static void
probe (Probe        *self,
       guint64       small,
       guint64       first,
       guint64       end,
       LlmReadRates *rates)
{
  const guint64 n_large = (end - first) / LARGE_BYTES, n_small = (end - first) / small;
  guint64 at = 0;

  /* by turns, as what the disk gives changes; what it keeps of reads is not read again soon */
  for (guint round = 0; self->code == 0 && round < N_ROUNDS; round++)
    for (guint kind = 0; kind < 2; kind++)
      {
        const gint64 end_us = llm_clock_now_us () + ROUND_US;

        for (; self->code == 0 && llm_clock_now_us () < end_us; at += N_LARGE)
          if (kind == 0)
            llm_read_cost_add (
              &rates->cost, N_LARGE, N_LARGE * (double) LARGE_BYTES,
              read_batch (self, N_LARGE, LARGE_BYTES, LLM_DISK_BLOCK, first, n_large, at, 1));
          else
            llm_read_cost_add (
              &rates->cost, N_SMALL, N_SMALL * (double) small,
              read_batch (self, N_SMALL, small, LLM_DISK_SECTOR, first, n_small, at * SPREAD, SMALL_STEP));
      }
  if (self->code == 0)
    rates->stream_us = read_batch (self, N_STREAM, LARGE_BYTES, LLM_DISK_BLOCK, first, n_large, at, 1)
                       / (N_STREAM * (double) LARGE_BYTES);
}

gboolean
llm_weights_probe_reads (LlmWeights            *weights,
                         const LlmWeightSource *source,
                         LlmReadRates          *rates,
                         GError               **error)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  g_autoptr(LlmRepackedPlan) channels = plan_channels (self, error);
  g_autoptr(LlmWeightReader) reader = NULL;
  g_autofree Probe *run = g_new0 (Probe, 1);
  const guint64 begin = self->repacked != NULL ? self->repacked->plan->data_offset : 0;
  guint8 *reserved;
  guint64 small;

  if (channels == NULL)
    return FALSE;
  if (!llm_file_weights_has_panel_file (self))
    return llm_fail (error, LLMSVC_ERROR_STORAGE,
                     "The model has no prepared copy on the disk, from which its weights could come");
  small = MIN (get_record_bytes (channels), LLM_DISK_MAX_BYTES / 2);
  if (self->repacked->plan->bytes < MAX (N_LARGE * LARGE_BYTES, N_SMALL * small))
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "The model is so small that reading it tells nothing of the disk");
  reader = llm_weight_reader_new (llm_file_map_get_fd (self->repacked->map), self->repacked->path);
  if (reader == NULL)
    return llm_fail (error, LLMSVC_ERROR_STORAGE, "“%s” can't be read: %s", self->repacked->path,
                     g_strerror (errno));
  run->bytes = N_LARGE * (gsize) (LARGE_BYTES + 2 * LLM_DISK_BLOCK);
  reserved = mmap (NULL, run->bytes + LLM_FILE_MAP_HUGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED)
    return llm_fail (error, LLMSVC_ERROR_NO_MEMORY, "Memory is too short to try the disk");
  /* as the ring of the stream: in huge pages, which are there */
  run->memory = reserved + (LLM_FILE_MAP_HUGE - (guintptr) reserved % LLM_FILE_MAP_HUGE);
  madvise (run->memory, run->bytes, MADV_HUGEPAGE);
  memset (run->memory, 0, run->bytes);
  llm_weight_reader_set_source (reader, source);
  run->reader = reader;
  *rates = (LlmReadRates) { 0 };
  probe (run, small, begin, begin + self->repacked->plan->bytes, rates);
  munmap (reserved, run->bytes + LLM_FILE_MAP_HUGE);
  return run->code == 0
         || llm_fail (error, LLMSVC_ERROR_STORAGE, "“%s” can't be read: %s", self->repacked->path,
                      g_strerror (run->code));
}

/* --- what a pass reads --- */

static guint64
get_bytes (const LlmRepackedMatrix *matrix)
{
  return (guint64) matrix->n_panels * matrix->panel_bytes;
}

/* Of inputs that are active in no order, read as llm_channels_acquire() does: each with its neighbours
 * up to @gap others away. */
static void
add_bundle (const LlmRepackedBundle *bundle,
            double                   active,
            double                   gap,
            double                  *n_requests,
            double                  *bytes)
{
  const double n = bundle->in_count, idle = 1 - active, g = floor (gap);
  /* behind an active input, k others before the next one have the probability active × idle^k */
  const double n_runs = MAX (n * active * pow (idle, g + 1), 1);
  const double n_read =
    n * (active + idle * (1 - (g + 1) * pow (idle, g) + g * pow (idle, g + 1)));

  *n_requests += n_runs;
  *bytes += n_read * bundle->record_bytes + n_runs * LLM_DISK_SECTOR;
}

/* Bytes and requests of all layers by channel, and what has none. */
static void
sum_channels (const LlmRepackedPlan *whole,
              const LlmRepackedPlan *channels,
              const float           *kept,
              const LlmReadCost     *cost,
              double                *n_requests,
              double                *bytes,
              double                *other_bytes)
{
  const double gap_bytes = llm_read_cost_get_gap (cost);

  *n_requests = *bytes = *other_bytes = 0;
  for (guint i = 0; i < channels->bundles->len; i++)
    {
      const LlmRepackedBundle *bundle = &g_array_index (channels->bundles, LlmRepackedBundle, i);
      /* of no input or all, a power has no sense */
      const double active = CLAMP ((double) kept[bundle->input - 1], 1e-4, 1);

      add_bundle (bundle, active, gap_bytes / bundle->record_bytes, n_requests, bytes);
    }
  for (guint i = 0; i < whole->matrices->len; i++)
    {
      const LlmRepackedMatrix *matrix = &g_array_index (whole->matrices, LlmRepackedMatrix, i);
      const LlmRepackedMatrix *heads =
        llm_repacked_plan_find (channels, matrix->op, matrix->layer, matrix->segment);

      if (heads == NULL)
        *other_bytes += (double) get_bytes (matrix);
      else
        {
          *bytes += (double) get_bytes (heads);
          *n_requests += (double) (get_bytes (heads) / LLM_DISK_MAX_BYTES) + 1;
        }
    }
}

guint
llm_weights_forecast_reads (LlmWeights            *weights,
                            const LlmThresholds   *thresholds,
                            guint64                staying,
                            const LlmReadRates    *rates,
                            LlmReadForecast       *forecasts,
                            GError               **error)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  g_autoptr(LlmRepackedPlan) channels = plan_channels (self, error);
  const LlmRepackedPlan *whole = self->repacked != NULL ? self->repacked->plan : NULL;
  const guint64 streamed = self->ranges.bytes - MIN (staying, self->ranges.bytes);
  const double product_all_us = (double) self->ranges.bytes * rates->product_us;
  double request_us, byte_us, panels = 0;
  guint n = 1;

  if (channels == NULL || whole == NULL)
    return 0;
  llm_read_cost_get (&rates->cost, &request_us, &byte_us);
  for (guint i = 0; i < whole->matrices->len; i++)
    panels += (double) get_bytes (&g_array_index (whole->matrices, LlmRepackedMatrix, i));
  forecasts[0] = (LlmReadForecast) {
    .whole_bytes = streamed,
    /* read ahead, beside products */
    .whole_us = MAX ((double) streamed * rates->stream_us, product_all_us),
  };
  for (guint i = 0; thresholds != NULL && i < thresholds->n_sparsities; i++, n++)
    {
      /* layers that stay are evenly spread */
      const double part = (double) streamed / panels;
      double n_requests, bytes, others;

      forecasts[n] = forecasts[0];
      forecasts[n].percent = thresholds->percent[i];
      if (channels->matrices->len == 0 || streamed == 0)
        continue;
      sum_channels (whole, channels, thresholds->kept[i], &rates->cost, &n_requests, &bytes, &others);
      forecasts[n].n_requests = (guint64) ceil (part * n_requests);
      forecasts[n].channel_bytes = (guint64) (part * (bytes + others));
      /* asked for when they are needed: products wait for them */
      forecasts[n].channel_us =
        part * (n_requests * request_us + (bytes + others) * byte_us)
        + product_all_us - rates->product_us * part * (panels - bytes - others);
    }
  return n;
}
