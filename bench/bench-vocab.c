/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Vocabularies of any size that can write every text: bytes, single letters and pairs
 * of letters; then words that nothing merges into, which give the vocabulary
 * its size and random answers something to show.
 */

#include "bench-gguf.h"

#include "model/tokenizer/llm-vocab.h"

#define N_BYTES 256
#define SPACE_MARK "\xe2\x96\x81"

static const char chatml[] =
  "{% for message in messages %}"
  "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
  "{% endfor %}"
  "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

typedef struct
{
  GPtrArray *texts;   /* (element-type utf8) */
  GArray *kinds;      /* (element-type gint64) */
  GArray *scores;     /* (element-type float) */
  GPtrArray *merges;  /* (element-type utf8) */
  guint n_tokens;
} Vocab;

static guint
add_token (Vocab        *vocab,
           char         *text,
           LlmTokenKind  kind)
{
  const gint64 number = kind;
  /* An earlier piece is merged first. */
  const float score = kind == LLM_TOKEN_NORMAL ? -(float) vocab->texts->len : 0;

  g_ptr_array_add (vocab->texts, text);
  g_array_append_val (vocab->kinds, number);
  g_array_append_val (vocab->scores, score);
  return vocab->texts->len - 1;
}

/* @space: how this vocabulary writes a space. @n_kept: tokens that come behind. */
static void
add_words (Vocab      *vocab,
           const char *space,
           guint       n_kept)
{
  for (char a = '`'; a <= 'z'; a++)
    for (char b = 'a'; b <= 'z' && vocab->texts->len + n_kept < vocab->n_tokens; b++)
      {
        g_autofree char *left = a == '`' ? g_strdup (space) : g_strdup_printf ("%c", a);

        g_ptr_array_add (vocab->merges, g_strdup_printf ("%s %c", left, b));
        add_token (vocab, g_strdup_printf ("%s%c", left, b), LLM_TOKEN_NORMAL);
      }
  while (vocab->texts->len + n_kept < vocab->n_tokens)
    add_token (vocab, g_strdup_printf ("%sw%u", space, vocab->texts->len), LLM_TOKEN_NORMAL);
}

static void
make_spm (Vocab       *vocab,
          LlmTestGguf *gguf)
{
  guint unknown = add_token (vocab, g_strdup ("<unk>"), LLM_TOKEN_UNKNOWN);
  guint bos = add_token (vocab, g_strdup ("<s>"), LLM_TOKEN_CONTROL);
  guint eos = add_token (vocab, g_strdup ("</s>"), LLM_TOKEN_CONTROL);
  guint end;

  for (guint byte = 0; byte < N_BYTES; byte++)
    add_token (vocab, g_strdup_printf ("<0x%02X>", byte), LLM_TOKEN_BYTE);
  add_token (vocab, g_strdup ("<|im_start|>"), LLM_TOKEN_CONTROL);
  end = add_token (vocab, g_strdup ("<|im_end|>"), LLM_TOKEN_CONTROL);
  add_token (vocab, g_strdup (SPACE_MARK), LLM_TOKEN_NORMAL);
  for (char letter = 'a'; letter <= 'z'; letter++)
    add_token (vocab, g_strdup_printf ("%c", letter), LLM_TOKEN_NORMAL);
  add_words (vocab, SPACE_MARK, 0);

  llm_test_gguf_add_string (gguf, "tokenizer.ggml.model", "llama");
  llm_test_gguf_add_string (gguf, "tokenizer.ggml.pre", "default");
  llm_test_gguf_add_floats (gguf, "tokenizer.ggml.scores", LLM_GGUF_FLOAT32,
                            (const float *) vocab->scores->data, vocab->scores->len);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.unknown_token_id", LLM_GGUF_UINT32, unknown);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.bos_token_id", LLM_GGUF_UINT32, bos);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.eos_token_id", LLM_GGUF_UINT32, eos);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.eot_token_id", LLM_GGUF_UINT32, end);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.add_bos_token", LLM_GGUF_BOOL, TRUE);
}

/* How byte-level vocabularies write bytes: those of Latin-1 that one can see as
 * themselves, the others as U+0100 and what follows. */
static void
add_bytes (Vocab *vocab)
{
  gunichar next = 0x100;

  for (guint byte = 0; byte < N_BYTES; byte++)
    {
      gboolean is_visible = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      char utf8[7] = "";

      g_unichar_to_utf8 (is_visible ? byte : next++, utf8);
      add_token (vocab, g_strdup (utf8), LLM_TOKEN_NORMAL);
    }
}

static void
make_bpe (Vocab       *vocab,
          LlmTestGguf *gguf)
{
  const guint n_control = 3;
  guint end_of_text, end;

  add_bytes (vocab);
  add_words (vocab, "\xc4\xa0", n_control);
  end_of_text = add_token (vocab, g_strdup ("<|endoftext|>"), LLM_TOKEN_CONTROL);
  add_token (vocab, g_strdup ("<|im_start|>"), LLM_TOKEN_CONTROL);
  end = add_token (vocab, g_strdup ("<|im_end|>"), LLM_TOKEN_CONTROL);

  llm_test_gguf_add_string (gguf, "tokenizer.ggml.model", "gpt2");
  llm_test_gguf_add_string (gguf, "tokenizer.ggml.pre", "qwen2");
  llm_test_gguf_add_strings (gguf, "tokenizer.ggml.merges",
                             (const char *const *) vocab->merges->pdata, vocab->merges->len);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.bos_token_id", LLM_GGUF_UINT32, end_of_text);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.eos_token_id", LLM_GGUF_UINT32, end);
  llm_test_gguf_add_int (gguf, "tokenizer.ggml.add_bos_token", LLM_GGUF_BOOL, FALSE);
}

void
bench_vocab_add (LlmTestGguf      *gguf,
                 const BenchShape *shape)
{
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GPtrArray) merges = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GArray) kinds = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_autoptr(GArray) scores = g_array_new (FALSE, FALSE, sizeof (float));
  Vocab vocab = { texts, kinds, scores, merges, shape->n_vocab };

  if (shape->is_bpe)
    make_bpe (&vocab, gguf);
  else
    make_spm (&vocab, gguf);
  g_assert (texts->len == shape->n_vocab);
  llm_test_gguf_add_strings (gguf, "tokenizer.ggml.tokens", (const char *const *) texts->pdata,
                             texts->len);
  llm_test_gguf_add_ints (gguf, "tokenizer.ggml.token_type", LLM_GGUF_INT32,
                          (const gint64 *) kinds->data, kinds->len);
  llm_test_gguf_add_string (gguf, "tokenizer.chat_template", chatml);
}
