/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Any text through two small vocabularies. The first byte chooses the one and the
 * kind of the first part; 0xFE begins a part of plain text, 0xFF one of markup,
 * and all else is text. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tokenizer/llm-tokenizer-private.h"
#include "support/llm-test-gguf.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

#define N_VOCABULARIES 4
#define MAX_PARTS 64

static const char *const pres[N_VOCABULARIES] = { NULL, "gpt-2", "llama-bpe", "deepseek-coder" };

/* The bytes as byte-level vocabularies write them, a few merges, and markers, one
 * of which hides in what the merges make. */
static LlmTokenizer *
make_bpe (const char *pre)
{
  static const char *const more[] = { "he", "ll", "hell", "Ġh", "Ġhell", "aa", "aaaa", "12", "<|",
                                      "Ġ<", "<s", "<s>", "<|im_end|>", "<u>", "\n\n", "</s>" };
  static const char *const merges[] = { "h e", "l l", "he ll", "Ġ h", "Ġ hell", "a a",
                                        "aa aa", "1 2", "< |", "Ġ <", "< s" };
  const guint n = 256 + G_N_ELEMENTS (more);
  g_autoptr(LlmTestGguf) file = llm_test_gguf_new (3);
  g_autoptr(GPtrArray) tokens = g_ptr_array_new_with_free_func (g_free);
  g_autofree gint64 *types = g_new0 (gint64, n);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(GError) error = NULL;
  LlmTokenizer *tokenizer;
  gunichar hidden = 0x100;

  for (guint byte = 0; byte < 256; byte++)
    {
      char utf8[7] = { 0 };
      gboolean is_visible = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);

      g_unichar_to_utf8 (is_visible ? byte : hidden++, utf8);
      g_ptr_array_add (tokens, g_strdup (utf8));
    }
  for (guint i = 0; i < G_N_ELEMENTS (more); i++)
    g_ptr_array_add (tokens, g_strdup (more[i]));
  for (guint i = 0; i < n; i++)
    types[i] = LLM_TOKEN_NORMAL;
  types[n - 5] = types[n - 4] = types[n - 1] = LLM_TOKEN_CONTROL;
  types[n - 3] = types[n - 2] = LLM_TOKEN_USER_DEFINED;

  llm_test_gguf_add_string (file, "tokenizer.ggml.model", "gpt2");
  llm_test_gguf_add_string (file, "tokenizer.ggml.pre", pre);
  llm_test_gguf_add_strings (file, "tokenizer.ggml.tokens", (const char *const *) tokens->pdata, n);
  llm_test_gguf_add_ints (file, "tokenizer.ggml.token_type", LLM_GGUF_INT32, types, n);
  llm_test_gguf_add_strings (file, "tokenizer.ggml.merges", merges, G_N_ELEMENTS (merges));
  llm_test_gguf_add_int (file, "tokenizer.ggml.eos_token_id", LLM_GGUF_UINT32, n - 1);
  bytes = llm_test_gguf_end (file);
  gguf = llm_gguf_new_for_bytes (bytes, "bpe", &error);
  g_assert_no_error (error);
  tokenizer = llm_tokenizer_new (gguf, &error);
  g_assert_no_error (error);
  return tokenizer;
}

static LlmTokenizer *
make_spm (void)
{
  const LlmTestModel shape = { .n_vocab = 384 };
  g_autoptr(LlmTestGguf) file = llm_test_gguf_new (3);
  g_autoptr(GBytes) bytes = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(GError) error = NULL;
  LlmTokenizer *tokenizer;

  llm_test_model_add_keys (&shape, file);
  bytes = llm_test_gguf_end (file);
  gguf = llm_gguf_new_for_bytes (bytes, "spm", &error);
  g_assert_no_error (error);
  tokenizer = llm_tokenizer_new (gguf, &error);
  g_assert_no_error (error);
  return tokenizer;
}

static LlmTokenizer *
get_tokenizer (guint index)
{
  static LlmTokenizer *tokenizers[N_VOCABULARIES];

  if (tokenizers[index] == NULL)
    tokenizers[index] = pres[index] != NULL ? make_bpe (pres[index]) : make_spm ();
  return tokenizers[index];
}

static guint
split_parts (const char  *text,
             gsize        size,
             gboolean     is_markup,
             LlmTextPart *parts)
{
  guint n = 0;
  gsize start = 0;

  for (gsize i = 0; i <= size; i++)
    {
      guint8 byte = i < size ? (guint8) text[i] : 0xfe;

      if (byte < 0xfe)
        continue;
      if (n < MAX_PARTS)
        parts[n++] = (LlmTextPart) { text + start, i - start, is_markup };
      start = i + 1;
      is_markup = byte == 0xff;
    }
  return n;
}

/* Without spaces and SentencePiece's marks, which that kind adds and mixes up. */
static GString *
join_without_spaces (const GString *text)
{
  GString *joined = g_string_new (NULL);

  for (gsize i = 0; i < text->len; i++)
    {
      if (text->len - i >= 3 && memcmp (text->str + i, "\xe2\x96\x81", 3) == 0)
        i += 2;
      else if (text->str[i] != ' ')
        g_string_append_c (joined, text->str[i]);
    }
  return joined;
}

static void
check_text (const GArray      *ids,
            LlmTokenizer      *tokenizer,
            const LlmTextPart *parts,
            guint              n_parts,
            gboolean           is_exact)
{
  g_autoptr(GString) wanted = g_string_new (NULL);
  g_autoptr(GString) found = g_string_new (NULL);

  for (guint i = 0; i < n_parts; i++)
    g_string_append_len (wanted, parts[i].text, (gssize) parts[i].length);
  for (guint i = 0; i < ids->len; i++)
    {
      gint32 id = g_array_index (ids, gint32, i);

      g_assert_true (id >= 0 && id < (gint32) tokenizer->n_tokens);
      llm_tokenizer_decode_token (tokenizer, id, TRUE, found);
    }

  if (is_exact)
    g_assert_true (g_string_equal (wanted, found));
  else
    {
      g_autoptr(GString) a = join_without_spaces (wanted);
      g_autoptr(GString) b = join_without_spaces (found);

      g_assert_true (g_string_equal (a, b));
    }
}

static gsize
count_markup (const LlmTextPart *parts,
              guint              n_parts)
{
  gsize n = 0;

  for (guint i = 0; i < n_parts; i++)
    n += parts[i].is_markup ? parts[i].length : 0;
  return n;
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  LlmTextPart parts[MAX_PARTS];
  g_autoptr(GArray) ids = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTokenizer *tokenizer;
  guint n_parts, index;
  guint64 n_steps;
  gsize length = 0, n_control = 0;

  if (size == 0)
    return 0;
  index = data[0] % N_VOCABULARIES;
  tokenizer = get_tokenizer (index);
  n_parts = split_parts ((const char *) data + 1, size - 1, (data[0] & 0x80) != 0, parts);
  for (guint i = 0; i < n_parts; i++)
    length += parts[i].length;

  n_steps = llm_tokenizer_encode (tokenizer, parts, n_parts, FALSE, ids);
  g_assert_cmpuint (n_steps, <=, (length + 8) * 4 * (g_bit_storage (length) + 2));
  check_text (ids, tokenizer, parts, n_parts, index != 0);
  for (guint i = 0; i < ids->len; i++)
    {
      g_autoptr(GString) name = g_string_new (NULL);
      gint32 id = g_array_index (ids, gint32, i);

      if (!llm_tokenizer_is_control (tokenizer, id))
        continue;
      llm_tokenizer_decode_token (tokenizer, id, TRUE, name);
      n_control += name->len;
    }
  g_assert_cmpuint (n_control, <=, count_markup (parts, n_parts));
  return 0;
}
