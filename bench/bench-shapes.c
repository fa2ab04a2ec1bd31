/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-shapes.h"

#include <math.h>
#include <string.h>

const BenchShape bench_shapes[] = {
  { .name = "0.5b", .like = "Qwen2.5 0.5B", .architecture = "qwen2", .n_layers = 24,
    .n_embd = 896, .n_heads = 14, .n_kv_heads = 2, .head_dim = 64, .n_ff = 4864,
    .n_vocab = 151936, .n_ctx = 32768, .rope_base = 1e6, .eps = 1e-6, .is_tied = TRUE,
    .has_qkv_biases = TRUE, .is_bpe = TRUE },
  { .name = "1.1b", .like = "TinyLlama 1.1B", .architecture = "llama", .n_layers = 22,
    .n_embd = 2048, .n_heads = 32, .n_kv_heads = 4, .head_dim = 64, .n_ff = 5632,
    .n_vocab = 32000, .n_ctx = 16384, .rope_base = 1e4, .eps = 1e-5 },
  { .name = "1.3b-mha", .like = "a multi-head 1.3B", .architecture = "llama", .n_layers = 24,
    .n_embd = 2048, .n_heads = 32, .n_kv_heads = 32, .head_dim = 64, .n_ff = 5504,
    .n_vocab = 32256, .n_ctx = 16384, .rope_base = 1e5, .eps = 1e-6 },
  { .name = "1.7b", .like = "Qwen3 1.7B", .architecture = "qwen3", .n_layers = 28,
    .n_embd = 2048, .n_heads = 16, .n_kv_heads = 8, .head_dim = 128, .n_ff = 6144,
    .n_vocab = 151936, .n_ctx = 40960, .rope_base = 1e6, .eps = 1e-6, .is_tied = TRUE,
    .has_qk_norms = TRUE, .is_bpe = TRUE },
  { .name = "7b", .like = "Llama 2 7B", .architecture = "llama", .n_layers = 32,
    .n_embd = 4096, .n_heads = 32, .n_kv_heads = 32, .head_dim = 128, .n_ff = 11008,
    .n_vocab = 32000, .n_ctx = 16384, .rope_base = 1e4, .eps = 1e-5 },
  { .name = "moe", .like = "a small Mixtral, 1.2B with 8 experts of which 2 are used",
    .architecture = "llama", .n_layers = 16, .n_embd = 1024, .n_heads = 16, .n_kv_heads = 4,
    .head_dim = 64, .n_ff = 2816, .n_vocab = 32000, .n_ctx = 16384, .rope_base = 1e6,
    .eps = 1e-5, .n_experts = 8, .n_used_experts = 2 },
  { .name = "tiny-llama", .like = "nothing: for tests", .architecture = "llama", .n_layers = 2,
    .n_embd = 256, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ff = 512,
    .n_vocab = 1024, .n_ctx = 2048, .rope_base = 1e4, .eps = 1e-5 },
  { .name = "tiny-qwen2", .like = "nothing: for tests", .architecture = "qwen2", .n_layers = 2,
    .n_embd = 384, .n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .n_ff = 512,
    .n_vocab = 1024, .n_ctx = 2048, .rope_base = 1e6, .eps = 1e-6, .is_tied = TRUE,
    .has_qkv_biases = TRUE, .is_bpe = TRUE },
  { .name = "tiny-qwen3", .like = "nothing: for tests", .architecture = "qwen3", .n_layers = 2,
    .n_embd = 256, .n_heads = 4, .n_kv_heads = 2, .head_dim = 128, .n_ff = 512,
    .n_vocab = 1024, .n_ctx = 2048, .rope_base = 1e6, .eps = 1e-6, .is_tied = TRUE,
    .has_qk_norms = TRUE, .is_bpe = TRUE },
  { .name = "tiny-moe", .like = "nothing: for tests", .architecture = "llama", .n_layers = 2,
    .n_embd = 256, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ff = 256,
    .n_vocab = 1024, .n_ctx = 2048, .rope_base = 1e6, .eps = 1e-5, .n_experts = 8,
    .n_used_experts = 2 },
  { NULL },
};

/* The names under which people know files. */
const BenchMixture bench_mixtures[] = {
  { "F32", 0, LLK_F32, BENCH_RULES_PURE },
  { "F16", 1, LLK_F16, BENCH_RULES_PURE },
  { "BF16", 32, LLK_BF16, BENCH_RULES_PURE },
  { "Q4_0", 2, LLK_Q4_0, BENCH_RULES_OUTPUT },
  { "Q4_1", 3, LLK_Q4_1, BENCH_RULES_OUTPUT },
  { "Q5_0", 8, LLK_Q5_0, BENCH_RULES_OUTPUT },
  { "Q5_1", 9, LLK_Q5_1, BENCH_RULES_OUTPUT },
  { "Q8_0", 7, LLK_Q8_0, BENCH_RULES_PURE },
  { "Q2_K", 10, LLK_Q2_K, BENCH_RULES_PURE },
  { "Q3_K", 11, LLK_Q3_K, BENCH_RULES_PURE },
  { "Q4_K", 14, LLK_Q4_K, BENCH_RULES_PURE },
  { "Q5_K", 16, LLK_Q5_K, BENCH_RULES_PURE },
  { "Q6_K", 18, LLK_Q6_K, BENCH_RULES_PURE },
  { "IQ4_NL", 25, LLK_IQ4_NL, BENCH_RULES_PURE },
  { "IQ4_XS", 30, LLK_IQ4_XS, BENCH_RULES_PURE },
  { "MXFP4", 38, LLK_MXFP4, BENCH_RULES_PURE },
  { "Q3_K_M", 12, LLK_Q3_K, BENCH_RULES_Q3_K_M },
  { "Q4_K_M", 15, LLK_Q4_K, BENCH_RULES_MORE },
  { "Q5_K_M", 17, LLK_Q5_K, BENCH_RULES_MORE },
  { NULL },
};

const BenchShape *
bench_shape_find (const char *name)
{
  for (const BenchShape *shape = bench_shapes; shape->name != NULL; shape++)
    if (strcmp (shape->name, name) == 0)
      return shape;
  return NULL;
}

const BenchMixture *
bench_mixture_find (const char *name)
{
  for (const BenchMixture *mixture = bench_mixtures; mixture->name != NULL; mixture++)
    if (g_ascii_strcasecmp (mixture->name, name) == 0)
      return mixture;
  return NULL;
}

/* The first and the last eighth of the layers, and every third between them. */
static gboolean
has_more_bits (guint layer,
               guint n_layers)
{
  return layer < n_layers / 8 || layer >= 7 * n_layers / 8 ||
         (layer - n_layers / 8) % 3 == 2;
}

/* Rows that are no whole number of blocks of 256 take the next type of blocks of 32. */
static LlkType
fit_to_row (LlkType type,
            guint   n_in)
{
  if (n_in % llk_type_block_size (type) == 0)
    return type;

  switch (type)
    {
    case LLK_Q2_K:
    case LLK_Q3_K:
    case LLK_IQ4_XS:
      return LLK_IQ4_NL;
    case LLK_Q4_K:
      return LLK_Q5_0;
    case LLK_Q5_K:
      return LLK_Q5_1;
    case LLK_Q6_K:
      return LLK_Q8_0;
    default:
      return LLK_F16;
    }
}

static LlkType
choose_type (const BenchMixture *mixture,
             const BenchShape   *shape,
             const char         *tensor,
             guint               layer,
             guint               n_layers)
{
  gboolean is_value = strcmp (tensor, "attn_v") == 0;
  gboolean is_key = strcmp (tensor, "attn_k") == 0;
  gboolean is_out = strcmp (tensor, "attn_output") == 0;
  gboolean is_down = g_str_has_prefix (tensor, "ffn_down");

  if (mixture->rules == BENCH_RULES_PURE)
    return mixture->type;

  /* Next to eight experts attention is small. */
  if (shape->n_experts == 8 && (is_value || is_key))
    return LLK_Q8_0;
  if (shape->n_experts == 8 && is_out)
    return mixture->type == LLK_Q3_K || mixture->type == LLK_Q4_K ? LLK_Q5_K : mixture->type;

  if (mixture->rules == BENCH_RULES_Q3_K_M)
    {
      if ((is_value && layer < 2) || (is_down && layer < n_layers / 16))
        return LLK_Q5_K;
      return is_value || is_down || is_out ? LLK_Q4_K : mixture->type;
    }
  if (mixture->rules == BENCH_RULES_MORE && (is_value || is_down) && has_more_bits (layer, n_layers))
    return LLK_Q6_K;
  return mixture->type;
}

static void
add_tensor (GArray     *tensors,
            const char *name,
            BenchFill   fill,
            LlkType     type,
            guint       n_in,
            guint       n_out,
            guint       n_experts,
            double      deviation)
{
  BenchTensor tensor = {
    .name = g_strdup (name),
    .type = fill == BENCH_FILL_MATRIX ? fit_to_row (type, n_in) : LLK_F32,
    .n_dims = n_experts > 0 ? 3 : n_out > 0 ? 2 : 1,
    .dims = { n_in, MAX (n_out, 1), MAX (n_experts, 1) },
    .fill = fill,
    .deviation = deviation,
  };

  g_array_append_val (tensors, tensor);
}

/* Deviations are such that inputs of deviation 1 give outputs of about 1, and that
 * what layers add to the residual stream does not grow with their number. */
static void
add_layer (GArray             *tensors,
           const BenchShape   *shape,
           const BenchMixture *mixture,
           guint               layer,
           guint               n_layers)
{
  guint n_q = shape->n_heads * shape->head_dim, n_kv = shape->n_kv_heads * shape->head_dim;
  double quiet = 1 / sqrt (2.0 * n_layers);
  guint ex = shape->n_experts;
  const struct
  {
    const char *name;
    gboolean is_there;
    BenchFill fill;
    guint n_in, n_out, n_experts;
    double gain;
  } entries[] = {
    { "attn_norm", TRUE, BENCH_FILL_ONES, shape->n_embd, 0, 0, 0 },
    { "attn_q", TRUE, BENCH_FILL_MATRIX, shape->n_embd, n_q, 0, 1 },
    { "attn_k", TRUE, BENCH_FILL_MATRIX, shape->n_embd, n_kv, 0, 1 },
    { "attn_v", TRUE, BENCH_FILL_MATRIX, shape->n_embd, n_kv, 0, 1 },
    { "attn_q.bias", shape->has_qkv_biases, BENCH_FILL_VECTOR, n_q, 0, 0, 0.1 },
    { "attn_k.bias", shape->has_qkv_biases, BENCH_FILL_VECTOR, n_kv, 0, 0, 0.1 },
    { "attn_v.bias", shape->has_qkv_biases, BENCH_FILL_VECTOR, n_kv, 0, 0, 0.1 },
    { "attn_q_norm", shape->has_qk_norms, BENCH_FILL_ONES, shape->head_dim, 0, 0, 0 },
    { "attn_k_norm", shape->has_qk_norms, BENCH_FILL_ONES, shape->head_dim, 0, 0, 0 },
    { "attn_output", TRUE, BENCH_FILL_MATRIX, n_q, shape->n_embd, 0, quiet },
    { "ffn_norm", TRUE, BENCH_FILL_ONES, shape->n_embd, 0, 0, 0 },
    { "ffn_gate_inp", ex > 0, BENCH_FILL_MATRIX, shape->n_embd, ex, 0, 1 },
    { ex > 0 ? "ffn_gate_exps" : "ffn_gate", TRUE, BENCH_FILL_MATRIX, shape->n_embd, shape->n_ff,
      ex, 1 },
    { ex > 0 ? "ffn_up_exps" : "ffn_up", TRUE, BENCH_FILL_MATRIX, shape->n_embd, shape->n_ff, ex,
      1 },
    { ex > 0 ? "ffn_down_exps" : "ffn_down", TRUE, BENCH_FILL_MATRIX, shape->n_ff, shape->n_embd,
      ex, quiet },
  };

  for (guint i = 0; i < G_N_ELEMENTS (entries); i++)
    {
      gboolean is_bias = g_str_has_suffix (entries[i].name, ".bias");
      gboolean is_router = strcmp (entries[i].name, "ffn_gate_inp") == 0;
      g_autofree char *name = g_strdup_printf ("blk.%u.%s%s", layer, entries[i].name,
                                               is_bias ? "" : ".weight");
      LlkType type = is_router ? LLK_F32
                               : choose_type (mixture, shape, entries[i].name, layer, n_layers);

      if (entries[i].is_there)
        add_tensor (tensors, name, entries[i].fill, type, entries[i].n_in, entries[i].n_out,
                    entries[i].n_experts,
                    is_bias ? entries[i].gain : entries[i].gain / sqrt (entries[i].n_in));
    }
}

static void
clear_tensor (gpointer data)
{
  g_free (((BenchTensor *) data)->name);
}

GArray *
bench_shape_get_tensors (const BenchShape   *self,
                         const BenchMixture *mixture,
                         guint               n_layers)
{
  const double logits_gain = 2.5;
  double deviation = logits_gain / sqrt (self->n_embd);
  LlkType output = mixture->rules == BENCH_RULES_PURE ? mixture->type : LLK_Q6_K;
  GArray *tensors = g_array_new (FALSE, TRUE, sizeof (BenchTensor));

  g_array_set_clear_func (tensors, clear_tensor);
  add_tensor (tensors, "token_embd.weight", BENCH_FILL_MATRIX,
              self->is_tied ? output : mixture->type, self->n_embd, self->n_vocab, 0,
              self->is_tied ? deviation : 1);
  for (guint i = 0; i < n_layers; i++)
    add_layer (tensors, self, mixture, i, n_layers);
  add_tensor (tensors, "output_norm.weight", BENCH_FILL_ONES, LLK_F32, self->n_embd, 0, 0, 0);
  if (!self->is_tied)
    add_tensor (tensors, "output.weight", BENCH_FILL_MATRIX, output, self->n_embd,
                self->n_vocab, 0, deviation);
  return tensors;
}
