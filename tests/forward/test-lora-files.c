/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Files of adapters: what is refused of them and of rows for them, what is counted, damage. */

#include "lora-rig.h"

#include <math.h>
#include <unistd.h>

#include "common/llmsvc-error.h"
#include "support/llm-test-folder.h"

#define FIRST "blk.0.attn_q.weight"

/* Of an adapter's file: what is in the place of what there would be, or is not there. */
typedef struct
{
  const char *name;
  int code;
  const char *pattern;
  const char *key, *value;             /* (nullable): the key, (nullable): with this text */
  struct
  {
    const char *base, *suffix;         /* (nullable) */
    guint64 n_in, n_out;               /* 0: left out */
  } halves[2];
  void (*spoil) (LlmTestGguf *gguf);   /* (nullable) */
  const char *model;                   /* (nullable): another one */
  gboolean is_empty;                   /* no other tensors */
} RefusedCase;

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
spoil_cube (LlmTestGguf *gguf)
{
  const guint64 dims[] = { 64, 4, 2 };
  const float values[64 * 4 * 2] = { 0 };

  llm_test_gguf_add_tensor (gguf, FIRST ".lora_a", LLK_F32, 3, dims, values);
  llm_test_gguf_skip (gguf, FIRST ".lora_a");
}

/* The model has 64 inputs, 2 layers and no output of its own. */
static const RefusedCase refused[] = {
  { "type", LLMSVC_ERROR_INVALID_MODEL, "*general.type is “model”*“adapter”*",
    .key = "general.type", .value = "model" },
  { "no-type", LLMSVC_ERROR_INVALID_MODEL, "*general.type*", .key = "general.type" },
  { "adapter-type", LLMSVC_ERROR_INVALID_MODEL, "*adapter.type*“lora”*",
    .key = "adapter.type", .value = "control_vector" },
  { "architecture", LLMSVC_ERROR_INVALID_MODEL, "*general.architecture is “qwen3”*“llama”*",
    .key = "general.architecture", .value = "qwen3" },
  { "no-alpha", LLMSVC_ERROR_INVALID_MODEL, "*adapter.lora.alpha*", .key = "adapter.lora.alpha" },
  { "alpha", LLMSVC_ERROR_INVALID_MODEL, "*adapter.lora.alpha*", .spoil = spoil_alpha },
  { "invocation", LLMSVC_ERROR_UNSUPPORTED, "*invocation_tokens*", .spoil = spoil_invocation },
  { "no-a", LLMSVC_ERROR_INVALID_MODEL, "*" FIRST ".lora_a is missing*",
    .halves = { { FIRST, ".lora_a" } } },
  { "no-b", LLMSVC_ERROR_INVALID_MODEL, "*" FIRST ".lora_b is missing*",
    .halves = { { FIRST, ".lora_b" } } },
  { "rank", LLMSVC_ERROR_INVALID_MODEL, "*" FIRST ".lora_a has the rank 257*",
    .halves = { { FIRST, ".lora_a", 64, 257 } } },
  { "inputs", LLMSVC_ERROR_INVALID_MODEL,
    "*" FIRST ".lora_a has the shape 63 × 4*64 × 4 is needed",
    .halves = { { FIRST, ".lora_a", 63, 4 } } },
  { "outputs", LLMSVC_ERROR_INVALID_MODEL,
    "*" FIRST ".lora_b has the shape 4 × 65*4 × 64 is needed",
    .halves = { { FIRST, ".lora_a", 64, 4 }, { FIRST, ".lora_b", 4, 65 } } },
  { "ranks", LLMSVC_ERROR_INVALID_MODEL,
    "*" FIRST ".lora_b has the shape 5 × 64*4 × 64 is needed",
    .halves = { { FIRST, ".lora_a", 64, 4 }, { FIRST, ".lora_b", 5, 64 } } },
  { "cube", LLMSVC_ERROR_INVALID_MODEL, "*" FIRST ".lora_a has the shape 64 × 4 × 2*",
    .spoil = spoil_cube },
  { "layer", LLMSVC_ERROR_INVALID_MODEL, "*blk.2.attn_q*does not have",
    .halves = { { "blk.2.attn_q.weight", ".lora_a", 64, 4 } } },
  { "output", LLMSVC_ERROR_INVALID_MODEL, "*output.weight*does not have",
    .halves = { { "output.weight", ".lora_a", 64, 4 } } },
  { "embedding", LLMSVC_ERROR_UNSUPPORTED, "*token_embd*can't be adapted*",
    .halves = { { "token_embd.weight", ".lora_a", 64, 4 } } },
  { "norm", LLMSVC_ERROR_UNSUPPORTED, "*attn_norm*neither*",
    .halves = { { "blk.0.attn_norm.weight", "", 64, 1 } } },
  { "experts", LLMSVC_ERROR_UNSUPPORTED, "*ffn_down_exps*can't be adapted*",
    .halves = { { "blk.1.ffn_down_exps.weight", ".lora_b", 4, 32 } }, .model = "llama-experts",
    .is_empty = TRUE },
  { "empty", LLMSVC_ERROR_INVALID_MODEL, "*no tensors", .is_empty = TRUE },
};

static void
spoil (LlmTestGguf       *gguf,
       const RefusedCase *c)
{
  GRand *random = g_rand_new_with_seed (1);

  if (c->value != NULL)
    llm_test_gguf_add_string (gguf, c->key, c->value);
  if (c->key != NULL)
    llm_test_gguf_skip (gguf, c->key);
  for (guint i = 0; i < G_N_ELEMENTS (c->halves) && c->halves[i].base != NULL; i++)
    {
      g_autofree char *name = g_strconcat (c->halves[i].base, c->halves[i].suffix, NULL);

      if (c->halves[i].n_in > 0)
        lora_rig_add_half (gguf, random, c->halves[i].base, c->halves[i].suffix, LLK_F32,
                           c->halves[i].n_in, c->halves[i].n_out);
      llm_test_gguf_skip (gguf, name);
    }
  if (c->spoil != NULL)
    c->spoil (gguf);
  g_rand_free (random);
}

static ExecRig *
new_small_rig (void)
{
  const LlmTestModel shape = { .seed = 5 };
  const ExecRigConfig config = { .n_threads = 1 };
  g_autoptr(GBytes) model = llm_test_model_new (&shape);

  return exec_rig_new (model, &config);
}

static void
test_refused (gconstpointer data)
{
  const RefusedCase *c = data;
  const ExecRigConfig config = { .n_threads = 1 };
  g_autofree char *path = lora_rig_get_path ("architectures", c->model, ".gguf");
  g_autoptr(ExecRig) rig = c->model != NULL ? exec_rig_open (path, &config) : new_small_rig ();
  g_autoptr(LlmTestGguf) gguf = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) file = NULL;
  g_autoptr(LlmLora) adapter = NULL;
  g_autoptr(GError) error = NULL;

  spoil (gguf, c);
  lora_rig_add_keys (gguf, "llama", 4);
  if (!c->is_empty)
    lora_rig_add_tensors (gguf, rig->gguf, &rig->hparams, 4, 0);
  bytes = llm_test_gguf_end (gguf);
  file = llm_gguf_new_for_bytes (bytes, "wrong.gguf", &error);
  g_assert_no_error (error);
  adapter = llm_lora_new_for_gguf (file, rig->gguf, &rig->hparams, rig->ledger, &error);
  g_assert_null (adapter);
  g_assert_error (error, LLMSVC_ERROR, c->code);
  g_test_message ("%s", error->message);
  g_assert_true (g_str_has_prefix (error->message, "“wrong.gguf”"));
  g_assert_true (g_pattern_match_simple (c->pattern, error->message));
}

/* Any bytes of header, keys and table: an error, or an adapter that can be run. */
static void
test_random_damage (void)
{
  g_autoptr(ExecRig) rig = new_small_rig ();
  g_autoptr(LlmGguf) good = lora_rig_new_file (rig, 4, 1);
  gsize size = llm_file_map_get_size (good->map);
  gsize n_header = llm_gguf_get_tensor (good, 0)->offset;
  GRand *random = g_rand_new_with_seed (1);
  guint n_refused = 0, n_taken = 0;

  for (guint i = 0; i < 3000; i++)
    {
      guint8 *bytes = g_memdup2 (llm_file_map_get_data (good->map), size);
      g_autoptr(GBytes) damaged = g_bytes_new_take (bytes, size);
      g_autoptr(LlmGguf) file = NULL;
      g_autoptr(LlmLora) adapter = NULL;
      g_autoptr(GError) error = NULL;

      bytes[g_rand_int_range (random, 0, (gint32) n_header)] ^=
        (guint8) (1u << g_rand_int_range (random, 0, 8));
      file = llm_gguf_new_for_bytes (damaged, "damaged", &error);
      if (file != NULL)
        adapter = llm_lora_new_for_gguf (file, rig->gguf, &rig->hparams, rig->ledger, &error);
      if (adapter == NULL)
        {
          g_assert_nonnull (error);
          n_refused++;
        }
      else if (n_taken++ % 20 == 0)
        {
          ExecRigConfig config = { .n_threads = 1 };
          g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
          LlmRow row = exec_rig_row (1, 0, 0);

          lora_rig_set (rig, &config, &file, 1);
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
  g_autoptr(ExecRig) rig = new_small_rig ();
  g_autoptr(LlmGguf) file = lora_rig_new_file (rig, 4, 1);
  ExecRigConfig config = { .n_threads = 1 };

  for (guint8 n = 0; n < 2; n++)
    {
      g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
      g_autoptr(GError) error = NULL;
      LlmRow row = exec_rig_row (1, 0, 0);
      const LlmBatch batch = { &row, 1, &seq, 1 };

      if (n > 0)
        lora_rig_set (rig, &config, &file, 1);
      g_assert_true (llm_kv_seq_append (seq, 1, NULL));
      row.adapter = (guint8) (n + 1);
      g_assert_false (llm_forward_begin (rig->forward, &batch, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
    }
}

/* K and V of an adapter are never kept where rows without it would find them. */
static void
test_on_storage (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(ExecRig) rig = new_small_rig ();
  g_autoptr(LlmGguf) file = lora_rig_new_file (rig, 4, 1);
  g_autoptr(GError) error = NULL;
  LlmDisk *disk = llm_disk_new ("threads", &error);
  LlmKvStorage *storage = llm_kv_storage_new (folder, disk, 1 << 20, 1 << 20, &error);
  ExecRigConfig config = { .n_threads = 1 };

  g_assert_no_error (error);
  llm_kv_store_set_storage (rig->store, storage, 1);
  lora_rig_set (rig, &config, &file, 1);
  for (guint8 adapter = 0; adapter < 2; adapter++)
    for (guint is_kept = 0; is_kept < 2; is_kept++)
      {
        const char *app = is_kept > 0 ? "1000/org.example" : NULL;
        g_autoptr(LlmKvSeq) seq =
            llm_kv_seq_new (rig->store, app, "00112233445566778899aabbccddeeff");
        LlmRow row = exec_rig_row (1, 0, 0);
        const LlmBatch batch = { &row, 1, &seq, 1 };

        g_assert_true (llm_kv_seq_append (seq, 1, NULL));
        row.adapter = adapter;
        if (adapter == 0 || is_kept == 0)
          {
            exec_rig_step (rig, &row, 1, &seq, 1);
            continue;
          }
        g_assert_false (llm_forward_begin (rig->forward, &batch, &error));
        g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT);
        g_assert_true (g_pattern_match_simple ("*on storage*", error->message));
      }
  g_clear_pointer (&rig, exec_rig_free);
  llm_kv_storage_free (storage);
  llm_test_folder_remove (folder);
}

/* (transfer full): the path of an adapter's file in @folder. */
static char *
write_file (ExecRig    *rig,
            const char *folder)
{
  char *path = g_build_filename (folder, "adapter.gguf", NULL);
  g_autoptr(LlmGguf) file = lora_rig_new_file (rig, 4, 1);
  g_autoptr(GError) error = NULL;

  g_file_set_contents (path, (const char *) llm_file_map_get_data (file->map),
                       (gssize) llm_file_map_get_size (file->map), &error);
  g_assert_no_error (error);
  return path;
}

/* Its bytes are weights as long as anybody has it; those of a file, the kernel can take. */
static void
test_counted (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(ExecRig) rig = new_small_rig ();
  g_autofree char *path = write_file (rig, folder);
  g_autoptr(LlmGguf) bytes = lora_rig_new_file (rig, 4, 1);
  guint64 size = llm_file_map_get_size (bytes->map);
  guint64 weights = llm_ledger_get (rig->ledger, LLM_HOLDER_WEIGHTS);
  guint64 backed = llm_ledger_get (rig->ledger, LLM_LEDGER_BACKED);
  ExecRigConfig config = { .n_threads = 1, .n_adapters = 2 };
  g_autoptr(GError) error = NULL;
  LlmLora *adapters[2];

  adapters[0] = llm_lora_open (path, rig->gguf, &rig->hparams, rig->ledger, &error);
  g_assert_no_error (error);
  adapters[1] = llm_lora_new_for_gguf (bytes, rig->gguf, &rig->hparams, rig->ledger, &error);
  g_assert_no_error (error);
  config.adapters = adapters;
  exec_rig_set_weights (rig, rig->weights, &config);
  for (guint i = 0; i < 2; i++)
    llm_lora_unref (adapters[i]);
  g_assert_cmpuint (llm_ledger_get (rig->ledger, LLM_HOLDER_WEIGHTS), ==, weights + 2 * size);
  g_assert_cmpuint (llm_ledger_get (rig->ledger, LLM_LEDGER_BACKED), ==, backed + size);

  config.n_adapters = 0;
  exec_rig_set_weights (rig, rig->weights, &config);
  g_assert_cmpuint (llm_ledger_get (rig->ledger, LLM_HOLDER_WEIGHTS), ==, weights);
  g_assert_cmpuint (llm_ledger_get (rig->ledger, LLM_LEDGER_BACKED), ==, backed);
  llm_test_folder_remove (folder);
}

/* The file is cut off while the adapter is in use. */
static void
test_cut (void)
{
  g_autofree char *folder = llm_test_folder_new ();
  g_autoptr(ExecRig) rig = new_small_rig ();
  g_autofree char *path = write_file (rig, folder);
  g_autoptr(LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmLora) adapter = NULL;
  LlmRow row = exec_rig_row (1, 0, 0);
  const LlmBatch batch = { &row, 1, &seq, 1 };
  ExecRigConfig config = { .n_threads = 1, .n_adapters = 1 };
  LlmStatus status;

  adapter = llm_lora_open (path, rig->gguf, &rig->hparams, rig->ledger, &error);
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
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      g_autofree char *path = g_strdup_printf ("/lora-files/%s", refused[i].name);

      g_test_add_data_func (path, &refused[i], test_refused);
    }
  g_test_add_func ("/lora-files/random-damage", test_random_damage);
  g_test_add_func ("/lora-files/no-such-adapter", test_no_such_adapter);
  g_test_add_func ("/lora-files/on-storage", test_on_storage);
  g_test_add_func ("/lora-files/counted", test_counted);
  g_test_add_func ("/lora-files/cut", test_cut);
  return g_test_run ();
}
