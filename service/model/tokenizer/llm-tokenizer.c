/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/tokenizer/llm-tokenizer.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "model/tokenizer/llm-tokenizer-private.h"
#include "model/tokenizer/llm-utf8.h"

#define KEY_MODEL "tokenizer.ggml.model"

struct _LlmTokenizer
{
  LlmVocab *vocab;
  LlmSpm *spm;            /* (nullable): one of the three is there */
  LlmBpe *bpe;            /* (nullable) */
  LlmWpm *wpm;            /* (nullable) */

  gboolean adds_bos;
  gboolean adds_eos;

  LlmSpecialSet controls; /* found in markup */
  LlmSpecialSet defined;  /* found in all text */
  gboolean swallows;      /* most of both swallow the spaces behind them */
};

/* A stretch of the joined text within which control tokens are found. */
typedef struct
{
  gsize start;
  gsize end;
} Markup;

static gboolean
read_additions (LlmTokenizer  *self,
                LlmGguf       *gguf,
                GError       **error)
{
  gboolean default_bos = self->bpe == NULL ||
                         llm_pretokenizer_adds_bos (llm_bpe_get_pretokenizer (self->bpe));
  const gboolean default_eos = self->wpm != NULL;

  if (!llm_gguf_get_bool (gguf, "tokenizer.ggml.add_bos_token", &default_bos, &self->adds_bos,
                          error) ||
      !llm_gguf_get_bool (gguf, "tokenizer.ggml.add_eos_token", &default_eos, &self->adds_eos,
                          error))
    return FALSE;

  self->adds_bos = self->adds_bos && self->vocab->bos >= 0;
  self->adds_eos = self->adds_eos && self->vocab->eos >= 0;
  return TRUE;
}

/* The special tokens of Phi-3 swallow the spaces behind them; its files don't
 * say so anywhere but in the model's name. */
static gboolean
is_phi3 (LlmGguf *gguf)
{
  g_autofree char *name = llm_gguf_get_string (gguf, "general.name", TRUE, NULL);
  g_autofree char *lower = name != NULL ? g_ascii_strdown (name, -1) : NULL;

  return lower != NULL && (strstr (lower, "phi-3") != NULL || strstr (lower, "phi3") != NULL);
}

static gboolean
is_text_token (const LlmVocab *vocab,
               gint32          id,
               const char     *text)
{
  gsize length;
  const char *own = llm_vocab_get_text (vocab, id, &length);

  return length == strlen (text) && memcmp (own, text, length) == 0;
}

static gboolean
is_swallowing (const LlmTokenizer *self,
               gint32              id)
{
  return self->swallows && !is_text_token (self->vocab, id, "<unk>") &&
         !is_text_token (self->vocab, id, "<s>") &&
         !is_text_token (self->vocab, id, "<|endoftext|>");
}

static void
collect_special (LlmTokenizer *self)
{
  const LlmVocab *vocab = self->vocab;
  g_autoptr(GArray) controls = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autoptr(GArray) defined = g_array_new (FALSE, FALSE, sizeof (gint32));

  for (gint32 id = 0; id < (gint32) vocab->n_tokens; id++)
    {
      if (vocab->offsets[id] == vocab->offsets[id + 1])
        continue;
      if (llm_vocab_is_control (vocab, id))
        g_array_append_val (controls, id);
      else if (vocab->kinds[id] == LLM_TOKEN_USER_DEFINED)
        g_array_append_val (defined, id);
    }
  llm_special_set_init (&self->controls, vocab, controls);
  llm_special_set_init (&self->defined, vocab, defined);
}

/**
 * llm_tokenizer_new:
 * @gguf: the file; needed only during the call
 * @error: return location for an error
 *
 * Returns: (transfer full): the tokenizer, or %NULL with @error set
 */
LlmTokenizer *
llm_tokenizer_new (LlmGguf  *gguf,
                   GError  **error)
{
  g_autoptr(LlmTokenizer) self = g_new0 (LlmTokenizer, 1);
  g_autofree char *model = NULL;
  gboolean is_spm, is_wpm;

  g_return_val_if_fail (gguf != NULL, NULL);

  model = llm_gguf_get_string (gguf, KEY_MODEL, FALSE, error);
  if (model == NULL)
    return NULL;
  is_spm = g_str_equal (model, "llama");
  is_wpm = g_str_equal (model, "bert");
  if (!is_spm && !is_wpm && !g_str_equal (model, "gpt2"))
    {
      g_autofree char *shown = llm_utf8_shorten (model);

      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED,
                   "%s: %s is “%s”; supported are llama, gpt2 and bert",
                   gguf->path, KEY_MODEL, shown);
      return NULL;
    }

  self->vocab = llm_vocab_new (gguf, is_spm || is_wpm, error);
  if (self->vocab == NULL)
    return NULL;
  if (is_spm)
    self->spm = llm_spm_new (gguf, self->vocab, error);
  else if (is_wpm)
    self->wpm = llm_wpm_new (gguf, self->vocab, error);
  else
    self->bpe = llm_bpe_new (gguf, self->vocab, error);
  if ((self->spm == NULL && self->bpe == NULL && self->wpm == NULL) ||
      !read_additions (self, gguf, error))
    return NULL;
  self->swallows = is_phi3 (gguf);
  collect_special (self);

  return g_steal_pointer (&self);
}

void
llm_tokenizer_free (LlmTokenizer *self)
{
  if (self == NULL)
    return;
  llm_special_set_clear (&self->controls);
  llm_special_set_clear (&self->defined);
  g_clear_pointer (&self->spm, llm_spm_free);
  g_clear_pointer (&self->bpe, llm_bpe_free);
  g_clear_pointer (&self->wpm, llm_wpm_free);
  g_clear_pointer (&self->vocab, llm_vocab_free);
  g_free (self);
}

guint
llm_tokenizer_get_n_tokens (LlmTokenizer *self)
{
  return self->vocab->n_tokens;
}

gint32
llm_tokenizer_get_bos (LlmTokenizer *self)
{
  return self->vocab->bos;
}

gint32
llm_tokenizer_get_eos (LlmTokenizer *self)
{
  return self->vocab->eos;
}

gboolean
llm_tokenizer_adds_bos (LlmTokenizer *self)
{
  return self->adds_bos;
}

gboolean
llm_tokenizer_adds_eos (LlmTokenizer *self)
{
  return self->adds_eos;
}

gboolean
llm_tokenizer_ends_answer (LlmTokenizer *self,
                           gint32        id)
{
  const GArray *endings = self->vocab->endings;

  for (guint i = 0; i < endings->len; i++)
    if (g_array_index (endings, gint32, i) == id)
      return TRUE;
  return FALSE;
}

gint32
llm_tokenizer_lookup (LlmTokenizer *self,
                      const char   *text)
{
  gint32 id = llm_vocab_find (self->vocab, text, strlen (text), FALSE);

  return id >= 0 ? id : llm_vocab_find (self->vocab, text, strlen (text), TRUE);
}

gboolean
llm_tokenizer_is_control (LlmTokenizer *self,
                          gint32        id)
{
  return id >= 0 && id < (gint32) self->vocab->n_tokens &&
         llm_vocab_is_control (self->vocab, id);
}

gboolean
llm_tokenizer_swallows_spaces (LlmTokenizer *self)
{
  return self->swallows;
}

/* Joins the parts, and notes where markup is. Neighbouring markup is one. */
static GString *
join_parts (const LlmTextPart *parts,
            guint              n_parts,
            GArray            *markups)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < n_parts; i++)
    {
      Markup markup = { text->len, text->len + parts[i].length };
      Markup *last = markups->len > 0 ? &g_array_index (markups, Markup, markups->len - 1) : NULL;

      if (parts[i].length == 0)
        continue;
      g_string_append_len (text, parts[i].text, (gssize) parts[i].length);
      if (!parts[i].is_markup)
        continue;
      if (last != NULL && last->end == markup.start)
        last->end = markup.end;
      else
        g_array_append_val (markups, markup);
    }
  return text;
}

/* Spaces as C has them, of which no byte is part of a longer character. */
static gsize
skip_spaces (const char *text,
             gsize       at,
             gsize       end)
{
  while (at < end && (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r')))
    at++;
  return at;
}

/* Appends the tokens of @set between @start and @end, which may swallow spaces
 * up to @limit. Returns where the last of them ended, or @start. */
static gsize
find_special (const LlmTokenizer  *self,
              const LlmSpecialSet *set,
              const char          *text,
              gsize                start,
              gsize                end,
              gsize                limit,
              GArray              *fragments)
{
  gsize behind = start;

  for (gsize at = start; at < end;)
    {
      gsize length;
      gint32 id = llm_special_set_match (set, text + at, text + end, &length);
      LlmFragment fragment = { at, 0, id };

      if (id < 0)
        {
          at++;
          continue;
        }
      fragment.end = at + length;
      if (is_swallowing (self, id))
        fragment.end = skip_spaces (text, fragment.end, limit);
      g_array_append_val (fragments, fragment);
      at = behind = fragment.end;
    }
  return behind;
}

/* Appends what lies between @start and @end: user-defined tokens and the plain
 * text around them. */
static void
find_defined (const LlmTokenizer *self,
              const char         *text,
              gsize               start,
              gsize               end,
              GArray             *fragments)
{
  g_autoptr(GArray) found = g_array_new (FALSE, FALSE, sizeof (LlmFragment));

  find_special (self, &self->defined, text, start, end, end, found);
  for (guint i = 0; i <= found->len; i++)
    {
      const LlmFragment *next = i < found->len ? &g_array_index (found, LlmFragment, i) : NULL;
      LlmFragment plain = { start, next != NULL ? next->start : end, -1 };

      if (plain.start < plain.end)
        g_array_append_val (fragments, plain);
      if (next != NULL)
        {
          g_array_append_vals (fragments, next, 1);
          start = next->end;
        }
    }
}

/* Cuts the text at its special tokens. Control tokens go first, so that nothing
 * an app writes can swallow the beginning of a template's marker. */
static GArray *
cut_text (const LlmTokenizer *self,
          const GString      *text,
          const GArray       *markups)
{
  g_autoptr(GArray) controls = g_array_new (FALSE, FALSE, sizeof (LlmFragment));
  GArray *fragments = g_array_new (FALSE, FALSE, sizeof (LlmFragment));
  gsize at = 0;

  for (guint i = 0; i < markups->len; i++)
    {
      const Markup *markup = &g_array_index (markups, Markup, i);

      at = find_special (self, &self->controls, text->str, MAX (at, markup->start), markup->end,
                         text->len, controls);
    }

  at = 0;
  for (guint i = 0; i < controls->len; i++)
    {
      const LlmFragment *control = &g_array_index (controls, LlmFragment, i);

      find_defined (self, text->str, at, control->start, fragments);
      g_array_append_vals (fragments, control, 1);
      at = control->end;
    }
  find_defined (self, text->str, at, text->len, fragments);
  return fragments;
}

guint64
llm_tokenizer_encode_counting (LlmTokenizer      *self,
                               const LlmTextPart *parts,
                               guint              n_parts,
                               gboolean           add_special,
                               GArray            *ids)
{
  g_autoptr(GArray) markups = g_array_new (FALSE, FALSE, sizeof (Markup));
  g_autoptr(GString) text = join_parts (parts, n_parts, markups);
  g_autoptr(GArray) fragments = NULL;
  gboolean behind_special = TRUE;
  guint64 n_steps;

  g_return_val_if_fail (text->len <= LLM_MERGER_MAX_TEXT, 0);

  n_steps = text->len;
  fragments = cut_text (self, text, markups);
  if (add_special && self->adds_bos)
    g_array_append_val (ids, self->vocab->bos);
  for (guint i = 0; i < fragments->len; i++)
    {
      const LlmFragment *fragment = &g_array_index (fragments, LlmFragment, i);
      const char *start = text->str + fragment->start;
      gsize length = fragment->end - fragment->start;

      if (fragment->id >= 0)
        g_array_append_val (ids, fragment->id);
      else if (self->spm != NULL)
        n_steps += llm_spm_encode (self->spm, start, length, behind_special, ids);
      else if (self->wpm != NULL)
        n_steps += llm_wpm_encode (self->wpm, start, length, ids);
      else
        n_steps += llm_bpe_encode (self->bpe, start, length, ids);
      behind_special = fragment->id >= 0;
    }
  if (add_special && self->adds_eos)
    g_array_append_val (ids, self->vocab->eos);
  return n_steps;
}

/**
 * llm_tokenizer_encode:
 * @self: the tokenizer
 * @parts: (array length=n_parts): the text; in all no more than 256 MiB
 * @n_parts: how many
 * @add_special: whether to add the BOS and EOS that the file asks for
 * @ids: (element-type gint32): to append to
 */
void
llm_tokenizer_encode (LlmTokenizer      *self,
                      const LlmTextPart *parts,
                      guint              n_parts,
                      gboolean           add_special,
                      GArray            *ids)
{
  g_return_if_fail (self != NULL);
  g_return_if_fail (parts != NULL || n_parts == 0);
  g_return_if_fail (ids != NULL);

  llm_tokenizer_encode_counting (self, parts, n_parts, add_special, ids);
}

void
llm_tokenizer_decode_token (LlmTokenizer *self,
                            gint32        id,
                            gboolean      show_control,
                            GString      *out)
{
  g_return_if_fail (self != NULL);
  g_return_if_fail (id >= 0 && id < (gint32) self->vocab->n_tokens);

  if (!show_control && llm_tokenizer_is_control (self, id))
    return;
  if (self->spm != NULL)
    llm_spm_decode (self->spm, id, out);
  else if (self->wpm != NULL)
    llm_wpm_decode (self->wpm, id, out);
  else
    llm_bpe_decode (self->bpe, id, out);
}
