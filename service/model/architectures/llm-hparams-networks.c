/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-hparams-networks.h"

#include <glib/gi18n.h>
#include <math.h>

#include "common/llmsvc-error.h"
#include "kernels/llk-panel.h"

#define MAX_FF (1024 * 1024)
#define MAX_EXPERTS 1024
#define FIELD(field) G_STRUCT_OFFSET (LlmLayer, field)

void
llm_hparams_read_layer_embedding (LlmKeys    *keys,
                                  LlmHparams *h)
{
  static const char suffix[] = "embedding_length_per_layer_input";

  if (!llm_architecture_has_key (keys->architecture, suffix))
    return;
  h->n_layer_embd = llm_keys_optional (keys, suffix, LLM_MAX_EMBD / 16, 0);
  if (h->n_layer_embd > 0)
    h->operators |= LLM_OPS_LAYER_EMBEDDING;
}

void
llm_hparams_read_streams (LlmKeys    *keys,
                          LlmHparams *h)
{
  static const char active[] = "altup.active_idx";
  const LlmGgufTensor *laurel = llm_gguf_find_tensor (keys->gguf, "blk.0.laurel_l.weight");
  guint first;

  h->n_streams = 1;
  if (!keys->architecture->has_streams)
    return;
  h->n_streams = llm_keys_uint (keys, "altup.num_inputs", 2, LLM_MAX_STREAMS, 4);
  h->laurel_rank = laurel != NULL ? (guint) MIN (laurel->dims[1], h->n_embd) : 1;
  first = llm_keys_optional (keys, active, LLM_MAX_STREAMS, 0);
  if (first != 0 && keys->error == NULL)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                   "%s is %u: models whose layers compute another residual stream than the first "
                   "are not supported", llm_keys_get (keys, active), first);
}

void
llm_hparams_read_cutoffs (LlmKeys    *keys,
                          LlmHparams *h)
{
  static const char suffix[] = "activation_sparsity_scale";
  const char *key = llm_keys_get (keys, suffix);
  g_autofree float *cutoffs = NULL;
  gsize n_cutoffs = 0;

  for (guint i = 0; i < h->n_layers; i++)
    h->layers[i].gate_cutoff = -INFINITY;
  if (keys->error != NULL || !llm_architecture_has_key (keys->architecture, suffix)
      || !llm_gguf_has (keys->gguf, key))
    return;
  cutoffs = llm_gguf_get_floats (keys->gguf, key, FALSE, &n_cutoffs, &keys->error);
  if (cutoffs != NULL && n_cutoffs < h->n_layers)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_INVALID_MODEL,
                   "%s has %zu items for %u layers", key, n_cutoffs, h->n_layers);
  for (guint i = 0; keys->error == NULL && i < h->n_layers; i++)
    if (isnan (cutoffs[i]))
      llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_INVALID_MODEL, "%s is %g for layer %u",
                     key, (double) cutoffs[i], i);
    else
      h->layers[i].gate_cutoff = cutoffs[i];
}

/* How a row's experts are chosen, and what each counts. A file that doesn't say has the softmax of
 * old; the experts' shares are 1 together unless it has a key for that. */
static void
read_expert_choice (LlmKeys    *keys,
                    LlmHparams *h)
{
  const LlmArchitecture *architecture = keys->architecture;
  const char *score = "expert_gating_func", *norm = "expert_weights_norm";
  guint kind = 1;

  h->experts.has_sum = !llm_architecture_has_key (architecture, norm);
  h->experts.scale = llm_keys_own_scale (keys, "expert_weights_scale", 1);
  if (llm_architecture_has_key (architecture, score))
    kind = llm_keys_uint (keys, score, 1, 2, 1);
  h->experts.score = kind == 2 ? LLM_EXPERT_SIGMOID : LLM_EXPERT_SOFTMAX;
  if (!h->experts.has_sum && keys->error == NULL)
    llm_gguf_get_bool (keys->gguf, llm_keys_get (keys, norm), &h->experts.has_sum,
                       &h->experts.has_sum, &keys->error);
}

/* The networks of a layer that has experts. */
static void
read_layer_experts (LlmKeys    *keys,
                    LlmHparams *h,
                    guint       n_shared,
                    guint       at)
{
  const char *name = "feed_forward_length";
  LlmLayer *layer = &h->layers[at];

  layer->operators |= LLM_OPS_EXPERTS;
  if (n_shared == 0)
    layer->operators &= ~(LLM_OPS_FFN | LLM_OPS_FFN_BIAS);
  if (keys->architecture->has_dense_lead && llm_keys_has_tensor (keys, at, "exp_probs_b.bias"))
    {
      layer->operators |= LLM_OP_BIT (LLM_OP_EXPERT_ROUTER_BIAS);
      h->experts.has_choice_bias = TRUE;
    }
  layer->n_expert_ff = layer->n_ff;
  /* Where it has that key, feed_forward_length is of a network that such a layer lacks. */
  if (llm_architecture_has_key (keys->architecture, "expert_feed_forward_length"))
    {
      name = "expert_feed_forward_length";
      layer->n_expert_ff = llm_keys_uint (keys, name, 1, MAX_FF,
                                          MAX (layer->n_ff / h->experts.n_used, 1));
    }
  layer->n_ff = n_shared * layer->n_expert_ff;
  if (keys->error == NULL
      && (layer->n_expert_ff % LLK_PANEL_OUTPUTS != 0 || h->n_embd % LLK_PANEL_OUTPUTS != 0))
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                   "%s is %u and embedding_length %u: models with %s are not supported "
                   "unless both are multiples of %d",
                   llm_keys_get (keys, name), layer->n_expert_ff, h->n_embd, N_("mixtures of experts"),
                   LLK_PANEL_OUTPUTS);
}

void
llm_hparams_read_networks (LlmKeys    *keys,
                           LlmHparams *h)
{
  guint n_dense = 0, n_shared = 0;

  llm_keys_layers (keys, h, "feed_forward_length", MAX_FF, 0, FIELD (n_ff));
  if (llm_architecture_has_key (keys->architecture, "expert_count"))
    h->experts.n = llm_keys_optional (keys, "expert_count", MAX_EXPERTS, 0);
  for (guint i = 0; i < h->n_layers; i++)
    h->layers[i].operators = h->operators;
  if (h->experts.n == 0)
    return;

  h->experts.n_used = llm_keys_uint (keys, "expert_used_count", 1, h->experts.n, 0);
  read_expert_choice (keys, h);
  if (llm_architecture_has_key (keys->architecture, "expert_shared_count"))
    n_shared = llm_keys_optional (keys, "expert_shared_count", MAX_EXPERTS, 0);
  if (keys->architecture->has_dense_lead)
    n_dense = llm_keys_optional (keys, "leading_dense_block_count", h->n_layers, 0);
  for (guint i = n_dense; i < h->n_layers; i++)
    read_layer_experts (keys, h, n_shared, i);
  h->operators = 0;
  for (guint i = 0; i < h->n_layers; i++)
    h->operators |= h->layers[i].operators;
}
