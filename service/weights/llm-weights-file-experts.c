/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Experts of a file that streams: read one by one, when a row has chosen them, through the cache of
 * llm-expert-cache.h. */

#include "kernels/llk-panel.h"
#include "weights/llm-weights-file-private.h"

static const LlmOperator operators[LLM_EXPERT_PARTS] = {
  LLM_OP_EXPERT_GATE, LLM_OP_EXPERT_UP, LLM_OP_EXPERT_DOWN,
};

/* One expert's part of @matrix. */
static LlmStreamRange
find_expert (const LlmFileWeights    *self,
             const LlmRepackedMatrix *matrix,
             guint                    expert)
{
  guint64 length =
    (guint64) (matrix->n_panels / self->hparams->experts.n) * matrix->panel_bytes;

  return (LlmStreamRange) { matrix->offset + expert * length, length };
}

void
llm_file_weights_make_experts (LlmFileWeights        *self,
                               const LlmWeightSource *source,
                               const LlmStreamConfig *config)
{
  const LlmRepackedPlan *plan = self->repacked->plan;
  g_autofree LlmStreamRange *ranges = NULL;
  guint n_experts = self->hparams->experts.n, n = 0;
  LlmWeightReader *reader;

  if (n_experts == 0)
    return;
  ranges = g_new (LlmStreamRange, (gsize) self->hparams->n_layers * n_experts * LLM_EXPERT_PARTS);
  for (guint layer = 0; layer < self->hparams->n_layers; layer++)
    for (guint expert = 0; expert < n_experts; expert++)
      for (guint p = 0; p < LLM_EXPERT_PARTS; p++)
        {
          const LlmRepackedMatrix *matrix =
            llm_repacked_plan_find (plan, operators[p], layer, 0);

          if (!llm_operator_is_in_layer (self->hparams, operators[p], layer))
            {
              ranges[n++] = (LlmStreamRange) { 0 };
              continue;
            }
          if (matrix == NULL)
            return;
          ranges[n] = find_expert (self, matrix, expert);
          ranges[n++].offset += plan->data_offset;
        }
  reader = llm_weight_reader_new (llm_file_map_get_fd (self->repacked->map), self->repacked->path);
  if (reader == NULL)
    return;
  llm_weight_reader_set_source (reader, source);
  self->experts = llm_expert_cache_new (reader, config, ranges, self->hparams->n_layers, n_experts,
                                        self->hparams->experts.n_used, self->ledger);
}

gboolean
llm_file_weights_choose_experts (LlmWeights  *weights,
                                 guint        layer,
                                 const guint *n_rows)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  gboolean is_streaming = self->experts != NULL && llm_weights_are_streaming (weights);

  if (self->experts != NULL && (is_streaming || n_rows == NULL))
    llm_expert_cache_choose (self->experts, layer, n_rows);
  return is_streaming;
}

guint64
llm_weights_drop_experts (LlmWeights *weights,
                          guint64     bytes)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  return self->experts != NULL && bytes > 0 ? llm_expert_cache_drop (self->experts, bytes) : 0;
}

/* The first bytes of a piece bring the rest of it into memory for the checksum: that is released
 * again. */
static gboolean
compare_sums (LlmFileWeights           *self,
              const LlmRepackedMatrix  *matrix,
              const LlmStreamRange     *range,
              const guint8             *data,
              GError                  **error)
{
  guint64 first = range->offset / LLM_REPACKED_PIECE * LLM_REPACKED_PIECE;
  guint64 end = range->offset + range->length + LLM_REPACKED_PIECE;
  guint n_left;

  if (self->sums == NULL || (n_left = llm_stream_sums_count (self->sums)) == 0)
    return TRUE;
  if (!llm_file_weights_compare_sums (self, matrix, range->offset - matrix->offset, data,
                                      range->length, FALSE, FALSE, error))
    return FALSE;
  if (llm_stream_sums_count (self->sums) < n_left)
    llm_file_map_drop (self->repacked->map, self->repacked->plan->data_offset + first,
                       MIN (end, self->repacked->plan->bytes) - first);
  return TRUE;
}

/* Used from the mapping, because it got no slot. */
static void
view_mapped (LlmFileWeights       *self,
             LlmOperator           op,
             guint                 layer,
             const LlmStreamRange *range,
             LlmWeightView        *view)
{
  LlmWeightRange *whole =
    llm_weight_ranges_get (&self->ranges, *llm_file_weights_place (self, op, layer, 0) - 1);

  llm_weight_ranges_lease (&self->ranges, whole, FALSE);
  view->data = self->repacked->data + range->offset;
  view->lease = whole;
}

LlmStatus
llm_file_weights_acquire_expert (LlmWeights     *weights,
                                 guint           layer,
                                 guint           expert,
                                 LlmWeightView  *views,
                                 GError        **error)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  const guint8 *data[LLM_EXPERT_PARTS] = { NULL };
  gboolean is_new = FALSE, is_good = TRUE;
  LlmStatus status = LLM_READY;

  llm_weights_poll (weights);
  if (self->experts != NULL)
    status = llm_expert_cache_acquire (self->experts, layer, expert, data, &is_new, error);
  if (status != LLM_READY)
    return status;
  for (guint p = 0; p < LLM_EXPERT_PARTS; p++)
    {
      const LlmRepackedMatrix *matrix =
        llm_repacked_plan_find (self->repacked->plan, operators[p], layer, 0);
      LlmStreamRange range = find_expert (self, matrix, expert);

      views[p] = (LlmWeightView) {
        .data = data[p],
        .type = matrix->part.type,
        .layout = LLM_LAYOUT_PANELS,
        .in_count = matrix->part.n_in,
        .out_count = matrix->part.n_out / self->hparams->experts.n,
      };
      if (data[p] == NULL)
        view_mapped (self, operators[p], layer, &range, &views[p]);
      else if (is_new)
        is_good = is_good && compare_sums (self, matrix, &range, data[p], error);
    }
  for (guint p = 0; !is_good && p < LLM_EXPERT_PARTS; p++)
    llm_weights_release (weights, &views[p]);
  return is_good ? LLM_READY : LLM_FAILED;
}
