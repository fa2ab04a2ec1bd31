/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Where guesses come from: what may follow a node of a draft tree, with probabilities. Sources: the
 * context's own text (llm-lookup-source.h); a smaller model (runtime/llm-draft-model.h), or less of the same one
 * (runtime/llm-own-draft.h). A source
 * knows the text by begin() and accept(); nodes are guesses, and what it has of those that were not
 * accepted ends with the next accept(), but for what keep() keeps. It belongs to one decoder and to
 * the executor's thread.
 */

#pragma once

#include "base/llm-status.h"
#include "decoding/draft/llm-draft-growth.h"

G_BEGIN_DECLS

typedef struct _LlmDraftSource LlmDraftSource;

typedef struct
{
  /* Called once, before all else. */
  void      (*begin)  (LlmDraftSource       *self,
                       const gint32         *prompt,
                       guint                 n_prompt);
  /* The answer has a token more. */
  void      (*accept) (LlmDraftSource       *self,
                       gint32                token);
  /* (nullable): where guesses are worth keeping. The text has gone on to @node of @growth, the tree
   * that was asked for last: it becomes the root, and others the nodes that @numbers says
   * (llm_draft_growth_number()). */
  void      (*keep)   (LlmDraftSource       *self,
                       const LlmDraftGrowth *growth,
                       guint                 node,
                       const guint          *numbers);
  /* The likeliest tokens behind @node of @growth, whose root stands for all of the text: different
   * ones, falling confidence, at most LLM_DRAFT_MAX_CANDIDATES in @candidates; @n may be 0.
   * PENDING:
   * they are being computed, ask again; nothing was filled in. */
  LlmStatus (*expand) (LlmDraftSource       *self,
                       const LlmDraftGrowth *growth,
                       guint                 node,
                       LlmDraftCandidate    *candidates,
                       guint                *n);
  /* (nullable): the call is preempted, or ends: gives back what of its KV cache it uses. */
  void      (*release) (LlmDraftSource      *self);
  void      (*free)   (LlmDraftSource       *self);
} LlmDraftSourceClass;

struct _LlmDraftSource
{
  const LlmDraftSourceClass *class;
  gint64 until_us;     /* expand() may be PENDING behind it, with the continuations of @node
                        * computed in part: it goes on when it's called with @node again; 0: it's
                        * not cut short */
  double step_us;      /* of one expand(): measured, or known to be little */
  double spent_us;     /* on all expand() of nodes, where that is measured */
  double text_us;      /* spent on the text beyond that, since the decoder has last set it to 0 */
  LlmDraftRecord *record; /* (nullable) (unowned): set before begin(); keeps what it learns */
};

G_END_DECLS
