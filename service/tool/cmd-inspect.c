/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>

#include "base/llm-sysinfo.h"
#include "forward/llm-forward.h"
#include "model/architectures/llm-architecture.h"
#include "model/llm-catalogue.h"
#include "model/llm-model.h"
#include "tokenizer/llm-pretokenizer.h"
#include "weights/llm-lora.h"
#include "weights/llm-weights.h"

static void
print_key (LlmGguf          *gguf,
           const LlmGgufKey *key)
{
  guint64 number;
  double real;
  gboolean truth;

  printf ("  %-44s %-8s ", key->name, llm_gguf_type_name (key->type));
  if (key->type == LLM_GGUF_STRING)
    {
      g_autofree char *text = llm_gguf_get_string (gguf, key->name, FALSE, NULL);
      g_autofree char *escaped = text != NULL ? g_strescape (text, NULL) : g_strdup ("?");

      printf ("%.120s\n", escaped);
    }
  else if (key->type == LLM_GGUF_ARRAY)
    printf ("%" G_GUINT64_FORMAT " items\n", key->n_items);
  else if (llm_gguf_get_bool (gguf, key->name, NULL, &truth, NULL))
    printf ("%s\n", truth ? "true" : "false");
  else if (llm_gguf_get_double (gguf, key->name, -G_MAXDOUBLE, G_MAXDOUBLE, NULL, &real, NULL))
    printf ("%g\n", real);
  else if (llm_gguf_get_uint (gguf, key->name, 0, G_MAXUINT64, NULL, &number, NULL))
    printf ("%" G_GUINT64_FORMAT "\n", number);
  else
    puts ("?");
}

static void
print_tensors (LlmGguf *gguf)
{
  printf ("tensors: %u\n", gguf->tensors->len);
  for (guint i = 0; i < gguf->tensors->len; i++)
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
  char *template;          /* (nullable) (owned): what it can express; NULL: raw prompts only */
  char *templates;         /* (nullable) (owned): names of others */
  gboolean is_usable;
  GError *error;           /* (nullable) (owned): why it can't be used, or without a template */
  guint64 weight_bytes;
  guint least_ratio;       /* of its contexts, in percent */
  guint64 token_bytes;     /* that one token of a context takes */
  guint64 available_bytes; /* memory of this machine; 0 when unknown */
  LlmCompanion *companion; /* (nullable) (owned) */
  guint ranks[LLM_MAX_LEVELS];   /* of its adapters; 0: none */
  GError *companion_error; /* (nullable) (owned): why the one that is there can't be used */
} Verdict;

static void
verdict_clear (Verdict *self)
{
  g_clear_pointer (&self->info, llm_model_info_unref);
  g_clear_pointer (&self->model, llm_model_unref);
  g_clear_pointer (&self->template, g_free);
  g_clear_pointer (&self->templates, g_free);
  g_clear_pointer (&self->companion, llm_companion_unref);
  g_clear_error (&self->companion_error);
  g_clear_error (&self->error);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Verdict, verdict_clear)

/* The model's companion, with all of its adapters. */
static void
examine_companion (Verdict *self)
{
  g_autoptr(LlmCompanion) companion = llm_companion_open (self->model, &self->companion_error);

  if (companion == NULL)
    return;
  for (guint level = 0; level < companion->sub_models->n_levels; level++)
    {
      g_autoptr(LlmLora) adapter =
        llm_lora_new_for_level (companion, self->model, level, NULL, &self->companion_error);

      if (self->companion_error != NULL)
        return;
      self->ranks[level] = adapter != NULL ? adapter->max_rank : 0;
    }
  self->companion = g_steal_pointer (&companion);
}

static void
examine (Verdict *self,
         LlmGguf *gguf)
{
  g_autoptr(LlmWeights) weights = NULL;
  const LlmHparams *hparams;
  LlmKvLayer layers[LLM_MAX_LAYERS];
  LlmKvLayout layout;
  LlmMeminfo memory = { 0 };
  LlmTemplate *template;

  self->info = llm_model_info_read (gguf->path, FALSE);
  for (guint i = 0; i < gguf->tensors->len; i++)
    self->weight_bytes += llm_gguf_get_tensor (gguf, i)->bytes;
  if (llm_sysinfo_read_meminfo (NULL, &memory, NULL))
    self->available_bytes = memory.available;

  self->model = llm_model_new_for_gguf (gguf, &self->error);
  if (self->model == NULL)
    return;
  hparams = llm_model_get_hparams (self->model);
  /* K and V of every layer, in half precision as the executor keeps them. */
  layout = llm_forward_get_layout (hparams, LLK_KV_F16, LLM_KV_CHUNK_SLOTS, layers);
  self->token_bytes = sizeof (guint16) * llm_kv_layout_count_values (&layout);
  self->least_ratio = llm_kv_layout_get_least_ratio (&layout);
  weights = llm_weights_new_mapped (gguf, hparams, NULL, NULL, &self->error);
  if (weights == NULL)
    return;

  self->is_usable = TRUE;
  template = llm_model_get_template (self->model, &self->error);
  self->template = template != NULL ? llm_template_describe (template) : NULL;
  self->templates = llm_model_list_templates (self->model);
  examine_companion (self);
}

/* What @level has of the whole model, in percent. */
#define SHARE(companion, level, member)                                                     \
  (100.0 * (double) (companion)->costs[level].member                                        \
   / (double) (companion)->costs[(companion)->sub_models->n_levels - 1].member)

static void
print_sub_models (const Verdict *self)
{
  const LlmCompanion *companion = self->companion;

  if (self->companion_error != NULL)
    printf ("sub-models: can't be used: %s\n", self->companion_error->message);
  if (companion == NULL || !companion->has_sub_models)
    return;
  printf ("sub-models: %s\n  level  weights  operations  bytes    quality  adapter\n",
          companion->gguf->path);
  for (guint level = 0; level < companion->sub_models->n_levels; level++)
    {
      printf ("  %3u %%  %5.1f %%     %5.1f %%  %5.1f %%",
              companion->sub_models->percent[level], SHARE (companion, level, weights),
              SHARE (companion, level, operations), SHARE (companion, level, bytes));
      if (companion->quality != NULL)
        printf ("  %5.1f %%", llm_quality_get (companion->quality, companion->sub_models->n_levels, level));
      else
        printf ("        –");
      if (self->ranks[level] > 0)
        printf ("  rank %u\n", self->ranks[level]);
      else
        puts ("  none");
    }
}

/* What calibration found of each sparsity: the loss with all rows so, and the part of each input
 * that stayed. */
static void
print_thresholds (const Verdict *self)
{
  const LlmThresholds *thresholds = self->companion != NULL ? self->companion->thresholds : NULL;

  if (thresholds == NULL)
    return;
  printf ("active: %s\n  sparsity  loss   attention  output  ffn      down     quality\n      0 %%  %6.3f\n",
          self->companion->gguf->path, (double) thresholds->dense_loss);
  for (guint i = 0; i < thresholds->n_sparsities; i++)
    {
      double quality = llm_companion_get_sparse_quality (self->companion, i);

      printf ("     %2u %%  %6.3f  %5.1f %%    %5.1f %%  %5.1f %%  %5.1f %%  ", thresholds->percent[i],
              (double) thresholds->losses[i], 100 * (double) thresholds->kept[i][0],
              100 * (double) thresholds->kept[i][1], 100 * (double) thresholds->kept[i][2],
              100 * (double) thresholds->kept[i][3]);
      if (self->companion->sparse_quality != NULL)
        printf ("%5.1f %%\n", quality);
      else
        puts ("      –");
    }
}

/* What prompts in W8A8 lose. */
static void
print_calibration (const Verdict *self)
{
  const LlmCalibration *calibration = self->companion != NULL ? self->companion->calibration : NULL;

  if (calibration == NULL)
    return;
  printf ("prefill: %s\n  perplexity  divergence  in floats  tokens scored\n"
          "  %+8.2f %%     %.5f    %5.2f %%  %13" G_GUINT64_FORMAT "\n", self->companion->gguf->path,
          100 * llm_calibration_get_growth (calibration), calibration->loss.divergence,
          100 * calibration->loss.shadow_share, calibration->loss.n_scored);
}

static GVariant *
list_calibration (const LlmCalibration *calibration)
{
  return g_variant_new_parsed ("{'perplexity-growth': <%d>, 'divergence': <%d>, 'in-floats': <%d>, "
                               "'scored': <%t>, 'is-near': <%b>}",
                               100 * llm_calibration_get_growth (calibration),
                               calibration->loss.divergence, 100 * calibration->loss.shadow_share,
                               calibration->loss.n_scored, llm_calibration_is_near (calibration));
}

static GVariant *
list_thresholds (const LlmCompanion *companion)
{
  const LlmThresholds *thresholds = companion->thresholds;
  GVariantBuilder sparsities;

  g_variant_builder_init (&sparsities, G_VARIANT_TYPE ("aa{sv}"));
  for (guint i = 0; i < thresholds->n_sparsities; i++)
    {
      g_autoptr(GVariant) described =
        g_variant_ref_sink (llm_companion_describe_sparsity (companion, i));
      GVariantDict dict;

      g_variant_dict_init (&dict, described);
      g_variant_dict_remove (&dict, "active");
      g_variant_dict_insert (&dict, "sparsity", "u", (guint) thresholds->percent[i]);
      g_variant_dict_insert (&dict, "loss", "d", (double) thresholds->losses[i]);
      g_variant_builder_add_value (&sparsities, g_variant_dict_end (&dict));
    }
  return g_variant_builder_end (&sparsities);
}

static GVariant *
list_sub_models (const Verdict *self)
{
  const LlmCompanion *companion = self->companion;
  GVariantBuilder levels;

  g_variant_builder_init (&levels, G_VARIANT_TYPE ("aa{sv}"));
  for (guint level = 0; level < companion->sub_models->n_levels; level++)
    {
      g_autoptr(GVariant) described = llm_companion_describe_level (companion, level);
      GVariantDict dict;

      g_variant_dict_init (&dict, described);
      g_variant_dict_insert (&dict, "rank", "u", self->ranks[level]);
      g_variant_builder_add_value (&levels, g_variant_dict_end (&dict));
    }
  return g_variant_builder_end (&levels);
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
    printf ("usable: yes, template with %s%s%s\n", self->template,
            *self->templates != '\0' ? "; other templates: " : "", self->templates);
  else
    printf ("usable: with raw prompts only: %s\n", self->error->message);
  print_sub_models (self);
  print_thresholds (self);
  print_calibration (self);
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
    printf ("context: %u tokens, %s each; packed, %u %% of 8 bits at least\n",
            self->info->context_length, token, self->least_ratio);
  if (self->available_bytes > 0)
    printf ("memory: %s of weights; %s are available on this machine\n", weights, free_memory);
  else
    printf ("memory: %s of weights\n", weights);
}

static int
print_json (const Verdict *self)
{
  g_autofree char *path = g_filename_display_name (self->info->path);
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add_parsed (&builder, "{'version', <%u>}", (guint) TOOL_JSON_VERSION);
  g_variant_builder_add_parsed (&builder, "{'file', <%s>}", path);
  g_variant_builder_add_parsed (&builder, "{'usable', <%b>}", self->is_usable);
  if (self->error != NULL)
    g_variant_builder_add_parsed (&builder, "{'reason', <%s>}", self->error->message);
  g_variant_builder_add_parsed (&builder, "{'title', <%s>}", self->info->title);
  g_variant_builder_add_parsed (&builder, "{'architecture', <%s>}", self->info->architecture);
  g_variant_builder_add_parsed (&builder, "{'quantization', <%s>}", self->info->quantization);
  g_variant_builder_add_parsed (&builder, "{'license', <%s>}", self->info->license);
  if (self->template != NULL)
    g_variant_builder_add_parsed (&builder, "{'template', <%s>}", self->template);
  if (self->model != NULL)
    {
      g_variant_builder_add_parsed (&builder, "{'identity', <%s>}",
                                    llm_model_get_identity (self->model));
      g_variant_builder_add_parsed (&builder, "{'weight-identity', <%s>}",
                                    llm_model_get_weight_identity (self->model));
    }
  if (self->companion != NULL && self->companion->has_sub_models)
    g_variant_builder_add (&builder, "{sv}", "sub-models", list_sub_models (self));
  if (self->companion != NULL && self->companion->thresholds != NULL)
    g_variant_builder_add (&builder, "{sv}", "active",
                           list_thresholds (self->companion));
  if (self->companion != NULL && self->companion->calibration != NULL)
    g_variant_builder_add (&builder, "{sv}", "prefill",
                           list_calibration (self->companion->calibration));
  if (self->companion_error != NULL)
    g_variant_builder_add_parsed (&builder, "{'companion-reason', <%s>}",
                                  self->companion_error->message);
  g_variant_builder_add_parsed (&builder, "{'parameters', <%t>}", self->info->parameters);
  g_variant_builder_add_parsed (&builder, "{'context-length', <%u>}", self->info->context_length);
  g_variant_builder_add_parsed (&builder, "{'file-bytes', <%t>}", self->info->file_bytes);
  g_variant_builder_add_parsed (&builder, "{'weight-bytes', <%t>}", self->weight_bytes);
  g_variant_builder_add_parsed (&builder, "{'token-bytes', <%t>}", self->token_bytes);
  g_variant_builder_add_parsed (&builder, "{'available-bytes', <%t>}", self->available_bytes);
  tool_print_json (g_variant_builder_end (&builder), FALSE);
  return self->is_usable ? TOOL_OK : TOOL_FAILED;
}

/* --- what there is support for --- */

static int
print_names (gboolean as_json)
{
  g_autofree char *architectures = llm_architecture_list_names ();
  g_autofree char *pretokenizers = llm_pretokenizer_list_names ();
  g_autofree char *types = llm_gguf_list_types ();
  const struct
  {
    const char *what;
    const char *names;
  } lists[] = { { "architectures", architectures }, { "pre-tokenizers", pretokenizers },
                { "types", types } };
  GVariantBuilder builder;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add_parsed (&builder, "{'version', <%u>}", (guint) TOOL_JSON_VERSION);
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    {
      g_auto(GStrv) names = g_strsplit (lists[i].names, ", ", -1);

      if (!as_json)
        printf ("%s: %s\n", lists[i].what, lists[i].names);
      g_variant_builder_add (&builder, "{sv}", lists[i].what,
                             g_variant_new_strv ((const char *const *) names, -1));
    }
  if (as_json)
    tool_print_json (g_variant_builder_end (&builder), FALSE);
  else
    g_variant_builder_clear (&builder);
  return TOOL_OK;
}

static gboolean is_summary, is_json, shows_names;

static const GOptionEntry entries[] = {
  { "summary", 's', 0, G_OPTION_ARG_NONE, &is_summary, N_("Leave the keys and tensors out"), NULL },
  { "json", 0, 0, G_OPTION_ARG_NONE, &is_json, N_("Print the summary as one JSON object"), NULL },
  { "names", 0, 0, G_OPTION_ARG_NONE, &shows_names,
    N_("Print the architectures, pre-tokenizers and types of weights that are known; takes no FILE"),
    NULL },
  G_OPTION_ENTRY_NULL
};

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_auto(Verdict) verdict = { NULL };

  if (shows_names == (arguments[0] != NULL))
    return tool_fail_usage (_("Name one FILE, or give --names without one"));
  if (shows_names)
    return print_names (is_json);
  gguf = llm_gguf_open (arguments[0], &error);
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
      printf ("file: %s\nversion: %u\n", gguf->path, gguf->version);
      printf ("keys: %u\n", gguf->keys->len);
      for (guint i = 0; i < gguf->keys->len; i++)
        print_key (gguf, &g_array_index (gguf->keys, LlmGgufKey, i));
      print_tensors (gguf);
    }
  return print_verdict (&verdict);
}

const ToolCommand tool_inspect = {
  "inspect", N_("Show what a GGUF file holds"), "FILE",
  "Shows what a GGUF file holds and whether the service can use it.", TOOL_AT_MOST_ONE, entries,
  run,
};
