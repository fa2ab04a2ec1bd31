/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/llm-companion.h"

#include "common/llmsvc-error.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* What shares may differ from those computed here: they are written as floats. */
#define MAX_SHARE_ERROR 1e-4

char *
llm_companion_get_path (const char *model)
{
  gsize length = strlen (model);

  if (g_str_has_suffix (model, ".gguf"))
    length -= strlen (".gguf");
  return g_strdup_printf ("%.*s" LLM_COMPANION_SUFFIX, (int) length, model);
}

char *
llm_companion_get_prefix (const LlmCompanion *self,
                          guint               level)
{
  return g_strdup_printf ("level.%u.", self->sub_models->percent[level]);
}

static gboolean
check_head (LlmGguf   *gguf,
            LlmModel  *model,
            GError   **error)
{
  g_autofree char *type = llm_gguf_get_string (gguf, "general.type", FALSE, error);
  g_autofree char *weights = NULL;
  guint64 version;

  if (type == NULL)
    return FALSE;
  if (!g_str_equal (type, "companion"))
    {
      g_autofree char *quoted = llm_gguf_quote (type, strlen (type));

      return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                            "general.type is %s; the companion of a model has “companion”: make it "
                            "with llmsvc-elastic, or rename this file", quoted);
    }
  if (!llm_gguf_get_uint (gguf, "llmsvc.companion.version", 1, G_MAXUINT32, NULL, &version, error))
    return FALSE;
  if (version != LLM_COMPANION_VERSION)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "llmsvc.companion.version is %ju, only %u is known here",
                          (uintmax_t) version, LLM_COMPANION_VERSION);
  weights = llm_gguf_get_string (gguf, "llmsvc.companion.weights", FALSE, error);
  if (weights == NULL)
    return FALSE;
  if (!g_str_equal (weights, llm_model_get_weight_identity (model)))
    {
      g_autofree char *quoted = llm_gguf_quote (weights, strlen (weights));

      return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                            "it is for the weights %s, those of %s are “%s”: make it again with "
                            "llmsvc-elastic, or remove it", quoted,
                            llm_model_get_gguf (model)->path,
                            llm_model_get_weight_identity (model));
    }
  return TRUE;
}

/* (transfer full): @n numbers from 0 to G_MAXUINT16; @n is 0 for 1 to LLM_MAX_LEVELS, returned. */
static guint *
read_counts (LlmGguf     *gguf,
             const char  *key,
             gsize       *n,
             GError     **error)
{
  gsize n_items;
  g_autofree gint64 *items = llm_gguf_get_ints (gguf, key, FALSE, &n_items, error);
  g_autofree guint *counts = NULL;

  if (items == NULL)
    return NULL;
  if (*n == 0 ? n_items < 1 || n_items > LLM_MAX_LEVELS : n_items != *n)
    return llm_gguf_fail_null (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                               "%s has %zu items, %zu are needed", key, n_items,
                               *n == 0 ? (gsize) LLM_MAX_LEVELS : *n);
  counts = g_new (guint, n_items);
  for (gsize i = 0; i < n_items; i++)
    {
      if (items[i] < 0 || items[i] > G_MAXINT32)
        return llm_gguf_fail_null (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                                   "item %zu of %s is %jd, which is no count", i, key,
                                   (intmax_t) items[i]);
      counts[i] = (guint) items[i];
    }
  *n = n_items;
  return g_steal_pointer (&counts);
}

static LlmSubModels *
read_table (LlmGguf           *gguf,
            const LlmHparams  *hparams,
            GError           **error)
{
  gsize n_levels = 0, n;
  g_autofree guint *levels = read_counts (gguf, "llmsvc.levels.percent", &n_levels, error);
  g_autofree guint *groups = NULL, *channels = NULL;
  guint8 percent[LLM_MAX_LEVELS] = { 0 };
  g_autoptr(GError) cause = NULL;
  LlmSubModels *made;

  if (levels == NULL)
    return NULL;
  for (gsize i = 0; i < n_levels; i++)
    percent[i] = (guint8) MIN (levels[i], 255);
  n = n_levels * hparams->n_layers;
  groups = read_counts (gguf, "llmsvc.levels.groups", &n, error);
  channels = groups != NULL ? read_counts (gguf, "llmsvc.levels.channels", &n, error) : NULL;
  if (channels == NULL)
    return NULL;
  made = llm_sub_models_new (hparams, (guint) n_levels, percent, groups, channels, &cause);
  if (made == NULL)
    llm_gguf_fail_of (gguf, error, g_steal_pointer (&cause));
  return made;
}

/* What adapters add to each level; what they are for is checked by who applies them. */
static gboolean
add_adapters (LlmCompanion  *self,
              GError       **error)
{
  for (guint i = 0; i < self->gguf->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (self->gguf, i);
      gboolean is_known = FALSE;

      for (guint level = 0; level < self->sub_models->n_levels; level++)
        {
          g_autofree char *prefix = llm_companion_get_prefix (self, level);
          guint64 n_weights = tensor->dims[0] * tensor->dims[1];

          if (!g_str_has_prefix (tensor->name, prefix))
            continue;
          is_known = self->has_adapters[level] = TRUE;
          self->costs[level].weights += n_weights;
          self->costs[level].operations += n_weights;
          self->costs[level].bytes += tensor->bytes;
        }
      if (!is_known)
        {
          g_autofree char *quoted = llm_gguf_quote (tensor->name, strlen (tensor->name));

          return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                                "the tensor %s is of none of its levels", quoted);
        }
    }
  return TRUE;
}

/* A level must not be sold as a smaller one than it is. */
static gboolean
check_shares (LlmCompanion  *self,
              const char    *key,
              gsize          member,
              GError       **error)
{
  guint n_levels = self->sub_models->n_levels;
  gsize n;
  g_autofree float *shares = llm_gguf_get_floats (self->gguf, key, FALSE, &n, error);
#define COST(level) \
  ((double) *(const guint64 *) ((const char *) &self->costs[level] + member))

  if (shares == NULL)
    return FALSE;
  if (n != n_levels)
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s has %zu items for %u levels", key, n, n_levels);
  for (guint level = 0; level < n_levels; level++)
    {
      double share = COST (level) / COST (n_levels - 1);

      if (!(fabs (shares[level] - share) <= MAX_SHARE_ERROR))
        return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                              "%s says %.4f of level %u, its groups, channels and adapters are "
                              "%.4f", key, shares[level], self->sub_models->percent[level], share);
    }
#undef COST
  return TRUE;
}

/* Files of before have none: then a level is the better the more of the model it has. */
static gboolean
read_losses (LlmCompanion  *self,
             GError       **error)
{
  const char *key = "llmsvc.levels.losses";
  guint n_levels = self->sub_models->n_levels;
  g_autofree float *losses = NULL;

  if (!llm_gguf_has (self->gguf, key))
    {
      for (guint level = 0; level < n_levels; level++)
        self->losses[level] = 1 - self->sub_models->percent[level] / 100.0;
      return TRUE;
    }
  losses = llm_gguf_get_numbers (self->gguf, key, n_levels, FLT_MAX, error);
  for (guint level = 0; losses != NULL && level < n_levels; level++)
    self->losses[level] = (double) losses[level];
  return losses != NULL;
}

static gboolean
read_quality (LlmCompanion  *self,
              GError       **error)
{
  g_autoptr(GError) cause = NULL;

  if (self->has_sub_models)
    self->quality =
      llm_quality_read (self->gguf, LLM_QUALITY_OF_LEVELS, self->sub_models->n_levels, &cause);
  if (cause == NULL && self->thresholds != NULL)
    self->sparse_quality = llm_quality_read (self->gguf, LLM_QUALITY_OF_SPARSITIES,
                                             self->thresholds->n_sparsities + 1, &cause);
  if (cause == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&cause));
  return FALSE;
}

LlmCompanion *
llm_companion_new_for_gguf (LlmGguf   *gguf,
                            LlmModel  *model,
                            GError   **error)
{
  const LlmHparams *hparams = llm_model_get_hparams (model);
  g_autoptr(LlmCompanion) self = g_new0 (LlmCompanion, 1);
  g_autoptr(GError) cause = NULL;

  g_atomic_ref_count_init (&self->ref_count);
  self->gguf = llm_gguf_ref (gguf);
  if (!check_head (gguf, model, error))
    return NULL;
  self->thresholds = llm_thresholds_read (gguf, hparams, &cause);
  if (cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  self->calibration = llm_calibration_read (gguf, hparams, &cause);
  if (cause != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  self->has_sub_models = (self->thresholds == NULL && self->calibration == NULL)
                         || llm_gguf_has (gguf, "llmsvc.levels.percent");
  self->sub_models = self->has_sub_models ? read_table (gguf, hparams, error)
                                          : llm_sub_models_new_whole (hparams);
  if (self->sub_models == NULL)
    return NULL;
  for (guint level = 0; level < self->sub_models->n_levels; level++)
    if (!llm_sub_models_measure (self->sub_models, llm_model_get_gguf (model), hparams, level,
                                 &self->costs[level], error))
      return NULL;
  if (!read_quality (self, error))
    return NULL;
  if (!self->has_sub_models)
    return add_adapters (self, error) ? g_steal_pointer (&self) : NULL;
  if (!read_losses (self, error)
      || !add_adapters (self, error)
      || !check_shares (self, "llmsvc.levels.weights", G_STRUCT_OFFSET (LlmSubModelCost, weights),
                        error)
      || !check_shares (self, "llmsvc.levels.operations",
                        G_STRUCT_OFFSET (LlmSubModelCost, operations), error)
      || !check_shares (self, "llmsvc.levels.bytes", G_STRUCT_OFFSET (LlmSubModelCost, bytes),
                        error))
    return NULL;
  return g_steal_pointer (&self);
}

LlmCompanion *
llm_companion_open (LlmModel  *model,
                    GError   **error)
{
  g_autofree char *path = llm_companion_get_path (llm_model_get_gguf (model)->path);
  g_autoptr(LlmGguf) gguf = NULL;

  if (!g_file_test (path, G_FILE_TEST_EXISTS))
    return NULL;
  gguf = llm_gguf_open (path, error);
  return gguf != NULL ? llm_companion_new_for_gguf (gguf, model, error) : NULL;
}

LlmCompanion *
llm_companion_ref (LlmCompanion *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_companion_unref (LlmCompanion *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  llm_gguf_unref (self->gguf);
  g_clear_pointer (&self->sub_models, llm_sub_models_free);
  g_clear_pointer (&self->quality, g_free);
  g_clear_pointer (&self->thresholds, llm_thresholds_free);
  g_free (self->sparse_quality);
  g_clear_pointer (&self->calibration, llm_calibration_free);
  g_free (self);
}

GVariant *
llm_companion_describe_level (const LlmCompanion *self,
                              guint               level)
{
  const LlmSubModels *table = self->sub_models;
  const LlmSubModelCost *own = &self->costs[level], *whole = &self->costs[table->n_levels - 1];
  GVariantDict dict;

  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "level", "u", (guint) table->percent[level]);
  g_variant_dict_insert (&dict, "weights", "d", 100.0 * (double) own->weights / (double) whole->weights);
  g_variant_dict_insert (&dict, "operations", "d",
                         100.0 * (double) own->operations / (double) whole->operations);
  g_variant_dict_insert (&dict, "bytes", "d", 100.0 * (double) own->bytes / (double) whole->bytes);
  if (self->quality != NULL)
    llm_quality_describe (self->quality, level, &dict);
  return g_variant_dict_end (&dict);
}

static guint
find_sparse_level (const LlmCompanion *self,
                   guint               place)
{
  return self->thresholds->n_sparsities - 1 - place;
}

double
llm_companion_get_sparse_quality (const LlmCompanion *self,
                                  guint               place)
{
  return llm_quality_get (self->sparse_quality, self->thresholds->n_sparsities + 1,
                          find_sparse_level (self, place));
}

GVariant *
llm_companion_describe_sparsity (const LlmCompanion *self,
                                 guint               place)
{
  g_autoptr(GVariant) thresholds =
    g_variant_ref_sink (llm_thresholds_describe (self->thresholds, place));
  GVariantDict dict;

  g_variant_dict_init (&dict, thresholds);
  if (self->sparse_quality != NULL)
    llm_quality_describe (self->sparse_quality, find_sparse_level (self, place), &dict);
  return g_variant_dict_end (&dict);
}
