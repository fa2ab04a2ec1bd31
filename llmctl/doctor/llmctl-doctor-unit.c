/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: the unit that systemd runs the service as, its sandbox and its limits. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <glib/gi18n.h>

#include "llmctl/output/llmctl-output.h"
#include "llmctl/bus/llmctl-service.h"

#define CHECK             "unit"
#define UNIT              "llmsvc.service"
#define SYSTEMD_NAME      "org.freedesktop.systemd1"
#define SYSTEMD_PATH      "/org/freedesktop/systemd1"
#define MANAGER_INTERFACE SYSTEMD_NAME ".Manager"
#define UNIT_INTERFACE    SYSTEMD_NAME ".Unit"
#define SERVICE_INTERFACE SYSTEMD_NAME ".Service"

typedef struct
{
  LlmctlDoctor *doctor;
  gboolean is_system;
  GVariant *unit;      /* (owned): a{sv} */
  GVariant *service;   /* (nullable) (owned): a{sv} */
} Unit;

static void
unit_clear (Unit *self)
{
  g_clear_pointer (&self->unit, g_variant_unref);
  g_clear_pointer (&self->service, g_variant_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Unit, unit_clear)

/* (transfer full) (nullable): the object path of the unit, of the process that serves or else of
 * the name. */
static char *
find_unit (LlmctlDoctor *doctor,
           GError      **error)
{
  g_autoptr(GVariant) reply = NULL;
  const char *path;

  if (doctor->pid != 0)
    reply = llmctl_doctor_call (doctor->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE,
                                "GetUnitByPID", g_variant_new ("(u)", doctor->pid), "(o)", NULL);
  if (reply == NULL)
    reply = llmctl_doctor_call (doctor->bus, SYSTEMD_NAME, SYSTEMD_PATH, MANAGER_INTERFACE,
                                "LoadUnit", g_variant_new ("(s)", UNIT), "(o)", error);
  if (reply == NULL)
    return NULL;

  g_variant_get (reply, "(&o)", &path);
  return g_strdup (path);
}

static GVariant *
read_properties (LlmctlDoctor *doctor,
                 const char   *path,
                 const char   *interface)
{
  g_autoptr(GVariant) reply =
      llmctl_doctor_call (doctor->bus, SYSTEMD_NAME, path, "org.freedesktop.DBus.Properties",
                          "GetAll", g_variant_new ("(s)", interface), "(a{sv})", NULL);

  return reply != NULL ? g_variant_get_child_value (reply, 0) : NULL;
}

static gboolean
is_true (GVariant   *properties,
         const char *name)
{
  gboolean value = FALSE;

  return g_variant_lookup (properties, name, "b", &value) && value;
}

/* --- findings --- */

static void
tell_of_state (Unit *self)
{
  const char *load = llmctl_dict_get_string (self->unit, "LoadState");
  const char *active = llmctl_dict_get_string (self->unit, "ActiveState");
  const char *sub = llmctl_dict_get_string (self->unit, "SubState");
  const char *result =
      self->service != NULL ? llmctl_dict_get_string (self->service, "Result") : "";

  if (g_str_equal (load, "masked"))
    llmctl_doctor_add (self->doctor, CHECK,
                       self->doctor->is_running ? LLMCTL_DOCTOR_NOTE : LLMCTL_DOCTOR_FAIL,
                       self->is_system ? _("To have it again: systemctl unmask llmsvc")
                                       : _("To have it again: systemctl --user unmask llmsvc"),
                       _("%s is masked: nothing may start it"), UNIT);
  else if (g_str_equal (load, "not-found"))
    llmctl_doctor_add (self->doctor, CHECK, LLMCTL_DOCTOR_NOTE, NULL,
                       _("systemd knows no %s here"), UNIT);
  else if (!g_str_equal (load, "loaded"))
    llmctl_doctor_add (self->doctor, CHECK, LLMCTL_DOCTOR_FAIL,
                       self->is_system ? _("See: systemctl status llmsvc")
                                       : _("See: systemctl --user status llmsvc"),
                       _("%s can't be loaded (%s)"), UNIT, load);
  else if (g_str_equal (active, "failed"))
    llmctl_doctor_add (self->doctor, CHECK, LLMCTL_DOCTOR_FAIL,
                       self->is_system ? _("Why: journalctl -u llmsvc -b; then: systemctl restart "
                                           "llmsvc")
                                       : _("Why: journalctl --user -u llmsvc -b; then: systemctl "
                                           "--user restart llmsvc"),
                       _("%s has failed (%s)"), UNIT, result);
  else
    llmctl_doctor_add (self->doctor, CHECK, LLMCTL_DOCTOR_OK, NULL,
                       /* Translators: a unit of systemd, and two words of systemd for its state */
                       _("%s is %s (%s)"), UNIT, active, sub);
}

static void
tell_of_restarts (Unit *self)
{
  guint64 n = llmctl_dict_get_number (self->service, "NRestarts");

  if (n > 0)
    llmctl_doctor_add (self->doctor, CHECK, LLMCTL_DOCTOR_WARN,
                       self->is_system ? _("Why: journalctl -u llmsvc -b")
                                       : _("Why: journalctl --user -u llmsvc -b"),
                       _("systemd had to start it again, %u times since it was started"),
                       (guint) n);
}

static void
tell_of_sandbox (Unit *self)
{
  /* what every manager can give, and what only the system's can */
  static const struct
  {
    const char *property;
    const char *key;
    gboolean is_system_only;
  } wanted[] = {
    { "NoNewPrivileges", "NoNewPrivileges=", FALSE },
    { "MemoryDenyWriteExecute", "MemoryDenyWriteExecute=", FALSE },
    { "PrivateNetwork", "PrivateNetwork=", TRUE },
    { "PrivateDevices", "PrivateDevices=", TRUE },
    { "ProtectKernelTunables", "ProtectKernelTunables=", TRUE },
  };
  g_autoptr(GString) missing = g_string_new (NULL);

  for (gsize i = 0; i < G_N_ELEMENTS (wanted); i++)
    if ((self->is_system || !wanted[i].is_system_only) &&
        !is_true (self->service, wanted[i].property))
      g_string_append_printf (missing, "%s%s", missing->len > 0 ? ", " : "", wanted[i].key);
  if (self->is_system &&
      !g_str_equal (llmctl_dict_get_string (self->service, "ProtectSystem"), "strict"))
    g_string_append_printf (missing, "%sProtectSystem=", missing->len > 0 ? ", " : "");

  if (missing->len == 0)
    llmctl_doctor_add (self->doctor, CHECK, LLMCTL_DOCTOR_OK, NULL, _("It runs in its sandbox"));
  else
    llmctl_doctor_add (self->doctor, CHECK, LLMCTL_DOCTOR_WARN,
                       self->is_system ? _("See what was changed: systemctl cat llmsvc")
                                       : _("See what was changed: systemctl --user cat llmsvc"),
                       _("A part of the sandbox is off: %s"), missing->str);
}

static void
tell_of_limits (Unit *self)
{
  static const char *const names[] = { "MemoryMax", "MemoryHigh" };

  for (gsize i = 0; i < G_N_ELEMENTS (names); i++)
    {
      guint64 limit = llmctl_dict_get_number (self->service, names[i]);
      g_autofree char *size = llmctl_format_bytes (limit);

      if (limit > 0 && limit < G_MAXUINT64)
        llmctl_doctor_add (self->doctor, CHECK, LLMCTL_DOCTOR_NOTE, NULL,
                           _("The unit limits its memory: %s=%s"), names[i], size);
    }
}

void
llmctl_doctor_check_unit (LlmctlDoctor *self)
{
  g_auto(Unit) unit = { .doctor = self };
  g_autoptr(GError) error = NULL;
  g_autofree char *path = NULL;
  const char *id;

  if (self->bus == NULL)
    return;

  path = find_unit (self, &error);
  if (path != NULL)
    unit.unit = read_properties (self, path, UNIT_INTERFACE);
  if (unit.unit == NULL)
    {
      llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_NOTE, NULL,
                         _("systemd does not answer on this bus, so its unit can't be looked at"));
      return;
    }

  unit.is_system = self->bus_type == G_BUS_TYPE_SYSTEM;
  unit.service = read_properties (self, path, SERVICE_INTERFACE);
  id = llmctl_dict_get_string (unit.unit, "Id");
  if (self->is_running && !g_str_equal (id, UNIT))
    {
      llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_NOTE, NULL,
                         _("It was not started as %s, but runs in %s: without the unit's sandbox "
                           "and without being started again"), UNIT, *id != '\0' ? id : "?");
      return;
    }
  tell_of_state (&unit);
  if (unit.service == NULL ||
      !g_str_equal (llmctl_dict_get_string (unit.unit, "LoadState"), "loaded"))
    return;
  tell_of_restarts (&unit);
  tell_of_sandbox (&unit);
  tell_of_limits (&unit);
}
