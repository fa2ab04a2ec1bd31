/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/llm-hparams.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

#define MAX_LAYERS 1024
#define MIN_EMBD 8
#define MAX_EMBD 65536
#define MAX_HEADS 1024
#define MAX_HEAD_DIM 1024
#define MAX_FF (1024 * 1024)
#define MAX_VOCAB (4 * 1024 * 1024)
#define MAX_CTX (16 * 1024 * 1024)

typedef struct
{
  const char *name;       /* general.architecture, and the prefix of its keys */
  LlmRopeKind rope_kind;
} Architecture;

/* All of them are: RMS norm, attention with grouped queries and RoPE, RMS norm,
 * gated SiLU; no biases. What a file of them has beyond that is refused below and
 * in llm_weights_new_mapped(). The tensors of llama files are permuted for turning
 * neighbouring pairs, those of exaone files (EXAONE 3) are not. */
static const Architecture architectures[] = {
  { "llama", LLM_ROPE_NORM },
  { "exaone", LLM_ROPE_NEOX },
};

/* Keys that change the forward pass in a way we do not have, with the value that
 * leaves it as it is. */
typedef struct
{
  const char *key;
  double neutral;
  const char *what;
} Extra;

static const Extra extras[] = {
  { "expert_count", 0, N_("mixtures of experts") },
  { "attention.sliding_window", 0, N_("sliding windows") },
  { "attention.scale", 0, N_("a scale of its own for attention") },
  { "attention.causal", 1, N_("attention to later tokens") },
  { "attn_logit_softcapping", 0, N_("caps on attention") },
  { "final_logit_softcapping", 0, N_("caps on logits") },
  { "embedding_scale", 1, N_("scaled embeddings") },
  { "residual_scale", 1, N_("scaled residuals") },
  { "logit_scale", 1, N_("scaled logits") },
  { "rope.scaling.attn_factor", 1, N_("a factor on rotated values") },
};

typedef struct
{
  LlmGguf *gguf;
  const Architecture *architecture;
  char key[96];   /* the last one that get_key() made */
} Keys;

static const char *
get_key (Keys       *keys,
         const char *suffix)
{
  g_snprintf (keys->key, sizeof keys->key, "%s.%s", keys->architecture->name, suffix);
  return keys->key;
}

/* FALSE with @error set for an array, which would mean that layers differ. */
static gboolean
check_is_scalar (Keys        *keys,
                 const char  *key,
                 GError     **error)
{
  LlmGgufType type;

  if (llm_gguf_lookup (keys->gguf, key, &type, NULL) && type == LLM_GGUF_ARRAY)
    return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s is an array: models whose layers differ are not supported, one "
                          "number for all of them is",
                          key);
  return TRUE;
}

/* @fallback: 0 for a key that must be there. */
static gboolean
read_uint (Keys        *keys,
           const char  *suffix,
           guint        min,
           guint        max,
           guint64      fallback,
           guint       *value,
           GError     **error)
{
  const char *key = get_key (keys, suffix);
  guint64 wide;

  if (!check_is_scalar (keys, key, error) ||
      !llm_gguf_get_uint (keys->gguf, key, min, max, fallback != 0 ? &fallback : NULL, &wide,
                          error))
    return FALSE;

  *value = (guint) wide;
  return TRUE;
}

static const Architecture *
read_architecture (LlmGguf  *gguf,
                   GError  **error)
{
  g_autofree char *name = llm_gguf_get_string (gguf, "general.architecture", FALSE, error);
  g_autoptr(GString) supported = g_string_new (NULL);
  g_autofree char *quoted = NULL;

  if (name == NULL)
    return NULL;

  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++)
    {
      if (strcmp (architectures[i].name, name) == 0)
        return &architectures[i];
      g_string_append_printf (supported, "%s%s", i > 0 ? ", " : "", architectures[i].name);
    }

  quoted = llm_gguf_quote (name, strlen (name));
  llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                 "general.architecture is %s, which is not supported; supported are %s", quoted,
                 supported->str);
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
check_extras (Keys    *keys,
              GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (extras); i++)
    {
      const char *key = get_key (keys, extras[i].key);
      double value;

      if (!llm_gguf_has (keys->gguf, key))
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
read_heads (Keys        *keys,
            LlmHparams  *hparams,
            GError     **error)
{
  LlmGguf *gguf = keys->gguf;
  guint value_length, fallback;

  if (!read_uint (keys, "attention.head_count", 1, MAX_HEADS, 0, &hparams->n_heads, error) ||
      !read_uint (keys, "attention.head_count_kv", 1, MAX_HEADS, hparams->n_heads,
                  &hparams->n_kv_heads, error))
    return FALSE;

  if (hparams->n_heads % hparams->n_kv_heads != 0)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u, which does not divide the %u of attention.head_count",
                          get_key (keys, "attention.head_count_kv"), hparams->n_kv_heads,
                          hparams->n_heads);

  fallback = hparams->n_embd / hparams->n_heads;
  if (!llm_gguf_has (gguf, get_key (keys, "attention.key_length")) &&
      hparams->n_embd % hparams->n_heads != 0)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u, which does not divide the %u of embedding_length",
                          get_key (keys, "attention.head_count"), hparams->n_heads,
                          hparams->n_embd);
  if (!read_uint (keys, "attention.key_length", 2, MAX_HEAD_DIM, fallback, &hparams->head_dim,
                  error) ||
      !read_uint (keys, "attention.value_length", 2, MAX_HEAD_DIM, fallback, &value_length, error))
    return FALSE;

  if (value_length != hparams->head_dim)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "%s is %u and %s.attention.key_length is %u: values of another length "
                          "than keys are not supported",
                          get_key (keys, "attention.value_length"), value_length,
                          hparams->architecture, hparams->head_dim);
  if (hparams->head_dim < 2 || hparams->head_dim > MAX_HEAD_DIM)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u for an embedding_length of %u: heads have %u values, from 2 to "
                          "%d are supported",
                          get_key (keys, "attention.head_count"), hparams->n_heads,
                          hparams->n_embd, hparams->head_dim, MAX_HEAD_DIM);
  return TRUE;
}

static gboolean
read_rope_scaling (Keys        *keys,
                   LlmHparams  *hparams,
                   GError     **error)
{
  LlmGguf *gguf = keys->gguf;
  const double none = 0;
  g_autoptr(GError) local_error = NULL;
  g_autofree char *type = NULL;
  double factor;

  type = llm_gguf_get_string (gguf, get_key (keys, "rope.scaling.type"), TRUE, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (type != NULL && strcmp (type, "none") != 0 && strcmp (type, "linear") != 0)
    {
      g_autofree char *quoted = llm_gguf_quote (type, strlen (type));

      return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                            "%s is %s, which is not supported; supported are none, linear",
                            get_key (keys, "rope.scaling.type"), quoted);
    }

  /* The older key counts where the newer one is not there. */
  if (!llm_gguf_get_double (gguf, get_key (keys, "rope.scale_linear"), 0, 1e6, &none, &factor,
                            error) ||
      !llm_gguf_get_double (gguf, get_key (keys, "rope.scaling.factor"), 0, 1e6, &factor, &factor,
                            error))
    return FALSE;

  /* 0 stands for "not set". */
  if (factor != 0 && factor < 1e-3)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %g, from 0.001 to 1000000 is supported",
                          get_key (keys, "rope.scaling.factor"), factor);
  hparams->rope_scaling = LLM_ROPE_SCALING_NONE;
  hparams->rope_scale = 1;
  if (factor != 0 && factor != 1 && (type == NULL || strcmp (type, "linear") == 0))
    {
      hparams->rope_scaling = LLM_ROPE_SCALING_LINEAR;
      hparams->rope_scale = (float) factor;
    }
  return TRUE;
}

static gboolean
read_rope (Keys        *keys,
           LlmHparams  *hparams,
           GError     **error)
{
  const double base_fallback = 10000;
  double base;

  if (!read_uint (keys, "rope.dimension_count", 2, MAX_HEAD_DIM, hparams->head_dim,
                  &hparams->rope_dim, error))
    return FALSE;
  if (hparams->rope_dim > hparams->head_dim || hparams->rope_dim % 2 != 0)
    return llm_gguf_fail (keys->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "%s is %u, an even number of at most the %u values of a head is needed",
                          get_key (keys, "rope.dimension_count"), hparams->rope_dim,
                          hparams->head_dim);

  if (!llm_gguf_get_double (keys->gguf, get_key (keys, "rope.freq_base"), 1, 1e12, &base_fallback,
                            &base, error))
    return FALSE;
  hparams->rope_base = (float) base;
  hparams->rope_kind = keys->architecture->rope_kind;

  return read_rope_scaling (keys, hparams, error);
}

/* From the first of: the key, the vocabulary, the embedding. Where several are
 * there, others check that they agree. */
static gboolean
read_vocab_size (Keys        *keys,
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
                          "the vocabulary has %ju tokens, up to %d are supported", n_tokens, MAX_VOCAB);
  return read_uint (keys, "vocab_size", 1, MAX_VOCAB, n_tokens, &hparams->n_vocab, error);
}

gboolean
llm_hparams_read (LlmGguf     *gguf,
                  LlmHparams  *hparams,
                  GError     **error)
{
  Keys keys = { .gguf = gguf };
  double eps;

  g_return_val_if_fail (gguf != NULL, FALSE);
  g_return_val_if_fail (hparams != NULL, FALSE);

  memset (hparams, 0, sizeof *hparams);
  keys.architecture = read_architecture (gguf, error);
  if (keys.architecture == NULL)
    return FALSE;
  g_strlcpy (hparams->architecture, keys.architecture->name, sizeof hparams->architecture);

  if (!check_extras (&keys, error) ||
      !read_uint (&keys, "block_count", 1, MAX_LAYERS, 0, &hparams->n_layers, error) ||
      !read_uint (&keys, "context_length", 1, MAX_CTX, 0, &hparams->n_ctx, error) ||
      !read_uint (&keys, "embedding_length", MIN_EMBD, MAX_EMBD, 0, &hparams->n_embd, error) ||
      !read_uint (&keys, "feed_forward_length", 1, MAX_FF, 0, &hparams->n_ff, error) ||
      !read_heads (&keys, hparams, error) ||
      !read_rope (&keys, hparams, error) ||
      !read_vocab_size (&keys, hparams, error) ||
      !llm_gguf_get_double (gguf, get_key (&keys, "attention.layer_norm_rms_epsilon"), 1e-20, 1,
                            NULL, &eps, error))
    return FALSE;

  hparams->rms_eps = (float) eps;
  hparams->has_tied_output = llm_gguf_find_tensor (gguf, "output.weight") == NULL;
  return TRUE;
}
