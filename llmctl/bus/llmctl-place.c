/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/bus/llmctl-place.h"

#include <string.h>

#define SYSTEMD_NAME "org.freedesktop.systemd1"
#define LIMIT_MS     3000

/* Where packages that mask the users' unit leave it. */
#define USER_UNIT "llmsvc/systemd/user/llmsvc.service"

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

/* (transfer full) (nullable) */
static GVariant *
ask_systemd (GDBusConnection *bus,
             const char      *path,
             const char      *interface,
             const char      *method,
             const char      *argument,
             const char      *type)
{
  return g_dbus_connection_call_sync (bus, SYSTEMD_NAME, path, interface, method,
                                      g_variant_new ("(s)", argument), G_VARIANT_TYPE (type),
                                      G_DBUS_CALL_FLAGS_NO_AUTO_START, LIMIT_MS, NULL, NULL);
}

gboolean
llmctl_place_is_masked (GDBusConnection *bus)
{
  g_autoptr(GVariant) found = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) unit = NULL;
  const char *state = "";
  const char *path;

  if (bus != NULL)
    found = ask_systemd (bus, "/org/freedesktop/systemd1", SYSTEMD_NAME ".Manager", "LoadUnit",
                         "llmsvc.service", "(o)");
  if (found == NULL)
    return FALSE;

  g_variant_get (found, "(&o)", &path);
  reply = ask_systemd (bus, path, "org.freedesktop.DBus.Properties", "GetAll",
                       SYSTEMD_NAME ".Unit", "(a{sv})");
  if (reply == NULL)
    return FALSE;

  unit = g_variant_get_child_value (reply, 0);
  (void) g_variant_lookup (unit, "LoadState", "&s", &state);
  return g_str_equal (state, "masked");
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
