/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: who asks: rights, sandbox, language, configuration. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <glib/gi18n.h>
#include <unistd.h>

#include "llmctl/output/llmctl-i18n.h"

#define POLKIT_NAME "org.freedesktop.PolicyKit1"
#define BUS_NAME    "org.freedesktop.DBus"
#define BUS_PATH    "/org/freedesktop/DBus"

static gboolean
bus_knows (GDBusConnection *bus,
           const char      *method,
           const char      *name)
{
  g_autoptr(GVariant) reply = llmctl_doctor_call (bus, BUS_NAME, BUS_PATH, BUS_NAME, method, NULL,
                                                  "(as)", NULL);
  g_autofree const char **names = NULL;

  if (reply == NULL)
    return FALSE;
  g_variant_get (reply, "(^a&s)", &names);
  return g_strv_contains (names, name);
}

static void
check_polkit (LlmctlDoctor *self)
{
  g_autofree char *policy =
      g_strconcat (self->root, LLM_DATADIR "/polkit-1/actions/org.llm.Service.policy", NULL);

  if (self->bus_type != G_BUS_TYPE_SYSTEM)
    return;
  if (!bus_knows (self->bus, "ListNames", POLKIT_NAME) &&
      !bus_knows (self->bus, "ListActivatableNames", POLKIT_NAME))
    llmctl_doctor_add (self, "polkit", LLMCTL_DOCTOR_WARN, _("Install polkit (the package "
                                                             "polkitd)"),
                       _("polkit is not there: only root may select a model, set budgets and "
                         "quotas"));
  else if (!g_file_test (policy, G_FILE_TEST_EXISTS))
    llmctl_doctor_add (self, "polkit", LLMCTL_DOCTOR_WARN, _("Install the package llmsvc again"),
                       _("polkit does not know what it should allow: %s is missing"), policy);
  else
    llmctl_doctor_add (self, "polkit", LLMCTL_DOCTOR_OK, NULL,
                       _("polkit decides who may select a model, set budgets and quotas"));
}

static void
check_sandbox (LlmctlDoctor *self)
{
  g_autofree char *flatpak = g_strconcat (self->root, "/.flatpak-info", NULL);
  const char *snap = g_getenv ("SNAP_NAME");

  if (g_file_test (flatpak, G_FILE_TEST_EXISTS))
    llmctl_doctor_add (self, "sandbox", LLMCTL_DOCTOR_NOTE, NULL,
                       _("This runs in a Flatpak, and sees that application's contexts only"));
  else if (snap != NULL && *snap != '\0')
    llmctl_doctor_add (self, "sandbox", LLMCTL_DOCTOR_NOTE, NULL,
                       _("This runs in the snap %s, and sees that application's contexts only"),
                       snap);
  else
    llmctl_doctor_add (self, "sandbox", LLMCTL_DOCTOR_OK, NULL,
                       _("This does not run in a sandbox"));
}

static void
check_language (LlmctlDoctor *self)
{
  const char *locale = llmctl_i18n_get_locale ();

  if (!g_get_charset (NULL))
    llmctl_doctor_add (self, "language", LLMCTL_DOCTOR_WARN,
                       _("Take a locale with UTF-8, such as LC_ALL=C.UTF-8"),
                       _("The locale has no UTF-8: other languages than English come out wrong"));
  else
    llmctl_doctor_add (self, "language", LLMCTL_DOCTOR_OK, NULL, _("Messages are in “%s”"),
                       locale != NULL ? locale : "en");
}

static void
check_file (LlmctlDoctor *self,
            const char   *path)
{
  g_autofree char *full = g_strconcat (self->root, path, NULL);
  g_autoptr(GKeyFile) file = g_key_file_new ();
  g_autoptr(GError) error = NULL;

  if (g_key_file_load_from_file (file, full, G_KEY_FILE_NONE, &error))
    llmctl_doctor_add (self, "configuration", LLMCTL_DOCTOR_OK, NULL, _("%s can be read"), path);
  else if (!g_error_matches (error, G_FILE_ERROR, G_FILE_ERROR_NOENT))
    llmctl_doctor_add (self, "configuration", LLMCTL_DOCTOR_FAIL,
                       _("The service does not start with it; llmsvc.conf(5) says how it is "
                         "written"),
                       _("%s can't be read: %s"), path, error->message);
}

void
llmctl_doctor_check_user (LlmctlDoctor *self)
{
  g_autofree char *own = g_build_filename (g_get_user_config_dir (), "llmsvc", "llmsvc.conf", NULL);

  check_file (self, LLM_SYSCONFDIR "/llmsvc/llmsvc.conf");
  if (self->bus_type == G_BUS_TYPE_SESSION)
    check_file (self, own);
  if (self->bus != NULL)
    check_polkit (self);
  check_sandbox (self);
  check_language (self);
}
