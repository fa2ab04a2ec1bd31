/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "bench-endless.h"

#include "model/llm-model.h"

/* As many tokens as one call may name in logit-bias. */
#define MAX_ENDS 1024
#define NEVER -100.0

GVariant *
bench_endless_make_bias (const char  *path,
                         GError     **error)
{
  g_autoptr(LlmModel) model = llm_model_open (path, error);
  LlmTokenizer *tokenizer;
  GVariantBuilder bias;
  guint n = 0;

  if (model == NULL)
    return NULL;
  tokenizer = llm_model_get_tokenizer (model);
  g_variant_builder_init (&bias, G_VARIANT_TYPE ("a{ud}"));
  for (guint id = 0; id < tokenizer->n_tokens && n < MAX_ENDS; id++)
    if (llm_tokenizer_ends_answer (tokenizer, (gint32) id))
      {
        g_variant_builder_add (&bias, "{ud}", id, NEVER);
        n++;
      }
  return g_variant_ref_sink (g_variant_builder_end (&bias));
}
