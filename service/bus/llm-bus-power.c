/* SPDX-License-Identifier: LGPL-2.1-or-later */

#define G_LOG_DOMAIN "llm-bus"

#include "bus/llm-bus-power.h"

#include <gio/gunixfdlist.h>
#include <unistd.h>

#include "base/llm-sysinfo.h"

/* Other services get this time to answer; a slow one is not waited for. */
#define CALL_TIMEOUT_MS 10000
/* Without UPower: how often the kernel is asked, where there is a battery. */
#define SUPPLY_INTERVAL_S 30

/* Other services, followed while they are there. */
typedef enum
{
  SOURCE_BATTERY,
  SOURCE_PROFILE,
  SOURCE_OLD_PROFILE,   /* the same daemon under its first name, the only one that GIO knows */
  SOURCE_LOGIND,
  N_SOURCES
} SourceKind;

static const struct
{
  const char *name;
  const char *path;
  const char *interface;
  const char *property;   /* (nullable) */
  const char *meant;      /* (nullable): its value that means something here */
} sources[N_SOURCES] = {
  { "org.freedesktop.UPower", "/org/freedesktop/UPower", "org.freedesktop.UPower", "OnBattery",
    "true" },
  { "org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles",
    "org.freedesktop.UPower.PowerProfiles", "ActiveProfile", "'power-saver'" },
  { "net.hadess.PowerProfiles", "/net/hadess/PowerProfiles", "net.hadess.PowerProfiles",
    "ActiveProfile", "'power-saver'" },
  { "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager", NULL,
    NULL },
};

typedef struct
{
  LlmBusPower *power;        /* (unowned) */
  SourceKind kind;
  GDBusProxy *proxy;         /* (owned) (nullable): NULL until it is made */
} Source;

/* Reference-counted: by its owner, and while the engine writes. */
struct _LlmBusPower
{
  LlmEngine *engine;
  GCancellable *cancellable;
  GDBusConnection *connection;   /* (nullable) */
  char *root;                    /* (nullable) */
  Source sources[N_SOURCES];
  guint supply_timer;            /* source */
  gboolean is_discharging;       /* as the kernel says */

  gboolean is_suspending;
  guint n_suspends;              /* not yet done */
  int lock;                      /* the machine does not sleep before it is closed; -1: none */
};

static gboolean
has_owner (LlmBusPower *self,
           SourceKind   kind)
{
  GDBusProxy *proxy = self->sources[kind].proxy;
  g_autofree char *owner = proxy != NULL ? g_dbus_proxy_get_name_owner (proxy) : NULL;

  return owner != NULL && !g_dbus_connection_is_closed (self->connection);
}

/* --- batteries and profiles --- */

/* Values of other services are checked: they may differ from their documentation. */
static gboolean
says_so (LlmBusPower *self,
         SourceKind   kind)
{
  g_autoptr(GVariant) value =
    has_owner (self, kind)
      ? g_dbus_proxy_get_cached_property (self->sources[kind].proxy, sources[kind].property)
      : NULL;
  g_autofree char *text = value != NULL ? g_variant_print (value, FALSE) : NULL;

  return g_strcmp0 (text, sources[kind].meant) == 0;
}

static void
update (LlmBusPower *self)
{
  llm_engine_set_power (self->engine,
                        has_owner (self, SOURCE_BATTERY) ? says_so (self, SOURCE_BATTERY)
                                                         : self->is_discharging,
                        says_so (self, SOURCE_PROFILE) || says_so (self, SOURCE_OLD_PROFILE));
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
  self->is_discharging = supply == LLM_SUPPLY_BATTERY;
  update (self);
  if (supply != LLM_SUPPLY_NONE && self->supply_timer == 0 && !has_owner (self, SOURCE_BATTERY))
    self->supply_timer = g_timeout_add_seconds (SUPPLY_INTERVAL_S, on_supply_time, self);
}

static void
run_supply (GTask        *task,
            gpointer      source,
            gpointer      data,
            GCancellable *cancellable)
{
  g_task_return_int (task, llm_sysinfo_read_supply (data));
}

static void
read_supply (LlmBusPower *self)
{
  g_autoptr(GTask) task = g_task_new (NULL, self->cancellable, on_supply_read, self);

  g_task_set_task_data (task, g_strdup (self->root), g_free);
  g_task_run_in_thread (task, run_supply);
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
  g_autoptr(GVariant) reply = g_dbus_proxy_call_with_unix_fd_list_finish (
      G_DBUS_PROXY (object), &fds, result, &error);
  LlmBusPower *self = data;
  int fd = -1;
  int handle;

  if (reply != NULL && fds != NULL && g_variant_is_of_type (reply, G_VARIANT_TYPE ("(h)")))
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
  /* the lock was asked for before, and given after the machine began to sleep, or after logind
   * went */
  if (self->is_suspending || !has_owner (self, SOURCE_LOGIND))
    release_lock (self);
}

static void
take_lock (LlmBusPower *self)
{
  g_dbus_proxy_call_with_unix_fd_list (
      self->sources[SOURCE_LOGIND].proxy, "Inhibit",
      g_variant_new ("(ssss)", "sleep", "llmsvc", "Writing contexts to storage", "delay"),
      G_DBUS_CALL_FLAGS_NO_AUTO_START, CALL_TIMEOUT_MS, NULL, self->cancellable, on_locked, self);
}

static void power_unref (LlmBusPower *self);

static void
on_suspended (GObject      *object,
              GAsyncResult *result,
              gpointer      data)
{
  LlmBusPower *self = data;
  g_autoptr(GError) error = NULL;

  if (!g_task_propagate_boolean (G_TASK (result), &error))
    g_message ("Not all was written before the machine sleeps: %s", error->message);
  self->n_suspends--;
  if (self->is_suspending && self->n_suspends == 0)
    release_lock (self);
  power_unref (self);
}

static void
begin_sleep (LlmBusPower *self)
{
  if (self->is_suspending)
    return;
  self->is_suspending = TRUE;
  self->n_suspends++;
  llm_engine_suspend_async (self->engine, on_suspended, g_rc_box_acquire (self));
}

static void
end_sleep (LlmBusPower *self)
{
  if (!self->is_suspending)
    return;
  self->is_suspending = FALSE;
  llm_engine_resume (self->engine);
  if (has_owner (self, SOURCE_LOGIND) && self->lock < 0)
    take_lock (self);
}

static void
on_logind_signal (GDBusProxy *proxy,
                  const char *sender,
                  const char *signal,
                  GVariant   *arguments,
                  gpointer    data)
{
  gboolean begins;

  if (!g_str_equal (signal, "PrepareForSleep") ||
      !g_variant_is_of_type (arguments, G_VARIANT_TYPE ("(b)")))
    return;
  g_variant_get (arguments, "(b)", &begins);
  if (begins)
    begin_sleep (data);
  else
    end_sleep (data);
}

/* Without logind, the service would not hear that the machine is awake again. */
static void
follow_logind (LlmBusPower *self)
{
  if (has_owner (self, SOURCE_LOGIND))
    {
      take_lock (self);
      return;
    }
  release_lock (self);
  end_sleep (self);
}

/* --- the bus --- */

static void
on_owner_changed (GDBusProxy *proxy,
                  GParamSpec *spec,
                  Source     *source)
{
  LlmBusPower *self = source->power;

  if (source->kind == SOURCE_LOGIND)
    follow_logind (self);
  else if (source->kind == SOURCE_BATTERY && !has_owner (self, SOURCE_BATTERY))
    read_supply (self);
  else if (source->kind == SOURCE_BATTERY)
    g_clear_handle_id (&self->supply_timer, g_source_remove);
  update (self);
}

static void
on_proxy (GObject      *object,
          GAsyncResult *result,
          gpointer      data)
{
  g_autoptr(GError) error = NULL;
  GDBusProxy *proxy = g_dbus_proxy_new_finish (result, &error);
  Source *source = data;

  if (proxy == NULL)
    {
      if (!g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
        g_debug ("%s can't be followed: %s", sources[source->kind].name, error->message);
      return;
    }
  source->proxy = proxy;
  g_signal_connect (proxy, "notify::g-name-owner", G_CALLBACK (on_owner_changed), source);
  g_signal_connect_swapped (proxy, "g-properties-changed", G_CALLBACK (update), source->power);
  if (source->kind == SOURCE_LOGIND)
    g_signal_connect (proxy, "g-signal", G_CALLBACK (on_logind_signal), source->power);
  on_owner_changed (proxy, NULL, source);
}

static void
on_closed (LlmBusPower *self)
{
  for (guint i = 0; i < N_SOURCES; i++)
    if (self->sources[i].proxy != NULL)
      on_owner_changed (self->sources[i].proxy, NULL, &self->sources[i]);
}

static void
watch_all (LlmBusPower     *self,
           GDBusConnection *connection)
{
  self->connection = g_object_ref (connection);
  g_signal_connect_swapped (connection, "closed", G_CALLBACK (on_closed), self);
  for (guint i = 0; i < N_SOURCES; i++)
    g_dbus_proxy_new (connection,
                      G_DBUS_PROXY_FLAGS_DO_NOT_AUTO_START |
                        (sources[i].property != NULL
                           ? G_DBUS_PROXY_FLAGS_GET_INVALIDATED_PROPERTIES
                           : G_DBUS_PROXY_FLAGS_DO_NOT_LOAD_PROPERTIES),
                      NULL, sources[i].name, sources[i].path, sources[i].interface,
                      self->cancellable, on_proxy, &self->sources[i]);
}

static void
on_connected (GObject      *object,
              GAsyncResult *result,
              gpointer      data)
{
  g_autoptr(GError) error = NULL;
  g_autoptr(GDBusConnection) connection = g_bus_get_finish (result, &error);
  LlmBusPower *self = data;

  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    return;
  if (connection == NULL)
    {
      g_debug ("There is no system bus to hear about power from: %s", error->message);
      read_supply (self);
      return;
    }
  g_dbus_connection_set_exit_on_close (connection, FALSE);
  watch_all (self, connection);
}

LlmBusPower *
llm_bus_power_watch (LlmEngine       *engine,
                     GDBusConnection *connection,
                     const char      *root)
{
  LlmBusPower *self = g_rc_box_new0 (LlmBusPower);

  self->engine = g_object_ref (engine);
  self->cancellable = g_cancellable_new ();
  self->root = g_strdup (root);
  self->lock = -1;
  for (guint i = 0; i < N_SOURCES; i++)
    self->sources[i] = (Source) { .power = self, .kind = i };
  if (connection != NULL)
    watch_all (self, connection);
  else
    g_bus_get (G_BUS_TYPE_SYSTEM, self->cancellable, on_connected, self);
  return self;
}

static void
clear_power (gpointer data)
{
  LlmBusPower *self = data;

  g_clear_object (&self->connection);
  g_object_unref (self->cancellable);
  g_object_unref (self->engine);
  g_free (self->root);
}

static void
power_unref (LlmBusPower *self)
{
  g_rc_box_release_full (self, clear_power);
}

void
llm_bus_power_unwatch (LlmBusPower *self)
{
  if (self == NULL)
    return;

  g_cancellable_cancel (self->cancellable);
  for (guint i = 0; i < N_SOURCES; i++)
    if (self->sources[i].proxy != NULL)
      {
        g_signal_handlers_disconnect_by_data (self->sources[i].proxy, &self->sources[i]);
        g_signal_handlers_disconnect_by_data (self->sources[i].proxy, self);
        g_clear_object (&self->sources[i].proxy);
      }
  if (self->connection != NULL)
    g_signal_handlers_disconnect_by_data (self->connection, self);
  g_clear_handle_id (&self->supply_timer, g_source_remove);
  release_lock (self);
  power_unref (self);
}
