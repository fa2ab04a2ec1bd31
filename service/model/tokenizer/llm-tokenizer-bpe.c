/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Byte-level BPE: each byte is a token, and the merges of the file, in their
 * order, say which pairs of tokens become one. Words are merged one by one. */

#define G_LOG_DOMAIN "llm-model"

#include "model/tokenizer/llm-tokenizer-private.h"

#include <glib/gi18n.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "model/tokenizer/llm-utf8.h"

#define KEY_MERGES "tokenizer.ggml.merges"
#define KEY_PRE "tokenizer.ggml.pre"

/* Vocabularies write bytes as characters one can see: the visible ones of
 * Latin-1 stand for themselves, the others for U+0100 and what follows. */
#define N_BYTE_CHARS 0x144

typedef struct
{
  guint64 pair;     /* ids, the left one in the high half; NO_PAIR is free */
  guint32 rank;
  gint32 id;
} Merge;

#define NO_PAIR G_MAXUINT64

struct _LlmBpe
{
  const LlmVocab *vocab;
  const LlmPretokenizer *pretokenizer;

  gunichar char_of_byte[256];
  gint16 byte_of_char[N_BYTE_CHARS];  /* -1: stands for no byte */
  gint32 byte_ids[256];               /* -1: a byte that the vocabulary can't write */

  Merge *merges;                      /* a hash table */
  guint32 mask;
  guint64 seed;
};

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
      char utf8[6];
      gsize length = (gsize) g_unichar_to_utf8 (self->char_of_byte[byte], utf8);

      self->byte_ids[byte] = llm_vocab_find (self->vocab, utf8, length, TRUE);
    }
}

static guint32
get_place (const LlmBpe *self,
           guint64       pair)
{
  guint64 hash = pair ^ self->seed;

  /* The finaliser of MurmurHash 3. */
  hash = (hash ^ (hash >> 33)) * G_GUINT64_CONSTANT (0xff51afd7ed558ccd);
  hash = (hash ^ (hash >> 33)) * G_GUINT64_CONSTANT (0xc4ceb9fe1a85ec53);
  return (guint32) (hash ^ (hash >> 33)) & self->mask;
}

static Merge *
find_slot (const LlmBpe *self,
           guint64       pair)
{
  guint32 at = get_place (self, pair);

  while (self->merges[at].pair != NO_PAIR && self->merges[at].pair != pair)
    at = (at + 1) & self->mask;
  return &self->merges[at];
}

static guint64
make_pair (gint32 left,
           gint32 right)
{
  return ((guint64) (guint32) left << 32) | (guint32) right;
}

static void
make_table (LlmBpe *self,
            gsize   n_merges)
{
  gsize n_slots = 16;

  while (n_slots < n_merges + n_merges / 2)
    n_slots *= 2;
  self->merges = g_new (Merge, n_slots);
  for (gsize i = 0; i < n_slots; i++)
    self->merges[i].pair = NO_PAIR;
  self->mask = (guint32) (n_slots - 1);
  self->seed = ((guint64) g_random_int () << 32) | g_random_int ();
}

static gboolean
set_merge_error (LlmGguf     *gguf,
                 gsize        index,
                 const char  *what,
                 GError     **error)
{
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL,
               "%s: %s[%zu]: %s",
               gguf->path, KEY_MERGES, index, what);
  return FALSE;
}

/* A token of any kind: @plain tells whether text can become it. */
static gint32
find_part (const LlmBpe *self,
           const char   *text,
           gsize         length,
           gboolean     *plain)
{
  gint32 id = llm_vocab_find (self->vocab, text, length, TRUE);

  if (id >= 0)
    return id;
  *plain = FALSE;
  return llm_vocab_find (self->vocab, text, length, FALSE);
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

static gsize
join (const Split *split,
      char         joined[LLM_VOCAB_MAX_TEXT])
{
  memcpy (joined, split->left, split->n_left);
  memcpy (joined + split->n_left, split->right, split->n_right);
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

  if (split.n_right == 0 || split.n_left + split.n_right > self->vocab->max_length)
    return;
  llm_vocab_prefetch (self->vocab, split.left, split.n_left);
  llm_vocab_prefetch (self->vocab, split.right, split.n_right);
  llm_vocab_prefetch (self->vocab, joined, join (&split, joined));
}

/* @merge: (out): its pair is NO_PAIR when no text may come to it. */
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

  if (split.n_right == 0 && split.left == NULL)
    return set_merge_error (gguf, index, N_("it is not two tokens with a space between"), error);
  if (split.n_left + split.n_right > sizeof joined)
    return set_merge_error (gguf, index, N_("it makes a longer token than the vocabulary has"),
                            error);

  left = find_part (self, split.left, split.n_left, &plain);
  right = find_part (self, split.right, split.n_right, &plain);
  id = find_part (self, joined, join (&split, joined), &plain);
  if (left < 0 || right < 0 || id < 0)
    return set_merge_error (gguf, index, N_("it has a part, or makes a text, that is not in "
                                            "tokenizer.ggml.tokens"), error);
  /* No text may become a control token, whatever merges there are. */
  *merge = (Merge) { plain ? make_pair (left, right) : NO_PAIR, (guint32) index, id };
  return TRUE;
}

/* The first merge of a pair is the one that counts. */
static void
insert_merges (LlmBpe      *self,
               const Merge *merges,
               gsize        n_merges)
{
  make_table (self, n_merges);
  for (gsize i = 0; i < n_merges; i++)
    {
      Merge *slot;

      if (i + LLM_VOCAB_AHEAD < n_merges)
        __builtin_prefetch (&self->merges[get_place (self, merges[i + LLM_VOCAB_AHEAD].pair)], 1);
      if (merges[i].pair == NO_PAIR)
        continue;
      slot = find_slot (self, merges[i].pair);
      if (slot->pair == NO_PAIR)
        *slot = merges[i];
    }
}

static gboolean
read_merges (LlmBpe   *self,
             LlmGguf  *gguf,
             GError  **error)
{
  g_autofree LlmGgufString *texts = NULL;
  g_autofree Merge *merges = NULL;
  gsize n_merges;

  texts = llm_gguf_get_strings (gguf, KEY_MERGES, FALSE, &n_merges, error);
  if (texts == NULL)
    return FALSE;
  if (n_merges > LLM_VOCAB_MAX_TOKENS * 4)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL,
                   "%s: %s has %zu entries; supported are up to %u",
                   gguf->path, KEY_MERGES, n_merges, LLM_VOCAB_MAX_TOKENS * 4);
      return FALSE;
    }

  merges = g_new (Merge, n_merges + 1);
  for (gsize i = 0; i < n_merges; i++)
    {
      if (i + LLM_VOCAB_AHEAD < n_merges)
        prefetch_merge (self, texts[i + LLM_VOCAB_AHEAD]);
      if (!read_merge (self, gguf, i, texts[i], &merges[i], error))
        return FALSE;
    }
  insert_merges (self, merges, n_merges);
  return TRUE;
}

static gboolean
read_pretokenizer (LlmBpe   *self,
                   LlmGguf  *gguf,
                   GError  **error)
{
  g_autoptr(GError) local_error = NULL;
  g_autofree char *name = llm_gguf_get_string (gguf, KEY_PRE, TRUE, &local_error);

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }

  self->pretokenizer = name != NULL ? llm_pretokenizer_find (name) : NULL;
  if (self->pretokenizer == NULL)
    {
      g_autofree char *known = llm_pretokenizer_list_names ();
      g_autofree char *shown = name != NULL ? llm_utf8_shorten (name) : NULL;

      if (shown != NULL)
        g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                     "%s: %s is “%s”; a wrong one would spoil every text, so this model can't be "
                     "used. Supported are %s", gguf->path, KEY_PRE, shown, known);
      else
        g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                     "%s: %s is missing; a wrong one would spoil every text, so this model can't "
                     "be used. Supported are %s", gguf->path, KEY_PRE, known);
      return FALSE;
    }
  return TRUE;
}

LlmBpe *
llm_bpe_new (LlmGguf         *gguf,
             const LlmVocab  *vocab,
             GError         **error)
{
  g_autoptr(LlmBpe) self = g_new0 (LlmBpe, 1);

  self->vocab = vocab;
  make_byte_chars (self);
  find_bytes (self);
  if (!read_pretokenizer (self, gguf, error) || !read_merges (self, gguf, error))
    return NULL;

  return g_steal_pointer (&self);
}

void
llm_bpe_free (LlmBpe *self)
{
  if (self == NULL)
    return;
  g_free (self->merges);
  g_free (self);
}

const LlmPretokenizer *
llm_bpe_get_pretokenizer (const LlmBpe *self)
{
  return self->pretokenizer;
}

static gboolean
can_merge (const LlmMerger *merger,
           const LlmSymbol *left,
           const LlmSymbol *right,
           guint32         *rank,
           gint32          *id)
{
  const LlmBpe *self = merger->data;
  const Merge *merge;

  if (left->id < 0 || right->id < 0)
    return FALSE;
  merge = find_slot (self, make_pair (left->id, right->id));
  if (merge->pair == NO_PAIR)
    return FALSE;
  *rank = merge->rank;
  *id = merge->id;
  return TRUE;
}

typedef struct
{
  const LlmBpe *self;
  LlmMerger merger;
  GArray *ids;      /* (unowned) */
} WordEncoder;

/* The token that is the whole word, -1 if there is none. */
static gint32
find_word (const LlmBpe *self,
           const char   *word,
           gsize         length)
{
  char text[LLM_VOCAB_MAX_TEXT + 6];
  gsize n = 0;

  if (length > self->vocab->max_length)
    return -1;
  for (gsize i = 0; i < length && n <= LLM_VOCAB_MAX_TEXT; i++)
    n += (gsize) g_unichar_to_utf8 (self->char_of_byte[(guint8) word[i]], text + n);
  return llm_vocab_find (self->vocab, text, n, TRUE);
}

static void
encode_word (const char *word,
             gsize       length,
             gpointer    user_data)
{
  WordEncoder *encoder = user_data;
  const LlmBpe *self = encoder->self;
  LlmMerger *merger = &encoder->merger;

  if (llm_pretokenizer_ignores_merges (self->pretokenizer))
    {
      gint32 id = find_word (self, word, length);

      if (id >= 0)
        {
          g_array_append_val (encoder->ids, id);
          return;
        }
    }

  llm_merger_begin (merger, word);
  for (gsize i = 0; i < length; i++)
    llm_merger_add (merger, (guint32) i, 1, self->byte_ids[(guint8) word[i]]);
  llm_merger_run (merger);

  for (gint32 i = merger->symbols->len > 0 ? 0 : -1; i >= 0;)
    {
      const LlmSymbol *symbol = &g_array_index (merger->symbols, LlmSymbol, i);

      /* A few vocabularies have no token for bytes that their texts never had;
       * such a model can't be told of them. */
      if (symbol->id >= 0)
        g_array_append_val (encoder->ids, symbol->id);
      i = symbol->next;
    }
}

guint64
llm_bpe_encode (const LlmBpe *self,
                const char   *text,
                gsize         length,
                GArray       *ids)
{
  WordEncoder encoder = { .self = self, .ids = ids };
  guint64 n_steps;

  llm_merger_init (&encoder.merger, can_merge, self);
  llm_pretokenizer_split (self->pretokenizer, text, length, encode_word, &encoder);
  n_steps = encoder.merger.n_steps;
  llm_merger_clear (&encoder.merger);
  return n_steps;
}

void
llm_bpe_decode (const LlmBpe *self,
                gint32        id,
                GString      *out)
{
  gsize length;
  const char *at = llm_vocab_get_text (self->vocab, id, &length);
  const char *end = at + length;

  /* The texts of added tokens are written as they are. */
  if (self->vocab->kinds[id] != LLM_TOKEN_NORMAL && self->vocab->kinds[id] != LLM_TOKEN_UNUSED)
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
