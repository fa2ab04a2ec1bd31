/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-power.h"

#include <gio/gunixfdlist.h>
#include <unistd.h>

#include "base/llm-power-supply.h"

#define LOGIND_NAME "org.freedesktop.login1"
#define LOGIND_PATH "/org/freedesktop/login1"
#define LOGIND_INTERFACE "org.freedesktop.login1.Manager"

/* A sign of life is all that is asked of others; who is slow is not waited for. */
#define CALL_TIMEOUT_MS 10000
/* Without UPower: how often the kernel is asked, where there is a battery. */
#define SUPPLY_INTERVAL_S 30

/* A property of another service that is followed while it is there. */
typedef enum
{
  SOURCE_BATTERY,
  SOURCE_PROFILE,
  SOURCE_OLD_PROFILE,   /* the same daemon under its first name */
  N_SOURCES
} SourceKind;

static const struct
{
  const char *name;
  const char *path;
  const char *interface;
  const char *property;
  const char *type;
} sources[N_SOURCES] = {
  { "org.freedesktop.UPower", "/org/freedesktop/UPower", "org.freedesktop.UPower", "OnBattery",
    "b" },
  { "org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles",
    "org.freedesktop.UPower.PowerProfiles", "ActiveProfile", "s" },
  { "net.hadess.PowerProfiles", "/net/hadess/PowerProfiles", "net.hadess.PowerProfiles",
    "ActiveProfile", "s" },
};

typedef struct
{
  LlmBusPower *power;        /* (unowned) */
  SourceKind kind;
  guint watch;
  guint subscription;
  gboolean is_there;
  gboolean value;            /* on battery; saves power */
} Source;

struct _LlmBusPower
{
  LlmEngine *engine;
  GCancellable *cancellable;
  GDBusConnection *connection;   /* (nullable) */
  char *root;                    /* (nullable) */
  Source sources[N_SOURCES];
  guint supply_timer;            /* source */

  guint logind_watch;
  guint logind_subscription;
  gboolean has_logind;
  gboolean is_suspending;
  guint n_suspends;              /* so far */
  int lock;                      /* the machine does not sleep before it is closed; -1: none */
};

/* --- batteries and profiles --- */

static void
update (LlmBusPower *self)
{
  const Source *profile = &self->sources[SOURCE_PROFILE];
  const Source *old_profile = &self->sources[SOURCE_OLD_PROFILE];

  llm_engine_set_on_battery (self->engine, self->sources[SOURCE_BATTERY].value);
  llm_engine_set_power_saver (self->engine, (profile->is_there && profile->value) ||
                                              (old_profile->is_there && old_profile->value));
}

static void read_supply (LlmBusPower *self);

static gboolean
on_supply_time (gpointer data)
{
  LlmBusPower *self = data;

  self->supply_timer = 0;
  read_supply (self);
  return G_SOURCE_REMOVE;
}

static void
on_supply_read (GObject      *object,
                GAsyncResult *result,
                gpointer      data)
{
  g_autoptr(GError) error = NULL;
  gssize supply = g_task_propagate_int (G_TASK (result), &error);
  LlmBusPower *self = data;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  /* UPower has come meanwhile */
  if (self->sources[SOURCE_BATTERY].is_there)
    return;
  self->sources[SOURCE_BATTERY].value = supply == LLM_POWER_SUPPLY_BATTERY;
  update (self);
  if (supply != LLM_POWER_SUPPLY_NONE && self->supply_timer == 0)
    self->supply_timer = g_timeout_add_seconds (SUPPLY_INTERVAL_S, on_supply_time, self);
}

static void
run_supply (GTask        *task,
            gpointer      source,
            gpointer      data,
            GCancellable *cancellable)
{
  g_task_return_int (task, llm_power_supply_read (data));
}

static void
read_supply (LlmBusPower *self)
{
  g_autoptr(GTask) task = g_task_new (NULL, self->cancellable, on_supply_read, self);

  g_task_set_task_data (task, g_strdup (self->root), g_free);
  g_task_run_in_thread (task, run_supply);
}

/* What others say is checked: it need not be what their documentation promises. */
static void
take_value (Source   *source,
            GVariant *value)
{
  if (!g_variant_is_of_type (value, G_VARIANT_TYPE (sources[source->kind].type)))
    return;
  if (source->kind == SOURCE_BATTERY)
    source->value = g_variant_get_boolean (value);
  else
    source->value = g_str_equal (g_variant_get_string (value, NULL), "power-saver");
  update (source->power);
}

static void
on_got (GObject      *object,
        GAsyncResult *result,
        gpointer      data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply =
      g_dbus_connection_call_finish (G_DBUS_CONNECTION (object), result, &error);
  g_autoptr(GVariant) value = NULL;
  Source *source = data;

  if (reply == NULL)
    {
      if (!g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        g_debug ("%s does not say %s: %s", sources[source->kind].name,
                 sources[source->kind].property, error->message);
      return;
    }
  if (!source->is_there)
    return;
  g_variant_get (reply, "(v)", &value);
  take_value (source, value);
}

static void
get_value (Source *source)
{
  g_dbus_connection_call (source->power->connection, sources[source->kind].name,
                          sources[source->kind].path, "org.freedesktop.DBus.Properties", "Get",
                          g_variant_new ("(ss)", sources[source->kind].interface,
                                         sources[source->kind].property),
                          G_VARIANT_TYPE ("(v)"), G_DBUS_CALL_FLAGS_NO_AUTO_START, CALL_TIMEOUT_MS,
                          source->power->cancellable, on_got, source);
}

static void
on_properties_changed (GDBusConnection *connection,
                       const char      *sender,
                       const char      *path,
                       const char      *interface,
                       const char      *signal,
                       GVariant        *arguments,
                       gpointer         data)
{
  Source *source = data;
  g_autoptr(GVariant) changed = NULL;
  g_autoptr(GVariant) value = NULL;
  g_auto(GStrv) stale = NULL;

  if (!source->is_there || !g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(sa{sv}as)")))
    return;
  g_variant_get (arguments, "(&s@a{sv}^as)", NULL, &changed, &stale);
  value = g_variant_lookup_value (changed, sources[source->kind].property, NULL);
  if (value != NULL)
    take_value (source, value);
  else if (g_strv_contains ((const char *const *) stale, sources[source->kind].property))
    get_value (source);
}

static void
on_source_appeared (GDBusConnection *connection,
                    const char      *name,
                    const char      *owner,
                    gpointer         data)
{
  Source *source = data;

  source->is_there = TRUE;
  if (source->kind == SOURCE_BATTERY)
    g_clear_handle_id (&source->power->supply_timer, g_source_remove);
  get_value (source);
}

static void
on_source_vanished (GDBusConnection *connection,
                    const char      *name,
                    gpointer         data)
{
  Source *source = data;
  LlmBusPower *self = source->power;

  source->is_there = FALSE;
  if (source->kind == SOURCE_BATTERY)
    read_supply (self);
  else
    update (self);
}

static void
watch_source (LlmBusPower *self,
              SourceKind   kind)
{
  Source *source = &self->sources[kind];

  source->subscription = g_dbus_connection_signal_subscribe (
      self->connection, sources[kind].name, "org.freedesktop.DBus.Properties", "PropertiesChanged",
      sources[kind].path, sources[kind].interface, G_DBUS_SIGNAL_FLAGS_NONE, on_properties_changed,
      source, NULL);
  source->watch = g_bus_watch_name_on_connection (self->connection, sources[kind].name,
                                                  G_BUS_NAME_WATCHER_FLAGS_NONE,
                                                  on_source_appeared, on_source_vanished, source,
                                                  NULL);
}

/* --- suspend --- */

static void
release_lock (LlmBusPower *self)
{
  if (self->lock >= 0)
    close (self->lock);
  self->lock = -1;
}

static void
on_locked (GObject      *object,
           GAsyncResult *result,
           gpointer      data)
{
  g_autoptr(GUnixFDList) fds = NULL;
  g_autoptr(GError) error = NULL;
  g_autoptr(GVariant) reply = g_dbus_connection_call_with_unix_fd_list_finish (
      G_DBUS_CONNECTION (object), &fds, result, &error);
  LlmBusPower *self = data;
  int fd = -1;
  int handle;

  if (reply != NULL && fds != NULL)
    {
      g_variant_get (reply, "(h)", &handle);
      fd = g_unix_fd_list_get (fds, handle, &error);
    }
  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  if (fd < 0)
    {
      g_message ("The machine may sleep before contexts are written, which costs time when it "
                 "loses its power meanwhile: logind gives no lock: %s",
                 error != NULL ? error->message : "there is no file descriptor in its reply");
      return;
    }
  release_lock (self);
  self->lock = fd;
  /* asked for before, given after the machine began to sleep, or after logind went */
  if (self->is_suspending || !self->has_logind)
    release_lock (self);
}

static void
take_lock (LlmBusPower *self)
{
  g_dbus_connection_call_with_unix_fd_list (
      self->connection, LOGIND_NAME, LOGIND_PATH, LOGIND_INTERFACE, "Inhibit",
      g_variant_new ("(ssss)", "sleep", "llmsvc", "Writing contexts to storage", "delay"),
      G_VARIANT_TYPE ("(h)"), G_DBUS_CALL_FLAGS_NO_AUTO_START, CALL_TIMEOUT_MS, NULL,
      self->cancellable, on_locked, self);
}

typedef struct
{
  LlmBusPower *power;         /* (unowned): not after @cancellable was cancelled */
  GCancellable *cancellable;
  guint number;
} Suspend;

static void
on_suspended (GObject      *object,
              GAsyncResult *result,
              gpointer      data)
{
  Suspend *suspend = data;
  g_autoptr(GError) error = NULL;

  if (!llm_engine_suspend_finish (LLM_ENGINE (object), result, &error))
    g_message ("Not all was written before the machine sleeps: %s", error->message);
  if (!g_cancellable_is_cancelled (suspend->cancellable) && suspend->power->is_suspending &&
      suspend->power->n_suspends == suspend->number)
    release_lock (suspend->power);
  g_object_unref (suspend->cancellable);
  g_free (suspend);
}

static void
begin_sleep (LlmBusPower *self)
{
  Suspend *suspend;

  if (self->is_suspending)
    return;
  self->is_suspending = TRUE;
  suspend = g_new (Suspend, 1);
  *suspend = (Suspend) { self, g_object_ref (self->cancellable), ++self->n_suspends };
  llm_engine_suspend_async (self->engine, on_suspended, suspend);
}

static void
end_sleep (LlmBusPower *self)
{
  if (!self->is_suspending)
    return;
  self->is_suspending = FALSE;
  llm_engine_resume (self->engine);
  if (self->has_logind && self->lock < 0)
    take_lock (self);
}

static void
on_prepare_for_sleep (GDBusConnection *connection,
                      const char      *sender,
                      const char      *path,
                      const char      *interface,
                      const char      *signal,
                      GVariant        *arguments,
                      gpointer         data)
{
  gboolean begins;

  if (!g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(b)")))
    return;
  g_variant_get (arguments, "(b)", &begins);
  if (begins)
    begin_sleep (data);
  else
    end_sleep (data);
}

static void
on_logind_appeared (GDBusConnection *connection,
                    const char      *name,
                    const char      *owner,
                    gpointer         data)
{
  LlmBusPower *self = data;

  self->has_logind = TRUE;
  take_lock (self);
}

/* Nobody is there to say that the machine is awake again. */
static void
on_logind_vanished (GDBusConnection *connection,
                    const char      *name,
                    gpointer         data)
{
  LlmBusPower *self = data;

  self->has_logind = FALSE;
  release_lock (self);
  end_sleep (self);
}

/* --- the bus --- */

static void
watch_all (LlmBusPower *self)
{
  for (guint i = 0; i < N_SOURCES; i++)
    watch_source (self, i);
  self->logind_subscription = g_dbus_connection_signal_subscribe (
      self->connection, LOGIND_NAME, LOGIND_INTERFACE, "PrepareForSleep", LOGIND_PATH, NULL,
      G_DBUS_SIGNAL_FLAGS_NONE, on_prepare_for_sleep, self, NULL);
  self->logind_watch = g_bus_watch_name_on_connection (self->connection, LOGIND_NAME,
                                                       G_BUS_NAME_WATCHER_FLAGS_NONE,
                                                       on_logind_appeared, on_logind_vanished, self,
                                                       NULL);
}

static void
on_connected (GObject      *object,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GDBusConnection) connection = g_dbus_connection_new_for_address_finish (result, &error);
  LlmBusPower *self = data;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  if (connection == NULL)
    {
      g_debug ("There is no system bus to hear about power from: %s", error->message);
      read_supply (self);
      return;
    }
  self->connection = g_steal_pointer (&connection);
  watch_all (self);
}

/* A connection of its own: the shared one ends the process when the bus goes. */
static void
look_for_bus (LlmBusPower *self)
{
  g_autoptr(GError) error = NULL;
  g_autofree char *address = g_dbus_address_get_for_bus_sync (G_BUS_TYPE_SYSTEM, NULL, &error);

  if (address == NULL)
    {
      g_debug ("There is no system bus: %s", error->message);
      read_supply (self);
      return;
    }
  g_dbus_connection_new_for_address (address,
                                     G_DBUS_CONNECTION_FLAGS_AUTHENTICATION_CLIENT |
                                         G_DBUS_CONNECTION_FLAGS_MESSAGE_BUS_CONNECTION,
                                     NULL, self->cancellable, on_connected, self);
}

LlmBusPower *
llm_bus_power_watch (LlmEngine       *engine,
                     GDBusConnection *connection,
                     const char      *root)
{
  LlmBusPower *self = g_new0 (LlmBusPower, 1);

  self->engine = g_object_ref (engine);
  self->cancellable = g_cancellable_new ();
  self->root = g_strdup (root);
  self->lock = -1;
  for (guint i = 0; i < N_SOURCES; i++)
    {
      self->sources[i].power = self;
      self->sources[i].kind = i;
    }
  if (connection != NULL)
    {
      self->connection = g_object_ref (connection);
      watch_all (self);
    }
  else
    {
      look_for_bus (self);
    }
  return self;
}

void
llm_bus_power_unwatch (LlmBusPower *self)
{
  if (self == NULL)
    return;

  g_cancellable_cancel (self->cancellable);
  for (guint i = 0; i < N_SOURCES && self->connection != NULL; i++)
    {
      g_dbus_connection_signal_unsubscribe (self->connection, self->sources[i].subscription);
      g_bus_unwatch_name (self->sources[i].watch);
    }
  if (self->connection != NULL)
    {
      g_dbus_connection_signal_unsubscribe (self->connection, self->logind_subscription);
      g_bus_unwatch_name (self->logind_watch);
    }
  g_clear_handle_id (&self->supply_timer, g_source_remove);
  release_lock (self);
  g_clear_object (&self->connection);
  g_object_unref (self->cancellable);
  g_object_unref (self->engine);
  g_free (self->root);
  g_free (self);
}
