/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include "model/llm-model.h"

static char *path;
static gboolean as_json, is_bare, is_plain;

static const GOptionEntry entries[] = {
  { "model", 'm', 0, G_OPTION_ARG_FILENAME, &path, N_("The GGUF file"), N_("FILE") },
  { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("As one JSON object: ids and pieces"), NULL },
  { "no-bos", 0, 0, G_OPTION_ARG_NONE, &is_bare, N_("Without the tokens that begin and end a text"),
    NULL },
  { "no-special", 0, 0, G_OPTION_ARG_NONE, &is_plain, N_("Names of control tokens are plain text"),
    NULL },
  G_OPTION_ENTRY_NULL
};

static void
print_json (LlmTokenizer *tokenizer,
            const GArray *tokens)
{
  GVariantBuilder ids, pieces;

  g_variant_builder_init (&ids, G_VARIANT_TYPE ("ai"));
  g_variant_builder_init (&pieces, G_VARIANT_TYPE ("as"));
  for (guint i = 0; i < tokens->len; i++)
    {
      gint32 id = g_array_index (tokens, gint32, i);
      g_autoptr(GString) piece = g_string_new (NULL);
      g_autofree char *valid = NULL;

      /* A piece may be a part of a character: shown with U+FFFD. */
      llm_tokenizer_decode_token (tokenizer, id, TRUE, piece);
      valid = g_utf8_make_valid (piece->str, (gssize) piece->len);
      g_variant_builder_add (&ids, "i", id);
      g_variant_builder_add (&pieces, "s", valid);
    }
  tool_print_json (g_variant_new_parsed ("{'version': <%u>, 'ids': <%ai>, 'pieces': <%as>}",
                                         (guint) TOOL_JSON_VERSION, &ids, &pieces), FALSE);
}

static void
print_table (LlmTokenizer *tokenizer,
             const GArray *tokens)
{
  for (guint i = 0; i < tokens->len; i++)
    {
      gint32 id = g_array_index (tokens, gint32, i);
      g_autoptr(GString) piece = g_string_new (NULL);
      g_autofree char *escaped = NULL;

      llm_tokenizer_decode_token (tokenizer, id, TRUE, piece);
      escaped = g_strescape (piece->str, NULL);
      printf ("%6d  %s\n", id, escaped);
    }
}

static int
run (char **arguments)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(LlmTokenizer) tokenizer = NULL;
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autofree char *text = NULL;
  LlmTextPart part;

  if (path == NULL)
    return tool_fail_usage (_("--model FILE is missing"));
  text = tool_read_text (arguments[0], &error);
  if (text == NULL)
    return tool_fail (error);
  if (!g_utf8_validate (text, -1, NULL))
    {
      tool_fail_usage (_("the text is not valid UTF-8"));
      return TOOL_FAILED;
    }

  /* A file without weights will do. */
  gguf = llm_gguf_open (path, &error);
  tokenizer = gguf != NULL ? llm_tokenizer_new (gguf, &error) : NULL;
  if (tokenizer == NULL)
    return tool_fail (error);
  part = (LlmTextPart) { text, strlen (text), !is_plain };
  llm_tokenizer_encode (tokenizer, &part, 1, !is_bare, tokens);

  if (as_json)
    print_json (tokenizer, tokens);
  else
    print_table (tokenizer, tokens);
  return TOOL_OK;
}

const ToolCommand tool_tokenize = {
  "tokenize", N_("Show a text's tokens"), N_("TEXT"),
  N_("The tokens of TEXT (- reads it from standard input)."), 1, entries, run,
};
