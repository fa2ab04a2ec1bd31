/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * WordPiece, the tokenizer of encoders such as BERT. A text is taken apart into
 * words of lower-case letters without accents; a word is cut into the longest
 * pieces from its beginning on, and is one unknown token where that fails. In
 * GGUF files the pieces that begin a word have a space before them, instead of
 * marks before those that don't.
 */

#include "tokenizer/llm-tokenizer-private.h"

#include "tokenizer/llm-utf8.h"

#define KEY_UNKNOWN "tokenizer.ggml.unknown_token_id"

typedef struct
{
  LlmCodec codec;
  LlmSpecialSet pieces;
  gint32 unknown;
} LlmWpm;

typedef struct
{
  gunichar first;
  gunichar last;
} Range;

/* The blocks of ideographs: each is a word of its own. */
static const Range ideographs[] = {
  { 0x3400, 0x4dbf }, { 0x4e00, 0x9fff }, { 0xf900, 0xfaff }, { 0x20000, 0x2a6df },
  { 0x2a700, 0x2b73f }, { 0x2b740, 0x2b81f }, { 0x2b920, 0x2ceaf }, { 0x2f800, 0x2fa1f },
};

/* The base of a letter with accents. */
static gunichar
strip_accent (gunichar c)
{
  gunichar parts[G_UNICHAR_MAX_DECOMPOSITION_LENGTH];

  return g_unichar_fully_decompose (c, FALSE, parts, G_N_ELEMENTS (parts)) > 0 ? parts[0] : c;
}

static gboolean
is_left_out (gunichar c)
{
  return c == 0xfffd || llm_utf8_is_of (c, LLM_UTF8_TYPE (CONTROL) | LLM_UTF8_TYPE (FORMAT) |
                                             LLM_UTF8_TYPE (PRIVATE_USE) |
                                             LLM_UTF8_TYPE (SURROGATE));
}

/* What is a word by itself. */
static gboolean
stands_alone (gunichar c)
{
  if (llm_utf8_is_of (c, LLM_UTF8_PUNCTUATION) || (c < 0x7f && g_ascii_ispunct ((char) c)))
    return TRUE;
  for (guint i = 0; i < G_N_ELEMENTS (ideographs); i++)
    if (c >= ideographs[i].first && c <= ideographs[i].last)
      return TRUE;
  return FALSE;
}

/* Appends the pieces of @word, which begins with a space, and empties it. */
static guint64
end_word (const LlmWpm *self,
          GString      *word,
          GArray       *ids)
{
  const char *end = word->str + word->len;
  guint n_before = ids->len;
  guint64 n_steps = word->len;

  for (const char *at = word->str; word->len > 1 && at < end;)
    {
      gsize length = 0;
      gint32 id = llm_special_set_match (&self->pieces, at, end, &length);

      if (id < 0)
        {
          g_array_set_size (ids, n_before);
          g_array_append_val (ids, self->unknown);
          break;
        }
      g_array_append_val (ids, id);
      at += length;
    }
  g_string_assign (word, " ");
  return n_steps;
}

static guint64
encode (const LlmCodec *codec,
        const char     *text,
        gsize           length,
        gboolean        behind_special,
        GArray         *ids)
{
  const LlmWpm *self = (const LlmWpm *) codec;
  g_autoptr(GString) word = g_string_new (" ");
  const char *end = text + length;
  guint64 n_steps = length;

  for (const char *at = text; at < end;)
    {
      gunichar c;

      at += llm_utf8_get (at, end, &c);
      c = strip_accent (c);
      if (llm_utf8_is_space (c))
        n_steps += end_word (self, word, ids);
      else if (stands_alone (c))
        {
          n_steps += end_word (self, word, ids);
          g_string_append_unichar (word, g_unichar_tolower (c));
          n_steps += end_word (self, word, ids);
        }
      else if (!is_left_out (c))
        g_string_append_unichar (word, g_unichar_tolower (c));
    }
  return n_steps + end_word (self, word, ids);
}

static void
decode (const LlmCodec *codec,
        gint32          id,
        GString        *out)
{
  gsize length;
  const char *text = llm_vocab_get_text (codec->vocab, id, &length);

  g_string_append_len (out, text, (gssize) length);
}

static void
free_codec (LlmCodec *codec)
{
  llm_special_set_clear (&((LlmWpm *) codec)->pieces);
  g_free (codec);
}

LlmCodec *
llm_wpm_new (LlmGguf         *gguf,
             const LlmVocab  *vocab,
             GError         **error)
{
  g_autoptr(GArray) pieces = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmWpm *self;
  guint64 unknown;

  if (!llm_gguf_get_uint (gguf, KEY_UNKNOWN, 0, vocab->n_tokens - 1, NULL, &unknown, error))
    return NULL;

  self = g_new0 (LlmWpm, 1);
  self->codec = (LlmCodec) { vocab, TRUE, TRUE, encode, decode, free_codec };
  self->unknown = (gint32) unknown;
  for (gint32 id = 0; id < (gint32) vocab->n_tokens; id++)
    if (vocab->offsets[id] < vocab->offsets[id + 1] && vocab->kinds[id] == LLM_TOKEN_NORMAL)
      g_array_append_val (pieces, id);
  llm_special_set_init (&self->pieces, vocab, pieces);
  return &self->codec;
}
