/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "model/architectures/llm-architecture.h"

#include <string.h>

#define OP LLM_OP_BIT
/* What files of LLaMA, and of those that are built alike, may have. */
#define LLAMA_OPTIONAL                                                                      \
  (LLM_OPS_QKV_BIAS | LLM_OPS_FFN_BIAS | LLM_OPS_LONG_ROPE |                                \
   OP (LLM_OP_ATTENTION_OUT_BIAS) | OP (LLM_OP_ROPE_FACTORS))

static const LlmArchitecture architectures[] = {
  /* LLaMA, and the many models that are built alike: Mistral, Mixtral, TinyLlama,
   * SmolLM 1 and 2, … Its matrices are permuted for turning neighbouring pairs. */
  {
    .name = "llama",
    .optional = LLAMA_OPTIONAL,
    .keys = { "expert_count", "attention.sliding_window" },
    .rope_kind = LLM_ROPE_NORM,
  },
  /* Command R7B and Command A: three layers of four have a window, and the fourth is not
   * rotated. */
  {
    .name = "cohere2",
    .lacking = OP (LLM_OP_FFN_NORM),
    .optional = LLM_OPS_QKV_BIAS,
    .has_centered_norms = TRUE,
    .has_parallel_ffn = TRUE,
    .keys = { "attention.sliding_window", "logit_scale" },
    .rope_kind = LLM_ROPE_NORM,
    .rotates_windows_only = TRUE,
    .window = 4096,
    .window_period = 4,
    .multiplies_logits = TRUE,
  },
  /* DeepSeek V2 and what is built like it, as GLM 4.7 Flash: keys and values of a latent vector,
   * experts beside a network for all rows, which the first layers have alone. */
  {
    .name = "deepseek2",
    .needed = LLM_OPS_LATENT,
    .lacking = OP (LLM_OP_QUERY) | OP (LLM_OP_VALUE),
    .has_latent_kv = TRUE,
    .has_dense_lead = TRUE,
    .keys = { "expert_count", "expert_feed_forward_length", "expert_shared_count",
              "expert_weights_scale", "expert_gating_func", "expert_weights_norm",
              "leading_dense_block_count", "nextn_predict_layers" },
    .rope_kind = LLM_ROPE_NORM,
  },
  /* EXAONE 4: norms behind both halves of a layer, none before them. The 32 B model, of 64
   * layers, has a window in three layers of four and does not rotate the fourth. */
  {
    .name = "exaone4",
    .needed = LLM_OPS_POST_NORM | LLM_OPS_QK_NORM,
    .lacking = LLM_OPS_PRE_NORM,
    .optional = OP (LLM_OP_ROPE_FACTORS),
    .keys = { "attention.sliding_window" },
    .rope_kind = LLM_ROPE_NEOX,
    .rotates_windows_only = TRUE,
    .window = 4096,
    .window_period = 4,
    .window_layers = 64,
  },
  /* EXAONE 3 */
  {
    .name = "exaone",
    .optional = OP (LLM_OP_ROPE_FACTORS),
    .rope_kind = LLM_ROPE_NEOX,
  },
  /* Gemma 2. The 27 B model, of 46 layers, scales attention otherwise. The norms of
   * a file have the 1 added that the model adds to them. */
  {
    .name = "gemma2",
    .needed = LLM_OPS_POST_NORM,
    .keys = { "attention.sliding_window", "attn_logit_softcapping", "final_logit_softcapping" },
    .rope_kind = LLM_ROPE_NEOX,
    .window = 4096,
    .window_period = 2,
    .gate = LLM_GATE_GELU,
    .scales_embedding = TRUE,
    .wide_scale_layers = 46,
    .attention_softcap = 50,
    .logit_softcap = 30,
  },
  /* Gemma 3, text alone: five layers with a window and a rotation of their own for
   * each one without. The 27 B model, of 62 layers, scales attention otherwise. */
  {
    .name = "gemma3",
    .needed = LLM_OPS_POST_NORM | LLM_OPS_QK_NORM,
    .keys = { "attention.sliding_window", "final_logit_softcapping" },
    .rope_kind = LLM_ROPE_NEOX,
    .window_rope_base = 10000,
    .window_period = 6,
    .gate = LLM_GATE_GELU,
    .scales_embedding = TRUE,
    .wide_scale_layers = 62,
  },
  /* Gemma 3n: four residual streams, a short way around attention, an embedding of tokens in each
   * layer; the last layers attend to the keys and values of earlier ones. */
  {
    .name = "gemma3n",
    .needed = LLM_OPS_POST_NORM | LLM_OPS_QK_NORM | LLM_OPS_STREAMS | LLM_OPS_LAUREL,
    .has_value_norms = TRUE,
    .has_streams = TRUE,
    .n_kv_layers = 20,
    .keys = { "attention.sliding_window", "attention.shared_kv_layers",
              "embedding_length_per_layer_input", "final_logit_softcapping",
              "altup.num_inputs", "altup.active_idx", "activation_sparsity_scale" },
    .rope_kind = LLM_ROPE_NEOX,
    .window_rope_base = 10000,
    .window_period = 5,
    .gate = LLM_GATE_GELU,
    .scales_embedding = TRUE,
    .has_no_attention_scale = TRUE,
    .logit_softcap = 30,
  },
  /* Gemma 4 without experts: layers without a window have longer heads, the last ones attend to the
   * keys and values of earlier ones, and each layer has an embedding of its own. */
  {
    .name = "gemma4",
    .needed = LLM_OPS_POST_NORM | LLM_OPS_QK_NORM,
    .optional = OP (LLM_OP_ROPE_FACTORS) | OP (LLM_OP_LAYER_SCALE),
    .has_value_norms = TRUE,
    .has_optional_values = TRUE,
    .keys = { "attention.sliding_window", "attention.key_length_swa", "attention.value_length_swa",
              "rope.dimension_count_swa", "attention.shared_kv_layers",
              "embedding_length_per_layer_input", "final_logit_softcapping" },
    .rope_kind = LLM_ROPE_NEOX,
    .gate = LLM_GATE_GELU,
    .scales_embedding = TRUE,
    .has_no_attention_scale = TRUE,
    .logit_softcap = 30,
  },
  /* GLM 4: norms before and behind both halves of a layer, gate and up in one tensor. */
  {
    .name = "glm4",
    .needed = LLM_OPS_POST_NORM,
    .optional = LLM_OPS_QKV_BIAS,
    .has_fused_gate = TRUE,
    .rope_kind = LLM_ROPE_NORM,
  },
  /* gpt-oss: every other layer has a window, and heads may look at nothing. */
  {
    .name = "gpt-oss",
    .needed = LLM_OPS_QKV_BIAS | OP (LLM_OP_ATTENTION_OUT_BIAS) | OP (LLM_OP_ATTENTION_SINKS)
              | LLM_OPS_EXPERT_BIAS,
    .has_renamed_ffn_norm = TRUE,
    .keys = { "expert_count", "expert_feed_forward_length", "attention.sliding_window" },
    .rope_kind = LLM_ROPE_NEOX,
    .window = 128,
    .window_period = 2,
    .gate = LLM_GATE_CAPPED_SILU,
  },
  /* Granite 3, and those of 4 without recurrent layers: LLaMA with four scales. Its files name
   * the width of experts also where there are none. */
  {
    .name = "granite",
    .optional = LLAMA_OPTIONAL,
    .keys = { "embedding_scale", "residual_scale", "attention.scale", "logit_scale",
              "expert_shared_feed_forward_length" },
    .rope_kind = LLM_ROPE_NORM,
    .has_rope_switch = TRUE,
  },
  /* MiniCPM 1 and 4 without sparse attention */
  {
    .name = "minicpm",
    .optional = LLAMA_OPTIONAL,
    .keys = { "embedding_scale", "residual_scale", "logit_scale" },
    .rope_kind = LLM_ROPE_NORM,
    .has_minicpm_scales = TRUE,
  },
  /* Ministral 3: its queries grow with the position beyond the first training. */
  {
    .name = "mistral3",
    .optional = LLAMA_OPTIONAL,
    .keys = { "attention.temperature_scale" },
    .rope_kind = LLM_ROPE_NORM,
  },
  /* OLMo 2: norms behind both halves of a layer, none before them; those of queries and keys are
   * of all heads at once. */
  {
    .name = "olmo2",
    .needed = LLM_OPS_POST_NORM | LLM_OPS_QK_NORM,
    .lacking = LLM_OPS_PRE_NORM,
    .has_wide_head_norms = TRUE,
    .rope_kind = LLM_ROPE_NEOX,
  },
  /* Phi 3, 3.5 and 4: queries, keys and values in one tensor, gate and up in another. */
  {
    .name = "phi3",
    .optional = LLM_OPS_QKV_BIAS | LLM_OPS_LONG_ROPE,
    .has_fused_gate = TRUE,
    .keys = { "attention.sliding_window" },
    .rope_kind = LLM_ROPE_NEOX,
  },
  /* Qwen 2 and 2.5 */
  {
    .name = "qwen2",
    .optional = LLM_OPS_QKV_BIAS | OP (LLM_OP_OUTPUT_BIAS),
    .rope_kind = LLM_ROPE_NEOX,
  },
  /* The text of Qwen 2 VL, 2.5 VL and 2.5 Omni. For text, the several positions of a token are
   * one. */
  {
    .name = "qwen2vl",
    .optional = LLM_OPS_QKV_BIAS | OP (LLM_OP_OUTPUT_BIAS),
    .keys = { "rope.dimension_sections" },
    .rope_kind = LLM_ROPE_NEOX,
  },
  /* The text of Qwen 3 VL */
  {
    .name = "qwen3vl",
    .needed = LLM_OPS_QK_NORM,
    .optional = LLM_OPS_QKV_BIAS,
    .keys = { "rope.dimension_sections" },
    .rope_kind = LLM_ROPE_NEOX,
  },
  /* Qwen 3, without experts */
  {
    .name = "qwen3",
    .needed = LLM_OPS_QK_NORM,
    .optional = LLM_OPS_QKV_BIAS,
    .rope_kind = LLM_ROPE_NEOX,
  },
  /* Qwen 3 with experts, as the 30 B with 3 B at work */
  {
    .name = "qwen3moe",
    .needed = LLM_OPS_QK_NORM,
    .optional = LLM_OPS_QKV_BIAS,
    .keys = { "expert_count", "expert_feed_forward_length" },
    .rope_kind = LLM_ROPE_NEOX,
  },
  /* SmolLM 3: every fourth layer knows nothing of positions. */
  {
    .name = "smollm3",
    .optional = LLM_OPS_QKV_BIAS,
    .rope_kind = LLM_ROPE_NORM,
    .no_rope_period = 4,
  },
};

const LlmArchitecture *
llm_architecture_find (const char *name)
{
  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++)
    if (strcmp (architectures[i].name, name) == 0)
      return &architectures[i];
  return NULL;
}

char *
llm_architecture_list_names (void)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++)
    g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", architectures[i].name);
  return g_string_free (names, FALSE);
}

gboolean
llm_architecture_has_key (const LlmArchitecture *self,
                          const char            *suffix)
{
  return g_strv_contains (self->keys, suffix);
}
