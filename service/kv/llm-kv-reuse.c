/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "kv/llm-kv-reuse.h"

#include <math.h>

/* Weight of a call falls by this factor with each later call: about the last thousand count. */
#define DECAY (1 - 1 / 1024.0)
/* The same for the evidence of the predictors: about the last 200 calls count. */
#define EVIDENCE_DECAY 0.995
/* Chances that differ by less count as equal, and then the last use decides. */
#define STEP 1.3
/* Prior calls of a context before it was first seen. */
#define PRIOR_CALLS 1.0
/* Prior calls of the recency predictor, falling as 1 / (1 + contexts between). */
#define PRIOR_RECENT 2.0
/* Lower bound of the chance, relative to the context called last. */
#define LEAST_DECAY 1e-6
/* Weight of the last call in a context's mean prompt length. */
#define NEWEST_PART 0.25

/* --- what is known of a context --- */

static double
decay (guint64 calls)
{
  return pow (DECAY, (double) calls);
}

static double
get_calls (const LlmKvHistory *self,
           guint64             now)
{
  return self->n_calls * decay (now - self->counted);
}

/* Rate of a context's calls among all calls, not normalized. */
static double
get_frequency (const LlmKvHistory *self,
               guint64             now,
               guint               n)
{
  double age = (1 - decay (now - self->first)) / (1 - DECAY);

  return (get_calls (self, now) + PRIOR_CALLS) / (age + PRIOR_CALLS * n);
}

/* --- recency --- */

static guint
find_bin (guint rank)
{
  guint width;

  if (rank < 4)
    return rank;
  width = g_bit_storage (rank) - 2;
  return MIN (2 * width + (rank >> width & 1) + 2, LLM_KV_REUSE_BINS - 1);
}

/* The contexts in a bin share its count; of equals the older one is slightly less likely. */
static double
get_recency (const LlmKvReuseModel *self,
             guint                  rank,
             const guint           *sizes)
{
  guint bin = find_bin (rank);

  return self->bins[bin] / sizes[bin] + PRIOR_RECENT / (1 + rank) / LLM_KV_REUSE_BINS;
}

/* The factor of a geometric distribution with the observed mean. It predicts contexts that were
 * called long ago better than their few calls do. */
static double
get_decay (const LlmKvReuseModel *self)
{
  double n = 0;

  for (guint i = 0; i < LLM_KV_REUSE_BINS; i++)
    n += self->bins[i];
  return (self->ranks + 1) / (self->ranks + n + 2);
}

/* --- all of them --- */

typedef struct
{
  guint n;
  guint sizes[LLM_KV_REUSE_BINS];      /* contexts in each bin */
  double sums[LLM_KV_REUSE_PREDICTORS];
  double decay;
} Field;

static double
predict (const LlmKvReuseModel *self,
         LlmKvPredictor         predictor,
         const LlmKvReuse      *context,
         guint                  rank,
         const Field           *field)
{
  switch (predictor)
    {
    case LLM_KV_BY_RECENCY:
      return get_recency (self, rank, field->sizes);
    case LLM_KV_BY_DECAY:
      return MAX (pow (field->decay, rank), LEAST_DECAY);
    case LLM_KV_BY_FREQUENCY:
      return get_frequency (&context->history, self->now, field->n);
    case LLM_KV_ALL_ALIKE:
    case LLM_KV_REUSE_PREDICTORS:
    default:
      return 1;
    }
}

static void
look_at_all (LlmKvReuseModel *self,
             Field           *field)
{
  guint rank = 0;

  *field = (Field) { .n = self->contexts.length, .decay = get_decay (self) };
  for (guint i = 0; i < field->n; i++)
    field->sizes[find_bin (i)]++;
  for (GList *l = self->contexts.head; l != NULL; l = l->next, rank++)
    for (LlmKvPredictor i = 0; i < LLM_KV_REUSE_PREDICTORS; i++)
      field->sums[i] += predict (self, i, l->data, rank, field);
}

/* The weight of each predictor. */
static void
weigh (const LlmKvReuseModel *self,
       double                *weights)
{
  double most = 0, sum = 0;

  for (LlmKvPredictor i = 0; i < LLM_KV_REUSE_PREDICTORS; i++)
    most = MAX (most, self->evidence[i]);
  for (LlmKvPredictor i = 0; i < LLM_KV_REUSE_PREDICTORS; i++)
    sum += weights[i] = exp (self->evidence[i] - most);
  for (LlmKvPredictor i = 0; i < LLM_KV_REUSE_PREDICTORS; i++)
    weights[i] /= sum;
}

/* Rounds chances, so that differences by noise alone vanish. */
static double
round_chance (double chance,
              guint  n)
{
  return exp (round (log (chance * n) / log (STEP)) * log (STEP)) / n;
}

void
llm_kv_reuse_estimate (LlmKvReuseModel *self)
{
  double weights[LLM_KV_REUSE_PREDICTORS];
  guint rank = 0;
  Field field;

  if (self->is_known)
    return;
  look_at_all (self, &field);
  weigh (self, weights);
  for (GList *l = self->contexts.head; l != NULL; l = l->next, rank++)
    {
      LlmKvReuse *context = l->data;
      double chance = 0;

      for (LlmKvPredictor i = 0; i < LLM_KV_REUSE_PREDICTORS; i++)
        chance += weights[i] * predict (self, i, context, rank, &field) / field.sums[i];
      context->chance = round_chance (chance, field.n);
    }
  self->is_known = TRUE;
}

/* Updates the evidence: how well each predicted a call, compared with equal chances. */
static void
learn (LlmKvReuseModel  *self,
       const LlmKvReuse *context,
       guint             rank)
{
  Field field;

  look_at_all (self, &field);
  for (LlmKvPredictor i = 0; i < LLM_KV_REUSE_PREDICTORS; i++)
    {
      double chance = predict (self, i, context, rank, &field) / field.sums[i];

      self->evidence[i] = EVIDENCE_DECAY * self->evidence[i] + log (chance * field.n);
    }
  for (guint i = 0; i < LLM_KV_REUSE_BINS; i++)
    self->bins[i] *= DECAY;
  self->bins[find_bin (rank)]++;
  self->ranks = self->ranks * DECAY + rank;
}

void
llm_kv_reuse_call (LlmKvReuseModel *self,
                   LlmKvReuse      *context,
                   guint            n_new)
{
  LlmKvHistory *history = &context->history;

  /* a new context could not be expected */
  if (!context->is_new && self->contexts.length > 1)
    learn (self, context, (guint) g_queue_link_index (&self->contexts, &context->link));
  self->now++;
  context->is_new = FALSE;
  history->n_calls = get_calls (history, self->now) + 1;
  history->counted = self->now;
  history->n_new += (n_new - history->n_new) * (history->n_new > 0 ? NEWEST_PART : 1);
  g_queue_unlink (&self->contexts, &context->link);
  g_queue_push_head_link (&self->contexts, &context->link);
  self->is_known = FALSE;
}

/* --- contexts that come and go --- */

static guint
hash_name (const char *name)
{
  return name != NULL ? MAX (g_str_hash (name), 1) : 0;
}

/* (nullable): the newest kept history of this name, or of the application. */
static LlmKvKept *
find_kept (LlmKvReuseModel *self,
           guint            app,
           guint            id)
{
  guint n = MIN (self->n_kept, LLM_KV_REUSE_KEPT);
  LlmKvKept *found = NULL;

  for (guint i = 1; i <= n && app != 0; i++)
    {
      LlmKvKept *kept = &self->kept[(self->n_kept - i) % LLM_KV_REUSE_KEPT];

      if (kept->app == app && kept->id == id)
        return kept;
      if (kept->app == app && found == NULL)
        found = kept;
    }
  return found;
}

void
llm_kv_reuse_add (LlmKvReuseModel *self,
                  LlmKvReuse      *context,
                  const char      *app,
                  const char      *id)
{
  LlmKvKept *kept = find_kept (self, hash_name (app), hash_name (id));

  *context = (LlmKvReuse) { .app = hash_name (app), .id = hash_name (id), .is_new = TRUE };
  context->link.data = context;
  context->history = (LlmKvHistory) { .counted = self->now, .first = self->now };
  if (kept != NULL)
    {
      context->history = kept->history;
      kept->app = 0;
    }
  g_queue_push_head_link (&self->contexts, &context->link);
  self->is_known = FALSE;
}

void
llm_kv_reuse_remove (LlmKvReuseModel *self,
                     LlmKvReuse      *context)
{
  if (context->app != 0)
    self->kept[self->n_kept++ % LLM_KV_REUSE_KEPT] =
        (LlmKvKept) { context->app, context->id, context->history };
  g_queue_unlink (&self->contexts, &context->link);
  self->is_known = FALSE;
}
