/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "w8/bench-outliers.h"

#include <math.h>
#include <string.h>

#include "base/llm-fail.h"
#include "common/llmsvc-error.h"
#include "model/llm-model.h"

typedef struct
{
  LlmGguf *gguf;
  guint8 *data;            /* of the copy */
  double factor;
} Injection;

/* A tensor of a layer, as it is in the copy, [outputs × inputs]; NULL with @error set. */
static float *
find_tensor (Injection            *self,
             guint                 layer,
             const char           *part,
             const LlmGgufTensor **tensor,
             GError              **error)
{
  g_autofree char *name = g_strdup_printf ("blk.%u.%s.weight", layer, part);
  const LlmGgufTensor *found = llm_gguf_find_tensor (self->gguf, name);

  if (found == NULL || found->type != LLK_F32 || found->n_dims > 2
      || found->offset % sizeof (float) != 0)
    {
      llm_fail (error, LLMSVC_ERROR_UNSUPPORTED,
                "Outliers are put into models with F32 weights: %s has no such tensor %s",
                self->gguf->path, name);
      return NULL;
    }
  *tensor = found;
  return (float *) (gpointer) (self->data + found->offset);
}

/* Times @factor: an output with all its inputs, or an input for all outputs. */
static gboolean
scale_line (Injection   *self,
            guint        layer,
            const char  *part,
            guint64      at,
            gboolean     is_output,
            double       factor,
            GError     **error)
{
  const LlmGgufTensor *tensor;
  float *values = find_tensor (self, layer, part, &tensor, error);
  guint64 n = values == NULL ? 0 : is_output ? tensor->dims[0] : tensor->dims[1];

  for (guint64 i = 0; i < n; i++)
    {
      float *value = is_output ? values + at * tensor->dims[0] + i
                               : values + i * tensor->dims[0] + at;

      *value = (float) ((double) *value * factor);
    }
  return values != NULL;
}

static gboolean
inject_norm (Injection  *self,
             guint       layer,
             GError    **error)
{
  const LlmGgufTensor *tensor;
  float *norm = find_tensor (self, layer, "attn_norm", &tensor, error);
  guint64 at = 0;

  for (guint64 i = 1; norm != NULL && i < tensor->dims[0]; i++)
    if (fabsf (norm[i]) > fabsf (norm[at]))
      at = i;
  if (norm == NULL)
    return FALSE;
  norm[at] = (float) ((double) norm[at] * self->factor);
  return scale_line (self, layer, "attn_q", at, FALSE, 1 / self->factor, error)
         && scale_line (self, layer, "attn_k", at, FALSE, 1 / self->factor, error)
         && scale_line (self, layer, "attn_v", at, FALSE, 1 / self->factor, error);
}

/* Two neurons, other ones in each layer. */
static gboolean
inject_neurons (Injection  *self,
                guint       layer,
                GError    **error)
{
  const LlmGgufTensor *tensor;

  if (find_tensor (self, layer, "ffn_up", &tensor, error) == NULL)
    return FALSE;
  for (guint64 i = 0; i < 2; i++)
    {
      guint64 at = (tensor->dims[1] * (2 * i + 1) / 4 + 37 * (guint64) layer) % tensor->dims[1];

      if (!scale_line (self, layer, "ffn_up", at, TRUE, self->factor, error)
          || !scale_line (self, layer, "ffn_down", at, FALSE, 1 / self->factor, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
bench_outliers_inject (const char  *path,
                     double       factor,
                     guint        n_layers,
                     const char  *copy,
                     GError     **error)
{
  g_autoptr(LlmModel) model = llm_model_open (path, error);
  Injection self = { NULL, NULL, factor };
  g_autofree guint8 *data = NULL;
  gsize length;

  if (model == NULL || !g_file_get_contents (path, (char **) &data, &length, error))
    return FALSE;
  self.gguf = llm_model_get_gguf (model);
  self.data = data;
  if (length < llm_file_map_get_size (self.gguf->map))
    return llm_fail (error, LLMSVC_ERROR_INVALID_MODEL, "%s became shorter meanwhile", path);
  for (guint layer = 0; layer < llm_model_get_hparams (model)->n_layers; layer++)
    if ((n_layers == 0 || layer < n_layers)
        && (!inject_norm (&self, layer, error) || !inject_neurons (&self, layer, error)))
      return FALSE;
  return g_file_set_contents (copy, (const char *) data, (gssize) length, error);
}
