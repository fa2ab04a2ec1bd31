/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a type of the bus looks like on a command line. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <string.h>

#include "llmctl/bus/llmctl-value.h"

#define MESSAGES_TYPE "a(ssa{sv})"

static void
append_type (GString            *out,
             const GVariantType *type)
{
  if (g_variant_type_is_dict_entry (type))
    {
      gboolean is_string = g_variant_type_equal (g_variant_type_key (type), G_VARIANT_TYPE_STRING);

      if (is_string)
        g_string_append (out, "key");
      else
        append_type (out, g_variant_type_key (type));
      g_string_append (out, ": ");
      append_type (out, g_variant_type_value (type));
      return;
    }
  if (g_variant_type_is_array (type))
    {
      const GVariantType *element = g_variant_type_element (type);
      gboolean is_object = g_variant_type_is_dict_entry (element);

      g_string_append_c (out, is_object ? '{' : '[');
      append_type (out, element);
      g_string_append (out, is_object ? ", …}" : ", …]");
      return;
    }
  if (g_variant_type_is_tuple (type))
    {
      g_string_append_c (out, '[');
      for (const GVariantType *item = g_variant_type_first (type); item != NULL;
           item = g_variant_type_next (item))
        {
          append_type (out, item);
          if (g_variant_type_next (item) != NULL)
            g_string_append (out, ", ");
        }
      g_string_append_c (out, ']');
      return;
    }

  switch (*g_variant_type_peek_string (type))
    {
    case 'b':
      g_string_append (out, "true|false");
      break;
    case 'y':
      g_string_append (out, "byte");
      break;
    case 'n':
    case 'i':
    case 'x':
      g_string_append (out, "integer");
      break;
    case 'q':
    case 'u':
    case 't':
      g_string_append (out, "unsigned");
      break;
    case 'd':
      g_string_append (out, "number");
      break;
    case 's':
      g_string_append (out, "string");
      break;
    case 'o':
      g_string_append (out, "path");
      break;
    case 'g':
      g_string_append (out, "signature");
      break;
    case 'h':
      g_string_append (out, "stream");
      break;
    default:
      g_string_append (out, "any");
      break;
    }
}

char *
llmctl_type_describe (const char *type)
{
  GString *out = g_string_new (NULL);

  append_type (out, G_VARIANT_TYPE (type));
  return g_string_free (out, FALSE);
}

/* A value of the type as JSON, to be changed. */
static void
append_example (GString            *out,
                const GVariantType *type)
{
  if (g_variant_type_is_array (type))
    {
      const GVariantType *element = g_variant_type_element (type);

      if (g_variant_type_is_dict_entry (element))
        {
          g_string_append (out, "{\"key\":");
          append_example (out, g_variant_type_value (element));
          g_string_append_c (out, '}');
          return;
        }
      g_string_append_c (out, '[');
      append_example (out, element);
      g_string_append_c (out, ']');
      return;
    }
  if (g_variant_type_is_tuple (type))
    {
      g_string_append_c (out, '[');
      for (const GVariantType *item = g_variant_type_first (type); item != NULL;
           item = g_variant_type_next (item))
        {
          append_example (out, item);
          if (g_variant_type_next (item) != NULL)
            g_string_append_c (out, ',');
        }
      g_string_append_c (out, ']');
      return;
    }

  switch (*g_variant_type_peek_string (type))
    {
    case 'b':
      g_string_append (out, "true");
      break;
    case 'd':
      g_string_append (out, "0.5");
      break;
    case 's':
    case 'v':
      g_string_append (out, "\"text\"");
      break;
    case 'o':
      g_string_append (out, "\"/org/llm/Service\"");
      break;
    case 'g':
      g_string_append (out, "\"s\"");
      break;
    default:
      g_string_append (out, "1");
      break;
    }
}

char *
llmctl_type_make_example (const char *type)
{
  GString *out = g_string_new (NULL);

  if (strcmp (type, MESSAGES_TYPE) == 0)
    g_string_append (out, "user:text");
  else if (strcmp (type, "a{sv}") == 0)
    g_string_append (out, "key=value");
  else
    append_example (out, G_VARIANT_TYPE (type));
  if (type[1] == '\0' && out->str[0] == '"')
    {
      g_string_truncate (out, out->len - 1);
      g_string_erase (out, 0, 1);
    }

  return g_string_free (out, FALSE);
}
