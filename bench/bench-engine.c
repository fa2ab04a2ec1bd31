/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-engine.h"

#include <string.h>
#include <time.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"
#include "support/llm-test-levels.h"
#include "weights/llm-repacked-cache.h"

/* Rows of numbers that KV caches are filled with. */
#define FILL_PERIOD 61
#define WAIT_US (10 * G_TIME_SPAN_MILLISECOND)

static double
get_seconds (void)
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* --- costs --- */

/* The share of a tensor that one token uses: of experts only some. */
static double
get_used_share (LlmGguf             *gguf,
                const LlmHparams    *hparams,
                const LlmGgufTensor *tensor)
{
  g_autofree char *all_key = g_strdup_printf ("%s.expert_count", hparams->architecture);
  g_autofree char *used_key = g_strdup_printf ("%s.expert_used_count", hparams->architecture);
  const guint64 none = 0;
  guint64 n_all = 0, n_used = 0;

  if (strstr (tensor->name, "_exps") == NULL ||
      !llm_gguf_get_uint (gguf, all_key, 0, G_MAXUINT16, &none, &n_all, NULL) ||
      !llm_gguf_get_uint (gguf, used_key, 0, G_MAXUINT16, &none, &n_used, NULL) || n_all == 0)
    return 1;
  return (double) n_used / (double) n_all;
}

static void
count_costs (BenchEngine *self)
{
  LlmGguf *gguf = llm_model_get_gguf (self->model);
  const LlmHparams *h = self->hparams;
  guint64 bytes_of_type[LLK_TYPE_LIMIT] = { 0 };
  BenchCosts *costs = &self->costs;

  for (guint i = 0; i < gguf->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (gguf, i);
      double share = get_used_share (gguf, h, tensor);
      double ops = 2.0 * tensor->dims[0] * tensor->dims[1] * tensor->dims[2] * share;
      gboolean is_embedding = strcmp (tensor->name, "token_embd.weight") == 0;

      /* One row of it, unless it is the output as well. */
      if (is_embedding && !h->has_tied_output)
        continue;
      costs->row_bytes += (guint64) (tensor->bytes * share);
      if (tensor->n_dims < 2)
        continue;
      if (is_embedding || strcmp (tensor->name, "output.weight") == 0)
        costs->logits_ops += ops;
      else
        costs->row_ops += ops;
      if (tensor->type < G_N_ELEMENTS (bytes_of_type))
        bytes_of_type[tensor->type] += tensor->bytes;
    }
  for (guint type = 0; type < G_N_ELEMENTS (bytes_of_type); type++)
    if (bytes_of_type[type] > bytes_of_type[costs->type])
      costs->type = type;

  for (guint i = 0; i < h->n_layers; i++)
    {
      const LlmLayer *layer = &h->layers[i];

      costs->position_bytes += (guint64) 2 * layer->n_kv_heads * layer->head_dim * sizeof (guint16);
      costs->position_ops += 4.0 * layer->n_heads * layer->head_dim;
    }
}

BenchCosts
bench_engine_get_level_costs (BenchEngine *self,
                              guint        level)
{
  const LlmHparams *h = self->hparams;
  const LlmCompanion *companion = self->weights->levels->companion;
  const LlmSubModelCost *cost = &companion->costs[level];
  BenchCosts costs = self->costs;
  guint n_groups = 0;

  for (guint layer = 0; layer < h->n_layers; layer++)
    n_groups += llm_sub_models_get_groups (companion->sub_models, layer, level);
  costs.position_ops = 4.0 * n_groups * h->head_dim * (h->n_heads / h->n_kv_heads);
  costs.position_bytes = (guint64) n_groups * 2 * h->head_dim * sizeof (guint16);
  costs.row_bytes = cost->bytes;
  /* a multiplication and an addition each; with attention to so many positions, and the output */
  costs.row_ops = 2.0 * (double) cost->operations - costs.logits_ops
                  - costs.position_ops * LLM_SUB_MODEL_DEPTH;
  return costs;
}

/* --- setting up --- */

LlmKvStore *
bench_engine_new_store (BenchEngine        *self,
                        const LlmKvPolicy  *policy,
                        GError            **error)
{
  LlmKvLayer layers[LLM_MAX_LAYERS];
  const LlmKvLayout layout =
    llm_forward_get_layout (self->hparams, LLK_KV_F16, LLM_KV_CHUNK_SLOTS, layers);

  return llm_kv_store_new (&layout, policy, NULL, error);
}

LlmKvStorage *
bench_store_open_storage (LlmKvStore  *store,
                          const char  *folder,
                          guint64      identity,
                          GError     **error)
{
  LlmDisk *disk = llm_disk_new (NULL, error);
  LlmKvStorage *storage =
    disk != NULL ? llm_kv_storage_new (folder, disk, BENCH_STORAGE_LIMIT, 0, error) : NULL;

  if (storage != NULL)
    llm_kv_store_set_storage (store, storage, identity);
  return storage;
}

static gboolean
open_parts (BenchEngine              *self,
            const BenchEngineConfig  *config,
            GError                  **error)
{
  g_autoptr(LlmRepackedCache) cache = NULL;
  g_autoptr(LlmLevels) levels = NULL;
  const LlmSubModels *table = NULL;
  GError *cause = NULL;

  self->kernels = config->kernels != NULL ? llk_ops_find (config->kernels) : llk_ops_best ();
  if (self->kernels == NULL)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   "This processor has no kernels “%s”", config->kernels);
      return FALSE;
    }
  self->model = llm_model_open (config->path, error);
  if (self->model == NULL)
    return FALSE;

  self->hparams = llm_model_get_hparams (self->model);
  /* Borders where no run of weights is cut, as those of real sub-models are where possible. */
  if (config->n_segments > 1)
    table = self->sub_models = llm_test_levels_new (self->hparams, config->n_segments, 256, FALSE);
  if (config->has_levels)
    {
      levels = llm_levels_open (self->model, NULL, &cause);
      if (levels == NULL && cause == NULL)
        g_set_error (&cause, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                     "There is no companion beside %s: make one with llmsvc-elastic or make-gguf "
                     "--levels", config->path);
      if (cause != NULL)
        {
          g_propagate_error (error, cause);
          return FALSE;
        }
      table = llm_levels_get_table (levels);
    }
  if (config->cache != NULL)
    cache = llm_repacked_cache_new (config->cache, FALSE, NULL, 0);
  self->weights =
    config->is_exact
      ? llm_weights_new_mapped (llm_model_get_gguf (self->model), self->hparams,
                                table, NULL, error)
      : llm_weights_new_repacked (llm_model_get_gguf (self->model), self->hparams,
                                  table, cache, config->n_threads, NULL, error);
  if (self->weights == NULL)
    return FALSE;
  self->weights->levels = g_steal_pointer (&levels);

  self->store = bench_engine_new_store (self, config->policy, error);
  if (self->store == NULL || config->chunks == NULL)
    return self->store != NULL;
  self->storage = bench_store_open_storage (self->store, config->chunks, 1, error);
  return self->storage != NULL;
}

BenchEngine *
bench_engine_new (const BenchEngineConfig  *config,
                  GError                  **error)
{
  g_autoptr(BenchEngine) self = g_new0 (BenchEngine, 1);
  LlmPlanConfig plan = { 0 };

  self->sub_model = 100;
  self->switches = g_array_new (FALSE, FALSE, sizeof (double));
  self->repeats = g_array_new (FALSE, FALSE, sizeof (double));
  bench_turns_init (&self->turns, -1);
  if (!open_parts (self, config, error))
    return NULL;
  count_costs (self);
  self->pool = llm_worker_pool_new (config->n_threads);
  self->n_threads = llm_worker_pool_get_n_threads (self->pool);
  plan.kernels = self->kernels;
  self->plan = llm_plan_new (self->hparams, self->weights, &plan);
  self->forward = llm_forward_new (self->plan, self->pool, NULL);
  return g_steal_pointer (&self);
}

void
bench_engine_free (BenchEngine *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->forward, llm_forward_free);
  g_clear_pointer (&self->plan, llm_plan_unref);
  g_clear_pointer (&self->store, llm_kv_store_free);
  g_clear_pointer (&self->storage, llm_kv_storage_free);
  g_clear_pointer (&self->pool, llm_worker_pool_free);
  g_clear_pointer (&self->weights, llm_weights_free);
  g_clear_pointer (&self->sub_models, llm_sub_models_free);
  g_clear_pointer (&self->model, llm_model_unref);
  llm_repacked_wait_for_all ();
  bench_turns_clear (&self->turns);
  g_array_unref (self->switches);
  g_array_unref (self->repeats);
  g_free (self);
}

/* --- steps --- */

/* Any token but the first few, which are control tokens in most files. */
static gint32
choose_token (BenchEngine *self)
{
  const guint n_special = self->hparams->n_vocab > 600 ? 300 : 0;

  self->random = self->random * G_GUINT64_CONSTANT (6364136223846793005) + 1442695040888963407;
  return (gint32) (n_special + (self->random >> 33) % (self->hparams->n_vocab - n_special));
}

static LlmRow
make_row (BenchEngine *self,
          LlmKvSeq    *sequence,
          guint        slot,
          guint        index)
{
  return (LlmRow) {
    .token = choose_token (self),
    .position = slot + sequence->n_slid,
    .sequence = index,
    .slot = slot,
    .visibility = { .kind = LLM_VISIBLE_CAUSAL },
    .sub_model = self->sub_model,
    .is_counted = llm_row_is_sampled (slot),
  };
}

static LlmRow
append_row (BenchEngine *self,
            LlmKvSeq    *sequence,
            guint        index)
{
  guint slot = sequence->length;
  g_autoptr(GError) error = NULL;

  if (!llm_kv_seq_append (sequence, 1, &error))
    g_error ("%s", error->message);
  return make_row (self, sequence, slot, index);
}

static LlmStatus
run_stage (BenchEngine   *self,
           BenchProfile  *profile,
           GError       **error)
{
  const char *name = llm_forward_get_stage_name (self->forward);
  double begin = get_seconds (), seconds;
  LlmWorkerTimes times = { 0 };
  gboolean waits;
  LlmStatus status;
  guint i = 0;

  llm_worker_pool_set_times (self->pool, &times);
  status = llm_forward_step (self->forward, &waits, error);
  llm_worker_pool_set_times (self->pool, NULL);
  if (waits)
    llm_kv_store_wait (self->store, WAIT_US);
  seconds = get_seconds () - begin;
  while (i < profile->n_stages && strcmp (profile->stages[i].name, name) != 0)
    i++;
  g_assert (i < BENCH_MAX_STAGES);
  profile->n_stages = MAX (profile->n_stages, i + 1);
  profile->stages[i].name = name;
  profile->stages[i].seconds += seconds;
  profile->stages[i].times.n_shared += times.n_shared;
  profile->stages[i].times.shared_ns += times.shared_ns;
  profile->stages[i].times.busy_ns += times.busy_ns;
  return status;
}

static void
run_step (BenchEngine     *self,
          const LlmRow    *rows,
          guint            n_rows,
          LlmKvSeq *const *sequences,
          guint            n_sequences,
          BenchProfile    *profile)
{
  const LlmBatch batch = { rows, n_rows, sequences, n_sequences };
  g_autoptr(GError) error = NULL;
  LlmStatus status = LLM_PENDING;
  double begin;

  bench_turns_begin (&self->turns);
  begin = get_seconds ();
  if (!llm_forward_begin (self->forward, &batch, &error))
    g_error ("%s", error->message);
  begin = get_seconds () - begin;
  if (self->before != 0)
    g_array_append_val (self->before == self->sub_model ? self->repeats : self->switches, begin);
  self->before = self->sub_model;
  while (status == LLM_PENDING && profile != NULL)
    status = run_stage (self, profile, &error);
  while (status == LLM_PENDING)
    {
      status = llm_forward_resume (self->forward, &error);
      if (status == LLM_PENDING)
        llm_kv_store_wait (self->store, WAIT_US);
    }
  if (status != LLM_READY)
    g_error ("%s", error->message);
  bench_turns_end (&self->turns);
}

double
bench_engine_prefill (BenchEngine  *self,
                      LlmKvSeq     *sequence,
                      const GArray *missing,
                      guint         n_new,
                      BenchProfile *profile)
{
  g_autofree LlmRow *rows = g_new (LlmRow, LLM_BATCH_MAX_ROWS);
  guint n_missing = missing != NULL ? missing->len : 0, n = n_missing + n_new;
  double begin = self->turns.seconds;

  for (guint first = 0; first < n; first += LLM_BATCH_MAX_ROWS)
    {
      guint n_rows = MIN (n - first, LLM_BATCH_MAX_ROWS);

      for (guint i = 0; i < n_rows; i++)
        rows[i] = first + i < n_missing
                    ? make_row (self, sequence, g_array_index (missing, guint, first + i), 0)
                    : append_row (self, sequence, 0);
      rows[n_rows - 1].wants_logits = first + n_rows == n;
      run_step (self, rows, n_rows, &sequence, 1, profile);
    }
  return self->turns.seconds - begin;
}

/* Row @index of a tree behind @base: the parent of each is half as far from the root. */
static void
set_node (LlmRow *row,
          guint   base,
          guint   index)
{
  guint node = index, depth = 0;

  row->visibility = (LlmVisibility) { .kind = LLM_VISIBLE_TREE, .base = base, .ancestors = 1 };
  for (; node > 0; node = (node - 1) / 2, depth++)
    row->visibility.ancestors |= G_GUINT64_CONSTANT (1) << node;
  row->position = base + depth;
}

double
bench_engine_decode (BenchEngine     *self,
                     LlmKvSeq *const *sequences,
                     guint            n_sequences,
                     guint            n_rows,
                     gboolean         is_tree,
                     guint            n_steps,
                     BenchProfile    *profile)
{
  g_autofree LlmRow *rows = g_new (LlmRow, n_sequences * n_rows);
  double begin = self->turns.seconds;

  for (guint i = 0; i < n_steps; i++)
    {
      for (guint r = 0; r < n_sequences * n_rows; r++)
        {
          LlmKvSeq *sequence = sequences[r / n_rows];

          rows[r] = append_row (self, sequence, r / n_rows);
          rows[r].wants_logits = TRUE;
          if (is_tree)
            set_node (&rows[r], rows[r].slot - r % n_rows, r % n_rows);
        }
      run_step (self, rows, n_sequences * n_rows, sequences, n_sequences, profile);
      for (guint s = 0; s < n_sequences; s++)
        llm_kv_seq_truncate (sequences[s], sequences[s]->length - (n_rows - 1));
    }
  return self->turns.seconds - begin;
}

/* --- stores --- */

gboolean
bench_store_restore (LlmKvStore *store,
                     LlmKvSeq   *sequence,
                     GError    **error)
{
  guint n_layers = store->layout.n_layers;
  LlmStatus status = LLM_READY;

  for (guint layer = 0; layer < n_layers && status == LLM_READY; layer++)
    while ((status = llm_kv_seq_make_resident (sequence, layer, error)) == LLM_PENDING)
      llm_kv_store_wait (store, WAIT_US);
  return status == LLM_READY;
}

void
bench_store_settle (LlmKvStore *store)
{
  while (!llm_kv_store_is_settled (store))
    if (!llm_kv_store_work (store, llm_clock_now_us () + WAIT_US))
      llm_kv_store_wait (store, WAIT_US);
}

gboolean
bench_sequence_fill (LlmKvSeq *sequence,
                     guint     n_slots,
                     GError  **error)
{
  const LlmKvLayout *layout = &sequence->store->layout;
  guint n_values = layout->n_kv_heads * layout->head_dim;
  guint first = sequence->length;
  g_autofree float *values = g_new (float, 2 * n_values + FILL_PERIOD);

  for (guint i = 0; i < 2 * n_values + FILL_PERIOD; i++)
    values[i] = (float) ((i * 7919) % 1000) / 500 - 1;
  if (!llm_kv_seq_append (sequence, n_slots, error))
    return FALSE;
  for (guint slot = first; slot < first + n_slots; slot++)
    for (guint layer = 0; layer < layout->n_layers; layer++)
      llm_kv_seq_write (sequence, layer, slot, values + slot % FILL_PERIOD,
                        values + n_values + layer % FILL_PERIOD);
  for (guint chunk = 0; chunk < sequence->holds->len; chunk++)
    llm_kv_seq_add_density (sequence, chunk, (1 + chunk * 7 % 5) * LLM_KV_DENSITY_ONE,
                            (guint64) n_slots * layout->chunk_slots);
  return TRUE;
}

void
bench_store_end_call (LlmKvStore *store,
                      LlmKvSeq   *sequence)
{
  guint n = sequence->length;
  g_autofree gint32 *tokens = g_new (gint32, MAX (n, 1));

  /* No two contexts have the same text, or they would share chunks. */
  for (guint i = 0; i < n; i++)
    tokens[i] = (gint32) (sequence->reuse.id + i);
  llm_kv_seq_end_call (sequence, tokens, n);
  bench_store_settle (store);
}
