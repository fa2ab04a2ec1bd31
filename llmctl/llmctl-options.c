/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "llmctl/llmctl-options.h"

#include <errno.h>
#include <string.h>

#include "common/llm-call-options.h"
#include "common/llmsvc-error.h"

static gboolean
fail (const char  *key,
      const char  *wanted,
      GError     **error)
{
  g_set_error (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_OPTION,
               "Option “%s” must be %s", key, wanted);
  return FALSE;
}

/* A whole number keeps its 64 bits, anything else is a double; ranges are
 * checked with the rest. */
static GVariant *
parse_number (const char *text)
{
  char *end = NULL;
  guint64 whole;
  double real;

  errno = 0;
  whole = g_ascii_strtoull (text, &end, 10);
  if (errno == 0 && end != text && *end == '\0' && strchr (text, '-') == NULL)
    return g_variant_new_uint64 (whole);

  errno = 0;
  real = g_ascii_strtod (text, &end);
  if (errno != 0 || end == text || *end != '\0')
    return NULL;

  return g_variant_new_double (real);
}

static GVariant *
parse_boolean (const char *text)
{
  if (g_str_equal (text, "true") || g_str_equal (text, "yes") || g_str_equal (text, "1"))
    return g_variant_new_boolean (TRUE);
  if (g_str_equal (text, "false") || g_str_equal (text, "no") || g_str_equal (text, "0"))
    return g_variant_new_boolean (FALSE);

  return NULL;
}

static void
append_string (GVariantDict *dict,
               const char   *key,
               const char   *text)
{
  g_autoptr(GVariant) held = g_variant_dict_lookup_value (dict, key, G_VARIANT_TYPE_STRING_ARRAY);
  g_autofree const char **strings = held != NULL ? g_variant_get_strv (held, NULL) : NULL;
  g_autoptr(GStrvBuilder) builder = g_strv_builder_new ();
  g_auto(GStrv) all = NULL;

  if (strings != NULL)
    g_strv_builder_addv (builder, strings);
  g_strv_builder_add (builder, text);
  all = g_strv_builder_end (builder);
  g_variant_dict_insert_value (dict, key, g_variant_new_strv ((const char *const *) all, -1));
}

static gboolean
add_known (GVariantDict *dict,
           const char   *key,
           const char   *type,
           const char   *text,
           GError      **error)
{
  GVariant *value = NULL;

  if (g_str_equal (type, "as"))
    {
      append_string (dict, key, text);
      return TRUE;
    }

  switch (type[0])
    {
    case 's':
      value = g_variant_new_string (text);
      break;
    case 'b':
      value = parse_boolean (text);
      if (value == NULL)
        return fail (key, "true or false", error);
      break;
    case 'u':
    case 't':
    case 'd':
      value = parse_number (text);
      if (value == NULL)
        return fail (key, "a number", error);
      break;
    default:
      value = g_variant_parse (G_VARIANT_TYPE (type), text, NULL, NULL, NULL);
      if (value == NULL)
        return fail (key, "GVariant text of its type", error);
      g_variant_dict_insert_value (dict, key, value);
      g_variant_unref (value);
      return TRUE;
    }

  g_variant_dict_insert_value (dict, key, value);
  return TRUE;
}

gboolean
llmctl_options_add (GVariantDict  *dict,
                    const char    *assignment,
                    GError       **error)
{
  const char *equals = strchr (assignment, '=');
  g_autofree char *key = NULL;
  const LlmsvcOptionInfo *info;

  if (equals == NULL || equals == assignment || !g_utf8_validate (assignment, -1, NULL))
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_INVALID_ARGUMENT,
                           "--option takes KEY=VALUE");
      return FALSE;
    }

  key = g_strndup (assignment, (gsize) (equals - assignment));
  info = llmsvc_option_find (key);
  if (info != NULL)
    return add_known (dict, key, info->type, equals + 1, error);
  if (g_str_equal (key, "require"))
    return add_known (dict, key, "as", equals + 1, error);

  {
    g_autoptr(GVariant) value = g_variant_parse (NULL, equals + 1, NULL, NULL, NULL);

    if (value != NULL)
      g_variant_dict_insert_value (dict, key, value);
    else
      g_variant_dict_insert (dict, key, "s", equals + 1);
  }
  return TRUE;
}

gboolean
llmctl_options_check (GVariant    *dict,
                      LlmsvcCall   call,
                      GError     **error)
{
  g_autoptr(GError) local_error = NULL;
  g_autoptr(LlmCallOptions) options = llm_call_options_parse (dict, call, NULL, &local_error);

  /* Which abilities there are is known to the service only. */
  if (options != NULL || g_error_matches (local_error, LLMSVC_ERROR, LLMSVC_ERROR_UNSUPPORTED))
    return TRUE;

  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}
