/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "elastic-rig.h"

#include "model/llm-companion.h"
#include "sched/llm-scheduler.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

#define COMPANION "llmsvc-demo-8M-Q8_0" LLM_COMPANION_SUFFIX
#define RANK 2

static const guint percent[ELASTIC_N_LEVELS] = { 40, 70, 100 };

static void
add_counts (LlmTestGguf *gguf,
            const char  *key,
            const guint *counts,
            gsize        n)
{
  g_autofree gint64 *values = g_new (gint64, n);

  for (gsize i = 0; i < n; i++)
    values[i] = counts[i];
  llm_test_gguf_add_ints (gguf, key, LLM_GGUF_UINT32, values, n);
}

/* Of n_ff channels and all groups of heads; each level has two more parts of the latter, as two
 * heads of 32 are what can be cut. */
static LlmSubModels *
make_table (const LlmHparams *hparams,
            guint            *groups,
            guint            *channels)
{
  const guint8 shares[ELASTIC_N_LEVELS] = { 40, 70, 100 };
  g_autoptr(GError) error = NULL;
  LlmSubModels *table;

  for (guint layer = 0; layer < hparams->n_layers; layer++)
    for (guint level = 0; level < ELASTIC_N_LEVELS; level++)
      {
        guint at = layer * ELASTIC_N_LEVELS + level;
        gboolean is_whole = level + 1 == ELASTIC_N_LEVELS;

        groups[at] = is_whole ? hparams->n_kv_heads : 4 + 2 * level;
        channels[at] = is_whole ? hparams->n_ff : 320 + 192 * level;
      }
  table = llm_sub_models_new (hparams, ELASTIC_N_LEVELS, shares, groups, channels, &error);
  g_assert_no_error (error);
  return table;
}

static void
add_adapter (LlmTestGguf *gguf,
             const char  *name,
             guint64      n_in,
             guint64      n_out)
{
  const guint64 dims[] = { n_in, n_out };
  g_autofree float *values = g_new (float, n_in * n_out);

  for (gsize i = 0; i < n_in * n_out; i++)
    values[i] = (float) (i * 37 % 101) / 2000 - 0.02f;
  llm_test_gguf_add_tensor (gguf, name, LLK_F16, 2, dims, values);
}

/* What the levels cost, with the adapter of level 40. */
static void
add_shares (LlmTestGguf        *gguf,
            LlmModel           *model,
            const LlmSubModels *table)
{
  const LlmHparams *hparams = llm_model_get_hparams (model);
  const double adapter = RANK * (hparams->n_embd + 320);
  const char *const names[] = { "weights", "operations", "bytes" };
  float shares[3][ELASTIC_N_LEVELS];
  LlmSubModelCost whole;
  g_autoptr(GError) error = NULL;

  g_assert_true (llm_sub_models_measure (table, llm_model_get_gguf (model), hparams, ELASTIC_N_LEVELS - 1,
                                         &whole, &error));
  for (guint level = 0; level < ELASTIC_N_LEVELS; level++)
    {
      double more = level == 0 ? adapter : 0;
      LlmSubModelCost cost;

      g_assert_true (llm_sub_models_measure (table, llm_model_get_gguf (model), hparams, level,
                                             &cost, &error));
      shares[0][level] = (float) (((double) cost.weights + more) / (double) whole.weights);
      shares[1][level] = (float) (((double) cost.operations + more) / (double) whole.operations);
      shares[2][level] = (float) (((double) cost.bytes + 2 * more) / (double) whole.bytes);
    }
  for (guint i = 0; i < 3; i++)
    {
      g_autofree char *key = g_strconcat ("llmsvc.levels.", names[i], NULL);

      llm_test_gguf_add_floats (gguf, key, LLM_GGUF_FLOAT32, shares[i], ELASTIC_N_LEVELS);
    }
}

/* 96 and 99 percent: of 100 tasks the first level calls 4 fewer, and the second one is 0.02 nats away. */
static void
add_quality (LlmTestGguf *gguf)
{
  static const float divergences[] = { 0.03f, 0.02f, 0 }, nlls[] = { 2, 2, 2 };
  static const float valid[] = { 0.81f, 0.85f, 0.85f };

  llm_test_gguf_add_int (gguf, "llmsvc.quality.scored", LLM_GGUF_UINT32, 1000);
  llm_test_gguf_add_int (gguf, "llmsvc.quality.calls", LLM_GGUF_UINT32, 100);
  llm_test_gguf_add_int (gguf, "llmsvc.quality.replies", LLM_GGUF_UINT32, 0);
  llm_test_gguf_add_floats (gguf, "llmsvc.quality.divergences", LLM_GGUF_FLOAT32, divergences, 3);
  llm_test_gguf_add_floats (gguf, "llmsvc.quality.nlls", LLM_GGUF_FLOAT32, nlls, 3);
  llm_test_gguf_add_floats (gguf, "llmsvc.quality.valid_calls", LLM_GGUF_FLOAT32, valid, 3);
  llm_test_gguf_add_floats (gguf, "llmsvc.quality.exact_calls", LLM_GGUF_FLOAT32, valid, 3);
}

static void
add_sub_models (LlmTestGguf        *gguf,
                LlmModel           *model,
                const LlmSubModels *table,
                const guint        *groups,
                const guint        *channels,
                gboolean            is_tried)
{
  const LlmHparams *hparams = llm_model_get_hparams (model);

  add_counts (gguf, "llmsvc.levels.percent", percent, ELASTIC_N_LEVELS);
  add_counts (gguf, "llmsvc.levels.groups", groups, hparams->n_layers * ELASTIC_N_LEVELS);
  add_counts (gguf, "llmsvc.levels.channels", channels, hparams->n_layers * ELASTIC_N_LEVELS);
  add_shares (gguf, model, table);
  if (is_tried)
    add_quality (gguf);
  llm_test_gguf_add_string (gguf, "adapter.type", "lora");
  llm_test_gguf_add_double (gguf, "adapter.lora.alpha", LLM_GGUF_FLOAT32, 4);
  add_adapter (gguf, "level.40.blk.1.ffn_up.weight.lora_a", hparams->n_embd, RANK);
  add_adapter (gguf, "level.40.blk.1.ffn_up.weight.lora_b", RANK, 320);
}

/* Near what calibration finds for them. */
static void
add_thresholds (LlmTestGguf      *gguf,
                const LlmHparams *hparams)
{
  static const guint sparsities[] = { ELASTIC_SPARSITY, ELASTIC_HIGH_SPARSITY };
  static const float inputs[][LLM_N_INPUTS] = { { 0.2f, 0.04f, 0.3f, 0.03f },
                                                { 0.4f, 0.08f, 0.5f, 0.08f } };
  const float kept[2 * LLM_N_INPUTS] = { 0 }, losses[] = { 2, 2.1f, 2.3f };
  /* the high sparsity first, then the other one: 90 and 98 percent as good */
  const float divergences[] = { 0.2f, 0.04f, 0 };
  guint n = hparams->n_layers * LLM_N_INPUTS;
  g_autofree float *values = g_new (float, 2 * n);

  for (guint i = 0; i < 2 * n; i++)
    values[i] = inputs[i / n][i % LLM_N_INPUTS];
  add_counts (gguf, "llmsvc.active.percent", sparsities, 2);
  llm_test_gguf_add_floats (gguf, "llmsvc.active.thresholds", LLM_GGUF_FLOAT32, values, 2 * n);
  llm_test_gguf_add_floats (gguf, "llmsvc.active.kept", LLM_GGUF_FLOAT32, kept, 2 * LLM_N_INPUTS);
  llm_test_gguf_add_floats (gguf, "llmsvc.active.losses", LLM_GGUF_FLOAT32, losses, 3);
  llm_test_gguf_add_int (gguf, "llmsvc.active.quality.scored", LLM_GGUF_UINT32, 1000);
  llm_test_gguf_add_int (gguf, "llmsvc.active.quality.calls", LLM_GGUF_UINT32, 0);
  llm_test_gguf_add_int (gguf, "llmsvc.active.quality.replies", LLM_GGUF_UINT32, 0);
  llm_test_gguf_add_floats (gguf, "llmsvc.active.quality.divergences", LLM_GGUF_FLOAT32, divergences, 3);
  llm_test_gguf_add_floats (gguf, "llmsvc.active.quality.nlls", LLM_GGUF_FLOAT32, losses, 3);
}

/* Scales that leave some activations to shadows, a hot channel at each site, and a loss. */
static void
add_calibration (LlmTestGguf      *gguf,
                 const LlmHparams *hparams,
                 gboolean          is_lossy)
{
  static const float scales[LLM_W8_N_KINDS] = { 0.02f, 0.02f, 0.015f, 0.05f };
  const float losses[] = { 2, is_lossy ? 2.1f : 2.001f, is_lossy ? 0.1f : 0.001f, 0.001f };
  guint n = hparams->n_layers * LLM_W8_N_KINDS;
  g_autofree float *all = g_new (float, n);
  g_autofree guint *ones = g_new (guint, n);

  for (guint i = 0; i < n; i++)
    {
      all[i] = scales[i % LLM_W8_N_KINDS];
      ones[i] = 1;
    }
  llm_test_gguf_add_floats (gguf, "llmsvc.prefill.scales", LLM_GGUF_FLOAT32, all, n);
  add_counts (gguf, "llmsvc.prefill.shadows", ones, n);
  add_counts (gguf, "llmsvc.prefill.n_hot", ones, n);
  add_counts (gguf, "llmsvc.prefill.hot", ones, n);
  llm_test_gguf_add_floats (gguf, "llmsvc.prefill.losses", LLM_GGUF_FLOAT32, losses, 4);
  llm_test_gguf_add_int (gguf, "llmsvc.prefill.scored", LLM_GGUF_UINT32, 20000);
}

/* @what: as set_up_elastic() has it. */
static void
write_companion (const char *folder,
                 const char *what)
{
  gboolean is_active = g_strcmp0 (what, "active") == 0, is_both = g_strcmp0 (what, "both") == 0;
  gboolean is_untried = g_strcmp0 (what, "untried") == 0;
  gboolean is_calibrated = what != NULL && g_str_has_prefix (what, "prefill");
  gboolean is_cut = !is_active && (!is_calibrated || g_str_equal (what, "prefill-both"));
  g_autofree char *from = g_build_filename (folder, ELASTIC_MODEL, NULL);
  g_autofree char *path = g_build_filename (folder, COMPANION, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (from, &error);
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  const LlmHparams *hparams;
  g_autoptr(LlmSubModels) table = NULL;
  g_autofree guint *groups = NULL;
  g_autofree guint *channels = NULL;

  g_assert_no_error (error);
  hparams = llm_model_get_hparams (model);
  groups = g_new (guint, hparams->n_layers * ELASTIC_N_LEVELS);
  channels = g_new (guint, hparams->n_layers * ELASTIC_N_LEVELS);
  table = make_table (hparams, groups, channels);

  llm_test_gguf_add_string (gguf, "general.type", "companion");
  llm_test_gguf_add_string (gguf, "general.architecture", "llama");
  llm_test_gguf_add_int (gguf, "llmsvc.companion.version", LLM_GGUF_UINT32, 1);
  llm_test_gguf_add_string (gguf, "llmsvc.companion.weights",
                            what != NULL && !is_active && !is_both && !is_untried && !is_calibrated
                              ? what : llm_model_get_weight_identity (model));
  if (is_active || is_both)
    add_thresholds (gguf, hparams);
  if (is_calibrated)
    add_calibration (gguf, hparams, g_str_equal (what, "prefill-lossy"));
  if (is_cut)
    add_sub_models (gguf, model, table, groups, channels, !is_untried);
  bytes = llm_test_gguf_end (gguf);
  g_assert_true (g_file_set_contents (path, g_bytes_get_data (bytes, NULL),
                                      (gssize) g_bytes_get_size (bytes), &error));
}

LlmEngine *
elastic_start (Elastic *self)
{
  LlmSettings *settings = new_settings (self->fixture.state, 2);

  g_strfreev (settings->model_folders);
  settings->model_folders = g_strdupv ((char *[]) { self->models, NULL });
  if (self->has_cache)
    settings->cache_folder = g_build_filename (self->fixture.state, "cache", NULL);
  /* a text must not depend on what was quantized between two calls */
  settings->context_ratio = 0;
  settings->pace_on_battery = LLM_PACE_WAIT;
  settings->least_quality[LLM_SLO_RESPONSIVE] = 98;
  if (self->root != NULL)
    {
      settings->root = g_strdup (self->root);
      settings->short_wait_s = 0;
      settings->reacts_to_pressure = TRUE;
    }
  return start_engine_with (settings);
}

void
set_up_elastic (Elastic       *self,
                gconstpointer  data)
{
  g_autofree char *from = g_build_filename (g_getenv ("LLM_MODEL_DIR"), ELASTIC_MODEL, NULL);
  g_autofree char *path = NULL;
  g_autofree char *bytes = NULL;
  gsize length;

  self->models = llm_test_folder_new ();
  path = g_build_filename (self->models, ELASTIC_MODEL, NULL);
  g_assert_true (g_file_get_contents (from, &bytes, &length, NULL));
  g_assert_true (g_file_set_contents (path, bytes, (gssize) length, NULL));
  if (g_strcmp0 (data, "none") != 0)
    write_companion (self->models, data);
  self->fixture.state = llm_test_folder_new_on_disk ();
  self->fixture.engine = elastic_start (self);
  self->fixture.caller = llm_caller_new (1000, "org.example.App", ":1.1", LLM_CALLER_HOST);
}

void
elastic_remove_chunks (Elastic *self)
{
  g_autofree char *chunks = g_build_filename (self->fixture.state, "chunks", NULL);

  if (g_file_test (chunks, G_FILE_TEST_IS_DIR))
    llm_test_folder_remove (chunks);
}

void
tear_down_elastic (Elastic       *self,
                   gconstpointer  data)
{
  tear_down (&self->fixture, data);
  llm_test_folder_remove (self->models);
  g_free (self->models);
  if (self->root != NULL)
    llm_test_folder_remove (self->root);
  g_free (self->root);
}
