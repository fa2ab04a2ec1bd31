/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/architectures/llm-hparams-private.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"
#include "kernels/llk-panel.h"

#define MIN_EMBD 8
#define MAX_EMBD 65536
#define MAX_HEADS 1024
#define MAX_HEAD_DIM 512
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

/* Lengths that layers with a window may have of their own; none may differ. */
static const char *const window_lengths[][2] = {
  { "attention.key_length_swa", "attention.key_length" },
  { "attention.value_length_swa", "attention.value_length" },
  { "rope.dimension_count_swa", "rope.dimension_count" },
};

const char *
llm_keys_get (LlmKeys    *self,
              const char *suffix)
{
  g_snprintf (self->key, sizeof self->key, "%s.%s", self->architecture->name, suffix);
  return self->key;
}

static gboolean
fail_array (LlmKeys     *keys,
            const char  *key,
            GError     **error)
{
  return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                        "%s is an array: models whose layers differ are not supported, one "
                        "number for all of them is",
                        key);
}

gboolean
llm_keys_read_uint (LlmKeys     *self,
                    const char  *suffix,
                    guint        min,
                    guint        max,
                    guint64      fallback,
                    guint       *value,
                    GError     **error)
{
  const char *key = llm_keys_get (self, suffix);
  LlmGgufType type;
  guint64 wide;

  if (llm_gguf_lookup (self->gguf, key, &type, NULL) && type == LLM_GGUF_ARRAY)
    return fail_array (self, key, error);
  if (!llm_gguf_get_uint (self->gguf, key, min, max, fallback != 0 ? &fallback : NULL, &wide,
                          error))
    return FALSE;

  *value = (guint) wide;
  return TRUE;
}

gboolean
llm_keys_read_float (LlmKeys     *self,
                     const char  *suffix,
                     double       min,
                     double       max,
                     double       fallback,
                     float       *value,
                     GError     **error)
{
  double wide;

  if (!llm_gguf_get_double (self->gguf, llm_keys_get (self, suffix), min, max, &fallback, &wide,
                            error))
    return FALSE;

  *value = (float) wide;
  return TRUE;
}

/* A key that may be one number for all layers, or one for each, which then are the same. */
static gboolean
read_layers_uint (LlmKeys           *keys,
                  const LlmHparams  *hparams,
                  const char        *suffix,
                  guint              max,
                  guint64            fallback,
                  guint             *value,
                  GError           **error)
{
  const char *key = llm_keys_get (keys, suffix);
  g_autofree gint64 *items = NULL;
  LlmGgufType type;
  gsize n_items;

  if (!llm_gguf_lookup (keys->gguf, key, &type, NULL) || type != LLM_GGUF_ARRAY)
    return llm_keys_read_uint (keys, suffix, 1, max, fallback, value, error);

  items = llm_gguf_get_ints (keys->gguf, key, FALSE, &n_items, error);
  if (items == NULL)
    return FALSE;
  if (n_items != hparams->n_layers || items[0] < 1 || items[0] > max)
    return fail_array (keys, key, error);
  for (gsize i = 1; i < n_items; i++)
    if (items[i] != items[0])
      return fail_array (keys, key, error);

  *value = (guint) items[0];
  return TRUE;
}

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
static gboolean
check_extras (LlmKeys  *keys,
              GError  **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (extras); i++)
    {
      const char *key = llm_keys_get (keys, extras[i].key);
      double value;

      if (!llm_gguf_has (keys->gguf, key) ||
          llm_architecture_has_key (keys->architecture, extras[i].key))
        continue;

      value = read_any (keys->gguf, key);
      if (value != extras[i].neutral &&
          !(value == 0 && strcmp (extras[i].key, "attention.causal") != 0))
        return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                              "%s is %g: models with %s are not supported", key, value,
                              extras[i].what);
    }
  return TRUE;
}

static gboolean
read_heads (LlmKeys     *keys,
            LlmHparams  *hparams,
            GError     **error)
{
  LlmGguf *gguf = keys->gguf;
  guint value_length, fallback;

  if (!read_layers_uint (keys, hparams, "attention.head_count", MAX_HEADS, 0, &hparams->n_heads,
                         error) ||
      !read_layers_uint (keys, hparams, "attention.head_count_kv", MAX_HEADS, hparams->n_heads,
                         &hparams->n_kv_heads, error))
    return FALSE;

  if (hparams->n_heads % hparams->n_kv_heads != 0)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u, which does not divide the %u of attention.head_count",
                          llm_keys_get (keys, "attention.head_count_kv"), hparams->n_kv_heads,
                          hparams->n_heads);

  fallback = hparams->n_embd / hparams->n_heads;
  if (!llm_gguf_has (gguf, llm_keys_get (keys, "attention.key_length")) &&
      hparams->n_embd % hparams->n_heads != 0)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u, which does not divide the %u of embedding_length",
                          llm_keys_get (keys, "attention.head_count"), hparams->n_heads,
                          hparams->n_embd);
  if (!llm_keys_read_uint (keys, "attention.key_length", 2, MAX_HEAD_DIM, fallback,
                           &hparams->head_dim, error) ||
      !llm_keys_read_uint (keys, "attention.value_length", 2, MAX_HEAD_DIM, fallback,
                           &value_length, error))
    return FALSE;

  if (value_length != hparams->head_dim)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s is %u and %s.attention.key_length is %u: values of another length "
                          "than keys are not supported",
                          llm_keys_get (keys, "attention.value_length"), value_length,
                          hparams->architecture, hparams->head_dim);
  if (hparams->head_dim < 2 || hparams->head_dim > MAX_HEAD_DIM)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u for an embedding_length of %u: heads have %u values, from 2 to "
                          "%d are supported",
                          llm_keys_get (keys, "attention.head_count"), hparams->n_heads,
                          hparams->n_embd, hparams->head_dim, MAX_HEAD_DIM);
  return TRUE;
}

static gboolean
read_experts (LlmKeys     *keys,
              LlmHparams  *hparams,
              GError     **error)
{
  const guint64 none = 0;
  guint64 n_experts;

  if (!llm_architecture_has_key (keys->architecture, "expert_count"))
    return TRUE;
  if (!llm_gguf_get_uint (keys->gguf, llm_keys_get (keys, "expert_count"), 0, MAX_EXPERTS, &none,
                          &n_experts, error))
    return FALSE;
  if (n_experts == 0)
    return TRUE;

  hparams->n_experts = (guint) n_experts;
  hparams->operators &= ~(LLM_OPS_FFN | LLM_OPS_FFN_BIAS);
  hparams->operators |= LLM_OPS_EXPERTS;
  if (!llm_keys_read_uint (keys, "expert_used_count", 1, hparams->n_experts, 0,
                           &hparams->n_used_experts, error))
    return FALSE;
  if (hparams->n_ff % LLK_PANEL_OUTPUTS != 0 || hparams->n_embd % LLK_PANEL_OUTPUTS != 0)
    return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s is %u and embedding_length %u: models with %s are not supported "
                          "unless both are multiples of %d",
                          llm_keys_get (keys, "feed_forward_length"), hparams->n_ff,
                          hparams->n_embd, extras[0].what, LLK_PANEL_OUTPUTS);
  return TRUE;
}

/* The windows of layers; their pattern is the architecture's, or the key's: every n-th
 * layer sees all, with 0 none does. */
static gboolean
read_windows (LlmKeys     *keys,
              LlmHparams  *hparams,
              GError     **error)
{
  const LlmArchitecture *architecture = keys->architecture;
  guint64 window = architecture->window, period = architecture->window_period;

  if (!llm_architecture_has_key (architecture, "attention.sliding_window"))
    return TRUE;

  if (!llm_gguf_get_uint (keys->gguf, llm_keys_get (keys, "attention.sliding_window"), 0, MAX_CTX,
                          &window, &window, error) ||
      !llm_gguf_get_uint (keys->gguf, llm_keys_get (keys, "attention.sliding_window_pattern"), 0,
                          LLM_MAX_LAYERS, &period, &period, error))
    return FALSE;

  for (guint i = 0; i < hparams->n_layers; i++)
    hparams->layers[i].window = period == 0 || (i + 1) % period != 0 ? (guint) window : 0;
  return TRUE;
}

/* 0 stands for "none". */
static gboolean
read_softcap (LlmKeys     *keys,
              const char  *suffix,
              double       fallback,
              float       *cap,
              GError     **error)
{
  *cap = 0;
  return !llm_architecture_has_key (keys->architecture, suffix) ||
         llm_keys_read_float (keys, suffix, 0, 1e6, fallback, cap, error);
}

static gboolean
read_scales (LlmKeys     *keys,
             LlmHparams  *hparams,
             GError     **error)
{
  const LlmArchitecture *architecture = keys->architecture;
  guint width = hparams->head_dim;

  if (architecture->wide_scale_layers > 0 && hparams->n_layers == architecture->wide_scale_layers)
    width = MAX (hparams->n_embd / hparams->n_heads, 1);
  hparams->attention_scale = 1 / sqrtf ((float) width);
  hparams->embedding_scale = architecture->scales_embedding ? sqrtf ((float) hparams->n_embd) : 1;
  hparams->gate = architecture->gate;

  if (!read_softcap (keys, "attn_logit_softcapping", architecture->attention_softcap,
                     &hparams->attention_softcap, error) ||
      !read_softcap (keys, "final_logit_softcapping", architecture->logit_softcap,
                     &hparams->logit_softcap, error))
    return FALSE;

  hparams->temperature_length = hparams->ropes[0].n_ctx;
  return !llm_architecture_has_key (architecture, "attention.temperature_scale") ||
         llm_keys_read_float (keys, "attention.temperature_scale", 0, 1e3, 0,
                              &hparams->temperature_scale, error);
}

static gboolean
check_window_lengths (LlmKeys           *keys,
                      const LlmHparams  *hparams,
                      GError           **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (window_lengths); i++)
    {
      guint expected = i == 2 ? hparams->rope_dim : hparams->head_dim;
      guint found;

      if (!llm_keys_read_uint (keys, window_lengths[i][0], 1, MAX_HEAD_DIM, expected, &found,
                               error))
        return FALSE;
      if (found != expected)
        return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                              "%s is %u and %s.%s is %u: layers with heads of another length are "
                              "not supported",
                              llm_keys_get (keys, window_lengths[i][0]), found,
                              keys->architecture->name, window_lengths[i][1], expected);
    }
  return TRUE;
}

/* From the first of: the key, the vocabulary, the embedding. Where several are
 * there, others check that they agree. */
static gboolean
read_vocab_size (LlmKeys     *keys,
                 LlmHparams  *hparams,
                 GError     **error)
{
  LlmGguf *gguf = keys->gguf;
  const LlmGgufTensor *embedding = llm_gguf_find_tensor (gguf, "token_embd.weight");
  guint64 n_tokens = embedding != NULL ? embedding->dims[1] : 0;
  guint64 length;

  if (llm_gguf_lookup (gguf, "tokenizer.ggml.tokens", NULL, &length))
    n_tokens = length;
  if (n_tokens > MAX_VOCAB)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "the vocabulary has %ju tokens, up to %d are supported", n_tokens,
                          MAX_VOCAB);
  return llm_keys_read_uint (keys, "vocab_size", 1, MAX_VOCAB, n_tokens, &hparams->n_vocab, error);
}

gboolean
llm_hparams_read (LlmGguf     *gguf,
                  LlmHparams  *hparams,
                  GError     **error)
{
  LlmKeys keys = { .gguf = gguf };
  double eps;

  g_return_val_if_fail (gguf != NULL, FALSE);
  g_return_val_if_fail (hparams != NULL, FALSE);

  memset (hparams, 0, sizeof *hparams);
  keys.architecture = read_architecture (gguf, error);
  if (keys.architecture == NULL)
    return FALSE;
  g_strlcpy (hparams->architecture, keys.architecture->name, sizeof hparams->architecture);

  hparams->has_fused_gate = keys.architecture->has_fused_gate;
  hparams->has_tied_output = llm_gguf_find_tensor (gguf, "output.weight") == NULL;
  hparams->operators = LLM_OPS_COMMON | keys.architecture->needed |
                       llm_operator_find_present (gguf, keys.architecture->optional |
                                                          LLM_OP_BIT (LLM_OP_OUTPUT));

  if (!check_extras (&keys, error) ||
      !llm_keys_read_uint (&keys, "block_count", 1, LLM_MAX_LAYERS, 0, &hparams->n_layers, error) ||
      !llm_keys_read_uint (&keys, "context_length", 1, MAX_CTX, 0, &hparams->n_ctx, error) ||
      !llm_keys_read_uint (&keys, "embedding_length", MIN_EMBD, MAX_EMBD, 0, &hparams->n_embd,
                           error) ||
      !read_layers_uint (&keys, hparams, "feed_forward_length", MAX_FF, 0, &hparams->n_ff, error) ||
      !read_experts (&keys, hparams, error) ||
      !read_heads (&keys, hparams, error) ||
      !read_windows (&keys, hparams, error) ||
      !llm_hparams_read_rope (&keys, hparams, error) ||
      !read_scales (&keys, hparams, error) ||
      !check_window_lengths (&keys, hparams, error) ||
      !read_vocab_size (&keys, hparams, error) ||
      !llm_gguf_get_double (gguf, llm_keys_get (&keys, "attention.layer_norm_rms_epsilon"), 1e-20,
                            1, NULL, &eps, error))
    return FALSE;

  hparams->rms_eps = (float) eps;
  return TRUE;
}
