/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The forward pass of every architecture against the logits of another program, on
 * the small random models of data/architectures, and against the naive one in
 * double. For each thing that an architecture has beside others, a pass without
 * it or with another one must miss the logits clearly: else nothing is shown. */

#include <math.h>
#include <string.h>

#include "forward-rig.h"
#include "weights/llm-repacked-cache.h"
#include "naive-model.h"

#define N_TOKENS 40
/* Relative to the largest logit: sums of floats in another order. */
#define TOLERANCE 2e-4
/* The other program looks its GELU up in a table of half floats. */
#define GELU_TOLERANCE 2e-3
/* How far a broken variant must miss, in tolerances. */
#define MISSED 10

typedef void (*Break) (LlmHparams *hparams);

typedef struct
{
  const char *name;
  Break run;
} Broken;

typedef struct
{
  const char *file;
  double tolerance;
  Broken broken[10];
} Case;

/* --- what is broken --- */

static void
drop (LlmHparams *hparams,
      guint64     operators)
{
  g_assert_cmpuint (hparams->operators & operators, ==, operators);
  hparams->operators &= ~operators;
  for (guint i = 0; i < hparams->n_layers; i++)
    hparams->layers[i].operators &= ~operators;
}

static void
break_scale (LlmHparams *hparams)
{
  hparams->ropes[0].scale = 1;
}

static void
break_factors (LlmHparams *hparams)
{
  g_assert_cmpint (hparams->ropes[0].factors, >=, 0);
  hparams->ropes[0].factors = -1;
}

static void
swap_factors (LlmHparams *hparams)
{
  gint *factors = &hparams->ropes[0].factors;

  *factors = *factors == LLM_OP_ROPE_FACTORS_LONG ? LLM_OP_ROPE_FACTORS_SHORT
                                                  : LLM_OP_ROPE_FACTORS_LONG;
}

static void
break_yarn (LlmHparams *hparams)
{
  g_assert_cmpint (hparams->ropes[0].scaling, ==, LLM_ROPE_SCALING_YARN);
  hparams->ropes[0].scaling = LLM_ROPE_SCALING_LINEAR;
}

static void
break_magnitude (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->ropes[0].magnitude, !=, 1);
  hparams->ropes[0].magnitude = 1;
}

static void
break_betas (LlmHparams *hparams)
{
  hparams->ropes[0].beta_fast = 32;
  hparams->ropes[0].beta_slow = 1;
}

static void
break_original_context (LlmHparams *hparams)
{
  hparams->ropes[0].n_ctx = hparams->n_ctx;
}

static void
break_base (LlmHparams *hparams)
{
  hparams->ropes[0].base = 10000;
}

static void
break_pairs (LlmHparams *hparams)
{
  hparams->rope_kind = hparams->rope_kind == LLM_ROPE_NORM ? LLM_ROPE_NEOX : LLM_ROPE_NORM;
}

static void
break_query_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_QUERY_BIAS));
}

static void
break_key_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_KEY_BIAS));
}

static void
break_value_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_VALUE_BIAS));
}

static void
break_out_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_ATTENTION_OUT_BIAS));
}

static void
break_gate_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_FFN_GATE_BIAS));
}

static void
break_up_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_FFN_UP_BIAS));
}

static void
break_down_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_FFN_DOWN_BIAS));
}

static void
break_output_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_OUTPUT_BIAS));
}

static void
break_query_norm (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_QUERY_NORM));
}

static void
break_key_norm (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_KEY_NORM));
}

static void
break_attention_post_norm (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_ATTENTION_POST_NORM));
}

static void
break_ffn_post_norm (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_FFN_POST_NORM));
}

static void
break_window (LlmHparams *hparams)
{
  g_assert_cmpuint (hparams->layers[0].window, >, 0);
  for (guint i = 0; i < hparams->n_layers; i++)
    hparams->layers[i].window = 0;
}

/* One position more than there should be. */
static void
break_window_edge (LlmHparams *hparams)
{
  for (guint i = 0; i < hparams->n_layers; i++)
    if (hparams->layers[i].window > 0)
      hparams->layers[i].window++;
}

static void
break_window_pattern (LlmHparams *hparams)
{
  for (guint i = 0; i < hparams->n_layers; i++)
    hparams->layers[i].window = hparams->layers[0].window;
}

static void
break_window_rope (LlmHparams *hparams)
{
  g_assert_cmpint (hparams->layers[0].rope, ==, 1);
  for (guint i = 0; i < hparams->n_layers; i++)
    hparams->layers[i].rope = 0;
}

static void
break_window_base (LlmHparams *hparams)
{
  g_assert_cmpuint (hparams->n_ropes, ==, 2);
  hparams->ropes[1].base = hparams->ropes[0].base;
}

static void
break_no_rope (LlmHparams *hparams)
{
  g_assert_cmpint (hparams->layers[3].rope, ==, LLM_NO_ROPE);
  hparams->layers[3].rope = 0;
}

static void
break_gate (LlmHparams *hparams)
{
  g_assert_cmpint (hparams->gate, ==, LLM_GATE_GELU);
  hparams->gate = LLM_GATE_SILU;
}

static void
break_embedding_scale (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->scales.embedding, !=, 1);
  hparams->scales.embedding = 1;
}

static void
break_residual_scale (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->scales.residual, !=, 1);
  hparams->scales.residual = 1;
}

static void
break_logit_scale (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->scales.logits, !=, 1);
  hparams->scales.logits = 1;
}

/* Heads by themselves, where the norm is of all at once. */
static void
break_wide_norms (LlmHparams *hparams)
{
  g_assert_true (hparams->norms.is_wide);
  hparams->norms.is_wide = FALSE;
}

static void
break_centered_norms (LlmHparams *hparams)
{
  g_assert_true (hparams->norms.is_centered);
  hparams->norms.is_centered = FALSE;
}

static void
break_sinks (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_ATTENTION_SINKS));
}

static void
break_router_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_EXPERT_ROUTER_BIAS));
}

static void
break_expert_gate_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_EXPERT_GATE_BIAS));
}

static void
break_expert_up_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_EXPERT_UP_BIAS));
}

static void
break_expert_down_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_EXPERT_DOWN_BIAS));
}

static void
break_capped_gate (LlmHparams *hparams)
{
  g_assert_cmpint (hparams->gate, ==, LLM_GATE_CAPPED_SILU);
  hparams->gate = LLM_GATE_SILU;
}

static void
break_all_ropes (LlmHparams *hparams)
{
  for (guint i = 0; i < hparams->n_layers; i++)
    hparams->layers[i].rope = hparams->layers[i].rope == LLM_NO_ROPE ? 0 : LLM_NO_ROPE;
}

static void
break_attention_scale (LlmHparams *hparams)
{
  hparams->scales.attention *= 1.1f;
}

static void
break_attention_cap (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->scales.attention_softcap, >, 0);
  hparams->scales.attention_softcap = 0;
}

static void
break_logit_cap (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->scales.logit_softcap, >, 0);
  hparams->scales.logit_softcap = 0;
}

static void
break_temperature (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->scales.temperature, >, 0);
  hparams->scales.temperature = 0;
}

static void
break_rope_dim (LlmHparams *hparams)
{
  g_assert_cmpuint (hparams->rope_dim, <, hparams->head_dim);
  hparams->rope_dim = hparams->ropes[0].dim = hparams->head_dim;
}

static void
break_expert_count (LlmHparams *hparams)
{
  g_assert_cmpuint (hparams->experts.n_used, ==, 2);
  hparams->experts.n_used = 1;
}

static void
break_count_of_three (LlmHparams *hparams)
{
  g_assert_cmpuint (hparams->experts.n_used, ==, 3);
  g_assert_cmpuint (hparams->n_ff, ==, 16);
  hparams->experts.n_used = 2;
}

/* Layers without keys of their own attend to the first one's. */
static void
break_kv_layers (LlmHparams *hparams)
{
  gboolean is_shared = FALSE;

  for (guint i = 0; i < hparams->n_layers; i++)
    if (hparams->layers[i].kv_layer != i && hparams->layers[i].window > 0)
      {
        hparams->layers[i].kv_layer = 0;
        is_shared = TRUE;
      }
  g_assert_true (is_shared);
}

static void
break_value_norms (LlmHparams *hparams)
{
  g_assert_true (hparams->norms.has_values);
  hparams->norms.has_values = FALSE;
}

static void
break_layer_scale (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_LAYER_SCALE));
}

static void
break_layer_post_norm (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_LAYER_POST_NORM));
}

static void
break_layer_embedding (LlmHparams *hparams)
{
  drop (hparams, LLM_OPS_LAYER_EMBEDDING);
  hparams->n_layer_embd = 0;
}

static void
break_cutoff (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->layers[0].gate_cutoff, >, 1);
  for (guint i = 0; i < hparams->n_layers; i++)
    hparams->layers[i].gate_cutoff = -INFINITY;
}

static void
break_laurel (LlmHparams *hparams)
{
  drop (hparams, LLM_OPS_LAUREL);
  hparams->laurel_rank = 0;
}

static void
break_predict (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_STREAM_ROUTER));
}

static void
break_unprojection (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_STREAM_UNPROJECTION));
}

static void
break_low_norm (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_QUERY_LOW_NORM));
}

static void
break_score (LlmHparams *hparams)
{
  hparams->experts.score =
    hparams->experts.score == LLM_EXPERT_SIGMOID ? LLM_EXPERT_SOFTMAX : LLM_EXPERT_SIGMOID;
}

static void
break_expert_sum (LlmHparams *hparams)
{
  hparams->experts.has_sum = !hparams->experts.has_sum;
}

static void
break_expert_scale (LlmHparams *hparams)
{
  g_assert_cmpfloat (hparams->experts.scale, !=, 1);
  hparams->experts.scale = 1;
}

static void
break_choice_bias (LlmHparams *hparams)
{
  drop (hparams, LLM_OP_BIT (LLM_OP_EXPERT_ROUTER_BIAS));
}

/* The network of all rows, where a layer has experts as well. */
static void
break_shared (LlmHparams *hparams)
{
  for (guint i = 0; i < hparams->n_layers; i++)
    if (llm_operator_is_in_layer (hparams, LLM_OP_EXPERT_ROUTER, i))
      {
        g_assert_true (llm_operator_is_in_layer (hparams, LLM_OP_FFN_DOWN, i));
        hparams->layers[i].operators &= ~LLM_OPS_FFN;
      }
}

static const Case cases[] = {
  { "llama-linear", TOLERANCE, { { "scale", break_scale }, { "pairs", break_pairs } } },
  { "llama-llama3", TOLERANCE, { { "factors", break_factors }, { "base", break_base } } },
  { "llama-yarn", TOLERANCE,
    { { "yarn", break_yarn }, { "scale", break_scale }, { "magnitude", break_magnitude },
      { "original-context", break_original_context } } },
  { "llama-longrope", TOLERANCE,
    { { "factors", break_factors }, { "long", swap_factors }, { "magnitude", break_magnitude } } },
  { "llama-biases", TOLERANCE,
    { { "query", break_query_bias }, { "key", break_key_bias }, { "value", break_value_bias },
      { "out", break_out_bias }, { "gate", break_gate_bias }, { "up", break_up_bias },
      { "down", break_down_bias } } },
  { "llama-experts", TOLERANCE,
    { { "count", break_expert_count }, { "pairs", break_pairs } } },
  { "exaone", TOLERANCE, { { "factors", break_factors }, { "pairs", break_pairs } } },
  { "qwen2", TOLERANCE,
    { { "query", break_query_bias }, { "key", break_key_bias }, { "value", break_value_bias },
      { "output", break_output_bias }, { "pairs", break_pairs }, { "base", break_base } } },
  { "qwen2-tied", TOLERANCE, { { "value", break_value_bias } } },
  { "qwen3", TOLERANCE,
    { { "query-norm", break_query_norm }, { "key-norm", break_key_norm },
      { "pairs", break_pairs } } },
  { "qwen3-yarn", TOLERANCE, { { "yarn", break_yarn }, { "magnitude", break_magnitude } } },
  { "qwen3moe", TOLERANCE,
    { { "count", break_count_of_three }, { "query-norm", break_query_norm },
      { "key-norm", break_key_norm }, { "pairs", break_pairs } } },
  { "gemma2", GELU_TOLERANCE,
    { { "window", break_window }, { "edge", break_window_edge },
      { "pattern", break_window_pattern }, { "gate", break_gate },
      { "embedding-scale", break_embedding_scale }, { "attention-cap", break_attention_cap },
      { "logit-cap", break_logit_cap }, { "attention-post-norm", break_attention_post_norm },
      { "ffn-post-norm", break_ffn_post_norm } } },
  { "gemma3", GELU_TOLERANCE,
    { { "window", break_window }, { "edge", break_window_edge },
      { "pattern", break_window_pattern }, { "window-rope", break_window_rope },
      { "gate", break_gate }, { "embedding-scale", break_embedding_scale },
      { "query-norm", break_query_norm }, { "key-norm", break_key_norm },
      { "scale", break_scale }, { "attention-scale", break_attention_scale } } },
  { "gemma3-cap", GELU_TOLERANCE,
    { { "window", break_window }, { "window-rope", break_window_rope },
      { "logit-cap", break_logit_cap }, { "pattern", break_window_pattern } } },
  { "phi3", TOLERANCE, { { "pairs", break_pairs }, { "rope-dim", break_rope_dim } } },
  { "phi3-short", TOLERANCE,
    { { "short", swap_factors }, { "factors", break_factors }, { "magnitude", break_magnitude } } },
  { "phi3-long", TOLERANCE,
    { { "long", swap_factors }, { "query", break_query_bias }, { "value", break_value_bias } } },
  { "mistral3", TOLERANCE,
    { { "temperature", break_temperature }, { "betas", break_betas }, { "yarn", break_yarn },
      { "magnitude", break_magnitude } } },
  { "mistral3-plain", TOLERANCE, { { "out", break_out_bias } } },
  { "smollm3", TOLERANCE, { { "no-rope", break_no_rope }, { "pairs", break_pairs } } },
  { "granite", TOLERANCE,
    { { "embedding-scale", break_embedding_scale }, { "residual-scale", break_residual_scale },
      { "logit-scale", break_logit_scale }, { "attention-scale", break_attention_scale },
      { "out", break_out_bias }, { "pairs", break_pairs } } },
  { "granite-unrotated", TOLERANCE,
    { { "rope", break_all_ropes }, { "logit-scale", break_logit_scale } } },
  { "minicpm", TOLERANCE,
    { { "embedding-scale", break_embedding_scale }, { "residual-scale", break_residual_scale },
      { "logit-scale", break_logit_scale }, { "long", swap_factors } } },
  { "glm4", TOLERANCE,
    { { "attention-post-norm", break_attention_post_norm }, { "ffn-post-norm", break_ffn_post_norm },
      { "query", break_query_bias }, { "pairs", break_pairs }, { "rope-dim", break_rope_dim } } },
  { "olmo2", TOLERANCE,
    { { "attention-post-norm", break_attention_post_norm }, { "ffn-post-norm", break_ffn_post_norm },
      { "wide-norms", break_wide_norms }, { "query-norm", break_query_norm },
      { "key-norm", break_key_norm }, { "pairs", break_pairs } } },
  { "exaone4", TOLERANCE,
    { { "attention-post-norm", break_attention_post_norm }, { "ffn-post-norm", break_ffn_post_norm },
      { "query-norm", break_query_norm }, { "key-norm", break_key_norm },
      { "factors", break_factors }, { "rope", break_all_ropes } } },
  { "cohere2", TOLERANCE,
    { { "centered-norms", break_centered_norms }, { "window", break_window },
      { "edge", break_window_edge }, { "no-rope", break_no_rope }, { "pairs", break_pairs },
      { "logit-scale", break_logit_scale } } },
  { "gpt-oss", TOLERANCE,
    { { "sinks", break_sinks }, { "router-bias", break_router_bias },
      { "expert-gate-bias", break_expert_gate_bias }, { "expert-up-bias", break_expert_up_bias },
      { "expert-down-bias", break_expert_down_bias }, { "gate", break_capped_gate },
      { "window", break_window }, { "yarn", break_yarn }, { "magnitude", break_magnitude },
      { "out", break_out_bias } } },
  { "gemma3n", TOLERANCE,
    { { "cutoff", break_cutoff }, { "laurel", break_laurel }, { "router", break_predict },
      { "unprojection", break_unprojection }, { "kv-layers", break_kv_layers },
      { "value-norms", break_value_norms }, { "layer-post-norm", break_layer_post_norm },
      { "window", break_window }, { "window-base", break_window_base },
      { "logit-cap", break_logit_cap } } },
  { "gemma4", TOLERANCE,
    { { "kv-layers", break_kv_layers }, { "value-norms", break_value_norms },
      { "layer-scale", break_layer_scale }, { "layer-post-norm", break_layer_post_norm },
      { "layer-embedding", break_layer_embedding }, { "factors", break_factors },
      { "window", break_window }, { "window-base", break_window_base },
      { "embedding-scale", break_embedding_scale }, { "logit-cap", break_logit_cap } } },
  { "gemma4-dense", TOLERANCE,
    { { "value-norms", break_value_norms }, { "factors", break_factors },
      { "window", break_window }, { "query-norm", break_query_norm },
      { "key-norm", break_key_norm }, { "gate", break_gate } } },
  { "deepseek2", TOLERANCE,
    { { "low-norm", break_low_norm }, { "score", break_score }, { "sum", break_expert_sum },
      { "scale", break_expert_scale }, { "choice-bias", break_choice_bias },
      { "shared", break_shared }, { "pairs", break_pairs },
      { "attention-scale", break_attention_scale }, { "base", break_base } } },
  { "deepseek2-lite", TOLERANCE,
    { { "yarn", break_yarn }, { "score", break_score }, { "sum", break_expert_sum },
      { "shared", break_shared }, { "attention-scale", break_attention_scale } } },
  { "qwen2vl", TOLERANCE,
    { { "query", break_query_bias }, { "key", break_key_bias }, { "value", break_value_bias },
      { "pairs", break_pairs }, { "base", break_base } } },
  { "qwen3vl", TOLERANCE,
    { { "query-norm", break_query_norm }, { "key-norm", break_key_norm },
      { "pairs", break_pairs } } },
};

/* --- running --- */

/* The tokens that the other program was given: README.md. */
static void
fill_tokens (gint32 tokens[N_TOKENS])
{
  tokens[0] = 1;
  for (guint i = 1; i < N_TOKENS; i++)
    tokens[i] = (5 * tokens[i - 1] + 17) % 64;
}

static char *
get_path (const char *file,
          const char *ending)
{
  g_autofree char *name = g_strconcat (file, ending, NULL);

  return g_build_filename (g_getenv ("LLM_TEST_DATA"), "architectures", name, NULL);
}

static ExecRig *
open_rig (const Case *data,
          const char *kernels,
          guint       n_threads)
{
  const ExecRigConfig config = { .n_threads = n_threads, .kernels = kernels,
                                 .format = LLK_KV_F32 };
  g_autofree char *path = get_path (data->file, ".gguf");

  return exec_rig_open (path, &config);
}

/* A step that windows don't fit. */
#define STEP 11

/* (transfer full): logits of all tokens, by steps of @step rows. */
static float *
run (ExecRig *rig,
     guint    step)
{
  g_autoptr (LlmKvSeq) seq = llm_kv_seq_new (rig->store, NULL, NULL);
  gsize n_vocab = rig->hparams.n_vocab;
  float *logits = g_new (float, N_TOKENS * n_vocab);
  gint32 tokens[N_TOKENS];

  fill_tokens (tokens);
  for (guint first = 0; first < N_TOKENS; first += step)
    {
      guint n = MIN (step, N_TOKENS - first);
      LlmRow rows[N_TOKENS];

      g_assert_true (llm_kv_seq_append (seq, n, NULL));
      for (guint i = 0; i < n; i++)
        rows[i] = exec_rig_row (tokens[first + i], 0, first + i);
      exec_rig_step (rig, rows, n, &seq, 1);
      for (guint i = 0; i < n; i++)
        memcpy (logits + (first + i) * n_vocab, llm_forward_get_logits (rig->forward, i),
                n_vocab * sizeof (float));
    }
  return logits;
}

/* The largest difference to the other program's logits, relative to the largest of them. */
static double
compare (ExecRig     *rig,
         const Case  *data,
         const float *logits)
{
  g_autofree char *path = get_path (data->file, ".logits");
  gsize n = (gsize) N_TOKENS * rig->hparams.n_vocab;
  g_autoptr (GError) error = NULL;
  g_autofree char *bytes = NULL;
  double largest = 0, worst = 0;
  gsize length;

  g_file_get_contents (path, &bytes, &length, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (length, ==, n * sizeof (float));
  for (gsize i = 0; i < n; i++)
    {
      float expected;

      memcpy (&expected, bytes + i * sizeof expected, sizeof expected);
      if (!isfinite (logits[i]))
        return INFINITY;
      largest = MAX (largest, fabs ((double) expected));
      worst = MAX (worst, fabs ((double) logits[i] - (double) expected));
    }
  return worst / largest;
}

/* The naive model's logits with the same hyper-parameters, [N_TOKENS × n_vocab], and how far @kernels
 * may be from them. */
static double *
run_naive (ExecRig      *rig,
           const LlkOps *kernels,
           double       *tolerance)
{
  g_autoptr (NaiveModel) naive = naive_model_new (rig->gguf, &rig->hparams);
  double *logits = g_new (double, (gsize) N_TOKENS * rig->hparams.n_vocab);
  guint positions[N_TOKENS];
  gint32 tokens[N_TOKENS];
  const NaiveRun run = { tokens, positions, N_TOKENS, naive_sees_causal, NULL, NULL, 0 };

  fill_tokens (tokens);
  for (guint i = 0; i < N_TOKENS; i++)
    positions[i] = i;
  naive_model_run (naive, &run, logits, NULL);
  *tolerance = naive_model_get_tolerance (naive, &run, kernels, logits);
  return logits;
}

/* How far a set of kernels may be from the other program, relative to the largest logit. Attention
 * on tiles has fewer bits than floats: where scores are large, that is more than the order of sums. */
static double
get_tolerance (ExecRig    *rig,
               const Case *data,
               const char *kernels)
{
  g_autofree double *logits = NULL;
  double largest = 0, tolerance;

  if (!g_str_has_prefix (kernels, "amx"))
    return data->tolerance;
  logits = run_naive (rig, llk_ops_find (kernels), &tolerance);
  for (gsize i = 0; i < (gsize) N_TOKENS * rig->hparams.n_vocab; i++)
    largest = MAX (largest, fabs (logits[i]));
  return data->tolerance + tolerance / largest;
}

static void
test_peer (gconstpointer user_data)
{
  const Case *data = user_data;

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      g_autoptr (ExecRig) rig = open_rig (data, *kernels, 2);
      g_autofree float *logits = run (rig, STEP);
      double difference = compare (rig, data, logits);

      g_test_message ("%s: %g", *kernels, difference);
      g_assert_cmpfloat (difference, <=, get_tolerance (rig, data, *kernels));
    }
}

/* The same from panels. Products of F32 weights are sums of floats there, too; what
 * is shown is that each operator is packed from and multiplied at the right place. */
static void
test_packed (gconstpointer user_data)
{
  const Case *data = user_data;

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      const ExecRigConfig config = { .n_threads = 2, .kernels = *kernels, .format = LLK_KV_F32 };
      g_autoptr (ExecRig) rig = open_rig (data, *kernels, 2);
      g_autofree float *logits = NULL;
      g_autoptr (GError) error = NULL;

      llm_weights_free (rig->weights);
      rig->weights = llm_weights_new_repacked (rig->gguf, &rig->hparams, NULL, NULL, 2, rig->ledger,
                                               &error);
      g_assert_no_error (error);
      exec_rig_set_weights (rig, rig->weights, &config);
      logits = run (rig, STEP);
      g_test_message ("%s: %g", *kernels, compare (rig, data, logits));
      g_assert_cmpfloat (compare (rig, data, logits), <=, get_tolerance (rig, data, *kernels));
    }
}

/* Against the naive model with the same hyper-parameters. */
static void
check_naive (ExecRig *rig)
{
  g_autofree float *found = run (rig, STEP);
  double tolerance, worst = 0;
  g_autofree double *expected = run_naive (rig, llk_ops_best (), &tolerance);

  for (gsize i = 0; i < (gsize) N_TOKENS * rig->hparams.n_vocab; i++)
    worst = MAX (worst, fabs ((double) found[i] - expected[i]));
  g_test_message ("largest difference %g", worst);
  g_assert_cmpfloat (worst, <=, 2 * tolerance);
}

static void
test_naive (gconstpointer user_data)
{
  g_autoptr (ExecRig) rig = open_rig (user_data, NULL, 2);

  check_naive (rig);
}

/* A row's bits are its own: however many threads and rows there are. */
static void
test_bits (gconstpointer user_data)
{
  static const guint steps[] = { 1, 7, N_TOKENS };

  for (const char *const *kernels = llk_ops_list (); *kernels != NULL; kernels++)
    {
      g_autoptr (ExecRig) rig = open_rig (user_data, *kernels, 1);
      g_autofree float *expected = run (rig, STEP);

      for (guint i = 0; i < G_N_ELEMENTS (steps); i++)
        {
          g_autoptr (ExecRig) other = open_rig (user_data, *kernels, i + 1);
          g_autofree float *found = run (other, steps[i]);

          g_assert_cmpmem (found, N_TOKENS * rig->hparams.n_vocab * sizeof (float), expected,
                           N_TOKENS * rig->hparams.n_vocab * sizeof (float));
        }
    }
}

/* Windows of architectures where the other program has none. */
static void
test_naive_window (gconstpointer user_data)
{
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F32 };
  const Case data = { .file = user_data };
  g_autoptr (ExecRig) rig = open_rig (&data, NULL, 2);
  g_autofree float *all = run (rig, STEP);
  g_autofree float *seen = NULL;

  for (guint i = 0; i < rig->hparams.n_layers; i++)
    rig->hparams.layers[i].window = 7;
  exec_rig_set_weights (rig, rig->weights, &config);
  check_naive (rig);

  /* As far as the window goes it changes nothing. */
  seen = run (rig, STEP);
  g_assert_cmpmem (seen, 7 * rig->hparams.n_vocab * sizeof (float), all,
                   7 * rig->hparams.n_vocab * sizeof (float));
  g_assert_cmpfloat (fabsf (seen[7 * rig->hparams.n_vocab] - all[7 * rig->hparams.n_vocab]), >,
                     1e-3f);
}

typedef struct
{
  const Case *data;
  const Broken *broken;
} BrokenCase;

static void
test_broken (gconstpointer user_data)
{
  const ExecRigConfig config = { .n_threads = 2, .format = LLK_KV_F32 };
  const BrokenCase *broken = user_data;
  g_autoptr (ExecRig) rig = open_rig (broken->data, NULL, 2);
  g_autofree float *logits = NULL;
  double difference;

  /* The forward pass looks at the hyper-parameters when it is made. */
  broken->broken->run (&rig->hparams);
  exec_rig_set_weights (rig, rig->weights, &config);
  logits = run (rig, STEP);
  difference = compare (rig, broken->data, logits);
  g_test_message ("%g, %.0f tolerances", difference, difference / broken->data->tolerance);
  g_assert_cmpfloat (difference, >, MISSED * broken->data->tolerance);
}

int
main (int   argc,
      char *argv[])
{
  g_test_init (&argc, &argv, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *peer = g_strdup_printf ("/architectures/%s/peer", cases[i].file);
      g_autofree char *naive = g_strdup_printf ("/architectures/%s/naive", cases[i].file);
      g_autofree char *packed = g_strdup_printf ("/architectures/%s/packed", cases[i].file);
      g_autofree char *bits = g_strdup_printf ("/architectures/%s/same-bits", cases[i].file);

      g_test_add_data_func (peer, &cases[i], test_peer);
      g_test_add_data_func (packed, &cases[i], test_packed);
      g_test_add_data_func (naive, &cases[i], test_naive);
      g_test_add_data_func (bits, &cases[i], test_bits);
      for (guint j = 0; j < G_N_ELEMENTS (cases[i].broken) && cases[i].broken[j].run != NULL; j++)
        {
          g_autofree char *path = g_strdup_printf ("/architectures/%s/broken-%s", cases[i].file,
                                                   cases[i].broken[j].name);
          BrokenCase *broken = g_new (BrokenCase, 1);

          *broken = (BrokenCase) { &cases[i], &cases[i].broken[j] };
          g_test_add_data_func_full (path, broken, test_broken, g_free);
        }
    }
  g_test_add_data_func ("/architectures/llama-biases/naive-window", "llama-biases",
                        test_naive_window);
  g_test_add_data_func ("/architectures/phi3/naive-window", "phi3", test_naive_window);
  return g_test_run ();
}
