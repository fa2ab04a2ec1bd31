/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What tokens take where weights come from storage: what is forecast to be read is what is read, and what
 * takes long follows from what reads and products take. */

#include <unistd.h>

#include "common/llmsvc-error.h"
#include "prepared-rig.h"
#include "weights/llm-channels.h"
#include "weights/llm-read-forecast.h"

/* Large enough to tell something of a disk. */
static const LlmTestModel large_model = {
  .n_embd = 512, .n_heads = 8, .n_kv_heads = 4, .n_ff = 2048, .n_layers = 10, .type = LLK_Q8_0,
  .n_vocab = 300, .is_untied = TRUE,
};
static const LlmTestModel tiny_model = {
  .n_embd = 256, .n_heads = 8, .n_kv_heads = 4, .n_ff = 512, .n_layers = 2, .type = LLK_Q8_0,
  .n_vocab = 300, .is_untied = TRUE,
};

typedef struct
{
  Loaded loaded;
  LlmRepackedCache *cache;
  LlmDisk *disk;
  LlmWeightSource source;
  LlmThresholds thresholds;
} Rig;

static void
begin (Rig                *rig,
       Fixture            *fixture,
       const LlmTestModel *model)
{
  g_autoptr(GError) error = NULL;

  *rig = (Rig) { .thresholds = { .n_sparsities = 2, .percent = { 50, 70 },
                                 .kept = { { 0.6f, 0.5f, 0.55f, 0.4f }, { 0.4f, 0.2f, 0.3f, 0.2f } } } };
  llm_test_model_write (model, fixture->model);
  rig->cache = llm_repacked_cache_new (fixture->cache, FALSE, NULL, 0);
  rig->disk = llm_disk_new (NULL, &error);
  g_assert_no_error (error);
  rig->source = llm_weight_source_of_disk (rig->disk);
  load (&rig->loaded, fixture->model, rig->cache);
}

static void
end (Rig *rig)
{
  unload (&rig->loaded);
  llm_disk_free (rig->disk);
  llm_repacked_cache_free (rig->cache);
}

/* Requests and bytes that take so long each. */
static LlmReadRates
make_rates (double request_us,
            double byte_us)
{
  LlmReadRates rates = { .stream_us = byte_us, .product_us = 1e-5 };

  for (guint i = 0; i < 200; i++)
    {
      guint n = (guint) g_test_rand_int_range (1, 200);
      double bytes = g_test_rand_double_range (1e3, 60e3) * n;

      llm_read_cost_add (&rates.cost, n, bytes, request_us * n + bytes * byte_us);
    }
  return rates;
}

static void
forecast (Rig                *rig,
          guint64             staying,
          const LlmReadRates *rates,
          LlmReadForecast    *forecasts)
{
  g_autoptr(GError) error = NULL;
  guint n = llm_weights_forecast_reads (rig->loaded.weights, &rig->thresholds, staying, rates, forecasts,
                                        &error);

  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 3);
  for (guint i = 0; i < n; i++)
    g_assert_cmpuint (forecasts[i].percent, ==, i == 0 ? 0 : rig->thresholds.percent[i - 1]);
}

static void
test_times (Fixture       *fixture,
            gconstpointer  data)
{
  const LlmReadRates quick = make_rates (0, 0.003), slow = make_rates (2000, 0.003);
  LlmReadForecast all[1 + LLM_MAX_SPARSITIES], half[1 + LLM_MAX_SPARSITIES], none[1 + LLM_MAX_SPARSITIES];
  Rig rig;
  double bytes;

  begin (&rig, fixture, &large_model);
  bytes = (double) rig.loaded.weights->bytes;
  forecast (&rig, 0, &quick, all);
  forecast (&rig, rig.loaded.weights->bytes / 2, &quick, half);
  forecast (&rig, G_MAXUINT64, &quick, none);
  g_assert_cmpuint (all[0].whole_bytes, ==, rig.loaded.weights->bytes);
  g_assert_cmpfloat_with_epsilon (all[0].whole_us, bytes * 0.003, bytes * 1e-6);
  g_assert_cmpfloat (all[1].channel_us, <, all[0].whole_us * 0.75);
  g_assert_cmpfloat (all[2].channel_us, <, all[1].channel_us);
  g_assert_cmpfloat_with_epsilon (half[0].whole_us * 2, all[0].whole_us, all[0].whole_us * 0.01);
  g_assert_cmpfloat_with_epsilon (half[2].channel_us * 2, all[2].channel_us, all[2].channel_us * 0.05);
  g_assert_cmpuint (none[0].whole_bytes, ==, 0);
  g_assert_cmpuint (none[2].n_requests, ==, 0);
  g_assert_cmpfloat_with_epsilon (none[0].whole_us, bytes * 1e-5, bytes * 1e-8);

  /* where a request is dear, neighbours come with it, and whole weights are as quick */
  forecast (&rig, 0, &slow, all);
  g_assert_cmpfloat (all[1].channel_us, >, all[0].whole_us);
  end (&rig);
}

/* What a pass reads by channel, with as many inputs active, here and there. */
static guint64
read_by_channel (Rig         *rig,
                 LlmChannels *channels,
                 const float *kept)
{
  g_autofree float *values = g_new (float, large_model.n_ff);
  LlmStreamFigures figures = { 0 };
  guint64 before;

  llm_channels_add_figures (channels, &figures);
  before = figures.channel_bytes;
  for (guint layer = 0; layer < large_model.n_layers; layer++)
    for (guint op = 0; op < LLM_N_OPS; op++)
      {
        LlmInput input = llm_input_of (op);
        guint n_in = input == LLM_INPUT_FFN_DOWN ? large_model.n_ff : large_model.n_embd;
        const LlmActivation activation = { .values = values, .n_rows = 1, .n_in = n_in, .sparsity = 50 };
        LlmWeightView view = { 0 };
        LlmStatus status = LLM_PENDING;

        /* those that have an input in common are read together */
        if (input == LLM_INPUT_NONE || op == LLM_OP_KEY || op == LLM_OP_VALUE || op == LLM_OP_FFN_UP)
          continue;
        for (guint i = 0; i < n_in; i++)
          values[i] = g_test_rand_double () < (double) kept[input - 1];
        while (status == LLM_PENDING)
          {
            status = llm_channels_acquire (channels, op, layer, 0, &activation, &view);
            if (status == LLM_PENDING)
              llm_disk_poll (rig->disk, G_USEC_PER_SEC);
          }
        g_assert_nonnull (view.data);
        llm_channels_release (channels);
      }
  figures = (LlmStreamFigures) { 0 };
  llm_channels_add_figures (channels, &figures);
  return figures.channel_bytes - before;
}

static void
test_bytes (Fixture       *fixture,
            gconstpointer  data)
{
  const LlmReadRates rates = make_rates (0, 0.003);
  LlmReadForecast forecasts[1 + LLM_MAX_SPARSITIES];
  g_autoptr(GError) error = NULL;
  LlmChannels *channels;
  Rig rig;

  begin (&rig, fixture, &large_model);
  channels = llm_channels_new (rig.loaded.gguf, &rig.loaded.hparams, NULL, rig.cache, 0, NULL, &error);
  g_assert_no_error (error);
  llm_channels_set_source (channels, &rig.source, TRUE);
  forecast (&rig, 0, &rates, forecasts);
  for (guint i = 0; i < rig.thresholds.n_sparsities; i++)
    {
      double read = (double) read_by_channel (&rig, channels, rig.thresholds.kept[i]);
      /* the output has no channels */
      double others = large_model.n_embd * (double) large_model.n_vocab * 34 / 32;

      g_assert_cmpfloat_with_epsilon (((double) forecasts[i + 1].channel_bytes - others) / read, 1, 0.05);
    }
  llm_channels_free (channels);
  end (&rig);
}

static void
test_probe (Fixture       *fixture,
            gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  LlmReadRates rates;
  double request_us, byte_us;
  g_autofree char *file = NULL;
  Rig rig;

  begin (&rig, fixture, &large_model);
  g_assert_true (llm_weights_probe_reads (rig.loaded.weights, &rig.source, &rates, &error));
  g_assert_no_error (error);
  llm_read_cost_get (&rates.cost, &request_us, &byte_us);
  g_assert_cmpfloat (request_us, >=, 0);
  g_assert_cmpfloat (byte_us, >, 0);
  g_assert_cmpfloat (rates.stream_us, >, 0);

  file = find_file (fixture->cache);
  g_assert_cmpint (truncate (file, 8 << 20), ==, 0);
  g_assert_false (llm_weights_probe_reads (rig.loaded.weights, &rig.source, &rates, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_STORAGE);
  end (&rig);
}

static void
test_too_small (Fixture       *fixture,
                gconstpointer  data)
{
  g_autoptr(GError) error = NULL;
  LlmReadRates rates;
  Rig rig;

  begin (&rig, fixture, &tiny_model);
  g_assert_false (llm_weights_probe_reads (rig.loaded.weights, &rig.source, &rates, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  end (&rig);
}

#define ADD(path, test) g_test_add (path, Fixture, NULL, set_up, test, tear_down)

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  ADD ("/read-forecast/times", test_times);
  ADD ("/read-forecast/bytes", test_bytes);
  ADD ("/read-forecast/probe", test_probe);
  ADD ("/read-forecast/too-small", test_too_small);
  return g_test_run ();
}
