/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What finds scales for W8A8 on a text and measures what they cost in accuracy. The only thread of a
 * tool.
 */

#pragma once

#include "backends/llm-backend-w8.h"
#include "tool/llm-measure.h"

/* A model and a text; all of it (unowned). Windows as llm_perplexity_run() has them, which scores
 * n_ctx / 2 - 1 tokens of each. */
typedef struct
{
  const LlmHparams *hparams;
  LlmWeights *weights;          /* as the file has them */
  LlmKvStore *store;
  LlmWorkerPool *pool;
  const LlkOps *kernels;
  const gint32 *tokens;
  guint n_tokens;
  guint n_ctx;                  /* of a window */
  guint n_scored;               /* of these, at the end, whose next token is known */
  guint n_windows;              /* at most */
  gint32 bos;                   /* -1 for none */
} LlmW8Lab;

typedef struct
{
  double nll;
  double divergence;            /* mean, from the reference */
  guint64 n_scored;
} LlmW8Score;

/* Windows that the text has, at most n_windows. */
guint    llm_w8_lab_count_windows (const LlmW8Lab *lab);
/* Floats of a reference. */
gsize    llm_w8_lab_get_reference_size (const LlmW8Lab *lab);
/* Scores the text, computed by @device (nullable) where it can. @reference (nullable): logits that
 * are compared with, or that are written with @is_reference. */
gboolean llm_w8_lab_score         (const LlmW8Lab *lab,
                                   LlmBackend     *device,
                                   float          *reference,
                                   gboolean        is_reference,
                                   LlmW8Score     *score,
                                   GError        **error);

/* Scores the text by @device and exactly, window by window: nothing of it is held. @on_run
 * (nullable): called after each window. */
gboolean llm_w8_lab_compare         (const LlmW8Lab *lab,
                                   LlmBackend     *device,
                                   void          (*on_run) (guint n),
                                   LlmW8Score     *exact,
                                   LlmW8Score     *score,
                                   GError        **error);

/* --- llm-w8-search.c --- */

/* (transfer full): LlmW8Site.hot_of for the largest of the @n channels' @maxima. */
guint16 *llm_w8_find_hot (const float *maxima,
                            guint        n);

typedef struct
{
  guint n_sites;
  LlmW8Site *sites;             /* (owned), as what follows, each [n_sites]: pruned */
  float *scales[2];             /* without a shadow, and with one */
  float *largest;               /* magnitude at the site */
  float **maxima;               /* (owned): of each channel */
  guint16 **hot;                /* (owned): those with the largest maxima, as LlmW8Site has them */
  double *importances;          /* what the divergence grows by without the site's shadow */

  double quantiles[LLM_W8_N_KINDS]; /* of magnitudes, that the latter reach */
  double shadow_share;          /* products of floats beside those of int8, with all shadows */
  guint n_pruned;               /* sites without a shadow: the most that the limit allows */
  double exact_nll;
  LlmW8Score shadow, pruned;    /* with all shadows, and with those that are left */
} LlmW8Findings;

/* @most: what the divergence of the cheapest scales may be on the text, also with sites pruned. @on_run (nullable): called after
 * each run over the text. Fails for a model without such sites. */
LlmW8Findings *llm_w8_lab_search        (const LlmW8Lab   *lab,
                                           double            most,
                                           void            (*on_run) (guint n),
                                           GError          **error);
void              llm_w8_findings_free (LlmW8Findings *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmW8Findings, llm_w8_findings_free)
