/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "base/llm-fail.h"
#include "engine/apps/llm-engine-apps.h"
#include "engine/calls/llm-engine-calls.h"
#include "engine/memory/llm-engine-memory.h"
#include "engine/models/llm-engine-models.h"

#include <string.h>

#include "base/llm-clock.h"
#include "common/llmsvc-error.h"

void
llm_engine_submit (LlmEngine  *self,
                   LlmRequest *request)
{
  self->calls.n_requests_running++;
  llm_executor_submit (self->executor, request);
}

void
llm_engine_request_ended (LlmEngine *self)
{
  g_assert (self->calls.n_requests_running > 0);
  if (--self->calls.n_requests_running == 0)
    self->use.idle_since_us = llm_clock_now_us ();
  llm_engine_memory_request_ended (self);
}

/* (element-type LlmLogitBias) (transfer full): the option's value. */
static GArray *
read_bias (LlmCallOptions *options,
           guint           n_vocab,
           GError        **error)
{
  g_autoptr(GArray) biases = g_array_new (FALSE, FALSE, sizeof (LlmLogitBias));
  GVariant *dict = llm_call_options_get_variant (options, LLMSVC_OPTION_LOGIT_BIAS);
  GVariantIter iter;
  guint32 token;
  double bias;

  if (dict == NULL)
    return g_steal_pointer (&biases);
  g_variant_iter_init (&iter, dict);
  while (g_variant_iter_next (&iter, "{ud}", &token, &bias))
    {
      LlmLogitBias entry = { (gint32) token, (float) bias };

      if (token >= n_vocab)
        return llm_fail_null (error, LLMSVC_ERROR_INVALID_OPTION,
                              "logit-bias: there is no token %u; this model's are 0 to %u", token,
                              n_vocab - 1);
      g_array_append_val (biases, entry);
    }
  return g_steal_pointer (&biases);
}

/* A class, milliseconds, or fractions of the call's time alone: later ones in this list take
 * precedence. A call that names a time but no class gets the class of that time. */
static gboolean
fill_slo (LlmRequest     *request,
          LlmCallOptions *options,
          const char     *default_slo,
          GError        **error)
{
  const char *slo = llm_call_options_get_string (options, LLMSVC_OPTION_SLO, default_slo);
  double ttft_ms = (double) llm_call_options_get_uint (options, LLMSVC_OPTION_TTFT_MS, 0);
  double tpot_ms = (double) llm_call_options_get_uint (options, LLMSVC_OPTION_TPOT_MS, 0);
  LlmSloClass slo_class = llm_slo_class_for_ms (ttft_ms, tpot_ms);

  if (slo != NULL && !llm_slo_class_parse (slo, &slo_class))
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION, "slo: there is no class “%s”", slo);
  request->slo = llm_slo_for_class (slo_class);
  if (ttft_ms > 0)
    request->slo.ttft_ms = ttft_ms;
  if (tpot_ms > 0)
    request->slo.tpot_ms = tpot_ms;
  request->target.ttft_share = llm_call_options_get_double (options, LLMSVC_OPTION_TTFT_SHARE, 0);
  request->target.tpot_share = llm_call_options_get_double (options, LLMSVC_OPTION_TPOT_SHARE, 0);
  request->target.call_share = llm_call_options_get_double (options, LLMSVC_OPTION_CALL_SHARE, 0);
  request->target.names_ttft = ttft_ms > 0;
  request->target.names_tpot = tpot_ms > 0;
  return TRUE;
}

gboolean
llm_engine_fill_request (LlmEngine      *self,
                         LlmRequest     *request,
                         LlmCallOptions *options,
                         const char     *default_slo,
                         GError        **error)
{
  guint64 deadline_ms = llm_call_options_get_uint (options, LLMSVC_OPTION_DEADLINE_MS, 0);
  guint quota = (guint) llm_engine_get_quota (self, llm_engine_get_app (self, request->app),
                                              LLM_QUOTA_ANSWER);

  if (!fill_slo (request, options, default_slo, error)
      || !llm_engine_choose_sub_model (self, request, options, error)
      || !llm_engine_choose_sparsity (self, request, options, error)
      || !llm_engine_choose_prefill (self, request, options, error))
    return FALSE;
  if (deadline_ms > 0)
    request->deadline_us = request->arrived_us + (gint64) deadline_ms * 1000;
  if (llm_call_options_get_boolean (options, LLMSVC_OPTION_END_REPEATS, FALSE))
    request->answer.repeats = g_new0 (LlmRepeats, 1);
  request->max_tokens = llm_call_options_get_uint (options, LLMSVC_OPTION_MAX_TOKENS, G_MAXUINT);
  if (quota > 0)
    request->max_tokens = MIN (request->max_tokens, quota);
  if (llm_call_options_has (options, LLMSVC_OPTION_LOGPROBS))
    request->answer.n_logprobs =
      (int) llm_call_options_get_uint (options, LLMSVC_OPTION_LOGPROBS, 0);
  request->answer.stops =
    g_strdupv ((char **) llm_call_options_get_strv (options, LLMSVC_OPTION_STOP));
  return TRUE;
}

/* The constraint takes the answer's earlier text first, because it applies to the whole answer. */
static gboolean
accept_begun (LlmConstraint *constraint,
              LlmTokenizer  *tokenizer,
              const char    *begun,
              GError       **error)
{
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  LlmTextPart part = { begun, strlen (begun), FALSE };

  llm_tokenizer_encode (tokenizer, &part, 1, FALSE, tokens);
  for (guint i = 0; i < tokens->len; i++)
    if (!llm_constraint_accept (constraint, g_array_index (tokens, gint32, i)))
      return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                       "continue: the answer so far is not the beginning of what the options hold "
                       "the answer to; leave these options out, or ask anew");
  return TRUE;
}

static LlmDecoder *
make_decoder (LlmEngine              *self,
              const LlmRequest       *request,
              const LlmSamplerConfig *config,
              LlmMaskTable           *masks,
              const char             *begun,
              GError                **error)
{
  guint n_vocab = llm_model_get_hparams (self->use.model)->n_vocab;
  g_autoptr(LlmConstraint) constraint = NULL;
  LlmDecoder *decoder;
  guint n, n_begun;

  if (masks == NULL)
    {
      decoder = llm_decoder_new_plain (config, n_vocab);
    }
  else
    {
      /* tokenizers put a space before a text, as models do before an answer */
      constraint =
        llm_constraint_new (masks, request->answer.strips_space
                                     || (begun != NULL && *begun != '\0'));
      if (begun != NULL
          && !accept_begun (constraint, llm_model_get_tokenizer (self->use.model), begun, error))
        return NULL;
      if (!llm_engine_check_room (request, masks, llm_constraint_get_min_bytes (constraint), &n,
                                  error))
        return NULL;
      n_begun = llm_constraint_get_n (constraint);
      decoder = llm_decoder_new_constrained (config, n_vocab, g_steal_pointer (&constraint),
                                             n <= G_MAXUINT - n_begun ? n + n_begun : n);
    }
  if (request->answer.reasoning != NULL)
    llm_decoder_set_reasoning (decoder, request->answer.reasoning);
  return decoder;
}

gboolean
llm_engine_fill_decoder (LlmEngine      *self,
                         LlmRequest     *request,
                         LlmCallOptions *options,
                         LlmMaskTable   *masks,
                         const char     *begun,
                         GError        **error)
{
  guint n_vocab = llm_model_get_hparams (self->use.model)->n_vocab;
  g_autoptr(GArray) biases = read_bias (options, n_vocab, error);
  guint64 random_seed = ((guint64) g_random_int () << 32) | g_random_int ();
  LlmSamplerConfig config = {
    .temperature = llm_call_options_get_double (options, LLMSVC_OPTION_TEMPERATURE, 0.7),
    .top_k = llm_call_options_get_uint (options, LLMSVC_OPTION_TOP_K, 40),
    .top_p = llm_call_options_get_double (options, LLMSVC_OPTION_TOP_P, 0.95),
    .min_p = llm_call_options_get_double (options, LLMSVC_OPTION_MIN_P, 0.05),
    .repeat_penalty = llm_call_options_get_double (options, LLMSVC_OPTION_REPEAT_PENALTY, 1),
    .frequency_penalty = llm_call_options_get_double (options, LLMSVC_OPTION_FREQUENCY_PENALTY, 0),
    .presence_penalty = llm_call_options_get_double (options, LLMSVC_OPTION_PRESENCE_PENALTY, 0),
    .seed = llm_call_options_get_uint (options, LLMSVC_OPTION_SEED, random_seed),
  };

  if (biases == NULL)
    return FALSE;
  config.bias = (const LlmLogitBias *) biases->data;
  config.n_bias = biases->len;
  request->decoder = make_decoder (self, request, &config, masks, begun, error);
  if (request->decoder == NULL)
    return FALSE;
  return llm_engine_add_draft (self, request, options, error);
}
