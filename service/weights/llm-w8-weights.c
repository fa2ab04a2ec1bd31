/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-w8-weights.h"

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "weights/llm-repacked-private.h"

struct _LlmW8Weights
{
  LlmRepacked *repacked;   /* (owned): of a file */
  LlmLedger *ledger;       /* (nullable) (owned) */
  gboolean is_held;
};

static void
count (LlmW8Weights *self,
       gboolean      is_held)
{
  static const LlmHolder entries[] = { LLM_HOLDER_WEIGHTS, LLM_LEDGER_BACKED, LLM_LEDGER_SPARE };
  guint64 bytes = self->repacked->plan->bytes;

  if (self->is_held == is_held)
    return;
  self->is_held = is_held;
  if (self->ledger == NULL)
    return;
  for (guint i = 0; i < G_N_ELEMENTS (entries); i++)
    (is_held ? llm_ledger_add : llm_ledger_remove) (self->ledger, entries[i], bytes);
}

/* (transfer full) */
static LlmRepackedPlan *
make_plan (LlmGguf               *gguf,
           const LlmHparams      *hparams,
           const LlmSubModels    *sub_models,
           const LlmCalibration  *calibration,
           GError               **error)
{
  g_autoptr(LlmRepackedPlan) plan =
    llm_repacked_plan_new (gguf, hparams, sub_models, calibration, error);

  if (plan != NULL && plan->matrices->len == 0)
    return llm_fail_null (error, LLMSVC_ERROR_UNSUPPORTED,
                          "This model has none of the products that are computed with 8 bits");
  return g_steal_pointer (&plan);
}

guint64
llm_w8_weights_measure (LlmGguf               *gguf,
                        const LlmHparams      *hparams,
                        const LlmSubModels    *sub_models,
                        const LlmCalibration  *calibration,
                        GError               **error)
{
  g_autoptr(LlmRepackedPlan) plan = make_plan (gguf, hparams, sub_models, calibration, error);

  return plan != NULL ? plan->bytes : 0;
}

/* Takes @repacked. */
static LlmW8Weights *
new_for_file (LlmRepacked *repacked,
              LlmLedger   *ledger)
{
  LlmW8Weights *self = g_new0 (LlmW8Weights, 1);

  self->repacked = repacked;
  self->ledger = ledger != NULL ? llm_ledger_ref (ledger) : NULL;
  return self;
}

LlmW8Weights *
llm_w8_weights_find_file (LlmGguf               *gguf,
                          const LlmHparams      *hparams,
                          const LlmSubModels    *sub_models,
                          const LlmCalibration  *calibration,
                          LlmRepackedCache      *cache,
                          LlmLedger             *ledger)
{
  g_autoptr(LlmRepackedPlan) plan = make_plan (gguf, hparams, sub_models, calibration, NULL);
  LlmRepacked *repacked = plan != NULL ? llm_repacked_cache_find (cache, plan) : NULL;

  return repacked != NULL ? new_for_file (repacked, ledger) : NULL;
}

LlmW8Weights *
llm_w8_weights_new (LlmGguf               *gguf,
                    const LlmHparams      *hparams,
                    const LlmSubModels    *sub_models,
                    const LlmCalibration  *calibration,
                    LlmRepackedCache      *cache,
                    guint                  n_threads,
                    LlmLedger             *ledger,
                    GError               **error)
{
  g_autoptr(LlmRepackedPlan) plan = make_plan (gguf, hparams, sub_models, calibration, error);
  g_autoptr(LlmRepackedPlan) main = NULL;
  g_autoptr(GError) cause = NULL;
  LlmRepacked *repacked;
  LlmW8Weights *self;

  if (plan == NULL)
    return NULL;
  main = llm_repacked_plan_new (gguf, hparams, sub_models, NULL, error);
  if (main == NULL)
    return NULL;
  /* the model's own copy matters more */
  llm_repacked_cache_spare (cache, main);
  repacked = llm_repacked_cache_get_file (cache, plan, n_threads, &cause);
  if (repacked == NULL)
    return llm_fail_null (error, LLMSVC_ERROR_STORAGE,
                          "No prepared copy of the weights could be kept: %s",
                          cause != NULL ? cause->message : "no folder is set for copies");
  self = new_for_file (repacked, ledger);
  count (self, TRUE);
  return self;
}

void
llm_w8_weights_end (LlmW8Weights *self,
                    gboolean      keeps_cache)
{
  if (self == NULL)
    return;

  count (self, FALSE);
  g_clear_pointer (&self->ledger, llm_ledger_unref);
  llm_repacked_end (self->repacked, keeps_cache);
  g_free (self);
}

gboolean
llm_w8_weights_find (LlmW8Weights *self,
                     LlmOperator   op,
                     guint         layer,
                     guint         segment,
                     LlkW8Matrix  *matrix)
{
  const LlmRepackedMatrix *found =
    llm_repacked_plan_find (self->repacked->plan, op, layer, segment);

  if (found == NULL)
    return FALSE;
  *matrix = found->w8;
  matrix->panels = (const int8_t *) (self->repacked->data + found->offset);
  return TRUE;
}

guint64
llm_w8_weights_get_bytes (LlmW8Weights *self)
{
  return self->repacked->plan->bytes;
}

gboolean
llm_w8_weights_are_held (LlmW8Weights *self)
{
  return self->is_held;
}

guint64
llm_w8_weights_drop (LlmW8Weights *self)
{
  guint64 freed = self->is_held ? self->repacked->plan->bytes : 0;

  llm_repacked_set_dropped (self->repacked, TRUE);
  llm_file_map_drop (self->repacked->map, 0, llm_file_map_get_size (self->repacked->map));
  count (self, FALSE);
  return freed;
}

void
llm_w8_weights_take (LlmW8Weights *self)
{
  llm_repacked_set_dropped (self->repacked, FALSE);
  count (self, TRUE);
}

gboolean
llm_w8_weights_read_ahead (LlmW8Weights *self,
                           guint64       at,
                           guint64       bytes)
{
  const LlmRepackedPlan *plan = self->repacked->plan;

  if (at >= plan->bytes)
    return FALSE;
  llm_file_map_populate (self->repacked->map, plan->data_offset + at,
                         MIN (bytes, plan->bytes - at));
  return TRUE;
}

gboolean
llm_w8_weights_check (LlmW8Weights  *self,
                      GError       **error)
{
  return !llm_file_map_is_damaged (self->repacked->map)
         || llm_fail (error, LLMSVC_ERROR_INVALID_MODEL,
                      "The prepared copy “%s” of the model was changed while it was in use: what was "
                      "computed with it since is worthless", self->repacked->path);
}
