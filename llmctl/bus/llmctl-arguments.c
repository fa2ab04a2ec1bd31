/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-arguments.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/bus/llmctl-docs.h"
#include "llmctl/bus/llmctl-value.h"
#include "llmctl/output/llmctl-json.h"
#include "llmctl/output/llmctl-term.h"
#include "llmsvc.h"

#define MAX_STDIN_BYTES (16 * 1024 * 1024)

/* --- options --- */

/* One more string for a list of them; (transfer full). */
static GVariant *
append_string (GVariantDict *dict,
               const char   *key,
               const char   *word)
{
  g_autoptr(GVariant) before = g_variant_dict_lookup_value (dict, key, G_VARIANT_TYPE_STRING_ARRAY);
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_STRING_ARRAY);

  for (gsize i = 0; before != NULL && i < g_variant_n_children (before); i++)
    {
      g_autoptr(GVariant) string = g_variant_get_child_value (before, i);

      g_variant_builder_add_value (&builder, string);
    }
  g_variant_builder_add (&builder, "s", word);
  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* (nullable) (transfer full): the type in the help is a hint: the service may be newer, and
 * knows better. */
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
parse_options (const GPtrArray  *keys,
               const char       *name,
               char            **words,
               GError          **error)
{
  g_auto(GVariantDict) dict = G_VARIANT_DICT_INIT (NULL);

  for (gsize i = 0; words[i] != NULL; i++)
    {
      const char *equals = strchr (words[i], '=');
      g_autofree char *key = NULL;
      g_autoptr(GVariant) value = NULL;

      if (equals == NULL || equals == words[i] || !g_utf8_validate (words[i], -1, NULL))
        {
          g_autofree char *valid = g_utf8_make_valid (words[i], -1);

          g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                       _("“%s” is no option for “%s”: options are written as key=value"), valid,
                       name);
          return NULL;
        }
      key = g_strndup (words[i], (gsize) (equals - words[i]));
      value = parse_hinted (llmctl_docs_find_key (keys, key), &dict, equals + 1);
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
parse_options_json (const GPtrArray  *keys,
                    const char       *name,
                    const char       *word,
                    GError          **error)
{
  g_autoptr(GVariant) object = llmctl_value_parse (name, "a{sv}", word, error);
  g_autoptr(GVariant) raw = object != NULL ? llmctl_json_read (word, error) : NULL;
  g_autoptr(GVariantDict) dict = g_variant_dict_new (object);

  for (guint i = 0; raw != NULL && i < keys->len; i++)
    {
      const LlmctlKey *key = g_ptr_array_index (keys, i);
      g_autoptr(GVariant) given = g_variant_lookup_value (raw, key->key, NULL);
      g_autoptr(GVariant) value = NULL;

      if (given != NULL)
        value = llmctl_value_convert (key->key, G_VARIANT_TYPE (key->type), given, NULL);
      if (value != NULL)
        g_variant_dict_insert_value (dict, key->key, value);
    }

  return raw != NULL ? g_variant_ref_sink (g_variant_dict_end (dict)) : NULL;
}

/* --- messages --- */

/* The bytes of the role in "user:text", 0 when the word is no message. */
static gsize
scan_role (const char *word)
{
  static const char *const roles[] = { "system", "user", "assistant", "tool" };
  gsize length = strcspn (word, ":");

  for (gsize i = 0; i < G_N_ELEMENTS (roles); i++)
    if (word[length] == ':' && strlen (roles[i]) == length &&
        strncmp (word, roles[i], length) == 0)
      return length;

  return 0;
}

/* (transfer full): one or more words, which @n_words counts. */
static GVariant *
parse_messages (const char  *name,
                char       **words,
                gsize       *n_words,
                GError     **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE (LLMCTL_MESSAGES_TYPE));

  *n_words = 1;
  if (scan_role (words[0]) == 0)
    return llmctl_value_parse (name, LLMCTL_MESSAGES_TYPE, words[0], error);

  for (*n_words = 0; words[*n_words] != NULL && scan_role (words[*n_words]) > 0; (*n_words)++)
    {
      const char *word = words[*n_words];
      gsize length = scan_role (word);
      g_autofree char *role = g_strndup (word, length);

      if (!g_utf8_validate (word, -1, NULL))
        return llmctl_value_parse (name, LLMCTL_MESSAGES_TYPE, word, error);
      g_variant_builder_add (&builder, "(ssa{sv})", role, word + length + 1, NULL);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* --- the arguments of a method --- */

/* @n_words: (out): that it took. */
static GVariant *
parse_argument (const LlmctlMember  *method,
                const GDBusArgInfo  *argument,
                gboolean             is_last,
                char               **words,
                gsize               *n_words,
                GError             **error)
{
  const char *name = argument->name;
  const char *type = argument->signature;
  gboolean is_json = words[0] != NULL && words[0][0] == '{';

  *n_words = 1;
  if (strcmp (type, "a{sv}") == 0 && (is_json || is_last))
    {
      g_autoptr(GPtrArray) keys = llmctl_docs_list_keys (method, name);

      if (is_json)
        return parse_options_json (keys, name, words[0], error);
      *n_words = g_strv_length (words);
      return parse_options (keys, name, words, error);
    }
  if (words[0] == NULL)
    {
      g_autofree char *described = llmctl_type_describe (type);
      g_autofree char *example = llmctl_type_make_example (type);

      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   _("The argument “%s” is missing: %s; for example: %s"), name, described,
                   example);
      return NULL;
    }
  if (strcmp (type, LLMCTL_MESSAGES_TYPE) == 0)
    return parse_messages (name, words, n_words, error);
  if (strcmp (type, "s") == 0 && strcmp (words[0], "-") == 0)
    {
      char *text = llmctl_term_read ("-", MAX_STDIN_BYTES, error);

      return text != NULL ? g_variant_ref_sink (g_variant_new_take_string (text)) : NULL;
    }

  return llmctl_value_parse (name, type, words[0], error);
}

GVariant *
llmctl_arguments_parse (const LlmctlMember  *method,
                        char               **words,
                        GError             **error)
{
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (G_VARIANT_TYPE_TUPLE);

  for (gsize i = 0; method->in[i] != NULL; i++)
    {
      gsize n_words;
      g_autoptr(GVariant) value = parse_argument (method, method->in[i], method->in[i + 1] == NULL,
                                                  words, &n_words, error);

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
