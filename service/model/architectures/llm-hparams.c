/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-hparams-heads.h"
#include "model/architectures/llm-hparams-networks.h"
#include "model/architectures/llm-hparams-rope.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

#define MIN_EMBD 8
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
  { "expert_shared_count", 0, N_("experts that all rows go through") },
  { "expert_group_count", 1, N_("groups of experts") },
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

/* The parts of a rotation that follow one of the three positions of a token each: for text these
 * are equal, but a fourth part would not be rotated. */
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

static void
read_scales (LlmKeys    *keys,
             LlmHparams *h)
{
  const LlmArchitecture *architecture = keys->architecture;
  guint width = h->latent.kv_rank > 0 ? h->latent.query_dim : h->head_dim;

  if (architecture->wide_scale_layers > 0 && h->n_layers == architecture->wide_scale_layers)
    width = MAX (h->n_embd / h->n_heads, 1);
  h->scales.attention = llm_keys_own_scale (keys, "attention.scale",
                                       architecture->has_no_attention_scale ? 1 : 1 / sqrt (width))
                       * powf (h->ropes[0].attention, 2);
  h->scales.embedding =
    llm_keys_own_scale (keys, "embedding_scale",
                    architecture->scales_embedding ? sqrt (h->n_embd)
                    : architecture->has_minicpm_scales ? 12 : 1);
  h->scales.residual = llm_keys_own_scale (keys, "residual_scale",
                                      architecture->has_minicpm_scales ? 1.4 / sqrt (h->n_layers)
                                                                       : 1);
  /* Mostly what logits are divided by, so that it grows with the width. */
  h->scales.logits = llm_keys_own_scale (keys, "logit_scale",
                                   architecture->has_minicpm_scales ? h->n_embd / 256.0 : 1);
  if (!architecture->multiplies_logits)
    h->scales.logits = 1 / h->scales.logits;
  h->gate = architecture->gate;
  h->scales.attention_softcap =
    llm_keys_own_float (keys, "attn_logit_softcapping", 1e6, architecture->attention_softcap);
  h->scales.logit_softcap =
    llm_keys_own_float (keys, "final_logit_softcapping", 1e6, architecture->logit_softcap);
  h->scales.temperature_length = h->ropes[0].n_ctx;
  h->scales.temperature = llm_keys_own_float (keys, "attention.temperature_scale", 1e3, 0);
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
  h->norms.is_wide = architecture->has_wide_head_norms;
  h->norms.has_values = architecture->has_value_norms;
  h->norms.is_centered = architecture->has_centered_norms;
  h->has_parallel_ffn = architecture->has_parallel_ffn;
  h->norms.is_ffn_renamed = architecture->has_renamed_ffn_norm;
  h->has_tied_output = llm_gguf_find_tensor (gguf, "output.weight") == NULL;
  h->operators = (LLM_OPS_COMMON & ~architecture->lacking) | architecture->needed |
                 llm_operator_find_present (gguf, architecture->optional |
                                                    LLM_OP_BIT (LLM_OP_OUTPUT));

  check_extras (&keys);
  h->n_layers = llm_keys_uint (&keys, "block_count", 1, LLM_MAX_LAYERS, 0);
  if (llm_architecture_has_key (architecture, "nextn_predict_layers"))
    h->n_predicting = llm_keys_optional (&keys, "nextn_predict_layers", h->n_layers - 1, 0);
  h->n_layers -= h->n_predicting;
  h->n_ctx = llm_keys_uint (&keys, "context_length", 1, MAX_CTX, 0);
  h->n_embd = llm_keys_uint (&keys, "embedding_length", MIN_EMBD, LLM_MAX_EMBD, 0);
  llm_hparams_read_layer_embedding (&keys, h);
  llm_hparams_read_streams (&keys, h);
  llm_hparams_read_cutoffs (&keys, h);
  llm_hparams_read_networks (&keys, h);
  read_windows (&keys, h);
  llm_hparams_read_heads (&keys, h);
  llm_hparams_share_layers (&keys, h);
  llm_hparams_measure_layers (h);
  check_sections (&keys);
  llm_hparams_read_rope (&keys, h);
  read_scales (&keys, h);
  h->n_vocab = read_vocab_size (&keys);
  if (keys.error == NULL)
    llm_gguf_get_double (gguf,
                         llm_keys_get (&keys, h->norms.is_centered
                                                ? "attention.layer_norm_epsilon"
                                                : "attention.layer_norm_rms_epsilon"),
                         1e-20, 1, NULL, &eps, &keys.error);
  h->norms.eps = (float) eps;
  if (keys.error == NULL)
    return TRUE;

  g_propagate_error (error, keys.error);
  return FALSE;
}
