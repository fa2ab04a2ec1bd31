/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Provider: the tensors of a model file, memory-mapped; with repacked weights, the matrices that
 * products read come from there. */

#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "weights/llm-weights-file-private.h"

static gboolean
has_panels_in_memory (const LlmFileWeights *self)
{
  return self->repacked != NULL && self->repacked->map == NULL;
}

static guint64
get_backed (const LlmFileWeights *self)
{
  guint64 held = llm_weight_ranges_get_held (&self->ranges);

  return has_panels_in_memory (self) ? held - MAX (self->ranges.kept, self->first_panel)
                                            + self->first_panel
                                     : held;
}

static void
tell_held (LlmFileWeights *self,
           guint64         absent)
{
  llm_weights_set_held (&self->parent, self->ledger, llm_weight_ranges_get_held (&self->ranges),
                        get_backed (self), absent);
}

/* While some of a file is dropped, the background thread does not read it. */
static void
tell_dropped (LlmFileWeights *self)
{
  if (llm_file_weights_has_panel_file (self))
    llm_repacked_set_dropped (self->repacked,
                              MIN (self->ranges.kept, self->ranges.staying) < self->ranges.bytes);
}

GArray *
llm_weights_list_pieces (LlmWeights *weights)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  GArray *pieces = llm_weights_new_pieces ();

  llm_weight_ranges_list (&self->ranges, pieces);
  return pieces;
}

/* --- dropping and taking --- */

/* How many bytes of the panels in memory stay when only the first @stays bytes have to: whole units
 * of @unit bytes, and all that is in use. */
static guint64
find_memory_tail (const LlmFileWeights *self,
                  guint64               stays,
                  guint64               unit)
{
  guint64 have = self->ranges.kept - self->first_panel;

  for (guint i = 0; i < self->ranges.ranges->len; i++)
    {
      const LlmWeightRange *range = llm_weight_ranges_get (&self->ranges, i);

      if (range->map == NULL && range->n_leases > 0)
        stays = MAX (stays, range->offset + range->length + unit - 1);
    }
  return MIN (stays / unit * unit, have);
}

static guint64
drop_memory (LlmFileWeights *self,
             guint64         stays,
             guint64         unit)
{
  guint64 have = self->ranges.kept - MIN (self->ranges.kept, self->first_panel);

  stays = have > 0 ? find_memory_tail (self, stays, unit) : 0;
  if (stays == have)
    return 0;
  llm_repacked_drop_memory (self->repacked, stays);
  llm_weight_ranges_set_kept (&self->ranges, self->first_panel + stays);
  return have - stays;
}

/* Panels in memory are dropped first, because they come after the rest, which is useless without
 * them. */
guint64
llm_weights_drop (LlmWeights *weights,
                  guint64     bytes)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  guint64 freed = 0;
  guint64 backed, resident, absent = weights->absent;

  if (bytes == 0)
    return 0;
  if (has_panels_in_memory (self))
    {
      guint64 have = self->ranges.kept - MIN (self->ranges.kept, self->first_panel);

      freed = drop_memory (self, have - MIN (have, bytes), LLM_REPACKED_PIECE);
      if (self->ranges.kept <= self->first_panel)
        bytes = G_MAXUINT64;
    }
  backed = get_backed (self);
  if (freed < bytes)
    {
      llm_weight_ranges_set_kept (&self->ranges,
                                  llm_weight_ranges_find_tail (&self->ranges, bytes - freed,
                                                               &resident));
      tell_dropped (self);
      resident = MIN (resident, backed - get_backed (self));
      absent -= MIN (absent, backed - get_backed (self) - resident);
      freed += resident;
    }
  tell_held (self, absent);
  /* the ring holds no weights that stay, and is not counted in these */
  if (self->stream != NULL)
    freed += llm_weight_stream_trim (self->stream);
  if (self->channels != NULL)
    freed += llm_channels_trim (self->channels);
  return freed + llm_weights_drop_experts (weights, bytes - MIN (bytes, freed));
}

guint64
llm_weights_get_level_bytes (LlmWeights *weights,
                             guint       level)
{
  const LlmWeightRanges *ranges = &((LlmFileWeights *) weights)->ranges;

  for (guint i = ranges->ranges->len; i-- > 0;)
    {
      const LlmWeightRange *range = llm_weight_ranges_get (ranges, i);

      if (range->segment <= level)
        return range->start + range->length;
    }
  return 0;
}

gboolean
llm_weights_level_stays (LlmWeights *weights,
                        guint       level)
{
  const LlmFileWeights *self = (const LlmFileWeights *) weights;

  return llm_weights_get_level_bytes (weights, level) <= self->ranges.staying
         && llm_weights_count_dropped (weights, llm_weights_get_level_bytes (weights, level)) == 0;
}

guint64
llm_weights_count_dropped (LlmWeights *weights,
                           guint64     bytes)
{
  const LlmWeightRanges *ranges = &((LlmFileWeights *) weights)->ranges;

  bytes = MIN (bytes, ranges->bytes);
  return bytes - MIN (bytes, ranges->kept);
}

guint64
llm_weights_drop_behind (LlmWeights *weights,
                         guint64     bytes)
{
  const guint64 page = (guint64) sysconf (_SC_PAGESIZE);
  LlmFileWeights *self = (LlmFileWeights *) weights;
  guint64 backed = get_backed (self);
  guint64 absent = weights->absent;
  guint64 freed, resident;

  if (bytes >= self->ranges.kept)
    return 0;
  if (has_panels_in_memory (self))
    {
      /* the rows before all panels are few, and stay */
      freed = drop_memory (self, bytes - MIN (bytes, self->first_panel) + page - 1, page);
    }
  else
    {
      resident = llm_weight_ranges_count_resident (&self->ranges, bytes);
      llm_weight_ranges_set_kept (&self->ranges, bytes);
      tell_dropped (self);
      freed = MIN (resident, backed - get_backed (self));
      absent -= MIN (absent, backed - get_backed (self) - freed);
    }
  tell_held (self, absent);
  return freed;
}

/* Reclaimed bytes have to be read again. */
LlmStatus
llm_weights_take (LlmWeights *weights,
                  guint64     bytes)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  guint64 backed = get_backed (self);

  bytes = MIN (bytes, self->ranges.bytes);
  if (bytes > self->ranges.kept)
    {
      llm_weight_ranges_set_kept (&self->ranges, bytes);
      tell_dropped (self);
      tell_held (self, weights->absent + get_backed (self) - backed);
    }
  if (!has_panels_in_memory (self))
    return LLM_READY;
  return llm_repacked_pack_again (self->repacked, self->ranges.kept - self->first_panel);
}

/* --- in use --- */

gboolean
llm_weights_read_ahead (LlmWeights *weights,
                        guint64     at,
                        guint64     bytes)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  guint64 end = has_panels_in_memory (self) ? self->first_panel : self->ranges.bytes;

  /* experts are not used from their mapping then */
  if (self->experts != NULL)
    end = MIN (end, self->ranges.staying);
  if (at < end)
    llm_weight_ranges_prefetch (&self->ranges, at, MIN (at + bytes, end));
  return at < end && bytes < end - at;
}

void
llm_weights_keep (LlmWeights *weights,
                  guint64     bytes)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  if (has_panels_in_memory (self))
    return;
  if (MIN (bytes, self->ranges.bytes) == self->keeps)
    return;
  self->keeps = MIN (bytes, self->ranges.bytes);
  llm_file_weights_set_staying (self);
  tell_dropped (self);
}

guint64
llm_weights_get_sparse_bytes (LlmWeights *weights)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  return self->repacked != NULL ? self->first_panel : 0;
}

static void
view_panels (const LlmFileWeights    *self,
             const LlmRepackedMatrix *matrix,
             LlmWeightView           *view)
{
  view->data = self->repacked->data + matrix->offset;
  view->layout = LLM_LAYOUT_PANELS;
}

static void
view_rows (const LlmFileWeights *self,
           const LlmTensorPart  *part,
           LlmWeightView        *view)
{
  gsize skipped =
    view->in_first / llk_type_block_size (part->type) * llk_type_block_bytes (part->type);

  view->data = llm_file_map_get_data (self->gguf->map) + part->offset
               + view->out_first * part->row_bytes + skipped;
  view->layout = LLM_LAYOUT_ROWS;
  view->row_bytes = part->row_bytes;
}

static LlmStatus
acquire (LlmWeights           *weights,
         LlmOperator           op,
         guint                 layer,
         guint                 segment,
         const LlmActivation  *activation,
         LlmWeightView        *view,
         GError              **error)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  guint n_levels = weights->sub_models->n_levels;
  const LlmRepackedMatrix *matrix = NULL;
  const LlmTensorPart *part;
  LlmWeightRange *range;
  LlmSegmentShape shape;
  LlmStatus status;
  guint place;

  g_return_val_if_fail ((guint) op < LLM_N_OPS, LLM_FAILED);
  g_return_val_if_fail (!llm_operator_is_layered (op) || layer < self->hparams->n_layers,
                        LLM_FAILED);
  g_return_val_if_fail (segment < n_levels, LLM_FAILED);

  if (!llm_operator_is_layered (op))
    layer = 0;
  part = &self->parts[layer * LLM_N_OPS + op];
  place = self->places[(layer * LLM_N_OPS + op) * n_levels + segment];
  memset (view, 0, sizeof *view);
  if (part->tensor == NULL)
    return LLM_READY;
  shape = llm_sub_models_get_shape (weights->sub_models, self->hparams, op, layer, segment);
  *view = (LlmWeightView) {
    .type = part->type,
    .in_first = shape.in_first,
    .in_count = shape.in_count,
    .out_first = shape.out_first,
    .out_count = shape.out_count,
  };
  if (place == 0)
    return LLM_READY;

  range = llm_weight_ranges_get (&self->ranges, place - 1);
  if (range->map == NULL)
    {
      status = llm_repacked_await (self->repacked, range->offset + range->length, error);
      if (status == LLM_PENDING)
        status = llm_weights_take (weights, range->start + range->length);
      if (status != LLM_READY)
        return status;
    }
  if (self->repacked != NULL)
    matrix = llm_repacked_plan_find (self->repacked->plan, op, layer, segment);
  llm_weights_poll (weights);
  llm_file_weights_choose_read (self, op, layer, activation);
  if (llm_file_weights_streams (self, range))
    {
      status = llm_file_weights_acquire_channels (self, op, layer, segment, activation, view);
      if (status == LLM_READY && view->data == NULL)
        status = llm_file_weights_acquire_streaming (self, range, matrix, view, error);
      if (status != LLM_READY)
        return status;
    }
  if (view->layout == LLM_LAYOUT_CHANNELS)
    return LLM_READY;
  /* Of embeddings a few rows are read. */
  llm_weight_ranges_lease (&self->ranges, range,
                           view->data == NULL && !llm_operator_is_looked_up (op));
  if (view->data == NULL && matrix != NULL)
    view_panels (self, matrix, view);
  else if (view->data == NULL)
    view_rows (self, part, view);
  view->lease = range;
  if (range->start + range->length > self->ranges.kept)
    tell_held (self, weights->absent);
  return LLM_READY;
}

static void
release (LlmWeights    *weights,
         LlmWeightView *view)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  LlmWeightRange *range = view->lease;

  if (self->experts != NULL && llm_expert_cache_owns (self->experts, view->data))
    llm_expert_cache_release (self->experts, view->data);
  if (view->layout == LLM_LAYOUT_CHANNELS)
    llm_channels_release (self->channels);
  if (range != NULL)
    {
      if (self->stream != NULL && llm_weight_stream_owns (self->stream, view->data))
        llm_weight_stream_release (self->stream, range->in_pass - 1);
      llm_weight_ranges_unlease (&self->ranges, range);
      if (range->start + range->length > self->ranges.kept)
        tell_held (self, weights->absent);
    }
  memset (view, 0, sizeof *view);
}

static gboolean
check (LlmWeights  *weights,
       GError     **error)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;

  if (self->ranges.staying < self->ranges.bytes && llm_file_weights_has_panel_file (self)
      && llm_file_weights_were_written (self))
    llm_file_map_set_damaged (self->repacked->map);
  if (llm_file_weights_has_panel_file (self) && llm_file_map_is_damaged (self->repacked->map))
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the prepared copy of the file was changed while it was in use: what "
                          "was computed with it since is worthless");
  if (llm_file_map_is_damaged (self->gguf->map))
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was in use: what was computed with it "
                          "since is worthless");
  return TRUE;
}

static void
free_weights (LlmWeights *weights)
{
  LlmFileWeights *self = (LlmFileWeights *) weights;
  LlmFileMap *map = self->gguf->map;

  llm_weights_set_held (weights, self->ledger, 0, 0, 0);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  g_clear_pointer (&self->channels, llm_channels_free);
  g_clear_pointer (&self->experts, llm_expert_cache_free);
  g_clear_pointer (&self->stream, llm_weight_stream_free);
  g_clear_pointer (&self->sums, llm_stream_sums_free);
  llm_weight_ranges_clear (&self->ranges);
  if (self->repacked != NULL)
    llm_repacked_end (self->repacked, weights->keeps_cache);
  if (!weights->keeps_cache)
    llm_file_map_drop (map, 0, llm_file_map_get_size (map));
  llm_gguf_unref (self->gguf);
  llm_sub_models_free (self->whole);
  g_free (self->places);
  g_free (self->parts);
  g_free (self);
}

static const LlmWeightProvider file_provider = {
  .acquire = acquire,
  .release = release,
  .choose_experts = llm_file_weights_choose_experts,
  .acquire_expert = llm_file_weights_acquire_expert,
  .check = check,
  .free = free_weights,
};

/* --- making --- */

/* The part that @segment adds to @op, read from the file by rows. Inputs that it adds are between
 * those of segment 0. */
static void
add_rows (LlmFileWeights *self,
          LlmOperator     op,
          guint           layer,
          guint           segment)
{
  const LlmTensorPart *part = &self->parts[layer * LLM_N_OPS + op];
  LlmSegmentShape shape =
    llm_sub_models_get_shape (self->parent.sub_models, self->hparams, op, layer, segment);
  guint *place = llm_file_weights_place (self, op, layer, segment);

  if (part->tensor == NULL || shape.in_count == 0 || shape.out_count == 0
      || (self->repacked != NULL
          && llm_repacked_plan_find (self->repacked->plan, op, layer, 0) != NULL))
    return;
  if (op == LLM_OP_OUTPUT && self->hparams->has_tied_output)
    *place = *llm_file_weights_place (self, LLM_OP_TOKEN_EMBEDDING, 0, 0);
  else if (segment > 0 && shape.in_count != part->n_in)
    *place = *llm_file_weights_place (self, op, layer, 0);
  else
    *place = 1 + llm_weight_ranges_add (&self->ranges, self->gguf->map,
                                        part->offset + shape.out_first * part->row_bytes,
                                        (guint64) part->row_bytes
                                          * (shape.in_count == part->n_in ? shape.out_count
                                                                          : part->n_out),
                                        segment);
}

/* Of each segment, operators outside of layers come first, except the output, which is used
 * last. */
static void
add_all_rows (LlmFileWeights *self)
{
  for (guint segment = 0; segment < self->parent.sub_models->n_levels; segment++)
    {
      for (guint op = 0; op < LLM_N_OPS; op++)
        if (!llm_operator_is_layered (op) && op != LLM_OP_OUTPUT)
          add_rows (self, op, 0, segment);
      for (guint layer = 0; layer < self->hparams->n_layers; layer++)
        for (guint op = 0; op < LLM_N_OPS; op++)
          if (llm_operator_is_layered (op))
            add_rows (self, op, layer, segment);
      add_rows (self, LLM_OP_OUTPUT, 0, segment);
    }
}

/* Each with the gap between it and the next. */
static void
add_panels (LlmFileWeights *self,
            guint           i)
{
  const LlmRepackedPlan *plan = self->repacked->plan;
  const LlmRepackedMatrix *matrix = &g_array_index (plan->matrices, LlmRepackedMatrix, i);
  guint64 end = i + 1 < plan->matrices->len ? (matrix + 1)->offset : plan->bytes;

  *llm_file_weights_place (self, matrix->op, matrix->layer, matrix->segment) =
    1 + llm_weight_ranges_add (&self->ranges, self->repacked->map,
                               (llm_file_weights_has_panel_file (self) ? plan->data_offset : 0)
                                 + matrix->offset,
                               end - matrix->offset, matrix->segment);
}

/* Bits of @layer in reverse: in this order any number of first layers is evenly spread. */
static guint
reverse_bits (guint layer)
{
  guint reversed = 0;

  for (guint i = 0; i < 32; i++)
    reversed |= (layer >> i & 1) << (31 - i);
  return reversed;
}

/* Experts come last: each of them is used by few tokens. The others are ordered by segment, then
 * layers as they are spread, then operators outside of layers; within these in the order of the
 * file. */
static gint
compare_stay (gconstpointer a,
              gconstpointer b,
              gpointer      data)
{
  const GArray *matrices = data;
  guint i = *(const guint *) a, k = *(const guint *) b;
  const LlmRepackedMatrix *x = &g_array_index (matrices, LlmRepackedMatrix, i);
  const LlmRepackedMatrix *y = &g_array_index (matrices, LlmRepackedMatrix, k);
  gboolean x_is_layered = llm_operator_is_layered (x->op);

  if (llm_operator_is_of_experts (x->op) != llm_operator_is_of_experts (y->op))
    return llm_operator_is_of_experts (x->op) ? 1 : -1;
  if (x->segment != y->segment)
    return x->segment < y->segment ? -1 : 1;
  if (x_is_layered != llm_operator_is_layered (y->op))
    return x_is_layered ? -1 : 1;
  if (x->layer != y->layer)
    return reverse_bits (x->layer) < reverse_bits (y->layer) ? -1 : 1;
  return i < k ? -1 : 1;
}

/* In the order in which they stay. While layers that stay are computed, those between them are
 * read: if the first layers stayed, the disk would be idle as soon as the ring is full. Panels in
 * memory are packed, and dropped, from the end. */
static void
add_all_panels (LlmFileWeights *self)
{
  GArray *matrices = self->repacked->plan->matrices;
  g_autoptr(GArray) order = g_array_sized_new (FALSE, FALSE, sizeof (guint), matrices->len);

  for (guint i = 0; i < matrices->len; i++)
    g_array_append_val (order, i);
  if (llm_file_weights_has_panel_file (self))
    g_array_sort_with_data (order, compare_stay, matrices);
  self->first_expert = G_MAXUINT64;
  for (guint i = 0; i < order->len; i++)
    {
      guint at = g_array_index (order, guint, i);

      if (llm_operator_is_of_experts (g_array_index (matrices, LlmRepackedMatrix, at).op))
        self->first_expert = MIN (self->first_expert, self->ranges.bytes);
      add_panels (self, at);
    }
}

/* @parts, @repacked: (transfer full); @repacked: (nullable). A tensor that several operators share
 * counts for each part of it. */
static LlmWeights *
new_weights (LlmGguf             *gguf,
             const LlmHparams    *hparams,
             const LlmSubModels  *sub_models,
             LlmTensorPart       *parts,
             LlmRepacked         *repacked,
             LlmLedger           *ledger)
{
  LlmFileWeights *self = g_new0 (LlmFileWeights, 1);

  self->parent.provider = &file_provider;
  if (sub_models == NULL)
    sub_models = self->whole = llm_sub_models_new_whole (hparams);
  self->parent.sub_models = sub_models;
  self->hparams = hparams;
  self->gguf = llm_gguf_ref (gguf);
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  self->parts = parts;
  self->repacked = repacked;
  self->places = g_new0 (guint, (gsize) hparams->n_layers * LLM_N_OPS * sub_models->n_levels);
  llm_weight_ranges_init (&self->ranges);
  add_all_rows (self);
  self->first_panel = self->ranges.bytes;
  if (repacked != NULL)
    add_all_panels (self);
  /* in memory, until the kernel is asked */
  llm_weight_ranges_end (&self->ranges, repacked != NULL ? gguf->map : NULL);
  self->parent.bytes = self->keeps = self->ranges.bytes;
  tell_held (self, 0);
  return &self->parent;
}

LlmWeights *
llm_weights_new_mapped (LlmGguf             *gguf,
                        const LlmHparams    *hparams,
                        const LlmSubModels  *sub_models,
                        LlmLedger           *ledger,
                        GError             **error)
{
  LlmTensorPart *parts = llm_weights_find_parts (gguf, hparams, error);

  return parts != NULL ? new_weights (gguf, hparams, sub_models, parts, NULL, ledger) : NULL;
}

LlmWeights *
llm_weights_new_repacked (LlmGguf             *gguf,
                          const LlmHparams    *hparams,
                          const LlmSubModels  *sub_models,
                          LlmRepackedCache    *cache,
                          guint                n_threads,
                          LlmLedger           *ledger,
                          GError             **error)
{
  g_autofree LlmTensorPart *parts = llm_weights_find_parts (gguf, hparams, error);
  g_autoptr(LlmRepackedPlan) plan = NULL;
  LlmRepacked *repacked = NULL;

  if (parts != NULL)
    plan = llm_repacked_plan_new (gguf, hparams, sub_models, NULL, error);
  if (plan != NULL)
    repacked = llm_repacked_cache_get (cache, plan, n_threads, ledger, error);
  return repacked != NULL ? new_weights (gguf, hparams, sub_models, g_steal_pointer (&parts),
                                         repacked, ledger)
                          : NULL;
}
