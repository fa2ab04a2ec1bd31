/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Which sub-model computes a request (E1, E7, E9). It is decided at admission, from the cached part
 * of its prompt and the queue, and again before its first row, from the time that has passed. Only
 * a request with latency targets of its own has a choice. */

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
take_sparsity (LlmRequest *request)
{
  const LlmThresholds *thresholds = request->runner->instance->plan->config.thresholds;
  const LlmLevels *levels = request->runner->instance->weights->levels;
  guint place;

  if (request->model.sparsity == 0 || thresholds == NULL)
    return;
  request->result.sparsity = llm_thresholds_choose (thresholds, request->model.sparsity);
  if (request->result.sparsity == 0)
    return;
  place = llm_thresholds_find (thresholds, request->result.sparsity);
  request->own_state = llm_row_state_sparse (place);
  if (levels != NULL)
    request->result.sparse_quality = llm_companion_get_sparse_quality (levels->companion, place);
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

void
llm_request_set_lacking (LlmRequest *request,
                         guint       lacking)
{
  const LlmSubModels *table = get_table (request);
  const LlmLevels *levels = request->runner->instance->weights->levels;

  request->own_state = llm_row_state (lacking);
  request->model.level = table->n_levels - 1 - lacking;
  set_states (request, request->states, lacking);
  request->result.sub_model = table->percent[request->model.level];
  request->result.sub_model_quality =
    llm_quality_get (levels != NULL ? levels->companion->quality : NULL, table->n_levels,
                     request->model.level);
  take_sparsity (request);
  if (request->entry.scheduler != NULL)
    llm_sched_entry_set_lacking (&request->entry, lacking);
  else
    request->entry.lacking = lacking;
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
         && find_lacking (request, request->model.least_sub_model)
              > find_lacking (request, request->model.sub_model);
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

/* Fills in the levels that the request allows, each with the tokens that would be cached for it. */
static guint
choose (LlmRequest *request,
        gboolean    is_queued,
        gboolean    may_share)
{
  const LlmSchedEntry *entry = &request->entry;
  const LlmSubModels *table = get_table (request);
  const LlmLevels *levels = request->runner->instance->weights->levels;
  LlmScheduler *scheduler = request->runner->scheduler;
  guint most = find_lacking (request, request->model.least_sub_model);
  double losses[LLM_MAX_LEVELS] = { 0 };
  LlmStrategy strategies[LLM_MAX_LEVELS];
  LlmStrategyLimits limits;
  double whole_us, whole_token_us;
  guint n = 0;

  llm_request_price_whole (request, &whole_us, &whole_token_us);
  find_limits (request, whole_us, whole_token_us, &limits);
  if (levels != NULL)
    memcpy (losses, levels->companion->losses, sizeof losses);
  llm_strategy_sort_losses (losses, table->n_levels);
  for (guint lacking = find_lacking (request, request->model.sub_model); lacking <= most; lacking++)
    {
      guint level = table->n_levels - 1 - lacking;
      LlmSchedEntry like = *entry;
      LlmStrategy *strategy = &strategies[n++];

      /* after the window slid, or while rows wait, the level does not change */
      if (lacking != entry->lacking && !is_queued
          && llm_request_get_n_slid (request, request->prompt->len) == 0)
        {
          like.depth = count_known (request, lacking, may_share);
          like.n_prompt = request->prompt->len - (guint) like.depth;
          like.restore_bytes = 0;
        }
      like.lacking = lacking;
      *strategy = (LlmStrategy) {
        .prompt_level = 100,
        .sub_model = table->percent[level],
        .loss = losses[level],
        .wait_us = find_wait (request, &like, is_queued),
      };
      llm_scheduler_price (scheduler, &like, lacking, &strategy->alone_us, &strategy->token_us);
    }
  return find_lacking (request, strategies[llm_strategy_choose (strategies, n, &limits)].sub_model);
}

guint
llm_request_choose_lacking (LlmRequest *request,
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
    llm_request_set_lacking (request, choose (request, TRUE, FALSE));
}
