/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The end of an answer: results for its caller, its context and the statistics. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/calls/llm-engine-calls.h"
#include "engine/calls/llm-generation-private.h"

#include <string.h>

#include "common/llmsvc-error.h"
#include "contexts/llm-request-id.h"

/* The target of the whole call for the length of its answer; 0: none. */
static double
get_call_target_ms (const LlmRequest       *request,
                    const LlmRequestResult *result)
{
  guint n_further = MAX (result->tokens->len, 1) - 1;

  return request->target.call_share * (result->whole_ttft_ms + n_further * result->whole_tpot_ms);
}

static gboolean
is_slo_met (const LlmRequest       *request,
            const LlmRequestResult *result)
{
  double target_ms = get_call_target_ms (request, result);
  guint n_further = MAX (result->tokens->len, 1) - 1;

  return llm_slo_is_met (&result->slo, result->ttft_ms, result->tpot_ms)
         && (target_ms <= 0 || result->ttft_ms + n_further * result->tpot_ms <= target_ms);
}

/* Adds the times of the whole model that fractions refer to. */
static void
add_parts (GVariantDict           *dict,
           const LlmRequest       *request,
           const LlmRequestResult *result)
{
  gboolean has_parts =
    request->target.ttft_share > 0 || request->target.tpot_share > 0
      || request->target.call_share > 0;

  if (!has_parts || result->whole_ttft_ms <= 0)
    return;
  g_variant_dict_insert (dict, "whole-ttft-ms", "d", result->whole_ttft_ms);
  g_variant_dict_insert (dict, "whole-tpot-ms", "d", result->whole_tpot_ms);
  if (request->target.call_share > 0)
    g_variant_dict_insert (dict, "call-target-ms", "d", get_call_target_ms (request, result));
}

/* What stayed of the part of the prompt that was not settled, in percent, rounded up. */
static guint
get_prompt_level (LlmCall *call)
{
  guint n_settled = 0, n_new;

  if (call->n_left_out == 0)
    return 100;
  if (call->context != NULL)
    {
      g_autofree char *identity = llm_call_get_token_identity (call);

      n_settled = llm_call_count_settled (call, identity);
    }
  n_new = call->tokens->len - MIN (call->tokens->len, n_settled);
  return (guint) (((guint64) n_new * 100 + n_new + call->n_left_out - 1) / (n_new + call->n_left_out));
}

static GVariant *
make_results (LlmGeneration          *self,
              const LlmRequestResult *result)
{
  LlmEngineCounters *counters = &self->engine->counters;
  const LlmCall *call = self->call;
  GVariantDict dict;
  gboolean is_met = is_slo_met (self->request, result);
  LlmModelInfo *info = self->engine->use.active;

  if (is_met)
    counters->slo[result->slo.class].met++;
  else
    counters->slo[result->slo.class].missed++;
  if (result->forecast_ms > 0 && result->ttft_ms > 0)
    {
      counters->forecasts++;
      counters->forecast_error_ms += ABS (result->ttft_ms - result->forecast_ms);
    }

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "finish-reason", "s", llm_finish_to_string (result->finish));
  if (self->calls != NULL)
    g_variant_dict_insert (&dict, "tool-calls", "s", self->calls);
  if (result->n_reasoning > 0)
    {
      g_variant_dict_insert (&dict, "reasoning", "s", result->reasoning->str);
      g_variant_dict_insert (&dict, "reasoning-tokens", "u", result->n_reasoning);
    }
  if (self->logprobs->len > 0)
    {
      g_autofree char *logprobs = g_strdup_printf ("[%s]", self->logprobs->str);

      g_variant_dict_insert (&dict, "logprobs", "s", logprobs);
    }
  g_variant_dict_insert (&dict, "prompt-tokens", "u", result->n_prompt);
  g_variant_dict_insert (&dict, "cached-tokens", "u", result->n_reused);
  g_variant_dict_insert (&dict, "output-tokens", "u", result->tokens->len);
  if (result->n_slid > 0)
    g_variant_dict_insert (&dict, "kept-tokens", "u",
                           result->n_prompt + result->tokens->len - result->n_slid);
  if (self->request->draft_record != NULL)
    {
      LlmDraftRecord *record = self->request->draft_record;

      record->n_drafted += result->n_drafted;
      record->n_accepted += result->n_accepted;
      record->n_passes += result->n_passes;
      g_variant_dict_insert (&dict, "drafted-tokens", "u", result->n_drafted);
      g_variant_dict_insert (&dict, "accepted-tokens", "u", result->n_accepted);
      g_variant_dict_insert (&dict, "passes", "u", result->n_passes);
    }
  if (result->kv_bits > 0)
    g_variant_dict_insert (&dict, "kv-bits", "d", result->kv_bits);
  if (call->context != NULL && (call->context->traits & LLM_CONTEXT_TOOK_QUANTIZED) != 0)
    g_variant_dict_insert (&dict, "shared-quantized", "b", TRUE);
  g_variant_dict_insert (&dict, "ttft-ms", "d", result->ttft_ms);
  g_variant_dict_insert (&dict, "tpot-ms", "d", result->tpot_ms);
  g_variant_dict_insert (&dict, "queue-ms", "d", result->queue_ms);
  g_variant_dict_insert (&dict, "slo", "s", llm_slo_class_to_string (result->slo.class));
  g_variant_dict_insert (&dict, "slo-met", "b", is_met);
  g_variant_dict_insert (&dict, "ttft-target-ms", "d", result->slo.ttft_ms);
  g_variant_dict_insert (&dict, "tpot-target-ms", "d", result->slo.tpot_ms);
  if (result->forecast_ms > 0)
    {
      g_variant_dict_insert (&dict, "ttft-forecast-ms", "d", result->forecast_ms);
      g_variant_dict_insert (&dict, "tpot-forecast-ms", "d", result->forecast_tpot_ms);
    }
  add_parts (&dict, self->request, result);
  g_variant_dict_insert (&dict, "sub-model", "u", result->sub_model);
  if (result->sub_model < 100 && result->sub_model_quality > 0)
    g_variant_dict_insert (&dict, "sub-model-quality", "d", result->sub_model_quality);
  g_variant_dict_insert (&dict, "active", "u", result->sparsity);
  if (result->sparse_quality > 0)
    g_variant_dict_insert (&dict, "active-quality", "d", result->sparse_quality);
  g_variant_dict_insert (&dict, "prompt-level", "u", get_prompt_level (self->call));
  if (call->n_left_out > 0)
    g_variant_dict_insert (&dict, "left-out-tokens", "u", call->n_left_out);
  g_variant_dict_insert (&dict, "prefill", "s", result->is_w8 ? "w8a8" : "exact");
  if (result->exact_reason != NULL)
    g_variant_dict_insert (&dict, "prefill-reason", "s", result->exact_reason);
  g_variant_dict_insert (&dict, "ignored", "^as", llm_call_options_get_ignored (call->options));
  if (call->masks != NULL && llm_mask_table_get_grammar (call->masks)->unheld != NULL)
    g_variant_dict_insert (&dict, "unheld", "^as",
                           llm_mask_table_get_grammar (call->masks)->unheld);
  if (info != NULL)
    g_variant_dict_insert (&dict, "model", "s", info->id);
  if (call->context != NULL)
    g_variant_dict_insert (&dict, "revision", "t", call->context->revision + 1);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

static void
settle (GTask   *task,
        LlmCall *call)
{
  llm_generation_settle (call->answer.generation, call->answer.generation->results, NULL);
}

/* (transfer floating): the results beside the text. */
static GVariant *
make_extras (LlmGeneration          *self,
             const LlmRequestResult *result)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  if (self->calls != NULL)
    g_variant_dict_insert (&dict, "tool-calls", "s", self->calls);
  if (result->reasoning->len > 0)
    g_variant_dict_insert (&dict, "reasoning", "s", result->reasoning->str);
  return g_variant_dict_end (&dict);
}

/* Whether later prompts contain the reasoning as it was generated. */
static gboolean
keeps_reasoning (LlmGeneration          *self,
                 const LlmRequestResult *result)
{
  LlmTemplate *template = llm_call_get_template (self->call);

  return result->n_reasoning == 0
         || (llm_template_get_features (template)->keeps_reasoning
             && llm_reasoning_is_over (self->request->answer.reasoning));
}

/* Notes in @turn the request that makes it. A repeated request gets no log-probabilities, which may
 * be many times the answer. @n_bytes: length of the answer's earlier text. */
static void
note_request (LlmGeneration *self,
              LlmTurn       *turn,
              gsize          n_bytes)
{
  const LlmCall *call = self->call;
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (self->results);
  g_autoptr(GVariant) results = NULL;

  /* the request that made the answer gets all of it when it is repeated */
  if (call->continues && turn->request_id != NULL
      && !llm_call_options_has (call->options, LLMSVC_OPTION_REQUEST_ID))
    return;
  g_variant_dict_remove (&dict, "logprobs");
  if (n_bytes > 0)
    g_variant_dict_insert (&dict, LLM_TURN_CONTINUED, "u", (guint32) n_bytes);
  results = g_variant_ref_sink (g_variant_dict_end (&dict));
  g_clear_pointer (&turn->request_id, g_free);
  g_clear_pointer (&turn->results, g_variant_unref);
  llm_request_id_note (turn, LLM_REQUEST_ANSWER, call->messages, call->options, results);
}

/* The turn: the messages of the call, and the answer. */
static LlmTurn *
make_turn (LlmGeneration          *self,
           const LlmRequestResult *result)
{
  LlmCall *call = self->call;
  const GArray *prompt = self->request->prompt;
  gsize n_bytes = 0;
  g_autoptr(GVariant) extras = g_variant_ref_sink (make_extras (self, result));
  LlmTurn *turn = call->continues
                    ? llm_call_continue_turn (call, self->request, extras, &n_bytes)
                    : llm_turn_new ();

  if (!call->continues)
    {
      llm_turn_add_messages (turn, call->messages);
      g_ptr_array_add (turn->messages, llm_stored_message_new ("assistant", result->text->str,
                                                               extras));
    }
  note_request (self, turn, n_bytes);

  /* The turn keeps its tokens only if they are exactly its text. After a stop string, a cancel or
   * an incomplete tool call, some tokens have text that was not kept. Where the template leaves
   * reasoning out of later prompts, these are rendered from the text. */
  if (!self->has_cut_call && keeps_reasoning (self, result)
      && (result->finish == LLM_FINISH_STOP || result->finish == LLM_FINISH_LENGTH ||
          result->finish == LLM_FINISH_REPEATS || result->finish == LLM_FINISH_CONTEXT_FULL))
    {
      g_autofree char *identity = llm_call_get_token_identity (call);
      guint n_settled = llm_call_count_settled (call, identity);
      gboolean is_shortened = call->n_left_out > 0
                              || (n_settled > 0
                                  && llm_conversation_is_shortened (call->context->conversation));

      turn->tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
      g_array_append_vals (turn->tokens, &g_array_index (prompt, gint32, n_settled),
                           prompt->len - n_settled);
      g_array_append_vals (turn->tokens, result->tokens->data, result->tokens->len);
      if (!is_shortened && g_str_has_suffix (identity, LLM_TURN_SHORTENED))
        identity[strlen (identity) - strlen (LLM_TURN_SHORTENED)] = '\0';
      turn->identity = g_steal_pointer (&identity);
      turn->is_closed = result->is_closed;
      turn->sub_model = result->sub_model;
      turn->n_sparse = result->sparsity > 0 ? result->tokens->len : 0;
      turn->sparsity = turn->n_sparse > 0 ? result->sparsity : 0;
      turn->n_w8 = result->is_w8 ? prompt->len - n_settled : self->request->model.n_w8;
      turn->n_tokens = turn->tokens->len + call->n_left_out;
      turn->is_whole = n_settled == 0;
      /* what the whole text has is counted later */
      if (!is_shortened)
        {
          turn->n_total = prompt->len + result->tokens->len;
          turn->counted_by = g_strdup (llm_model_get_identity (call->model));
        }
    }
  else
    {
      turn->n_tokens += result->tokens->len;
    }
  return turn;
}

static void
finish_well (LlmGeneration          *self,
             const LlmRequestResult *result)
{
  LlmEngineCounters *counters = &self->engine->counters;
  LlmContext *context = self->call->context;

  counters->prompt_tokens += result->n_prompt;
  counters->cached_tokens += result->n_reused;
  counters->output_tokens += result->tokens->len;
  if (self->reader != NULL)
    self->calls = llm_call_reader_end (self->reader, &self->has_cut_call);
  self->results = make_results (self, result);
  if (context != NULL)
    llm_call_commit (self->task,
                     context->conversation->turns->len - (self->call->continues ? 1 : 0),
                     make_turn (self, result), settle);
  else
    settle (self->task, self->call);
}

static gboolean
keeps_partial (LlmGeneration *self)
{
  const LlmCall *call = self->call;

  return call->context != NULL && !self->is_left
         && g_str_equal (
           llm_call_options_get_string (call->options, LLMSVC_OPTION_ON_CANCEL, "discard"), "keep");
}

void
llm_generation_request_done (LlmRequest             *request,
                             const LlmRequestResult *result,
                             gpointer                data)
{
  g_autoptr(LlmGeneration) self = data;
  g_autoptr(GError) error = NULL;

  llm_engine_request_ended (self->engine);
  if (self->call->context != NULL)
    llm_context_note_result (self->call->context, result);
  if (self->is_done)
    return;
  self->result = result;

  switch (result->finish)
    {
    case LLM_FINISH_STOP:
    case LLM_FINISH_STOP_STRING:
    case LLM_FINISH_LENGTH:
    case LLM_FINISH_REPEATS:
    case LLM_FINISH_CONTEXT_FULL:
      if (!self->is_left)
        {
          finish_well (self, result);
          return;
        }
      llm_fail (&error, LLMSVC_ERROR_CANCELLED, "The caller left");
      break;
    case LLM_FINISH_CANCELLED:
    case LLM_FINISH_STALLED:
      if (keeps_partial (self) && result->text->len > 0)
        {
          finish_well (self, result);
          return;
        }
      if (result->finish == LLM_FINISH_STALLED)
        llm_fail (&error, LLMSVC_ERROR_CANCELLED,
                  "The reader left the pipe full for too long (stalled)");
      else
        llm_fail (&error, LLMSVC_ERROR_CANCELLED, "The answer was cancelled");
      break;
    case LLM_FINISH_DEADLINE:
      llm_fail (&error, LLMSVC_ERROR_DEADLINE_EXCEEDED,
                "The answer was not whole within deadline-ms = %ju",
                llm_call_options_get_uint (self->call->options, LLMSVC_OPTION_DEADLINE_MS, 0));
      break;
    case LLM_FINISH_FAILED:
      error = g_error_copy (result->error);
      if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_OVERLOADED))
        self->engine->counters.slo[self->request->slo.class].refused++;
      if (g_error_matches (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_MODEL))
        self->engine->use.is_suspect = TRUE;
      break;
    case LLM_FINISH_RUNNING:
    default:
      g_assert_not_reached ();
    }
  llm_generation_settle (self, NULL, error);
}
