/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Weights of a file that do not fit into memory: they come through the ring of llm-weight-stream.h,
 * in the order of a pass. */

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "weights/llm-weights-file-private.h"

gboolean
llm_file_weights_streams (const LlmFileWeights *self,
                          const LlmWeightRange *range)
{
  return self->stream != NULL && range->in_pass > 0
         && range->start + range->length > self->ranges.staying;
}

static void
use_channels (LlmFileWeights *self,
              gboolean        is_used)
{
  if (self->channels != NULL && is_used != llm_channels_are_used (self->channels))
    llm_channels_set_source (self->channels, is_used ? &self->source : NULL, self->only_channels);
}

void
llm_file_weights_set_staying (LlmFileWeights *self)
{
  gboolean is_all = self->keeps == self->ranges.bytes;
  guint64 staying = self->keeps;

  /* experts have a memory limit of their own */
  if (self->experts != NULL && !is_all)
    staying = MIN (staying, self->first_expert);
  llm_weight_ranges_set_staying (&self->ranges, staying);
  use_channels (self, self->stream != NULL && !is_all);
  if (self->stream == NULL)
    return;
  for (guint i = 0; i < self->ranges.ranges->len; i++)
    {
      const LlmWeightRange *range = llm_weight_ranges_get (&self->ranges, i);

      if (range->in_pass > 0)
        llm_weight_stream_set (self->stream, range->in_pass - 1,
                               llm_file_weights_streams (self, range));
    }
  llm_weight_stream_settle (self->stream);
  if (self->experts != NULL)
    llm_expert_cache_set_limit (self->experts, !is_all, self->keeps - staying);
}

void
llm_weights_poll (LlmWeights *weights)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  if (self->stream != NULL)
    llm_weight_stream_poll (self->stream);
  if (self->experts != NULL)
    llm_expert_cache_poll (self->experts);
}

gboolean
llm_weights_are_streaming (LlmWeights *weights)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  return self->stream != NULL && self->ranges.staying < self->ranges.bytes;
}

gboolean
llm_weights_are_by_channel (LlmWeights *weights)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  return llm_weights_are_streaming (weights) && self->channels != NULL
         && llm_channels_are_used (self->channels) && !llm_channels_are_broken (self->channels);
}

double
llm_weights_get_sparse_us (LlmWeights *weights,
                           guint       sparsity)
{
  return llm_read_choice_get_us (&((LlmFileWeights *) weights)->choice, sparsity);
}

void
llm_weights_set_readers (LlmWeights *weights,
                         guint       n_readers)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  if (self->stream != NULL)
    llm_weight_stream_set_readers (self->stream, n_readers);
}

/* All but those by channel, which are there longer than a stream. */
static void
get_dense_figures (LlmFileWeights   *self,
                   LlmStreamFigures *figures)
{
  *figures = (LlmStreamFigures) { 0 };
  if (self->stream != NULL)
    llm_weight_stream_get_figures (self->stream, figures);
  if (self->experts != NULL)
    llm_expert_cache_add_figures (self->experts, figures);
  llm_stream_figures_add_counts (figures, &self->ended);
}

void
llm_weights_get_stream_figures (LlmWeights       *weights,
                                LlmStreamFigures *figures)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  get_dense_figures (self, figures);
  if (self->channels != NULL)
    llm_channels_add_figures (self->channels, figures);
}

/* Whether the range @by places after @range in the file is its neighbour in the streamed part of
 * its segment. */
static gboolean
streams_on (const LlmFileWeights *self,
            const LlmWeightRange *range,
            int                   by)
{
  guint place = range->place + (guint) by;
  const LlmWeightRange *other;

  if (place >= self->ranges.by_place->len)
    return FALSE;
  other = llm_weight_ranges_get_at (&self->ranges, place);
  return other->map == range->map && other->segment == range->segment
         && llm_file_weights_streams (self, other);
}

guint64
llm_weights_count_copied (LlmWeights *weights)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  LlmStreamFigures figures;

  llm_weights_get_stream_figures (weights, &figures);
  return figures.read_bytes + (self->repacked != NULL ? self->repacked->packed_again : 0);
}

gboolean
llm_file_weights_compare_sums (LlmFileWeights           *self,
                               const LlmRepackedMatrix  *matrix,
                               guint64                   at,
                               const guint8             *data,
                               guint64                   length,
                               gboolean                  streams_before,
                               gboolean                  streams_behind,
                               GError                  **error)
{
  if (self->sums == NULL
      || llm_stream_sums_take (self->sums, matrix->segment, matrix->offset + at, data, length,
                               streams_before ? NULL : self->repacked->data,
                               streams_behind ? NULL : self->repacked->data))
    return TRUE;
  llm_repacked_set_damaged (self->repacked);
  return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                        "its prepared copy is damaged on the disk and was removed: load the model "
                        "again, and it is made anew");
}

LlmStatus
llm_file_weights_acquire_streaming (LlmFileWeights           *self,
                                    const LlmWeightRange     *range,
                                    const LlmRepackedMatrix  *matrix,
                                    LlmWeightView            *view,
                                    GError                  **error)
{
  const guint8 *data;
  LlmStatus status = llm_weight_stream_acquire (self->stream, range->in_pass - 1, &data, error);

  if (status != LLM_READY || data == NULL)
    return status;
  if (range->n_leases == 0
      && !llm_file_weights_compare_sums (self, matrix, 0, data, range->length,
                                         streams_on (self, range, -1), streams_on (self, range, 1),
                                         error))
    {
      llm_weight_stream_release (self->stream, range->in_pass - 1);
      return LLM_FAILED;
    }
  view->data = data;
  view->layout = LLM_LAYOUT_PANELS;
  return LLM_READY;
}

void
llm_weights_set_channels (LlmWeights  *weights,
                          LlmChannels *channels)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  if (self->channels != NULL || !llm_file_weights_has_panel_file (self))
    {
      llm_channels_free (channels);
      return;
    }
  self->channels = channels;
  llm_file_weights_set_staying (self);
}

/* Reads ahead go to what the last of the steps used. */
static void
set_skips (LlmFileWeights *self,
           gboolean        skips)
{
  if (skips == self->skips)
    return;
  self->skips = skips;
  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; llm_input_of (op) != LLM_INPUT_NONE && layer < self->hparams->n_layers; layer++)
      for (guint segment = 0; segment < self->parent.sub_models->n_levels; segment++)
        {
          guint place = *llm_file_weights_place (self, op, layer, segment);
          const LlmWeightRange *range =
            place > 0 ? llm_weight_ranges_get (&self->ranges, place - 1) : NULL;

          if (range != NULL && range->in_pass > 0)
            llm_weight_stream_skip (self->stream, range->in_pass - 1,
                                    skips && llm_channels_have (self->channels, op, layer, segment));
        }
}

void
llm_file_weights_choose_read (LlmFileWeights      *self,
                              LlmOperator          op,
                              guint                layer,
                              const LlmActivation *activation)
{
  guint sparsity = activation != NULL ? activation->sparsity : 0;
  gboolean by_channel = FALSE;
  LlmStreamFigures figures;

  if (self->channels == NULL || !llm_channels_are_used (self->channels)
      || llm_input_of (op) == LLM_INPUT_NONE)
    return;
  if (self->only_channels)
    by_channel = sparsity > 0 && !llm_channels_are_broken (self->channels);
  else if (sparsity > 0 && !llm_channels_are_broken (self->channels))
    {
      llm_weight_stream_get_figures (self->stream, &figures);
      by_channel = llm_read_choice_take (&self->choice, sparsity, layer, self->hparams->n_layers,
                                         figures.pass_us, llm_clock_now_us ())
                   == LLM_READ_BY_CHANNEL;
    }
  set_skips (self, by_channel);
}

LlmStatus
llm_file_weights_acquire_channels (LlmFileWeights      *self,
                                   LlmOperator          op,
                                   guint                layer,
                                   guint                segment,
                                   const LlmActivation *activation,
                                   LlmWeightView       *view)
{
  if (!self->skips)
    return LLM_READY;
  return llm_channels_acquire (self->channels, op, layer, segment, activation, view);
}

gboolean
llm_file_weights_were_written (const LlmFileWeights *self)
{
  LlmFileIdentity mapped, now;

  return llm_file_map_get_identity (self->repacked->map, &mapped)
         && llm_file_identity_read (llm_file_map_get_fd (self->repacked->map), &now)
         && (mapped.size != now.size || mapped.modified_s != now.modified_s
             || mapped.modified_ns != now.modified_ns);
}

/* --- making --- */

/* In the order of the pass; of each operator all segments. Without experts: it is not known before
 * which of them a pass uses. */
static GArray *
list_pass (LlmFileWeights *self)
{
  const LlmHparams *hparams = self->hparams;
  GArray *list = g_array_new (FALSE, FALSE, sizeof (LlmStreamRange));

  for (guint place = 0; place <= hparams->n_layers + 1; place++)
    for (guint op = 0; op < LLM_N_OPS; op++)
      for (guint segment = 0; segment < self->parent.sub_models->n_levels; segment++)
        {
          guint layer = llm_operator_is_layered (op) ? place - 1 : 0;
          LlmWeightRange *range;

          if (!llm_operator_is_at (hparams, op, place) || llm_operator_is_of_experts (op)
              || llm_repacked_plan_find (self->repacked->plan, op, layer, segment) == NULL)
            continue;
          range = llm_weight_ranges_get (
            &self->ranges, *llm_file_weights_place (self, op, layer, segment) - 1);
          g_array_append_val (list, ((LlmStreamRange) { range->offset, range->length }));
          range->in_pass = list->len;
        }
  return list;
}

gboolean
llm_weights_stream (LlmWeights            *weights,
                    const LlmWeightSource *source,
                    const LlmStreamConfig *config)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  g_autoptr(GArray) list = NULL;
  LlmWeightReader *reader;
  LlmStreamFigures figures;

  get_dense_figures (self, &figures);
  self->ended = (LlmStreamFigures) { 0 };
  llm_stream_figures_add_counts (&self->ended, &figures);
  g_clear_pointer (&self->experts, llm_expert_cache_free);
  g_clear_pointer (&self->stream, llm_weight_stream_free);
  self->skips = FALSE;
  llm_file_weights_set_staying (self);
  if (source == NULL || !llm_file_weights_has_panel_file (self))
    return FALSE;
  reader = llm_weight_reader_new (llm_file_map_get_fd (self->repacked->map), self->repacked->path);
  if (reader == NULL)
    return FALSE;
  llm_weight_reader_set_source (reader, source);
  self->source = *source;
  self->only_channels = config->by_channel;
  list = list_pass (self);
  self->stream = llm_weight_stream_new (reader, config, (const LlmStreamRange *) list->data, list->len,
                                        self->ledger);
  if (self->repacked->checksums != NULL && self->sums == NULL)
    self->sums = llm_stream_sums_new (self->repacked->plan, self->repacked->checksums);
  llm_file_weights_make_experts (self, source, config);
  llm_file_weights_set_staying (self);
  return TRUE;
}
