/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl-options.h"

#include <errno.h>
#include <glib/gi18n.h>
#include <string.h>

gboolean
llmctl_options_add (LlmsvcOptions  *options,
                    const char     *assignment,
                    GError        **error)
{
  const char *equals = strchr (assignment, '=');
  g_autofree char *key = NULL;
  g_autoptr(GVariant) value = NULL;
  const GParamSpec *known;

  if (equals == NULL || equals == assignment || !g_utf8_validate (assignment, -1, NULL))
    {
      g_autofree char *shown = g_utf8_make_valid (assignment, -1);

      return llmctl_set_invalid (error, _("“%s” must be KEY=VALUE"), shown);
    }

  key = g_strndup (assignment, (gsize) (equals - assignment));
  if (g_str_equal (key, "require"))
    {
      llmsvc_options_require (options, equals + 1);
      return TRUE;
    }
  known = g_object_class_find_property (G_OBJECT_GET_CLASS (options), key);
  if (known != NULL && known->owner_type == LLMSVC_TYPE_OPTIONS)
    return llmsvc_options_set_from_string (options, key, equals + 1, error);

  /* As GVariant text, or else as it is. */
  value = g_variant_parse (NULL, equals + 1, NULL, NULL, NULL);
  return llmsvc_options_set_value (options, key,
                                   value != NULL ? value : g_variant_new_string (equals + 1),
                                   error);
}

gboolean
llmctl_options_add_all (LlmsvcOptions  *options,
                        char          **assignments,
                        GError        **error)
{
  for (gsize i = 0; assignments != NULL && assignments[i] != NULL; i++)
    if (!llmctl_options_add (options, assignments[i], error))
      return FALSE;

  return TRUE;
}

const char *
llmctl_options_suggest (const char *key)
{
  g_autoptr(GPtrArray) names = g_ptr_array_new_null_terminated (32, NULL, TRUE);
  g_autofree GParamSpec **specs = NULL;
  guint n;

  specs = llmctl_options_list (&n);
  for (guint i = 0; i < n; i++)
    g_ptr_array_add (names, (gpointer) specs[i]->name);
  g_ptr_array_add (names, (gpointer) "require");
  return llmctl_suggest (key, (const char *const *) names->pdata);
}

GParamSpec **
llmctl_options_list (guint *n)
{
  g_autoptr(GTypeClass) klass = g_type_class_ref (LLMSVC_TYPE_OPTIONS);
  guint n_all;
  GParamSpec **specs = g_object_class_list_properties (G_OBJECT_CLASS (klass), &n_all);

  *n = 0;
  for (guint i = 0; i < n_all; i++)
    if (specs[i]->owner_type == LLMSVC_TYPE_OPTIONS)
      specs[(*n)++] = specs[i];
  return specs;
}

gboolean
llmctl_parse_bytes (const char *text,
                    guint64    *bytes)
{
  static const char units[] = "KMGT";
  const char *unit;
  char *end = NULL;
  guint shift = 0;

  errno = 0;
  *bytes = g_ascii_strtoull (text, &end, 10);
  if (errno != 0 || end == text || !g_ascii_isdigit (*text))
    return FALSE;

  unit = *end != '\0' ? strchr (units, g_ascii_toupper (*end)) : NULL;
  if (unit != NULL)
    {
      shift = 10 * (guint) (unit - units + 1);
      end++;
    }
  if (*end != '\0' || *bytes > G_MAXUINT64 >> shift)
    return FALSE;

  *bytes <<= shift;
  return TRUE;
}
