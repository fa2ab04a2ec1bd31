/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/architectures/llm-hparams-private.h"

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

#define MAX_BASE 1e12
#define MAX_SCALE 1e6
#define MIN_SCALE 1e-3
#define MAX_ORIGINAL_CTX (16 * 1024 * 1024)

typedef enum
{
  TYPE_NONE,
  TYPE_LINEAR,
  TYPE_YARN,
  TYPE_LONGROPE,
} ScalingType;

static const char *const type_names[] = { "none", "linear", "yarn", "longrope" };

/* Files without the key, but with a factor, are older ones and linear. */
static gboolean
read_type (LlmKeys      *keys,
           ScalingType  *type,
           GError      **error)
{
  const char *key = llm_keys_get (keys, "rope.scaling.type");
  g_autoptr(GError) local_error = NULL;
  g_autofree char *name = llm_gguf_get_string (keys->gguf, key, TRUE, &local_error);
  g_autofree char *quoted = NULL;

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  *type = TYPE_LINEAR;
  if (name == NULL)
    return TRUE;

  for (guint i = 0; i < G_N_ELEMENTS (type_names); i++)
    if (strcmp (type_names[i], name) == 0)
      {
        *type = (ScalingType) i;
        return TRUE;
      }
  quoted = llm_gguf_quote (name, strlen (name));
  return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                        "%s is %s, which is not supported; supported are none, linear, yarn, "
                        "longrope",
                        key, quoted);
}

/* 1 for none. The older key counts where the newer one is not there; 0 stands for
 * "not set". */
static gboolean
read_scale (LlmKeys  *keys,
            float    *scale,
            GError  **error)
{
  float older;

  if (!llm_keys_read_float (keys, "rope.scale_linear", 0, MAX_SCALE, 0, &older, error) ||
      !llm_keys_read_float (keys, "rope.scaling.factor", 0, MAX_SCALE, (double) older, scale,
                            error))
    return FALSE;

  if (*scale != 0 && *scale < (float) MIN_SCALE)
    return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %g, from 0.001 to 1000000 is supported",
                          llm_keys_get (keys, "rope.scaling.factor"), (double) *scale);
  if (*scale == 0)
    *scale = 1;
  return TRUE;
}

/* What YaRN multiplies attention with: 0.1 × @multiplier × ln (scale) + 1. */
static double
get_yarn_magnitude (double scale,
                    double multiplier)
{
  return scale <= 1 ? 1 : 0.1 * multiplier * log (scale) + 1;
}

/* YaRN by Peng and others (2023). The multiplier of the logarithm is one that
 * takes the usual magnitude back, in part or all of it. */
static gboolean
read_yarn (LlmKeys  *keys,
           LlmRope  *rope,
           GError  **error)
{
  float multiplier;

  if (!llm_keys_read_float (keys, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32, &rope->beta_fast,
                            error) ||
      !llm_keys_read_float (keys, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1, &rope->beta_slow,
                            error) ||
      !llm_keys_read_float (keys, "rope.scaling.yarn_log_multiplier", 0, 100, 0, &multiplier,
                            error))
    return FALSE;

  rope->magnitude *= (float) get_yarn_magnitude ((double) rope->scale, 1);
  if (multiplier != 0)
    rope->magnitude /= (float) get_yarn_magnitude ((double) rope->scale, (double) multiplier);
  return TRUE;
}

/* Which factors divide the frequencies. Those for short and for long contexts: the
 * long ones where the model says that it was made for contexts longer than at
 * first, whatever the length of a text, so that no text changes its angles midway. */
static gboolean
choose_factors (LlmKeys           *keys,
                const LlmHparams  *hparams,
                LlmRope           *rope,
                GError           **error)
{
  guint64 both = LLM_OPS_LONG_ROPE;

  rope->factors = -1;
  if ((hparams->operators & both) != 0 && (hparams->operators & both) != both)
    return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_INVALID_MODEL, "the tensor %s is missing",
                          llm_operator_is_used (hparams, LLM_OP_ROPE_FACTORS_LONG)
                            ? "rope_factors_short.weight"
                            : "rope_factors_long.weight");

  if ((hparams->operators & both) != 0)
    rope->factors = hparams->n_ctx > rope->n_ctx ? LLM_OP_ROPE_FACTORS_LONG
                                                 : LLM_OP_ROPE_FACTORS_SHORT;
  else if (llm_operator_is_used (hparams, LLM_OP_ROPE_FACTORS))
    rope->factors = LLM_OP_ROPE_FACTORS;
  return TRUE;
}

static gboolean
read_scaling (LlmKeys     *keys,
              LlmHparams  *hparams,
              LlmRope     *rope,
              GError     **error)
{
  ScalingType type;

  if (!read_type (keys, &type, error) || !read_scale (keys, &rope->scale, error) ||
      !llm_keys_read_uint (keys, "rope.scaling.original_context_length", 1, MAX_ORIGINAL_CTX,
                           hparams->n_ctx, &rope->n_ctx, error) ||
      !llm_keys_read_float (keys, "rope.scaling.attn_factor", 0, 1e3, 1, &rope->magnitude, error) ||
      !choose_factors (keys, hparams, rope, error))
    return FALSE;

  if (rope->magnitude == 0)
    rope->magnitude = 1;
  if (type == TYPE_LONGROPE && rope->factors < 0)
    return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_INVALID_MODEL, "the tensor %s is missing",
                          "rope_factors_long.weight");
  if (type == TYPE_LONGROPE && rope->scale != 1)
    return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s is %g: models with %s are not supported",
                          llm_keys_get (keys, "rope.scaling.factor"), (double) rope->scale,
                          "longrope");

  rope->scaling = LLM_ROPE_SCALING_NONE;
  if (type == TYPE_NONE)
    rope->scale = 1;
  if (rope->scale != 1)
    rope->scaling = type == TYPE_YARN ? LLM_ROPE_SCALING_YARN : LLM_ROPE_SCALING_LINEAR;
  return rope->scaling != LLM_ROPE_SCALING_YARN || read_yarn (keys, rope, error);
}

static void
give_to_layers (const LlmArchitecture *architecture,
                LlmHparams            *hparams)
{
  for (guint i = 0; i < hparams->n_layers; i++)
    {
      LlmLayer *layer = &hparams->layers[i];

      layer->rope = layer->window > 0 ? (gint) hparams->n_ropes - 1 : 0;
      if (architecture->no_rope_period > 0 && (i + 1) % architecture->no_rope_period == 0)
        layer->rope = LLM_NO_ROPE;
    }
}

gboolean
llm_hparams_read_rope (LlmKeys     *keys,
                       LlmHparams  *hparams,
                       GError     **error)
{
  double window_base = keys->architecture->window_rope_base;
  LlmRope *rope = &hparams->ropes[0];
  float base;

  if (!llm_keys_read_uint (keys, "rope.dimension_count", 2, hparams->head_dim, hparams->head_dim,
                           &hparams->rope_dim, error))
    return FALSE;
  if (hparams->rope_dim % 2 != 0)
    return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u, an even number of at most the %u values of a head is needed",
                          llm_keys_get (keys, "rope.dimension_count"), hparams->rope_dim,
                          hparams->head_dim);
  hparams->rope_kind = keys->architecture->rope_kind;

  if (!llm_keys_read_float (keys, "rope.freq_base", 1, MAX_BASE, 10000, &rope->base, error) ||
      !read_scaling (keys, hparams, rope, error))
    return FALSE;
  hparams->n_ropes = 1;

  /* Layers with a window are not scaled: they never look far. */
  if (window_base == 0)
    window_base = (double) rope->base;
  if (!llm_keys_read_float (keys, "rope.freq_base_swa", 1, MAX_BASE, window_base, &base, error))
    return FALSE;
  if (keys->architecture->window_rope_base > 0 || base != rope->base)
    {
      hparams->ropes[1] = (LlmRope) { .base = base, .scale = 1, .magnitude = 1, .factors = -1 };
      hparams->n_ropes = 2;
    }
  give_to_layers (keys->architecture, hparams);
  return TRUE;
}
