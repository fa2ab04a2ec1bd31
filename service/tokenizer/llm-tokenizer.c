/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tokenizer/llm-tokenizer.h"

#include <string.h>

#include "base/llm-fail.h"
#include "tokenizer/llm-tokenizer-private.h"
#include "tokenizer/llm-utf8.h"

#define KEY_MODEL "tokenizer.ggml.model"
#define KEY_PRE "tokenizer.ggml.pre"

struct _LlmTokenizerPrivate
{
  LlmVocab *vocab;
  LlmCodec *codec;
  LlmSpecialSet controls; /* found in markup */
  LlmSpecialSet defined;  /* found in all text */
};

/* A stretch of the joined text within which control tokens are found. */
typedef struct
{
  gsize start;
  gsize end;
} Markup;

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
  const LlmVocab *vocab = self->priv->vocab;

  return self->swallows_spaces && !is_text_token (vocab, id, "<unk>") &&
         !is_text_token (vocab, id, "<s>") && !is_text_token (vocab, id, "<|endoftext|>");
}

static void
collect_special (LlmTokenizerPrivate *priv)
{
  const LlmVocab *vocab = priv->vocab;
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
  llm_special_set_init (&priv->controls, vocab, controls);
  llm_special_set_init (&priv->defined, vocab, defined);
}

typedef enum
{
  KIND_SPM,
  KIND_BPE,
  KIND_WPM,
} Kind;

static const struct
{
  const char *model;
  Kind kind;
  const char *pre;   /* (nullable): of files that name none, having but one */
} models[] = {
  { "llama", KIND_SPM, NULL },
  { "gpt2", KIND_BPE, NULL },
  { "gemma4", KIND_BPE, "gemma4" },
  { "bert", KIND_WPM, NULL },
};

/* The index of the file's model among @models, their number if it is none of them. */
static guint
read_model (LlmGguf  *gguf,
            GError  **error)
{
  g_autofree char *model = llm_gguf_get_string (gguf, KEY_MODEL, FALSE, error);
  guint i = 0;

  if (model == NULL)
    return G_N_ELEMENTS (models);
  while (i < G_N_ELEMENTS (models) && !g_str_equal (models[i].model, model))
    i++;
  if (i == G_N_ELEMENTS (models))
    {
      g_autofree char *shown = llm_utf8_shorten (model);

      llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                "%s: %s is “%s”; supported are llama, gpt2, gemma4 and bert", gguf->path, KEY_MODEL,
                shown);
    }
  return i;
}

/* @pre: (nullable): their name, where the file has none; @unknown: (out) (optional) (nullable): the
 * file's name of them, if the default rules stand for it. */
static const LlmPretokenizerRules *
read_rules (LlmGguf     *gguf,
            const char  *pre,
            char       **unknown,
            GError     **error)
{
  g_autoptr(GError) local_error = NULL;
  g_autofree char *name = pre != NULL ? g_strdup (pre)
                                      : llm_gguf_get_string (gguf, KEY_PRE, TRUE, &local_error);
  const LlmPretokenizerRules *rules = name != NULL ? llm_pretokenizer_find_rules (name) : NULL;
  g_autofree char *known = NULL;
  g_autofree char *shown = NULL;

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  if (rules != NULL)
    return rules;

  shown = name != NULL ? llm_utf8_shorten (name) : g_strdup ("");
  if (unknown != NULL)
    {
      *unknown = g_steal_pointer (&shown);
      return llm_pretokenizer_find_rules ("default");
    }
  known = llm_pretokenizer_list_names ();
  if (name != NULL)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s: %s is “%s”; a wrong one would spoil every text, so this model is not "
                          "used unless allow-unknown-tokenizer is on. Known are %s", gguf->path,
                          KEY_PRE, shown, known);
  return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                        "%s: %s is missing; a wrong one would spoil every text, so this model is not "
                        "used unless allow-unknown-tokenizer is on. Known are %s", gguf->path, KEY_PRE,
                        known);
}

static LlmCodec *
new_codec (LlmGguf                     *gguf,
           Kind                         kind,
           const LlmVocab              *vocab,
           const LlmPretokenizerRules  *rules,
           GError                     **error)
{
  switch (kind)
    {
    case KIND_BPE:
      return llm_bpe_new (gguf, vocab, rules, error);
    case KIND_WPM:
      return llm_wpm_new (gguf, vocab, error);
    case KIND_SPM:
    default:
      return llm_spm_new (gguf, vocab, error);
    }
}

static LlmTokenizer *
new_tokenizer (LlmGguf   *gguf,
               gboolean   allows_unknown,
               GError   **error)
{
  guint model = read_model (gguf, error);
  g_autoptr(LlmTokenizer) self = NULL;
  const LlmPretokenizerRules *rules = NULL;
  LlmTokenizerPrivate *priv;
  Kind kind;

  if (model == G_N_ELEMENTS (models))
    return NULL;

  kind = models[model].kind;
  self = g_new0 (LlmTokenizer, 1);
  priv = self->priv = g_new0 (LlmTokenizerPrivate, 1);
  if (kind == KIND_BPE)
    {
      rules = read_rules (gguf, models[model].pre, allows_unknown ? &self->unknown_rules : NULL,
                          error);
      if (rules == NULL)
        return NULL;
    }
  priv->vocab = llm_vocab_new (gguf, kind != KIND_BPE || rules->has_characters, error);
  if (priv->vocab != NULL)
    priv->codec = new_codec (gguf, kind, priv->vocab, rules, error);
  if (priv->codec == NULL ||
      !llm_gguf_get_bool (gguf, "tokenizer.ggml.add_bos_token", &priv->codec->adds_bos,
                          &self->adds_bos, error) ||
      !llm_gguf_get_bool (gguf, "tokenizer.ggml.add_eos_token", &priv->codec->adds_eos,
                          &self->adds_eos, error))
    return NULL;

  self->n_tokens = priv->vocab->n_tokens;
  self->bos = priv->vocab->bos;
  self->eos = priv->vocab->eos;
  self->adds_bos = self->adds_bos && self->bos >= 0;
  self->adds_eos = self->adds_eos && self->eos >= 0;
  self->swallows_spaces = is_phi3 (gguf);
  collect_special (priv);
  return g_steal_pointer (&self);
}

LlmTokenizer *
llm_tokenizer_new (LlmGguf  *gguf,
                   GError  **error)
{
  return new_tokenizer (gguf, FALSE, error);
}

LlmTokenizer *
llm_tokenizer_new_with_any_rules (LlmGguf  *gguf,
                                  GError  **error)
{
  return new_tokenizer (gguf, TRUE, error);
}

void
llm_tokenizer_free (LlmTokenizer *self)
{
  LlmTokenizerPrivate *priv;

  if (self == NULL)
    return;
  priv = self->priv;
  llm_special_set_clear (&priv->controls);
  llm_special_set_clear (&priv->defined);
  g_clear_pointer (&priv->codec, llm_codec_free);
  g_clear_pointer (&priv->vocab, llm_vocab_free);
  g_free (priv);
  g_free (self->unknown_rules);
  g_free (self);
}

gboolean
llm_tokenizer_ends_answer (LlmTokenizer *self,
                           gint32        id)
{
  const GArray *endings = self->priv->vocab->endings;

  for (guint i = 0; i < endings->len; i++)
    if (g_array_index (endings, gint32, i) == id)
      return TRUE;
  return FALSE;
}

gboolean
llm_tokenizer_is_control (LlmTokenizer *self,
                          gint32        id)
{
  return id >= 0 && id < (gint32) self->n_tokens &&
         llm_vocab_is_control (self->priv->vocab, id);
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

  find_special (self, &self->priv->defined, text, start, end, end, found);
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

      at = find_special (self, &self->priv->controls, text->str, MAX (at, markup->start), markup->end,
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
llm_tokenizer_encode (LlmTokenizer      *self,
                      const LlmTextPart *parts,
                      guint              n_parts,
                      gboolean           add_special,
                      GArray            *ids)
{
  g_autoptr(GArray) markups = g_array_new (FALSE, FALSE, sizeof (Markup));
  g_autoptr(GString) text = join_parts (parts, n_parts, markups);
  g_autoptr(GArray) fragments = NULL;
  const LlmCodec *codec = self->priv->codec;
  gboolean behind_special = TRUE;
  guint64 n_steps;

  g_return_val_if_fail (text->len <= LLM_MERGER_MAX_TEXT, 0);

  n_steps = text->len;
  fragments = cut_text (self, text, markups);
  if (add_special && self->adds_bos)
    g_array_append_val (ids, self->bos);
  for (guint i = 0; i < fragments->len; i++)
    {
      const LlmFragment *fragment = &g_array_index (fragments, LlmFragment, i);
      const char *start = text->str + fragment->start;
      gsize length = fragment->end - fragment->start;

      if (fragment->id >= 0)
        g_array_append_val (ids, fragment->id);
      else
        n_steps += codec->encode (codec, start, length, behind_special, ids);
      behind_special = fragment->id >= 0;
    }
  if (add_special && self->adds_eos)
    g_array_append_val (ids, self->eos);
  return n_steps;
}

gboolean
llm_tokenizer_can_infill (LlmTokenizer *self)
{
  const gint32 *markers = self->priv->vocab->infill;

  return markers[LLM_INFILL_PREFIX] >= 0 && markers[LLM_INFILL_SUFFIX] >= 0
         && markers[LLM_INFILL_MIDDLE] >= 0;
}

void
llm_tokenizer_encode_infill (LlmTokenizer *self,
                             const char   *prefix,
                             const char   *suffix,
                             GArray       *ids)
{
  const gint32 *markers = self->priv->vocab->infill;
  const LlmTextPart parts[] = { { prefix, strlen (prefix), FALSE },
                                { suffix, strlen (suffix), FALSE } };

  g_return_if_fail (llm_tokenizer_can_infill (self));

  if (self->adds_bos)
    g_array_append_val (ids, self->bos);
  g_array_append_val (ids, markers[LLM_INFILL_PREFIX]);
  llm_tokenizer_encode (self, &parts[0], 1, FALSE, ids);
  g_array_append_val (ids, markers[LLM_INFILL_SUFFIX]);
  llm_tokenizer_encode (self, &parts[1], 1, FALSE, ids);
  g_array_append_val (ids, markers[LLM_INFILL_MIDDLE]);
}

void
llm_tokenizer_decode_token (LlmTokenizer *self,
                            gint32        id,
                            gboolean      show_control,
                            GString      *out)
{
  g_return_if_fail (id >= 0 && id < (gint32) self->n_tokens);

  if (show_control || !llm_tokenizer_is_control (self, id))
    self->priv->codec->decode (self->priv->codec, id, out);
}
