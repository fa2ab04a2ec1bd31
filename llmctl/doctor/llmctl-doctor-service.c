/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: what the service says of itself, and how its use goes. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <glib/gi18n.h>

#include "common/llmsvc-names.h"
#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

/* Of a quota that is used, in percent. */
#define NEARLY_FULL 90

/* Of questions or answers, in percent. */
#define MANY_FAILED 10
#define MANY_LATE   10
#define FEW         10

static GVariant *
read_properties (LlmctlDoctor *self,
                 const char   *path,
                 const char   *interface,
                 GError      **error)
{
  g_autoptr(GVariant) reply =
      llmctl_doctor_call (self->bus, LLMCTL_SERVICE_NAME, path, "org.freedesktop.DBus.Properties",
                          "GetAll", g_variant_new ("(s)", interface), "(a{sv})", error);

  return reply != NULL ? g_variant_get_child_value (reply, 0) : NULL;
}

/* --- itself --- */

static void
tell_of_version (LlmctlDoctor *self)
{
  const char *version = llmctl_dict_get_string (self->service, "Version");
  guint64 api = llmctl_dict_get_number (self->service, "ApiVersion");

  if (g_str_equal (version, LLM_VERSION) && api == LLMSVC_API_VERSION)
    llmctl_doctor_add (self, "service", LLMCTL_DOCTOR_OK, NULL,
                       _("The service answers: version %s, as llmctl"), version);
  else
    llmctl_doctor_add (self, "service", LLMCTL_DOCTOR_WARN,
                       _("After an upgrade the service goes on as it was until it is started "
                         "again: systemctl restart llmsvc (with --user for your own)"),
                       _("The service is version %s with interface %u, llmctl %s with interface "
                         "%u"),
                       *version != '\0' ? version : "?", (guint) api, LLM_VERSION,
                       LLMSVC_API_VERSION);
}

static void
tell_of_availability (LlmctlDoctor *self)
{
  const char *availability = llmctl_dict_get_string (self->service, "Availability");
  const char *reason = llmctl_dict_get_string (self->service, "AvailabilityReason");

  if (g_str_equal (availability, "ready"))
    llmctl_doctor_add (self, "service", LLMCTL_DOCTOR_OK, NULL, _("It is ready for questions"));
  else if (g_str_equal (availability, "loading"))
    llmctl_doctor_add (self, "service", LLMCTL_DOCTOR_NOTE, NULL,
                       _("It is loading a model; questions wait"));
  else if (g_str_equal (availability, "no-model"))
    llmctl_doctor_add (self, "service", LLMCTL_DOCTOR_FAIL,
                       _("Put a GGUF file into one of the folders that llmsvc.conf(5) names, or "
                         "install llmsvc-model-demo to try"),
                       _("It has no model: %s"), reason);
  else if (g_str_equal (availability, "disabled"))
    llmctl_doctor_add (self, "service", LLMCTL_DOCTOR_FAIL, _("Ask the administrator"),
                       _("The administrator has switched it off: %s"), reason);
  else
    llmctl_doctor_add (self, "service", LLMCTL_DOCTOR_FAIL,
                       _("More is in the journal: journalctl -u llmsvc -b (with --user for your "
                         "own)"),
                       _("It can't answer questions (%s): %s"),
                       *availability != '\0' ? availability : "?", reason);
}

static void
tell_of_pressure (LlmctlDoctor *self)
{
  const char *pressure = llmctl_dict_get_string (self->memory, "Pressure");
  g_autofree char *held = llmctl_format_bytes (llmctl_dict_get_number (self->memory, "Resident"));

  if (g_str_equal (pressure, "none"))
    llmctl_doctor_add (self, "memory", LLMCTL_DOCTOR_OK, NULL,
                       _("It holds %s, and memory is not pressed"), held);
  else
    llmctl_doctor_add (self, "memory", LLMCTL_DOCTOR_WARN,
                       _("“llmctl top” shows how it goes on; other programs need memory, or the "
                         "budget is small"),
                       _("It holds %s, and gives memory back: pressure is “%s”"), held, pressure);
}

void
llmctl_doctor_check_service (LlmctlDoctor *self)
{
  g_autoptr(GError) error = NULL;
  const char *path;

  if (self->bus == NULL || !self->is_running)
    return;

  self->service = read_properties (self, LLMCTL_SERVICE_PATH, LLMCTL_SERVICE_INTERFACE, &error);
  if (self->service == NULL)
    {
      g_dbus_error_strip_remote_error (error);
      llmctl_doctor_add (self, "service", LLMCTL_DOCTOR_FAIL,
                         _("It hangs, or is not llmsvc. Its journal: journalctl -u llmsvc -b; a "
                           "new start: systemctl restart llmsvc (with --user for your own)"),
                         _("The service does not answer: %s"), error->message);
      return;
    }

  tell_of_version (self);
  tell_of_availability (self);
  self->memory = read_properties (self, LLMCTL_SERVICE_PATH, LLMCTL_MEMORY_INTERFACE, NULL);
  if (self->memory != NULL)
    tell_of_pressure (self);
  path = llmctl_dict_get_string (self->service, "ActiveModel");
  if (g_variant_is_object_path (path) && !g_str_equal (path, "/"))
    self->model = read_properties (self, path, LLMCTL_MODEL_INTERFACE, NULL);
}

/* --- its use --- */

static void
tell_of_quota (LlmctlDoctor *self,
               GVariant     *app,
               guint        *n_full)
{
  static const char *const keys[] = { "contexts", "tokens", "disk" };

  for (gsize i = 0; i < G_N_ELEMENTS (keys); i++)
    {
      g_autofree char *name = g_strconcat ("quota-", keys[i], NULL);
      guint64 used = llmctl_dict_get_number (app, keys[i]);
      guint64 quota = llmctl_dict_get_number (app, name);

      if (quota == 0 || (double) used < (double) quota * NEARLY_FULL / 100)
        continue;
      ++*n_full;
      llmctl_doctor_add (self, "quota", LLMCTL_DOCTOR_WARN,
                         _("Close what is not needed (“llmctl context list”), or raise it: “llmctl "
                           "quota APP KEY=VALUE”"),
                         _("%s of user %u has %.0f %% of its quota of “%s”"),
                         llmctl_apps_get_title (app), (guint) llmctl_dict_get_number (app, "uid"),
                         (double) used / (double) quota * 100, keys[i]);
    }
}

static void
check_quotas (LlmctlDoctor *self)
{
  g_autoptr(GVariant) reply =
      llmctl_doctor_call (self->bus, LLMCTL_SERVICE_NAME, LLMCTL_SERVICE_PATH,
                          LLMCTL_ADMIN_INTERFACE, "ListApps", g_variant_new ("(a{sv})", NULL),
                          "(aa{sv})", NULL);
  g_autoptr(GVariant) apps = reply != NULL ? g_variant_get_child_value (reply, 0) : NULL;
  GVariantIter iter;
  GVariant *app;
  guint n_full = 0;

  if (apps == NULL)
    return;
  g_variant_iter_init (&iter, apps);
  while (g_variant_iter_loop (&iter, "@a{sv}", &app))
    tell_of_quota (self, app, &n_full);
  if (n_full == 0)
    llmctl_doctor_add (self, "quota", LLMCTL_DOCTOR_OK, NULL, _("No application is at its quota"));
}

static gboolean
is_many (guint64 part,
         guint64 whole,
         guint   percent)
{
  return part >= FEW && (double) part > (double) whole * percent / 100;
}

static void
tell_of_failures (LlmctlDoctor *self,
                  GVariant     *statistics)
{
  guint64 requests = llmctl_dict_get_number (statistics, "requests");
  guint64 failed = llmctl_dict_get_number (statistics, "failed");
  guint64 met = llmctl_dict_get_number (statistics, "slo-met");
  guint64 missed = llmctl_dict_get_number (statistics, "slo-missed");
  guint64 refused = llmctl_dict_get_number (statistics, "refused");
  guint64 faulted = llmctl_dict_get_number (statistics, "kv-faulted-chunks");
  guint n_before = self->findings->len;

  if (is_many (failed, requests, MANY_FAILED))
    llmctl_doctor_add (self, "use", LLMCTL_DOCTOR_WARN,
                       _("The journal has each one with its error: journalctl -u llmsvc "
                         "LLM_END=failed LLM_END=refused"),
                       _("%u of %u questions have failed since it was started"), (guint) failed,
                       (guint) requests);
  if (is_many (missed, met + missed, MANY_LATE))
    llmctl_doctor_add (self, "use", LLMCTL_DOCTOR_WARN,
                       _("A smaller model, fewer programs at a time, or “slo=background” for what "
                         "nobody waits for"),
                       _("%u of %u answers came later than they were wanted"), (guint) missed,
                       (guint) (met + missed));
  if (refused > 0)
    llmctl_doctor_add (self, "use", LLMCTL_DOCTOR_NOTE, NULL,
                       _("%u questions were refused because answers would have come far too late"),
                       (guint) refused);
  if (faulted > 0)
    llmctl_doctor_add (self, "use", LLMCTL_DOCTOR_WARN,
                       _("Nothing is lost by it, but if it goes on, look after the disk: "
                         "journalctl -k -b"),
                       _("%u parts of contexts were missing or damaged on the disk and were "
                         "computed again"), (guint) faulted);
  if (self->findings->len == n_before)
    llmctl_doctor_add (self, "use", LLMCTL_DOCTOR_OK, NULL,
                       _("%u questions since it was started, %u of them failed"), (guint) requests,
                       (guint) failed);
}

void
llmctl_doctor_check_use (LlmctlDoctor *self)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GVariant) statistics = NULL;

  if (self->service == NULL)
    return;

  check_quotas (self);
  reply = llmctl_doctor_call (self->bus, LLMCTL_SERVICE_NAME, LLMCTL_SERVICE_PATH,
                              LLMCTL_SERVICE_INTERFACE, "GetStatistics",
                              g_variant_new ("(a{sv})", NULL), "(a{sv})", NULL);
  if (reply == NULL)
    return;
  statistics = g_variant_get_child_value (reply, 0);
  tell_of_failures (self, statistics);
}
