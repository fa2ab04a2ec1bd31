/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmsvc-bench make-gguf --widen: what is made says what its source says, in a file that has all
 * its bytes. */

#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <glib/gstdio.h>

#include "bench/bench-rig.h"
#include "forward/forward-rig.h"
#include "model/llm-model.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"
#include "weights/llm-lora.h"

#define N_VOCAB 4096
#define N_TOKENS 48
/* Of a text whose perplexity is measured: windows, and tokens of each. */
#define N_WINDOWS 4
#define N_WINDOW 256
/* What a logit may differ by that was added up in another order. */
#define ORDER 1e-4

static char *folder;
static char *source;
static char *made;

typedef float Logits[N_TOKENS * N_VOCAB];

/* --- what a file says --- */

/* Floats as they are: tiles round what attention multiplies. */
static const char *
get_kernels (void)
{
  const char *const *name = llk_ops_list ();

  while (g_str_has_prefix (*name, "amx"))
    name++;
  return *name;
}

static void
compute (const char *path,
         const char *adapter,
         float      *logits)
{
  ExecRigConfig config = { .n_threads = 1, .kernels = get_kernels () };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(LlmLora) lora = NULL;
  g_autoptr(ExecRig) rig = NULL;
  LlmHparams hparams;
  LlmKvSeq *seq;
  LlmRow rows[N_TOKENS];
  gboolean is_read;

  if (adapter != NULL)
    {
      gguf = llm_gguf_open (path, &error);
      g_assert_no_error (error);
      is_read = llm_hparams_read (gguf, &hparams, &error);
      g_assert_true (is_read);
      lora = llm_lora_open (adapter, gguf, &hparams, NULL, &error);
      g_assert_no_error (error);
      config.adapters = &lora;
      config.n_adapters = 1;
    }
  rig = exec_rig_open (path, &config);
  g_assert_cmpuint (rig->hparams.n_vocab, ==, N_VOCAB);
  seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_assert_true (llm_kv_seq_append (seq, N_TOKENS, NULL));
  for (guint i = 0; i < N_TOKENS; i++)
    {
      rows[i] = exec_rig_row (300 + (gint32) (i * 97 % 3700), 0, i);
      rows[i].adapter = adapter != NULL ? 1 : 0;
    }
  exec_rig_step (rig, rows, N_TOKENS, &seq, 1);
  for (guint i = 0; i < N_TOKENS; i++)
    memcpy (logits + i * N_VOCAB, llm_forward_get_logits (rig->forward, i),
            N_VOCAB * sizeof (float));
  llm_kv_seq_free (seq);
}

static double
get_difference (const float *a,
                const float *b)
{
  double most = 0;

  for (guint i = 0; i < N_TOKENS * N_VOCAB; i++)
    {
      g_assert_true (isfinite (a[i]));
      most = MAX (most, fabs ((double) a[i] - b[i]));
    }
  return most;
}

static double
get_nll (const float *logits,
         gint32       token)
{
  double sum = 0, most = -INFINITY;

  for (guint i = 0; i < N_VOCAB; i++)
    most = MAX (most, logits[i]);
  for (guint i = 0; i < N_VOCAB; i++)
    sum += exp (logits[i] - most);
  return most + log (sum) - logits[token];
}

static double
get_perplexity (const char *path)
{
  const ExecRigConfig config = { .n_threads = 1 };
  g_autofree char *name = g_build_filename (g_getenv ("LLM_TEST_DATA"), "golden",
                                            "heldout_sgd_chatml.txt", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (path, &error);
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autofree float *logits = g_new (float, N_WINDOW * N_VOCAB);
  g_autofree char *text = NULL;
  g_autoptr(ExecRig) rig = exec_rig_open (path, &config);
  double nll = 0;
  gsize length;

  g_assert_no_error (error);
  g_file_get_contents (name, &text, &length, &error);
  g_assert_no_error (error);
  llm_tokenizer_encode (llm_model_get_tokenizer (model), &(LlmTextPart) { text, 8000, TRUE }, 1,
                        FALSE, tokens);
  g_assert_cmpuint (tokens->len, >=, N_WINDOWS * N_WINDOW);
  for (guint i = 0; i < N_WINDOWS; i++)
    {
      const gint32 *window = &g_array_index (tokens, gint32, i * N_WINDOW);
      LlmKvSeq *seq = llm_kv_seq_new (rig->store, NULL, NULL);

      exec_rig_prompt (rig, seq, window, N_WINDOW, N_WINDOW, logits);
      for (guint j = N_WINDOW / 2; j + 1 < N_WINDOW; j++)
        nll += get_nll (logits + j * N_VOCAB, window[j + 1]);
      llm_kv_seq_free (seq);
    }
  return exp (nll / (N_WINDOWS * (N_WINDOW / 2 - 1)));
}

/* --- files --- */

static void
widen_model (const char *model,
             const char *shape,
             const char *type,
             const char *layers)
{
  g_auto(BenchRigRun) run = bench_rig_run ("make-gguf", "--widen", model, "--shape", shape,
                                           "--type", type, "--layers", layers, made, NULL);

  g_test_message ("%s%s", run.out, run.err);
  g_assert_cmpint (run.status, ==, 0);
}

static void
widen (const char *shape,
       const char *type,
       const char *layers)
{
  widen_model (source, shape, type, layers);
}

/* Sums in another order, and half precision: nothing more. The model's logits reach ±20. */
static void
test_logits (void)
{
  g_autofree float *wanted = g_malloc (sizeof (Logits));
  g_autofree float *logits = g_malloc (sizeof (Logits));

  compute (source, NULL, wanted);
  widen ("tiny-llama", "F32", "3");
  compute (made, NULL, logits);
  g_test_message ("F32: %g", get_difference (wanted, logits));
  g_assert_cmpfloat (get_difference (wanted, logits), <, ORDER);
  widen ("tiny-llama", "F16", "5");
  compute (made, NULL, logits);
  g_test_message ("F16: %g", get_difference (wanted, logits));
  g_assert_cmpfloat (get_difference (wanted, logits), <, 2e-2);
}

/* An output of its own, three queries for a key where the shape has two, and widths that are no
 * multiples. */
static void
test_untied (void)
{
  static const LlmTestModel shape = {
    .n_layers = 2, .n_embd = 96, .n_heads = 3, .n_kv_heads = 1, .head_dim = 32, .n_ff = 160,
    .n_vocab = N_VOCAB, .is_untied = TRUE, .seed = 11,
  };
  g_autofree char *model = g_build_filename (folder, "untied.gguf", NULL);
  g_autofree float *wanted = g_malloc (sizeof (Logits));
  g_autofree float *logits = g_malloc (sizeof (Logits));

  llm_test_model_write (&shape, model);
  compute (model, NULL, wanted);
  widen_model (model, "tiny-llama", "F32", "3");
  compute (made, NULL, logits);
  g_test_message ("%g", get_difference (wanted, logits));
  g_assert_cmpfloat (get_difference (wanted, logits), <, ORDER);
}

/* Layers that are not the source's change no bit. */
static void
test_extra_layers (void)
{
  static const char *const types[] = { "F32", "Q8_0", "Q4_0" };
  g_autofree float *few = g_malloc (sizeof (Logits));
  g_autofree float *many = g_malloc (sizeof (Logits));

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      g_test_message ("%s", types[i]);
      widen ("tiny-llama", types[i], "3");
      compute (made, NULL, few);
      widen ("tiny-llama", types[i], "7");
      compute (made, NULL, many);
      g_assert_cmpmem (few, sizeof (Logits), many, sizeof (Logits));
    }
}

static void
test_perplexity (void)
{
  static const char *const types[] = { "Q8_0", "Q4_0" };
  double wanted = get_perplexity (source);

  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      double perplexity;

      widen ("160m", types[i], "4");
      perplexity = get_perplexity (made);
      g_test_message ("%s: %.3f, of the source %.3f", types[i], perplexity, wanted);
      g_assert_cmpfloat (fabs (perplexity / wanted - 1), <, 0.01);
    }
}

/* --- bytes --- */

static gsize
compress (const char *data,
          gsize       length)
{
  g_autoptr(GConverter) zip = G_CONVERTER (
    g_zlib_compressor_new (G_ZLIB_COMPRESSOR_FORMAT_GZIP, 1));
  g_autoptr(GInputStream) plain = g_memory_input_stream_new_from_data (data, (gssize) length, NULL);
  g_autoptr(GInputStream) zipped = g_converter_input_stream_new (plain, zip);
  g_autoptr(GError) error = NULL;
  g_autofree char *buffer = g_malloc (1 << 16);
  gsize n = 0;
  gssize step;

  while ((step = g_input_stream_read (zipped, buffer, 1 << 16, NULL, &error)) > 0)
    n += (gsize) step;
  g_assert_no_error (error);
  return n;
}

static gsize
get_longest_zeros (const char *data,
                   gsize       length)
{
  gsize longest = 0, run = 0;

  for (gsize i = 0; i < length; i++)
    {
      run = data[i] == 0 ? run + 1 : 0;
      longest = MAX (longest, run);
    }
  return longest;
}

static void
check_bytes (void)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (made, &error);
  g_autofree char *data = NULL;
  GStatBuf status;
  gsize length, begin;

  g_assert_no_error (error);
  g_file_get_contents (made, &data, &length, &error);
  g_assert_no_error (error);
  begin = llm_gguf_find_tensor (gguf, "token_embd.weight")->offset;
  /* Less than a block of the file system, and than what ends a tensor. */
  g_assert_cmpuint (get_longest_zeros (data + begin, length - begin), <, 64);
  g_assert_cmpfloat ((double) compress (data + begin, length - begin) / (double) (length - begin),
                     >=, 0.95);
  g_assert_cmpint (g_stat (made, &status), ==, 0);
  g_assert_cmpint (status.st_blocks * 512, >=, status.st_size);
}

static void
test_bytes (void)
{
  widen ("tiny-llama", "Q8_0", "4");
  check_bytes ();
  widen ("tiny-llama", "Q4_0", "4");
  check_bytes ();
}

static char *
read_made (const char *seed,
           const char *threads,
           gsize      *length)
{
  g_auto(BenchRigRun) run = bench_rig_run ("make-gguf", "--widen", source, "--shape", "tiny-llama",
                                           "--layers", "4", "--type", "Q4_0", "--seed", seed,
                                           "--threads", threads, made, NULL);
  g_autoptr(GError) error = NULL;
  char *bytes;

  g_assert_cmpint (run.status, ==, 0);
  g_file_get_contents (made, &bytes, length, &error);
  g_assert_no_error (error);
  return bytes;
}

static void
test_same_bytes (void)
{
  gsize length, again_length, other_length;
  g_autofree char *first = read_made ("5", "1", &length);
  g_autofree char *again = read_made ("5", "3", &again_length);
  g_autofree char *other = read_made ("6", "3", &other_length);

  g_assert_cmpmem (first, length, again, again_length);
  g_assert_cmpuint (length, ==, other_length);
  g_assert_cmpint (memcmp (first, other, length), !=, 0);
}

/* --- what lies beside a model --- */

static void
add_matrix (LlmTestGguf *gguf,
            const char  *name,
            guint64      n_in,
            guint64      n_out)
{
  g_autoptr(GRand) random = g_rand_new_with_seed (g_str_hash (name));
  g_autofree float *values = g_new (float, n_in * n_out);

  for (gsize i = 0; i < n_in * n_out; i++)
    values[i] = (float) g_rand_double_range (random, -0.15, 0.15);
  llm_test_gguf_add_tensor (gguf, name, LLK_F32, 2, (guint64[]) { n_in, n_out }, values);
}

/* An adapter for every matrix of a layer, and what is @unknown (nullable). */
static void
write_companion (const char *path,
                 const char *unknown)
{
  static const struct { const char *name; guint n_in, n_out; } matrices[] = {
    { "attn_q", 128, 128 }, { "attn_k", 128, 64 }, { "attn_v", 128, 64 },
    { "attn_output", 128, 128 }, { "ffn_gate", 128, 352 }, { "ffn_up", 128, 352 },
    { "ffn_down", 352, 128 },
  };
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GError) error = NULL;
  g_autoptr(GBytes) bytes = NULL;

  llm_test_gguf_add_string (gguf, "general.architecture", "llama");
  llm_test_gguf_add_string (gguf, "general.type", "adapter");
  llm_test_gguf_add_string (gguf, "adapter.type", "lora");
  llm_test_gguf_add_double (gguf, "adapter.lora.alpha", LLM_GGUF_FLOAT32, 8);
  if (unknown != NULL)
    llm_test_gguf_add_int (gguf, unknown, LLM_GGUF_UINT32, 1);
  for (guint i = 0; i < G_N_ELEMENTS (matrices); i++)
    {
      g_autofree char *a = g_strdup_printf ("blk.2.%s.weight.lora_a", matrices[i].name);
      g_autofree char *b = g_strdup_printf ("blk.2.%s.weight.lora_b", matrices[i].name);

      add_matrix (gguf, a, matrices[i].n_in, 4);
      add_matrix (gguf, b, 4, matrices[i].n_out);
    }
  bytes = llm_test_gguf_end (gguf);
  g_file_set_contents (path, g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes),
                       &error);
  g_assert_no_error (error);
}

static void
test_companion (void)
{
  g_autofree char *beside = g_build_filename (folder, "source.llmsvc.gguf", NULL);
  g_autofree char *beside_made = g_build_filename (folder, "made.llmsvc.gguf", NULL);
  g_autofree float *plain = g_malloc (sizeof (Logits));
  g_autofree float *wanted = g_malloc (sizeof (Logits));
  g_autofree float *logits = g_malloc (sizeof (Logits));

  write_companion (beside, "llmsvc.unheard-of");
  {
    g_auto(BenchRigRun) run = bench_rig_run ("make-gguf", "--widen", source, "--shape",
                                             "tiny-llama", "--layers", "5", "--type", "F32", made,
                                             NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_nonnull (strstr (run.err, "llmsvc.unheard-of"));
  }
  write_companion (beside, NULL);
  compute (source, NULL, plain);
  compute (source, beside, wanted);
  g_assert_cmpfloat (get_difference (plain, wanted), >, 0.1);
  widen ("tiny-llama", "F32", "5");
  compute (made, beside_made, logits);
  g_test_message ("%g", get_difference (wanted, logits));
  g_assert_cmpfloat (get_difference (wanted, logits), <, ORDER);

  /* What is left of it is not that of another model. */
  g_remove (beside);
  {
    g_auto(BenchRigRun) run = bench_rig_run ("make-gguf", "--widen", source, "--shape",
                                             "tiny-llama", "--layers", "5", "--type", "F32", made,
                                             NULL);

    g_assert_cmpint (run.status, ==, 1);
    g_assert_nonnull (strstr (run.err, beside_made));
  }
  g_remove (beside_made);
}

/* --- what can't be --- */

static void
check_refused (const char *model,
               const char *shape,
               const char *type,
               const char *file,
               int         status,
               const char *why)
{
  g_auto(BenchRigRun) run = bench_rig_run ("make-gguf", "--widen", model, "--shape", shape,
                                           "--type", type, file, NULL);

  g_test_message ("%s", run.err);
  g_assert_cmpint (run.status, ==, status);
  g_assert_nonnull (strstr (run.err, why));
  g_assert_null (strstr (run.err, "Traceback"));
}

static void
test_refused (void)
{
  g_autofree char *small = g_build_filename (folder, "small.gguf", NULL);
  g_autofree char *qwen = g_build_filename (g_getenv ("LLM_TEST_DATA"), "architectures",
                                            "qwen3.gguf", NULL);
  g_autofree char *scaled = g_build_filename (g_getenv ("LLM_TEST_DATA"), "architectures",
                                              "llama-llama3.gguf", NULL);
  g_autofree char *data = NULL;
  g_autoptr(GError) error = NULL;
  gsize length;

  check_refused (source, "tiny-llama", "F32", made, 1, "layers");
  check_refused (source, "moe", "F32", made, 1, "experts");
  check_refused (source, "7b", "Q4_K", made, 2, "--list");
  check_refused (qwen, "7b", "F32", made, 1, "architecture");
  check_refused (scaled, "7b", "F32", made, 1, "rope_freqs.weight");
  check_refused ("/nowhere", "7b", "F32", made, 1, "/nowhere");
  check_refused ("/dev/null", "7b", "F32", made, 1, "/dev/null");
  check_refused (source, "1.1b", "F32", source, 1, "itself");

  /* Cut in the head, in its middle and in the weights. */
  g_file_get_contents (source, &data, &length, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < 3; i++)
    {
      const gsize lengths[] = { 12, 3000, length - 100 };

      g_file_set_contents (small, data, (gssize) lengths[i], &error);
      g_assert_no_error (error);
      check_refused (small, "1.1b", "F32", made, 1, small);
    }
  g_assert_false (g_file_test (made, G_FILE_TEST_EXISTS));
}

int
main (int    argc,
      char **argv)
{
  g_autofree char *model = NULL;
  int status;

  g_test_init (&argc, &argv, NULL);
  folder = llm_test_folder_new ();
  source = g_build_filename (folder, "source.gguf", NULL);
  made = g_build_filename (folder, "made.gguf", NULL);
  model = g_build_filename (g_getenv ("LLM_TEST_DATA"), "models",
                            "llmsvc-demo-draft-1M-F32.gguf", NULL);
  g_assert_cmpint (symlink (model, source), ==, 0);
  g_test_add_func ("/bench/widen/refused", test_refused);
  g_test_add_func ("/bench/widen/logits", test_logits);
  g_test_add_func ("/bench/widen/untied", test_untied);
  g_test_add_func ("/bench/widen/extra-layers", test_extra_layers);
  g_test_add_func ("/bench/widen/perplexity", test_perplexity);
  g_test_add_func ("/bench/widen/bytes", test_bytes);
  g_test_add_func ("/bench/widen/same-bytes", test_same_bytes);
  g_test_add_func ("/bench/widen/companion", test_companion);
  status = g_test_run ();
  llm_test_folder_remove (folder);
  g_free (folder);
  g_free (source);
  g_free (made);
  return status;
}
