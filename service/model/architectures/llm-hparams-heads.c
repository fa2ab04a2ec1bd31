/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-hparams-heads.h"

#include "common/llmsvc-error.h"
#include "kernels/llk-attention.h"

#define MAX_HEADS 1024
#define MAX_HEAD_DIM LLK_MAX_HEAD_DIM
#define FIELD(field) G_STRUCT_OFFSET (LlmLayer, field)

/* Values of keys and of values are as many; those of layers with a window may be others. 0 after an
 * error. */
static guint
read_head_dim (LlmKeys    *keys,
               const char *key_length,
               const char *value_length,
               guint       fallback)
{
  guint dim = llm_keys_uint (keys, key_length, 2, MAX_HEAD_DIM, fallback);
  guint value = llm_keys_uint (keys, value_length, 2, MAX_HEAD_DIM, fallback);

  if (keys->error == NULL && value != dim)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                   "%s is %u and %s.%s is %u: values of another length "
                   "than keys are not supported",
                   llm_keys_get (keys, value_length), value, keys->architecture->name, key_length,
                   dim);
  return keys->error == NULL ? dim : 0;
}

/* What layers with a window may have of their own where the architecture says so; elsewhere it is
 * that of all. */
static void
check_window_length (LlmKeys    *keys,
                     const char *window_suffix,
                     const char *suffix,
                     guint       expected)
{
  guint found = llm_keys_uint (keys, window_suffix, 1, MAX_HEAD_DIM, expected);

  if (keys->error == NULL && found != expected)
    llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                   "%s is %u and %s.%s is %u: layers with heads of another length are "
                   "not supported",
                   llm_keys_get (keys, window_suffix), found, keys->architecture->name, suffix,
                   expected);
}

/* Where K and V are of one latent vector: all heads attend to it and to what is rotated behind
 * it. */
static void
read_latent (LlmKeys    *keys,
             LlmHparams *h)
{
  guint rope_dim = llm_keys_uint (keys, "rope.dimension_count", 2, MAX_HEAD_DIM / 2, 0);

  h->latent.kv_rank = llm_keys_uint (keys, "attention.kv_lora_rank", 1, MAX_HEAD_DIM - rope_dim, 0);
  h->latent.query_rank = llm_keys_optional (keys, "attention.q_lora_rank", LLM_MAX_EMBD, 0);
  h->latent.query_dim = llm_keys_uint (keys, "attention.key_length_mla", rope_dim + 1, MAX_HEAD_DIM,
                                       0);
  h->latent.value_dim = llm_keys_uint (keys, "attention.value_length_mla", 1, MAX_HEAD_DIM, 0);
  for (guint i = 0; i < h->n_layers; i++)
    {
      LlmLayer *layer = &h->layers[i];

      layer->head_dim = h->latent.kv_rank + rope_dim;
      if (h->latent.query_rank > 0)
        layer->operators |= LLM_OPS_QUERY_LOW;
      if (keys->error == NULL && layer->n_kv_heads != 1)
        llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                       "%s is %u: of models with latent keys and values, files with one for all "
                       "heads are supported, as newer conversions make them",
                       llm_keys_get (keys, "attention.head_count_kv"), layer->n_kv_heads);
    }
  h->operators |= h->latent.query_rank > 0 ? LLM_OPS_QUERY_LOW : 0;
}

void
llm_hparams_read_heads (LlmKeys    *keys,
                        LlmHparams *h)
{
  LlmGguf *gguf = keys->gguf;
  GError **error = &keys->error;
  gboolean has_length = llm_gguf_has (gguf, llm_keys_get (keys, "attention.key_length"));
  guint dim, window_dim;

  llm_keys_layers (keys, h, "attention.head_count", MAX_HEADS, 0, FIELD (n_heads));
  llm_keys_layers (keys, h, "attention.head_count_kv", MAX_HEADS,
                    *error == NULL ? h->layers[0].n_heads : 1, FIELD (n_kv_heads));
  for (guint i = 0; *error == NULL && i < h->n_layers; i++)
    {
      const LlmLayer *layer = &h->layers[i];

      if (layer->n_heads % layer->n_kv_heads != 0)
        llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                       "%s is %u, which does not divide the %u of attention.head_count",
                       llm_keys_get (keys, "attention.head_count_kv"), layer->n_kv_heads,
                       layer->n_heads);
      else if (h->n_embd % layer->n_heads != 0 && !has_length)
        llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                       "%s is %u, which does not divide the %u of embedding_length",
                       llm_keys_get (keys, "attention.head_count"), layer->n_heads, h->n_embd);
    }
  if (*error != NULL)
    return;

  if (keys->architecture->has_latent_kv)
    {
      read_latent (keys, h);
      return;
    }
  dim = window_dim = read_head_dim (keys, "attention.key_length", "attention.value_length",
                                    h->n_embd / h->layers[0].n_heads);
  if (*error == NULL && (dim < 2 || dim > MAX_HEAD_DIM))
    llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                   "%s is %u for an embedding_length of %u: heads have %u values, from 2 to "
                   "%d are supported",
                   llm_keys_get (keys, "attention.head_count"), h->layers[0].n_heads, h->n_embd,
                   dim, MAX_HEAD_DIM);
  if (llm_architecture_has_key (keys->architecture, "attention.key_length_swa"))
    window_dim = read_head_dim (keys, "attention.key_length_swa", "attention.value_length_swa",
                                dim);
  else
    {
      check_window_length (keys, "attention.key_length_swa", "attention.key_length", dim);
      check_window_length (keys, "attention.value_length_swa", "attention.value_length", dim);
    }
  for (guint i = 0; i < h->n_layers; i++)
    h->layers[i].head_dim = h->layers[i].window > 0 ? window_dim : dim;
}

void
llm_hparams_share_layers (LlmKeys    *keys,
                          LlmHparams *h)
{
  const char *suffix = "attention.shared_kv_layers";
  guint n_shared = 0;

  if (llm_architecture_has_key (keys->architecture, suffix))
    n_shared = llm_keys_optional (keys, suffix, h->n_layers - 1,
                                  keys->architecture->n_kv_layers > 0
                                    && h->n_layers > keys->architecture->n_kv_layers
                                    ? h->n_layers - keys->architecture->n_kv_layers : 0);
  h->n_kv_layers = h->n_layers - n_shared;
  for (guint i = 0; keys->error == NULL && i < h->n_layers; i++)
    {
      LlmLayer *layer = &h->layers[i];
      guint from = MIN (i, h->n_kv_layers - 1);

      /* Values may be the keys as they were before norm and rotation. */
      if (keys->architecture->has_optional_values
          && !llm_keys_has_tensor (keys, i, "attn_v.weight")
          && !llm_keys_has_tensor (keys, i, "attn_qkv.weight"))
        layer->operators &= ~LLM_OP_BIT (LLM_OP_VALUE);
      while (from > 0 && from != i && (h->layers[from].window > 0) != (layer->window > 0))
        from--;
      layer->kv_layer = from;
      if (from == i)
        continue;
      layer->operators &= ~LLM_OPS_OWN_KV;
      if (h->layers[from].window != layer->window
          || h->layers[from].n_kv_heads != layer->n_kv_heads
          || h->layers[from].head_dim != layer->head_dim)
        llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_INVALID_MODEL,
                       "%s is %u: layer %u has none before it whose keys and values it can "
                       "attend to",
                       llm_keys_get (keys, suffix), n_shared, i);
    }
}

void
llm_hparams_measure_layers (LlmHparams *h)
{
  for (guint i = 0; i < h->n_layers; i++)
    {
      const LlmLayer *layer = &h->layers[i];

      h->n_heads = MAX (h->n_heads, layer->n_heads);
      h->n_kv_heads = MAX (h->n_kv_heads, layer->n_kv_heads);
      h->head_dim = MAX (h->head_dim, layer->head_dim);
      h->n_ff = MAX (h->n_ff, MAX (layer->n_ff, layer->n_expert_ff));
      h->query_width = MAX (h->query_width,
                            layer->n_heads * MAX (layer->head_dim,
                                                  MAX (h->latent.query_dim, h->latent.value_dim)));
      h->kv_width = MAX (h->kv_width, layer->n_kv_heads * layer->head_dim);
    }
}
