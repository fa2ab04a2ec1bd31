/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which sub-model computes a request, or how much of the weights its answer's rows leave out (E1, E7, E9,
 * A6). It is decided at admission, from the cached part of its prompt and the queue, and again before its
 * first row, from the time that has passed. Only a request with latency targets of its own has a choice.
 * What it gets is named by the state of its rows, see llm_row_state(). */

#define G_LOG_DOMAIN "llm-engine"

#include <string.h>

#include "runtime/llm-executor-private.h"
#include "runtime/llm-executor-residency.h"
#include "runtime/llm-executor-steps.h"
#include "sched/llm-strategy.h"
#include "weights/llm-levels.h"

G_STATIC_ASSERT (LLM_LEVEL_COSTS_MAX >= LLM_MAX_LEVELS);

static const LlmSubModels *
get_table (const LlmRequest *request)
{
  return request->runner->instance->weights->sub_models;
}

static guint
find_lacking (const LlmRequest *request,
              guint             percent)
{
  const LlmSubModels *table = get_table (request);

  return table->n_levels - 1 - llm_sub_models_find_level (table, percent);
}

static const LlmThresholds *
get_thresholds (const LlmRunner *self)
{
  return self->instance->plan->config.thresholds;
}

void
llm_runner_load_levels (LlmRunner *self)
{
  const LlmSubModels *table = self->instance->weights->sub_models;
  const LlmLevels *levels = self->instance->weights->levels;
  LlmLevelCosts *costs = &self->scheduler->levels;

  llm_level_costs_init (costs);
  for (guint level = table->n_levels - 1; level-- > 0;)
    {
      const LlmSubModelCost *own = levels != NULL ? &levels->companion->costs[level] : NULL;
      const LlmSubModelCost *whole =
          levels != NULL ? &levels->companion->costs[table->n_levels - 1] : NULL;

      llm_level_costs_add (costs, table->percent[level],
                           own != NULL ? (double) own->operations / (double) whole->operations : 1,
                           own != NULL ? (double) own->bytes / (double) whole->bytes : 1);
    }
}

/* Decode is sparse; prefill is not. */
static void
take_sparsity (LlmRequest *request,
               guint8      state)
{
  const LlmThresholds *thresholds = get_thresholds (request->runner);
  const LlmLevels *levels = request->runner->instance->weights->levels;
  gboolean is_sparse = llm_row_state_is_sparse (state);
  guint place = is_sparse ? llm_row_state_get_place (state) : 0;

  request->result.sparsity = is_sparse ? thresholds->percent[place] : 0;
  request->result.sparse_quality =
    is_sparse && levels != NULL ? llm_companion_get_sparse_quality (levels->companion, place) : 0;
}

/* Of the prompt's tokens that no earlier turn computed. @states: of all of them. */
static void
set_states (const LlmRequest *request,
            GByteArray       *states,
            guint             lacking)
{
  guint n_settled = request->model.levels != NULL ? request->model.levels->len : 0;
  guint first = MIN (n_settled, states->len);
  guint n_w8 = request->result.is_w8 ? states->len : 0;

  if (request->model.goes_on && llm_runner_has_w8 (request->runner))
    n_w8 = request->model.n_w8;
  memset (states->data + first, llm_row_state (lacking), states->len - first);
  memset (states->data + first, llm_row_state (lacking) | LLM_ROW_W8,
          MIN (n_w8, states->len - first));
}

guint8
llm_request_get_named (const LlmRequest *request)
{
  const LlmThresholds *thresholds = get_thresholds (request->runner);
  guint sparsity = thresholds != NULL ? llm_thresholds_choose (thresholds, request->model.sparsity) : 0;

  return sparsity > 0 ? llm_row_state_sparse (llm_thresholds_find (thresholds, sparsity))
                      : llm_row_state (find_lacking (request, request->model.sub_model));
}

/* What of its answer's rows is not read. */
static guint
find_sparse (const LlmRequest *request,
             guint8            state)
{
  return llm_row_state_is_sparse (state) && llm_weights_are_by_channel (request->runner->instance->weights)
           ? 1 + llm_row_state_get_place (state) : 0;
}

void
llm_request_set_state (LlmRequest *request,
                       guint8      state)
{
  const LlmSubModels *table = get_table (request);
  const LlmLevels *levels = request->runner->instance->weights->levels;
  guint lacking = llm_row_state_get_lacking (state);

  request->own_state = state;
  request->model.level = table->n_levels - 1 - lacking;
  set_states (request, request->states, lacking);
  request->result.sub_model = table->percent[request->model.level];
  request->result.sub_model_quality =
    llm_quality_get (levels != NULL ? levels->companion->quality : NULL, table->n_levels,
                     request->model.level);
  take_sparsity (request, state);
  if (request->entry.scheduler != NULL)
    llm_sched_entry_set_level (&request->entry, lacking, find_sparse (request, state));
  else
    {
      request->entry.lacking = lacking;
      request->entry.sparse = find_sparse (request, state);
    }
}

/* A target of all of the whole model's time allows no smaller model, though the shortest wait makes
 * it late. */
static gboolean
is_part (double share)
{
  return share > 0 && share < 1;
}

gboolean
llm_request_has_choice (const LlmRequest *request)
{
  return (is_part (request->target.ttft_share) || is_part (request->target.tpot_share)
          || is_part (request->target.call_share) || request->target.names_ttft
            || request->target.names_tpot)
         && (find_lacking (request, request->model.least_sub_model)
               > find_lacking (request, request->model.sub_model)
             || request->model.most_sparsity > 0);
}

static void
tighten (double *limit,
         double  us)
{
  *limit = *limit > 0 ? MIN (*limit, us) : us;
}

/* A limit for the whole call is checked for the first token and for the longest answer that it
 * allows, so that it holds for the tokens between, too. Targets in milliseconds do not count while
 * step costs are unknown. */
static void
find_limits (const LlmRequest  *request,
             double             whole_us,
             double             whole_token_us,
             LlmStrategyLimits *limits)
{
  gboolean is_known = llm_cost_model_is_known (&request->runner->scheduler->costs);

  *limits = (LlmStrategyLimits) { 0 };
  if (is_part (request->target.ttft_share))
    limits->first_us = request->target.ttft_share * whole_us;
  else if (request->target.ttft_share <= 0 && request->target.names_ttft && is_known)
    limits->first_us = request->slo.ttft_ms * 1000;
  if (is_part (request->target.tpot_share))
    limits->token_us = request->target.tpot_share * whole_token_us;
  else if (request->target.tpot_share <= 0 && request->target.names_tpot && is_known)
    limits->token_us = request->slo.tpot_ms * 1000;
  if (is_part (request->target.call_share))
    {
      guint n_room = MAX (request->window.n_ctx, request->prompt->len + 1) - request->prompt->len;

      limits->n_further = MIN (MAX (request->max_tokens, 1), n_room) - 1;
      tighten (&limits->first_us, request->target.call_share * whole_us);
      limits->call_us =
        request->target.call_share * (whole_us + limits->n_further * whole_token_us);
    }
}

/* Time from the arrival of a request like @like until its first row. @is_queued: the scheduler
 * knows it, and its turn has come. While step costs are unknown, only their proportions are
 * used. */
static double
find_wait (LlmRequest          *request,
           const LlmSchedEntry *like,
           gboolean             is_queued)
{
  gint64 now_us = llm_clock_now_us ();
  double waited_us = (double) (now_us - request->arrived_us);
  LlmForecast forecast;

  if (!llm_cost_model_is_known (&request->runner->scheduler->costs))
    return 0;
  if (is_queued)
    return waited_us;
  llm_scheduler_forecast (request->runner->scheduler, like, now_us, &forecast);
  return waited_us + MAX (forecast.first_us - forecast.alone_us, 0);
}

void
llm_request_price_whole (const LlmRequest *request,
                         double           *first_us,
                         double           *token_us)
{
  const LlmSchedEntry whole = {
    .n_prompt = request->prompt->len - llm_request_get_n_slid (request, request->prompt->len),
  };

  llm_runner_take_reads (request->runner);
  llm_scheduler_price (request->runner->scheduler, &whole, 0, first_us, token_us);
}

/* How many tokens of the prompt would be cached for a request that lacks @lacking. */
static guint
count_known (LlmRequest *request,
             guint       lacking,
             gboolean    may_share)
{
  g_autoptr(GByteArray) states = g_byte_array_sized_new (request->states->len);
  guint n_max = llm_request_count_reusable (request);
  guint n;

  g_byte_array_append (states, request->states->data, request->states->len);
  set_states (request, states, lacking);
  n = llm_session_count_common (request->session, request->prompt, states, n_max);
  return n == 0 && may_share ? llm_request_count_shareable (request, states, n_max) : n;
}

/* What answers lose by what they go without. Where both are to be compared, it is what they lose of the
 * whole model's quality, and else of the likelihood of text, which tells small losses apart. */
typedef struct
{
  double levels[LLM_MAX_LEVELS];
  double sparsities[LLM_MAX_SPARSITIES];
} Losses;

static void
find_losses (const LlmRequest *request,
             Losses           *losses)
{
  const LlmSubModels *table = get_table (request);
  const LlmLevels *levels = request->runner->instance->weights->levels;
  const LlmThresholds *thresholds = get_thresholds (request->runner);

  *losses = (Losses) { 0 };
  if (levels == NULL)
    return;
  if (request->model.most_sparsity == 0)
    memcpy (losses->levels, levels->companion->losses, sizeof losses->levels);
  else
    for (guint level = 0; level < table->n_levels; level++)
      losses->levels[level] =
        100 - llm_quality_get (levels->companion->quality, table->n_levels, level);
  llm_strategy_sort_losses (losses->levels, table->n_levels);
  /* the model may be another one than that of the call's options by now */
  if (request->model.most_sparsity == 0 || thresholds == NULL)
    return;
  losses->levels[table->n_levels - 1] = 0;
  for (guint place = 0; place < thresholds->n_sparsities; place++)
    losses->sparsities[place] = 100 - llm_companion_get_sparse_quality (levels->companion, place);
}

/* Those of the whole model in which each of the answer's words goes without a part of the weights: only of
 * what is read less for it. */
static guint
add_sparse (const LlmRequest  *request,
            const LlmStrategy *whole,
            const Losses      *losses,
            LlmStrategy       *strategies,
            guint8            *states)
{
  const LlmThresholds *thresholds = get_thresholds (request->runner);
  LlmScheduler *scheduler = request->runner->scheduler;
  LlmSchedEntry like = request->entry;
  guint n = 0;

  if (thresholds == NULL || !llm_weights_are_by_channel (request->runner->instance->weights))
    return 0;
  for (guint place = 0; place < thresholds->n_sparsities
                        && thresholds->percent[place] <= request->model.most_sparsity; place++)
    {
      double alone_us;

      states[n] = llm_row_state_sparse (place);
      strategies[n] = *whole;
      strategies[n].sparsity = thresholds->percent[place];
      strategies[n].loss = losses->sparsities[place];
      like.sparse = place + 1;
      llm_scheduler_price (scheduler, &like, 0, &alone_us, &strategies[n].token_us);
      n++;
    }
  return n;
}

/* Fills in what the request allows, each with the tokens that would be cached for it. */
static guint8
choose (LlmRequest *request,
        gboolean    is_queued,
        gboolean    may_share)
{
  const LlmSchedEntry *entry = &request->entry;
  const LlmSubModels *table = get_table (request);
  LlmScheduler *scheduler = request->runner->scheduler;
  guint least = find_lacking (request, request->model.sub_model);
  guint most = find_lacking (request, request->model.least_sub_model);
  LlmStrategy strategies[LLM_MAX_LEVELS + LLM_MAX_SPARSITIES];
  guint8 states[G_N_ELEMENTS (strategies)];
  Losses losses;
  LlmStrategyLimits limits;
  double whole_us, whole_token_us;
  guint n = 0;

  llm_request_price_whole (request, &whole_us, &whole_token_us);
  find_limits (request, whole_us, whole_token_us, &limits);
  find_losses (request, &losses);
  for (guint lacking = least; lacking <= most; lacking++)
    {
      guint level = table->n_levels - 1 - lacking;
      LlmSchedEntry like = *entry;
      LlmStrategy *strategy = &strategies[n];

      /* after the window slid, or while rows wait, the level does not change */
      if (lacking != entry->lacking && !is_queued
          && llm_request_get_n_slid (request, request->prompt->len) == 0)
        {
          like.depth = count_known (request, lacking, may_share);
          like.n_prompt = request->prompt->len - (guint) like.depth;
          like.restore_bytes = 0;
        }
      like.lacking = lacking;
      like.sparse = 0;
      states[n++] = llm_row_state (lacking);
      *strategy = (LlmStrategy) {
        .prompt_level = 100,
        .sub_model = table->percent[level],
        .loss = losses.levels[level],
        .wait_us = find_wait (request, &like, is_queued),
      };
      llm_scheduler_price (scheduler, &like, lacking, &strategy->alone_us, &strategy->token_us);
    }
  if (least == 0)
    n += add_sparse (request, &strategies[0], &losses, &strategies[n], &states[n]);
  return states[llm_strategy_choose (strategies, n, &limits)];
}

guint8
llm_request_choose_state (LlmRequest *request,
                          gboolean    may_share)
{
  return choose (request, FALSE, may_share);
}

void
llm_request_review_level (LlmRequest *request)
{
  guint n_settled = request->model.levels != NULL ? request->model.levels->len : 0;

  /* cached tokens of the turn keep the level that computed them */
  if (request->times.started_us == 0 && request->entry.n_prompt > 0
      && request->session->tokens->len <= n_settled && llm_request_has_choice (request))
    llm_request_set_state (request, choose (request, TRUE, FALSE));
}
