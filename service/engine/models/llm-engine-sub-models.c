/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The sub-models of the loaded model, and which of them answers a call. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "engine/models/llm-engine-models.h"

#include "common/llmsvc-error.h"

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
  return self->use.companion != NULL && self->use.companion->has_sub_models
    ? self->use.companion->sub_models
                                                                    : NULL;
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

gboolean
llm_engine_choose_sub_model (LlmEngine       *self,
                             LlmRequest      *request,
                             LlmCallOptions  *options,
                             GError         **error)
{
  guint percent = (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_SUB_MODEL, 0);
  guint least = (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_LEAST_SUB_MODEL,
                                                   llm_engine_get_least_sub_model (request,
                                                                                   options));
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
  request->model.sub_model = percent != 0 ? percent : 100;
  request->model.least_sub_model = percent != 0 ? percent : least;
  llm_engine_lower_call (self, request);
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
