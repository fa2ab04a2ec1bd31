/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Activation thresholds in companions: what right ones say, with sub-models and without, and those
 * that are wrong somewhere, each of which must be refused with a message that names what is wrong. */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "model/llm-companion.h"
#include "support/llm-test-gguf.h"

#define INVALID LLMSVC_ERROR_INVALID_MODEL
#define UNSUPPORTED LLMSVC_ERROR_UNSUPPORTED
#define N_LAYERS 2
#define N 3
#define N_VALUES (N * N_LAYERS * LLM_N_INPUTS)

static LlmModel *
make_model (void)
{
  const LlmTestModel shape = {
    .n_layers = N_LAYERS, .n_embd = 64, .n_heads = 4, .n_kv_heads = 2, .head_dim = 32, .n_ff = 192,
    .n_vocab = 384, .type = LLK_F16,
  };
  g_autoptr(GBytes) bytes = llm_test_model_new (&shape);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "model.gguf", &error);
  LlmModel *model;

  g_assert_no_error (error);
  model = llm_model_new_for_gguf (gguf, &error);
  g_assert_no_error (error);
  return model;
}

/* Right thresholds, but for what @gguf has already and leaves out; no sub-models. */
static GBytes *
finish (LlmTestGguf *gguf,
        LlmModel    *model)
{
  const gint64 percent[N] = { 10, 50, 80 };
  float values[N_VALUES], kept[N * LLM_N_INPUTS];
  const float losses[N + 1] = { 2, 2.1f, 2.5f, 4 };

  for (guint i = 0; i < N_VALUES; i++)
    values[i] = (float) i / 8;
  for (guint i = 0; i < N * LLM_N_INPUTS; i++)
    kept[i] = (float) i / 16;
  llm_test_gguf_add_string (gguf, "general.type", "companion");
  llm_test_gguf_add_string (gguf, "general.architecture", "llama");
  llm_test_gguf_add_int (gguf, "llmsvc.companion.version", LLM_GGUF_UINT32, 1);
  llm_test_gguf_add_string (gguf, "llmsvc.companion.weights",
                            llm_model_get_weight_identity (model));
  llm_test_gguf_add_ints (gguf, "llmsvc.active.percent", LLM_GGUF_UINT32, percent, N);
  llm_test_gguf_add_floats (gguf, "llmsvc.active.thresholds", LLM_GGUF_FLOAT32, values, N_VALUES);
  llm_test_gguf_add_floats (gguf, "llmsvc.active.kept", LLM_GGUF_FLOAT32, kept, N * LLM_N_INPUTS);
  llm_test_gguf_add_floats (gguf, "llmsvc.active.losses", LLM_GGUF_FLOAT32, losses, N + 1);
  return llm_test_gguf_end (gguf);
}

static LlmCompanion *
open_bytes (GBytes    *bytes,
            LlmModel  *model,
            GError   **error)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "bad.gguf", error);

  return gguf != NULL ? llm_companion_new_for_gguf (gguf, model, error) : NULL;
}

static void
test_right (void)
{
  g_autoptr(LlmModel) model = make_model ();
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = finish (gguf, model);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmCompanion) companion = open_bytes (bytes, model, &error);
  const LlmThresholds *thresholds;

  g_assert_no_error (error);
  g_assert_false (companion->has_sub_models);
  g_assert_cmpuint (companion->sub_models->n_levels, ==, 1);
  thresholds = companion->thresholds;
  g_assert_cmpuint (thresholds->n_sparsities, ==, N);
  g_assert_cmpfloat (llm_thresholds_get (thresholds, 2, 1, LLM_INPUT_FFN), ==, (2 * 8 + 4 + 2) / 8.0);
  g_assert_cmpfloat (thresholds->kept[1][3], ==, 7 / 16.0);
  g_assert_cmpfloat (thresholds->losses[2], ==, 4);
  g_assert_cmpfloat (thresholds->dense_loss, ==, 2);
  g_assert_cmpuint (llm_thresholds_choose (thresholds, 9), ==, 0);
  g_assert_cmpuint (llm_thresholds_choose (thresholds, 10), ==, 10);
  g_assert_cmpuint (llm_thresholds_choose (thresholds, 79), ==, 50);
  g_assert_cmpuint (llm_thresholds_choose (thresholds, 100), ==, 80);
  g_assert_cmpuint (llm_thresholds_find (thresholds, 50), ==, 1);
  g_assert_cmpuint (llm_thresholds_find (thresholds, 51), ==, N);
  g_assert_cmpfloat (llm_companion_get_sparse_quality (companion, 0), ==, 0);
}

/* How good sparse answers are: the sparsest first in the file, and dense ones last. */
static void
test_quality (void)
{
  static const float divergences[] = { 0.5f, 0.1f, 0.02f, 0, 0 }, ones[] = { 1, 1, 1, 1, 1 };

  for (guint n = N; n <= N + 2; n++)
    {
      g_autoptr(LlmModel) model = make_model ();
      g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
      g_autoptr(GError) error = NULL;
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(LlmCompanion) companion = NULL;
      g_autoptr(GVariant) described = NULL;
      double quality;

      llm_test_gguf_add_int (gguf, "llmsvc.active.quality.scored", LLM_GGUF_UINT32, 1000);
      llm_test_gguf_add_int (gguf, "llmsvc.active.quality.calls", LLM_GGUF_UINT32, 0);
      llm_test_gguf_add_int (gguf, "llmsvc.active.quality.replies", LLM_GGUF_UINT32, 0);
      llm_test_gguf_add_floats (gguf, "llmsvc.active.quality.divergences", LLM_GGUF_FLOAT32, divergences, n);
      llm_test_gguf_add_floats (gguf, "llmsvc.active.quality.nlls", LLM_GGUF_FLOAT32, ones, n);
      bytes = finish (gguf, model);
      companion = open_bytes (bytes, model, &error);
      if (n != N + 1)
        {
          g_assert_error (error, LLMSVC_ERROR, INVALID);
          g_assert_nonnull (strstr (error->message, "4 are needed"));
          continue;
        }
      g_assert_no_error (error);
      g_assert_null (companion->quality);
      g_assert_cmpfloat_with_epsilon (llm_companion_get_sparse_quality (companion, 0), 99, 1e-4);
      g_assert_cmpfloat_with_epsilon (llm_companion_get_sparse_quality (companion, 1), 95, 1e-4);
      g_assert_cmpfloat_with_epsilon (llm_companion_get_sparse_quality (companion, 2), 75, 1e-4);
      described = g_variant_ref_sink (llm_companion_describe_sparsity (companion, 1));
      g_assert_true (g_variant_lookup (described, "quality", "d", &quality));
      g_assert_cmpfloat_with_epsilon (quality, 95, 1e-4);
      g_assert_true (g_variant_lookup (described, "attention", "d", NULL));
    }
}

typedef struct
{
  const char *key;
  LlmGgufType type;
  gint64 items[9];
  guint n_items;          /* of integers; 0: the value is @number, repeated */
  double number;
  guint n_numbers;
  const char *part;       /* of the message */
} Wrong;

static const Wrong wrongs[] = {
  { "llmsvc.active.percent", LLM_GGUF_UINT32, { 0, 50, 80 }, 3, .part = "rise" },
  { "llmsvc.active.percent", LLM_GGUF_UINT32, { 10, 10, 80 }, 3, .part = "rise" },
  { "llmsvc.active.percent", LLM_GGUF_UINT32, { 10, 50, 81 }, 3, .part = "at most 80" },
  { "llmsvc.active.percent", LLM_GGUF_INT64, { -10, 50, 80 }, 3, .part = "-10" },
  { "llmsvc.active.percent", LLM_GGUF_UINT32, { 1, 2, 3, 4, 5, 6, 7, 8, 9 }, 9, .part = "9 items" },
  { "llmsvc.active.percent", LLM_GGUF_UINT32, { 10, 50 }, 2, .part = "24 items, 16 are needed" },
  { "llmsvc.active.thresholds", LLM_GGUF_FLOAT32, .number = 1, .n_numbers = N_VALUES - 1,
    .part = "23 items, 24 are needed" },
  { "llmsvc.active.thresholds", LLM_GGUF_FLOAT32, .number = -1, .n_numbers = N_VALUES,
    .part = "is -1" },
  { "llmsvc.active.thresholds", LLM_GGUF_FLOAT32, .number = NAN, .n_numbers = N_VALUES,
    .part = "nan" },
  { "llmsvc.active.thresholds", LLM_GGUF_FLOAT32, .number = INFINITY, .n_numbers = N_VALUES,
    .part = "inf" },
  { "llmsvc.active.thresholds", LLM_GGUF_UINT32, { 1, 2, 3 }, 3, .part = "float32" },
  { "llmsvc.active.kept", LLM_GGUF_FLOAT32, .number = 1.5, .n_numbers = N * LLM_N_INPUTS,
    .part = "0 to 1" },
  { "llmsvc.active.kept", LLM_GGUF_FLOAT32, .number = 0.5, .n_numbers = 1, .part = "1 items" },
  { "llmsvc.active.losses", LLM_GGUF_FLOAT32, .number = -1, .n_numbers = N + 1, .part = "is -1" },
  { "llmsvc.active.losses", LLM_GGUF_FLOAT32, .number = 1, .n_numbers = N, .part = "4 are needed" },
};

static void
test_wrong (gconstpointer data)
{
  const Wrong *wrong = data;
  g_autoptr(LlmModel) model = make_model ();
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GError) error = NULL;
  g_autoptr(GBytes) bytes = NULL;
  float numbers[N_VALUES];

  for (guint i = 0; i < N_VALUES; i++)
    numbers[i] = (float) wrong->number;
  if (wrong->n_items > 0)
    llm_test_gguf_add_ints (gguf, wrong->key, wrong->type, wrong->items, wrong->n_items);
  else
    llm_test_gguf_add_floats (gguf, wrong->key, wrong->type, numbers, wrong->n_numbers);
  llm_test_gguf_skip (gguf, wrong->key);
  bytes = finish (gguf, model);
  g_assert_null (open_bytes (bytes, model, &error));
  g_assert_error (error, LLMSVC_ERROR, INVALID);
  if (strstr (error->message, wrong->part) == NULL
      || strstr (error->message, "llmsvc.active.") == NULL
      || strstr (error->message, "bad.gguf") == NULL)
    g_error ("“%s” is not in: %s", wrong->part, error->message);
}

static void
test_missing (void)
{
  const char *const keys[] = {
    "llmsvc.active.percent", "llmsvc.active.thresholds", "llmsvc.active.kept",
    "llmsvc.active.losses",
  };
  g_autoptr(LlmModel) model = make_model ();

  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
      g_autoptr(GError) error = NULL;
      g_autoptr(GBytes) bytes = NULL;

      llm_test_gguf_skip (gguf, keys[i]);
      bytes = finish (gguf, model);
      g_assert_null (open_bytes (bytes, model, &error));
      g_assert_error (error, LLMSVC_ERROR, INVALID);
      g_assert_nonnull (strstr (error->message, keys[i]));
    }
}

static void
test_experts (void)
{
  g_autoptr(LlmModel) model = make_model ();
  LlmHparams hparams = *llm_model_get_hparams (model);
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = finish (gguf, model);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) opened = llm_gguf_new_for_bytes (bytes, "bad.gguf", &error);

  g_assert_no_error (error);
  hparams.experts.n = 4;
  g_assert_null (llm_thresholds_read (opened, &hparams, &error));
  g_assert_error (error, LLMSVC_ERROR, UNSUPPORTED);
  g_assert_nonnull (strstr (error->message, "experts"));
}

/* Any byte of the file may be any other one: it is refused or read, and nothing else happens. */
static void
test_damaged (void)
{
  g_autoptr(LlmModel) model = make_model ();
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) right = finish (gguf, model);
  gsize size = g_bytes_get_size (right);
  guint n_refused = 0;

  for (gsize i = 0; i < size; i++)
    {
      g_autofree guint8 *copy = g_memdup2 (g_bytes_get_data (right, NULL), size);
      g_autoptr(GBytes) bytes = NULL;
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmCompanion) companion = NULL;

      copy[i] ^= (guint8) (0x81 + i % 7);
      bytes = g_bytes_new (copy, size - (i % 3 == 0 ? i / 3 : 0));
      companion = open_bytes (bytes, model, &error);
      g_assert_true ((companion == NULL) == (error != NULL));
      n_refused += companion == NULL;
    }
  g_assert_cmpuint (n_refused, >, size / 2);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/thresholds/right", test_right);
  g_test_add_func ("/thresholds/quality", test_quality);
  for (guint i = 0; i < G_N_ELEMENTS (wrongs); i++)
    {
      g_autofree char *name = g_strdup_printf ("/thresholds/wrong/%s-%u", wrongs[i].key, i);

      g_test_add_data_func (name, &wrongs[i], test_wrong);
    }
  g_test_add_func ("/thresholds/missing", test_missing);
  g_test_add_func ("/thresholds/experts", test_experts);
  g_test_add_func ("/thresholds/damaged", test_damaged);
  return g_test_run ();
}
