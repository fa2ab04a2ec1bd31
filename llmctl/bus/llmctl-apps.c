/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-apps.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-service.h"

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
llmctl_apps_get_title (GVariant *app)
{
  const char *id = llmctl_dict_get_string (app, "app-id");

  return *id != '\0' ? id : _("(without a name)");
}

void
llmctl_apps_complete (LlmctlCompletion *completion)
{
  g_autoptr(GDBusConnection) bus = llmctl_connect (NULL);
  g_autoptr(GVariant) apps = NULL;
  GVariantIter iter;
  GVariant *app;

  if (bus != NULL)
    apps = llmctl_apps_list (bus, NULL);
  if (apps == NULL)
    return;

  g_variant_iter_init (&iter, apps);
  while (g_variant_iter_loop (&iter, "@a{sv}", &app))
    if (*llmctl_dict_get_string (app, "app-id") != '\0')
      llmctl_completion_offer (completion, llmctl_dict_get_string (app, "app-id"), NULL);
}
