/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <stdio.h>

#include "model/llm-catalogue.h"
#include "model/llm-model.h"
#include "model/llm-weights.h"

static const char *const type_names[LLM_GGUF_N_TYPES] = {
  "uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "bool", "string", "array",
  "uint64", "int64", "float64",
};

static void
print_value (LlmGguf    *gguf,
             const char *key,
             LlmGgufType type,
             guint64     n_items)
{
  guint64 number;
  double real;
  gboolean truth;

  if (type == LLM_GGUF_STRING)
    {
      g_autofree char *text = llm_gguf_get_string (gguf, key, FALSE, NULL);
      g_autofree char *escaped = text != NULL ? g_strescape (text, NULL) : g_strdup ("?");

      printf ("%.120s", escaped);
    }
  else if (type == LLM_GGUF_ARRAY)
    printf ("%" G_GUINT64_FORMAT " items", n_items);
  else if (type == LLM_GGUF_BOOL && llm_gguf_get_bool (gguf, key, NULL, &truth, NULL))
    printf ("%s", truth ? "true" : "false");
  else if ((type == LLM_GGUF_FLOAT32 || type == LLM_GGUF_FLOAT64) &&
           llm_gguf_get_double (gguf, key, -G_MAXDOUBLE, G_MAXDOUBLE, NULL, &real, NULL))
    printf ("%g", real);
  else if (llm_gguf_get_uint (gguf, key, 0, G_MAXUINT64, NULL, &number, NULL))
    printf ("%" G_GUINT64_FORMAT, number);
  else
    printf ("?");
}

static void
print_keys (LlmGguf *gguf)
{
  printf ("keys: %u\n", llm_gguf_get_n_keys (gguf));
  for (guint i = 0; i < llm_gguf_get_n_keys (gguf); i++)
    {
      LlmGgufType type;
      guint64 n_items;
      const char *key = llm_gguf_get_key (gguf, i, &type, &n_items);

      printf ("  %-44s %-8s ", key, type_names[type]);
      print_value (gguf, key, type, n_items);
      putchar ('\n');
    }
}

static void
print_tensors (LlmGguf *gguf)
{
  printf ("tensors: %u\n", llm_gguf_get_n_tensors (gguf));
  for (guint i = 0; i < llm_gguf_get_n_tensors (gguf); i++)
    {
      const LlmGgufTensor *tensor = llm_gguf_get_tensor (gguf, i);
      g_autoptr(GString) shape = g_string_new (NULL);

      for (guint d = 0; d < tensor->n_dims; d++)
        g_string_append_printf (shape, "%s%" G_GUINT64_FORMAT, d > 0 ? " × " : "", tensor->dims[d]);
      printf ("  %-36s %-5s %-18s %" G_GUINT64_FORMAT " bytes\n", tensor->name,
              llk_type_name (tensor->type), shape->str, tensor->bytes);
    }
}

/* Whether the service could answer with it, and with which template. */
static int
print_verdict (LlmGguf *gguf)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmModel) model = llm_model_new_for_gguf (gguf, &error);
  g_autoptr(LlmWeights) weights = NULL;
  LlmTemplate *template;

  if (model != NULL)
    weights = llm_weights_new_mapped (gguf, llm_model_get_hparams (model), NULL, &error);
  if (weights == NULL)
    {
      printf ("usable: no: %s\n", error->message);
      return TOOL_FAILED;
    }
  template = llm_model_get_template (model, &error);
  printf ("identity: %s\n", llm_model_get_identity (model));
  if (template != NULL)
    printf ("usable: yes, template %s\n", llm_template_get_name (template));
  else
    printf ("usable: with raw prompts only: %s\n", error->message);
  return TOOL_OK;
}

int
tool_inspect (int    argc,
              char **argv)
{
  const GOptionEntry entries[] = { G_OPTION_ENTRY_NULL };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = NULL;

  if (!tool_parse (&argc, &argv, entries, "FILE",
                   "Shows what a GGUF file holds and whether the service can use it.", 1))
    return TOOL_USAGE;
  gguf = llm_gguf_open (argv[1], &error);
  if (gguf == NULL)
    return tool_fail (error);
  printf ("file: %s\nversion: %u\n", llm_gguf_get_path (gguf), llm_gguf_get_version (gguf));
  print_keys (gguf);
  print_tensors (gguf);
  return print_verdict (gguf);
}
