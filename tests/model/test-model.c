/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <string.h>

#include "common/llmsvc-error.h"
#include "model/llm-model.h"
#include "support/llm-test-gguf.h"

static LlmModel *
open_built (LlmTestGguf  *built,
            GError      **error)
{
  g_autoptr(GBytes) bytes = llm_test_gguf_end (built);
  g_autoptr(GError) local_error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "built", &local_error);

  g_assert_no_error (local_error);
  return llm_model_new_for_gguf (gguf, error);
}

static void
test_demo (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                            "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_open (path, &error);
  g_autoptr(LlmModel) again = llm_model_open (path, NULL);
  g_autoptr(LlmModel) other = NULL;
  LlmTokenizer *tokenizer;
  LlmTemplate *template;

  g_assert_no_error (error);
  g_assert_cmpuint (llm_model_get_hparams (model)->n_layers, ==, 8);
  g_assert_cmpstr (llm_model_get_gguf (model)->path, ==, path);
  tokenizer = llm_model_get_tokenizer (model);
  g_assert_cmpuint (tokenizer->n_tokens, ==, 4096);
  g_assert_cmpint (tokenizer->bos, ==, 1);
  template = llm_model_get_template (model, &error);
  g_assert_no_error (error);
  g_assert_true (llm_template_get_features (template)->has_system);

  g_assert_cmpuint (strlen (llm_model_get_identity (model)), ==, 16);
  g_assert_cmpstr (llm_model_get_identity (model), ==, llm_model_get_identity (again));
  other = llm_model_ref (model);
  g_assert_true (other == model);
}

static void
test_identity (void)
{
  const LlmTestModel shape = { .n_layers = 1 };
  const LlmTestModel longer = { .n_layers = 2 };
  const char *const names[] = { "test", "test", "tent" };
  g_autoptr(GHashTable) identities = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; i < 4; i++)
    {
      g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
      g_autoptr(LlmModel) model = NULL;
      g_autoptr(GError) error = NULL;
      LlmTestModel named = i == 3 ? longer : shape;

      named.name = i < 3 ? names[i] : "test";
      llm_test_model_add_keys (&named, built);
      llm_test_model_add_tensors (&named, built);
      model = open_built (built, &error);
      g_assert_no_error (error);
      g_hash_table_add (identities, g_strdup (llm_model_get_identity (model)));
    }
  /* The first two are the same. */
  g_assert_cmpuint (g_hash_table_size (identities), ==, 3);
}

/* Each tensor is in the sample, and larger changes are in any case; the header is the same. */
static void
test_weight_identity (void)
{
  const LlmTestModel shape = { .n_layers = 2, .n_vocab = 900 };
  g_autoptr(GBytes) bytes = llm_test_model_new (&shape);
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "built", NULL);
  g_autoptr(LlmModel) model = llm_model_new_for_gguf (gguf, NULL);
  g_autoptr(GHashTable) identities = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  guint n_tensors = gguf->tensors->len;

  g_assert_cmpuint (strlen (llm_model_get_weight_identity (model)), ==, 16);
  g_assert_cmpstr (llm_model_get_weight_identity (model), !=, llm_model_get_identity (model));
  g_hash_table_add (identities, g_strdup (llm_model_get_weight_identity (model)));
  for (guint i = 0; i <= n_tensors; i++)
    {
      gsize length;
      guint8 *changed = g_bytes_unref_to_data (g_bytes_ref (bytes), &length);
      g_autoptr(GBytes) other_bytes = NULL;
      g_autoptr(LlmGguf) other_gguf = NULL;
      g_autoptr(LlmModel) other = NULL;

      /* the last one is as the first was */
      if (i < n_tensors)
        {
          const LlmGgufTensor *tensor = llm_gguf_get_tensor (gguf, i);

          for (guint64 at = 0; at < tensor->bytes; at += 4096)
            changed[tensor->offset + at] ^= 1;
          changed[tensor->offset + tensor->bytes - 1] ^= 1;
        }
      other_bytes = g_bytes_new_take (changed, length);
      other_gguf = llm_gguf_new_for_bytes (other_bytes, "other", NULL);
      other = llm_model_new_for_gguf (other_gguf, NULL);
      g_assert_cmpstr (llm_model_get_identity (other), ==, llm_model_get_identity (model));
      g_assert_cmpint (g_hash_table_add (identities,
                                         g_strdup (llm_model_get_weight_identity (other))),
                       ==, i < n_tensors);
    }
}

/* A model without a template that can be used still continues raw text. */
static void
test_template (void)
{
  const char *const sources[] = { NULL, "{{ messages[0]['content'] | nonsense }}" };

  for (guint i = 0; i < G_N_ELEMENTS (sources); i++)
    {
      const LlmTestModel shape = { .n_layers = 1 };
      g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
      g_autoptr(LlmModel) model = NULL;
      g_autoptr(GError) error = NULL;

      if (sources[i] != NULL)
        llm_test_gguf_add_string (built, "tokenizer.chat_template", sources[i]);
      llm_test_gguf_skip (built, "tokenizer.chat_template");
      llm_test_model_add_keys (&shape, built);
      llm_test_model_add_tensors (&shape, built);
      model = open_built (built, &error);
      g_assert_no_error (error);

      g_assert_null (llm_model_get_template (model, NULL));
      g_assert_null (llm_model_get_template (model, &error));
      g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED);
      g_assert_nonnull (strstr (error->message, "built"));
    }
}

static void
check_refused (const char  *skipped,
               LlmTestGguf *built,
               int          code,
               const char  *part)
{
  const LlmTestModel shape = { .n_layers = 1, .n_vocab = 300 };
  g_autoptr(GError) error = NULL;

  llm_test_gguf_skip (built, skipped);
  llm_test_model_add_keys (&shape, built);
  llm_test_model_add_tensors (&shape, built);
  g_assert_null (open_built (built, &error));
  g_assert_error (error, LLMSVC_ERROR, code);
  g_assert_nonnull (strstr (error->message, "built"));
  if (strstr (error->message, part) == NULL)
    g_error ("“%s” is not in: %s", part, error->message);
}

static void
test_refused (void)
{
  const char *const tokens[] = { "<unk>", "<s>", "</s>", "a", "b" };
  g_autoptr(LlmTestGguf) architecture = llm_test_gguf_new (3);
  g_autoptr(LlmTestGguf) vocabulary = llm_test_gguf_new (3);
  g_autoptr(LlmTestGguf) size = llm_test_gguf_new (3);
  g_autoptr(LlmTestGguf) template = llm_test_gguf_new (3);
  g_autoptr(LlmTestGguf) tensor = llm_test_gguf_new (3);
  g_autoptr(LlmTestGguf) tokenizer = llm_test_gguf_new (3);

  llm_test_gguf_add_string (architecture, "general.architecture", "mamba");
  check_refused ("general.architecture", architecture, LLMSVC_ERROR_UNSUPPORTED, "mamba");

  /* Fewer tokens than scores and than rows of the embedding. */
  llm_test_gguf_add_strings (vocabulary, "tokenizer.ggml.tokens", tokens, G_N_ELEMENTS (tokens));
  check_refused ("tokenizer.ggml.tokens", vocabulary, LLMSVC_ERROR_INVALID_MODEL,
                 "tokenizer.ggml.");

  llm_test_gguf_add_int (size, "llama.vocab_size", LLM_GGUF_UINT32, 299);
  check_refused ("llama.vocab_size", size, LLMSVC_ERROR_INVALID_MODEL, "299");

  llm_test_gguf_add_int (template, "tokenizer.chat_template", LLM_GGUF_UINT8, 1);
  check_refused ("tokenizer.chat_template", template, LLMSVC_ERROR_INVALID_MODEL,
                 "tokenizer.chat_template");

  check_refused ("blk.0.ffn_up.weight", tensor, LLMSVC_ERROR_INVALID_MODEL,
                 "blk.0.ffn_up.weight is missing");

  llm_test_gguf_add_string (tokenizer, "tokenizer.ggml.model", "unigram-x");
  check_refused ("tokenizer.ggml.model", tokenizer, LLMSVC_ERROR_UNSUPPORTED, "unigram-x");
}

/* The number of tokens is that of the embedding. */
static void
test_vocabulary_size (void)
{
  const LlmTestModel shape = { .n_layers = 1, .n_vocab = 300 };
  const LlmTestModel larger = { .n_layers = 1, .n_vocab = 301 };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(GError) error = NULL;

  /* Key and embedding agree on 301, the vocabulary has 300. */
  llm_test_gguf_add_int (built, "llama.vocab_size", LLM_GGUF_UINT32, 301);
  llm_test_gguf_skip (built, "llama.vocab_size");
  llm_test_model_add_keys (&shape, built);
  llm_test_model_add_tensors (&larger, built);
  g_assert_null (open_built (built, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (error->message, "300"));
  g_assert_nonnull (strstr (error->message, "301"));
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/model/demo", test_demo);
  g_test_add_func ("/model/identity", test_identity);
  g_test_add_func ("/model/weight-identity", test_weight_identity);
  g_test_add_func ("/model/template", test_template);
  g_test_add_func ("/model/refused", test_refused);
  g_test_add_func ("/model/vocabulary-size", test_vocabulary_size);
  return g_test_run ();
}
