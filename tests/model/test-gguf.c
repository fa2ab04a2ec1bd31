/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "gguf/llm-gguf.h"
#include "support/llm-test-folder.h"
#include "support/llm-test-gguf.h"

static LlmGguf *
open_built (LlmTestGguf *built)
{
  g_autoptr(GBytes) bytes = llm_test_gguf_end (built);
  g_autoptr(GError) error = NULL;
  LlmGguf *gguf = llm_gguf_new_for_bytes (bytes, "built", &error);

  g_assert_no_error (error);
  return gguf;
}

static guint64
get_uint (LlmGguf    *gguf,
          const char *key)
{
  g_autoptr(GError) error = NULL;
  guint64 value;

  g_assert_true (llm_gguf_get_uint (gguf, key, 0, G_MAXUINT64, NULL, &value, &error));
  g_assert_no_error (error);
  return value;
}

static void
test_versions (void)
{
  for (guint version = 2; version <= 3; version++)
    {
      g_autoptr(LlmTestGguf) built = llm_test_gguf_new (version);
      g_autoptr(LlmGguf) gguf = NULL;
      g_autoptr(LlmGguf) other = NULL;
      const guint64 dims[] = { 3, 2 };
      const float values[] = { 1, 2, 3, 4, 5, 6.5f };
      const LlmGgufTensor *tensor;

      llm_test_gguf_add_string (built, "general.name", "versions");
      llm_test_gguf_add_tensor (built, "t", LLK_F32, 2, dims, values);
      gguf = open_built (built);
      other = llm_gguf_ref (gguf);

      g_assert_cmpuint (other->version, ==, version);
      g_assert_cmpstr (gguf->path, ==, "built");
      g_assert_cmpuint (gguf->keys->len, ==, 1);
      g_assert_cmpuint (gguf->tensors->len, ==, 1);
      tensor = llm_gguf_find_tensor (gguf, "t");
      g_assert_true (tensor == llm_gguf_get_tensor (gguf, 0));
      g_assert_cmpstr (tensor->name, ==, "t");
      g_assert_cmpuint (tensor->n_dims, ==, 2);
      g_assert_cmpuint (tensor->dims[0], ==, 3);
      g_assert_cmpuint (tensor->dims[1], ==, 2);
      g_assert_cmpuint (tensor->dims[2], ==, 1);
      g_assert_cmpuint (tensor->dims[3], ==, 1);
      g_assert_cmpuint (tensor->bytes, ==, sizeof values);
      g_assert_cmpuint (tensor->offset % 32, ==, 0);
      g_assert_cmpmem (llm_file_map_get_data (gguf->map) + tensor->offset,
                       tensor->bytes, values, sizeof values);
      g_assert_null (llm_gguf_find_tensor (gguf, "u"));
    }
}

static void
test_scalars (void)
{
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree char *text = NULL;
  double real;
  gboolean boolean;

  llm_test_gguf_add_int (built, "uint8", LLM_GGUF_UINT8, 250);
  llm_test_gguf_add_int (built, "int8", LLM_GGUF_INT8, 100);
  llm_test_gguf_add_int (built, "uint16", LLM_GGUF_UINT16, 65000);
  llm_test_gguf_add_int (built, "int16", LLM_GGUF_INT16, 32000);
  llm_test_gguf_add_int (built, "uint32", LLM_GGUF_UINT32, 4000000000);
  llm_test_gguf_add_int (built, "int32", LLM_GGUF_INT32, 2000000000);
  llm_test_gguf_add_int (built, "uint64", LLM_GGUF_UINT64, -1);
  llm_test_gguf_add_int (built, "int64", LLM_GGUF_INT64, G_MAXINT64);
  llm_test_gguf_add_double (built, "float32", LLM_GGUF_FLOAT32, -1.5);
  llm_test_gguf_add_double (built, "float64", LLM_GGUF_FLOAT64, 1e300);
  llm_test_gguf_add_int (built, "true", LLM_GGUF_BOOL, 1);
  llm_test_gguf_add_int (built, "false", LLM_GGUF_BOOL, 0);
  llm_test_gguf_add_string (built, "string", "Grüße");
  llm_test_gguf_add_string (built, "empty", "");
  gguf = open_built (built);

  g_assert_cmpuint (get_uint (gguf, "uint8"), ==, 250);
  g_assert_cmpuint (get_uint (gguf, "int8"), ==, 100);
  g_assert_cmpuint (get_uint (gguf, "uint16"), ==, 65000);
  g_assert_cmpuint (get_uint (gguf, "int16"), ==, 32000);
  g_assert_cmpuint (get_uint (gguf, "uint32"), ==, 4000000000);
  g_assert_cmpuint (get_uint (gguf, "int32"), ==, 2000000000);
  g_assert_cmpuint (get_uint (gguf, "uint64"), ==, G_MAXUINT64);
  g_assert_cmpuint (get_uint (gguf, "int64"), ==, G_MAXINT64);

  g_assert_true (llm_gguf_get_double (gguf, "float32", -2, 2, NULL, &real, &error));
  g_assert_cmpfloat (real, ==, -1.5);
  g_assert_true (llm_gguf_get_double (gguf, "float64", 0, INFINITY, NULL, &real, &error));
  g_assert_cmpfloat (real, ==, 1e300);
  g_assert_true (llm_gguf_get_bool (gguf, "true", NULL, &boolean, &error));
  g_assert_true (boolean);
  g_assert_true (llm_gguf_get_bool (gguf, "false", NULL, &boolean, &error));
  g_assert_false (boolean);
  text = llm_gguf_get_string (gguf, "string", FALSE, &error);
  g_assert_cmpstr (text, ==, "Grüße");
  g_free (text);
  text = llm_gguf_get_string (gguf, "empty", TRUE, &error);
  g_assert_cmpstr (text, ==, "");
  g_assert_no_error (error);

  g_assert_true (llm_gguf_has (gguf, "empty"));
  g_assert_false (llm_gguf_has (gguf, "emptier"));
}

static void
test_arrays (void)
{
  static const LlmGgufType int_types[] = {
    LLM_GGUF_UINT8, LLM_GGUF_INT8, LLM_GGUF_UINT16, LLM_GGUF_INT16, LLM_GGUF_UINT32,
    LLM_GGUF_INT32, LLM_GGUF_UINT64, LLM_GGUF_INT64,
  };
  static const char *const names[] = { "u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64" };
  const char *const strings[] = { "one", "", "drei" };
  const gint64 ints[] = { 0, 7, -1 };
  const float floats[] = { 0.5f, -2 };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(GError) error = NULL;
  g_autofree LlmGgufString *got_strings = NULL;
  g_autofree float *got_floats = NULL;
  g_autofree gint64 *got_empty = NULL;
  gsize n;

  llm_test_gguf_add_strings (built, "strings", strings, 3);
  for (guint i = 0; i < G_N_ELEMENTS (int_types); i++)
    llm_test_gguf_add_ints (built, names[i], int_types[i], ints,
                            int_types[i] == LLM_GGUF_UINT64 ? 2 : 3);
  llm_test_gguf_add_floats (built, "f32", LLM_GGUF_FLOAT32, floats, 2);
  llm_test_gguf_add_floats (built, "f64", LLM_GGUF_FLOAT64, floats, 2);
  llm_test_gguf_add_ints (built, "none", LLM_GGUF_INT32, ints, 0);
  llm_test_gguf_add_ints (built, "bools", LLM_GGUF_BOOL, ints, 2);
  gguf = open_built (built);

  got_strings = llm_gguf_get_strings (gguf, "strings", FALSE, &n, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (n, ==, 3);
  for (guint i = 0; i < n; i++)
    g_assert_cmpmem (got_strings[i].text, got_strings[i].length, strings[i], strlen (strings[i]));

  for (guint i = 0; i < G_N_ELEMENTS (int_types); i++)
    {
      g_autofree gint64 *got = llm_gguf_get_ints (gguf, names[i], FALSE, &n, &error);
      gboolean is_signed = names[i][0] == 'i';

      g_assert_no_error (error);
      g_assert_cmpuint (n, ==, int_types[i] == LLM_GGUF_UINT64 ? 2 : 3);
      g_assert_cmpint (got[1], ==, 7);
      if (n == 3)
        g_assert_cmpint (got[2], ==, is_signed ? -1 : (1LL << atoi (names[i] + 1)) - 1);
    }

  got_floats = llm_gguf_get_floats (gguf, "f32", FALSE, &n, &error);
  g_assert_cmpmem (got_floats, n * sizeof (float), floats, sizeof floats);
  g_free (got_floats);
  got_floats = llm_gguf_get_floats (gguf, "f64", FALSE, &n, &error);
  g_assert_cmpmem (got_floats, n * sizeof (float), floats, sizeof floats);

  got_empty = llm_gguf_get_ints (gguf, "none", FALSE, &n, &error);
  g_assert_nonnull (got_empty);
  g_assert_cmpuint (n, ==, 0);
  g_assert_no_error (error);

  g_assert_cmpstr (g_array_index (gguf->keys, LlmGgufKey, 0).name, ==, "strings");
  g_assert_cmpint (llm_gguf_find_key (gguf, "strings")->type, ==, LLM_GGUF_ARRAY);
  g_assert_cmpuint (llm_gguf_find_key (gguf, "strings")->n_items, ==, 3);
  g_assert_cmpuint (llm_gguf_find_key (gguf, "bools")->n_items, ==, 2);
}

static void
check_message (const GError *error,
               const char   *part)
{
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (error->message, "built"));
  if (strstr (error->message, part) == NULL)
    g_error ("“%s” is not in: %s", part, error->message);
}

/* The right value of the wrong type, range or name. */
static void
test_wrong_values (void)
{
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(LlmGguf) gguf = NULL;
  const gint64 ints[] = { 1, -1 };
  const guint64 uint_fallback = 5;
  const double double_fallback = 0.5;
  const gboolean bool_fallback = TRUE;
  GError *error = NULL;
  guint64 integer = 0;
  double real = 0;
  gboolean boolean = FALSE;
  gsize n;

  llm_test_gguf_add_int (built, "int", LLM_GGUF_INT32, -7);
  llm_test_gguf_add_double (built, "float", LLM_GGUF_FLOAT32, 2.5);
  llm_test_gguf_add_double (built, "nan", LLM_GGUF_FLOAT64, NAN);
  llm_test_gguf_add_string (built, "string", "x");
  llm_test_gguf_add_raw (built, "latin", LLM_GGUF_STRING, "\3\0\0\0\0\0\0\0a\xfc" "b", 11);
  llm_test_gguf_add_raw (built, "nul", LLM_GGUF_STRING, "\3\0\0\0\0\0\0\0a\0b", 11);
  llm_test_gguf_add_raw (built, "bool", LLM_GGUF_BOOL, "\2", 1);
  llm_test_gguf_add_ints (built, "huge", LLM_GGUF_UINT64, ints, 2);
  gguf = open_built (built);

#define FAILS(call, part)               \
  g_assert_false (call);                \
  check_message (error, part);          \
  g_clear_error (&error)

  FAILS (llm_gguf_get_uint (gguf, "int", 0, 9, NULL, &integer, &error), "int is -7");
  FAILS (llm_gguf_get_uint (gguf, "int", 0, 9, &uint_fallback, &integer, &error), "from 0 to 9");
  FAILS (llm_gguf_get_uint (gguf, "float", 0, 9, NULL, &integer, &error), "float32");
  FAILS (llm_gguf_get_uint (gguf, "huge", 0, 9, NULL, &integer, &error), "array of uint64");
  FAILS (llm_gguf_get_uint (gguf, "gone", 0, 9, NULL, &integer, &error), "gone is missing");
  FAILS (llm_gguf_get_double (gguf, "float", 3, 4, NULL, &real, &error), "float is 2.5");
  FAILS (llm_gguf_get_double (gguf, "nan", -INFINITY, INFINITY, NULL, &real, &error), "nan is");
  FAILS (llm_gguf_get_double (gguf, "int", -9, 9, &double_fallback, &real, &error), "int32");
  FAILS (llm_gguf_get_double (gguf, "gone", -9, 9, NULL, &real, &error), "gone is missing");
  FAILS (llm_gguf_get_bool (gguf, "bool", NULL, &boolean, &error), "bool is 2");
  FAILS (llm_gguf_get_bool (gguf, "int", &bool_fallback, &boolean, &error), "int32");
  FAILS (llm_gguf_get_bool (gguf, "gone", NULL, &boolean, &error), "gone is missing");
  FAILS (llm_gguf_get_string (gguf, "latin", FALSE, &error), "no valid UTF-8");
  FAILS (llm_gguf_get_string (gguf, "nul", TRUE, &error), "no valid UTF-8");
  FAILS (llm_gguf_get_string (gguf, "int", TRUE, &error), "a string is needed");
  FAILS (llm_gguf_get_string (gguf, "gone", FALSE, &error), "gone is missing");
  FAILS (llm_gguf_get_strings (gguf, "huge", FALSE, &n, &error), "array of uint64");
  FAILS (llm_gguf_get_strings (gguf, "string", TRUE, &n, &error), "of type string");
  FAILS (llm_gguf_get_floats (gguf, "huge", FALSE, &n, &error), "array of uint64");
  FAILS (llm_gguf_get_floats (gguf, "gone", FALSE, &n, &error), "gone is missing");
  FAILS (llm_gguf_get_ints (gguf, "huge", FALSE, &n, &error), "18446744073709551615");
  FAILS (llm_gguf_get_ints (gguf, "string", FALSE, &n, &error), "array of integers is needed");
#undef FAILS

  /* What may be missing. */
  g_assert_true (llm_gguf_get_uint (gguf, "gone", 0, 9, &uint_fallback, &integer, &error));
  g_assert_cmpuint (integer, ==, 5);
  g_assert_true (llm_gguf_get_double (gguf, "gone", 0, 9, &double_fallback, &real, &error));
  g_assert_cmpfloat (real, ==, 0.5);
  g_assert_true (llm_gguf_get_bool (gguf, "gone", &bool_fallback, &boolean, &error));
  g_assert_true (boolean);
  g_assert_null (llm_gguf_get_string (gguf, "gone", TRUE, &error));
  g_assert_null (llm_gguf_get_strings (gguf, "gone", TRUE, &n, &error));
  g_assert_null (llm_gguf_get_floats (gguf, "gone", TRUE, &n, &error));
  g_assert_null (llm_gguf_get_ints (gguf, "gone", TRUE, &n, &error));
  g_assert_no_error (error);
}

static void
test_tensor_types (void)
{
  static const LlkType types[] = { LLK_F32, LLK_F16, LLK_BF16, LLK_Q8_0, LLK_Q4_0 };
  static const guint64 bytes[] = { 512, 256, 256, 136, 72 };
  const guint64 dims[] = { 32, 2, 1, 2 };
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(LlmGguf) gguf = NULL;
  float values[128];
  float got[128];

  for (guint i = 0; i < 128; i++)
    values[i] = sinf ((float) i);
  llm_test_gguf_set_alignment (built, 64);
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    llm_test_gguf_add_tensor (built, llk_type_name (types[i]), types[i], 4, dims, values);
  gguf = open_built (built);

  g_assert_cmpuint (gguf->tensors->len, ==, G_N_ELEMENTS (types));
  for (guint i = 0; i < G_N_ELEMENTS (types); i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_find_tensor (gguf, llk_type_name (types[i]));
      float largest = 0;

      g_assert_cmpint (tensor->type, ==, types[i]);
      g_assert_cmpuint (tensor->bytes, ==, bytes[i]);
      g_assert_cmpuint (tensor->offset % 64, ==, 0);
      g_assert_cmpuint (tensor->n_dims, ==, 4);
      g_assert_cmpuint (tensor->dims[3], ==, 2);

      llm_test_dequantize (types[i],
                           llm_file_map_get_data (gguf->map) + tensor->offset, 128,
                           got);
      for (guint j = 0; j < 128; j++)
        largest = MAX (largest, fabsf (got[j] - values[j]));
      g_assert_cmpfloat (largest, <=, types[i] == LLK_Q4_0 ? 0.13f : 0.005f);
    }
}

/* Two names for the same bytes are no error, and neither is a hole. */
static void
test_shared_bytes (void)
{
  g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
  g_autoptr(LlmGguf) gguf = NULL;
  const guint64 dims[] = { 2 };
  const guint8 bytes[96] = { 0 };

  llm_test_gguf_add_raw_tensor (built, "one", LLK_F32, 1, dims, 64, bytes, sizeof bytes);
  llm_test_gguf_add_raw_tensor (built, "two", LLK_F32, 1, dims, 64, NULL, 0);
  gguf = open_built (built);
  g_assert_cmpuint (llm_gguf_find_tensor (gguf, "one")->offset, ==,
                    llm_gguf_find_tensor (gguf, "two")->offset);
}

static void
test_header_hash (void)
{
  guint64 hashes[4];

  for (guint i = 0; i < 4; i++)
    {
      g_autoptr(LlmTestGguf) built = llm_test_gguf_new (3);
      g_autoptr(LlmGguf) gguf = NULL;
      const guint64 dims[] = { i == 2 ? 1 : 2 };
      const float values[] = { i == 3 ? 5 : 1, 2 };

      llm_test_gguf_add_int (built, "key", LLM_GGUF_UINT8, i == 1 ? 1 : 0);
      llm_test_gguf_add_tensor (built, "t", LLK_F32, 1, dims, values);
      gguf = open_built (built);
      hashes[i] = gguf->header_hash;
    }

  g_assert_cmpuint (hashes[0], !=, hashes[1]);
  g_assert_cmpuint (hashes[0], !=, hashes[2]);
  /* The weights are not part of it. */
  g_assert_cmpuint (hashes[0], ==, hashes[3]);
}

static void
test_quote (void)
{
  const struct
  {
    const char *text;
    gsize length;
    const char *quoted;
  } cases[] = {
    { "", 0, "“”" },
    { NULL, 0, "“”" },
    { "plain", 5, "“plain”" },
    { "ä\n\x1b[1m", 7, "“ä\xef\xbf\xbd\xef\xbf\xbd[1m”" },
    { "a\xff\0b", 4, "“a\xef\xbf\xbd\xef\xbf\xbd" "b”" },
  };
  g_autofree char *long_text = g_strnfill (1000, 'x');
  g_autofree char *cut = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *quoted = llm_gguf_quote (cases[i].text, cases[i].length);

      g_assert_cmpstr (quoted, ==, cases[i].quoted);
    }

  cut = llm_gguf_quote (long_text, 1000);
  g_assert_cmpuint (strlen (cut), <, 100);
  g_assert_true (g_str_has_suffix (cut, "x…”"));
}

static void
test_demo (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("LLM_MODEL_DIR"),
                                            "llmsvc-demo-8M-Q8_0.gguf", NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, &error);
  g_autofree LlmGgufString *tokens = NULL;
  g_autofree float *scores = NULL;
  g_autofree gint64 *types = NULL;
  g_autofree char *name = NULL;
  gsize n;

  g_assert_no_error (error);
  g_assert_cmpstr (gguf->path, ==, path);
  g_assert_cmpuint (gguf->tensors->len, ==, 74);
  g_assert_cmpuint (gguf->keys->len, ==, 33);
  g_assert_cmpuint (get_uint (gguf, "llama.block_count"), ==, 8);
  name = llm_gguf_get_string (gguf, "general.name", FALSE, &error);
  g_assert_cmpstr (name, ==, "llmsvc-demo-8M");
  tokens = llm_gguf_get_strings (gguf, "tokenizer.ggml.tokens", FALSE, &n, &error);
  g_assert_cmpuint (n, ==, 4096);
  g_assert_cmpmem (tokens[3].text, tokens[3].length, "<|im_start|>", 12);
  scores = llm_gguf_get_floats (gguf, "tokenizer.ggml.scores", FALSE, &n, &error);
  g_assert_cmpuint (n, ==, 4096);
  types = llm_gguf_get_ints (gguf, "tokenizer.ggml.token_type", FALSE, &n, &error);
  g_assert_cmpuint (n, ==, 4096);
  g_assert_cmpint (types[0], ==, 2);
  g_assert_no_error (error);
  g_assert_cmpint (llm_gguf_find_tensor (gguf, "blk.7.ffn_down.weight")->type, ==, LLK_Q8_0);
}

static void
test_path_errors (void)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *folder = llm_test_folder_new ();
  g_autofree char *path = g_build_filename (folder, "x.gguf", NULL);

  g_assert_null (llm_gguf_open (path, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_FOUND);
  g_assert_nonnull (strstr (error->message, path));
  g_clear_error (&error);

  g_assert_null (llm_gguf_open (folder, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_clear_error (&error);

  g_assert_true (g_file_set_contents (path, "", 0, NULL));
  g_assert_null (llm_gguf_open (path, &error));
  g_assert_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL);
  g_assert_nonnull (strstr (error->message, path));

  llm_test_folder_remove (folder);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/gguf/versions", test_versions);
  g_test_add_func ("/gguf/scalars", test_scalars);
  g_test_add_func ("/gguf/arrays", test_arrays);
  g_test_add_func ("/gguf/wrong-values", test_wrong_values);
  g_test_add_func ("/gguf/tensor-types", test_tensor_types);
  g_test_add_func ("/gguf/shared-bytes", test_shared_bytes);
  g_test_add_func ("/gguf/header-hash", test_header_hash);
  g_test_add_func ("/gguf/quote", test_quote);
  g_test_add_func ("/gguf/demo", test_demo);
  g_test_add_func ("/gguf/path-errors", test_path_errors);
  return g_test_run ();
}
