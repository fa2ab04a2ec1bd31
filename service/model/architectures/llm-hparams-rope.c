/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-hparams-rope.h"

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "kernels/llk-attention.h"

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
static ScalingType
read_type (LlmKeys *keys)
{
  const char *key = llm_keys_get (keys, "rope.scaling.type");
  g_autofree char *name = NULL;
  g_autofree char *quoted = NULL;

  if (keys->error == NULL)
    name = llm_gguf_get_string (keys->gguf, key, TRUE, &keys->error);
  if (name == NULL)
    return TYPE_LINEAR;

  for (guint i = 0; i < G_N_ELEMENTS (type_names); i++)
    if (strcmp (type_names[i], name) == 0)
      return (ScalingType) i;
  quoted = llm_gguf_quote (name, strlen (name));
  llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                 "%s is %s, which is not supported; supported are none, linear, yarn, "
                 "longrope",
                 key, quoted);
  return TYPE_NONE;
}

/* Default 1. The older key counts where the newer one is missing; 0 stands for "not set". */
static float
read_scale (LlmKeys *keys)
{
  float older = llm_keys_float (keys, "rope.scale_linear", 0, MAX_SCALE, 0);
  float scale = llm_keys_float (keys, "rope.scaling.factor", 0, MAX_SCALE, (double) older);

  if (keys->error == NULL && scale != 0 && scale < (float) MIN_SCALE)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_INVALID_MODEL,
                   "%s is %g, from 0.001 to 1000000 is supported",
                   llm_keys_get (keys, "rope.scaling.factor"), (double) scale);
  return scale != 0 ? scale : 1;
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
static void
read_yarn (LlmKeys *keys,
           LlmRope *rope)
{
  float multiplier;

  rope->beta_fast = llm_keys_float (keys, "rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32);
  rope->beta_slow = llm_keys_float (keys, "rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1);
  multiplier = llm_keys_float (keys, "rope.scaling.yarn_log_multiplier", 0, 100, 0);
  /* Of latent keys only a part is rotated; and the key has a tenth of the multiplier in it. */
  if (keys->architecture->has_latent_kv && multiplier != 0)
    {
      rope->attention = (float) get_yarn_magnitude ((double) rope->scale, 10 * (double) multiplier);
      return;
    }
  rope->magnitude *= (float) get_yarn_magnitude ((double) rope->scale, 1);
  if (multiplier != 0)
    rope->magnitude /= (float) get_yarn_magnitude ((double) rope->scale, (double) multiplier);
}

/* Which factors divide the frequencies. Those for short and for long contexts: the
 * long ones where the model says that it was made for contexts longer than at
 * first, whatever the length of a text, so that no text changes its angles midway. */
static gint
choose_factors (LlmKeys          *keys,
                const LlmHparams *hparams,
                guint             n_ctx)
{
  gboolean has_short = llm_operator_is_used (hparams, LLM_OP_ROPE_FACTORS_SHORT);
  gboolean has_long = llm_operator_is_used (hparams, LLM_OP_ROPE_FACTORS_LONG);

  if (keys->error == NULL && has_short != has_long)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_INVALID_MODEL,
                   "the tensor %s is missing",
                   has_long ? "rope_factors_short.weight" : "rope_factors_long.weight");

  if (has_short || has_long)
    return hparams->n_ctx > n_ctx ? LLM_OP_ROPE_FACTORS_LONG : LLM_OP_ROPE_FACTORS_SHORT;
  return llm_operator_is_used (hparams, LLM_OP_ROPE_FACTORS) ? LLM_OP_ROPE_FACTORS : -1;
}

static void
read_scaling (LlmKeys          *keys,
              const LlmHparams *hparams,
              LlmRope          *rope)
{
  ScalingType type = read_type (keys);

  rope->scale = read_scale (keys);
  rope->n_ctx = llm_keys_uint (keys, "rope.scaling.original_context_length", 1, MAX_ORIGINAL_CTX,
                               hparams->n_ctx);
  rope->magnitude = llm_keys_float (keys, "rope.scaling.attn_factor", 0, 1e3, 1);
  rope->factors = choose_factors (keys, hparams, rope->n_ctx);
  if (keys->error != NULL)
    return;

  if (rope->magnitude == 0)
    rope->magnitude = 1;
  if (type == TYPE_LONGROPE && rope->factors < 0)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_INVALID_MODEL,
                   "the tensor %s is missing", "rope_factors_long.weight");
  else if (type == TYPE_LONGROPE && rope->scale != 1)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                   "%s is %g: models with %s are not supported",
                   llm_keys_get (keys, "rope.scaling.factor"), (double) rope->scale, "longrope");

  rope->scaling = LLM_ROPE_SCALING_NONE;
  if (type == TYPE_NONE)
    rope->scale = 1;
  if (rope->scale != 1)
    rope->scaling = type == TYPE_YARN ? LLM_ROPE_SCALING_YARN : LLM_ROPE_SCALING_LINEAR;
  if (rope->scaling == LLM_ROPE_SCALING_YARN)
    read_yarn (keys, rope);
}

/* How many of the @head_dim values of a head are rotated. */
static guint
read_dim (LlmKeys    *keys,
          const char *suffix,
          guint       head_dim)
{
  guint dim = llm_keys_uint (keys, suffix, 2, MAX (head_dim, 2), head_dim);

  if (keys->error == NULL && dim % 2 != 0)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_INVALID_MODEL,
                   "%s is %u, an even number of at most the %u values of a head is needed",
                   llm_keys_get (keys, suffix), dim, head_dim);
  return dim;
}

/* The same of layers with a window: as many, unless the architecture has heads of another length
 * there. */
static guint
read_window_dim (LlmKeys          *keys,
                 const LlmHparams *hparams)
{
  static const char suffix[] = "rope.dimension_count_swa";
  guint dim;

  if (!llm_architecture_has_key (keys->architecture, suffix))
    {
      dim = llm_keys_uint (keys, suffix, 1, LLK_MAX_HEAD_DIM, hparams->rope_dim);
      if (keys->error == NULL && dim != hparams->rope_dim)
        llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                       "%s is %u and %s.%s is %u: layers with heads of another length are "
                       "not supported",
                       llm_keys_get (keys, suffix), dim, keys->architecture->name,
                       "rope.dimension_count", hparams->rope_dim);
      return dim;
    }
  for (guint i = 0; i < hparams->n_layers; i++)
    if (hparams->layers[i].window > 0)
      return read_dim (keys, suffix, hparams->layers[i].head_dim);
  return hparams->rope_dim;
}

void
llm_hparams_read_rope (LlmKeys    *keys,
                       LlmHparams *hparams)
{
  const LlmArchitecture *architecture = keys->architecture;
  LlmRope *rope = &hparams->ropes[0];
  double window_base = architecture->window_rope_base;
  gboolean is_on = TRUE, has_windows = FALSE;
  guint window_dim;
  float base;

  hparams->rope_dim = read_dim (keys, "rope.dimension_count", hparams->head_dim);
  hparams->rope_kind = architecture->rope_kind;
  rope->dim = hparams->rope_dim;
  rope->attention = 1;
  rope->base = llm_keys_float (keys, "rope.freq_base", 1, MAX_BASE, 10000);
  read_scaling (keys, hparams, rope);
  hparams->n_ropes = 1;
  window_dim = read_window_dim (keys, hparams);

  hparams->rope_dim = MAX (rope->dim, window_dim);

  /* Layers with a window are not scaled: they never look far. */
  if (window_base == 0)
    window_base = (double) rope->base;
  base = llm_keys_float (keys, "rope.freq_base_swa", 1, MAX_BASE, window_base);
  if (architecture->window_rope_base > 0 || base != rope->base || window_dim != rope->dim)
    {
      hparams->ropes[1] = (LlmRope) {
        .base = base, .scale = 1, .magnitude = 1, .attention = 1, .factors = -1,
        .dim = window_dim,
      };
      hparams->n_ropes = 2;
    }

  if (architecture->has_rope_switch && keys->error == NULL)
    llm_gguf_get_bool (keys->gguf, llm_keys_get (keys, "rope.scaling.finetuned"), &is_on, &is_on,
                       &keys->error);
  for (guint i = 0; i < hparams->n_layers; i++)
    has_windows = has_windows || hparams->layers[i].window > 0;
  for (guint i = 0; i < hparams->n_layers; i++)
    {
      LlmLayer *layer = &hparams->layers[i];

      layer->rope = layer->window > 0 ? (gint) hparams->n_ropes - 1 : 0;
      if (!is_on
          || (architecture->no_rope_period > 0 && (i + 1) % architecture->no_rope_period == 0)
          || (architecture->rotates_windows_only && has_windows && layer->window == 0))
        layer->rope = LLM_NO_ROPE;
    }
}
