/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>

#include <json-glib/json-glib.h>

#include "base/llm-sysinfo.h"
#include "model/llm-catalogue.h"
#include "model/llm-model.h"
#include "weights/llm-weights.h"

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
      g_print ("  %-36s %-5s %-18s %" G_GUINT64_FORMAT " bytes\n", tensor->name,
               llk_type_name (tensor->type), shape->str, tensor->bytes);
    }
}

/* --- whether the service could answer with it --- */

typedef struct
{
  LlmModelInfo *info;      /* (owned) */
  LlmModel *model;         /* (nullable) (owned) */
  const char *template;    /* (nullable): name of the template, NULL for raw prompts only */
  gboolean is_usable;
  GError *error;           /* (nullable) (owned): why it can't be used, or without a template */
  guint64 weight_bytes;
  guint64 token_bytes;     /* that one token of a context takes */
  guint64 available_bytes; /* memory of this machine; 0 when unknown */
} Verdict;

static void
verdict_clear (Verdict *self)
{
  g_clear_pointer (&self->info, llm_model_info_unref);
  g_clear_pointer (&self->model, llm_model_unref);
  g_clear_error (&self->error);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Verdict, verdict_clear)

static void
examine (Verdict *self,
         LlmGguf *gguf)
{
  g_autoptr(LlmWeights) weights = NULL;
  const LlmHparams *hparams;
  LlmMeminfo memory = { 0 };
  LlmTemplate *template;

  self->info = llm_model_info_read (llm_gguf_get_path (gguf));
  for (guint i = 0; i < llm_gguf_get_n_tensors (gguf); i++)
    self->weight_bytes += llm_gguf_get_tensor (gguf, i)->bytes;
  if (llm_sysinfo_read_meminfo (NULL, &memory, NULL))
    self->available_bytes = memory.available;

  self->model = llm_model_new_for_gguf (gguf, &self->error);
  if (self->model == NULL)
    return;
  hparams = llm_model_get_hparams (self->model);
  /* K and V of every layer, in half precision as the executor keeps them. */
  self->token_bytes =
    2 * sizeof (guint16) * (guint64) hparams->n_layers * hparams->n_kv_heads * hparams->head_dim;
  weights = llm_weights_new_mapped (gguf, hparams, NULL, &self->error);
  if (weights == NULL)
    return;

  self->is_usable = TRUE;
  template = llm_model_get_template (self->model, &self->error);
  self->template = template != NULL ? llm_template_get_name (template) : NULL;
}

static int
print_verdict (const Verdict *self)
{
  if (!self->is_usable)
    {
      printf ("usable: no: %s\n", self->error->message);
      return TOOL_FAILED;
    }
  printf ("identity: %s\n", llm_model_get_identity (self->model));
  if (self->template != NULL)
    printf ("usable: yes, template %s\n", self->template);
  else
    printf ("usable: with raw prompts only: %s\n", self->error->message);
  return TOOL_OK;
}

static void
print_summary (const Verdict *self)
{
  g_autofree char *path = g_filename_display_name (self->info->path);
  g_autofree char *file = g_format_size_full (self->info->file_bytes, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *weights = g_format_size_full (self->weight_bytes, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *token = g_format_size_full (self->token_bytes, G_FORMAT_SIZE_IEC_UNITS);
  g_autofree char *free_memory =
    g_format_size_full (self->available_bytes, G_FORMAT_SIZE_IEC_UNITS);

  printf ("file: %s, %s\n", path, file);
  printf ("title: %s\n", self->info->title);
  printf ("architecture: %s\n", self->info->architecture);
  printf ("quantization: %s\n", self->info->quantization);
  printf ("parameters: %" G_GUINT64_FORMAT "\n", self->info->parameters);
  if (self->info->license[0] != '\0')
    printf ("license: %s\n", self->info->license);
  if (self->model != NULL)
    printf ("context: %u tokens, %s each\n", self->info->context_length, token);
  if (self->available_bytes > 0)
    printf ("memory: %s of weights; %s are available on this machine\n", weights, free_memory);
  else
    printf ("memory: %s of weights\n", weights);
}

static void
add_text (JsonBuilder *builder,
          const char  *key,
          const char  *text)
{
  json_builder_set_member_name (builder, key);
  json_builder_add_string_value (builder, text);
}

static void
add_number (JsonBuilder *builder,
            const char  *key,
            guint64      number)
{
  json_builder_set_member_name (builder, key);
  json_builder_add_int_value (builder, (gint64) MIN (number, G_MAXINT64));
}

static int
print_json (const Verdict *self)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonNode) root = NULL;
  g_autofree char *path = g_filename_display_name (self->info->path);
  g_autofree char *text = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "version");
  json_builder_add_int_value (builder, TOOL_JSON_VERSION);
  add_text (builder, "file", path);
  json_builder_set_member_name (builder, "usable");
  json_builder_add_boolean_value (builder, self->is_usable);
  if (self->error != NULL)
    add_text (builder, "reason", self->error->message);
  add_text (builder, "title", self->info->title);
  add_text (builder, "architecture", self->info->architecture);
  add_text (builder, "quantization", self->info->quantization);
  add_text (builder, "license", self->info->license);
  if (self->template != NULL)
    add_text (builder, "template", self->template);
  if (self->model != NULL)
    add_text (builder, "identity", llm_model_get_identity (self->model));
  add_number (builder, "parameters", self->info->parameters);
  add_number (builder, "context-length", self->info->context_length);
  add_number (builder, "file-bytes", self->info->file_bytes);
  add_number (builder, "weight-bytes", self->weight_bytes);
  add_number (builder, "token-bytes", self->token_bytes);
  add_number (builder, "available-bytes", self->available_bytes);
  json_builder_end_object (builder);

  root = json_builder_get_root (builder);
  text = json_to_string (root, FALSE);
  puts (text);
  return self->is_usable ? TOOL_OK : TOOL_FAILED;
}

int
tool_inspect (int    argc,
              char **argv)
{
  gboolean is_summary = FALSE;
  gboolean is_json = FALSE;
  const GOptionEntry entries[] = {
    { "summary", 's', 0, G_OPTION_ARG_NONE, &is_summary,
      N_("Leave the keys and tensors out"), NULL },
    { "json", 0, 0, G_OPTION_ARG_NONE, &is_json, N_("Print the summary as one JSON object"), NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_auto(Verdict) verdict = { NULL };

  if (!tool_parse (&argc, &argv, entries, "FILE",
                   "Shows what a GGUF file holds and whether the service can use it.", 1))
    return TOOL_USAGE;
  gguf = llm_gguf_open (argv[1], &error);
  if (gguf == NULL)
    return tool_fail (error);

  examine (&verdict, gguf);
  if (is_json)
    return print_json (&verdict);
  if (is_summary)
    {
      print_summary (&verdict);
    }
  else
    {
      printf ("file: %s\nversion: %u\n", llm_gguf_get_path (gguf), llm_gguf_get_version (gguf));
      print_keys (gguf);
      print_tensors (gguf);
    }
  return print_verdict (&verdict);
}
