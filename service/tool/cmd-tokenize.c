/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tool.h"

#include <glib/gi18n.h>
#include <stdio.h>
#include <string.h>

#include <json-glib/json-glib.h>

#include "model/llm-model.h"

static void
print_json (LlmTokenizer *tokenizer,
            const GArray *tokens)
{
  g_autoptr(JsonBuilder) builder = json_builder_new ();
  g_autoptr(JsonGenerator) generator = json_generator_new ();
  g_autoptr(JsonNode) root = NULL;
  g_autofree char *json = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "version");
  json_builder_add_int_value (builder, TOOL_JSON_VERSION);
  json_builder_set_member_name (builder, "ids");
  json_builder_begin_array (builder);
  for (guint i = 0; i < tokens->len; i++)
    json_builder_add_int_value (builder, g_array_index (tokens, gint32, i));
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "pieces");
  json_builder_begin_array (builder);
  for (guint i = 0; i < tokens->len; i++)
    {
      g_autoptr(GString) piece = g_string_new (NULL);
      g_autofree char *valid = NULL;

      /* A piece may be a part of a character: shown with U+FFFD. */
      llm_tokenizer_decode_token (tokenizer, g_array_index (tokens, gint32, i), TRUE, piece);
      valid = g_utf8_make_valid (piece->str, piece->len);
      json_builder_add_string_value (builder, valid);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);

  root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json = json_generator_to_data (generator, NULL);
  puts (json);
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

int
tool_tokenize (int    argc,
               char **argv)
{
  g_autofree char *path = NULL;
  gboolean as_json = FALSE;
  gboolean is_bare = FALSE;
  gboolean is_plain = FALSE;
  const GOptionEntry entries[] = {
    { "model", 'm', 0, G_OPTION_ARG_FILENAME, &path, N_("The GGUF file"), N_("FILE") },
    { "json", 0, 0, G_OPTION_ARG_NONE, &as_json, N_("As one JSON object: ids and pieces"), NULL },
    { "no-bos", 0, 0, G_OPTION_ARG_NONE, &is_bare,
      N_("Without the tokens that begin and end a text"), NULL },
    { "no-special", 0, 0, G_OPTION_ARG_NONE, &is_plain,
      N_("Names of control tokens are plain text"), NULL },
    G_OPTION_ENTRY_NULL
  };
  g_autoptr(GError) error = NULL;
  g_autoptr(LlmGguf) gguf = NULL;
  g_autoptr(LlmTokenizer) tokenizer = NULL;
  g_autoptr(GArray) tokens = g_array_new (FALSE, FALSE, sizeof (gint32));
  g_autofree char *text = NULL;
  LlmTextPart part;

  if (!tool_parse (&argc, &argv, entries, N_("TEXT"),
                   N_("The tokens of TEXT (- reads it from standard input)."), 1))
    return TOOL_USAGE;
  if (path == NULL)
    {
      g_printerr ("llmsvc-tool: %s\n", _("--model FILE is missing"));
      return TOOL_USAGE;
    }
  text = strcmp (argv[1], "-") == 0 ? tool_read ("-", &error) : g_strdup (argv[1]);
  if (text == NULL)
    return tool_fail (error);
  if (!g_utf8_validate (text, -1, NULL))
    {
      g_printerr ("llmsvc-tool: %s\n", _("the text is not valid UTF-8"));
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
