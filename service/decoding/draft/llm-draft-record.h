/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Acceptance of one source's drafts for one model, over all answers, so that short answers profit
 * from earlier ones. The learned figures are the executor's thread's, where decoders run; the
 * counts are the main thread's.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Tokens of a text that are compared, at most (llm-lookup-source.h). */
#define LLM_LOOKUP_MAX_LENGTH 16

/* Whether it pays to guess for an answer at all: a source may have to read the prompt first. */
typedef struct
{
  double balance;               /* tokens that answers have won by guesses, less what reading took;
                                 * bounded on both sides */
  guint n_skip;                 /* answers without guesses when that fell too low: more each time */
  guint n_skipped;              /* of them left */
} LlmDraftAccount;

/* How often what followed earlier is right, by how many tokens before it were the same. */
typedef struct
{
  gboolean is_begun;            /* FALSE: nothing is known */
  double right[LLM_LOOKUP_MAX_LENGTH + 1];
  guint n_seen[LLM_LOOKUP_MAX_LENGTH + 1];
} LlmLookupLearned;

typedef struct
{
  LlmDraftAccount account;
  LlmLookupLearned lookup;
  double step_us;               /* of a draft step; 0: none was measured */
  double text_us;               /* of reading a token of the text, many at a time; likewise */
  gboolean has_stepped;         /* they were measured since an answer began last */
  gboolean has_read;

  guint64 n_drafted;            /* guesses that were verified, of answers that ended */
  guint64 n_accepted;           /* of them right */
  guint64 n_passes;             /* steps of decode in which they were */
} LlmDraftRecord;

/* The usual time of a step whose usual time was @usual_us, 0 before the first, and which now took
 * @us. One that something else held up says little: with its time, drafting would end for long. */
double          llm_draft_usual_time   (double          usual_us,
                                        double          us);

/* An answer begins. What the last one measured none of is believed half as much: a source that
 * was slow once, its weights not being in memory, would else never be asked again. */
void            llm_draft_record_begin (LlmDraftRecord *self);

LlmDraftRecord *llm_draft_record_new   (void);
LlmDraftRecord *llm_draft_record_ref   (LlmDraftRecord *self);
void            llm_draft_record_unref (LlmDraftRecord *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (LlmDraftRecord, llm_draft_record_unref)

G_END_DECLS
