/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A model ready to compute, for commands that measure it, and what its KV cache
 * does between calls. The only thread of the tool.
 */

#pragma once

#include "model/llm-model.h"
#include "tool/llm-measure.h"

/* What the command line says. */
typedef struct
{
  char *path;
  char *lora;            /* (nullable): the path of an adapter */
  int sub_model;         /* percent; 0: the whole model */
  int active;            /* percent of the layers' weights that every row leaves out; 0: none */
  gboolean keeps_smallest;   /* with @active: the inputs that matter least stay */
  int threads;
  gboolean is_f32;       /* KV cache */
  gboolean is_exact;     /* weights as the file has them */

  /* What is done with the KV cache between calls; nothing, unless one is given. */
  char *kv;              /* (nullable): the name of a policy */
  double kv_ratio;       /* percent of all chunks at 8 bits; 0 for the policy's own */
  int kv_bits;           /* 8, 4, 3 or 2 for all chunks; 0 for the policy's choice */
  int n_call;            /* tokens of a call */
} ToolModelOptions;

extern ToolModelOptions tool_model_options;

#define TOOL_MODEL_ENTRIES \
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &tool_model_options.path, N_("The GGUF file"), \
      N_("FILE") }, \
    { "lora", 0, 0, G_OPTION_ARG_FILENAME, &tool_model_options.lora, \
      N_("Apply this adapter (LoRA) to it"), N_("FILE") }, \
    { "threads", 0, 0, G_OPTION_ARG_INT, &tool_model_options.threads, N_("Threads that compute"), \
      "N" }
#define TOOL_MODEL_SUB_MODEL_ENTRY \
    { "sub-model", 0, 0, G_OPTION_ARG_INT, &tool_model_options.sub_model, \
      N_("Compute with the sub-model of this share of the model, as its companion has it"), \
      N_("PERCENT") }
#define TOOL_MODEL_ACTIVE_ENTRIES \
    { "active", 0, 0, G_OPTION_ARG_INT, &tool_model_options.active, \
      N_("Leave out so much of the layers' weights in every row, the prompt's too, by the " \
         "thresholds of the companion: 0 to 80"), N_("PERCENT") }, \
    { "keep-smallest", 0, 0, G_OPTION_ARG_NONE, &tool_model_options.keeps_smallest, \
      N_("With --active: keep the smallest inputs instead of the largest, to compare with"), NULL }
#define TOOL_MODEL_EXACT_ENTRY \
    { "exact", 0, 0, G_OPTION_ARG_NONE, &tool_model_options.is_exact, \
      N_("Compute in floats with the weights as the file has them"), NULL }
#define TOOL_MODEL_KV_ENTRIES \
    { "kv", 0, 0, G_OPTION_ARG_STRING, &tool_model_options.kv, \
      N_("Treat context memory between calls as this policy does (llms)"), N_("POLICY") }, \
    { "kv-ratio", 0, 0, G_OPTION_ARG_DOUBLE, &tool_model_options.kv_ratio, \
      N_("Percent of what it takes with 8 bits"), N_("PERCENT") }, \
    { "kv-bits", 0, 0, G_OPTION_ARG_INT, &tool_model_options.kv_bits, \
      N_("8, 4, 3 or 2 bits for all of it"), "N" }

typedef struct
{
  LlmModel *model;
  const LlmHparams *hparams;     /* (unowned), as the tokenizer */
  LlmTokenizer *tokenizer;
  LlmWeights *weights;
  LlmKvStore *store;
  LlmWorkerPool *pool;
  LlmForward *forward;
} ToolModel;

/* A sentence about what is wrong with the options, or NULL. */
const char *tool_model_options_check (void);
/* Whether anything is done between calls. */
gboolean    tool_model_has_policy    (void);

/* As the options say. */
ToolModel  *tool_model_open          (GError          **error);
void        tool_model_free          (ToolModel        *self);
/* (transfer full): one more forward pass with the same weights, of the sub-model of @percent, 100 for all of
 * it. The model must be open with a sub-model. Fails with UNSUPPORTED for an unknown level. */
LlmForward *tool_model_new_forward   (ToolModel        *self,
                                      guint             percent,
                                      GError          **error);
/* One more store for the same model. @policy: (nullable): nothing is done between calls. */
LlmKvStore *tool_model_new_store     (ToolModel        *self,
                                      const LlmKvPolicy *policy,
                                      GError          **error);
/* The tokens of @text, BOS included where the model wants it. */
GArray     *tool_model_encode        (ToolModel        *self,
                                      const char       *text,
                                      gboolean          is_markup);

static inline const gint32 *
tool_model_tokens (const GArray *tokens)
{
  return (const gint32 *) (gpointer) tokens->data;
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (ToolModel, tool_model_free)
