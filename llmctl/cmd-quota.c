/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl quota: how much an application may have, shown and set. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/llmctl.h"

#include <glib/gi18n.h>
#include <string.h>

#include "llmctl/llmctl-apps.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/llmctl-output.h"
#include "llmctl/llmctl-service.h"

static gboolean is_default;

static const GOptionEntry options[] = {
  { "default", 'd', 0, G_OPTION_ARG_NONE, &is_default,
    N_("Set what holds for every application without quotas of its own"), NULL },
  G_OPTION_ENTRY_NULL
};

static const char *const keys[] = { "contexts", "tokens", "calls", "disk", "share" };

/* --- showing --- */

/* (transfer full): what is used, of what may be: "3 of 64". Some quotas have nothing
 * that is used of them, and 0 is no limit. */
static char *
format_quota (GVariant   *app,
              const char *key)
{
  g_autofree char *name = g_strconcat ("quota-", key, NULL);
  gboolean is_size = g_str_equal (key, "disk");
  guint64 number = llmctl_dict_get_number (app, name);
  g_autofree char *quota = NULL;
  g_autofree char *used = NULL;
  double share = 0;

  if (g_variant_lookup (app, name, "d", &share))
    return g_strdup_printf ("%.0f %%", share * 100);
  quota = is_size ? llmctl_format_bytes (number)
                  : g_strdup_printf ("%" G_GUINT64_FORMAT, number);
  if (g_str_equal (key, "calls"))
    return number > 0 ? g_steal_pointer (&quota) : g_strdup (_("no limit"));

  number = llmctl_dict_get_number (app, key);
  used = is_size ? llmctl_format_bytes (number)
                 : g_strdup_printf ("%" G_GUINT64_FORMAT, number);
  if (llmctl_dict_get_number (app, name) == 0)
    return g_steal_pointer (&used);

  /* Translators: what an application holds, of what it may hold */
  return g_strdup_printf (_("%s of %s"), used, quota);
}

static void
print_for_people (GVariant *apps)
{
  LlmctlTable *table = llmctl_table_new ((const char *const[]) {
    _("Application"), _("User"), "contexts", "tokens", "calls", "disk", "share", NULL });
  GVariantIter iter;
  GVariant *app;

  g_variant_iter_init (&iter, apps);
  while (g_variant_iter_loop (&iter, "@a{sv}", &app))
    {
      g_autofree char *uid = g_strdup_printf ("%" G_GUINT64_FORMAT,
                                              llmctl_dict_get_number (app, "uid"));
      char *cells[G_N_ELEMENTS (keys)];

      for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
        cells[i] = format_quota (app, keys[i]);
      llmctl_table_add (table, (const char *const[]) { llmctl_apps_get_title (app), uid, cells[0],
                                                       cells[1], cells[2], cells[3], cells[4],
                                                       NULL });
      for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
        g_free (cells[i]);
    }
  llmctl_table_print (table);
}

/* (transfer full): those of @apps that are @app_id, or all for NULL. */
static GVariant *
filter (GVariant   *apps,
        const char *app_id)
{
  GVariantBuilder builder;
  GVariantIter iter;
  GVariant *app;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_variant_iter_init (&iter, apps);
  while (g_variant_iter_loop (&iter, "@a{sv}", &app))
    if (app_id == NULL || g_str_equal (llmctl_dict_get_string (app, "app-id"), app_id))
      g_variant_builder_add_value (&builder, app);

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static LlmctlExit
show (GDBusConnection *bus,
      const char      *app_id)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) all = llmctl_apps_list (bus, &error);
  g_autoptr(GVariant) apps = NULL;

  if (all == NULL)
    return llmctl_fail (error);

  apps = filter (all, app_id);
  if (app_id != NULL && g_variant_n_children (apps) == 0)
    {
      llmctl_complain (_("“%s” has not used the service; “llmctl apps” lists who has"), app_id);
      return LLMCTL_EXIT_FAILED;
    }
  if (llmctl_globals.is_json)
    llmctl_output_json (apps);
  else if (g_variant_n_children (apps) == 0)
    llmctl_output_printf (LLMCTL_STYLE_PLAIN, "%s\n", _("No application has used the service"));
  else
    print_for_people (apps);
  return LLMCTL_EXIT_OK;
}

/* --- setting --- */

static gboolean
add_quota (LlmsvcOptions  *quotas,
           const char     *assignment,
           GError        **error)
{
  const char *equals = strchr (assignment, '=');
  g_autofree char *key = g_strndup (assignment, (gsize) (equals - assignment));
  guint64 bytes;

  /* Without this a service that has no such quota would say nothing. */
  llmsvc_options_require (quotas, key);
  if (g_str_equal (key, "disk") && llmctl_parse_bytes (equals + 1, &bytes))
    return llmsvc_options_set_value (quotas, key, g_variant_new_uint64 (bytes), error);

  return llmctl_options_add (quotas, assignment, error);
}

static LlmctlExit
set (GDBusConnection *bus,
     const char      *app_id,
     char           **assignments)
{
  g_autoptr(LlmsvcOptions) quotas = llmsvc_options_new ();
  g_autoptr(GVariant) dict = NULL;
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;

  for (gsize i = 0; assignments[i] != NULL; i++)
    {
      if (strchr (assignments[i], '=') == NULL)
        return llmctl_complain_usage (_("“%s” must be KEY=VALUE"), assignments[i]);
      if (!add_quota (quotas, assignments[i], &error))
        return llmctl_fail (error);
    }

  dict = llmsvc_options_to_variant (quotas);
  reply = llmctl_call (bus, NULL, LLMCTL_ADMIN_INTERFACE, "SetQuota",
                       g_variant_new ("(s@a{sv})", app_id, dict), "()", &error);
  if (reply == NULL)
    return llmctl_fail (error);
  if (llmctl_globals.is_json)
    llmctl_output_json (g_variant_new ("a{sv}", NULL));
  return LLMCTL_EXIT_OK;
}

static LlmctlExit
run (int    argc,
     char **argv)
{
  gboolean has_app = argc > 1 && strchr (argv[1], '=') == NULL;
  char **assignments = argv + (has_app ? 2 : 1);
  g_autoptr(GDBusConnection) bus = NULL;
  g_autoptr(GError) error = NULL;

  if (is_default && has_app)
    return llmctl_complain_usage (_("--default and an application exclude each other"));
  if (assignments[0] != NULL && !has_app && !is_default)
    return llmctl_complain_usage (_("There is no application; --default sets the quotas of all"));
  if (is_default && assignments[0] == NULL)
    return llmctl_complain_usage (_("--default needs KEY=VALUE"));

  bus = llmctl_connect (&error);
  if (bus == NULL)
    return llmctl_fail (error);
  if (assignments[0] != NULL)
    return set (bus, has_app ? argv[1] : "", assignments);
  return show (bus, has_app ? argv[1] : NULL);
}

static void
complete (LlmctlCompletion  *completion,
          int                argc,
          char             **argv)
{
  if (argc == 1 && !is_default)
    {
      llmctl_apps_complete (completion);
      return;
    }
  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autofree char *candidate = g_strconcat (keys[i], "=", NULL);

      llmctl_completion_offer (completion, candidate, NULL);
    }
}

const LlmctlCommand llmctl_quota_command = {
  .name = "quota",
  .parameters = N_("[APP] [KEY=VALUE…]"),
  .summary = N_("Show or set how much applications may have"),
  .description = N_("Shows all applications, or one. With KEY=VALUE sets: contexts, tokens, calls, "
                    "disk (bytes, or such as 64M), share (0 to 1); 0 is the default of all.\n"
                    "--json: an array of the objects of ListApps; {} after setting."),
  .options = options,
  .run = run,
  .complete = complete,
};
