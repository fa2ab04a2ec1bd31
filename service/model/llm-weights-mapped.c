/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/llm-weights.h"

#include <math.h>
#include <string.h>

#include "common/llmsvc-error.h"

/* Tensors that are for later versions of this program and change nothing here. */
#define OWN_PREFIX "llmsvc."

typedef struct
{
  LlmWeights parent;

  LlmGguf *gguf;
  LlmLedger *ledger;                /* (nullable) */
  guint n_layers;
  const LlmGgufTensor *shared[LLM_N_OPS];   /* (nullable) of those that no layer has */
  const LlmGgufTensor **layers;     /* (owned): [n_layers × LLM_N_OPS], NULL elsewhere */
} MappedWeights;

/* A number of values in terms of the hyper-parameters. */
typedef enum
{
  DIM_ONE,
  DIM_EMBD,
  DIM_QUERY,
  DIM_KV,
  DIM_FF,
  DIM_VOCAB,
  DIM_ROPE_PAIRS,
} Dim;

typedef struct
{
  const char *name;     /* without "blk.N." and ".weight" */
  gboolean is_per_layer;
  gboolean is_optional;
  Dim in, out;          /* vectors, of one output, are F32 */
} OperatorTensor;

static const OperatorTensor operators[LLM_N_OPS] = {
  [LLM_OP_TOKEN_EMBEDDING] = { "token_embd", FALSE, FALSE, DIM_EMBD, DIM_VOCAB },
  [LLM_OP_ATTENTION_NORM] = { "attn_norm", TRUE, FALSE, DIM_EMBD, DIM_ONE },
  [LLM_OP_QUERY] = { "attn_q", TRUE, FALSE, DIM_EMBD, DIM_QUERY },
  [LLM_OP_KEY] = { "attn_k", TRUE, FALSE, DIM_EMBD, DIM_KV },
  [LLM_OP_VALUE] = { "attn_v", TRUE, FALSE, DIM_EMBD, DIM_KV },
  [LLM_OP_ATTENTION_OUT] = { "attn_output", TRUE, FALSE, DIM_QUERY, DIM_EMBD },
  [LLM_OP_FFN_NORM] = { "ffn_norm", TRUE, FALSE, DIM_EMBD, DIM_ONE },
  [LLM_OP_FFN_GATE] = { "ffn_gate", TRUE, FALSE, DIM_EMBD, DIM_FF },
  [LLM_OP_FFN_UP] = { "ffn_up", TRUE, FALSE, DIM_EMBD, DIM_FF },
  [LLM_OP_FFN_DOWN] = { "ffn_down", TRUE, FALSE, DIM_FF, DIM_EMBD },
  [LLM_OP_OUTPUT_NORM] = { "output_norm", FALSE, FALSE, DIM_EMBD, DIM_ONE },
  [LLM_OP_OUTPUT] = { "output", FALSE, TRUE, DIM_EMBD, DIM_VOCAB },
  [LLM_OP_ROPE_FACTORS] = { "rope_freqs", FALSE, TRUE, DIM_ROPE_PAIRS, DIM_ONE },
};

static const guint8 whole_model[] = { 100 };

static guint64
get_dim (const LlmHparams *hparams,
         Dim               dim)
{
  switch (dim)
    {
    case DIM_ONE:
      return 1;
    case DIM_EMBD:
      return hparams->n_embd;
    case DIM_QUERY:
      return (guint64) hparams->n_heads * hparams->head_dim;
    case DIM_KV:
      return (guint64) hparams->n_kv_heads * hparams->head_dim;
    case DIM_FF:
      return hparams->n_ff;
    case DIM_VOCAB:
      return hparams->n_vocab;
    case DIM_ROPE_PAIRS:
      return hparams->rope_dim / 2;
    default:
      g_assert_not_reached ();
    }
}

static char *
get_tensor_name (LlmOperator op,
                 guint       layer)
{
  if (operators[op].is_per_layer)
    return g_strdup_printf ("blk.%u.%s.weight", layer, operators[op].name);
  return g_strdup_printf ("%s.weight", operators[op].name);
}

/* The tensor of an operator, checked. NULL without @error where it may be missing. */
static const LlmGgufTensor *
find_tensor (LlmGguf           *gguf,
             const LlmHparams  *hparams,
             LlmOperator        op,
             guint              layer,
             GError           **error)
{
  g_autofree char *name = get_tensor_name (op, layer);
  const LlmGgufTensor *tensor = llm_gguf_find_tensor (gguf, name);
  guint64 n_in = get_dim (hparams, operators[op].in);
  guint64 n_out = get_dim (hparams, operators[op].out);

  if (tensor == NULL)
    {
      if (!operators[op].is_optional)
        llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL, "the tensor %s is missing", name);
      return NULL;
    }
  if (tensor->dims[0] != n_in || tensor->dims[1] != n_out || tensor->dims[2] != 1 ||
      tensor->dims[3] != 1)
    {
      llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                     "the tensor %s has the shape %ju × %ju × %ju × %ju, %ju × %ju is needed",
                     name, tensor->dims[0], tensor->dims[1], tensor->dims[2], tensor->dims[3],
                     n_in, n_out);
      return NULL;
    }
  if (operators[op].out == DIM_ONE && tensor->type != LLK_F32)
    {
      llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                     "the tensor %s is of type %s, only F32 is supported for it", name,
                     llk_type_name (tensor->type));
      return NULL;
    }
  return tensor;
}

/* Whether @name is that of a tensor the forward pass uses. */
static gboolean
is_used (const char       *name,
         const LlmHparams *hparams)
{
  guint64 layer = 0;
  gboolean is_in_layer = g_str_has_prefix (name, "blk.");

  if (is_in_layer)
    {
      char *end;

      if (!g_ascii_isdigit (name[4]))
        return FALSE;
      layer = g_ascii_strtoull (name + 4, &end, 10);
      if (layer >= hparams->n_layers)
        return FALSE;
    }

  for (guint op = 0; op < LLM_N_OPS; op++)
    if (operators[op].is_per_layer == is_in_layer)
      {
        g_autofree char *known = get_tensor_name (op, (guint) layer);

        if (strcmp (known, name) == 0)
          return TRUE;
      }
  return FALSE;
}

/* A bias or a norm left out would change every answer, so there must be nothing
 * that the forward pass does not know. */
static gboolean
check_all_are_used (LlmGguf           *gguf,
                    const LlmHparams  *hparams,
                    GError           **error)
{
  for (guint i = 0; i < llm_gguf_get_n_tensors (gguf); i++)
    {
      const char *name = llm_gguf_get_tensor (gguf, i)->name;

      if (!g_str_has_prefix (name, OWN_PREFIX) && !is_used (name, hparams))
        {
          g_autofree char *quoted = llm_gguf_quote (name, strlen (name));

          return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                                "the tensor %s is none that a model of architecture %s with %u "
                                "layers can have here: leaving it out would change the answers",
                                quoted, hparams->architecture, hparams->n_layers);
        }
    }
  return TRUE;
}

gboolean
llm_weights_check_tensors (LlmGguf           *gguf,
                           const LlmHparams  *hparams,
                           GError           **error)
{
  g_return_val_if_fail (gguf != NULL, FALSE);
  g_return_val_if_fail (hparams != NULL, FALSE);

  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < (operators[op].is_per_layer ? hparams->n_layers : 1); layer++)
      {
        g_autoptr(GError) local_error = NULL;

        find_tensor (gguf, hparams, op, layer, &local_error);
        if (local_error != NULL)
          {
            g_propagate_error (error, g_steal_pointer (&local_error));
            return FALSE;
          }
      }
  return check_all_are_used (gguf, hparams, error);
}

static const void *
get_data (LlmGguf             *gguf,
          const LlmGgufTensor *tensor)
{
  return llm_file_map_get_data (llm_gguf_get_map (gguf)) + tensor->offset;
}

/* They divide. */
static gboolean
check_rope_factors (LlmGguf              *gguf,
                    const LlmGgufTensor  *tensor,
                    GError              **error)
{
  const float *factors = get_data (gguf, tensor);

  for (guint64 i = 0; i < tensor->dims[0]; i++)
    if (!isfinite (factors[i]) || factors[i] <= 0)
      return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                            "the tensor %s holds %g as its item %ju, numbers above 0 are needed",
                            tensor->name, (double) factors[i], i);
  return TRUE;
}

static LlmStatus
acquire (LlmWeights           *weights,
         LlmOperator           op,
         guint                 layer,
         guint                 segment,
         const LlmActivation  *activation,
         LlmWeightView        *view,
         GError              **error)
{
  MappedWeights *self = (MappedWeights *) weights;
  const LlmGgufTensor *tensor;

  g_return_val_if_fail ((guint) op < LLM_N_OPS, LLM_FAILED);
  g_return_val_if_fail (!operators[op].is_per_layer || layer < self->n_layers, LLM_FAILED);
  g_return_val_if_fail (segment == 0, LLM_FAILED);

  tensor = operators[op].is_per_layer ? self->layers[layer * LLM_N_OPS + op] : self->shared[op];
  memset (view, 0, sizeof *view);
  if (tensor != NULL)
    {
      view->data = get_data (self->gguf, tensor);
      view->type = tensor->type;
      view->row_bytes = tensor->dims[0] / llk_type_block_size (tensor->type) *
                        llk_type_block_bytes (tensor->type);
      view->in_count = (guint) tensor->dims[0];
      view->out_count = (guint) tensor->dims[1];
    }
  return LLM_READY;
}

static void
release (LlmWeights    *weights,
         LlmWeightView *view)
{
  memset (view, 0, sizeof *view);
}

static gboolean
check (LlmWeights  *weights,
       GError     **error)
{
  MappedWeights *self = (MappedWeights *) weights;

  if (llm_file_map_is_damaged (llm_gguf_get_map (self->gguf)))
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was in use: answers made with it since "
                          "are worthless");
  return TRUE;
}

static void
free_weights (LlmWeights *weights)
{
  MappedWeights *self = (MappedWeights *) weights;
  LlmFileMap *map = llm_gguf_get_map (self->gguf);

  if (self->ledger != NULL)
    {
      llm_ledger_remove (self->ledger, LLM_HOLDER_WEIGHTS, weights->bytes);
      llm_ledger_unref (self->ledger);
    }
  llm_file_map_drop (map, 0, llm_file_map_get_size (map));
  llm_gguf_unref (self->gguf);
  g_free (self->layers);
  g_free (self);
}

static const LlmWeightProvider mapped_provider = {
  .acquire = acquire,
  .release = release,
  .check = check,
  .free = free_weights,
};

LlmWeights *
llm_weights_new_mapped (LlmGguf           *gguf,
                        const LlmHparams  *hparams,
                        LlmLedger         *ledger,
                        GError           **error)
{
  MappedWeights *self;
  const LlmGgufTensor *factors;

  g_return_val_if_fail (gguf != NULL, NULL);
  g_return_val_if_fail (hparams != NULL, NULL);

  if (!llm_weights_check_tensors (gguf, hparams, error))
    return NULL;
  factors = find_tensor (gguf, hparams, LLM_OP_ROPE_FACTORS, 0, NULL);
  if (factors != NULL && !check_rope_factors (gguf, factors, error))
    return NULL;

  self = g_new0 (MappedWeights, 1);
  self->parent.provider = &mapped_provider;
  self->parent.n_segments = G_N_ELEMENTS (whole_model);
  self->parent.segment_percent = whole_model;
  self->gguf = llm_gguf_ref (gguf);
  self->n_layers = hparams->n_layers;
  self->layers = g_new0 (const LlmGgufTensor *, (gsize) self->n_layers * LLM_N_OPS);

  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < (operators[op].is_per_layer ? self->n_layers : 1); layer++)
      {
        const LlmGgufTensor *tensor = find_tensor (gguf, hparams, op, layer, NULL);

        if (operators[op].is_per_layer)
          self->layers[layer * LLM_N_OPS + op] = tensor;
        else
          self->shared[op] = tensor;
        if (tensor != NULL)
          self->parent.bytes += tensor->bytes;
      }
  if (self->shared[LLM_OP_OUTPUT] == NULL)
    self->shared[LLM_OP_OUTPUT] = self->shared[LLM_OP_TOKEN_EMBEDDING];

  if (ledger != NULL)
    {
      self->ledger = llm_ledger_ref (ledger);
      llm_ledger_add (ledger, LLM_HOLDER_WEIGHTS, self->parent.bytes);
    }
  return &self->parent;
}
