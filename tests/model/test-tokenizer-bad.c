/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Vocabularies that are wrong somewhere, and odd ones that are right: what kinds
 * of tokens mean, and which file gets which message. */

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "tokenizer/llm-tokenizer-private.h"
#include "support/llm-test-gguf.h"

#define FILE_NAME "bad.gguf"

/* A vocabulary to be written into a file; each test changes something in it. */
typedef struct
{
  const char *model;
  const char *pre;
  GPtrArray *tokens;    /* (element-type utf8) (owned) */
  GArray *types;        /* (element-type gint64) */
  GArray *scores;       /* (element-type float) */
  GPtrArray *merges;    /* (element-type utf8) (owned) */
  gint64 bos;           /* -1: no such key */
  gint64 eos;
  gint64 add_bos;
  const char *infill_keys[3];  /* (nullable): and their ids */
  gint64 infill_ids[3];
} Vocabulary;

static void
vocabulary_clear (Vocabulary *self)
{
  g_ptr_array_unref (self->tokens);
  g_array_unref (self->types);
  g_array_unref (self->scores);
  g_ptr_array_unref (self->merges);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Vocabulary, vocabulary_clear)

static gint32
add_token (Vocabulary   *self,
           const char   *text,
           LlmTokenKind  kind)
{
  gint64 type = kind;
  float score = -(float) self->tokens->len;

  g_ptr_array_add (self->tokens, g_strdup (text));
  g_array_append_val (self->types, type);
  g_array_append_val (self->scores, score);
  return (gint32) self->tokens->len - 1;
}

static void
add_merge (Vocabulary *self,
           const char *text)
{
  g_ptr_array_add (self->merges, g_strdup (text));
}

static void
vocabulary_init (Vocabulary *self,
                 const char *model)
{
  *self = (Vocabulary) { .model = model, .pre = "gpt-2", .bos = -1, .eos = -1, .add_bos = -1 };
  self->tokens = g_ptr_array_new_with_free_func (g_free);
  self->types = g_array_new (FALSE, FALSE, sizeof (gint64));
  self->scores = g_array_new (FALSE, FALSE, sizeof (float));
  self->merges = g_ptr_array_new_with_free_func (g_free);
}

/* "<unk>" 0, "<s>" 1, "</s>" 2, bytes from 3 on. */
static void
spm_init (Vocabulary *self)
{
  vocabulary_init (self, "llama");
  add_token (self, "<unk>", LLM_TOKEN_UNKNOWN);
  add_token (self, "<s>", LLM_TOKEN_CONTROL);
  add_token (self, "</s>", LLM_TOKEN_CONTROL);
  for (guint byte = 0; byte < 256; byte++)
    {
      char text[8];

      g_snprintf (text, sizeof text, "<0x%02X>", byte);
      add_token (self, text, LLM_TOKEN_BYTE);
    }
}

/* "a" 0 to "z" 25, Ġ 26. */
static void
bpe_init (Vocabulary *self)
{
  vocabulary_init (self, "gpt2");
  for (char c = 'a'; c <= 'z'; c++)
    add_token (self, (char[]) { c, '\0' }, LLM_TOKEN_NORMAL);
  add_token (self, "Ġ", LLM_TOKEN_NORMAL);
}

static LlmGguf *
write_vocabulary (const Vocabulary  *self,
                  GError           **error)
{
  g_autoptr(LlmTestGguf) file = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;

  if (self->model != NULL)
    llm_test_gguf_add_string (file, "tokenizer.ggml.model", self->model);
  if (self->pre != NULL)
    llm_test_gguf_add_string (file, "tokenizer.ggml.pre", self->pre);
  llm_test_gguf_add_strings (file, "tokenizer.ggml.tokens",
                             (const char *const *) self->tokens->pdata, self->tokens->len);
  llm_test_gguf_add_ints (file, "tokenizer.ggml.token_type", LLM_GGUF_INT32,
                          (const gint64 *) (void *) self->types->data, self->types->len);
  if (self->scores->len > 0)
    llm_test_gguf_add_floats (file, "tokenizer.ggml.scores", LLM_GGUF_FLOAT32,
                              (const float *) (void *) self->scores->data, self->scores->len);
  if (g_strcmp0 (self->model, "gpt2") == 0)
    llm_test_gguf_add_strings (file, "tokenizer.ggml.merges",
                               (const char *const *) self->merges->pdata, self->merges->len);
  if (self->bos >= 0)
    llm_test_gguf_add_int (file, "tokenizer.ggml.bos_token_id", LLM_GGUF_UINT32, self->bos);
  if (self->eos >= 0)
    llm_test_gguf_add_int (file, "tokenizer.ggml.eos_token_id", LLM_GGUF_UINT32, self->eos);
  for (guint i = 0; i < G_N_ELEMENTS (self->infill_keys) && self->infill_keys[i] != NULL; i++)
    llm_test_gguf_add_int (file, self->infill_keys[i], LLM_GGUF_UINT32, self->infill_ids[i]);
  if (self->add_bos >= 0)
    llm_test_gguf_add_int (file, "tokenizer.ggml.add_bos_token", LLM_GGUF_BOOL, self->add_bos);

  bytes = llm_test_gguf_end (file);
  return llm_gguf_new_for_bytes (bytes, FILE_NAME, error);
}

static LlmTokenizer *
open_vocabulary (const Vocabulary  *self,
                 GError           **error)
{
  g_autoptr(LlmGguf) gguf = write_vocabulary (self, error);

  return gguf != NULL ? llm_tokenizer_new (gguf, error) : NULL;
}

static void
assert_refused (const Vocabulary *vocabulary,
                int               code,
                const char       *field,
                const char       *found)
{
  const char *parts[] = { FILE_NAME, field, found };
  g_autoptr(GError) error = NULL;

  g_assert_null (open_vocabulary (vocabulary, &error));
  g_assert_error (error, LLMSVC_ERROR, code);
  g_assert_true (g_utf8_validate (error->message, -1, NULL));
  for (guint i = 0; i < G_N_ELEMENTS (parts); i++)
    if (strstr (error->message, parts[i]) == NULL)
      g_error ("“%s” is not in: %s", parts[i], error->message);
  g_test_message ("%s", error->message);
}

static void
assert_ids (const Vocabulary *vocabulary,
            const char       *text,
            gboolean          is_markup,
            const char       *wanted)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary (vocabulary, &error);
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GString) found = g_string_new (NULL);
  LlmTextPart part = { text, strlen (text), is_markup };

  g_assert_no_error (error);
  llm_tokenizer_encode (tokenizer, &part, 1, TRUE, ids);
  for (guint i = 0; i < ids->len; i++)
    g_string_append_printf (found, "%s%d", i > 0 ? " " : "", g_array_index (ids, gint32, i));
  g_assert_cmpstr (found->str, ==, wanted);
}

static void
test_kinds (void)
{
  {
    g_auto(Vocabulary) vocabulary = { 0 };

    spm_init (&vocabulary);
    vocabulary.model = "t5";
    assert_refused (&vocabulary, LLMSVC_ERROR_UNSUPPORTED, "tokenizer.ggml.model", "“t5”");
    vocabulary.model = NULL;
    assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "tokenizer.ggml.model", "");
  }
  {
    g_auto(Vocabulary) vocabulary = { 0 };

    bpe_init (&vocabulary);
    vocabulary.pre = "qwen99";
    assert_refused (&vocabulary, LLMSVC_ERROR_UNSUPPORTED, "tokenizer.ggml.pre", "“qwen99”");
    assert_refused (&vocabulary, LLMSVC_ERROR_UNSUPPORTED, "qwen2, qwen35, refact", "");
    assert_refused (&vocabulary, LLMSVC_ERROR_UNSUPPORTED, "allow-unknown-tokenizer", "");
    vocabulary.pre = NULL;
    assert_refused (&vocabulary, LLMSVC_ERROR_UNSUPPORTED, "tokenizer.ggml.pre", "missing");
  }
}

/* Where that is allowed, the default rule stands for one that is not known, and the tokenizer says
 * so. */
static void
test_any_rules (void)
{
  static const struct
  {
    const char *pre;
    const char *unknown;
  } cases[] = { { "qwen99", "qwen99" }, { NULL, "" }, { "qwen2", NULL }, { "default", NULL } };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_auto(Vocabulary) vocabulary = { 0 };
      g_autoptr(LlmGguf) gguf = NULL;
      g_autoptr(LlmTokenizer) tokenizer = NULL;
      g_autoptr(GError) error = NULL;

      bpe_init (&vocabulary);
      vocabulary.pre = cases[i].pre;
      gguf = write_vocabulary (&vocabulary, &error);
      g_assert_no_error (error);
      tokenizer = llm_tokenizer_new_with_any_rules (gguf, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (tokenizer->unknown_rules, ==, cases[i].unknown);
    }
}

static void
test_arrays (void)
{
  g_auto(Vocabulary) vocabulary = { 0 };
  g_autofree char *long_text = g_strnfill (LLM_VOCAB_MAX_TEXT + 1, 'x');

  spm_init (&vocabulary);
  g_array_set_size (vocabulary.types, 258);
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "token_type has 258", "has 259");
  g_array_set_size (vocabulary.types, 259);
  g_array_index (vocabulary.types, gint64, 258) = 7;
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "token_type[258]", "is 7");
  g_array_index (vocabulary.types, gint64, 258) = 0;
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "token_type[258]", "is 0");
  g_array_index (vocabulary.types, gint64, 258) = LLM_TOKEN_BYTE;

  g_array_set_size (vocabulary.scores, 1);
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "scores has 1", "259");
  g_array_set_size (vocabulary.scores, 0);
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "tokenizer.ggml.scores", "");
  g_array_set_size (vocabulary.scores, 259);
  g_array_index (vocabulary.scores, float, 17) = NAN;
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "scores[17]", "finite");
  g_array_index (vocabulary.scores, float, 17) = 0;

  add_token (&vocabulary, long_text, LLM_TOKEN_NORMAL);
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "tokens[259]", "4097 bytes");
}

static void
test_no_tokens (void)
{
  g_auto(Vocabulary) vocabulary = { 0 };

  vocabulary_init (&vocabulary, "gpt2");
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "tokens", "0");
}

static void
test_byte_tokens (void)
{
  g_auto(Vocabulary) vocabulary = { 0 };

  spm_init (&vocabulary);
  g_array_index (vocabulary.types, gint64, 3 + 0x41) = LLM_TOKEN_NORMAL;
  assert_refused (&vocabulary, LLMSVC_ERROR_UNSUPPORTED, "tokens", "<0x41>");
  g_array_index (vocabulary.types, gint64, 3 + 0x41) = LLM_TOKEN_BYTE;
  add_token (&vocabulary, "<0xG0>", LLM_TOKEN_BYTE);
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "tokens[259]", "byte");
}

/* The prompt of a text with a gap, by keys, those of older files, and names. */
static void
assert_infill (const Vocabulary *vocabulary,
               const char       *wanted)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmTokenizer) tokenizer = open_vocabulary (vocabulary, &error);
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GString) found = g_string_new (NULL);

  g_assert_no_error (error);
  g_assert_cmpint (llm_tokenizer_can_infill (tokenizer), ==, wanted != NULL);
  if (wanted == NULL)
    return;
  llm_tokenizer_encode_infill (tokenizer, "ab", "c", ids);
  for (guint i = 0; i < ids->len; i++)
    g_string_append_printf (found, "%s%d", i > 0 ? " " : "", g_array_index (ids, gint32, i));
  g_assert_cmpstr (found->str, ==, wanted);
}

static void
test_infill (void)
{
  g_auto(Vocabulary) vocabulary = { 0 };

  bpe_init (&vocabulary);
  add_token (&vocabulary, "<fim_prefix>", LLM_TOKEN_NORMAL);        /* 27 */
  add_token (&vocabulary, "<fim_middle>", LLM_TOKEN_USER_DEFINED);  /* 28 */
  assert_infill (&vocabulary, NULL);
  add_token (&vocabulary, "<fim_suffix>", LLM_TOKEN_CONTROL);       /* 29 */
  add_token (&vocabulary, "<|fim_suffix|>", LLM_TOKEN_CONTROL);     /* 30: the first counts */
  add_token (&vocabulary, "<one>", LLM_TOKEN_NORMAL);               /* 31 */
  add_token (&vocabulary, "<two>", LLM_TOKEN_CONTROL);              /* 32 */
  add_token (&vocabulary, "<s>", LLM_TOKEN_CONTROL);                /* 33 */
  assert_infill (&vocabulary, "27 0 1 29 2 28");

  /* a key comes before names, and the new one before that of older files */
  vocabulary.bos = 33;
  vocabulary.add_bos = 1;
  vocabulary.infill_keys[0] = "tokenizer.ggml.prefix_token_id";
  vocabulary.infill_ids[0] = 31;
  vocabulary.infill_keys[1] = "tokenizer.ggml.fim_suf_token_id";
  vocabulary.infill_ids[1] = 32;
  assert_infill (&vocabulary, "33 31 0 1 32 2 28");
  vocabulary.infill_keys[2] = "tokenizer.ggml.suffix_token_id";
  vocabulary.infill_ids[2] = 30;
  assert_infill (&vocabulary, "33 31 0 1 32 2 28");
  vocabulary.infill_ids[1] = 34;
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "fim_suf_token_id", "34");
}

static void
test_ids (void)
{
  g_auto(Vocabulary) vocabulary = { 0 };

  spm_init (&vocabulary);
  vocabulary.bos = 259;
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "bos_token_id", "259");
  vocabulary.bos = -1;
  vocabulary.eos = 0xffffffff;
  assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "eos_token_id", "4294967295");

  /* Without a BOS, none is added. */
  vocabulary.eos = 2;
  vocabulary.add_bos = 1;
  assert_ids (&vocabulary, "A", FALSE, "35 68");
  vocabulary.bos = 1;
  assert_ids (&vocabulary, "A", FALSE, "1 35 68");
  assert_ids (&vocabulary, "", FALSE, "1");
  vocabulary.add_bos = 0;
  assert_ids (&vocabulary, "A", FALSE, "35 68");
}

static void
test_merges (void)
{
  static const char *const bad[] = { "", "a", "ab", " a", "a ", "a b", "ab c", "a é", "Ġ" };

  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    {
      g_auto(Vocabulary) vocabulary = { 0 };

      bpe_init (&vocabulary);
      add_token (&vocabulary, "xy", LLM_TOKEN_NORMAL);
      add_merge (&vocabulary, "x y");
      add_merge (&vocabulary, bad[i]);
      assert_refused (&vocabulary, LLMSVC_ERROR_INVALID_MODEL, "merges[1]", "");
    }
}

/* The best rank first, then the leftmost; letters without a token are left out. */
static void
test_merge_order (void)
{
  g_auto(Vocabulary) vocabulary = { 0 };

  bpe_init (&vocabulary);
  add_token (&vocabulary, "bc", LLM_TOKEN_NORMAL);      /* 27 */
  add_token (&vocabulary, "ab", LLM_TOKEN_NORMAL);      /* 28 */
  add_token (&vocabulary, "aa", LLM_TOKEN_NORMAL);      /* 29 */
  add_token (&vocabulary, "abc", LLM_TOKEN_NORMAL);     /* 30 */
  add_merge (&vocabulary, "b c");
  add_merge (&vocabulary, "a b");
  add_merge (&vocabulary, "a a");
  assert_ids (&vocabulary, "abc", FALSE, "0 27");
  assert_ids (&vocabulary, "abb", FALSE, "28 1");
  assert_ids (&vocabulary, "aaa", FALSE, "29 0");
  assert_ids (&vocabulary, "aXa", FALSE, "0 0");
  assert_ids (&vocabulary, "a b", FALSE, "0 26 1");

  /* There a word that is a token needs no merges. */
  vocabulary.pre = "llama-bpe";
  assert_ids (&vocabulary, "abc", FALSE, "30");
  assert_ids (&vocabulary, "abcd", FALSE, "0 27 3");
}

static void
test_scores (void)
{
  g_auto(Vocabulary) vocabulary = { 0 };

  spm_init (&vocabulary);
  add_token (&vocabulary, "▁", LLM_TOKEN_NORMAL);       /* 259 */
  add_token (&vocabulary, "a", LLM_TOKEN_NORMAL);       /* 260 */
  add_token (&vocabulary, "b", LLM_TOKEN_NORMAL);       /* 261 */
  add_token (&vocabulary, "▁a", LLM_TOKEN_NORMAL);      /* 262 */
  add_token (&vocabulary, "ab", LLM_TOKEN_NORMAL);      /* 263 */
  assert_ids (&vocabulary, "ab", FALSE, "262 261");
  g_array_index (vocabulary.scores, float, 263) = 5;
  assert_ids (&vocabulary, "ab", FALSE, "259 263");
  g_array_index (vocabulary.scores, float, 263) = -0.0f;
  g_array_index (vocabulary.scores, float, 262) = 0.0f;
  assert_ids (&vocabulary, "ab", FALSE, "262 261");
  assert_ids (&vocabulary, "a▁a", FALSE, "262 262");
}

/* Control tokens that merges could reach from plain letters. */
static void
test_hidden_control (void)
{
  {
    g_auto(Vocabulary) vocabulary = { 0 };

    spm_init (&vocabulary);
    add_token (&vocabulary, "<", LLM_TOKEN_NORMAL);     /* 259 */
    add_token (&vocabulary, "s", LLM_TOKEN_NORMAL);
    add_token (&vocabulary, ">", LLM_TOKEN_NORMAL);     /* 261 */
    add_token (&vocabulary, "<s", LLM_TOKEN_NORMAL);    /* 262 */
    add_token (&vocabulary, "▁", LLM_TOKEN_NORMAL);
    assert_ids (&vocabulary, "<s>", FALSE, "263 262 261");
    assert_ids (&vocabulary, "<s>", TRUE, "1");
    assert_ids (&vocabulary, "<unk>", TRUE, "0");
    assert_ids (&vocabulary, "<0x41>", TRUE, "263 259 51 123 55 52 261");
  }
  {
    g_auto(Vocabulary) vocabulary = { 0 };

    bpe_init (&vocabulary);
    add_token (&vocabulary, "ab", LLM_TOKEN_CONTROL);
    add_merge (&vocabulary, "a b");
    assert_ids (&vocabulary, "ab", FALSE, "0 1");
    vocabulary.pre = "llama-bpe";
    assert_ids (&vocabulary, "ab", FALSE, "0 1");
    assert_ids (&vocabulary, "ab", TRUE, "27");
  }
}

/* Markers of turns that a file calls user-defined or normal are still control. */
static void
test_markers_by_name (void)
{
  static const LlmTokenKind kinds[] = { LLM_TOKEN_NORMAL, LLM_TOKEN_USER_DEFINED };

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    {
      g_auto(Vocabulary) vocabulary = { 0 };
      g_autoptr(LlmTokenizer) tokenizer = NULL;

      bpe_init (&vocabulary);
      add_token (&vocabulary, "<|im_end|>", kinds[i]);            /* 27 */
      add_token (&vocabulary, "stop", LLM_TOKEN_USER_DEFINED);    /* 28 */
      add_token (&vocabulary, "st", LLM_TOKEN_USER_DEFINED);
      vocabulary.eos = 28;
      tokenizer = open_vocabulary (&vocabulary, NULL);
      g_assert_true (llm_tokenizer_is_control (tokenizer, 27));
      g_assert_true (llm_tokenizer_is_control (tokenizer, 28));
      g_assert_true (llm_tokenizer_ends_answer (tokenizer, 27));
      g_assert_true (llm_tokenizer_ends_answer (tokenizer, 28));
      assert_ids (&vocabulary, "<|im_end|>", FALSE, "8 12 4 13 3");
      assert_ids (&vocabulary, "<|im_end|>", TRUE, "27");
      assert_ids (&vocabulary, "stop", FALSE, "29 14 15");
      assert_ids (&vocabulary, "stop", TRUE, "28");
    }
}

/* The longest user-defined token wins, and a control token in markup before all. */
static void
test_user_defined (void)
{
  g_auto(Vocabulary) vocabulary = { 0 };

  bpe_init (&vocabulary);
  add_token (&vocabulary, "ab", LLM_TOKEN_USER_DEFINED);          /* 27 */
  add_token (&vocabulary, "abc", LLM_TOKEN_USER_DEFINED);         /* 28 */
  add_token (&vocabulary, "abcde", LLM_TOKEN_USER_DEFINED);       /* 29 */
  add_token (&vocabulary, "cx", LLM_TOKEN_CONTROL);               /* 30 */
  assert_ids (&vocabulary, "abcd", FALSE, "28 3");
  assert_ids (&vocabulary, "abcdef", FALSE, "29 5");
  assert_ids (&vocabulary, "zababc", FALSE, "25 27 28");
  assert_ids (&vocabulary, "abcx", FALSE, "28 23");
  assert_ids (&vocabulary, "abcx", TRUE, "27 30");
}

int
main (int    argc,
      char **argv)
{
  g_test_init (&argc, &argv, NULL);

  g_test_add_func ("/tokenizer-bad/kinds", test_kinds);
  g_test_add_func ("/tokenizer-bad/any-rules", test_any_rules);
  g_test_add_func ("/tokenizer-bad/arrays", test_arrays);
  g_test_add_func ("/tokenizer-bad/no-tokens", test_no_tokens);
  g_test_add_func ("/tokenizer-bad/byte-tokens", test_byte_tokens);
  g_test_add_func ("/tokenizer-bad/ids", test_ids);
  g_test_add_func ("/tokenizer-bad/infill", test_infill);
  g_test_add_func ("/tokenizer-bad/merges", test_merges);
  g_test_add_func ("/tokenizer-bad/merge-order", test_merge_order);
  g_test_add_func ("/tokenizer-bad/scores", test_scores);
  g_test_add_func ("/tokenizer-bad/hidden-control", test_hidden_control);
  g_test_add_func ("/tokenizer-bad/markers-by-name", test_markers_by_name);
  g_test_add_func ("/tokenizer-bad/user-defined", test_user_defined);

  return g_test_run ();
}
