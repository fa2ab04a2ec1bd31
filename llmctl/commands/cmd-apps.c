/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl apps: who uses the service. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-apps.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

static char *
format_time (guint64 seconds)
{
  g_autoptr(GDateTime) time = NULL;

  if (seconds == 0 || seconds > G_MAXINT64)
    return g_strdup ("");
  time = g_date_time_new_from_unix_local ((gint64) seconds);

  return time != NULL ? g_date_time_format (time, "%Y-%m-%d %H:%M") : g_strdup ("");
}

static char *
format_number (GVariant   *app,
               const char *key)
{
  return g_strdup_printf ("%" G_GUINT64_FORMAT, llmctl_dict_get_number (app, key));
}

static void
print_for_people (GVariant *apps)
{
  LlmctlTable *table = llmctl_table_new ((const char *const[]) {
    _("Application"), _("User"), _("Kind"), _("Contexts"), _("Tokens"), _("Memory"), _("Texts"),
    _("Questions"), _("Under way"), _("Last used"), NULL });
  GVariantIter iter;
  GVariant *app;

  if (g_variant_n_children (apps) == 0)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", _("No application has used the service"));
  g_variant_iter_init (&iter, apps);
  while (g_variant_iter_loop (&iter, "@a{sv}", &app))
    {
      g_autofree char *memory = llmctl_format_bytes (llmctl_dict_get_number (app, "memory"));
      g_autofree char *disk = llmctl_format_bytes (llmctl_dict_get_number (app, "disk"));
      g_autofree char *last = format_time (llmctl_dict_get_number (app, "last-used"));
      g_autofree char *uid = format_number (app, "uid");
      g_autofree char *contexts = format_number (app, "contexts");
      g_autofree char *tokens = format_number (app, "tokens");
      g_autofree char *requests = format_number (app, "requests");
      g_autofree char *calls = format_number (app, "calls");

      llmctl_table_add (table, (const char *const[]) { llmctl_apps_get_title (app), uid,
                                                       llmctl_dict_get_string (app, "kind"),
                                                       contexts, tokens, memory, disk, requests,
                                                       calls, last, NULL });
    }
  llmctl_table_print (table);
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  LlmctlExit status = llmctl_check_arguments (argv, 0);
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GVariant) apps = NULL;
  g_autoptr(GError) error = NULL;

  if (status != LLMCTL_EXIT_OK)
    return status;
  bus = llmctl_connect (&error);
  if (bus != NULL)
    apps = llmctl_apps_list (bus, &error);
  if (apps == NULL)
    return llmctl_fail (error);

  if (llmctl_globals.is_json)
    llmctl_output_json_member ("apps", apps);
  else
    print_for_people (apps);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_apps_command = {
  .name = "apps",
  .summary = N_("Show which applications use the service"),
  .description = N_("Those of the user; the administrator sees all. The kind says how the service "
                    "knows the application: by its sandbox (flatpak, snap), by its unit, as it has "
                    "registered itself, as a program of the user (host), or not at all.\n"
                    "--json: one object: apps, an array of the objects of ListApps, sizes in "
                    "bytes, last-used in seconds since 1970."),
  .run = run,
};
