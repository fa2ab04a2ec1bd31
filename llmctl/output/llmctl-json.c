/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/output/llmctl-json.h"

#include <math.h>
#include <string.h>

static void
append_string (GString    *out,
               const char *text)
{
  g_string_append_c (out, '"');
  for (const char *p = text; *p != '\0'; p = g_utf8_next_char (p))
    {
      gunichar c = g_utf8_get_char (p);

      if (c == '"' || c == '\\')
        g_string_append_printf (out, "\\%c", (char) c);
      else if (c == '\n')
        g_string_append (out, "\\n");
      else if (c == '\t')
        g_string_append (out, "\\t");
      else if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        g_string_append_printf (out, "\\u%04x", c);
      else
        g_string_append_unichar (out, c);
    }
  g_string_append_c (out, '"');
}

static void
append_double (GString *out,
               double   number)
{
  char buffer[G_ASCII_DTOSTR_BUF_SIZE];

  if (!isfinite (number))
    {
      g_string_append (out, "null");
      return;
    }

  /* The shortest text that is the same number. */
  for (int digits = 6; digits <= 17; digits++)
    {
      char format[8];

      g_snprintf (format, sizeof format, "%%.%dg", digits);
      g_ascii_formatd (buffer, sizeof buffer, format, number);
      if (g_ascii_strtod (buffer, NULL) == number)
        break;
    }
  g_string_append (out, buffer);
}

static void append_value (GString  *out,
                          GVariant *value,
                          int       indent);

/* @indent: of the container in steps, -1 for one line. */
static void
append_container (GString  *out,
                  GVariant *value,
                  int       indent)
{
  gboolean is_object = g_variant_is_of_type (value, G_VARIANT_TYPE_DICTIONARY);
  int inner = indent < 0 ? indent : indent + 1;
  gsize n = g_variant_n_children (value);

  g_string_append_c (out, is_object ? '{' : '[');
  for (gsize i = 0; i < n; i++)
    {
      g_autoptr(GVariant) child = g_variant_get_child_value (value, i);

      if (i > 0)
        g_string_append_c (out, ',');
      if (inner >= 0)
        g_string_append_printf (out, "\n%*s", 2 * inner, "");
      if (is_object)
        {
          g_autoptr(GVariant) key = g_variant_get_child_value (child, 0);
          g_autoptr(GVariant) content = g_variant_get_child_value (child, 1);
          /* A name is a string whatever the key is. */
          g_autofree char *name = llmctl_json_write_plain (key);

          append_string (out, name);
          g_string_append (out, indent < 0 ? ":" : ": ");
          append_value (out, content, inner);
        }
      else
        {
          append_value (out, child, inner);
        }
    }
  if (n > 0 && indent >= 0)
    g_string_append_printf (out, "\n%*s", 2 * indent, "");
  g_string_append_c (out, is_object ? '}' : ']');
}

static void
append_value (GString  *out,
              GVariant *value,
              int       indent)
{
  g_autoptr(GVariant) content = NULL;

  switch (g_variant_classify (value))
    {
    case G_VARIANT_CLASS_BYTE:
      g_string_append_printf (out, "%u", g_variant_get_byte (value));
      break;
    case G_VARIANT_CLASS_DOUBLE:
      append_double (out, g_variant_get_double (value));
      break;
    case G_VARIANT_CLASS_STRING:
    case G_VARIANT_CLASS_OBJECT_PATH:
    case G_VARIANT_CLASS_SIGNATURE:
      append_string (out, g_variant_get_string (value, NULL));
      break;
    case G_VARIANT_CLASS_VARIANT:
      content = g_variant_get_variant (value);
      append_value (out, content, indent);
      break;
    case G_VARIANT_CLASS_ARRAY:
    case G_VARIANT_CLASS_TUPLE:
      append_container (out, value, indent);
      break;
    default:
      /* Whole numbers, true and false. */
      g_variant_print_string (value, out, FALSE);
      break;
    }
}

char *
llmctl_json_write (GVariant *value,
                   gboolean  is_indented)
{
  GString *out = g_string_new (NULL);

  append_value (out, value, is_indented ? 0 : -1);
  return g_string_free (out, FALSE);
}

char *
llmctl_json_write_plain (GVariant *value)
{
  g_autoptr(GVariant) content = g_variant_is_of_type (value, G_VARIANT_TYPE_VARIANT)
                                    ? g_variant_get_variant (value)
                                    : NULL;

  if (content != NULL)
    return llmctl_json_write_plain (content);
  return strchr ("sog", *g_variant_get_type_string (value)) != NULL
             ? g_variant_dup_string (value, NULL)
             : llmctl_json_write (value, FALSE);
}

char *
llmctl_json_make_key (const char *name)
{
  GString *key = g_string_new (NULL);

  for (const char *p = name; *p != '\0'; p++)
    {
      /* a word begins here, or the last letter of an abbreviation was before */
      gboolean begins = p > name && g_ascii_isupper (*p) &&
                        (g_ascii_islower (p[-1]) || g_ascii_isdigit (p[-1]) ||
                         (g_ascii_isupper (p[-1]) && g_ascii_islower (p[1])));

      if (begins)
        g_string_append_c (key, '-');
      g_string_append_c (key, *p == '_' ? '-' : g_ascii_tolower (*p));
    }

  return g_string_free (key, FALSE);
}

GVariant *
llmctl_json_rename_keys (GVariant *dict)
{
  GVariantBuilder builder;
  GVariantIter iter;
  const char *name;
  GVariant *value;

  if (dict == NULL)
    return NULL;
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_iter_init (&iter, dict);
  while (g_variant_iter_loop (&iter, "{&sv}", &name, &value))
    {
      g_autofree char *key = llmctl_json_make_key (name);

      g_variant_builder_add (&builder, "{sv}", key, value);
    }

  return g_variant_builder_end (&builder);
}

void
llmctl_json_add (GVariantBuilder *dict,
                 const char      *key,
                 GVariant        *value)
{
  g_variant_builder_add (dict, "{sv}", key, value);
}

void
llmctl_json_add_string (GVariantBuilder *dict,
                        const char      *key,
                        const char      *text)
{
  if (text != NULL)
    g_variant_builder_add (dict, "{sv}", key, g_variant_new_string (text));
}

GVariant *
llmctl_json_object (const char *member,
                    ...)
{
  GVariantBuilder builder;
  va_list values;

  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  va_start (values, member);
  for (; member != NULL; member = va_arg (values, const char *))
    {
      const char *colon = strchr (member, ':');
      g_autofree char *key = g_strndup (member, (gsize) (colon - member));
      GVariant *value = NULL;

      switch (colon[1])
        {
        case 's':
          llmctl_json_add_string (&builder, key, va_arg (values, const char *));
          break;
        case 'b':
          llmctl_json_add (&builder, key, g_variant_new_boolean (va_arg (values, gboolean)));
          break;
        case 'u':
          llmctl_json_add (&builder, key, g_variant_new_uint32 (va_arg (values, guint32)));
          break;
        case 't':
          llmctl_json_add (&builder, key, g_variant_new_uint64 (va_arg (values, guint64)));
          break;
        default:
          value = va_arg (values, GVariant *);
          if (value != NULL)
            llmctl_json_add (&builder, key, value);
        }
    }
  va_end (values);

  return g_variant_builder_end (&builder);
}
