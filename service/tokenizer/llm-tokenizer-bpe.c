/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* BPE: each byte or character is a token, and the merges of the file, in their
 * order, say which pairs of tokens become one. Words are merged one by one. */

#include "tokenizer/llm-tokenizer-private.h"

#include <glib/gi18n.h>
#include <string.h>

#include "base/llm-fail.h"
#include "tokenizer/llm-utf8.h"

#define KEY_MERGES "tokenizer.ggml.merges"

/* Vocabularies write bytes as characters one can see: the visible ones of
 * Latin-1 stand for themselves, the others for U+0100 and what follows. */
#define N_BYTE_CHARS 0x144

typedef struct
{
  guint64 pair;     /* ids, the left one in the high half; NO_PAIR: no text may come to it */
  gint32 id;
} Merge;

#define NO_PAIR G_MAXUINT64

typedef struct
{
  LlmCodec codec;
  const LlmPretokenizerRules *rules;
  LlmPretokenizer *pretokenizer;      /* (owned) */

  gunichar char_of_byte[256];         /* of tokens of bytes */
  gint16 byte_of_char[N_BYTE_CHARS];  /* -1: stands for no byte */
  gint32 byte_ids[256];               /* -1: a byte that the vocabulary can't write; of tokens of
                                       * characters, <0x00> to <0xFF> */

  Merge *merges;                      /* (owned), the first to be made first */
  LlmTable table;                     /* of them */
} LlmBpe;

static void
make_byte_chars (LlmBpe *self)
{
  gunichar next = 0x100;

  for (guint i = 0; i < N_BYTE_CHARS; i++)
    self->byte_of_char[i] = -1;

  for (guint byte = 0; byte < 256; byte++)
    {
      gboolean is_visible = (byte > ' ' && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);

      self->char_of_byte[byte] = is_visible ? byte : next++;
      self->byte_of_char[self->char_of_byte[byte]] = (gint16) byte;
    }
}

static void
find_bytes (LlmBpe *self)
{
  for (guint byte = 0; byte < 256; byte++)
    {
      char text[7];
      gsize length = self->rules->has_characters
                       ? (gsize) g_snprintf (text, sizeof text, "<0x%02X>", byte)
                       : (gsize) g_unichar_to_utf8 (self->char_of_byte[byte], text);

      self->byte_ids[byte] = llm_vocab_find (self->codec.vocab, text, length,
                                             !self->rules->has_characters);
    }
}

static guint64
make_pair (gint32 left,
           gint32 right)
{
  return ((guint64) (guint32) left << 32) | (guint32) right;
}

static guint64
hash_pair (const LlmBpe *self,
           guint64       pair)
{
  guint64 hash = pair ^ self->table.seed;

  /* The finaliser of MurmurHash 3. */
  hash = (hash ^ (hash >> 33)) * G_GUINT64_CONSTANT (0xff51afd7ed558ccd);
  hash = (hash ^ (hash >> 33)) * G_GUINT64_CONSTANT (0xc4ceb9fe1a85ec53);
  return hash ^ (hash >> 33);
}

/* The index of the pair's merge, or -1; @at: (out): then the free slot where it belongs. */
static gint32
find_merge (const LlmBpe *self,
            guint64       pair,
            guint64       hash,
            gsize        *at)
{
  gint32 index;

  *at = hash;
  do
    index = llm_table_next (&self->table, hash, at);
  while (index >= 0 && self->merges[index].pair != pair);
  return index;
}

static gboolean
fail_merge (LlmGguf     *gguf,
            gsize        index,
            const char  *what,
            GError     **error)
{
  return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL, "%s: %s[%zu]: %s", gguf->path, KEY_MERGES,
                   index, what);
}

/* A token of any kind: @plain tells whether text can become it. */
static gint32
find_part (const LlmBpe *self,
           const char   *text,
           gsize         length,
           gboolean     *plain)
{
  gint32 id = llm_vocab_find (self->codec.vocab, text, length, TRUE);

  if (id >= 0)
    return id;
  *plain = FALSE;
  return llm_vocab_find (self->codec.vocab, text, length, FALSE);
}

/* A merge of the file, in two tokens. */
typedef struct
{
  const char *left;
  const char *right;
  gsize n_left;
  gsize n_right;     /* 0: it is none */
} Split;

/* A token may begin with a space, but not be empty. */
static Split
split_merge (LlmGgufString text)
{
  const char *space = text.length > 2 ? memchr (text.text + 1, ' ', text.length - 1) : NULL;
  Split split = { 0 };

  if (space != NULL)
    {
      split.left = text.text;
      split.right = space + 1;
      split.n_left = (gsize) (space - text.text);
      split.n_right = text.length - split.n_left - 1;
    }
  return split;
}

/* Writes both tokens as the vocabulary has them; the lengths of @split become theirs. */
static gsize
join (const LlmBpe *self,
      Split        *split,
      char          joined[LLM_VOCAB_MAX_TEXT])
{
  if (self->rules->has_characters)
    {
      split->n_left = llm_vocab_copy_with_spaces (joined, split->left, split->n_left);
      split->n_right = llm_vocab_copy_with_spaces (joined + split->n_left, split->right,
                                                   split->n_right);
    }
  else
    {
      memcpy (joined, split->left, split->n_left);
      memcpy (joined + split->n_left, split->right, split->n_right);
    }
  return split->n_left + split->n_right;
}

/* Three look-ups for each of hundreds of thousands of merges are most of the time
 * that a tokenizer takes to load, and most of theirs is waiting for memory. */
static void
prefetch_merge (const LlmBpe  *self,
                LlmGgufString  text)
{
  char joined[LLM_VOCAB_MAX_TEXT];
  Split split = split_merge (text);
  gsize length;

  if (split.n_right == 0 || split.n_left + split.n_right > sizeof joined)
    return;
  length = join (self, &split, joined);
  llm_vocab_prefetch (self->codec.vocab, joined, split.n_left);
  llm_vocab_prefetch (self->codec.vocab, joined + split.n_left, split.n_right);
  llm_vocab_prefetch (self->codec.vocab, joined, length);
}

static gboolean
read_merge (LlmBpe         *self,
            LlmGguf        *gguf,
            gsize           index,
            LlmGgufString   text,
            Merge          *merge,
            GError        **error)
{
  char joined[LLM_VOCAB_MAX_TEXT];
  Split split = split_merge (text);
  gboolean plain = TRUE;
  gint32 left, right, id;
  gsize length;

  if (split.n_right == 0 && split.left == NULL)
    return fail_merge (gguf, index, N_("it is not two tokens with a space between"), error);
  if (split.n_left + split.n_right > sizeof joined)
    return fail_merge (gguf, index, N_("it makes a longer token than the vocabulary has"), error);

  length = join (self, &split, joined);
  left = find_part (self, joined, split.n_left, &plain);
  right = find_part (self, joined + split.n_left, split.n_right, &plain);
  id = find_part (self, joined, length, &plain);
  if (left < 0 || right < 0 || id < 0)
    return fail_merge (gguf, index, N_("it has a part, or makes a text, that is not in "
                                       "tokenizer.ggml.tokens"), error);
  /* No text may become a control token, whatever merges there are. */
  *merge = (Merge) { plain ? make_pair (left, right) : NO_PAIR, id };
  return TRUE;
}

static gboolean
read_merges (LlmBpe   *self,
             LlmGguf  *gguf,
             GError  **error)
{
  g_autofree LlmGgufString *texts = NULL;
  gsize n_merges;

  texts = llm_gguf_get_strings (gguf, KEY_MERGES, FALSE, &n_merges, error);
  if (texts == NULL)
    return FALSE;
  if (n_merges > LLM_VOCAB_MAX_TOKENS * 4)
    return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s: %s has %zu entries; supported are up to %u", gguf->path, KEY_MERGES,
                     n_merges, LLM_VOCAB_MAX_TOKENS * 4);

  llm_table_init (&self->table, n_merges);
  self->merges = g_new0 (Merge, n_merges + LLM_TABLE_AHEAD);
  for (gsize i = 0; i < n_merges; i++)
    {
      if (i + LLM_TABLE_AHEAD < n_merges)
        prefetch_merge (self, texts[i + LLM_TABLE_AHEAD]);
      if (!read_merge (self, gguf, i, texts[i], &self->merges[i], error))
        return FALSE;
    }
  for (gsize i = 0; i < n_merges; i++)
    {
      guint64 pair = self->merges[i].pair;
      guint64 hash = hash_pair (self, pair);
      gsize at;

      llm_table_prefetch (&self->table, hash_pair (self, self->merges[i + LLM_TABLE_AHEAD].pair));
      /* The first merge of a pair is the one that counts. */
      if (pair != NO_PAIR && find_merge (self, pair, hash, &at) < 0)
        llm_table_set (&self->table, at, hash, (guint32) i);
    }
  return TRUE;
}

static gboolean
can_merge (const LlmMerger *merger,
           const LlmSymbol *left,
           const LlmSymbol *right,
           guint32         *rank,
           gint32          *id)
{
  const LlmBpe *self = merger->data;
  guint64 pair = make_pair (left->id, right->id);
  gint32 index;
  gsize at;

  if (left->id < 0 || right->id < 0)
    return FALSE;
  index = find_merge (self, pair, hash_pair (self, pair), &at);
  if (index < 0)
    return FALSE;
  *rank = (guint32) index;
  *id = self->merges[index].id;
  return TRUE;
}

typedef struct
{
  const LlmBpe *self;
  LlmMerger merger;
  GArray *ids;      /* (unowned) */
} WordEncoder;

/* The token that is the whole word, or -1. */
static gint32
find_word (const LlmBpe *self,
           const char   *word,
           gsize         length)
{
  char text[LLM_VOCAB_MAX_TEXT + 6];
  gsize n = 0;

  if (length > self->codec.vocab->max_length)
    return -1;
  if (self->rules->has_characters)
    return llm_vocab_find (self->codec.vocab, word, length, TRUE);
  for (gsize i = 0; i < length && n <= LLM_VOCAB_MAX_TEXT; i++)
    n += (gsize) g_unichar_to_utf8 (self->char_of_byte[(guint8) word[i]], text + n);
  return llm_vocab_find (self->codec.vocab, text, n, TRUE);
}

/* Each byte or character of the word. */
static void
add_symbols (const LlmBpe *self,
             LlmMerger    *merger,
             const char   *word,
             gsize         length)
{
  const char *end = word + length;
  gsize n;

  llm_merger_begin (merger, word);
  for (const char *at = word; at < end; at += n)
    {
      gunichar c;

      n = self->rules->has_characters ? llm_utf8_get (at, end, &c) : 1;
      llm_merger_add (merger, (guint32) (at - word), (guint32) n,
                      self->rules->has_characters
                        ? llm_vocab_find (self->codec.vocab, at, n, TRUE)
                        : self->byte_ids[(guint8) *at]);
    }
}

/* The id of a symbol, or those of its bytes. A few vocabularies have no token for bytes that their
 * texts never had; such a model can't be told of them. */
static void
append_symbol (const LlmBpe    *self,
               const char      *word,
               const LlmSymbol *symbol,
               GArray          *ids)
{
  if (symbol->id >= 0)
    g_array_append_val (ids, symbol->id);
  for (guint32 i = 0; symbol->id < 0 && i < symbol->length; i++)
    {
      gint32 id = self->byte_ids[(guint8) word[symbol->start + i]];

      if (id >= 0)
        g_array_append_val (ids, id);
    }
}

static void
encode_word (const char *word,
             gsize       length,
             gpointer    user_data)
{
  WordEncoder *encoder = user_data;
  const LlmBpe *self = encoder->self;
  LlmMerger *merger = &encoder->merger;

  /* Merges of characters have none of line ends. */
  if (self->rules->ignores_merges || (self->rules->has_characters && *word == '\n'))
    {
      gint32 id = find_word (self, word, length);

      if (id >= 0)
        {
          g_array_append_val (encoder->ids, id);
          return;
        }
    }

  add_symbols (self, merger, word, length);
  llm_merger_run (merger);
  for (gint32 i = merger->symbols->len > 0 ? 0 : -1; i >= 0;)
    {
      const LlmSymbol *symbol = &g_array_index (merger->symbols, LlmSymbol, i);

      append_symbol (self, word, symbol, encoder->ids);
      i = symbol->next;
    }
}

static guint64
encode (const LlmCodec *codec,
        const char     *text,
        gsize           length,
        gboolean        behind_special,
        GArray         *ids)
{
  const LlmBpe *self = (const LlmBpe *) codec;
  WordEncoder encoder = { .self = self, .ids = ids };
  g_autofree char *with_spaces = NULL;
  guint64 n_steps;

  if (self->rules->has_characters)
    {
      with_spaces = g_malloc (length);
      length = llm_vocab_copy_with_spaces (with_spaces, text, length);
      text = with_spaces;
    }
  llm_merger_init (&encoder.merger, can_merge, self);
  llm_pretokenizer_split (self->pretokenizer, text, length, encode_word, &encoder);
  n_steps = encoder.merger.n_steps;
  llm_merger_clear (&encoder.merger);
  return n_steps;
}

static void
decode (const LlmCodec *codec,
        gint32          id,
        GString        *out)
{
  const LlmBpe *self = (const LlmBpe *) codec;
  LlmTokenKind kind = codec->vocab->kinds[id];
  gsize length;
  const char *at = llm_vocab_get_text (codec->vocab, id, &length);
  const char *end = at + length;

  if (self->rules->has_characters && kind == LLM_TOKEN_BYTE && llm_byte_token_parse (at, length) >= 0)
    {
      g_string_append_c (out, (char) llm_byte_token_parse (at, length));
      return;
    }
  /* The texts of added tokens are written as they are. */
  if (self->rules->has_characters || (kind != LLM_TOKEN_NORMAL && kind != LLM_TOKEN_UNUSED))
    {
      g_string_append_len (out, at, (gssize) length);
      return;
    }

  while (at < end)
    {
      gunichar c;
      gsize n = llm_utf8_get (at, end, &c);

      if (c < N_BYTE_CHARS && self->byte_of_char[c] >= 0)
        g_string_append_c (out, (char) self->byte_of_char[c]);
      else
        g_string_append_len (out, at, (gssize) n);
      at += n;
    }
}

static void
free_codec (LlmCodec *codec)
{
  LlmBpe *self = (LlmBpe *) codec;

  g_clear_pointer (&self->pretokenizer, llm_pretokenizer_free);
  g_free (self->merges);
  g_free (self->table.slots);
  g_free (self);
}

LlmCodec *
llm_bpe_new (LlmGguf                     *gguf,
             const LlmVocab              *vocab,
             const LlmPretokenizerRules  *rules,
             GError                     **error)
{
  LlmBpe *self = g_new0 (LlmBpe, 1);
  g_autoptr(LlmCodec) codec = &self->codec;

  *codec = (LlmCodec) { vocab, FALSE, FALSE, encode, decode, free_codec };
  self->rules = rules;
  make_byte_chars (self);
  find_bytes (self);
  if (!read_merges (self, gguf, error))
    return NULL;

  self->pretokenizer = llm_pretokenizer_new (rules);
  codec->adds_bos = rules->adds_bos;
  return g_steal_pointer (&codec);
}
