/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>

#include "tool-draw.h"
#include "tool-model.h"

static int n_windows = 1, n_tokens = 512;
static gboolean as_json;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &tool_model_options.path, N_("The GGUF file"), N_("FILE") },
  { "threads", 0, 0, G_OPTION_ARG_INT, &tool_model_options.threads, N_("Threads that compute"), "N" },
  { "windows", 0, 0, G_OPTION_ARG_INT, &n_windows, N_("Pieces of text (1)"), "N" },
  { "tokens", 0, 0, G_OPTION_ARG_INT, &n_tokens, N_("Tokens of a piece (512)"), "N" },
  { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("The tokens' ids as one JSON object"), NULL },
  G_OPTION_ENTRY_NULL
};

static void
print_ids (const GArray *tokens)
{
  GVariantBuilder ids;

  g_variant_builder_init (&ids, G_VARIANT_TYPE ("ai"));
  for (guint i = 0; i < tokens->len; i++)
    g_variant_builder_add (&ids, "i", g_array_index (tokens, gint32, i));
  tool_print_json (g_variant_new_parsed ("{'version': <%u>, 'ids': <%ai>}", (guint) TOOL_JSON_VERSION, &ids),
                   FALSE);
}

/* Each piece ends with a new line. */
static gboolean
print_text (const GArray  *tokens,
            GError       **error)
{
  g_autoptr(ToolModel) model = tool_model_open (error);
  guint n_ctx = tokens->len / (guint) n_windows;

  for (guint i = 0; model != NULL && i < tokens->len; i++)
    {
      g_autoptr(GString) piece = g_string_new (NULL);

      llm_tokenizer_decode_token (model->tokenizer, g_array_index (tokens, gint32, i), TRUE, piece);
      fwrite (piece->str, 1, piece->len, stdout);
      if ((i + 1) % n_ctx == 0)
        putchar ('\n');
    }
  return model != NULL;
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GArray) tokens = NULL;
  const char *fault = tool_model_options_check ();

  if (fault != NULL)
    return tool_fail_usage (fault);
  if (n_windows < 1 || n_tokens < 8)
    return tool_fail_usage (_("--windows is 1 or more, --tokens 8 or more"));
  tokens = tool_draw ((guint) n_windows, (guint) n_tokens, &error);
  tool_progress (NULL);
  if (tokens == NULL)
    return tool_fail (error);
  if (as_json)
    print_ids (tokens);
  else if (!print_text (tokens, &error))
    return tool_fail (error);
  return TOOL_OK;
}

const ToolCommand tool_draw_command = {
  "draw", N_("Have a model draw text"), NULL,
  N_("Prints text sampled from the model's own distribution, for preparing a model without a text. Every other "
     "piece begins with a user's turn, the others with a random token. The text is the same each time."),
  0, entries, run,
};
