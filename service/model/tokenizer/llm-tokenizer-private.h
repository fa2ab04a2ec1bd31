/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the files of the tokenizer share, and what its tests look at.
 * See llm-tokenizer.h for owners and threads.
 */

#pragma once

#include "model/tokenizer/llm-merger.h"
#include "model/tokenizer/llm-pretokenizer.h"
#include "model/tokenizer/llm-special.h"
#include "model/tokenizer/llm-tokenizer.h"
#include "model/tokenizer/llm-vocab.h"

G_BEGIN_DECLS

typedef struct _LlmSpm LlmSpm;
typedef struct _LlmBpe LlmBpe;

/* WordPiece. */
typedef struct
{
  LlmSpecialSet pieces;
  gint32 unknown;
} LlmWpm;

/* SentencePiece: scores by id, and the tokens that stand for bytes. */
struct _LlmSpm
{
  const LlmVocab *vocab;
  guint32 *ranks;             /* by id; the best score has the smallest */
  gint32 byte_ids[256];
  gboolean adds_space_prefix;
};

LlmSpm *llm_spm_new    (LlmGguf         *gguf,
                        const LlmVocab  *vocab,
                        GError         **error) G_GNUC_WARN_UNUSED_RESULT;
void    llm_spm_free   (LlmSpm          *self);
/* @behind_special: at the start, or behind a token that splits. Returns the steps it took. */
guint64 llm_spm_encode (const LlmSpm    *self,
                        const char      *text,
                        gsize            length,
                        gboolean         behind_special,
                        GArray          *ids);
void    llm_spm_decode (const LlmSpm    *self,
                        gint32           id,
                        GString         *out);

LlmBpe *llm_bpe_new    (LlmGguf         *gguf,
                        const LlmVocab  *vocab,
                        GError         **error) G_GNUC_WARN_UNUSED_RESULT;
void    llm_bpe_free   (LlmBpe          *self);
const LlmPretokenizer *
        llm_bpe_get_pretokenizer (const LlmBpe *self);
guint64 llm_bpe_encode (const LlmBpe    *self,
                        const char      *text,
                        gsize            length,
                        GArray          *ids);
void    llm_bpe_decode (const LlmBpe    *self,
                        gint32           id,
                        GString         *out);

LlmWpm *llm_wpm_new    (LlmGguf         *gguf,
                        const LlmVocab  *vocab,
                        GError         **error) G_GNUC_WARN_UNUSED_RESULT;
void    llm_wpm_free   (LlmWpm          *self);
guint64 llm_wpm_encode (const LlmWpm    *self,
                        const char      *text,
                        gsize            length,
                        GArray          *ids);
void    llm_wpm_decode (const LlmWpm    *self,
                        gint32           id,
                        GString         *out);

/* llm_tokenizer_encode(), which also tells how many steps it took: characters
 * looked at, look-ups and moves within heaps. */
guint64 llm_tokenizer_encode_counting (LlmTokenizer      *self,
                                       const LlmTextPart *parts,
                                       guint              n_parts,
                                       gboolean           add_special,
                                       GArray            *ids);

/* Whether spaces behind special tokens are lost, so that none need be written. */
gboolean llm_tokenizer_swallows_spaces (LlmTokenizer     *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmSpm, llm_spm_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmBpe, llm_bpe_free)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmWpm, llm_wpm_free)

G_END_DECLS
