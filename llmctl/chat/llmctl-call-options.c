/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/chat/llmctl-call-options.h"

#include <glib/gi18n.h>
#include <string.h>

#include "common/llmsvc-json.h"
#include "common/llmsvc-option-table.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/output/llmctl-term.h"

#define MAX_FILE_BYTES (1024 * 1024)

static char *max_tokens;
static char *temperature;
static char *seed;
static char *slo;
static char *ttft_share;
static char *tpot_share;
static char *call_share;
static char *sub_model;
static char *least_sub_model;
static char *least_quality;
static char *prompt_level;
static char *schema_file;
static char *tools_file;
static char *thinking;
static char **assignments;

/* Texts are of type FILENAME: GLib would have strings in the locale's charset. */
const GOptionEntry llmctl_call_options[] = {
  { "max-tokens", 'n', 0, G_OPTION_ARG_STRING, &max_tokens, N_("The most tokens that the answer may have"), N_("N") },
  { "temperature", 't', 0, G_OPTION_ARG_STRING, &temperature,
    N_("Sampling temperature; 0 always takes the most probable token"), N_("X") },
  { "seed", 0, 0, G_OPTION_ARG_STRING, &seed, N_("Seed of the sampling, to get the same answer again"), N_("N") },
  { "slo", 0, 0, G_OPTION_ARG_STRING, &slo,
    N_("Latency class (SLO): interactive, responsive or background"), N_("CLASS") },
  { "ttft-share", 0, 0, G_OPTION_ARG_STRING, &ttft_share,
    N_("Have the first word in this part of the whole model's time, by less of the model if need "
       "be"), N_("PERCENT") },
  { "tpot-share", 0, 0, G_OPTION_ARG_STRING, &tpot_share,
    N_("The same of each further word"), N_("PERCENT") },
  { "call-share", 0, 0, G_OPTION_ARG_STRING, &call_share,
    N_("The same of the whole answer"), N_("PERCENT") },
  { "sub-model", 0, 0, G_OPTION_ARG_STRING, &sub_model,
    N_("Answer with this share of the model"), N_("PERCENT") },
  { "least-sub-model", 0, 0, G_OPTION_ARG_STRING, &least_sub_model,
    N_("Never answer with less of the model, however soon it is wanted"), N_("PERCENT") },
  { "least-quality", 0, 0, G_OPTION_ARG_STRING, &least_quality,
    N_("Nor by a part that is less good, in percent of the whole model, as it was measured"), N_("PERCENT") },
  { "prompt-level", 0, 0, G_OPTION_ARG_STRING, &prompt_level,
    N_("Shorten the prompt to this share of it: words that tell least are left out"), N_("PERCENT") },
  { "schema", 0, 0, G_OPTION_ARG_FILENAME, &schema_file,
    N_("Hold the answer to the JSON schema in FILE"), N_("FILE") },
  { "tools", 0, 0, G_OPTION_ARG_FILENAME, &tools_file,
    N_("Let the answer call the functions in FILE (JSON); calls are printed as JSON"), N_("FILE") },
  { "thinking", 0, 0, G_OPTION_ARG_STRING, &thinking,
    N_("Whether the model thinks before it answers: auto, off, on, low, medium, high, or for N tokens at "
       "most"),
    N_("MODE") },
  { "option", 'o', 0, G_OPTION_ARG_FILENAME_ARRAY, &assignments,
    N_("Any other option of the call; may be given several times"), N_("KEY=VALUE") },
  G_OPTION_ENTRY_NULL
};

/* Whether @text, of the file at @path, is JSON: what the service says of it has no name of a file. */
static gboolean
check_json (const char *path,
            const char *text,
            GError    **error)
{
  const LlmsvcJsonLimits limits = { LLMSVC_JSON_MAX_DEPTH, G_MAXUINT, G_MAXUINT };
  const char *at = text;
  const char *fault;
  guint line = 1, column = 1;

  if (!g_utf8_validate (text, -1, NULL))
    return llmctl_set_invalid (error, _("%s: it is not UTF-8 text"), path);
  fault = llmsvc_json_find_fault (text, strlen (text), &limits, &at);
  if (fault == NULL)
    return TRUE;
  for (const char *before = text; before < at && *before != '\0';
       before = g_utf8_next_char (before))
    {
      line += *before == '\n';
      column = *before == '\n' ? 1 : column + 1;
    }
  return llmctl_set_invalid (error, _("%s: line %u, column %u: %s"), path, line, column, fault);
}

/* The option @key is the text of the file at @path (nullable), which is JSON. */
static gboolean
set_from_file (LlmsvcOptions *collected,
               const char    *key,
               const char    *path,
               GError       **error)
{
  g_autofree char *text = NULL;

  if (path == NULL)
    return TRUE;
  text = llmctl_term_read (path, MAX_FILE_BYTES, error);
  return text != NULL && check_json (path, text, error)
         && llmsvc_options_set_value (collected, key, g_variant_new_string (text), error);
}

/* The option @key is the part that @percent (nullable) names. */
static gboolean
set_part (LlmsvcOptions *collected,
          const char    *key,
          const char    *percent,
          GError       **error)
{
  char *end;
  double number;

  if (percent == NULL)
    return TRUE;
  number = g_ascii_strtod (percent, &end);
  if (end == percent || *end != '\0' || !(number >= 1 && number <= 100))
    return llmctl_set_invalid (error, _("--%s is “%s”; it must be from 1 to 100 percent"), key,
                               percent);
  return llmsvc_options_set_value (collected, key, g_variant_new_double (number / 100), error);
}

LlmsvcOptions *
llmctl_call_options_collect (GError **error)
{
  const char *const pairs[][2] = {
    { "max-tokens", max_tokens }, { "temperature", temperature }, { "seed", seed }, { "slo", slo },
    { "thinking", thinking }, { "sub-model", sub_model }, { "least-sub-model", least_sub_model },
    { "least-quality", least_quality }, { "prompt-level", prompt_level },
  };
  g_autoptr(LlmsvcOptions) collected = llmsvc_options_new ();

  for (gsize i = 0; i < G_N_ELEMENTS (pairs); i++)
    if (pairs[i][1] != NULL &&
        !llmsvc_options_set_from_string (collected, pairs[i][0], pairs[i][1], error))
      return NULL;
  if (!set_part (collected, "ttft-share", ttft_share, error)
      || !set_part (collected, "tpot-share", tpot_share, error)
      || !set_part (collected, "call-share", call_share, error)
      || !llmctl_options_add_all (collected, assignments, error))
    return NULL;
  /* who reads along has no use for what goes round, and others wait for it */
  if (llmsvc_options_get_value (collected, "end-repeats") == NULL
      && !llmsvc_options_set_value (collected, "end-repeats", g_variant_new_boolean (TRUE), error))
    return NULL;

  if (schema_file != NULL
      && !llmsvc_options_set_value (collected, "response-format",
                                    g_variant_new_string ("json-schema"), error))
    return NULL;
  return set_from_file (collected, "schema", schema_file, error)
             && set_from_file (collected, "tools", tools_file, error)
           ? g_steal_pointer (&collected)
           : NULL;
}

LlmsvcOptions *
llmctl_call_options_split (LlmsvcOptions *options)
{
  g_autoptr(GVariant) all = llmsvc_options_to_variant (options);
  LlmsvcOptions *made = llmsvc_options_new ();
  GVariantIter iter;
  const char *key;
  GVariant *value;

  g_variant_iter_init (&iter, all);
  while (g_variant_iter_loop (&iter, "{&sv}", &key, &value))
    {
      const LlmsvcOptionInfo *info = llmsvc_option_find (key);

      if (info == NULL || (info->calls & LLMSVC_CALL_CREATE_CONTEXT) == 0
          || (info->calls & LLMSVC_CALL_GENERATE) != 0)
        continue;
      if (llmsvc_options_set_value (made, key, value, NULL))
        llmsvc_options_unset (options, key);
    }
  return made;
}
