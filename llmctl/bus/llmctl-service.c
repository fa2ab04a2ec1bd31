/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-service.h"

#include <glib/gi18n.h>
#include <string.h>

GDBusConnection *
llmctl_service_connect_running (GError **error)
{
  g_autoptr(GDBusConnection) bus = NULL;

  llmctl_globals.must_not_start = TRUE;
  bus = llmctl_connect (error);
  if (bus == NULL)
    return NULL;

  if (!llmctl_is_running ())
    {
      g_set_error_literal (error, LLMSVC_ERROR, LLMSVC_ERROR_NOT_AVAILABLE,
                           _("The service is not running and holds nothing; the first question "
                             "starts it"));
      return NULL;
    }
  return g_steal_pointer (&bus);
}

GVariant *
llmctl_service_get_properties (GDBusConnection  *bus,
                               const char       *path,
                               const char       *interface,
                               GError          **error)
{
  g_autoptr(GVariant) reply = NULL;

  reply = llmctl_call (bus, path, "org.freedesktop.DBus.Properties", "GetAll",
                       g_variant_new ("(s)", interface), "(a{sv})", error);

  return reply != NULL ? g_variant_get_child_value (reply, 0) : NULL;
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
llmctl_apps_list (GDBusConnection  *bus,
                  GError          **error)
{
  g_autoptr(GVariant) reply = NULL;

  reply = llmctl_call (bus, NULL, LLMCTL_ADMIN_INTERFACE, "ListApps",
                       g_variant_new ("(a{sv})", NULL), "(aa{sv})", error);

  return reply != NULL ? g_variant_get_child_value (reply, 0) : NULL;
}

const char *
llmctl_dict_get_string (GVariant   *dict,
                        const char *key)
{
  const char *text = "";

  if (!g_variant_lookup (dict, key, "&s", &text) && !g_variant_lookup (dict, key, "&o", &text))
    return "";

  return text;
}

guint64
llmctl_dict_get_number (GVariant   *dict,
                        const char *key)
{
  guint64 number = 0;
  guint32 small = 0;

  if (g_variant_lookup (dict, key, "t", &number))
    return number;

  return g_variant_lookup (dict, key, "u", &small) ? small : 0;
}

LlmctlExit
llmctl_check_arguments (char **argv,
                        int    n_most)
{
  guint n = g_strv_length (argv);

  if (n <= 1 + (guint) n_most)
    return LLMCTL_EXIT_OK;
  if (n_most == 0)
    return llmctl_complain_usage (_("“%s” takes no argument"), argv[0]);
  return llmctl_complain_usage (_("“%s” is one argument too many for “%s”"), argv[1 + n_most],
                                argv[0]);
}

LlmctlExit
llmctl_require_arguments (char       **argv,
                          int          n_most,
                          const char  *missing)
{
  return argv[1] != NULL ? llmctl_check_arguments (argv, n_most)
                         : llmctl_complain_usage ("%s", missing);
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

static void
offer_all (LlmctlCompletion *completion,
           GVariant         *value,
           const char       *key,
           const char       *help_key)
{
  if (!g_variant_is_container (value))
    return;
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE_VARDICT))
    {
      for (gsize i = 0; i < g_variant_n_children (value); i++)
        {
          g_autoptr(GVariant) child = g_variant_get_child_value (value, i);

          offer_all (completion, child, key, help_key);
        }
      return;
    }

  llmctl_completion_offer (completion, llmctl_dict_get_string (value, key),
                           help_key != NULL ? llmctl_dict_get_string (value, help_key) : NULL);
}

void
llmctl_service_complete (LlmctlCompletion *completion,
                         const char       *path,
                         const char       *interface,
                         const char       *method,
                         GVariant         *parameters,
                         const char       *key,
                         const char       *help_key)
{
  g_autoptr(GVariant) owned = parameters != NULL ? g_variant_ref_sink (parameters) : NULL;
  g_autoptr(GDBusConnection) bus = llmctl_connect (NULL);
  g_autoptr(GVariant) reply = NULL;

  if (bus != NULL)
    reply = llmctl_call (bus, path, interface, method, owned, NULL, NULL);
  if (reply != NULL)
    offer_all (completion, reply, key, help_key);
}
