/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* llmctl doctor: the buses, and where the service is. */

#define G_LOG_DOMAIN "llmctl"

#include "config.h"

#include "llmctl/doctor/llmctl-doctor.h"

#include <glib/gi18n.h>

#include "llmctl/bus/llmctl-service.h"
#include "llmctl/bus/llmctl-wait.h"

#define CHECK          "bus"
#define BUS_NAME       "org.freedesktop.DBus"
#define BUS_PATH       "/org/freedesktop/DBus"
#define CONNECT_LIMIT_MS 3000

/* What is known of one bus. */
typedef struct
{
  GBusType type;
  GDBusConnection *bus;   /* (nullable) (owned) */
  gboolean is_running;
  gboolean is_activatable;
  guint32 pid;
} Place;

static void
place_clear (Place *self)
{
  g_clear_object (&self->bus);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Place, place_clear)

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

static GVariant *
ask_bus (Place      *place,
         const char *method,
         GVariant   *arguments,
         const char *reply_type)
{
  return llmctl_doctor_call (place->bus, BUS_NAME, BUS_PATH, BUS_NAME, method, arguments,
                             reply_type, NULL);
}

static void
look_for_service (Place *place)
{
  g_autoptr(GVariant) owned = ask_bus (place, "NameHasOwner",
                                       g_variant_new ("(s)", LLMCTL_SERVICE_NAME), "(b)");
  g_autoptr(GVariant) pid = NULL;
  g_autoptr(GVariant) names = ask_bus (place, "ListActivatableNames", NULL, "(as)");
  g_autofree const char **list = NULL;

  if (owned != NULL)
    g_variant_get (owned, "(b)", &place->is_running);
  if (place->is_running)
    pid = ask_bus (place, "GetConnectionUnixProcessID",
                   g_variant_new ("(s)", LLMCTL_SERVICE_NAME), "(u)");
  if (pid != NULL)
    g_variant_get (pid, "(u)", &place->pid);
  if (names != NULL)
    {
      g_variant_get (names, "(^a&s)", &list);
      place->is_activatable = g_strv_contains (list, LLMCTL_SERVICE_NAME);
    }
}

static void
tell_of_place (LlmctlDoctor *self,
               Place        *place,
               GError       *error)
{
  gboolean is_system = place->type == G_BUS_TYPE_SYSTEM;

  if (place->bus == NULL)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_NOTE,
                       is_system || g_getenv ("DBUS_SESSION_BUS_ADDRESS") != NULL
                         ? NULL
                         : _("DBUS_SESSION_BUS_ADDRESS is not set, so this process belongs to no "
                             "login session; run it in one, or with “dbus-run-session”"),
                       is_system ? _("The system bus can't be reached: %s")
                                 : _("The session bus can't be reached: %s"),
                       error->message);
  else if (place->is_running)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_OK, NULL,
                       is_system ? _("The service is on the system bus, as process %u")
                                 : _("The service is on the session bus, as process %u"),
                       place->pid);
  else if (place->is_activatable)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_OK, NULL,
                       is_system ? _("The first call on the system bus starts the service")
                                 : _("The first call on the session bus starts the service"));
  else
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_NOTE, NULL,
                       is_system ? _("The service is not on the system bus")
                                 : _("The service is not on the session bus"));

  /* Started by hand it does not come back by itself. */
  if (place->is_running && !place->is_activatable)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_NOTE, NULL,
                       is_system ? _("The system bus can't start it: when it ends, it is gone")
                                 : _("The session bus can't start it: when it ends, it is gone"));
}

static void
take_place (LlmctlDoctor *self,
            Place        *place)
{
  self->bus_type = place->type;
  g_set_object (&self->bus, place->bus);
  self->is_running = place->is_running;
  self->pid = place->pid;
}

void
llmctl_doctor_check_buses (LlmctlDoctor *self)
{
  g_auto(Place) system = { .type = G_BUS_TYPE_SYSTEM };
  g_auto(Place) session = { .type = G_BUS_TYPE_SESSION };
  Place *const places[] = { &system, &session };

  for (gsize i = 0; i < G_N_ELEMENTS (places); i++)
    {
      g_autoptr(GError) error = NULL;

      if (llmctl_globals.bus_type != G_BUS_TYPE_NONE && llmctl_globals.bus_type != places[i]->type)
        continue;
      places[i]->bus = connect_to (places[i]->type, &error);
      if (places[i]->bus != NULL)
        look_for_service (places[i]);
      tell_of_place (self, places[i], error);
    }

  if (system.is_running && session.is_running)
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_WARN,
                       _("One of them is enough: systemctl --user mask --now llmsvc"),
                       _("It runs on both buses, with a model in memory twice; programs take the "
                         "one on the system bus"));
  /* as programs look for it */
  if (system.is_running || system.is_activatable)
    take_place (self, &system);
  else if (session.is_running || session.is_activatable)
    take_place (self, &session);
  else
    llmctl_doctor_add (self, CHECK, LLMCTL_DOCTOR_FAIL,
                       session.bus == NULL && llmctl_globals.bus_type != G_BUS_TYPE_SYSTEM
                         ? _("Install the package llmsvc; its service for all users needs no login "
                             "session: “systemctl start llmsvc”")
                         : _("Install the package llmsvc, or start the service yourself with "
                             "“llmsvcd &”"),
                       _("The service is on no bus, and no bus can start it"));
}
