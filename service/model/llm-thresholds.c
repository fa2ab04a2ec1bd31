/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-thresholds.h"

#include "common/llmsvc-error.h"

#include <float.h>
#include <math.h>
#include <xxhash.h>

static gboolean
read_percent (LlmThresholds  *self,
              LlmGguf        *gguf,
              GError        **error)
{
  static const char key[] = "llmsvc.active.percent";
  gsize n;
  g_autofree gint64 *items = llm_gguf_get_ints (gguf, key, FALSE, &n, error);

  if (items == NULL)
    return FALSE;
  if (n < 1 || n > LLM_MAX_SPARSITIES)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s has %zu items, 1 to %u are possible", key, n, LLM_MAX_SPARSITIES);
  for (gsize i = 0; i < n; i++)
    {
      if (items[i] <= (i > 0 ? items[i - 1] : 0) || items[i] > LLM_MAX_SPARSITY)
        return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                              "item %zu of %s is %jd: they rise from 1 to at most %u", i, key,
                              (intmax_t) items[i], LLM_MAX_SPARSITY);
      self->percent[i] = (guint8) items[i];
    }
  self->n_sparsities = (guint) n;
  return TRUE;
}

static gboolean
read_all (LlmThresholds  *self,
          LlmGguf        *gguf,
          GError        **error)
{
  g_autofree float *kept = NULL, *losses = NULL;

  if (!read_percent (self, gguf, error))
    return FALSE;
  self->values = llm_gguf_get_numbers (gguf, "llmsvc.active.thresholds",
                               (gsize) self->n_sparsities * self->n_layers * LLM_N_INPUTS,
                               FLT_MAX, error);
  kept = self->values != NULL ? llm_gguf_get_numbers (gguf, "llmsvc.active.kept",
                                              (gsize) self->n_sparsities * LLM_N_INPUTS, 1, error)
                              : NULL;
  losses = kept != NULL ? llm_gguf_get_numbers (gguf, "llmsvc.active.losses", self->n_sparsities + 1,
                                        FLT_MAX, error)
                        : NULL;
  if (losses == NULL)
    return FALSE;
  for (guint i = 0; i < self->n_sparsities; i++)
    {
      for (guint input = 0; input < LLM_N_INPUTS; input++)
        self->kept[i][input] = kept[i * LLM_N_INPUTS + input];
      self->losses[i] = losses[i + 1];
    }
  self->dense_loss = losses[0];
  return TRUE;
}

LlmThresholds *
llm_thresholds_read (LlmGguf           *gguf,
                     const LlmHparams  *hparams,
                     GError           **error)
{
  g_autoptr(LlmThresholds) self = NULL;

  if (!llm_gguf_has (gguf, "llmsvc.active.percent")
      && !llm_gguf_has (gguf, "llmsvc.active.thresholds"))
    return NULL;
  if (hparams->experts.n > 0)
    {
      llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                     "it has activation thresholds of a model with experts, which are not known "
                     "here: remove it");
      return NULL;
    }
  self = g_new0 (LlmThresholds, 1);
  self->n_layers = hparams->n_layers;
  return read_all (self, gguf, error) ? g_steal_pointer (&self) : NULL;
}

void
llm_thresholds_free (LlmThresholds *self)
{
  g_free (self->values);
  g_free (self);
}

guint
llm_thresholds_find (const LlmThresholds *self,
                     guint                percent)
{
  guint place = 0;

  while (place < self->n_sparsities && self->percent[place] != percent)
    place++;
  return place;
}

guint
llm_thresholds_choose (const LlmThresholds *self,
                       guint                percent)
{
  guint chosen = 0;

  for (guint i = 0; i < self->n_sparsities && self->percent[i] <= percent; i++)
    chosen = self->percent[i];
  return chosen;
}

guint64
llm_thresholds_hash (const LlmThresholds *self)
{
  return XXH3_64bits_withSeed (self->values,
                               (gsize) self->n_sparsities * self->n_layers * LLM_N_INPUTS
                                 * sizeof (float),
                               XXH3_64bits (self->percent, self->n_sparsities));
}

GVariant *
llm_thresholds_describe (const LlmThresholds *self,
                         guint                place)
{
  static const char *const inputs[LLM_N_INPUTS] = { "attention", "attention-output", "ffn", "ffn-down" };
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "active", "u", (guint) self->percent[place]);
  g_variant_dict_insert (&dict, "growth", "d",
                         100 * expm1 ((double) self->losses[place] - (double) self->dense_loss));
  for (guint i = 0; i < LLM_N_INPUTS; i++)
    g_variant_dict_insert (&dict, inputs[i], "d", 100 * (double) self->kept[place][i]);
  return g_variant_dict_end (&dict);
}
