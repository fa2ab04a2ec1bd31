/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "weights/llm-weights.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

typedef struct
{
  LlmGguf *gguf;
  LlmHparams hparams;
  LlmLedger *ledger;
  LlmWeights *weights;
} Loaded;

static void
load (Loaded   *loaded,
      LlmGguf  *gguf)
{
  g_autoptr(GError) error = NULL;

  loaded->gguf = llm_gguf_ref (gguf);
  g_assert_true (llm_hparams_read (gguf, &loaded->hparams, &error));
  g_assert_no_error (error);
  loaded->ledger = llm_ledger_new ();
  loaded->weights = llm_weights_new_mapped (gguf, &loaded->hparams, NULL, loaded->ledger, &error);
  g_assert_no_error (error);
  g_assert_nonnull (loaded->weights);
}

static void
load_model (Loaded             *loaded,
            const LlmTestModel *model)
{
  g_autoptr(GBytes) bytes = llm_test_model_new (model);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "built", &error);

  g_assert_no_error (error);
  load (loaded, gguf);
}

static void
unload (Loaded *loaded)
{
  g_clear_pointer (&loaded->weights, llm_weights_free);
  g_clear_pointer (&loaded->ledger, llm_ledger_unref);
  g_clear_pointer (&loaded->gguf, llm_gguf_unref);
}

static LlmWeightView
acquire (Loaded      *loaded,
         LlmOperator  op,
         guint        layer)
{
  g_autoptr(GError) error = NULL;
  LlmWeightView view;

  g_assert_cmpint (llm_weights_acquire (loaded->weights, op, layer, 0, NULL, &view, &error), ==,
                   LLM_READY);
  g_assert_no_error (error);
  return view;
}

/* Whether @view is all of the tensor @name. */
static void
check_view (Loaded        *loaded,
            LlmWeightView  view,
            const char    *name,
            guint          n_in,
            guint          n_out)
{
  const LlmGgufTensor *tensor = llm_gguf_find_tensor (loaded->gguf, name);

  g_assert_nonnull (tensor);
  g_assert_true (view.data ==
                 llm_file_map_get_data (loaded->gguf->map) + tensor->offset);
  g_assert_cmpint (view.type, ==, tensor->type);
  g_assert_cmpuint (view.in_first, ==, 0);
  g_assert_cmpuint (view.in_count, ==, n_in);
  g_assert_cmpuint (view.out_first, ==, 0);
  g_assert_cmpuint (view.out_count, ==, n_out);
  g_assert_null (view.channels);
  g_assert_cmpuint (view.row_bytes * view.out_count, ==, tensor->bytes);
  llm_weights_release (loaded->weights, &view);
}

static void
test_views (void)
{
  static const LlkType types[] = { LLK_F32, LLK_F16, LLK_BF16, LLK_Q8_0, LLK_Q4_0 };

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      const LlmTestModel model = { .n_layers = 2, .n_embd = 64, .n_heads = 4, .n_kv_heads = 2,
                                   .head_dim = 32, .n_ff = 96, .n_vocab = 20, .type = types[i],
                                   .is_untied = TRUE, .has_rope_factors = TRUE };
      Loaded loaded;

      load_model (&loaded, &model);
      g_assert_cmpuint (loaded.weights->sub_models->n_levels, ==, 1);
      g_assert_cmpuint (loaded.weights->sub_models->percent[0], ==, 100);

      check_view (&loaded, acquire (&loaded, LLM_OP_TOKEN_EMBEDDING, 0), "token_embd.weight", 64,
                  20);
      check_view (&loaded, acquire (&loaded, LLM_OP_OUTPUT_NORM, 0), "output_norm.weight", 64, 1);
      check_view (&loaded, acquire (&loaded, LLM_OP_OUTPUT, 0), "output.weight", 64, 20);
      check_view (&loaded, acquire (&loaded, LLM_OP_ROPE_FACTORS, 0), "rope_freqs.weight", 16, 1);
      for (guint layer = 0; layer < 2; layer++)
        {
          const struct
          {
            LlmOperator op;
            const char *name;
            guint n_in, n_out;
          } parts[] = {
            { LLM_OP_ATTENTION_NORM, "attn_norm", 64, 1 },
            { LLM_OP_QUERY, "attn_q", 64, 128 },
            { LLM_OP_KEY, "attn_k", 64, 64 },
            { LLM_OP_VALUE, "attn_v", 64, 64 },
            { LLM_OP_ATTENTION_OUT, "attn_output", 128, 64 },
            { LLM_OP_FFN_NORM, "ffn_norm", 64, 1 },
            { LLM_OP_FFN_GATE, "ffn_gate", 64, 96 },
            { LLM_OP_FFN_UP, "ffn_up", 64, 96 },
            { LLM_OP_FFN_DOWN, "ffn_down", 96, 64 },
          };

          for (guint j = 0; j < G_N_ELEMENTS (parts); j++)
            {
              g_autofree char *name = g_strdup_printf ("blk.%u.%s.weight", layer, parts[j].name);

              check_view (&loaded, acquire (&loaded, parts[j].op, layer), name, parts[j].n_in,
                          parts[j].n_out);
            }
        }
      unload (&loaded);
    }
}

static void
test_tied (void)
{
  const LlmTestModel model = { .n_vocab = 20 };
  Loaded loaded;

  load_model (&loaded, &model);
  check_view (&loaded, acquire (&loaded, LLM_OP_OUTPUT, 0), "token_embd.weight", 64, 20);
  /* There are none: nothing to divide by. */
  g_assert_null (acquire (&loaded, LLM_OP_ROPE_FACTORS, 0).data);
  unload (&loaded);
}

/* Every tensor is counted, once, for as long as the weights are there. */
static void
test_ledger (void)
{
  const LlmTestModel models[] = {
    { .n_vocab = 20 },
    { .n_vocab = 20, .is_untied = TRUE, .has_rope_factors = TRUE, .type = LLK_Q8_0 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      Loaded loaded;
      guint64 bytes = 0;

      load_model (&loaded, &models[i]);
      for (guint j = 0; j < loaded.gguf->tensors->len; j++)
        bytes += llm_gguf_get_tensor (loaded.gguf, j)->bytes;
      g_assert_cmpuint (loaded.weights->bytes, ==, bytes);
      g_assert_cmpuint (llm_ledger_get (loaded.ledger, LLM_HOLDER_WEIGHTS), ==, bytes);

      g_clear_pointer (&loaded.weights, llm_weights_free);
      g_assert_cmpuint (llm_ledger_get (loaded.ledger, LLM_HOLDER_WEIGHTS), ==, 0);
      unload (&loaded);
    }
}

/* Tensors of ours may be there, and need no ledger. */
static void
test_own_tensors (void)
{
  const LlmTestModel model = { .n_vocab = 20 };
  const guint64 dims[] = { 2 };
  const float values[] = { 1, 2 };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(LlmWeights) weights = NULL;
  g_autoptr(GError) error = NULL;
  LlmHparams hparams;

  llm_test_model_add_keys (&model, built);
  llm_test_gguf_add_tensor (built, "llmsvc.units", LLK_F32, 1, dims, values);
  llm_test_model_add_tensors (&model, built);
  bytes = llm_test_gguf_end (built);
  gguf = llm_gguf_new_for_bytes (bytes, "built", &error);
  g_assert_no_error (error);
  g_assert_true (llm_hparams_read (gguf, &hparams, &error));
  weights = llm_weights_new_mapped (gguf, &hparams, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_nonnull (weights);
}

/* A file that is cut while in use: no crash, and an error that says so. */
static void
test_cut (void)
{
  const LlmTestModel model = { .n_vocab = 300 };
  g_autoptr(GError) error = NULL;
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "m.gguf", NULL);
  g_autoptr(LlmGguf) gguf = NULL;
  LlmWeightView view;
  Loaded loaded;

  llm_test_model_write (&model, path);
  gguf = llm_gguf_open (path, &error);
  g_assert_no_error (error);
  load (&loaded, gguf);
  g_assert_true (llm_weights_check (loaded.weights, &error));
  g_assert_no_error (error);

  g_assert_cmpint (truncate (path, 100), ==, 0);
  view = acquire (&loaded, LLM_OP_FFN_DOWN, 1);
  g_assert_cmpfloat (*(const float *) view.data, ==, 0);
  g_assert_false (llm_weights_check (loaded.weights, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (error->message, path));
  g_assert_nonnull (strstr (error->message, "changed while it was in use"));

  unload (&loaded);
  llm_test_folder_remove (folder);
}

/* Freed weights leave neither the mapping nor the page cache full. */
static void
test_give_back (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                            "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  g_autofree char *statm_before = NULL;
  g_autofree char *statm_after = NULL;
  const guint8 *data;
  LlmFileMap *map;
  guint64 size, sum = 0;
  guint before, after;
  Loaded loaded;

  g_assert_no_error (error);
  load (&loaded, gguf);
  map = gguf->map;
  data = llm_file_map_get_data (map);
  size = llm_file_map_get_size (map);
  for (guint64 i = 0; i < size; i += 512)
    sum += data[i];
  g_assert_cmpuint (sum, >, 0);
  g_assert_cmpuint (llm_file_map_count_resident (map, 0, size), ==, size);

  /* The third number is that of resident pages of files. */
  g_assert_true (g_file_get_contents ("/proc/self/statm", &statm_before, NULL, NULL));
  g_clear_pointer (&loaded.weights, llm_weights_free);
  g_assert_true (g_file_get_contents ("/proc/self/statm", &statm_after, NULL, NULL));
  g_assert_cmpint (sscanf (statm_before, "%*u %*u %u", &before), ==, 1);
  g_assert_cmpint (sscanf (statm_after, "%*u %*u %u", &after), ==, 1);
  g_assert_cmpuint (after + size / (guint64) sysconf (_SC_PAGESIZE) / 2, <, before);
  unload (&loaded);
}

static void
test_names (void)
{
  g_autoptr(GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);

  for (guint op = 0; op < LLM_N_OPS; op++)
    g_assert_true (g_hash_table_add (names, (char *) llm_operator_get_name (op)));
}

/* Parts of one tensor, side by side, as files of phi3 have them. */
static void
test_fused (void)
{
  const struct
  {
    const char *file, *tensor;
    LlmOperator op;
    guint first, n_in, n_out;
  } parts[] = {
    { "phi3-long", "blk.1.attn_qkv.weight", LLM_OP_QUERY, 0, 32, 32 },
    { "phi3-long", "blk.1.attn_qkv.weight", LLM_OP_KEY, 32 * 32, 32, 16 },
    { "phi3-long", "blk.1.attn_qkv.weight", LLM_OP_VALUE, 48 * 32, 32, 16 },
    { "phi3-long", "blk.1.attn_qkv.bias", LLM_OP_QUERY_BIAS, 0, 32, 1 },
    { "phi3-long", "blk.1.attn_qkv.bias", LLM_OP_KEY_BIAS, 32, 16, 1 },
    { "phi3-long", "blk.1.attn_qkv.bias", LLM_OP_VALUE_BIAS, 48, 16, 1 },
    { "phi3-long", "blk.1.ffn_up.weight", LLM_OP_FFN_GATE, 0, 32, 40 },
    { "phi3-long", "blk.1.ffn_up.weight", LLM_OP_FFN_UP, 40 * 32, 32, 40 },
    { "gemma3", "blk.1.ffn_up.weight", LLM_OP_FFN_UP, 0, 32, 40 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    {
      g_autofree char *name = g_strconcat (parts[i].file, ".gguf", NULL);
      g_autofree char *path = g_build_filename (g_getenv ("LLM_TEST_DATA"), "architectures", name,
                                                NULL);
      g_autoptr(GError) error = NULL;
      g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
      guint64 bytes = 0;
      LlmWeightView view;
      Loaded loaded;

      g_assert_no_error (error);
      load (&loaded, gguf);
      view = acquire (&loaded, parts[i].op, 1);
      g_assert_true (view.data == llm_file_map_get_data (gguf->map)
                                    + llm_gguf_find_tensor (gguf, parts[i].tensor)->offset
                                    + parts[i].first * sizeof (float));
      g_assert_cmpuint (view.in_count, ==, parts[i].n_in);
      g_assert_cmpuint (view.out_count, ==, parts[i].n_out);
      g_assert_cmpuint (view.row_bytes, ==, parts[i].n_in * sizeof (float));
      llm_weights_release (loaded.weights, &view);

      for (guint j = 0; j < gguf->tensors->len; j++)
        bytes += llm_gguf_get_tensor (gguf, j)->bytes;
      g_assert_cmpuint (loaded.weights->bytes, ==, bytes);
      unload (&loaded);
    }
}

/* What an operator is follows from its shape alone. */
static void
test_shapes (void)
{
  const LlmTestModel model = { .n_vocab = 20 };
  Loaded loaded;

  load_model (&loaded, &model);
  for (guint op = 0; op < LLM_N_OPS; op++)
    {
      guint n_in, n_out;

      llm_operator_get_shape (&loaded.hparams, op, 0, &n_in, &n_out);
      if (llm_operator_is_used (&loaded.hparams, op))
        {
          g_assert_cmpuint (n_in, >, 0);
          g_assert_cmpint (llm_operator_is_matrix (op), ==, n_out != 1);
        }
      if (!llm_operator_is_used (&loaded.hparams, op) && op != LLM_OP_OUTPUT)
        g_assert_null (acquire (&loaded, op, 0).data);
    }
  unload (&loaded);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/weights/views", test_views);
  g_test_add_func ("/weights/tied", test_tied);
  g_test_add_func ("/weights/ledger", test_ledger);
  g_test_add_func ("/weights/own-tensors", test_own_tensors);
  g_test_add_func ("/weights/cut", test_cut);
  g_test_add_func ("/weights/give-back", test_give_back);
  g_test_add_func ("/weights/names", test_names);
  g_test_add_func ("/weights/fused", test_fused);
  g_test_add_func ("/weights/shapes", test_shapes);
  return g_test_run ();
}
