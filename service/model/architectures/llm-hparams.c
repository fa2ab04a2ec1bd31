/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-hparams-rope.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "kernels/llk-attention.h"
#include "kernels/llk-panel.h"

#define MIN_EMBD 8
#define MAX_EMBD 65536
#define MAX_HEADS 1024
#define MAX_HEAD_DIM LLK_MAX_HEAD_DIM
#define MAX_FF (1024 * 1024)
#define MAX_EXPERTS 1024
#define MAX_VOCAB (4 * 1024 * 1024)
#define MAX_CTX (16 * 1024 * 1024)

/* Keys that change the forward pass in a way we do not have, with the value that
 * leaves it as it is. */
typedef struct
{
  const char *key;
  double neutral;
  const char *what;
} Extra;

/* An architecture that knows what one of them is says so. */
static const Extra extras[] = {
  { "expert_count", 0, N_("mixtures of experts") },
  { "expert_shared_feed_forward_length", 0, N_("experts that all rows go through") },
  { "expert_weights_scale", 1, N_("scaled experts") },
  { "expert_gating_func", 1, N_("another choice of experts") },
  { "embedding_length_per_layer_input", 0, N_("embeddings by layer") },
  { "nextn_predict_layers", 0, N_("layers that predict several tokens") },
  { "use_parallel_residual", 0, N_("layers side by side") },
  { "attention.sliding_window", 0, N_("sliding windows") },
  { "attention.scale", 0, N_("a scale of its own for attention") },
  { "attention.value_scale", 0, N_("a scale of its own for attention") },
  { "attention.output_scale", 0, N_("a scale of its own for attention") },
  { "attention.temperature_scale", 0, N_("a scale of its own for attention") },
  { "attention.temperature_length", 0, N_("a scale of its own for attention") },
  { "attention.clamp_kqv", 0, N_("caps on attention") },
  { "attention.max_alibi_bias", 0, N_("biases of attention by distance") },
  { "attention.shared_kv_layers", 0, N_("layers that share keys and values") },
  { "attention.causal", 1, N_("attention to later tokens") },
  { "attn_logit_softcapping", 0, N_("caps on attention") },
  { "final_logit_softcapping", 0, N_("caps on logits") },
  { "embedding_scale", 1, N_("scaled embeddings") },
  { "residual_scale", 1, N_("scaled residuals") },
  { "logit_scale", 1, N_("scaled logits") },
  { "rope.scaling.alpha", 0, N_("rotations scaled in another way") },
  { "rope.scaling.yarn_ext_factor", 1, N_("rotations scaled in another way") },
  { "rope.scaling.yarn_attn_factor", 1, N_("rotations scaled in another way") },
  { "rope.dimension_sections", 0, N_("rotations by several positions") },
};

#define LAYER(field) G_STRUCT_OFFSET (LlmLayer, field)

static const LlmArchitecture *
read_architecture (LlmGguf  *gguf,
                   GError  **error)
{
  g_autofree char *name = llm_gguf_get_string (gguf, "general.architecture", FALSE, error);
  const LlmArchitecture *architecture;
  g_autofree char *supported = NULL;
  g_autofree char *quoted = NULL;

  if (name == NULL)
    return NULL;

  architecture = llm_architecture_find (name);
  if (architecture != NULL)
    return architecture;

  quoted = llm_gguf_quote (name, strlen (name));
  supported = llm_architecture_list_names ();
  llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                 "general.architecture is %s, which is not supported; supported are %s", quoted,
                 supported);
  return NULL;
}

/* The value of a number or bool of any type; NAN for what is none. */
static double
read_any (LlmGguf    *gguf,
          const char *key)
{
  guint64 integer;
  double real;
  gboolean boolean;

  if (llm_gguf_get_uint (gguf, key, 0, G_MAXUINT64, NULL, &integer, NULL))
    return (double) integer;
  if (llm_gguf_get_double (gguf, key, -INFINITY, INFINITY, NULL, &real, NULL))
    return real;
  if (llm_gguf_get_bool (gguf, key, NULL, &boolean, NULL))
    return boolean;
  return NAN;
}

/* 0 in a file stands for "not set" where the neutral value is 1. */
static void
check_extras (LlmKeys *keys)
{
  for (guint i = 0; i < G_N_ELEMENTS (extras) && keys->error == NULL; i++)
    {
      const char *key = llm_keys_get (keys, extras[i].key);
      double value;

      if (!llm_gguf_has (keys->gguf, key) ||
          llm_architecture_has_key (keys->architecture, extras[i].key))
        continue;

      value = read_any (keys->gguf, key);
      if (value != extras[i].neutral &&
          !(value == 0 && strcmp (extras[i].key, "attention.causal") != 0))
        llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                       "%s is %g: models with %s are not supported", key, value,
                       extras[i].what);
    }
}

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

static void
read_heads (LlmKeys    *keys,
            LlmHparams *h)
{
  LlmGguf *gguf = keys->gguf;
  GError **error = &keys->error;
  gboolean has_length = llm_gguf_has (gguf, llm_keys_get (keys, "attention.key_length"));
  guint dim, window_dim;

  llm_keys_layers (keys, h, "attention.head_count", MAX_HEADS, 0, LAYER (n_heads));
  llm_keys_layers (keys, h, "attention.head_count_kv", MAX_HEADS,
                    *error == NULL ? h->layers[0].n_heads : 1, LAYER (n_kv_heads));
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

static gboolean
has_values (LlmGguf *gguf,
            guint    layer)
{
  char name[32], fused[32];

  g_snprintf (name, sizeof name, "blk.%u.attn_v.weight", layer);
  g_snprintf (fused, sizeof fused, "blk.%u.attn_qkv.weight", layer);
  return llm_gguf_find_tensor (gguf, name) != NULL || llm_gguf_find_tensor (gguf, fused) != NULL;
}

/* Which layers have K and V of their own; the others attend to those of the last one before them that
 * looks as far. */
static void
read_shared_layers (LlmKeys    *keys,
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
      if (keys->architecture->has_optional_values && !has_values (keys->gguf, i))
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

static void
measure_layers (LlmHparams *h)
{
  for (guint i = 0; i < h->n_layers; i++)
    {
      const LlmLayer *layer = &h->layers[i];

      h->n_heads = MAX (h->n_heads, layer->n_heads);
      h->n_kv_heads = MAX (h->n_kv_heads, layer->n_kv_heads);
      h->head_dim = MAX (h->head_dim, layer->head_dim);
      h->n_ff = MAX (h->n_ff, layer->n_ff);
      h->query_width = MAX (h->query_width, layer->n_heads * layer->head_dim);
      h->kv_width = MAX (h->kv_width, layer->n_kv_heads * layer->head_dim);
    }
}

static void
read_layer_embedding (LlmKeys    *keys,
                      LlmHparams *h)
{
  static const char suffix[] = "embedding_length_per_layer_input";

  if (!llm_architecture_has_key (keys->architecture, suffix))
    return;
  h->n_layer_embd = llm_keys_optional (keys, suffix, MAX_EMBD / 16, 0);
  if (h->n_layer_embd > 0)
    h->operators |= LLM_OPS_LAYER_EMBEDDING;
}

/* How many residual streams there are; the rank of the short way is that of the file's tensor. */
static void
read_streams (LlmKeys    *keys,
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

/* What each layer leaves out of its gate. */
static void
read_cutoffs (LlmKeys    *keys,
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

/* The networks of layers, and so which operators layers have: one for all rows, or experts. */
static void
read_networks (LlmKeys    *keys,
               LlmHparams *h)
{
  const char *name = "feed_forward_length";

  llm_keys_layers (keys, h, name, MAX_FF, 0, LAYER (n_ff));
  if (llm_architecture_has_key (keys->architecture, "expert_count"))
    h->n_experts = llm_keys_optional (keys, "expert_count", MAX_EXPERTS, 0);
  if (h->n_experts > 0)
    {
      h->operators &= ~(LLM_OPS_FFN | LLM_OPS_FFN_BIAS);
      h->operators |= LLM_OPS_EXPERTS;
      h->n_used_experts = llm_keys_uint (keys, "expert_used_count", 1, h->n_experts, 0);
    }
  for (guint i = 0; i < h->n_layers; i++)
    {
      LlmLayer *layer = &h->layers[i];

      layer->operators = h->operators;
      if (h->n_experts == 0)
        continue;
      /* Where it has that key, feed_forward_length is of a network that such a model lacks. */
      if (llm_architecture_has_key (keys->architecture, "expert_feed_forward_length"))
        {
          name = "expert_feed_forward_length";
          layer->n_ff = llm_keys_uint (keys, name, 1, MAX_FF,
                                       MAX (layer->n_ff / h->n_used_experts, 1));
        }
      if (keys->error == NULL
          && (layer->n_ff % LLK_PANEL_OUTPUTS != 0 || h->n_embd % LLK_PANEL_OUTPUTS != 0))
        llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                       "%s is %u and embedding_length %u: models with %s are not supported "
                       "unless both are multiples of %d",
                       llm_keys_get (keys, name), layer->n_ff, h->n_embd, extras[0].what,
                       LLK_PANEL_OUTPUTS);
    }
}

/* The parts of a rotation that follow one of the three positions of a token each: for text these are
 * equal, but a fourth part would not be rotated. */
static void
check_sections (LlmKeys *keys)
{
  static const char suffix[] = "rope.dimension_sections";
  const char *key = llm_keys_get (keys, suffix);
  g_autofree gint64 *sections = NULL;
  gsize n_sections;

  if (keys->error != NULL || !llm_architecture_has_key (keys->architecture, suffix)
      || !llm_gguf_has (keys->gguf, key))
    return;
  sections = llm_gguf_get_ints (keys->gguf, key, FALSE, &n_sections, &keys->error);
  for (gsize i = 3; sections != NULL && keys->error == NULL && i < n_sections; i++)
    if (sections[i] != 0)
      llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                     "%s has the part %jd behind the third: models with %s are not supported", key,
                     (intmax_t) sections[i], N_("rotations by several positions"));
}

/* (transfer full) (nullable): for each layer whether it has a window, where the file says so layer
 * by layer. */
static gint64 *
read_window_flags (LlmKeys          *keys,
                   const LlmHparams *h)
{
  const char *key = llm_keys_get (keys, "attention.sliding_window_pattern");
  const LlmGgufKey *found = llm_gguf_find_key (keys->gguf, key);
  g_autofree gint64 *flags = NULL;
  gsize n_flags;

  if (keys->error != NULL || found == NULL || found->type != LLM_GGUF_ARRAY)
    return NULL;
  flags = llm_gguf_get_flags (keys->gguf, key, &n_flags, &keys->error);
  if (flags != NULL && n_flags < h->n_layers)
    {
      llm_gguf_fail (keys->gguf, &keys->error, LLMSVC_ERROR_INVALID_MODEL,
                     "%s has %zu items for %u layers", key, n_flags, h->n_layers);
      return NULL;
    }
  return g_steal_pointer (&flags);
}

/* The windows of layers; their pattern is the architecture's, or the key's: every n-th
 * layer sees all, with 0 none does; or an item for each layer. */
static void
read_windows (LlmKeys    *keys,
              LlmHparams *h)
{
  const LlmArchitecture *architecture = keys->architecture;
  g_autofree gint64 *flags = NULL;
  guint window, period = 0;

  if (!llm_architecture_has_key (architecture, "attention.sliding_window")
      || (architecture->window_layers != 0 && architecture->window_layers != h->n_layers))
    return;

  window = llm_keys_optional (keys, "attention.sliding_window", MAX_CTX, architecture->window);
  flags = read_window_flags (keys, h);
  if (flags == NULL)
    period = llm_keys_optional (keys, "attention.sliding_window_pattern", LLM_MAX_LAYERS,
                            architecture->window_period);
  for (guint i = 0; i < h->n_layers; i++)
    h->layers[i].window = (flags != NULL ? flags[i] != 0 : period == 0 || (i + 1) % period != 0)
                            ? window : 0;
}

/* 0, which stands for "none", where the architecture has no such key. */
static float
read_own_float (LlmKeys    *keys,
                const char *suffix,
                double      max,
                double      fallback)
{
  return llm_architecture_has_key (keys->architecture, suffix)
           ? llm_keys_float (keys, suffix, 0, max, fallback)
           : 0;
}

/* Never 0, which stands for "not set". */
static float
read_own_scale (LlmKeys    *keys,
                const char *suffix,
                double      fallback)
{
  float scale = read_own_float (keys, suffix, 1e6, fallback);

  return scale != 0 ? scale : (float) fallback;
}

static void
read_scales (LlmKeys    *keys,
             LlmHparams *h)
{
  const LlmArchitecture *architecture = keys->architecture;
  guint width = h->head_dim;

  if (architecture->wide_scale_layers > 0 && h->n_layers == architecture->wide_scale_layers)
    width = MAX (h->n_embd / h->n_heads, 1);
  h->attention_scale = read_own_scale (keys, "attention.scale",
                                       architecture->has_no_attention_scale ? 1 : 1 / sqrt (width));
  h->embedding_scale =
    read_own_scale (keys, "embedding_scale",
                    architecture->scales_embedding ? sqrt (h->n_embd)
                    : architecture->has_minicpm_scales ? 12 : 1);
  h->residual_scale = read_own_scale (keys, "residual_scale",
                                      architecture->has_minicpm_scales ? 1.4 / sqrt (h->n_layers)
                                                                       : 1);
  /* Mostly what logits are divided by, so that it grows with the width. */
  h->logit_scale = read_own_scale (keys, "logit_scale",
                                   architecture->has_minicpm_scales ? h->n_embd / 256.0 : 1);
  if (!architecture->multiplies_logits)
    h->logit_scale = 1 / h->logit_scale;
  h->gate = architecture->gate;
  h->attention_softcap =
    read_own_float (keys, "attn_logit_softcapping", 1e6, architecture->attention_softcap);
  h->logit_softcap =
    read_own_float (keys, "final_logit_softcapping", 1e6, architecture->logit_softcap);
  h->temperature_length = h->ropes[0].n_ctx;
  h->temperature_scale = read_own_float (keys, "attention.temperature_scale", 1e3, 0);
}

/* From the first of: the key, the vocabulary, the embedding. Where several are
 * there, others check that they agree. */
static guint
read_vocab_size (LlmKeys *keys)
{
  LlmGguf *gguf = keys->gguf;
  const LlmGgufTensor *embedding = llm_gguf_find_tensor (gguf, "token_embd.weight");
  const LlmGgufKey *tokens = llm_gguf_find_key (gguf, "tokenizer.ggml.tokens");
  guint64 n_tokens = embedding != NULL ? embedding->dims[1] : 0;

  if (tokens != NULL)
    n_tokens = tokens->type == LLM_GGUF_ARRAY ? tokens->n_items : 0;
  if (keys->error == NULL && n_tokens > MAX_VOCAB)
    llm_gguf_fail (gguf, &keys->error, LLMSVC_ERROR_UNSUPPORTED,
                   "the vocabulary has %ju tokens, up to %d are supported", n_tokens, MAX_VOCAB);
  return llm_keys_uint (keys, "vocab_size", 1, MAX_VOCAB, n_tokens);
}

gboolean
llm_hparams_read (LlmGguf     *gguf,
                  LlmHparams  *h,
                  GError     **error)
{
  LlmKeys keys = { .gguf = gguf, .architecture = read_architecture (gguf, error) };
  const LlmArchitecture *architecture = keys.architecture;
  double eps = 1;

  if (architecture == NULL)
    return FALSE;

  memset (h, 0, sizeof *h);
  g_strlcpy (h->architecture, architecture->name, sizeof h->architecture);
  h->has_fused_gate = architecture->has_fused_gate;
  h->has_wide_head_norms = architecture->has_wide_head_norms;
  h->has_value_norms = architecture->has_value_norms;
  h->has_centered_norms = architecture->has_centered_norms;
  h->has_parallel_ffn = architecture->has_parallel_ffn;
  h->has_renamed_ffn_norm = architecture->has_renamed_ffn_norm;
  h->has_tied_output = llm_gguf_find_tensor (gguf, "output.weight") == NULL;
  h->operators = (LLM_OPS_COMMON & ~architecture->lacking) | architecture->needed |
                 llm_operator_find_present (gguf, architecture->optional |
                                                    LLM_OP_BIT (LLM_OP_OUTPUT));

  check_extras (&keys);
  h->n_layers = llm_keys_uint (&keys, "block_count", 1, LLM_MAX_LAYERS, 0);
  h->n_ctx = llm_keys_uint (&keys, "context_length", 1, MAX_CTX, 0);
  h->n_embd = llm_keys_uint (&keys, "embedding_length", MIN_EMBD, MAX_EMBD, 0);
  read_layer_embedding (&keys, h);
  read_streams (&keys, h);
  read_cutoffs (&keys, h);
  read_networks (&keys, h);
  read_windows (&keys, h);
  read_heads (&keys, h);
  read_shared_layers (&keys, h);
  measure_layers (h);
  check_sections (&keys);
  llm_hparams_read_rope (&keys, h);
  read_scales (&keys, h);
  h->n_vocab = read_vocab_size (&keys);
  if (keys.error == NULL)
    llm_gguf_get_double (gguf,
                         llm_keys_get (&keys, h->has_centered_norms
                                                ? "attention.layer_norm_epsilon"
                                                : "attention.layer_norm_rms_epsilon"),
                         1e-20, 1, NULL, &eps, &keys.error);
  h->norm_eps = (float) eps;
  if (keys.error == NULL)
    return TRUE;

  g_propagate_error (error, keys.error);
  return FALSE;
}
