/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-place.h"

#include <string.h>

#include "llmctl/bus/llmctl-service.h"

#define SYSTEMD_NAME "org.freedesktop.systemd1"
#define LIMIT_MS     3000

/* Where packages that mask the users' unit leave it. */
#define USER_UNIT "llmsvc/systemd/user/llmsvc.service"

GBusType
llmctl_place_find (void)
{
  if (llmctl_connect (NULL) != NULL)
    return llmctl_globals.found_bus_type;

  return llmctl_globals.bus_type == G_BUS_TYPE_SYSTEM ? G_BUS_TYPE_SYSTEM : G_BUS_TYPE_SESSION;
}

const char *
llmctl_place_get_sudo (GBusType type)
{
  return type == G_BUS_TYPE_SYSTEM ? "sudo " : "";
}

const char *
llmctl_place_get_systemctl (GBusType type)
{
  return type == G_BUS_TYPE_SYSTEM ? "sudo systemctl" : "systemctl --user";
}

char *
llmctl_place_make_folder (GBusType type)
{
  g_autofree char *own = g_build_filename (g_get_user_data_dir (), "llmsvc", "models", NULL);
  const char *home = g_get_home_dir ();

  if (type == G_BUS_TYPE_SYSTEM)
    return g_strdup (LLM_LOCALSTATEDIR "/lib/llmsvc/models");
  if (g_str_has_prefix (own, home) && own[strlen (home)] == G_DIR_SEPARATOR)
    return g_strconcat ("~", own + strlen (home), NULL);
  return g_steal_pointer (&own);
}

char *
llmctl_place_make_install (GBusType type)
{
  g_autofree char *folder = llmctl_place_make_folder (type);

  return g_strdup_printf ("%sinstall -D -m 644 -t %s FILE.gguf", llmctl_place_get_sudo (type),
                          folder);
}

gboolean
llmctl_place_is_masked (GDBusConnection *bus)
{
  g_autoptr(GVariant) path = NULL;
  g_autoptr(GVariant) unit = NULL;

  if (bus != NULL)
    path = llmctl_service_ask (bus, SYSTEMD_NAME, "/org/freedesktop/systemd1",
                               SYSTEMD_NAME ".Manager.LoadUnit",
                               g_variant_new ("(s)", "llmsvc.service"), "o", LIMIT_MS, NULL, NULL);
  if (path != NULL)
    unit = llmctl_service_ask (bus, SYSTEMD_NAME, g_variant_get_string (path, NULL),
                               "org.freedesktop.DBus.Properties.GetAll",
                               g_variant_new ("(s)", SYSTEMD_NAME ".Unit"), "a{sv}", LIMIT_MS, NULL,
                               NULL);
  return unit != NULL && g_str_equal (llmctl_dict_get_string (unit, "LoadState"), "masked");
}

char *
llmctl_place_make_unmask (GBusType type)
{
  const char *const *folders = g_get_system_data_dirs ();

  for (gsize i = 0; type == G_BUS_TYPE_SESSION && folders[i] != NULL; i++)
    {
      g_autofree char *unit = g_build_filename (folders[i], USER_UNIT, NULL);

      if (g_file_test (unit, G_FILE_TEST_IS_REGULAR))
        return g_strconcat ("systemctl --user link ", unit, NULL);
    }

  return g_strconcat (llmctl_place_get_systemctl (type), " unmask llmsvc", NULL);
}
