/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-service.h"

#include <glib/gi18n.h>
#include <string.h>

GVariant *
llmctl_service_get_properties (const char  *path,
                               const char  *interface,
                               GError     **error)
{
  return llmctl_call (path, "org.freedesktop.DBus.Properties", "GetAll",
                      g_variant_new ("(s)", interface), "a{sv}", error);
}

GVariant *
llmctl_service_ask (GDBusConnection  *bus,
                    const char       *name,
                    const char       *path,
                    const char       *method,
                    GVariant         *arguments,
                    const char       *type,
                    int               limit_ms,
                    GCancellable     *cancellable,
                    GError          **error)
{
  const char *dot = strrchr (method, '.');
  g_autofree char *interface = g_strndup (method, (gsize) (dot - method));
  g_autofree char *reply_type = g_strdup_printf ("(%s)", type);
  g_autoptr(GVariant) reply =
      g_dbus_connection_call_sync (bus, name, path, interface, dot + 1, arguments,
                                   G_VARIANT_TYPE (reply_type), G_DBUS_CALL_FLAGS_NO_AUTO_START,
                                   limit_ms, cancellable, error);

  return reply != NULL ? g_variant_get_child_value (reply, 0) : NULL;
}

GVariant *
llmctl_apps_list (GError **error)
{
  return llmctl_call (NULL, LLMCTL_ADMIN_INTERFACE, "ListApps", g_variant_new ("(a{sv})", NULL),
                      "aa{sv}", error);
}

GVariant *
llmctl_dict_look_up (GVariant           *dict,
                     const char         *key,
                     const GVariantType *type)
{
  const char *slash = strchr (key, '/');
  g_autofree char *outer = slash != NULL ? g_strndup (key, (gsize) (slash - key)) : NULL;
  g_autoptr(GVariant) inner = NULL;

  if (slash == NULL)
    return g_variant_lookup_value (dict, key, type);
  inner = g_variant_lookup_value (dict, outer, G_VARIANT_TYPE_VARDICT);
  return inner != NULL ? llmctl_dict_look_up (inner, slash + 1, type) : NULL;
}

const char *
llmctl_dict_get_string (GVariant   *dict,
                        const char *key)
{
  g_autoptr(GVariant) value = llmctl_dict_look_up (dict, key, NULL);

  /* the dictionary holds it */
  return value != NULL && (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING) ||
                           g_variant_is_of_type (value, G_VARIANT_TYPE_OBJECT_PATH))
             ? g_variant_get_string (value, NULL)
             : "";
}

guint64
llmctl_dict_get_number (GVariant   *dict,
                        const char *key)
{
  g_autoptr(GVariant) value = llmctl_dict_look_up (dict, key, NULL);

  if (value != NULL && g_variant_is_of_type (value, G_VARIANT_TYPE_UINT64))
    return g_variant_get_uint64 (value);
  return value != NULL && g_variant_is_of_type (value, G_VARIANT_TYPE_UINT32)
             ? g_variant_get_uint32 (value)
             : 0;
}

LlmctlStyle
llmctl_service_get_style (const char *word,
                          const char *good,
                          const char *bad)
{
  if (g_str_equal (word, good))
    return LLMCTL_STYLE_GOOD;
  return g_str_equal (word, bad) ? LLMCTL_STYLE_BAD : LLMCTL_STYLE_WARNING;
}

const char *
llmctl_apps_get_title (GVariant *app)
{
  const char *id = llmctl_dict_get_string (app, "app-id");

  return *id != '\0' ? id : _("(without a name)");
}

/* --- completion --- */

/* Offers the text @key of each a{sv} in @value, with the text @help_key (nullable) of the same. */
static void
offer_all (LlmctlCompletion *completion,
           GVariant         *value,
           const char       *key,
           const char       *help_key)
{
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT))
    llmctl_completion_offer (completion, llmctl_dict_get_string (value, key),
                             help_key != NULL ? llmctl_dict_get_string (value, help_key) : NULL);
  else if (g_variant_is_container (value))
    for (gsize i = 0; i < g_variant_n_children (value); i++)
      {
        g_autoptr(GVariant) child = g_variant_get_child_value (value, i);

        offer_all (completion, child, key, help_key);
      }
}

void
llmctl_service_complete (LlmctlCompletion *completion,
                         LlmctlNames       names)
{
  static const struct
  {
    const char *path, *interface, *method;
    gboolean has_options;
    const char *key, *help_key;
  } lists[] = {
    [LLMCTL_NAMES_CONTEXTS] = { NULL, LLMCTL_SERVICE_INTERFACE, "ListContexts", TRUE, "Name" },
    [LLMCTL_NAMES_MODELS] = { LLMCTL_SERVICE_PATH "/models", "org.freedesktop.DBus.ObjectManager",
                              "GetManagedObjects", FALSE, "Id", "Title" },
    [LLMCTL_NAMES_APPS] = { NULL, LLMCTL_ADMIN_INTERFACE, "ListApps", TRUE, "app-id" },
  };
  GVariant *options = lists[names].has_options ? g_variant_new ("(a{sv})", NULL) : NULL;
  g_autoptr(GVariant) reply = llmctl_call_with_fds (lists[names].path, lists[names].interface,
                                                    lists[names].method, options, NULL, NULL, NULL);

  if (reply != NULL)
    offer_all (completion, reply, lists[names].key, lists[names].help_key);
}
