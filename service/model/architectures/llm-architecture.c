/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-model"

#include "model/architectures/llm-architecture.h"

#include <string.h>

static const LlmArchitecture *const architectures[] = {
  &llm_architecture_llama,
  &llm_architecture_exaone,
  &llm_architecture_gemma2,
  &llm_architecture_gemma3,
  &llm_architecture_mistral3,
  &llm_architecture_phi3,
  &llm_architecture_qwen2,
  &llm_architecture_qwen3,
  &llm_architecture_smollm3,
};

const LlmArchitecture *
llm_architecture_find (const char *name)
{
  g_return_val_if_fail (name != NULL, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++)
    if (strcmp (architectures[i]->name, name) == 0)
      return architectures[i];
  return NULL;
}

char *
llm_architecture_list_names (void)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (architectures); i++)
    g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", architectures[i]->name);
  return g_string_free (names, FALSE);
}

gboolean
llm_architecture_has_key (const LlmArchitecture *self,
                          const char            *suffix)
{
  for (const char *const *key = self->keys; key != NULL && *key != NULL; key++)
    if (strcmp (*key, suffix) == 0)
      return TRUE;
  return FALSE;
}
