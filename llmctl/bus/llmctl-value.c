/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-value.h"

#include <glib/gi18n.h>
#include <math.h>
#include <string.h>

#include "llmctl/output/llmctl-json.h"
#include "llmsvc.h"

/* Returns NULL, for the caller to return. */
static GVariant *
fail_type (const char  *name,
           const char  *type,
           GError     **error)
{
  g_autofree char *described = llmctl_type_describe (type);
  g_autofree char *example = llmctl_type_make_example (type);

  /* TRANSLATORS: an argument, its type in the words of JSON, and a value of this type */
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
               _("“%s” must be: %s; for example: %s"), name, described, example);
  return NULL;
}

/* --- from JSON to a type --- */

static GVariant *convert (const char         *name,
                          const GVariantType *type,
                          GVariant           *value,
                          GError            **error);

/* The type that a reader expects of lists whose entries are alike. */
static const char *
guess_element (GVariant *array)
{
  gsize n = g_variant_n_children (array);
  char common = '\0';

  if (n == 0)
    return "s";
  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) boxed = g_variant_get_child_value (array, i);
      g_autoptr(GVariant) value = g_variant_get_variant (boxed);
      char type = *g_variant_get_type_string (value);

      if (type == 'a')
        {
          if (!g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT))
            return "v";
          type = '{';
        }
      if (common == '\0' || common == type)
        common = type;
      else if (strchr ("xtd", common) != NULL && strchr ("xtd", type) != NULL)
        common = 'd';
      else
        return "v";
    }

  switch (common)
    {
    case 's':
      return "s";
    case 'b':
      return "b";
    case 'x':
      return "x";
    case 't':
      return "t";
    case 'd':
      return "d";
    default:
      return "a{sv}";
    }
}

/* What a variant of unknown purpose is to hold. */
static GVariant *
narrow (const char  *name,
        GVariant    *value,
        GError     **error)
{
  g_autofree char *type = NULL;

  if (g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT))
    return convert (name, G_VARIANT_TYPE_VARDICT, value, error);
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE ("av")))
    return g_variant_ref (value);

  type = g_strconcat ("a", guess_element (value), NULL);
  return convert (name, G_VARIANT_TYPE (type), value, error);
}

static GVariant *
convert_number (const GVariantType *type,
                GVariant           *value)
{
  char wanted = *g_variant_type_peek_string (type);
  char given = *g_variant_get_type_string (value);
  gint64 whole = 0;
  guint64 large = 0;

  if (wanted == 'd')
    {
      double real = given == 'x'   ? (double) g_variant_get_int64 (value)
                    : given == 't' ? (double) g_variant_get_uint64 (value)
                                   : g_variant_get_double (value);

      return g_variant_new_double (real);
    }

  if (given == 'd')
    {
      double real = g_variant_get_double (value);

      /* 1e3 is a whole number as well; beyond 2^53 it is not known which one. */
      if (real != floor (real) || fabs (real) > 9007199254740992.0)
        return NULL;
      whole = (gint64) real;
      large = real > 0 ? (guint64) real : 0;
    }
  else if (given == 't')
    {
      large = g_variant_get_uint64 (value);
      if (wanted != 't')
        return NULL;
      return g_variant_new_uint64 (large);
    }
  else
    {
      whole = g_variant_get_int64 (value);
      large = whole > 0 ? (guint64) whole : 0;
    }

  switch (wanted)
    {
    case 'y':
      return whole >= 0 && whole <= G_MAXUINT8 ? g_variant_new_byte ((guchar) whole) : NULL;
    case 'n':
      return whole >= G_MININT16 && whole <= G_MAXINT16 ? g_variant_new_int16 ((gint16) whole)
                                                        : NULL;
    case 'q':
      return whole >= 0 && whole <= G_MAXUINT16 ? g_variant_new_uint16 ((guint16) whole) : NULL;
    case 'i':
      return whole >= G_MININT32 && whole <= G_MAXINT32 ? g_variant_new_int32 ((gint32) whole)
                                                        : NULL;
    case 'u':
      return whole >= 0 && whole <= G_MAXUINT32 ? g_variant_new_uint32 ((guint32) whole) : NULL;
    case 'x':
      return g_variant_new_int64 (whole);
    case 't':
      return whole >= 0 ? g_variant_new_uint64 (large) : NULL;
    default:
      return NULL;
    }
}

/* A string as a value of a simple type; also for keys, which JSON has as strings only.
 * (nullable): floating. */
static GVariant *
convert_text (const GVariantType *type,
              const char         *text)
{
  switch (*g_variant_type_peek_string (type))
    {
    case 's':
      return g_variant_new_string (text);
    case 'o':
      return g_variant_is_object_path (text) ? g_variant_new_object_path (text) : NULL;
    case 'g':
      return g_variant_is_signature (text) ? g_variant_new_signature (text) : NULL;
    case 'b':
      return strcmp (text, "true") == 0 || strcmp (text, "false") == 0
                 ? g_variant_new_boolean (*text == 't')
                 : NULL;
    default:
      {
        g_autoptr(GVariant) number = llmctl_json_read_number (text);

        return number != NULL ? convert_number (type, number) : NULL;
      }
    }
}

static GVariant *
convert_object (const char         *name,
                const GVariantType *type,
                GVariant           *value,
                GError            **error)
{
  const GVariantType *entry = g_variant_type_element (type);
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (type);
  GVariantIter iter;
  const char *key;
  GVariant *content;

  g_variant_iter_init (&iter, value);
  while (g_variant_iter_next (&iter, "{&sv}", &key, &content))
    {
      g_autoptr(GVariant) owned = content;
      g_autofree char *inner = g_strdup_printf ("%s.%s", name, key);
      GVariant *key_value = convert_text (g_variant_type_key (entry), key);
      g_autoptr(GVariant) converted = NULL;

      if (key_value == NULL)
        {
          g_autofree char *key_type = g_variant_type_dup_string (g_variant_type_key (entry));

          return fail_type (inner, key_type, error);
        }
      g_variant_ref_sink (key_value);
      converted = convert (inner, g_variant_type_value (entry), owned, error);
      if (converted != NULL)
        g_variant_builder_add_value (&builder, g_variant_new_dict_entry (key_value, converted));
      g_variant_unref (key_value);
      if (converted == NULL)
        return NULL;
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static GVariant *
convert_list (const char         *name,
              const GVariantType *type,
              GVariant           *value,
              GError            **error)
{
  gboolean is_tuple = g_variant_type_is_tuple (type);
  const GVariantType *item = is_tuple ? g_variant_type_first (type) : g_variant_type_element (type);
  g_auto(GVariantBuilder) builder = G_VARIANT_BUILDER_INIT (type);
  g_autofree char *type_string = g_variant_type_dup_string (type);
  gsize n = g_variant_n_children (value);

  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) boxed = g_variant_get_child_value (value, i);
      g_autoptr(GVariant) content = g_variant_get_variant (boxed);
      g_autofree char *inner = g_strdup_printf ("%s[%" G_GSIZE_FORMAT "]", name, i);
      g_autoptr(GVariant) converted = NULL;

      if (item == NULL)
        return fail_type (name, type_string, error);
      converted = convert (inner, item, content, error);
      if (converted == NULL)
        return NULL;
      g_variant_builder_add_value (&builder, converted);
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
    return fail_type (name, type_string, error);

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

/* @value: from llmctl_json_read(). (transfer full): not floating. */
static GVariant *
convert (const char         *name,
         const GVariantType *type,
         GVariant           *value,
         GError            **error)
{
  char given = *g_variant_get_type_string (value);
  gboolean is_object = g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT);
  g_autofree char *type_string = g_variant_type_dup_string (type);
  GVariant *converted = NULL;

  if (g_variant_type_is_variant (type))
    {
      g_autoptr(GVariant) content = narrow (name, value, error);

      return content != NULL ? g_variant_ref_sink (g_variant_new_variant (content)) : NULL;
    }
  if (g_variant_type_is_array (type) &&
      g_variant_type_is_dict_entry (g_variant_type_element (type)))
    return is_object ? convert_object (name, type, value, error)
                     : fail_type (name, type_string, error);
  if (g_variant_type_is_array (type) || g_variant_type_is_tuple (type))
    return given == 'a' && !is_object ? convert_list (name, type, value, error)
                                      : fail_type (name, type_string, error);

  if (given == 'b')
    converted = strcmp (type_string, "b") == 0 ? g_variant_ref (value) : NULL;
  else if (given == 's')
    converted = strchr ("sog", *type_string) != NULL
                    ? convert_text (type, g_variant_get_string (value, NULL))
                    : NULL;
  else if (strchr ("xtd", given) != NULL && strchr ("ynqiuxtd", *type_string) != NULL)
    converted = convert_number (type, value);

  if (converted == NULL)
    return fail_type (name, type_string, error);
  return g_variant_take_ref (converted);
}

/* --- words --- */

static GVariant *
read_json (const char  *name,
           const char  *word,
           GError     **error)
{
  GVariant *value = llmctl_json_read (word, error);

  if (value == NULL)
    g_prefix_error (error, "%s: ", name);
  return value;
}

GVariant *
llmctl_value_guess (const char  *name,
                    const char  *word,
                    GError     **error)
{
  g_autoptr(GVariant) value = NULL;

  if (*word == '"' || *word == '[' || *word == '{')
    {
      value = read_json (name, word, error);
      return value != NULL ? narrow (name, value, error) : NULL;
    }
  if (strcmp (word, "true") == 0 || strcmp (word, "false") == 0)
    return g_variant_ref_sink (g_variant_new_boolean (*word == 't'));

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

  if (!g_utf8_validate (word, -1, NULL))
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   _("“%s” is not UTF-8 text"), name);
      return NULL;
    }
  if (strcmp (type, "h") == 0)
    {
      g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                   _("“%s” is a stream, which can't be given on a command line"), name);
      return NULL;
    }
  if (strcmp (type, "v") == 0)
    {
      value = llmctl_value_guess (name, word, error);
      return value != NULL ? g_variant_ref_sink (g_variant_new_variant (value)) : NULL;
    }
  if (type[1] == '\0')
    {
      GVariant *simple = convert_text (G_VARIANT_TYPE (type), word);

      return simple != NULL ? g_variant_ref_sink (simple) : fail_type (name, type, error);
    }

  if (*word != '[' && *word != '{')
    return fail_type (name, type, error);
  value = read_json (name, word, error);
  return value != NULL ? convert (name, G_VARIANT_TYPE (type), value, error) : NULL;
}

GVariant *
llmctl_value_convert (const char  *name,
                      const char  *type,
                      GVariant    *value,
                      GError     **error)
{
  return convert (name, G_VARIANT_TYPE (type), value, error);
}
