/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Adapters: against another program, against weights that they were added to, in the company of
 * rows with others, on a device; and files that must be refused. */

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "fake-device.h"
#include "forward-rig.h"
#include "split-weights.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"
#include "weights/llm-repacked-cache.h"

#define N_TOKENS 40
#define STEP 11
/* Of logits of another program. */
#define PEER_TOLERANCE 1e-3
/* Relative to the largest logit: sums of floats in another order. */
#define MERGED_TOLERANCE 1e-4
/* How far the model without the adapter must be from it, in tolerances. */
#define MISSED 1000
/* Adapters of the rows that are mixed. */
#define N_ADAPTERS 3

/* --- adapters --- */

static const LlmOperator all_ops[] = {
  LLM_OP_QUERY, LLM_OP_KEY, LLM_OP_VALUE, LLM_OP_ATTENTION_OUT, LLM_OP_FFN_GATE, LLM_OP_FFN_UP,
  LLM_OP_FFN_DOWN, LLM_OP_OUTPUT,
};

static void
add_keys (LlmTestGguf *gguf,
          const char  *architecture,
          double       alpha)
{
  llm_test_gguf_add_string (gguf, "general.architecture", architecture);
  llm_test_gguf_add_string (gguf, "general.type", "adapter");
  llm_test_gguf_add_string (gguf, "adapter.type", "lora");
  llm_test_gguf_add_double (gguf, "adapter.lora.alpha", LLM_GGUF_FLOAT32, alpha);
}

static void
add_half (LlmTestGguf *gguf,
          GRand       *random,
          const char  *base,
          const char  *suffix,
          LlkType      type,
          guint64      n_in,
          guint64      n_out)
{
  const guint64 dims[] = { n_in, n_out };
  g_autofree float *values = g_new (float, n_in * n_out);
  g_autofree char *name = g_strconcat (base, suffix, NULL);

  for (gsize i = 0; i < n_in * n_out; i++)
    values[i] = (float) g_rand_double_range (random, -0.5, 0.5);
  llm_test_gguf_add_tensor (gguf, name, type, 2, dims, values);
}

/* Halves of most matrices, of several types and ranks. */
static void
add_tensors (LlmTestGguf      *gguf,
             LlmGguf          *model,
             const LlmHparams *hparams,
             guint             rank,
             guint             seed)
{
  static const LlkType types[] = { LLK_F32, LLK_F16, LLK_BF16 };
  GRand *random = g_rand_new_with_seed (seed);
  g_autoptr (GHashTable) done = g_hash_table_new (NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (all_ops); i++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, all_ops[i]); layer++)
      {
        LlmTensorPart part;
        guint at = i + layer + seed;
        guint n = rank + at % 2;
        gboolean is_found = llm_operator_find (model, hparams, all_ops[i], layer, &part, NULL);

        g_assert_true (is_found);
        if (part.tensor == NULL || !g_hash_table_add (done, (gpointer) part.tensor)
            || g_str_has_prefix (part.tensor->name, "token_embd") || at % 7 == 3)
          continue;
        add_half (gguf, random, part.tensor->name, ".lora_a",
                  part.n_in % 32 == 0 && at % 5 == 1 ? LLK_Q8_0 : types[at % 3], part.n_in, n);
        add_half (gguf, random, part.tensor->name, ".lora_b", types[(at + 1) % 3], n,
                  part.tensor->dims[1]);
      }
  g_rand_free (random);
}

/* (transfer full): for the rig's model. */
static LlmGguf *
new_adapter_file (ExecRig *rig,
                  guint    rank,
                  guint    seed)
{
  g_autoptr (LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;
  LlmGguf *file;

  add_keys (gguf, rig->hparams.architecture, rank * 0.75 + seed);
  add_tensors (gguf, rig->gguf, &rig->hparams, rank, seed);
  bytes = llm_test_gguf_end (gguf);
  file = llm_gguf_new_for_bytes (bytes, "adapter", &error);
  g_assert_no_error (error);
  return file;
}

/* Gives the rig adapters of random files. */
static void
set_adapters (ExecRig       *rig,
              ExecRigConfig *config,
              LlmGguf      **files,
              guint          n_files)
{
  g_autofree LlmLora **adapters = g_new (LlmLora *, n_files);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < n_files; i++)
    {
      adapters[i] = llm_lora_new_for_gguf (files[i], rig->gguf, &rig->hparams, &error);
      g_assert_no_error (error);
    }
  config->adapters = adapters;
  config->n_adapters = n_files;
  exec_rig_set_weights (rig, rig->weights, config);
  for (guint i = 0; i < n_files; i++)
    llm_lora_unref (adapters[i]);
  config->adapters = NULL;
  config->n_adapters = 0;
}

/* --- weights that an adapter was added to --- */

/* (transfer full) */
static float *
read_tensor (LlmGguf    *file,
             const char *base,
             const char *suffix,
             guint64    *dims)
{
  g_autofree char *name = g_strconcat (base, suffix, NULL);
  const LlmGgufTensor *tensor = llm_gguf_find_tensor (file, name);
  float *values;

  if (tensor == NULL)
    return NULL;
  memcpy (dims, tensor->dims, 2 * sizeof *dims);
  values = g_new (float, dims[0] * dims[1]);
  llm_test_dequantize (tensor->type, llm_file_map_get_data (file->map) + tensor->offset,
                       dims[0] * dims[1], values);
  return values;
}

/* (transfer full): the file of @model, F32, with @adapter added to its matrices. */
static GBytes *
merge (LlmGguf *model,
       LlmGguf *adapter)
{
  gsize size = llm_file_map_get_size (model->map);
  guint8 *bytes = g_memdup2 (llm_file_map_get_data (model->map), size);
  guint n_merged = 0;
  double alpha;

  g_assert_true (llm_gguf_get_double (adapter, "adapter.lora.alpha", 0, 1e3, NULL, &alpha, NULL));
  for (guint t = 0; t < model->tensors->len; t++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (model, t);
      guint64 a_dims[2], b_dims[2];
      g_autofree float *a = read_tensor (adapter, tensor->name, ".lora_a", a_dims);
      g_autofree float *b = read_tensor (adapter, tensor->name, ".lora_b", b_dims);
      float *w = (float *) (gpointer) (bytes + tensor->offset);

      if (a == NULL)
        continue;
      g_assert_cmpint (tensor->type, ==, LLK_F32);
      for (gsize o = 0; o < b_dims[1]; o++)
        for (gsize i = 0; i < a_dims[0]; i++)
          {
            double sum = 0;

            for (gsize r = 0; r < b_dims[0]; r++)
              sum += (double) b[o * b_dims[0] + r] * (double) a[r * a_dims[0] + i];
            w[o * a_dims[0] + i] += (float) (sum * alpha / (double) b_dims[0]);
          }
      n_merged += 2;
    }
  g_assert_cmpuint (n_merged, ==, adapter->tensors->len);
  return g_bytes_new_take (bytes, size);
}

/* --- running --- */

static void
fill_tokens (gint32 tokens[N_TOKENS])
{
  tokens[0] = 1;
  for (guint i = 1; i < N_TOKENS; i++)
    tokens[i] = (5 * tokens[i - 1] + 17) % 64;
}

/* (transfer full): logits of all tokens with one adapter and level, by steps of @step rows. */
static float *
run (ExecRig *rig,
     guint8   adapter,
     guint    level,
     guint    step)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize n_vocab = rig->hparams.n_vocab;
  float *logits = g_new (float, N_TOKENS * n_vocab);
  gint32 tokens[N_TOKENS];

  fill_tokens (tokens);
  for (guint first = 0; first < N_TOKENS; first += step)
    {
      guint n = MIN (step, N_TOKENS - first);
      LlmRow rows[N_TOKENS];

      g_assert_true (llm_kv_seq_append (seq, n, NULL));
      for (guint i = 0; i < n; i++)
        {
          rows[i] = exec_rig_row (tokens[first + i], 0, first + i);
          rows[i].sub_model = rig->weights->sub_models->percent[level];
          rows[i].adapter = adapter;
        }
      exec_rig_step (rig, rows, n, &seq, 1);
      for (guint i = 0; i < n; i++)
        memcpy (logits + (first + i) * n_vocab, llm_forward_get_logits (rig->forward, i),
                n_vocab * sizeof (float));
    }
  return logits;
}

/* The largest difference; @largest: (out): the largest of @expected. */
static double
compare (ExecRig     *rig,
         const float *found,
         const float *expected,
         double      *largest)
{
  double worst = 0;

  *largest = 0;
  for (gsize i = 0; i < (gsize) N_TOKENS * rig->hparams.n_vocab; i++)
    {
      if (!isfinite (found[i]))
        return INFINITY;
      worst = MAX (worst, fabs ((double) found[i] - (double) expected[i]));
      *largest = MAX (*largest, fabs ((double) expected[i]));
    }
  return worst;
}

static void
assert_merged (ExecRig     *rig,
               const float *found,
               const float *expected,
               const float *without)
{
  double largest;
  double difference = compare (rig, found, expected, &largest);

  g_test_message ("%g of %g", difference, largest);
  g_assert_cmpfloat (difference, <=, MAX (MERGED_TOLERANCE * largest, rig->tolerance));
  g_assert_cmpfloat (compare (rig, without, expected, &largest), >,
                     MISSED * MERGED_TOLERANCE * largest);
}

static char *
get_path (const char *folder,
          const char *file,
          const char *ending)
{
  g_autofree char *name = g_strconcat (file, ending, NULL);

  return g_build_filename (g_getenv ("LLM_TEST_DATA"), folder, name, NULL);
}

/* --- against others --- */

/* Logits of llama.cpp: data/lora/README.md. */
static void
test_peer (gconstpointer data)
{
  g_autofree char *model_path = get_path ("architectures", data, ".gguf");
  g_autofree char *adapter_path = get_path ("lora", data, ".gguf");
  g_autofree char *logits_path = get_path ("lora", data, ".logits");

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      ExecRigConfig config = { .n_threads = 2, .kernels = *kernels };
      g_autoptr (ExecRig) rig = exec_rig_open (model_path, &config);
      g_autoptr (GError) error = NULL;
      g_autoptr (LlmGguf) adapter = llm_gguf_open (adapter_path, &error);
      g_autofree float *without = run (rig, 0, 0, STEP);
      g_autofree float *found = NULL;
      g_autofree float *expected = NULL;
      g_autofree char *bytes = NULL;
      double difference, largest;
      gsize length;

      g_assert_no_error (error);
      g_file_get_contents (logits_path, &bytes, &length, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (length, ==, N_TOKENS * rig->hparams.n_vocab * sizeof (float));
      expected = g_memdup2 (bytes, length);
      set_adapters (rig, &config, &adapter, 1);
      found = run (rig, 1, 0, STEP);
      difference = compare (rig, found, expected, &largest);
      g_test_message ("%s: %g, the largest logit is %g", *kernels, difference, largest);
      g_assert_cmpfloat (difference, <=, MAX (PEER_TOLERANCE, rig->tolerance));
      g_assert_cmpfloat (compare (rig, without, expected, &largest), >, MISSED * PEER_TOLERANCE);
    }
}

/* Norms behind the products, matrices in one tensor, experts, for which there are no adapters; also
 * of a rank above all that the model has. */
static void
test_merged (gconstpointer data)
{
  g_autofree char *path = get_path ("architectures", data, ".gguf");

  for (guint rank = 3; rank <= 203; rank += 200)
    {
      ExecRigConfig config = { .n_threads = 2 };
      g_autoptr (ExecRig) rig = exec_rig_open (path, &config);
      g_autoptr (LlmGguf) adapter = new_adapter_file (rig, rank, 1);
      g_autoptr (GBytes) merged = merge (rig->gguf, adapter);
      g_autoptr (ExecRig) other = exec_rig_new (merged, &config);
      gsize bytes = N_TOKENS * rig->hparams.n_vocab * sizeof (float);
      g_autofree float *expected = run (other, 0, 0, STEP);
      g_autofree float *without = run (rig, 0, 0, STEP);
      g_autofree float *found = NULL;
      g_autofree float *still_without = NULL;

      set_adapters (rig, &config, &adapter, 1);
      found = run (rig, 1, 0, STEP);
      assert_merged (rig, found, expected, without);
      still_without = run (rig, 0, 0, STEP);
      g_assert_cmpmem (still_without, bytes, without, bytes);
    }
}

/* Nine levels of four groups of heads: some add none. */
static ExecRig *
new_split_rig (LlkType              type,
               const ExecRigConfig *config,
               SplitCounts         *counts)
{
  const SplitConfig split = { .n_levels = 9 };
  const LlmTestModel shape = {
    .type = type, .n_layers = 3, .n_embd = 128, .n_heads = 8, .n_kv_heads = 4, .n_ff = 288,
    .is_untied = TRUE, .seed = 7,
  };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);
  ExecRig *rig = exec_rig_new (model, config);

  exec_rig_set_weights (rig, split_weights_new (rig->weights, &rig->hparams, &split, counts),
                        config);
  return rig;
}

/* Heads and channels that a level lacks, the adapter lacks, too. */
static void
test_levels (void)
{
  ExecRigConfig config = { .n_threads = 2 };
  const SplitConfig split = { .n_levels = 9 };
  SplitCounts counts = { 0 };

  for (guint rank = 5; rank <= 255; rank += 250)
    {
      g_autoptr (ExecRig) rig = new_split_rig (LLK_F32, &config, &counts);
      g_autoptr (ExecRig) plain = new_split_rig (LLK_F32, &config, &counts);
      g_autoptr (LlmGguf) adapter = new_adapter_file (rig, rank, 2);
      g_autoptr (GBytes) merged = merge (rig->gguf, adapter);
      g_autoptr (ExecRig) other = exec_rig_new (merged, &config);

      exec_rig_set_weights (other,
                            split_weights_new (other->weights, &other->hparams, &split, &counts),
                            &config);
      set_adapters (rig, &config, &adapter, 1);
      for (guint level = 0; level < 9; level++)
        {
          g_autofree float *found = run (rig, 1, level, STEP);
          g_autofree float *expected = run (other, 0, level, STEP);
          g_autofree float *without = run (plain, 0, level, STEP);

          assert_merged (rig, found, expected, without);
        }
    }
}

/* --- in company --- */

#define N_KINDS (9 * (N_ADAPTERS + 1))

/* Rows of all adapters and none, and of all levels, in one step: the bits that each has alone. */
static void
test_mixed (void)
{
  static const LlkType types[] = { LLK_F32, LLK_Q8_0 };

  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    {
      ExecRigConfig config = { .n_threads = 1 + t };
      SplitCounts counts = { 0 };
      g_autoptr (ExecRig) rig = new_split_rig (types[t], &config, &counts);
      const guint8 *percent = rig->weights->sub_models->percent;
      gsize bytes = rig->hparams.n_vocab * sizeof (float);
      float *expected[N_KINDS];
      LlmKvSeq *sequences[N_KINDS];
      LlmGguf *files[N_ADAPTERS];
      gint32 tokens[N_TOKENS];

      fill_tokens (tokens);
      for (guint i = 0; i < N_ADAPTERS; i++)
        files[i] = new_adapter_file (rig, 2 + 3 * i, i);
      set_adapters (rig, &config, files, N_ADAPTERS);
      for (guint i = 0; i < N_KINDS; i++)
        {
          expected[i] = run (rig, (guint8) (i % 4), i / 4, 1);
          sequences[i] = llm_kv_seq_new (rig->store, NULL, NULL);
          for (guint j = 0; j < i; j++)
            g_assert_cmpint (memcmp (expected[i], expected[j], bytes), !=, 0);
        }
      for (guint first = 0; first < N_TOKENS; first += 5)
        {
          /* in every second step those of one adapter and all levels are for themselves */
          guint n_steps = 1 + first / 5 % 2;

          for (guint i = 0; i < N_KINDS; i++)
            g_assert_true (llm_kv_seq_append (sequences[i], 5, NULL));
          for (guint step = 0; step < n_steps; step++)
            {
              LlmRow rows[N_KINDS * 5];
              guint n = 0;

              for (guint i = 0; i < N_KINDS * 5; i++)
                {
                  guint kind = i * 7 % N_KINDS;

                  if (n_steps > 1 && (kind % 4 == 1) != (step == 0))
                    continue;
                  rows[n] = exec_rig_row (tokens[first + i / N_KINDS], kind, first + i / N_KINDS);
                  rows[n].adapter = (guint8) (kind % 4);
                  rows[n].sub_model = percent[kind / 4];
                  rows[n++].wants_logits = (i + first) % 3 > 0;
                }
              exec_rig_step (rig, rows, n, sequences, N_KINDS);
              for (guint i = 0; i < n; i++)
                if (rows[i].wants_logits)
                  g_assert_cmpmem (llm_forward_get_logits (rig->forward, i), bytes,
                                   (char *) expected[rows[i].sequence] + rows[i].slot * bytes,
                                   bytes);
            }
        }
      for (guint i = 0; i < N_KINDS; i++)
        {
          llm_kv_seq_free (sequences[i]);
          g_free (expected[i]);
        }
      for (guint i = 0; i < N_ADAPTERS; i++)
        llm_gguf_unref (files[i]);
      g_assert_cmpuint (counts.n_held, ==, 0);
    }
}

/* Repacked weights, of F32 also sums of floats; and a row's bits in steps of any size. */
static void
test_packed (gconstpointer data)
{
  const LlkType type = GPOINTER_TO_UINT (data);
  const LlmTestModel shape = { .type = type, .n_kv_heads = 2, .is_untied = TRUE, .seed = 3 };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);
  ExecRigConfig config = { .n_threads = 2 };
  g_autoptr (ExecRig) rig = exec_rig_new (model, &config);
  g_autoptr (LlmGguf) adapter = new_adapter_file (rig, 4, 1);
  g_autoptr (GError) error = NULL;
  g_autofree float *exact = NULL;
  g_autofree float *single = NULL;
  g_autofree float *together = NULL;
  double largest;

  set_adapters (rig, &config, &adapter, 1);
  exact = run (rig, 1, 0, STEP);
  llm_weights_free (rig->weights);
  rig->weights = llm_weights_new_repacked (rig->gguf, &rig->hparams, NULL, NULL, 2, rig->ledger,
                                           &error);
  g_assert_no_error (error);
  set_adapters (rig, &config, &adapter, 1);
  single = run (rig, 1, 0, 1);
  together = run (rig, 1, 0, N_TOKENS);
  g_assert_cmpmem (single, N_TOKENS * rig->hparams.n_vocab * sizeof (float), together,
                   N_TOKENS * rig->hparams.n_vocab * sizeof (float));
  if (type == LLK_F32)
    {
      double difference = compare (rig, single, exact, &largest);

      g_assert_cmpfloat (difference, <=, MAX (MERGED_TOLERANCE * largest, rig->tolerance));
    }
}

/* A device computes both products of each, and finishes in any order. */
static void
test_device (void)
{
  const LlmTestModel shape = { .n_kv_heads = 2, .is_untied = TRUE, .seed = 3 };
  const FakeConfig fake = { .n_polls = 2, .is_reversed = TRUE };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);
  ExecRigConfig config = { .n_threads = 2 };
  g_autoptr (ExecRig) plain = exec_rig_new (model, &config);
  g_autoptr (LlmGguf) adapter = new_adapter_file (plain, 4, 1);
  g_autofree float *expected = NULL;
  guint64 n_without = 0;

  set_adapters (plain, &config, &adapter, 1);
  expected = run (plain, 1, 0, STEP);
  for (guint is_split = 0; is_split < 2; is_split++)
    for (guint8 used = 0; used < 2; used++)
      {
        FakeCounts counts = { 0 };
        g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &fake, &counts);
        g_autoptr (ExecRig) rig = NULL;
        g_autofree float *found = NULL;

        config.device = device;
        config.is_split = is_split > 0;
        rig = exec_rig_new (model, &config);
        set_adapters (rig, &config, &adapter, 1);
        found = run (rig, used, 0, STEP);
        if (used == 0)
          n_without = counts.n_products;
        else
          g_assert_cmpmem (found, N_TOKENS * rig->hparams.n_vocab * sizeof (float), expected,
                           N_TOKENS * rig->hparams.n_vocab * sizeof (float));
        g_assert_cmpint (counts.n_products > n_without, ==, used > 0);
      }
}

/* What a row of each level and adapter hands to a backend. */
static guint64
count_products (ExecRig    *rig,
                FakeCounts *counts,
                guint       level,
                guint8      adapter)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  LlmRow row = exec_rig_row (1, 0, 0);

  counts->n_products = 0;
  row.sub_model = rig->weights->sub_models->percent[level];
  row.adapter = adapter;
  g_assert_true (llm_kv_seq_append (seq, 1, NULL));
  exec_rig_step (rig, &row, 1, &seq, 1);
  return counts->n_products;
}

/* Two small products for each that is adapted, of no other heads and channels than the level's. */
static void
test_work (void)
{
  const FakeConfig fake = { .n_polls = 1 };
  FakeCounts work = { 0 };
  SplitCounts counts = { 0 };
  g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &fake, &work);
  ExecRigConfig config = { .n_threads = 1, .device = device };
  g_autoptr (ExecRig) rig = new_split_rig (LLK_F32, &config, &counts);
  g_autoptr (LlmGguf) adapter = new_adapter_file (rig, 4, 1);
  const LlmHparams *h = &rig->hparams;

  set_adapters (rig, &config, &adapter, 1);
  for (guint level = 0; level < 9; level++)
    {
      const LlmSubModels *table = rig->weights->sub_models;
      guint64 expected = count_products (rig, &work, level, 0);

      for (guint i = 0; i < G_N_ELEMENTS (all_ops); i++)
        for (guint layer = 0; layer < llm_operator_count_layers (h, all_ops[i]); layer++)
          {
            LlmTensorPart part;
            guint64 dims[2];
            g_autofree char *name = NULL;
            const LlmGgufTensor *a;
            guint n_heads = llm_sub_models_get_groups (table, layer, level)
                            * (h->n_heads / h->n_kv_heads);
            guint n_channels = llm_sub_models_get_channels (table, layer, level);

            g_assert_true (llm_operator_find (rig->gguf, h, all_ops[i], layer, &part, NULL));
            name = g_strconcat (part.tensor->name, ".lora_a", NULL);
            a = llm_gguf_find_tensor (adapter, name);
            dims[0] = all_ops[i] == LLM_OP_ATTENTION_OUT ? n_heads * h->head_dim
                      : all_ops[i] == LLM_OP_FFN_DOWN ? n_channels : part.n_in;
            dims[1] = all_ops[i] == LLM_OP_QUERY ? n_heads * h->head_dim
                      : all_ops[i] == LLM_OP_FFN_GATE || all_ops[i] == LLM_OP_FFN_UP ? n_channels
                      : part.n_out;
            expected += a != NULL ? a->dims[1] * (dims[0] + dims[1]) : 0;
          }
      g_assert_cmpuint (count_products (rig, &work, level, 1), ==, expected);
    }
}

/* Rows of an adapter are multiplied together, wherever they are in the batch. */
static void
test_grouped (void)
{
  const LlmTestModel shape = { .n_kv_heads = 2, .is_untied = TRUE, .seed = 3 };
  const FakeConfig fake = { .n_polls = 1 };
  FakeCounts counts = { 0 };
  g_autoptr (LlmBackend) device = fake_device_new (llk_ops_best (), &fake, &counts);
  g_autoptr (GBytes) model = llm_test_model_new (&shape);
  ExecRigConfig config = { .n_threads = 2, .device = device };
  g_autoptr (ExecRig) rig = exec_rig_new (model, &config);
  LlmGguf *files[2] = { new_adapter_file (rig, 4, 1), new_adapter_file (rig, 4, 2) };
  guint n_operations[2];

  set_adapters (rig, &config, files, 2);
  for (guint is_mixed = 0; is_mixed < 2; is_mixed++)
    {
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      LlmRow rows[8];

      g_assert_true (llm_kv_seq_append (seq, 8, NULL));
      for (guint i = 0; i < 8; i++)
        {
          rows[i] = exec_rig_row ((gint32) i, 0, i);
          rows[i].adapter = (guint8) (1 + (is_mixed > 0 ? i % 2 : i / 4));
        }
      counts.n_submitted = 0;
      exec_rig_step (rig, rows, 8, &seq, 1);
      n_operations[is_mixed] = counts.n_submitted;
    }
  g_assert_cmpuint (n_operations[0], ==, n_operations[1]);
  for (guint i = 0; i < 2; i++)
    llm_gguf_unref (files[i]);
}

/* --- what is refused --- */

typedef struct
{
  const char *name;
  void (*spoil) (LlmTestGguf *gguf);   /* before the rest is added */
  int code;
  const char *pattern;
  gboolean is_empty;                   /* no tensors are added */
} RefusedCase;

#define FIRST "blk.0.attn_q.weight"

static void
skip_key (LlmTestGguf *gguf,
          const char  *key,
          const char  *value)
{
  if (value != NULL)
    llm_test_gguf_add_string (gguf, key, value);
  llm_test_gguf_skip (gguf, key);
}

/* In the place of the half that there would be. */
static void
put_half (LlmTestGguf *gguf,
          const char  *base,
          const char  *suffix,
          guint64      n_in,
          guint64      n_out)
{
  g_autofree char *name = g_strconcat (base, suffix, NULL);
  GRand *random = g_rand_new_with_seed (1);

  if (n_in > 0)
    add_half (gguf, random, base, suffix, LLK_F32, n_in, n_out);
  llm_test_gguf_skip (gguf, name);
  g_rand_free (random);
}

static void
spoil_type (LlmTestGguf *gguf)
{
  skip_key (gguf, "general.type", "model");
}

static void
spoil_no_type (LlmTestGguf *gguf)
{
  skip_key (gguf, "general.type", NULL);
}

static void
spoil_adapter_type (LlmTestGguf *gguf)
{
  skip_key (gguf, "adapter.type", "control_vector");
}

static void
spoil_architecture (LlmTestGguf *gguf)
{
  skip_key (gguf, "general.architecture", "qwen3");
}

static void
spoil_no_alpha (LlmTestGguf *gguf)
{
  skip_key (gguf, "adapter.lora.alpha", NULL);
}

static void
spoil_alpha (LlmTestGguf *gguf)
{
  llm_test_gguf_add_double (gguf, "adapter.lora.alpha", LLM_GGUF_FLOAT32, NAN);
  llm_test_gguf_skip (gguf, "adapter.lora.alpha");
}

static void
spoil_invocation (LlmTestGguf *gguf)
{
  const gint64 tokens[] = { 1, 2 };

  llm_test_gguf_add_ints (gguf, "adapter.alora.invocation_tokens", LLM_GGUF_UINT32, tokens, 2);
}

static void
spoil_no_a (LlmTestGguf *gguf)
{
  put_half (gguf, FIRST, ".lora_a", 0, 0);
}

static void
spoil_no_b (LlmTestGguf *gguf)
{
  put_half (gguf, FIRST, ".lora_b", 0, 0);
}

static void
spoil_rank (LlmTestGguf *gguf)
{
  put_half (gguf, FIRST, ".lora_a", 64, 257);
}

static void
spoil_inputs (LlmTestGguf *gguf)
{
  put_half (gguf, FIRST, ".lora_a", 63, 4);
}

static void
spoil_outputs (LlmTestGguf *gguf)
{
  put_half (gguf, FIRST, ".lora_a", 64, 4);
  put_half (gguf, FIRST, ".lora_b", 4, 65);
}

static void
spoil_ranks (LlmTestGguf *gguf)
{
  put_half (gguf, FIRST, ".lora_a", 64, 4);
  put_half (gguf, FIRST, ".lora_b", 5, 64);
}

static void
spoil_cube (LlmTestGguf *gguf)
{
  const guint64 dims[] = { 64, 4, 2 };
  const float values[64 * 4 * 2] = { 0 };

  llm_test_gguf_add_tensor (gguf, FIRST ".lora_a", LLK_F32, 3, dims, values);
  llm_test_gguf_skip (gguf, FIRST ".lora_a");
}

static void
spoil_layer (LlmTestGguf *gguf)
{
  put_half (gguf, "blk.2.attn_q.weight", ".lora_a", 64, 4);
}

static void
spoil_output (LlmTestGguf *gguf)
{
  put_half (gguf, "output.weight", ".lora_a", 64, 4);
}

static void
spoil_embedding (LlmTestGguf *gguf)
{
  put_half (gguf, "token_embd.weight", ".lora_a", 64, 4);
}

static void
spoil_norm (LlmTestGguf *gguf)
{
  put_half (gguf, "blk.0.attn_norm.weight", "", 64, 1);
}

static void
spoil_nothing (LlmTestGguf *gguf)
{
}

/* The model has 64 inputs, 2 layers and no output of its own. */
static const RefusedCase refused[] = {
  { "type", spoil_type, LLMSVC_ERROR_INVALID_MODEL, "*general.type is “model”*“adapter”*", FALSE },
  { "no-type", spoil_no_type, LLMSVC_ERROR_INVALID_MODEL, "*general.type*", FALSE },
  { "adapter-type", spoil_adapter_type, LLMSVC_ERROR_INVALID_MODEL, "*adapter.type*“lora”*",
    FALSE },
  { "architecture", spoil_architecture, LLMSVC_ERROR_INVALID_MODEL,
    "*general.architecture is “qwen3”*“llama”*", FALSE },
  { "no-alpha", spoil_no_alpha, LLMSVC_ERROR_INVALID_MODEL, "*adapter.lora.alpha*", FALSE },
  { "alpha", spoil_alpha, LLMSVC_ERROR_INVALID_MODEL, "*adapter.lora.alpha*", FALSE },
  { "invocation", spoil_invocation, LLMSVC_ERROR_UNSUPPORTED, "*invocation_tokens*", FALSE },
  { "no-a", spoil_no_a, LLMSVC_ERROR_INVALID_MODEL, "*" FIRST ".lora_a is missing*", FALSE },
  { "no-b", spoil_no_b, LLMSVC_ERROR_INVALID_MODEL, "*" FIRST ".lora_b is missing*", FALSE },
  { "rank", spoil_rank, LLMSVC_ERROR_INVALID_MODEL, "*" FIRST ".lora_a has the rank 257*", FALSE },
  { "inputs", spoil_inputs, LLMSVC_ERROR_INVALID_MODEL,
    "*" FIRST ".lora_a has the shape 63 × 4*64 × 4 is needed", FALSE },
  { "outputs", spoil_outputs, LLMSVC_ERROR_INVALID_MODEL,
    "*" FIRST ".lora_b has the shape 4 × 65*4 × 64 is needed", FALSE },
  { "ranks", spoil_ranks, LLMSVC_ERROR_INVALID_MODEL,
    "*" FIRST ".lora_b has the shape 5 × 64*4 × 64 is needed", FALSE },
  { "cube", spoil_cube, LLMSVC_ERROR_INVALID_MODEL, "*" FIRST ".lora_a has the shape 64 × 4 × 2*",
    FALSE },
  { "layer", spoil_layer, LLMSVC_ERROR_INVALID_MODEL, "*blk.2.attn_q*does not have", FALSE },
  { "output", spoil_output, LLMSVC_ERROR_INVALID_MODEL, "*output.weight*does not have", FALSE },
  { "embedding", spoil_embedding, LLMSVC_ERROR_UNSUPPORTED, "*token_embd*can't be adapted*",
    FALSE },
  { "norm", spoil_norm, LLMSVC_ERROR_UNSUPPORTED, "*attn_norm*neither*", FALSE },
  { "empty", spoil_nothing, LLMSVC_ERROR_INVALID_MODEL, "*no tensors", TRUE },
};

static ExecRig *
new_small_rig (void)
{
  const LlmTestModel shape = { .seed = 5 };
  const ExecRigConfig config = { .n_threads = 1 };
  g_autoptr (GBytes) model = llm_test_model_new (&shape);

  return exec_rig_new (model, &config);
}

static void
test_refused (gconstpointer data)
{
  const RefusedCase *c = data;
  g_autoptr (ExecRig) rig = new_small_rig ();
  g_autoptr (LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (LlmGguf) file = NULL;
  g_autoptr (LlmLora) adapter = NULL;
  g_autoptr (GError) error = NULL;

  c->spoil (gguf);
  add_keys (gguf, "llama", 4);
  if (!c->is_empty)
    add_tensors (gguf, rig->gguf, &rig->hparams, 4, 0);
  bytes = llm_test_gguf_end (gguf);
  file = llm_gguf_new_for_bytes (bytes, "wrong.gguf", &error);
  g_assert_no_error (error);
  adapter = llm_lora_new_for_gguf (file, rig->gguf, &rig->hparams, &error);
  g_assert_null (adapter);
  g_assert_error (error, LLMSVC_ERROR, c->code);
  g_test_message ("%s", error->message);
  g_assert_true (g_str_has_prefix (error->message, "“wrong.gguf”"));
  g_assert_true (g_pattern_match_simple (c->pattern, error->message));
}

/* What experts have can't be adapted. */
static void
test_refused_experts (void)
{
  g_autofree char *path = get_path ("architectures", "llama-experts", ".gguf");
  const ExecRigConfig config = { .n_threads = 1 };
  g_autoptr (ExecRig) rig = exec_rig_open (path, &config);
  g_autoptr (LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (LlmGguf) file = NULL;
  g_autoptr (LlmLora) adapter = NULL;
  g_autoptr (GError) error = NULL;

  add_keys (gguf, "llama", 4);
  put_half (gguf, "blk.1.ffn_down_exps.weight", ".lora_b", 4, 32);
  bytes = llm_test_gguf_end (gguf);
  file = llm_gguf_new_for_bytes (bytes, "wrong.gguf", NULL);
  adapter = llm_lora_new_for_gguf (file, rig->gguf, &rig->hparams, &error);
  g_assert_null (adapter);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
  g_assert_true (g_pattern_match_simple ("*ffn_down_exps*can't be adapted*", error->message));
}

/* Any bytes of header, keys and table: an error, or an adapter that can be run. */
static void
test_random_damage (void)
{
  g_autoptr (ExecRig) rig = new_small_rig ();
  g_autoptr (LlmGguf) good = new_adapter_file (rig, 4, 1);
  gsize size = llm_file_map_get_size (good->map);
  gsize n_header = llm_gguf_get_tensor (good, 0)->offset;
  GRand *random = g_rand_new_with_seed (1);
  guint n_refused = 0, n_taken = 0;

  for (guint i = 0; i < 3000; i++)
    {
      guint8 *bytes = g_memdup2 (llm_file_map_get_data (good->map), size);
      g_autoptr (GBytes) damaged = g_bytes_new_take (bytes, size);
      g_autoptr (LlmGguf) file = NULL;
      g_autoptr (LlmLora) adapter = NULL;
      g_autoptr (GError) error = NULL;

      bytes[g_rand_int_range (random, 0, (gint32) n_header)] ^=
        (guint8) (1u << g_rand_int_range (random, 0, 8));
      file = llm_gguf_new_for_bytes (damaged, "damaged", &error);
      if (file != NULL)
        adapter = llm_lora_new_for_gguf (file, rig->gguf, &rig->hparams, &error);
      if (adapter == NULL)
        {
          g_assert_nonnull (error);
          n_refused++;
        }
      else if (n_taken++ % 20 == 0)
        {
          ExecRigConfig config = { .n_threads = 1 };
          g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
          LlmRow row = exec_rig_row (1, 0, 0);

          set_adapters (rig, &config, &file, 1);
          g_assert_true (llm_kv_seq_append (seq, 1, NULL));
          row.adapter = 1;
          exec_rig_step (rig, &row, 1, &seq, 1);
        }
    }
  g_rand_free (random);
  g_assert_cmpuint (n_refused, >, 1000);
  g_assert_cmpuint (n_taken, >, 100);
}

static void
test_no_such_adapter (void)
{
  g_autoptr (ExecRig) rig = new_small_rig ();
  g_autoptr (LlmGguf) file = new_adapter_file (rig, 4, 1);
  ExecRigConfig config = { .n_threads = 1 };

  for (guint8 n = 0; n < 2; n++)
    {
      g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      g_autoptr (GError) error = NULL;
      LlmRow row = exec_rig_row (1, 0, 0);
      const LlmBatch batch = { &row, 1, &seq, 1 };

      if (n > 0)
        set_adapters (rig, &config, &file, 1);
      g_assert_true (llm_kv_seq_append (seq, 1, NULL));
      row.adapter = (guint8) (n + 1);
      g_assert_false (llm_forward_begin (rig->forward, &batch, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
    }
}

/* The file is cut off while the adapter is in use. */
static void
test_cut (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "adapter.gguf", NULL);
  g_autoptr (ExecRig) rig = new_small_rig ();
  g_autoptr (LlmGguf) file = new_adapter_file (rig, 4, 1);
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (LlmLora) adapter = NULL;
  LlmRow row = exec_rig_row (1, 0, 0);
  const LlmBatch batch = { &row, 1, &seq, 1 };
  ExecRigConfig config = { .n_threads = 1, .n_adapters = 1 };
  LlmStatus status;

  g_file_set_contents (path, (const char *) llm_file_map_get_data (file->map),
                       (gssize) llm_file_map_get_size (file->map), &error);
  g_assert_no_error (error);
  adapter = llm_lora_open (path, rig->gguf, &rig->hparams, &error);
  g_assert_no_error (error);
  config.adapters = &adapter;
  exec_rig_set_weights (rig, rig->weights, &config);

  g_assert_true (llm_kv_seq_append (seq, 1, NULL));
  row.adapter = 1;
  exec_rig_step (rig, &row, 1, &seq, 1);
  g_assert_cmpint (truncate (path, 100), ==, 0);
  g_assert_true (llm_forward_begin (rig->forward, &batch, &error));
  do
    status = llm_forward_resume (rig->forward, &error);
  while (status == LLM_PENDING);
  g_assert_cmpint (status, ==, LLM_FAILED);
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_true (g_pattern_match_simple ("*adapter.gguf*changed while*", error->message));
  llm_test_folder_remove (folder);
}

int
main (int   argc,
      char *argv[])
{
  static const char *const peers[] = { "llama-llama3", "phi3", "qwen3" };
  static const char *const models[] = { "llama-llama3", "llama-biases", "llama-experts", "gemma2",
                                        "phi3-long", "qwen3", "smollm3" };

  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (peers); i++)
    {
      g_autofree char *path = g_strdup_printf ("/lora/peer/%s", peers[i]);

      g_test_add_data_func (path, peers[i], test_peer);
    }
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autofree char *path = g_strdup_printf ("/lora/merged/%s", models[i]);

      g_test_add_data_func (path, models[i], test_merged);
    }
  g_test_add_func ("/lora/levels", test_levels);
  g_test_add_func ("/lora/mixed", test_mixed);
  g_test_add_data_func ("/lora/packed/F32", GUINT_TO_POINTER (LLK_F32), test_packed);
  g_test_add_data_func ("/lora/packed/Q8_0", GUINT_TO_POINTER (LLK_Q8_0), test_packed);
  g_test_add_func ("/lora/device", test_device);
  g_test_add_func ("/lora/work", test_work);
  g_test_add_func ("/lora/grouped", test_grouped);
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autofree char *path = g_strdup_printf ("/lora/refused/%s", refused[i].name);

      g_test_add_data_func (path, &refused[i], test_refused);
    }
  g_test_add_func ("/lora/refused/experts", test_refused_experts);
  g_test_add_func ("/lora/random-damage", test_random_damage);
  g_test_add_func ("/lora/no-such-adapter", test_no_such_adapter);
  g_test_add_func ("/lora/cut", test_cut);
  return g_test_run ();
}
