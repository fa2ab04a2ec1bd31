/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "decoding/draft/llm-draft-decoder.h"

#include "base/llm-clock.h"

/* Tokens that the balance of a source may be below and above 0, and answers that are skipped at
 * most when it is at the lower end. */
#define MOST_LOST  8
#define MOST_WON   16
#define MAX_SKIP   64
/* Steps that reading the prompt may take, and how many more for each token that earlier answers
 * have won. */
#define MAX_READ  1.0
#define READ_PART 0.25
/* What an answer begins with less for each token that earlier ones have lost, and at least. What
 * they have won is not risked: this one may be short. */
#define CREDIT_PART 0.0625
#define MIN_CREDIT  0.125

/* Of the time of a step, that guesses for the next one may hold it up. */
#define AHEAD_PART 0.03
/* A step that waits is asked after so much of a draft step whether it may go on. */
#define AHEAD_US   1000

typedef struct
{
  LlmDecoder parent;
  LlmDecoder *chooser;      /* (owned) */
  LlmDraftSource *source;   /* (owned) */
  LlmDraftRecord *record;   /* (nullable) (owned) */
  LlmDraftGrowth growth;    /* of the next tree */
  LlmDraftTree tree;        /* that was proposed last; empty: none since it was learned from */
  guint node;               /* of it, that is right so far; LLM_DRAFT_NONE: behind its end */
  guint at;                 /* node of the growth that the text has come to, or LLM_DRAFT_NONE */
  guint ahead;              /* node whose draft step was begun while a step waited, or
                             * LLM_DRAFT_NONE */
  guint late;               /* node whose continuations are pending, or LLM_DRAFT_NONE */
  guint n_prompt;
  gboolean has_costs;       /* it was seen what steps cost */
  gboolean is_off;          /* this answer has no guesses */
  gboolean is_begun;        /* the growth is that of the text as it is */
} DraftDecoder;

/* Whether this answer has no guesses, as those of earlier ones have cost more than they brought. */
static gboolean
skips (LlmDraftRecord *record)
{
  LlmDraftAccount *account = &record->account;

  if (account->n_skipped > 0)
    {
      account->n_skipped--;
      return TRUE;
    }
  if (account->balance > -MOST_LOST)
    return FALSE;
  account->n_skip = CLAMP (2 * account->n_skip, 4, MAX_SKIP);
  account->n_skipped = account->n_skip - 1;
  account->balance = 0;
  return TRUE;
}

/* Whether a source would read the prompt for longer than its guesses are likely to make good. */
static gboolean
reads_too_long (const DraftDecoder  *self,
                const LlmDraftCosts *costs)
{
  double plain_us = MAX (MAX (costs->read_us, costs->verify_us[1]), 1);

  return self->record != NULL
         && self->n_prompt * self->record->text_us / plain_us
              > MAX_READ + READ_PART * MAX (self->record->account.balance, 0);
}

static void
note_tree (DraftDecoder *self)
{
  LlmDraftRecord *record = self->record;
  const LlmDraftCosts *costs = &self->growth.costs;
  double read = self->source->text_us / MAX (MAX (costs->read_us, costs->verify_us[1]), 1);

  self->source->text_us = 0;
  record->account.balance = CLAMP (record->account.balance + self->growth.surplus - read,
                                   -MOST_LOST, MOST_WON);
  if (record->account.balance == MOST_WON)
    record->account.n_skip = 0;
}

static void
begin (LlmDecoder   *decoder,
       const gint32 *prompt,
       guint         n_prompt)
{
  DraftDecoder *self = (DraftDecoder *) decoder;

  if (self->record != NULL)
    {
      llm_draft_record_begin (self->record);
      self->growth.credit =
        MAX (LLM_GROWTH_CREDIT + CREDIT_PART * MIN (self->record->account.balance, 0), MIN_CREDIT);
    }
  self->chooser->class->begin (self->chooser, prompt, n_prompt);
  self->n_prompt = n_prompt;
  self->is_off = self->record != NULL && skips (self->record);
  if (self->is_off)
    return;
  self->source->class->begin (self->source, prompt, n_prompt);
}

static gint32
consume (LlmDecoder  *decoder,
         const float *logits,
         GError     **error)
{
  DraftDecoder *self = (DraftDecoder *) decoder;
  gint32 token = self->chooser->class->consume (self->chooser, logits, error);
  guint child = LLM_DRAFT_NONE;

  if (token < 0 || self->is_off)
    return token;
  self->source->class->accept (self->source, token);
  if (self->tree.n > 0)
    child = llm_draft_tree_find_child (&self->tree, self->node, token);
  if (child != LLM_DRAFT_NONE)
    self->node = child;
  else if (self->tree.n > 0)
    {
      llm_draft_growth_learn (&self->growth, &self->tree, self->node);
      if (self->record != NULL)
        note_tree (self);
      self->tree.n = 0;
    }
  if (self->at != LLM_DRAFT_NONE)
    self->at = llm_draft_growth_find_child (&self->growth, self->at, token);
  self->is_begun = FALSE;
  return token;
}

/* Asks for the continuations of a node before the tree's step needs them. */
static LlmStatus
expand_ahead (DraftDecoder *self,
              guint         node,
              gint64        until_us)
{
  LlmDraftCandidate candidates[LLM_DRAFT_MAX_CANDIDATES];
  LlmStatus status;
  guint n;

  self->source->until_us = until_us;
  status = self->source->class->expand (self->source, &self->growth, node, candidates, &n);
  self->source->until_us = 0;
  if (status == LLM_READY)
    llm_draft_growth_expand (&self->growth, node, candidates, n);
  else
    self->growth.nodes[node].is_asked = FALSE;
  return status;
}

/* A draft step that was begun ahead is ended if its node is one of the next tree. Returns the
 * time that this took. @numbers: of that tree, updated. */
static double
end_ahead (DraftDecoder *self,
           guint        *numbers)
{
  guint node = self->ahead;
  gint64 begin_us = llm_clock_now_us ();

  if (node == LLM_DRAFT_NONE || numbers[node] == LLM_DRAFT_NONE)
    return 0;
  self->growth.is_ahead = self->growth.nodes[node].is_asked = TRUE;
  expand_ahead (self, node, 0);
  llm_draft_growth_number (&self->growth, self->at, numbers);
  return (double) (llm_clock_now_us () - begin_us);
}

/* The tree that follows the text as it is: what is known of it from before stays. */
static void
begin_tree (DraftDecoder        *self,
            const LlmDraftCosts *costs)
{
  LlmDraftCosts all = *costs;
  guint numbers[LLM_GROWTH_MAX_NODES];
  double late_us = 0;

  all.draft_us = self->source->step_us;
  if (self->late != LLM_DRAFT_NONE)
    self->growth.nodes[self->late].is_asked = FALSE;
  if (self->at != LLM_DRAFT_NONE && self->at > 0 && self->growth.config.goes_ahead
      && self->source->class->keep != NULL)
    {
      llm_draft_growth_number (&self->growth, self->at, numbers);
      late_us = end_ahead (self, numbers);
      self->source->class->keep (self->source, &self->growth, self->at, numbers);
      llm_draft_growth_keep (&self->growth, &all, self->at);
    }
  else
    llm_draft_growth_begin (&self->growth, &all);
  self->growth.late_us = late_us;
  self->at = 0;
  self->ahead = self->late = LLM_DRAFT_NONE;
  self->is_begun = TRUE;
}

/* What is pending does not hold up the step: it has the guesses that are there. */
static void
draft (LlmDecoder          *decoder,
       const LlmDraftCosts *costs)
{
  DraftDecoder *self = (DraftDecoder *) decoder;
  LlmDraftCandidate candidates[LLM_DRAFT_MAX_CANDIDATES];
  double spent_us;
  guint node, n;

  if (!self->has_costs)
    self->is_off = self->is_off || reads_too_long (self, costs);
  self->has_costs = TRUE;
  if (self->is_off)
    return;
  if (!self->is_begun)
    begin_tree (self, costs);
  spent_us = self->source->spent_us;
  node = self->late != LLM_DRAFT_NONE ? self->late : llm_draft_growth_next (&self->growth);
  while (node != LLM_DRAFT_NONE
         && self->source->class->expand (self->source, &self->growth, node, candidates, &n)
              == LLM_READY)
    {
      llm_draft_growth_expand (&self->growth, node, candidates, n);
      if (self->source->spent_us > spent_us)
        self->growth.late_us += self->source->spent_us - spent_us - self->growth.costs.draft_us;
      spent_us = self->source->spent_us;
      node = llm_draft_growth_next (&self->growth);
    }
  self->late = node;
  self->parent.n_rows = llm_draft_growth_count_rows (&self->growth);
}

static gboolean
draft_ahead (LlmDecoder *decoder,
             double      late_us)
{
  DraftDecoder *self = (DraftDecoder *) decoder;
  const LlmDraftCosts *costs = &self->growth.costs;
  gint64 until_us;
  LlmStatus status;
  guint node;

  if (self->is_off || !self->is_begun || self->tree.n == 0 || self->late != LLM_DRAFT_NONE
      || self->source->class->keep == NULL
      || late_us + MIN (self->source->step_us, AHEAD_US)
           > AHEAD_PART * MAX (costs->read_us, costs->verify_us[1]))
    return FALSE;
  node = llm_draft_growth_next_ahead (&self->growth, self->tree.max_depth);
  if (node == LLM_DRAFT_NONE)
    return FALSE;
  until_us = llm_clock_now_us () + AHEAD_US;
  status = expand_ahead (self, node, until_us);
  self->ahead = status == LLM_PENDING ? node : LLM_DRAFT_NONE;
  /* one that waits itself is no work */
  return status == LLM_READY || (status == LLM_PENDING && llm_clock_now_us () >= until_us);
}

static void
propose (LlmDecoder   *decoder,
         LlmDraftTree *tree)
{
  DraftDecoder *self = (DraftDecoder *) decoder;

  self->chooser->class->propose (self->chooser, tree);
  if (self->is_off)
    return;
  self->parent.n_kept = self->is_begun ? llm_draft_growth_fill (&self->growth, tree) : 0;
  self->tree = *tree;
  self->node = 0;
}

static void
release (LlmDecoder *decoder)
{
  DraftDecoder *self = (DraftDecoder *) decoder;

  if (self->source->class->release != NULL)
    self->source->class->release (self->source);
}

static void
draft_free (LlmDecoder *decoder)
{
  DraftDecoder *self = (DraftDecoder *) decoder;

  llm_decoder_free (self->chooser);
  self->source->class->free (self->source);
  g_clear_pointer (&self->record, llm_draft_record_unref);
  g_free (self);
}

LlmDecoder *
llm_decoder_new_drafting (LlmDecoder            *chooser,
                          LlmDraftSource        *source,
                          const LlmGrowthConfig *config,
                          LlmDraftRecord        *record)
{
  static const LlmDecoderClass class = {
    .begin = begin,
    .draft = draft,
    .draft_ahead = draft_ahead,
    .propose = propose,
    .consume = consume,
    .release = release,
    .free = draft_free,
  };
  DraftDecoder *self = g_new0 (DraftDecoder, 1);

  self->parent = (LlmDecoder) { .class = &class, .n_rows = 1 };
  self->chooser = chooser;
  self->source = source;
  self->at = self->ahead = self->late = LLM_DRAFT_NONE;
  llm_draft_growth_init (&self->growth, config);
  if (record != NULL)
    source->record = self->record = llm_draft_record_ref (record);
  return &self->parent;
}
