/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What of the model answers a call: a sub-model that the call names, or the whole one; while memory is
 * short (E11, S4) a smaller one for new calls that run in the background, then for those that can wait
 * a little; or the whole model with a part of the weights left out for each token (A1), only where a
 * call asks for it. A call that has begun keeps what it began with.
 */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "engine/models/llm-engine-models.h"

/* The lower limit of “least-sub-model”. */
#define LEAST_PERCENT 20

void
llm_engine_take_levels (LlmEngine       *self,
                        const LlmLevels *levels,
                        GError          *error)
{
  g_clear_pointer (&self->use.companion, llm_companion_unref);
  g_clear_error (&self->use.levels_error);
  if (levels != NULL)
    self->use.companion = llm_companion_ref (levels->companion);
  self->use.levels_error = error;
  if (error != NULL)
    g_message ("The sub-models of a model can't be used: %s", error->message);
  if (levels != NULL && self->memory.lowered != LLM_LOWERED_NONE)
    llm_engine_keep_level (self);
}

const LlmSubModels *
llm_engine_get_sub_models (const LlmEngine *self)
{
  const LlmCompanion *companion = self->use.companion;

  return companion != NULL && companion->has_sub_models ? companion->sub_models : NULL;
}

GStrv
llm_engine_list_sub_models (LlmEngine          *self,
                            const LlmModelInfo *info)
{
  g_autoptr(GStrvBuilder) names = g_strv_builder_new ();
  const LlmSubModels *table = llm_engine_get_sub_models (self);

  for (guint level = 0; table != NULL && info == self->use.active
       && level < table->n_levels; level++)
    {
      g_autofree char *name = g_strdup_printf ("%u", (guint) table->percent[level]);

      g_strv_builder_add (names, name);
    }
  return g_strv_builder_end (names);
}

GVariant *
llm_engine_describe_sparsities (LlmEngine          *self,
                                const LlmModelInfo *info)
{
  const LlmCompanion *companion = info == self->use.active ? self->use.companion : NULL;
  const LlmThresholds *thresholds = companion != NULL ? companion->thresholds : NULL;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; thresholds != NULL && i < thresholds->n_sparsities; i++)
    g_variant_builder_add_value (&builder, llm_companion_describe_sparsity (companion, i));
  return g_variant_builder_end (&builder);
}

GVariant *
llm_engine_describe_levels (LlmEngine          *self,
                            const LlmModelInfo *info)
{
  const LlmSubModels *table = info == self->use.active ? llm_engine_get_sub_models (self) : NULL;
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  for (guint level = 0; table != NULL && level < table->n_levels; level++)
    g_variant_builder_add_value (&builder, llm_companion_describe_level (self->use.companion, level));
  return g_variant_builder_end (&builder);
}

/* --- while memory is short --- */

/* The smallest level that was measured to have @quality percent of the whole model's; in percent. */
static guint
find_good (const LlmEngine *self,
           guint            quality)
{
  const LlmSubModels *table = llm_engine_get_sub_models (self);

  return table == NULL ? 100
         : table->percent[llm_quality_find (self->use.companion->quality, table->n_levels, quality)];
}

/* What a call gets at least that leaves the level to the service. The call of a tool and what a schema
 * holds have no place for a word that is nearly right. */
static guint
get_least_quality (const LlmEngine  *self,
                   const LlmRequest *request,
                   LlmCallOptions   *options)
{
  static const LlmsvcOption strict[] = {
    LLMSVC_OPTION_TOOLS, LLMSVC_OPTION_SCHEMA, LLMSVC_OPTION_GRAMMAR, LLMSVC_OPTION_REGEX,
  };
  const char *format =
    llm_call_options_get_string (options, LLMSVC_OPTION_RESPONSE_FORMAT, "text");

  for (guint i = 0; i < G_N_ELEMENTS (strict); i++)
    if (llm_call_options_has (options, strict[i]))
      return 100;
  return g_str_equal (format, "text") ? self->settings->least_quality[request->slo.class] : 100;
}

static guint
get_least_quality_of (const LlmEngine  *self,
                      const LlmRequest *request,
                      LlmCallOptions   *options)
{
  return (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_LEAST_QUALITY,
                                            get_least_quality (self, request, options));
}

/* The smallest share of the model that may answer. A call that names one takes it as it is. */
static guint
get_least_sub_model (const LlmEngine  *self,
                     const LlmRequest *request,
                     LlmCallOptions   *options)
{
  guint least = (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_LEAST_SUB_MODEL, 0);

  if (least != 0 && !llm_call_options_has (options, LLMSVC_OPTION_LEAST_QUALITY))
    return least;
  return MAX (least, find_good (self, get_least_quality_of (self, request, options)));
}

static gboolean
is_lowered (const LlmEngine  *self,
            const LlmRequest *request)
{
  switch (request->slo.class)
    {
    case LLM_SLO_BACKGROUND:
      return self->memory.lowered >= LLM_LOWERED_BACKGROUND;
    case LLM_SLO_RESPONSIVE:
      return self->memory.lowered >= LLM_LOWERED_RESPONSIVE;
    case LLM_SLO_INTERACTIVE:
    default:
      return FALSE;
    }
}

static void
lower_call (LlmEngine  *self,
            LlmRequest *request)
{
  guint percent;

  if (!is_lowered (self, request))
    return;
  percent = MAX (request->model.least_sub_model,
                 find_good (self, self->settings->least_quality[request->slo.class]));
  if (percent >= request->model.sub_model)
    return;
  request->model.sub_model = percent;
  self->counters.lowered_calls++;
}

guint
llm_engine_get_held_sub_model (LlmEngine          *self,
                               const LlmModelInfo *info)
{
  return info == self->use.active && self->use.model != NULL
    ? llm_engine_get_figures (self).sub_model : 0;
}

void
llm_engine_keep_level (LlmEngine *self)
{
  llm_executor_keep_level (self->executor,
                           self->memory.lowered == LLM_LOWERED_NONE
                             ? 100 : find_good (self, self->settings->least_quality[LLM_SLO_BACKGROUND]));
}

void
llm_engine_set_lowered (LlmEngine       *self,
                        LlmMemoryLowered lowered)
{
  if (lowered == self->memory.lowered)
    return;
  if (find_good (self, self->settings->least_quality[LLM_SLO_BACKGROUND]) == 100)
    g_debug ("Calls that may have a sub-model: level %u, and the model has none that was measured to "
             "be good enough", lowered);
  else if (lowered == LLM_LOWERED_NONE)
    g_message ("Memory is no longer short: new calls have the whole model again");
  else
    g_message ("Memory is short: new calls%s in the background are answered by less of the model",
               lowered >= LLM_LOWERED_RESPONSIVE ? " of the class “responsive” and those" : "");
  self->memory.lowered = lowered;
  llm_engine_keep_level (self);
}

/* --- what a call asks for --- */

gboolean
llm_engine_choose_sub_model (LlmEngine       *self,
                             LlmRequest      *request,
                             LlmCallOptions  *options,
                             GError         **error)
{
  guint percent = (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_SUB_MODEL, 0);
  guint least = get_least_sub_model (self, request, options);
  const LlmSubModels *table;

  if (percent != 0 && percent < LEAST_PERCENT)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "sub-model: %u percent of a model are none; it must be 0, which lets the service "
                     "choose, or from %d to 100", percent, LEAST_PERCENT);
  if (percent != 0 && llm_call_options_has (options, LLMSVC_OPTION_LEAST_SUB_MODEL)
      && least > percent)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "sub-model is %u percent and least-sub-model %u: leave sub-model out to have "
                     "one chosen, or least-sub-model to have that one", percent, least);
  if (percent != 0 && llm_call_options_has (options, LLMSVC_OPTION_LEAST_QUALITY))
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "sub-model names what answers, and least-quality what it must be like: leave "
                     "sub-model out to have one chosen, or least-quality to have that one");
  request->model.sub_model = percent != 0 ? percent : 100;
  request->model.least_sub_model = percent != 0 ? percent : least;
  lower_call (self, request);
  if (request->model.sub_model == 100 || self->settings->script != NULL)
    return TRUE;
  if (self->use.companion == NULL && self->use.levels_error != NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "sub-model: those of the model “%s” can't be used: %s; leave the option out",
                     self->use.active->id, self->use.levels_error->message);
  if (llm_engine_get_sub_models (self) == NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "sub-model: the model “%s” has no sub-models; prepare it with llmsvc-elastic, "
                     "or leave the option out", self->use.active->id);
  table = self->use.companion->sub_models;
  request->model.sub_model =
    table->percent[llm_sub_models_find_level (table, request->model.sub_model)];
  request->model.least_sub_model = request->model.sub_model;
  return TRUE;
}

/* What the configuration has for calls that say nothing of what may be given up, as far as the model in use
 * has thresholds. */
static guint
get_configured_sparsity (const LlmEngine *self,
                         LlmCallOptions  *options)
{
  static const LlmsvcOption others[] = {
    LLMSVC_OPTION_SUB_MODEL, LLMSVC_OPTION_LEAST_SUB_MODEL, LLMSVC_OPTION_LEAST_QUALITY,
    LLMSVC_OPTION_DRAFT, LLMSVC_OPTION_TTFT_SHARE, LLMSVC_OPTION_TPOT_SHARE, LLMSVC_OPTION_CALL_SHARE,
    LLMSVC_OPTION_TTFT_MS, LLMSVC_OPTION_TPOT_MS,
  };
  const char *percent = self->use.active != NULL
                          ? llm_settings_find_for (self->settings->active, self->use.active->id) : NULL;

  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (llm_call_options_has (options, others[i]))
      return 0;
  if (percent == NULL || self->use.companion == NULL || self->use.companion->thresholds == NULL)
    return 0;
  return (guint) g_ascii_strtoull (percent, NULL, 10);
}

/* What a call may leave out where that meets its targets: as much as was measured to be good enough. A call
 * that says what else may be given up gets no more than that. */
static guint
find_most_sparsity (const LlmEngine  *self,
                    const LlmRequest *request,
                    LlmCallOptions   *options)
{
  static const LlmsvcOption others[] = {
    LLMSVC_OPTION_ACTIVE, LLMSVC_OPTION_SUB_MODEL, LLMSVC_OPTION_LEAST_SUB_MODEL,
  };
  const LlmCompanion *companion = self->use.companion;
  guint least = get_least_quality_of (self, request, options);
  guint most = 0;

  if (companion == NULL || companion->thresholds == NULL || request->model.sub_model != 100
      || !g_str_equal (llm_call_options_get_string (options, LLMSVC_OPTION_DRAFT, "off"), "off"))
    return 0;
  for (guint i = 0; i < G_N_ELEMENTS (others); i++)
    if (llm_call_options_has (options, others[i]))
      return 0;
  for (guint i = 0; i < companion->thresholds->n_sparsities
                    && llm_companion_get_sparse_quality (companion, i) >= least; i++)
    most = companion->thresholds->percent[i];
  return most;
}

/* What waits for tokens may have them sooner by less reading. */
static gboolean
wants_tokens_sooner (const LlmRequest *request)
{
  return request->target.tpot_share > 0 || request->target.call_share > 0 || request->target.names_tpot;
}

gboolean
llm_engine_choose_sparsity (LlmEngine       *self,
                            LlmRequest      *request,
                            LlmCallOptions  *options,
                            GError         **error)
{
  guint percent = llm_call_options_has (options, LLMSVC_OPTION_ACTIVE)
                    ? (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_ACTIVE, 0)
                    : get_configured_sparsity (self, options);
  guint sub_model = (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_SUB_MODEL, 0);

  if (self->settings->script != NULL)
    return TRUE;
  if (percent == 0)
    {
      if (wants_tokens_sooner (request))
        request->model.most_sparsity = find_most_sparsity (self, request, options);
      if (request->model.most_sparsity > 0)
        llm_engine_prepare_channels (self);
      return TRUE;
    }
  if ((sub_model != 0 && sub_model != 100)
      || llm_call_options_get_uint (options, LLMSVC_OPTION_LEAST_SUB_MODEL, 100) != 100)
    return llm_fail (error, LLMSVC_ERROR_INVALID_OPTION,
                     "active is %u percent beside a sub-model: a call can have one of them, leave "
                     "the other out", percent);
  if (self->use.companion == NULL && self->use.levels_error != NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "active: the thresholds of the model “%s” can't be used: %s; leave the option "
                     "out", self->use.active->id, self->use.levels_error->message);
  if (self->use.companion == NULL || self->use.companion->thresholds == NULL)
    return llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                     "active: the model “%s” has no activation thresholds; calibrate it with "
                     "llmsvc-active, or leave the option out", self->use.active->id);
  request->model.sparsity = llm_thresholds_choose (self->use.companion->thresholds, percent);
  if (request->model.sparsity > 0)
    llm_engine_prepare_channels (self);
  /* what it asked for is all that is given up: neither memory nor a target lowers it further */
  request->model.sub_model = request->model.least_sub_model = 100;
  return TRUE;
}
