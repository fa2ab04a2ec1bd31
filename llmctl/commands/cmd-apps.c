/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl apps and quota: who uses the service, and how much an application may have. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include <glib/gi18n.h>
#include <pwd.h>
#include <string.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/llmctl-options.h"
#include "llmctl/output/llmctl-rows.h"

/* Whether people were shown some. Takes floating @apps. */
static gboolean
print_apps (const LlmctlColumn *columns,
            GVariant           *apps)
{
  return llmctl_rows_show (columns, apps, "apps", _("No application has used the service"));
}

/* --- apps --- */

static const LlmctlColumn app_columns[] = {
  { N_("Application"), "app-id", llmctl_format_name },
  { N_("User"), "uid", llmctl_format_number, 4 },
  { N_("Kind"), "kind", llmctl_format_word, 2 },
  { N_("Contexts"), "contexts", llmctl_format_number },
  { N_("Tokens"), "tokens", llmctl_format_number, 5 },
  { N_("Memory"), "memory", llmctl_format_size },
  { N_("Texts"), "disk", llmctl_format_size, 6 },
  { N_("Questions"), "requests", llmctl_format_number },
  { N_("Under way"), "calls", llmctl_format_number, 3 },
  { N_("Last used"), "last-used", llmctl_format_time, 1 },
  { NULL }
};

static LlmctlExit
run_apps (int       argc,
          char    **argv,
          GError  **error)
{
  g_autoptr(GVariant) apps = llmctl_apps_list (error);

  if (apps != NULL)
    print_apps (app_columns, apps);
  return LLMCTL_EXIT_OK;
}

const LlmctlCommand llmctl_apps_command = {
  .name = "apps",
  .summary = N_("Show which applications use the service"),
  .description = N_("Those of the user; the administrator sees all. The kind says how the service "
                    "knows the application: by its sandbox (flatpak, snap), by its unit, as it has "
                    "registered itself, as a program of the user (host), or not at all. "
                    "On a narrow terminal some columns are left out.\n"
                    "--json: one object: apps, an array of the objects of ListApps, sizes in "
                    "bytes, last-used in seconds since 1970."),
  .run = run_apps,
};

/* --- quota --- */

static gboolean is_default;
static char *user_name;

static const GOptionEntry options[] = {
  { "default", 'd', 0, G_OPTION_ARG_NONE, &is_default,
    N_("Set what holds for every application without quotas of its own"), NULL },
  { "user", 'u', 0, G_OPTION_ARG_STRING, &user_name,
    N_("The applications of this user, by name or number; for root"), N_("USER") },
  G_OPTION_ENTRY_NULL
};

static gboolean
is_in_bytes (const char *key)
{
  return g_str_equal (key, "disk") || g_str_equal (key, "message");
}

/* (transfer full): what is used, of what may be: "3 of 64". Some quotas have nothing
 * that is used of them, and 0 is no limit. */
static char *
format_quota (GVariant   *app,
              const char *key)
{
  g_autofree char *name = g_strconcat ("quota-", key, NULL);
  LlmctlFormat format = is_in_bytes (key) ? llmctl_format_size : llmctl_format_number;
  g_autofree char *quota = format (app, name);
  g_autofree char *used = format (app, key);
  gboolean is_limited = llmctl_dict_get_number (app, name) > 0;
  double share = 0;

  if (g_variant_lookup (app, name, "d", &share))
    /* Translators: of the memory, as much as every other application */
    return share > 0 ? g_strdup_printf ("%.0f %%", share * 100) : g_strdup (_("an equal part"));
  /* Nothing is counted against these that could be shown. */
  if (g_str_equal (key, "rate") || g_str_equal (key, "message") || g_str_equal (key, "answer"))
    return is_limited ? g_steal_pointer (&quota) : g_strdup (_("no limit"));

  /* Translators: what an application holds, of what it may hold */
  return is_limited ? g_strdup_printf (_("%s of %s"), used, quota) : g_steal_pointer (&used);
}

/* Of one application. */
static const LlmctlColumn quota_columns[] = {
  { N_("Application"), "app-id", llmctl_format_name },
  { N_("User"), "uid", llmctl_format_number, 4 },
  { "contexts", "contexts", format_quota },
  { "tokens", "tokens", format_quota, 1 },
  { "calls", "calls", format_quota, 3 },
  { "disk", "disk", format_quota, 2 },
  { "share", "share", format_quota, 5 },
  { "rate", "rate", format_quota, 6 },
  { "message", "message", format_quota, 7 },
  { "answer", "answer", format_quota, 8 },
  { NULL }
};

/* Of all applications of a user together; set only as defaults. */
static const LlmctlColumn user_columns[] = {
  { N_("All of user"), "uid", llmctl_format_number },
  { "named", "named", format_quota },
  { "apps", "apps", format_quota },
  { "queue", "queue", format_quota },
  { NULL }
};

/* --user as a number; FALSE when there is no such user. */
static gboolean
find_user (guint64 *uid)
{
  const struct passwd *entry;

  if (g_ascii_string_to_unsigned (user_name, 10, 0, G_MAXUINT32 - 1, uid, NULL))
    return TRUE;
  entry = getpwnam (user_name);
  if (entry != NULL)
    *uid = entry->pw_uid;

  return entry != NULL;
}

/* (transfer full): those of @apps that are @app_id, or all for NULL, and of the user who was asked
 * for; one of each user when @is_once. */
static GVariant *
filter (GVariant   *apps,
        const char *app_id,
        guint64     uid,
        gboolean    is_once)
{
  g_autoptr(GHashTable) seen = g_hash_table_new (NULL, NULL);
  GVariantBuilder builder;
  GVariantIter iter;
  GVariant *app;

  g_variant_builder_init (&builder, G_VARIANT_TYPE ("aa{sv}"));
  g_variant_iter_init (&iter, apps);
  while (g_variant_iter_loop (&iter, "@a{sv}", &app))
    {
      guint64 user = llmctl_dict_get_number (app, "uid");

      if ((app_id == NULL || g_str_equal (llmctl_dict_get_string (app, "app-id"), app_id)) &&
          (user_name == NULL || user == uid) &&
          (!is_once || (g_variant_lookup (app, "quota-named", "u", NULL) &&
                        g_hash_table_add (seen, GSIZE_TO_POINTER (user)))))
        g_variant_builder_add_value (&builder, app);
    }

  return g_variant_ref_sink (g_variant_builder_end (&builder));
}

static LlmctlExit
show (const char  *app_id,
      guint64      uid,
      GError     **error)
{
  g_autoptr(GVariant) all = llmctl_apps_list (error);
  g_autoptr(GVariant) apps = NULL;
  g_autoptr(GVariant) users = NULL;

  if (all == NULL)
    return LLMCTL_EXIT_FAILED;

  apps = filter (all, app_id, uid, FALSE);
  if (app_id != NULL && g_variant_n_children (apps) == 0)
    {
      llmctl_complain (_("“%s” has not used the service; “llmctl apps” lists who has"), app_id);
      return LLMCTL_EXIT_FAILED;
    }
  if (!print_apps (quota_columns, apps))
    return LLMCTL_EXIT_OK;

  /* What the applications of a user have together stands at each of them. */
  users = filter (apps, NULL, uid, TRUE);
  llmctl_rows_print (user_columns, users);
  return LLMCTL_EXIT_OK;
}

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
  if (is_in_bytes (key) && llmctl_parse_bytes (equals + 1, &bytes))
    return llmsvc_options_set_value (quotas, key, g_variant_new_uint64 (bytes), error);

  return llmctl_options_add (quotas, assignment, error);
}

static LlmctlExit
set (const char  *app_id,
     guint64      uid,
     char       **assignments,
     GError     **error)
{
  g_autoptr(LlmsvcOptions) quotas = llmsvc_options_new ();
  g_autoptr(GVariant) dict = NULL;
  g_autoptr(GVariant) reply = NULL;

  for (gsize i = 0; assignments[i] != NULL; i++)
    {
      if (strchr (assignments[i], '=') == NULL)
        return llmctl_complain_usage (_("“%s” must be KEY=VALUE"), assignments[i]);
      if (!add_quota (quotas, assignments[i], error))
        return LLMCTL_EXIT_FAILED;
    }

  if (user_name != NULL)
    {
      llmsvc_options_require (quotas, "uid");
      if (!llmsvc_options_set_value (quotas, "uid", g_variant_new_uint32 ((guint32) uid), error))
        return LLMCTL_EXIT_FAILED;
    }
  dict = llmsvc_options_to_variant (quotas);
  reply = llmctl_call (NULL, LLMCTL_ADMIN_INTERFACE, "SetQuota",
                       g_variant_new ("(s@a{sv})", app_id, dict), "", error);
  if (reply != NULL && llmctl_globals.is_json)
    llmctl_output_json (g_variant_new ("a{sv}", NULL));
  return LLMCTL_EXIT_OK;
}

static LlmctlExit
run_quota (int       argc,
           char    **argv,
           GError  **error)
{
  gboolean has_app = argc > 1 && strchr (argv[1], '=') == NULL;
  char **assignments = argv + (has_app ? 2 : 1);
  guint64 uid = 0;

  if (is_default && has_app)
    return llmctl_complain_usage (_("--default and an application exclude each other"));
  if (assignments[0] != NULL && !has_app && !is_default)
    return llmctl_complain_usage (_("There is no application; --default sets the quotas of all"));
  if (is_default && assignments[0] == NULL)
    return llmctl_complain_usage (_("--default needs KEY=VALUE"));
  if (user_name != NULL && !find_user (&uid))
    return llmctl_complain_usage (_("There is no user “%s”"), user_name);

  return assignments[0] != NULL ? set (has_app ? argv[1] : "", uid, assignments, error)
                                : show (has_app ? argv[1] : NULL, uid, error);
}

static void
offer_keys (LlmctlCompletion   *completion,
            const LlmctlColumn *columns)
{
  for (const LlmctlColumn *column = columns; column->title != NULL; column++)
    if (column->format == format_quota)
      {
        g_autofree char *candidate = g_strconcat (column->key, "=", NULL);

        llmctl_completion_offer (completion, candidate, NULL);
      }
}

static void
complete_quota (LlmctlCompletion  *completion,
                int                argc,
                char             **argv)
{
  if (argc == 1 && !is_default)
    {
      llmctl_service_complete (completion, LLMCTL_NAMES_APPS);
      return;
    }
  offer_keys (completion, quota_columns);
  if (is_default)
    offer_keys (completion, user_columns);
}

const LlmctlCommand llmctl_quota_command = {
  .name = "quota",
  .parameters = N_("[APP] [KEY=VALUE…]"),
  .summary = N_("Show or set how much applications may have"),
  .description = N_("Shows all applications, or one. With KEY=VALUE sets: contexts, tokens, calls "
                    "under way, disk and message (bytes, or such as 64M, of stored text and of "
                    "one call), share (0 to 1, of the memory for contexts), rate (calls a second); "
                    "0 is the default of all. With --default also what all applications of a user "
                    "have together: named (contexts), apps, queue (calls). On a narrow terminal some "
                    "columns are left out; --json has all.\n"
                    "--json: one object: apps, an array of the objects of ListApps; without it "
                    "after setting."),
  .options = options,
  .is_admin = TRUE,
  .run = run_quota,
  .complete = complete_quota,
};
