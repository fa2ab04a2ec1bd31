/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-object.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "llmctl/output/llmctl-json.h"
#include "llmctl/llmctl.h"

/* --- types --- */

/* What simple types are called, and a value of them. */
static const struct
{
  const char *name;
  const char *example;
} simple_types['z'] = {
  ['b'] = { "true|false", "true" }, ['y'] = { "byte", "1" },
  ['n'] = { "integer", "1" },       ['i'] = { "integer", "1" },
  ['x'] = { "integer", "1" },       ['q'] = { "unsigned", "1" },
  ['u'] = { "unsigned", "1" },      ['t'] = { "unsigned", "1" },
  ['d'] = { "number", "0.5" },      ['s'] = { "string", "text" },
  ['o'] = { "path", "/org/llm/Service" },
  ['g'] = { "signature", "s" },     ['h'] = { "stream", "1" },
  ['v'] = { "any", "text" },
};

static void
append_type (GString            *out,
             const GVariantType *type,
             gboolean            is_example)
{
  const GVariantType *item = NULL;
  guchar simple = (guchar) *g_variant_type_peek_string (type);

  if (g_variant_type_is_array (type))
    {
      gboolean is_object = g_variant_type_is_dict_entry (g_variant_type_element (type));

      g_string_append_c (out, is_object ? '{' : '[');
      append_type (out, g_variant_type_element (type), is_example);
      g_string_append (out, is_example ? "" : ", …");
      g_string_append_c (out, is_object ? '}' : ']');
    }
  else if (g_variant_type_is_dict_entry (type))
    {
      if (is_example)
        g_string_append (out, "\"key\"");
      else if (g_variant_type_equal (g_variant_type_key (type), G_VARIANT_TYPE_STRING))
        g_string_append (out, "key");
      else
        append_type (out, g_variant_type_key (type), FALSE);
      g_string_append (out, is_example ? ":" : ": ");
      append_type (out, g_variant_type_value (type), is_example);
    }
  else if (g_variant_type_is_tuple (type))
    {
      g_string_append_c (out, '[');
      for (item = g_variant_type_first (type); item != NULL; item = g_variant_type_next (item))
        {
          append_type (out, item, is_example);
          if (g_variant_type_next (item) != NULL)
            g_string_append (out, is_example ? "," : ", ");
        }
      g_string_append_c (out, ']');
    }
  else if (is_example && strchr ("sovg", simple) != NULL)
    {
      g_string_append_printf (out, "\"%s\"", simple_types[simple].example);
    }
  else
    {
      g_string_append (out, is_example ? simple_types[simple].example : simple_types[simple].name);
    }
}

char *
llmctl_type_describe (const char *type)
{
  GString *out = g_string_new (NULL);

  append_type (out, G_VARIANT_TYPE (type), FALSE);
  return g_string_free (out, FALSE);
}

char *
llmctl_type_make_example (const char *type)
{
  GString *out = g_string_new (NULL);

  if (strcmp (type, LLMCTL_MESSAGES_TYPE) == 0)
    g_string_append (out, "user:text");
  else if (strcmp (type, "a{sv}") == 0)
    g_string_append (out, "key=value");
  else if (type[1] == '\0')
    g_string_append (out, simple_types[(guchar) *type].example);
  else
    append_type (out, G_VARIANT_TYPE (type), TRUE);

  return g_string_free (out, FALSE);
}

/* Returns NULL, for the caller to return. */
static GVariant *
fail_type (const char          *name,
           const GVariantType  *type,
           GError             **error)
{
  g_autofree char *signature = g_variant_type_dup_string (type);
  g_autofree char *described = llmctl_type_describe (signature);
  g_autofree char *example = llmctl_type_make_example (signature);

  /* TRANSLATORS: an argument, its type in the words of JSON, and a value of this type */
  return llmctl_set_invalid_null (error, _("“%s” must be: %s; for example: %s"), name, described,
                                  example);
}

/* --- from JSON to a type --- */

/* What lists are taken for whose entries are alike. */
static const char *
guess_list (GVariant *array)
{
  static const char *const types[] = { "as", "ab", "ax", "at", "ad", "aa{sv}" };
  gsize n = g_variant_n_children (array);
  char common = n == 0 ? 's' : '\0';

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) boxed = g_variant_get_child_value (array, i);
      g_autoptr(GVariant) value = g_variant_get_variant (boxed);
      char type = *g_variant_get_type_string (value);

      if (type == 'a' && !g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT))
        return "av";
      if (common == '\0' || common == type)
        common = type;
      else if (strchr ("xtd", common) != NULL && strchr ("xtd", type) != NULL)
        common = 'd';
      else
        return "av";
    }

  for (gsize i = 0; i < G_N_ELEMENTS (types); i++)
    if (types[i][1] == common)
      return types[i];
  return "av";
}

/* What a variant of unknown purpose is to hold. */
static GVariant *
narrow (const char  *name,
        GVariant    *value,
        GError     **error)
{
  const char *type = g_variant_get_type_string (value);

  if (g_variant_is_of_type (value, G_VARIANT_TYPE ("av")))
    type = guess_list (value);
  else if (!g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT))
    return g_variant_ref (value);

  return llmctl_value_convert (name, G_VARIANT_TYPE (type), value, error);
}

/* (nullable): NULL when it is out of range. */
static GVariant *
convert_number (const GVariantType *type,
                GVariant           *value)
{
  g_autofree char *text = NULL;

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_DOUBLE) &&
      !g_variant_type_equal (type, G_VARIANT_TYPE_DOUBLE))
    {
      double real = g_variant_get_double (value);

      /* 1e3 is a whole number as well; beyond 2^53 it is not known which one. */
      if (real != floor (real) || fabs (real) > 9007199254740992.0)
        return NULL;
      text = g_strdup_printf ("%.0f", real);
    }
  else
    {
      text = g_variant_print (value, FALSE);
    }

  return g_variant_parse (type, text, NULL, NULL, NULL);
}

/* A string as a value of a simple type; also for keys, which JSON has as strings only.
 * (nullable) (transfer full) */
static GVariant *
convert_text (const GVariantType *type,
              const char         *text)
{
  g_autoptr(GVariant) number = NULL;
  char wanted = *g_variant_type_peek_string (type);

  if (wanted == 's')
    return g_variant_ref_sink (g_variant_new_string (text));
  if (wanted == 'o' && g_variant_is_object_path (text))
    return g_variant_ref_sink (g_variant_new_object_path (text));
  if (wanted == 'g' && g_variant_is_signature (text))
    return g_variant_ref_sink (g_variant_new_signature (text));
  if (wanted == 'b' && (strcmp (text, "true") == 0 || strcmp (text, "false") == 0))
    return g_variant_ref_sink (g_variant_new_boolean (*text == 't'));

  number = strchr ("ogb", wanted) == NULL ? llmctl_json_read_number (text) : NULL;
  return number != NULL ? convert_number (type, number) : NULL;
}

/* An object as a dictionary, or a list as an array or tuple. */
static GVariant *
convert_children (const char          *name,
                  const GVariantType  *type,
                  GVariant            *value,
                  GError             **error)
{
  gboolean is_tuple = g_variant_type_is_tuple (type);
  const GVariantType *item = is_tuple ? g_variant_type_first (type) : g_variant_type_element (type);
  gboolean is_entry = !is_tuple && g_variant_type_is_dict_entry (item);
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (type);

  for (gsize i = 0; i < g_variant_n_children (value); i++)
    {
      g_autoptr(GVariant) content = NULL;
      g_autoptr(GVariant) key = NULL;
      g_autoptr(GVariant) converted = NULL;
      g_autofree char *inner = NULL;
      const char *word;

      if (item == NULL)
        return fail_type (name, type, error);
      if (is_entry)
        {
          g_variant_get_child (value, i, "{&sv}", &word, &content);
          inner = g_strdup_printf ("%s.%s", name, word);
          key = convert_text (g_variant_type_key (item), word);
          if (key == NULL)
            return fail_type (inner, g_variant_type_key (item), error);
        }
      else
        {
          g_variant_get_child (value, i, "v", &content);
          inner = g_strdup_printf ("%s[%" G_GSIZE_FORMAT "]", name, i);
        }
      converted = llmctl_value_convert (inner, is_entry ? g_variant_type_value (item) : item,
                                        content, error);
      if (converted == NULL)
        return NULL;
      g_variant_builder_add_value (&builder,
                                   is_entry ? g_variant_new_dict_entry (key, converted)
                                            : converted);
      if (is_tuple)
        item = g_variant_type_next (item);
    }
  /* Options at the end may be left out, as those of a method. */
  if (is_tuple && item != NULL && g_variant_type_equal (item, G_VARIANT_TYPE_VARDICT))
    {
      g_variant_builder_add_value (&builder, g_variant_new ("a{sv}", NULL));
      item = g_variant_type_next (item);
    }
  if (is_tuple && item != NULL)
    return fail_type (name, type, error);

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

GVariant *
llmctl_value_convert (const char          *name,
                      const GVariantType  *type,
                      GVariant            *value,
                      GError             **error)
{
  char wanted = *g_variant_type_peek_string (type);
  char given = *g_variant_get_type_string (value);
  gboolean is_object = g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT);
  gboolean wants_object = g_variant_type_is_subtype_of (type, G_VARIANT_TYPE_DICTIONARY);
  GVariant *converted = NULL;

  if (wanted == 'v')
    {
      g_autoptr(GVariant) content = narrow (name, value, error);

      return content != NULL ? g_variant_ref_sink (g_variant_new_variant (content)) : NULL;
    }
  if (wants_object == is_object && g_variant_type_is_container (type) && given == 'a')
    return convert_children (name, type, value, error);

  if (given == 'b' && wanted == 'b')
    converted = g_variant_ref (value);
  else if (given == 's' && strchr ("sog", wanted) != NULL)
    converted = convert_text (type, g_variant_get_string (value, NULL));
  else if (strchr ("xtd", given) != NULL && strchr ("ynqiuxtd", wanted) != NULL)
    converted = convert_number (type, value);

  return converted != NULL ? converted : fail_type (name, type, error);
}

/* --- words --- */

/* (transfer full): JSON as @type, or for NULL what it may be meant to be. */
static GVariant *
parse_json (const char          *name,
            const GVariantType  *type,
            const char          *word,
            GError             **error)
{
  g_autoptr(GVariant) value = llmctl_json_read (word, error);

  if (value == NULL)
    {
      g_prefix_error (error, "%s: ", name);
      return NULL;
    }
  return type != NULL ? llmctl_value_convert (name, type, value, error)
                      : narrow (name, value, error);
}

GVariant *
llmctl_value_guess (const char  *name,
                    const char  *word,
                    GError     **error)
{
  g_autoptr(GVariant) value = NULL;

  if (*word == '"' || *word == '[' || *word == '{')
    return parse_json (name, NULL, word, error);

  value = convert_text (G_VARIANT_TYPE_BOOLEAN, word);
  if (value == NULL)
    value = llmctl_json_read_number (word);
  return value != NULL ? g_steal_pointer (&value)
                       : g_variant_ref_sink (g_variant_new_string (word));
}

GVariant *
llmctl_value_parse (const char  *name,
                    const char  *type,
                    const char  *word,
                    GError     **error)
{
  g_autoptr(GVariant) value = NULL;
  gboolean is_stream = strcmp (type, "h") == 0;

  if (is_stream || !g_utf8_validate (word, -1, NULL))
    return llmctl_set_invalid_null (
        error,
        is_stream ? _("“%s” is a stream, which can't be given on a command line")
                  : _("“%s” is not UTF-8 text"), name);
  if (strcmp (type, "v") == 0)
    {
      value = llmctl_value_guess (name, word, error);
      return value != NULL ? g_variant_ref_sink (g_variant_new_variant (value)) : NULL;
    }
  if (type[1] == '\0')
    {
      value = convert_text (G_VARIANT_TYPE (type), word);
      return value != NULL ? g_steal_pointer (&value)
                           : fail_type (name, G_VARIANT_TYPE (type), error);
    }

  if (*word != '[' && *word != '{')
    return fail_type (name, G_VARIANT_TYPE (type), error);
  return parse_json (name, G_VARIANT_TYPE (type), word, error);
}
