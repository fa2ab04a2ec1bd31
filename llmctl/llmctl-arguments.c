/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl-arguments.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-term.h"
#include "llmctl/bus/llmctl-value.h"
#include "llmctl/llmctl.h"

#define MAX_STDIN_BYTES (16 * 1024 * 1024)
#define MESSAGES_TYPE   "a(ssa{sv})"

char *
llmctl_arguments_describe (const GPtrArray *arguments)
{
  GString *out = g_string_new (NULL);

  for (guint i = 0; i < arguments->len; i++)
    {
      const LlmctlArgument *argument = g_ptr_array_index (arguments, i);
      g_autofree char *type = NULL;

      if (i > 0)
        g_string_append (out, ", ");
      if (*argument->name != '\0')
        g_string_append_printf (out, "%s: ", argument->name);
      type = llmctl_type_describe (argument->type);
      g_string_append (out, type);
    }

  return g_string_free (out, FALSE);
}

/* --- options --- */

/* One more string for a list of them; (transfer full). */
static GVariant *
append_string (GVariantDict *dict,
               const char   *key,
               const char   *word)
{
  g_autoptr(GVariant) before = g_variant_dict_lookup_value (dict, key, G_VARIANT_TYPE_STRING_ARRAY);
  g_autofree const char **strings = before != NULL ? g_variant_get_strv (before, NULL) : NULL;
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_STRING_ARRAY);

  for (gsize i = 0; strings != NULL && strings[i] != NULL; i++)
    g_variant_builder_add (&builder, "s", strings[i]);
  g_variant_builder_add (&builder, "s", word);
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* The type in the help is a hint: the service may be newer, and knows better. */
static GVariant *
parse_hinted (const LlmctlKey *hint,
              GVariantDict    *dict,
              const char      *word)
{
  if (hint == NULL)
    return NULL;
  if (strcmp (hint->type, "as") == 0 && *word != '[' && *word != '"')
    return append_string (dict, hint->key, word);
  /* Who has put a string into quotes of JSON does not want them to be sent. */
  if (strcmp (hint->type, "s") == 0 && *word == '"')
    return NULL;

  return llmctl_value_parse (hint->key, hint->type, word, NULL);
}

static GVariant *
parse_options (const LlmctlInterface *interface,
               const LlmctlArgument  *argument,
               char                 **words,
               GError               **error)
{
  g_autoptr(GPtrArray) keys = words[0] != NULL ? llmctl_docs_list_keys (interface, argument) : NULL;
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);

  for (gsize i = 0; words[i] != NULL; i++)
    {
      const char *equals = strchr (words[i], '=');
      const LlmctlKey *hint = NULL;
      g_autofree char *key = NULL;
      g_autoptr(GVariant) value = NULL;

      if (equals == NULL || equals == words[i] || !g_utf8_validate (words[i], -1, NULL))
        {
          g_autofree char *name = g_utf8_make_valid (words[i], -1);

          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                       _("“%s” is no option for “%s”: options are written as key=value"), name,
                       argument->name);
          return NULL;
        }
      key = g_strndup (words[i], (gsize) (equals - words[i]));
      for (guint j = 0; j < keys->len && hint == NULL; j++)
        if (strcmp (((const LlmctlKey *) g_ptr_array_index (keys, j))->key, key) == 0)
          hint = g_ptr_array_index (keys, j);

      value = parse_hinted (hint, &dict, equals + 1);
      if (value == NULL)
        value = llmctl_value_guess (key, equals + 1, error);
      if (value == NULL)
        return NULL;
      g_variant_dict_insert_value (&dict, key, value);
    }

  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

/* JSON in which the help tells the types of the options. */
static GVariant *
parse_options_json (const LlmctlInterface *interface,
                    const LlmctlArgument  *argument,
                    const char            *word,
                    GError               **error)
{
  g_autoptr(GPtrArray) keys = llmctl_docs_list_keys (interface, argument);
  g_autoptr(GVariant) object = llmctl_value_parse (argument->name, "a{sv}", word, error);
  g_autoptr(GVariantDict) dict = NULL;
  g_autoptr(GVariant) raw = NULL;

  if (object == NULL)
    return NULL;
  raw = llmctl_json_read (word, error);
  if (raw == NULL)
    return NULL;

  dict = g_variant_dict_new (object);
  for (guint i = 0; i < keys->len; i++)
    {
      const LlmctlKey *key = g_ptr_array_index (keys, i);
      g_autoptr(GVariant) given = g_variant_lookup_value (raw, key->key, NULL);
      g_autoptr(GVariant) value = NULL;

      if (given != NULL)
        value = llmctl_value_convert (key->key, key->type, given, NULL);
      if (value != NULL)
        g_variant_dict_insert_value (dict, key->key, value);
    }

  return g_variant_ref_sink (g_variant_dict_end (dict));
}

/* --- messages --- */

/* The bytes of the role in "user:text", 0 when the word is no message. */
static gsize
scan_role (const char *word)
{
  static const char *const roles[] = { "system", "user", "assistant", "tool" };

  for (gsize i = 0; i < G_N_ELEMENTS (roles); i++)
    {
      gsize length = strlen (roles[i]);

      if (strncmp (word, roles[i], length) == 0 && word[length] == ':')
        return length;
    }

  return 0;
}

/* (transfer full): one or more words, which @n_words counts. */
static GVariant *
parse_messages (const LlmctlArgument  *argument,
                char                 **words,
                gsize                 *n_words,
                GError               **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE (MESSAGES_TYPE));

  *n_words = 1;
  if (scan_role (words[0]) == 0)
    return llmctl_value_parse (argument->name, MESSAGES_TYPE, words[0], error);

  for (*n_words = 0; words[*n_words] != NULL && scan_role (words[*n_words]) > 0; (*n_words)++)
    {
      const char *word = words[*n_words];
      gsize length = scan_role (word);
      g_autofree char *role = g_strndup (word, length);

      if (!g_utf8_validate (word, -1, NULL))
        return llmctl_value_parse (argument->name, MESSAGES_TYPE, word, error);
      g_variant_builder_add (&builder, "(ssa{sv})", role, word + length + 1, NULL);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* --- the arguments of a method --- */

GVariant *
llmctl_arguments_parse (const LlmctlInterface  *interface,
                        const LlmctlMember     *method,
                        char                  **words,
                        GError                **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_TUPLE);

  for (guint i = 0; i < method->in->len; i++)
    {
      const LlmctlArgument *argument = g_ptr_array_index (method->in, i);
      gboolean is_last = i + 1 == method->in->len;
      gboolean is_options = strcmp (argument->type, "a{sv}") == 0;
      g_autoptr(GVariant) value = NULL;
      gsize n_words = 1;

      if (is_options && is_last && (words[0] == NULL || words[0][0] != '{'))
        {
          n_words = g_strv_length (words);
          value = parse_options (interface, argument, words, error);
        }
      else if (words[0] == NULL)
        {
          g_autofree char *type = llmctl_type_describe (argument->type);
          g_autofree char *example = llmctl_type_make_example (argument->type);

          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                       _("The argument “%s” is missing: %s; for example: %s"), argument->name, type,
                       example);
        }
      else if (is_options && words[0][0] == '{')
        {
          value = parse_options_json (interface, argument, words[0], error);
        }
      else if (strcmp (argument->type, MESSAGES_TYPE) == 0)
        {
          value = parse_messages (argument, words, &n_words, error);
        }
      else if (strcmp (argument->type, "s") == 0 && strcmp (words[0], "-") == 0)
        {
          char *text = llmctl_term_read (MAX_STDIN_BYTES, error);

          value = text != NULL ? g_variant_ref_sink (g_variant_new_take_string (text)) : NULL;
        }
      else
        {
          value = llmctl_value_parse (argument->name, argument->type, words[0], error);
        }

      if (value == NULL)
        return NULL;
      g_variant_builder_add_value (&builder, value);
      words += n_words;
    }

  if (words[0] != NULL)
    {
      g_autofree char *word = g_utf8_make_valid (words[0], -1);

      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   _("“%s” takes no argument “%s” any more"), method->name, word);
      return NULL;
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}
