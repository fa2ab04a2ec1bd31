/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Any bytes as a model file: all that happens to a file before its first token is
 * computed. Whatever they are, there is a model or an error in our domain. */

#include <stddef.h>
#include <stdint.h>

#include "common/llmsvc-error.h"
#include "model/llm-model.h"
#include "weights/llm-weights.h"

int LLVMFuzzerTestOneInput (const uint8_t *data, size_t size);

static void
check_error (GError **error)
{
  g_assert_nonnull (*error);
  g_assert_true ((*error)->domain == LLMSVC_ERROR);
  g_assert_true (g_utf8_validate ((*error)->message, -1, NULL));
  g_clear_error (error);
}

/* Every key in every type, right or wrong. */
static void
read_values (LlmGguf *gguf)
{
  for (guint i = 0; i < gguf->keys->len; i++)
    {
      const char *key = g_array_index (gguf->keys, LlmGgufKey, i).name;
      g_autofree char *text = llm_gguf_get_string (gguf, key, FALSE, NULL);
      g_autofree LlmGgufString *strings = NULL;
      g_autofree float *floats = NULL;
      g_autofree gint64 *ints = NULL;
      guint64 integer;
      double real;
      gboolean boolean;
      gsize n, sum = 0;

      if (text != NULL)
        g_assert_true (g_utf8_validate (text, -1, NULL));
      llm_gguf_get_uint (gguf, key, 0, G_MAXUINT64, NULL, &integer, NULL);
      llm_gguf_get_double (gguf, key, -1, 1, NULL, &real, NULL);
      llm_gguf_get_bool (gguf, key, NULL, &boolean, NULL);
      floats = llm_gguf_get_floats (gguf, key, FALSE, &n, NULL);
      ints = llm_gguf_get_ints (gguf, key, FALSE, &n, NULL);
      strings = llm_gguf_get_strings (gguf, key, FALSE, &n, NULL);
      for (gsize j = 0; j < n; j++)
        for (gsize k = 0; k < strings[j].length; k++)
          sum += (guint8) strings[j].text[k];
      g_assert_cmpuint (sum, <, G_MAXSIZE);
    }
}

/* Reads the first and the last byte of every row of every operator. */
static void
read_weights (LlmWeights       *weights,
              const LlmHparams *hparams)
{
  guint sum = 0;

  for (guint op = 0; op < LLM_N_OPS; op++)
    {
      LlmWeightView view;

      g_assert_cmpint (llm_weights_acquire (weights, op, hparams->n_layers - 1, 0, NULL, &view,
                                            NULL), ==, LLM_READY);
      for (guint row = 0; row < view.out_count; row++)
        {
          const guint8 *bytes = (const guint8 *) view.data + row * view.row_bytes;

          sum += bytes[0] + bytes[view.row_bytes - 1];
        }
      llm_weights_release (weights, &view);
    }
  g_assert_cmpuint (sum, <, G_MAXUINT);
  g_assert_true (llm_weights_check (weights, NULL));
}

int
LLVMFuzzerTestOneInput (const uint8_t *data,
                        size_t         size)
{
  g_autoptr(GBytes) bytes = g_bytes_new (data, size);
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = llm_gguf_new_for_bytes (bytes, "fuzz.gguf", &error);
  g_autoptr(LlmWeights) weights = NULL;
  g_autoptr(LlmModel) model = NULL;
  LlmHparams hparams;

  if (gguf == NULL)
    {
      check_error (&error);
      return 0;
    }
  read_values (gguf);

  if (!llm_hparams_read (gguf, &hparams, &error))
    {
      check_error (&error);
    }
  else
    {
      weights = llm_weights_new_mapped (gguf, &hparams, NULL, NULL, &error);
      if (weights != NULL)
        read_weights (weights, &hparams);
      else
        check_error (&error);
    }

  model = llm_model_new_for_gguf (gguf, &error);
  if (model == NULL)
    {
      check_error (&error);
    }
  else if (llm_model_get_template (model, &error) == NULL)
    {
      check_error (&error);
    }
  return 0;
}
