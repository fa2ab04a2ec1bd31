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
  GArray *kinds;      /* (element-type gint32) */
  GArray *scores;     /* (element-type float) */
  GPtrArray *merges;  /* (element-type utf8) */
  guint n_tokens;
} Vocab;

static guint
add_token (Vocab        *vocab,
           char         *text,
           LlmTokenKind  kind)
{
  const gint32 number = kind;
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
make_spm (Vocab     *vocab,
          BenchGguf *gguf)
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

  bench_gguf_add_string (gguf, "tokenizer.ggml.model", "llama");
  bench_gguf_add_string (gguf, "tokenizer.ggml.pre", "default");
  bench_gguf_add_floats (gguf, "tokenizer.ggml.scores", (const float *) vocab->scores->data,
                         vocab->scores->len);
  bench_gguf_add_uint (gguf, "tokenizer.ggml.unknown_token_id", unknown);
  bench_gguf_add_uint (gguf, "tokenizer.ggml.bos_token_id", bos);
  bench_gguf_add_uint (gguf, "tokenizer.ggml.eos_token_id", eos);
  bench_gguf_add_uint (gguf, "tokenizer.ggml.eot_token_id", end);
  bench_gguf_add_bool (gguf, "tokenizer.ggml.add_bos_token", TRUE);
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
make_bpe (Vocab     *vocab,
          BenchGguf *gguf)
{
  const guint n_control = 3;
  guint end_of_text, end;

  add_bytes (vocab);
  add_words (vocab, "\xc4\xa0", n_control);
  end_of_text = add_token (vocab, g_strdup ("<|endoftext|>"), LLM_TOKEN_CONTROL);
  add_token (vocab, g_strdup ("<|im_start|>"), LLM_TOKEN_CONTROL);
  end = add_token (vocab, g_strdup ("<|im_end|>"), LLM_TOKEN_CONTROL);

  bench_gguf_add_string (gguf, "tokenizer.ggml.model", "gpt2");
  bench_gguf_add_string (gguf, "tokenizer.ggml.pre", "qwen2");
  bench_gguf_add_strings (gguf, "tokenizer.ggml.merges", vocab->merges);
  bench_gguf_add_uint (gguf, "tokenizer.ggml.bos_token_id", end_of_text);
  bench_gguf_add_uint (gguf, "tokenizer.ggml.eos_token_id", end);
  bench_gguf_add_bool (gguf, "tokenizer.ggml.add_bos_token", FALSE);
}

void
bench_vocab_add (BenchGguf        *self,
                 const BenchShape *shape)
{
  g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GPtrArray) merges = g_ptr_array_new_with_free_func (g_free);
  g_autoptr(GArray) kinds = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GArray) scores = g_array_new (FALSE, FALSE, sizeof (float));
  Vocab vocab = { texts, kinds, scores, merges, shape->n_vocab };

  if (shape->is_bpe)
    make_bpe (&vocab, self);
  else
    make_spm (&vocab, self);
  g_assert (texts->len == shape->n_vocab);
  bench_gguf_add_strings (self, "tokenizer.ggml.tokens", texts);
  bench_gguf_add_ints (self, "tokenizer.ggml.token_type", (const gint32 *) kinds->data,
                       kinds->len);
  bench_gguf_add_string (self, "tokenizer.chat_template", chatml);
}
