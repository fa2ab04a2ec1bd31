/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Smaller sub-models for new calls under memory pressure (E11, S4): for background requests first,
 * then for classes with longer targets; weights that they don't use are released. A running call
 * keeps its sub-model. */

#define G_LOG_DOMAIN "llm-engine"

#include "engine/models/llm-engine-models.h"

/* The smallest sub-model, in percent, of a call without the option, by its class. */
static const guint least[LLM_N_SLO_CLASSES] = {
  [LLM_SLO_INTERACTIVE] = 100,
  [LLM_SLO_RESPONSIVE] = 70,
  [LLM_SLO_BACKGROUND] = 40,
};

/* In a tool call or a constrained answer, a nearly right word is a wrong one: these have a higher
 * limit. */
guint
llm_engine_get_least_sub_model (const LlmRequest *request,
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
  return g_str_equal (format, "text") ? least[request->slo.class] : 100;
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

/* The smallest level of @percent or more that solves about as many tasks as the whole model; in
 * percent. Perplexity does not tell: a level that costs 6 % of it may make no valid tool call; and
 * whether an answer follows instructions in plain words can't be checked at all. */
static guint
find_harmless (const LlmEngine *self,
               guint            percent)
{
  const LlmSubModels *table = llm_engine_get_sub_models (self);
  guint level;

  if (table == NULL)
    return 100;
  level = llm_sub_models_find_level (table, percent);
  while (level + 1 < table->n_levels
         && self->use.companion->task_losses[level] > LLM_COMPANION_MAX_TASK_LOSS)
    level++;
  return table->percent[level];
}

void
llm_engine_lower_call (LlmEngine  *self,
                       LlmRequest *request)
{
  guint percent;

  if (!is_lowered (self, request))
    return;
  percent = find_harmless (self, MAX (least[request->slo.class], request->model.least_sub_model));
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
                             ? 100 : find_harmless (self, least[LLM_SLO_BACKGROUND]));
}

void
llm_engine_set_lowered (LlmEngine       *self,
                        LlmMemoryLowered lowered)
{
  if (lowered == self->memory.lowered)
    return;
  if (find_harmless (self, least[LLM_SLO_BACKGROUND]) == 100)
    g_debug ("Calls that may have a sub-model: level %u, and the model has none that is known to solve "
             "tasks as well", lowered);
  else if (lowered == LLM_LOWERED_NONE)
    g_message ("Memory is no longer short: new calls have the whole model again");
  else
    g_message ("Memory is short: new calls%s in the background are answered by less of the model",
               lowered >= LLM_LOWERED_RESPONSIVE ? " of the class “responsive” and those" : "");
  self->memory.lowered = lowered;
  llm_engine_keep_level (self);
}
