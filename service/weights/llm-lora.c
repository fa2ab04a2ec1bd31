/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "weights/llm-lora.h"

#include <string.h>

#include "common/llmsvc-error.h"

#define SUFFIX_A ".lora_a"
#define SUFFIX_B ".lora_b"
/* Far above the values used in training. */
#define MAX_ALPHA 1e6

/* Operators that can be adapted. */
#define ADAPTED_OPS                                                                         \
  (LLM_OP_BIT (LLM_OP_QUERY) | LLM_OP_BIT (LLM_OP_KEY) | LLM_OP_BIT (LLM_OP_VALUE) |        \
   LLM_OP_BIT (LLM_OP_ATTENTION_OUT) | LLM_OPS_FFN | LLM_OP_BIT (LLM_OP_OUTPUT))

static gboolean
check_text (LlmGguf     *gguf,
            const char  *key,
            const char  *needed,
            GError     **error)
{
  g_autofree char *text = llm_gguf_get_string (gguf, key, FALSE, error);
  g_autofree char *quoted = NULL;

  if (text == NULL)
    return FALSE;
  if (g_str_equal (text, needed))
    return TRUE;
  quoted = llm_gguf_quote (text, strlen (text));
  return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                        "%s is %s; an adapter of this model has “%s”", key, quoted, needed);
}

/* The files and the level that are read. */
typedef struct
{
  LlmGguf *gguf;                   /* of the adapter */
  LlmGguf *model;
  const LlmHparams *hparams;
  const LlmSubModels *sub_models;  /* (nullable): NULL for an adapter of the whole model */
  guint level;
  const char *prefix;              /* of its tensors' names */
  double alpha;
  GHashTable *used;                /* of its tensors */
} Reading;

/* Checks the metadata except general.type. */
static gboolean
read_keys (LlmGguf           *gguf,
           const LlmHparams  *hparams,
           double            *alpha,
           GError           **error)
{
  if (!check_text (gguf, "adapter.type", "lora", error)
      || !check_text (gguf, "general.architecture", hparams->architecture, error))
    return FALSE;
  if (llm_gguf_has (gguf, "adapter.alora.invocation_tokens"))
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "adapter.alora.invocation_tokens: adapters that begin in the middle of a "
                          "text are not supported");
  return llm_gguf_get_double (gguf, "adapter.lora.alpha", 0, MAX_ALPHA, NULL, alpha, error);
}

/* Checks one half: @n_in × @n_out. */
static gboolean
check_shape (LlmGguf              *gguf,
             const LlmGgufTensor  *tensor,
             guint64               n_in,
             guint64               n_out,
             GError              **error)
{
  const guint64 *dims = tensor->dims;

  if (dims[0] == n_in && dims[1] == n_out && dims[2] == 1 && dims[3] == 1)
    return TRUE;
  return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                        "the tensor %s has the shape %ju × %ju × %ju × %ju, %ju × %ju is needed",
                        tensor->name, dims[0], dims[1], dims[2], dims[3], n_in, n_out);
}

/* From the output @first_out on. */
static LlmWeightView
view_rows (LlmGguf             *gguf,
           const LlmGgufTensor *tensor,
           guint                n_in,
           guint                first_out,
           guint                n_out)
{
  gsize row_bytes = n_in / llk_type_block_size (tensor->type) * llk_type_block_bytes (tensor->type);

  return (LlmWeightView) {
    .data = llm_file_map_get_data (gguf->map) + tensor->offset + first_out * row_bytes,
    .type = tensor->type,
    .layout = LLM_LAYOUT_ROWS,
    .row_bytes = row_bytes,
    .in_count = n_in,
    .out_count = n_out,
  };
}

/* Inputs and outputs of the adapted operator: all, or those of its level. */
static gboolean
find_shape (const Reading        *reading,
            const LlmTensorPart  *part,
            LlmOperator           op,
            guint                 layer,
            guint                *n_in,
            guint                *n_out,
            GError              **error)
{
  *n_in = part->n_in;
  *n_out = part->n_out;
  if (reading->sub_models == NULL)
    return TRUE;
  if (part->tensor->dims[1] != part->n_out)
    return llm_gguf_fail (reading->gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "sub-models of models that keep several operators in the tensor %s are "
                          "not supported", part->tensor->name);
  *n_in = *n_out = 0;
  for (guint segment = 0; segment <= reading->level; segment++)
    {
      LlmSegmentShape shape =
        llm_sub_models_get_shape (reading->sub_models, reading->hparams, op, layer, segment);

      *n_in = MAX (*n_in, shape.in_first + shape.in_count);
      *n_out = MAX (*n_out, shape.out_first + shape.out_count);
    }
  return TRUE;
}

/* If a tensor of the model holds several operators, A is for all of them, and B has the outputs of
 * each, in the order of the tensor. */
static gboolean
read_pair (LlmLora              *self,
           const Reading        *reading,
           LlmOperator           op,
           guint                 layer,
           GError              **error)
{
  LlmGguf *gguf = self->gguf;
  LlmLoraPair *pair = &self->pairs[layer * LLM_N_OPS + op];
  LlmTensorPart part;
  g_autofree char *name_a = NULL, *name_b = NULL;
  const LlmGgufTensor *a, *b;
  guint64 rank;
  guint n_in, n_out;

  if (!llm_operator_find (reading->model, reading->hparams, op, layer, &part, error))
    return FALSE;
  if (part.tensor == NULL)
    return TRUE;
  name_a = g_strconcat (reading->prefix, part.tensor->name, SUFFIX_A, NULL);
  name_b = g_strconcat (reading->prefix, part.tensor->name, SUFFIX_B, NULL);
  a = llm_gguf_find_tensor (gguf, name_a);
  b = llm_gguf_find_tensor (gguf, name_b);
  if (a == NULL && b == NULL)
    return TRUE;
  if (a == NULL || b == NULL)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the tensor %s is missing, the other half is there",
                          a == NULL ? name_a : name_b);

  rank = a->dims[1];
  if (rank < 1 || rank > LLM_LORA_MAX_RANK)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the tensor %s has the rank %ju, 1 to %u are supported", name_a, rank,
                          LLM_LORA_MAX_RANK);
  if (!find_shape (reading, &part, op, layer, &n_in, &n_out, error)
      || !check_shape (gguf, a, n_in, rank, error)
      || !check_shape (gguf, b, rank, reading->sub_models != NULL ? n_out : part.tensor->dims[1],
                       error))
    return FALSE;

  pair->rank = (guint) rank;
  /* as llama.cpp does */
  pair->scale = reading->alpha != 0 ? (float) (reading->alpha / (double) rank) : 1;
  pair->a = view_rows (gguf, a, n_in, 0, pair->rank);
  pair->b = view_rows (gguf, b, pair->rank, part.first_row, n_out);
  self->max_rank = MAX (self->max_rank, pair->rank);
  self->counted_bytes += a->bytes + b->bytes;
  g_hash_table_add (reading->used, (gpointer) a);
  g_hash_table_add (reading->used, (gpointer) b);
  return TRUE;
}

static gboolean
refuse_tensor (const Reading        *reading,
               const LlmGgufTensor  *tensor,
               GError              **error)
{
  LlmGguf *gguf = reading->gguf;
  g_autofree char *quoted = llm_gguf_quote (tensor->name, strlen (tensor->name));
  const char *rest = tensor->name + strlen (reading->prefix);
  g_autofree char *base = NULL;

  if (!g_str_has_suffix (rest, SUFFIX_A) && !g_str_has_suffix (rest, SUFFIX_B))
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                          "the tensor %s is neither .lora_a nor .lora_b of another one: leaving it "
                          "out would change the answers", quoted);
  base = g_strndup (rest, strlen (rest) - strlen (SUFFIX_A));
  if (llm_gguf_find_tensor (reading->model, base) == NULL)
    return llm_gguf_fail (gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the tensor %s is for one that the model does not have", quoted);
  return llm_gguf_fail (gguf, error, LLMSVC_ERROR_UNSUPPORTED,
                        "the tensor %s is for one that can't be adapted here: matrices of "
                        "attention and of the feed-forward network without experts, and "
                        "output.weight, can",
                        quoted);
}

static gboolean
check_all_are_used (const Reading  *reading,
                    GError        **error)
{
  for (guint i = 0; i < reading->gguf->tensors->len; i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (reading->gguf, i);

      if (g_str_has_prefix (tensor->name, reading->prefix)
          && !g_hash_table_contains (reading->used, tensor))
        return refuse_tensor (reading, tensor, error);
    }
  if (g_hash_table_size (reading->used) == 0)
    return llm_gguf_fail (reading->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the adapter has no tensors");
  return TRUE;
}

/* Of files, which the kernel can read again. */
static gboolean
is_backed (const LlmLora *self)
{
  return llm_file_map_get_fd (self->gguf->map) >= 0;
}

static void
count (LlmLora   *self,
       LlmLedger *ledger)
{
  self->ledger = llm_ledger_ref (ledger);
  if (is_backed (self))
    llm_ledger_add (ledger, LLM_LEDGER_BACKED, self->counted_bytes);
  llm_ledger_add (ledger, LLM_HOLDER_WEIGHTS, self->counted_bytes);
}

static LlmLora *
read_all (Reading    *reading,
          LlmLedger  *ledger,
          GError    **error)
{
  const LlmHparams *hparams = reading->hparams;
  g_autoptr(LlmLora) self = g_new0 (LlmLora, 1);
  g_autoptr(GHashTable) used = reading->used = g_hash_table_new (NULL, NULL);

  g_atomic_ref_count_init (&self->ref_count);
  self->gguf = llm_gguf_ref (reading->gguf);
  self->pairs = g_new0 (LlmLoraPair, (gsize) hparams->n_layers * LLM_N_OPS);
  if (!read_keys (reading->gguf, hparams, &reading->alpha, error))
    return NULL;

  for (guint op = 0; op < LLM_N_OPS; op++)
    for (guint layer = 0; layer < llm_operator_count_layers (hparams, op); layer++)
      {
        /* a tied output would change the embedding, too */
        if ((ADAPTED_OPS & LLM_OP_BIT (op)) == 0
            || (op == LLM_OP_OUTPUT && hparams->has_tied_output))
          continue;
        if (!read_pair (self, reading, op, layer, error))
          return NULL;
      }
  if (!check_all_are_used (reading, error))
    return NULL;
  if (reading->sub_models == NULL)
    self->counted_bytes = llm_file_map_get_size (self->gguf->map);
  if (ledger != NULL)
    count (self, ledger);
  return g_steal_pointer (&self);
}

LlmLora *
llm_lora_new_for_gguf (LlmGguf           *gguf,
                       LlmGguf           *model,
                       const LlmHparams  *hparams,
                       LlmLedger         *ledger,
                       GError           **error)
{
  Reading reading = { .gguf = gguf, .model = model, .hparams = hparams, .prefix = "" };

  return check_text (gguf, "general.type", "adapter", error) ? read_all (&reading, ledger, error)
                                                             : NULL;
}

LlmLora *
llm_lora_new_for_level (const LlmCompanion  *companion,
                        LlmModel            *model,
                        guint                level,
                        LlmLedger           *ledger,
                        GError             **error)
{
  g_autofree char *prefix = llm_companion_get_prefix (companion, level);
  Reading reading = {
    .gguf = companion->gguf,
    .model = llm_model_get_gguf (model),
    .hparams = llm_model_get_hparams (model),
    .sub_models = companion->sub_models,
    .level = level,
    .prefix = prefix,
  };

  return companion->has_adapters[level] ? read_all (&reading, ledger, error) : NULL;
}

LlmLora *
llm_lora_open (const char        *path,
               LlmGguf           *model,
               const LlmHparams  *hparams,
               LlmLedger         *ledger,
               GError           **error)
{
  g_autoptr(LlmGguf) gguf = llm_gguf_open (path, error);

  return gguf != NULL ? llm_lora_new_for_gguf (gguf, model, hparams, ledger, error) : NULL;
}

LlmLora *
llm_lora_ref (LlmLora *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
llm_lora_unref (LlmLora *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  if (self->ledger != NULL)
    {
      llm_ledger_remove (self->ledger, LLM_HOLDER_WEIGHTS, self->counted_bytes);
      if (is_backed (self))
        llm_ledger_remove (self->ledger, LLM_LEDGER_BACKED, self->counted_bytes);
      llm_ledger_unref (self->ledger);
    }
  llm_gguf_unref (self->gguf);
  g_free (self->pairs);
  g_free (self);
}

gboolean
llm_lora_check (LlmLora  *self,
                GError  **error)
{
  if (llm_file_map_is_damaged (self->gguf->map))
    return llm_gguf_fail (self->gguf, error, LLMSVC_ERROR_INVALID_MODEL,
                          "the file was changed while it was in use: what was computed with it "
                          "since is worthless");
  return TRUE;
}
