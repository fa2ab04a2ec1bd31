/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Sparse decode (A1): which part of the weights tokens of an answer leave out. Only where a call
 * asks for it; its result says so. */

#define G_LOG_DOMAIN "llm-engine"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "engine/models/llm-engine-models.h"

gboolean
llm_engine_choose_sparsity (LlmEngine       *self,
                            LlmRequest      *request,
                            LlmCallOptions  *options,
                            GError         **error)
{
  guint percent = (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_ACTIVE, 0);
  guint sub_model = (guint) llm_call_options_get_uint (options, LLMSVC_OPTION_SUB_MODEL, 0);

  if (percent == 0 || self->settings->script != NULL)
    return TRUE;
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
  /* sparsity is the only loss: neither memory pressure nor a target lowers the sub-model further */
  request->model.sub_model = request->model.least_sub_model = 100;
  return TRUE;
}
