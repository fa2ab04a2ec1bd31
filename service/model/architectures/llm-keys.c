/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-keys.h"

#include "common/llmsvc-error.h"

const char *
llm_keys_get (LlmKeys    *self,
              const char *suffix)
{
  g_snprintf (self->key, sizeof self->key, "%s.%s", self->architecture->name, suffix);
  return self->key;
}

static void
fail_array (LlmKeys    *keys,
            const char *key)
{
  llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                 "%s is an array: one number for all layers is supported for it", key);
}

guint
llm_keys_uint (LlmKeys    *self,
               const char *suffix,
               guint       min,
               guint       max,
               guint64     fallback)
{
  const char *key = llm_keys_get (self, suffix);
  const LlmGgufKey *found = llm_gguf_find_key (self->gguf, key);
  guint64 value = min;

  if (self->error != NULL)
    return min;
  if (found != NULL && found->type == LLM_GGUF_ARRAY)
    fail_array (self, key);
  else
    llm_gguf_get_uint (self->gguf, key, min, max, fallback != 0 ? &fallback : NULL, &value,
                       &self->error);
  return (guint) value;
}

float
llm_keys_float (LlmKeys    *self,
                const char *suffix,
                double      min,
                double      max,
                double      fallback)
{
  double value = fallback;

  if (self->error == NULL)
    llm_gguf_get_double (self->gguf, llm_keys_get (self, suffix), min, max, &fallback, &value,
                         &self->error);
  return (float) value;
}

guint
llm_keys_optional (LlmKeys    *self,
                   const char *suffix,
                   guint       max,
                   guint64     fallback)
{
  guint64 value = fallback;

  if (self->error == NULL)
    llm_gguf_get_uint (self->gguf, llm_keys_get (self, suffix), 0, max, &fallback, &value,
                       &self->error);
  return (guint) value;
}

void
llm_keys_layers (LlmKeys    *self,
                 LlmHparams *hparams,
                 const char *suffix,
                 guint       max,
                 guint64     fallback,
                 gsize       field)
{
  const char *key = llm_keys_get (self, suffix);
  const LlmGgufKey *found = llm_gguf_find_key (self->gguf, key);
  gboolean is_array = found != NULL && found->type == LLM_GGUF_ARRAY;
  g_autofree gint64 *items = NULL;
  gsize n_items = 0;
  guint all = 1;

  if (self->error == NULL && is_array)
    items = llm_gguf_get_ints (self->gguf, key, FALSE, &n_items, &self->error);
  else if (self->error == NULL)
    all = llm_keys_uint (self, suffix, 1, max, fallback);
  if (items != NULL && n_items < hparams->n_layers)
    llm_gguf_fail (self->gguf, &self->error, LLMSVC_ERROR_INVALID_MODEL,
                   "%s has %zu items for %u layers", key, n_items, hparams->n_layers);

  for (guint i = 0; i < hparams->n_layers; i++)
    {
      gint64 value = items != NULL && self->error == NULL ? items[i] : all;

      if (value < 1 || value > max)
        {
          if (self->error == NULL)
            llm_gguf_fail (self->gguf, &self->error, LLMSVC_ERROR_INVALID_MODEL,
                           "%s is %jd for layer %u, from 1 to %u is supported", key,
                           (intmax_t) value, i, max);
          value = 1;
        }
      G_STRUCT_MEMBER (guint, &hparams->layers[i], field) = (guint) value;
    }
}

float
llm_keys_own_float (LlmKeys    *self,
                    const char *suffix,
                    double      max,
                    double      fallback)
{
  return llm_architecture_has_key (self->architecture, suffix)
           ? llm_keys_float (self, suffix, 0, max, fallback)
           : 0;
}

float
llm_keys_own_scale (LlmKeys    *self,
                    const char *suffix,
                    double      fallback)
{
  float scale = llm_keys_own_float (self, suffix, 1e6, fallback);

  return scale != 0 ? scale : (float) fallback;
}

gboolean
llm_keys_has_tensor (LlmKeys    *self,
                     guint       layer,
                     const char *name)
{
  char full[64];

  g_snprintf (full, sizeof full, "blk.%u.%s", layer, name);
  return llm_gguf_find_tensor (self->gguf, full) != NULL;
}
