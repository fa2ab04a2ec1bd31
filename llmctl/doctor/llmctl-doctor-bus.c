/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: the buses, where the service is, and the unit that systemd runs it as. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-place.h"
#include "llmctl/bus/llmctl-wait.h"
#include "llmctl/output/llmctl-output.h"

#define CONNECT_LIMIT_MS 3000

/* What the bus gives a service to start. */
#define START_LIMIT_MS 30000

#define UNIT         "llmsvc.service"
#define SYSTEMD_NAME "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"

/* --- the buses --- */

static gboolean
on_limit (gpointer data)
{
  g_cancellable_cancel (data);
  return G_SOURCE_CONTINUE;
}

/* (transfer full) (nullable): a bus that does not let us in within seconds is none. */
static GDBusConnection *
connect_to (GBusType   type,
            GError   **error)
{
  g_autoptr(GCancellable) cancellable = g_cancellable_new ();
  g_autoptr(GAsyncResult) result = NULL;
  guint limit = g_timeout_add (CONNECT_LIMIT_MS, on_limit, cancellable);
  GDBusConnection *bus;

  g_bus_get (type, cancellable, llmctl_wait_take, &result);
  bus = g_bus_get_finish (llmctl_wait (&result), error);
  g_source_remove (limit);
  if (bus != NULL)
    g_dbus_connection_set_exit_on_close (bus, FALSE);

  return bus;
}

/* The process that serves on @bus; 0 when it is not known. */
static guint32
get_pid (GDBusConnection *bus)
{
  g_autoptr(GVariant) pid =
      llmctl_doctor_call (bus, LLMCTL_BUS_NAME, LLMCTL_BUS_PATH,
                          LLMCTL_BUS_NAME ".GetConnectionUnixProcessID",
                          g_variant_new ("(s)", LLMCTL_SERVICE_NAME), "u");

  return pid != NULL ? g_variant_get_uint32 (pid) : 0;
}

/* (transfer full): what to do about a masked unit. */
static char *
make_unmask_hint (GBusType type)
{
  g_autofree char *unmask = llmctl_place_make_unmask (type);

  return g_strdup_printf (type == G_BUS_TYPE_SYSTEM ? _("To have it again: %s")
                                                    : _("To have your own: %s"), unmask);
}

/* The bus of @type, nullable in @bus. */
static void
check_bus (LlmctlDoctor     *self,
           GBusType          type,
           GDBusConnection **bus)
{
  gboolean is_system = type == G_BUS_TYPE_SYSTEM;
  g_autoptr(GError) error = NULL;
  gboolean is_running = FALSE;
  gboolean is_activatable = FALSE;
  g_autofree char *unmask = NULL;
  guint32 pid = 0;

  *bus = connect_to (type, &error);
  if (*bus != NULL)
    {
      is_running = llmctl_doctor_bus_lists (*bus, "ListNames", LLMCTL_SERVICE_NAME);
      pid = is_running ? get_pid (*bus) : 0;
      is_activatable = llmctl_doctor_bus_lists (*bus, "ListActivatableNames", LLMCTL_SERVICE_NAME);
    }

  if (*bus == NULL)
    llmctl_doctor_add (self, LLMCTL_DOCTOR_NOTE,
                       is_system || g_getenv ("DBUS_SESSION_BUS_ADDRESS") != NULL
                         ? NULL
                         : _("DBUS_SESSION_BUS_ADDRESS is not set, so this process belongs to no "
                             "login session; run it in one, or with “dbus-run-session”"),
                       is_system ? _("The system bus can't be reached: %s")
                                 : _("The session bus can't be reached: %s"), error->message);
  else if (is_running)
    tell_ok (self,
             is_system ? _("The service is on the system bus, as process %u")
                       : _("The service is on the session bus, as process %u"), pid);
  else if (is_activatable && llmctl_place_is_masked (*bus))
    {
      /* with packages the users' unit is masked on purpose */
      unmask = make_unmask_hint (type);
      llmctl_doctor_add (self, LLMCTL_DOCTOR_NOTE, unmask,
                         self->bus != NULL
                           ? _("The session bus starts none of your own: its unit is masked, on "
                               "purpose where the service on the system bus is for all users")
                         : is_system ? _("The system bus can't start it: its unit is masked")
                                     : _("The session bus can't start it: its unit is masked"));
    }
  else if (is_activatable)
    tell_ok (self,
             is_system ? _("The first call on the system bus starts the service")
                       : _("The first call on the session bus starts the service"));
  else
    tell_note (self,
               is_system ? _("The service is not on the system bus")
                         : _("The service is not on the session bus"));

  /* Started by hand it does not come back by itself. */
  if (is_running && !is_activatable)
    tell_note (self,
               is_system ? _("The system bus can't start it: when it ends, it is gone")
                         : _("The session bus can't start it: when it ends, it is gone"));
  if (is_running && self->is_running)
    tell_warn (self, _("One of them is enough: systemctl --user mask --now llmsvc"),
               _("It runs on both buses, with a model in memory twice; programs take the one on "
                 "the system bus"));
  if (self->bus == NULL && (is_running || is_activatable))
    {
      self->bus_type = type;
      self->bus = g_object_ref (*bus);
      self->is_running = is_running;
      self->pid = pid;
    }
}

static void
check_buses (LlmctlDoctor *self)
{
  GBusType only = llmctl_globals.bus_type;
  g_autoptr(GDBusConnection) system = NULL;
  g_autoptr(GDBusConnection) session = NULL;

  /* in the order in which programs look for it */
  if (only != G_BUS_TYPE_SESSION)
    check_bus (self, G_BUS_TYPE_SYSTEM, &system);
  if (only != G_BUS_TYPE_SYSTEM)
    check_bus (self, G_BUS_TYPE_SESSION, &session);
  if (self->bus == NULL)
    tell_fail (self,
               session == NULL && only != G_BUS_TYPE_SYSTEM
                 ? _("Install the package llmsvc; its service for all users needs no login "
                     "session: “sudo systemctl start llmsvc”")
                 : _("Install the package llmsvc, or start the service yourself with “llmsvcd &”"),
               _("The service is on no bus, and no bus can start it"));
}

static void
start (LlmctlDoctor *self)
{
  g_autoptr(GVariant) reply = NULL;
  g_autoptr(GError) error = NULL;

  /* of a masked one the unit tells */
  if (!self->shall_start || self->bus == NULL || self->is_running ||
      llmctl_place_is_masked (self->bus))
    return;

  reply = g_dbus_connection_call_sync (self->bus, LLMCTL_BUS_NAME, LLMCTL_BUS_PATH, LLMCTL_BUS_NAME,
                                       "StartServiceByName",
                                       g_variant_new ("(su)", LLMCTL_SERVICE_NAME, 0),
                                       G_VARIANT_TYPE ("(u)"), G_DBUS_CALL_FLAGS_NONE,
                                       START_LIMIT_MS, NULL, &error);
  if (reply == NULL)
    {
      g_dbus_error_strip_remote_error (error);
      tell_fail (self, _("Why: journalctl -u llmsvc -b (with --user for your own)"),
                 _("The bus can't start it: %s"), error->message);
      return;
    }

  tell_ok (self, _("The bus has started it"));
  self->is_running = TRUE;
  self->pid = get_pid (self->bus);
}

/* --- the unit that systemd runs it as --- */

static void
tell_of_state (LlmctlDoctor *self,
               GVariant     *unit,
               GVariant     *service)
{
  gboolean is_system = self->bus_type == G_BUS_TYPE_SYSTEM;
  const char *load = llmctl_dict_get_string (unit, "LoadState");
  g_autofree char *hint = make_unmask_hint (self->bus_type);
  const char *active = llmctl_dict_get_string (unit, "ActiveState");

  if (g_str_equal (load, "masked"))
    llmctl_doctor_add (self, self->is_running ? LLMCTL_DOCTOR_NOTE : LLMCTL_DOCTOR_FAIL, hint,
                       _("%s is masked: nothing may start it"), UNIT);
  else if (g_str_equal (load, "not-found"))
    tell_note (self, _("systemd knows no %s here"), UNIT);
  else if (!g_str_equal (load, "loaded"))
    tell_fail (self,
               is_system ? _("See: systemctl status llmsvc")
                         : _("See: systemctl --user status llmsvc"), _("%s can't be loaded (%s)"),
               UNIT, load);
  else if (g_str_equal (active, "failed"))
    tell_fail (self,
               is_system ? _("Why: journalctl -u llmsvc -b; then: systemctl restart llmsvc")
                         : _("Why: journalctl --user -u llmsvc -b; then: systemctl --user restart "
                             "llmsvc"), _("%s has failed (%s)"), UNIT,
               service != NULL ? llmctl_dict_get_string (service, "Result") : "");
  else
    /* Translators: a unit of systemd, and two words of systemd for its state */
    tell_ok (self, _("%s is %s (%s)"), UNIT, active, llmctl_dict_get_string (unit, "SubState"));
}

static void
tell_of_sandbox (LlmctlDoctor *self,
                 GVariant     *service)
{
  /* two that every manager can give, and what only the system's can */
  static const char *const wanted[] = { "NoNewPrivileges", "MemoryDenyWriteExecute",
                                        "PrivateNetwork",  "PrivateDevices",
                                        "ProtectKernelTunables", "ProtectSystem" };
  gboolean is_system = self->bus_type == G_BUS_TYPE_SYSTEM;
  g_autoptr(GString) missing = g_string_new (NULL);

  for (gsize i = 0; i < (is_system ? G_N_ELEMENTS (wanted) : 2); i++)
    {
      /* the last one is a word */
      gboolean is_set = g_str_equal (llmctl_dict_get_string (service, wanted[i]), "strict");

      (void) g_variant_lookup (service, wanted[i], "b", &is_set);
      if (!is_set)
        g_string_append_printf (missing, "%s%s=", missing->len > 0 ? ", " : "", wanted[i]);
    }

  if (missing->len == 0)
    tell_ok (self, _("It runs in its sandbox"));
  else
    tell_warn (self,
               is_system ? _("See what was changed: systemctl cat llmsvc")
                         : _("See what was changed: systemctl --user cat llmsvc"),
               _("A part of the sandbox is off: %s"), missing->str);
}

static void
check_unit (LlmctlDoctor *self)
{
  static const char *const limits[] = { "MemoryMax", "MemoryHigh" };
  g_autoptr(GVariant) path = NULL;
  g_autoptr(GVariant) unit = NULL;
  g_autoptr(GVariant) service = NULL;
  const char *at = NULL;
  const char *id;
  guint64 n_restarts;

  if (self->bus == NULL)
    return;

  /* of the process that serves, or else of the name */
  if (self->pid != 0)
    path = llmctl_doctor_call (self->bus, SYSTEMD_NAME, SYSTEMD_PATH,
                               SYSTEMD_NAME ".Manager.GetUnitByPID",
                               g_variant_new ("(u)", self->pid), "o");
  if (path == NULL)
    path = llmctl_doctor_call (self->bus, SYSTEMD_NAME, SYSTEMD_PATH,
                               SYSTEMD_NAME ".Manager.LoadUnit", g_variant_new ("(s)", UNIT), "o");
  if (path != NULL)
    {
      at = g_variant_get_string (path, NULL);
      unit = llmctl_doctor_get_all (self->bus, SYSTEMD_NAME, at, SYSTEMD_NAME ".Unit", NULL);
    }
  if (unit == NULL)
    {
      tell_note (self, _("systemd does not answer on this bus, so its unit can't be looked at"));
      return;
    }

  service = llmctl_doctor_get_all (self->bus, SYSTEMD_NAME, at, SYSTEMD_NAME ".Service", NULL);
  id = llmctl_dict_get_string (unit, "Id");
  if (self->is_running && !g_str_equal (id, UNIT))
    {
      tell_note (self,
                 _("It was not started as %s, but runs in %s: without the unit's sandbox and "
                   "without being started again"), UNIT, *id != '\0' ? id : "?");
      return;
    }
  tell_of_state (self, unit, service);
  if (service == NULL || !g_str_equal (llmctl_dict_get_string (unit, "LoadState"), "loaded"))
    return;

  n_restarts = llmctl_dict_get_number (service, "NRestarts");
  if (n_restarts > 0)
    tell_warn (self,
               self->bus_type == G_BUS_TYPE_SYSTEM ? _("Why: journalctl -u llmsvc -b")
                                                   : _("Why: journalctl --user -u llmsvc -b"),
               _("systemd had to start it again, %u times since it was started"),
               (guint) n_restarts);
  tell_of_sandbox (self, service);
  for (gsize i = 0; i < G_N_ELEMENTS (limits); i++)
    {
      guint64 limit = llmctl_dict_get_number (service, limits[i]);
      g_autofree char *size = llmctl_format_bytes (limit);

      if (limit > 0 && limit < G_MAXUINT64)
        tell_note (self, _("The unit limits its memory: %s=%s"), limits[i], size);
    }
}

const LlmctlCheck llmctl_doctor_bus_checks[] = {
  { "bus", check_buses },
  { "start", start },
  { "unit", check_unit },
  { NULL },
};
